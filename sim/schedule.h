/* schedule.h - schedules that are hard to meet by chance, made on purpose: `lockstep sim --schedule NAME`.
 *
 * Each was found by walking the protocol by hand. A schedule waits for messages, not for times or
 * seeds, so it is the same whatever the network's seed. Each ends with every answer right, every
 * lease back, every attempt ended once and fenced once (world_finish), and says on the way what its
 * row below promises.
 */
#ifndef SIM_SCHEDULE_H
#define SIM_SCHEDULE_H

#include "actors/decode/decode.h"
#include "actors/gateway/gateway.h"
#include "actors/prefill/prefill.h"
#include "actors/supervisor/supervisor.h"
#include "sim/coverage.h"
#include "sim/oracle.h"
#include "messages/message.h"

/*    name                     topology   what must happen */
#define SCHEDULE_TABLE(S)                                                                          \
    S(abort_between_pieces, "default",                                                             \
      "ABORT comes to decode between two pieces: it is ending; a later piece is dropped")          \
    S(abort_crosses_end, "default",                                                                \
      "ABORT crosses END: it meets no attempt; the gateway keeps the first end that it saw")       \
    S(last_token_with_a_step_sent, "tp2",                                                          \
      "the end token comes with the next step sent: leases return when all ranks are done with "   \
      "it")                                                                                        \
    S(client_leaves_while_queued, "default",                                                       \
      "clients leave while their requests wait: nothing of them is left")                          \
    S(decode_leader_dies_while_ranks_pull, "8-devices",                                            \
      "every page is in quarantine until all ranks have quiesced; replay")                         \
    S(transfer_dies_in_mid_hand_over, "8-devices",                                                 \
      "it moved no byte: its attempts end as lost, no group reforms; replay")                      \
    S(source_rank_dies_during_a_pull, "tp2",                                                       \
      "its group reforms, the reader's does not; replay, and nobody is a suspect")                 \
    S(reader_dies_during_a_pull, "tp2",                                                            \
      "its exit ends the source's lease; the source's group does not reform; replay")              \
    S(prefill_rank_dies_in_a_collective, "8-devices",                                              \
      "the group reforms, its prefix index is gone; replay computes all again")                    \
    S(rank_does_not_quiesce, "8-devices",                                                          \
      "its leader has it killed, and goes on with its next life")                                  \
    S(old_epoch_is_in_flight, "tp2",                                                               \
      "results of the old epoch are nothing to the new one; pages are refused by generation")      \
    S(gateway_is_reaped_with_a_word_under_way, "default",                                          \
      "what it asked is nothing to its supervisor, though nobody was there to be told of its end") \
    S(gateway_dies, "default", "its attempts end everywhere, and their memory is free")            \
    S(scheduler_restarts_under_load, "default", "running streams do not notice")                   \
    S(late_end_of_an_earlier_attempt, "default",                                                   \
      "END of attempt 1 comes when attempt 2 is submitted: it is stale")                           \
    S(stopped_rank_is_killed, "tp2", "it is dead before its group goes on; nobody is a suspect")   \
    S(stopped_rank_is_waited_for, "tp2", "a shorter stop ends nothing")                            \
    S(stopped_leader_is_replaced, "tp2",                                                           \
      "never two leaders: the next life starts behind the last")                                   \
    S(everything_stops_for_30_seconds, "8-devices", "nobody is killed and nothing is replayed")    \
    S(exactly_512_cached_tokens, "default",                                                        \
      "the last token is computed, so one page is used; no shared page is written")                \
    S(two_miss_the_same_prefix_at_once, "default",                                                 \
      "both compute into pages of their own, and a third finds one of them")                       \
    S(hot_prefix_under_pressure, "default",                                                        \
      "4 places for borders and 40 prompts of one beginning: all but the first one find it")       \
    S(two_prompts_of_more_than_half_the_pool, "default",                                           \
      "all or nothing: one runs, the other holds no page")                                         \
    S(retractions_in_turn, "default",                                                              \
      "who loses its pages comes back as old as it was; the oldest always advances")               \
    S(poisoned_prompt, "8-devices",                                                                \
      "charged twice while alone, then ended as poisoned; the 63 others are answered")             \
    S(poisoned_prompt_and_no_supervisor, "two-decodes",                                            \
      "its leader hears of each death from the next life only, which knows why: as poisoned")      \
    S(prompt_crashes_its_leader, "default",                                                        \
      "two crashes are chance, two more while apart end it as poisoned; the others are answered")  \
    S(killed_while_alone, "default", "a death by a signal from outside charges nobody")            \
    S(gateway_stops_under_1024_streams, "default",                                                 \
      "one TOKENS waits for it, however much it holds; no step waits")                             \
    S(ring_of_full_mailboxes, "default",                                                           \
      "with a credit of one, requests fill the ring of actors: replies drain it")                  \
    S(decode_joins_late, "two-decodes",                                                            \
      "joining is the same as starting: the first transfer comes after its pair was tested")       \
    S(restarts_end_in_degraded, "two-decodes",                                                     \
      "what dies again and again stays down, and is said to; the others go on")                    \
    S(all_decode_groups_end_degraded, "two-decodes",                                               \
      "whoever waits, streams or comes is told that none is left; nothing of them stays")          \
    S(pages_wait_for_a_paused_copy, "default",                                                     \
      "P1 P3 P14: aborted in mid copy; nobody gets the pages of either side before it is over")    \
    S(prefill_leader_dies_with_5_in_transfer, "default",                                           \
      "P10: those five are replayed; decode does not notice and serves the next one")              \
    S(three_hundred_through_unequal_groups, "unequal",                                             \
      "P11 T6: every page of every request is the right one, in whatever order copies end")        \
    S(thousand_at_once_with_jitter, "default",                                                     \
      "P13: with 10 ms of jitter none fails, none is refused")                                     \
    S(leader_dies_20_times, "default",                                                             \
      "P16: under traffic; nothing of an ended life is taken, each next one works")                \
    S(source_dies_while_it_is_mapped, "tp2",                                                       \
      "P18: the one that maps goes on; the next life is mapped instead")                           \
    S(retracted_then_aborted, "default",                                                           \
      "P27 P30: ten retractions, then all leave: all is free, and the next one finds it so")       \
    S(two_hundred_aborts_in_a_second, "8-devices",                                                 \
      "T5: at any stage; all ranks do the same steps, and all is free")                            \
    S(piece_meets_a_transfer_that_drains, "default",                                               \
      "it comes behind the ABORT, while a copy stands still: it is dropped, and said to be")       \
    S(fenced_overtakes_end, "tp2",                                                                 \
      "the transfer is done with it before prefill hears from decode that it has ended")           \
    S(pulled_comes_behind_a_new_epoch, "tp2",                                                      \
      "its attempt has ended with the epoch: it is nothing to the transfer")                       \
    S(next_life_is_asked_to_pull, "default",                                                       \
      "decode does not know yet that its rank died: the next life answers that it is stale")       \
    S(epoch_ends_while_a_pool_is_mapped, "tp2", "who waits for it is gone, or in a new epoch")     \
    S(prefill_leaves_while_others_die, "tp2",                                                      \
      "it hears of groups that form again, forms again itself, and is empty then")                 \
    S(decode_leaves_while_others_die, "tp2",                                                       \
      "likewise; and its ranks answer for the transfer's copies")                                  \
    S(room_comes_to_prefill_that_leaves, "default", "it has nobody left that waits for it")        \
    S(client_comes_as_it_closes, "default", "it came a moment too late, and is told so")           \
    S(others_die_while_it_closes, "two-decodes",                                                   \
      "a scheduler that dies and stands still, a rank that stays down: a stream goes on")          \
    S(ranks_differ_while_it_closes, "tp2", "its group forms again, without one that does not")     \
    S(words_wait_behind_stop, "tp2", "nobody is killed or looked into any more: all end")          \
    S(child_of_another_host_comes_back, "64-devices",                                              \
      "a supervisor that nobody tells of its end learns it from its next life")

typedef struct {
    topology_t topology; /* a copy, to be changed before play_begin */
    /* the first of each kind */
    actor_id_t supervisor, gateway, scheduler, prefill, decode, transfer;
    world_config_t config;
    world_request_t requests[WORLD_CLIENTS_MAX];
    world_t *world;
} play_t;

typedef struct {
    const char *name; /* "abort-between-pieces" */
    const char *topology;
    const char *text;
    void (*play)(play_t *play);
} schedule_t;

extern const schedule_t schedules[];
extern const uint32_t schedule_count;

/* NULL: there is none of this name. */
const schedule_t *schedule_find(const char *name);
/* Plays it to its end; `violation` says what did not hold, or is empty. Fails only if its topology
 * does not load. `trace` and `coverage` may be NULL. */
MUST_USE status_t schedule_play(const schedule_t *schedule, uint64_t seed, FILE *trace,
                                coverage_t *coverage, char violation[WORLD_VIOLATION_BYTES]);

/* ---- for plays: what fails is the violation, and the play is over ------------------------------ */

#define EXPECT(play, condition)                                                                    \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            world_violate((play)->world, "schedule: line %d: not %s", __LINE__, #condition);       \
            return;                                                                                \
        }                                                                                          \
    } while (0)

#define EXPECT_EQUAL(play, a, b)                                                                   \
    do {                                                                                           \
        unsigned long long found_ = (unsigned long long)(a), want_ = (unsigned long long)(b);      \
                                                                                                   \
        if (found_ != want_) {                                                                     \
            world_violate((play)->world, "schedule: line %d: %s is %llu, not %llu", __LINE__, #a,  \
                          found_, want_);                                                          \
            return;                                                                                \
        }                                                                                          \
    } while (0)

/* `call` is one of those below that go on with the run. */
#define GO(call)                                                                                   \
    do {                                                                                           \
        if (!(call))                                                                               \
            return;                                                                                \
    } while (0)

enum { PLAY_READY_US = 150000, PLAY_SECOND_US = 1000000 };

/* One more request; returns it, to be changed before play_begin. */
world_request_t *play_ask(play_t *play, uint64_t arrives_us, uint32_t prompt_tokens,
                          uint32_t output_tokens_max);
void play_begin(play_t *play);
/* Until that actor has handled that message; which is world_last then. */
bool play_to(play_t *play, actor_id_t actor, uint16_t message);
bool play_for(play_t *play, uint64_t us);
/* Until every client has its end. */
bool play_to_ends(play_t *play);

actor_id_t play_actor(const play_t *play, actor_kind_t kind, uint16_t instance);
actor_id_t play_rank(const play_t *play, actor_kind_t leader, uint16_t instance, uint16_t rank);
incarnation_t play_life(const play_t *play, actor_id_t actor);
/* True if that attempt of the n-th request (from 1) that the first gateway admitted is in that
 * state there. */
bool play_is(const play_t *play, actor_id_t actor, uint32_t n, uint32_t attempt, const char *state);
/* Messages of that kind that the tables of that actor have refused in its life. */
uint64_t play_refused(const play_t *play, actor_id_t actor, uint16_t message);
/* Its supervisor has given it up. */
bool play_is_degraded(const play_t *play, actor_id_t actor);
/* Of instance 0. */
const gateway_counts_t *play_gateway(const play_t *play);
const leader_counts_t *play_prefill(const play_t *play);
const leader_counts_t *play_decode(const play_t *play);

#define SCHEDULE_PLAY(name, topology, text) void play_##name(play_t *play);
SCHEDULE_TABLE(SCHEDULE_PLAY)
#undef SCHEDULE_PLAY

#endif

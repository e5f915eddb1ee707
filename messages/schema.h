/* schema.h - every message of Lockstep, each defined once.
 *
 * From these rows come the structs (message.h), the descriptor table (message.c) that encodes, decodes, compares,
 * prints and generates, and docs/messages.md. On the wire a body is a msgpack array of the fields in this order.
 *
 * Adding a field: at the end of its row; a decoder takes missing trailing fields as zero and skips further ones.
 * Adding a message: a row at the end of MESSAGE_TABLE, its fields in MESSAGE_FIELDS_TABLE, and MESSAGE_COUNT.
 * Removing one: its row goes and its id is listed in MESSAGE_RETIRED_TABLE; an id is never used again.
 *
 * Words: an *attempt* is {request, attempt}: a request's try, counted by its gateway. *Opening*: the first message
 * about an attempt that an actor gets (SUBMIT, RESERVE, OPEN, the first KV_READY, the first PULL). Each opening gets
 * exactly one FENCED, from the opened to the opener, when no byte of it moves any more and its memory is free there.
 *
 * Macros: F(record, type, name, limit, meaning)  a field of a plain type; `token` and `tokens` are u32 and u32s that
 *                                                hold token ids, which no log, tap or journal shows unless told to;
 *                                                `actor` is a u16, an actor of the kinds that stand as its limit, or
 *                                                ACTOR_NONE: another one does not decode
 *         R(record, inner, name, meaning)        one nested record
 *         I(record, inner, name, limit, meaning) a list of records
 */
#ifndef MESSAGES_SCHEMA_H
#define MESSAGES_SCHEMA_H

#include "runtime/base/limits.h"

/* ---- records inside messages --------------------------------------------------------------------------------- */

#define SAMPLING_FIELDS(F, R, I, r)                                                                                    \
    F(r, u64, seed, 0, "with the position the only source of chance")                                                  \
    F(r, f32, temperature, 0, "0: greedy")                                                                             \
    F(r, f32, top_p, 0, "1: off")                                                                                      \
    F(r, f32, min_p, 0, "0: off")                                                                                      \
    F(r, f32, presence_penalty, 0, "0: off")                                                                           \
    F(r, f32, frequency_penalty, 0, "0: off")                                                                          \
    F(r, f32, repetition_penalty, 0, "1: off")                                                                         \
    F(r, u32, top_k, 0, "0: off")                                                                                      \
    F(r, u32, logprobs, 0, "0: none; n + 1: of the token and of the n best")                                           \
    F(r, u32s, bias_tokens, LOGIT_BIAS_MAX, "token ids")                                                               \
    F(r, f32s, bias_values, LOGIT_BIAS_MAX, "added to their logits")

#define LIMITS_FIELDS(F, R, I, r)                                                                                      \
    F(r, u32, output_tokens_max, 0, "stop after this many tokens, forced ones included")                               \
    F(r, u8, ignore_eos, 0, "1: the end token does not end it")                                                        \
    F(r, u32s, stop_tokens, STOP_STRINGS_MAX, "token ids that end it, beside the end token")

#define SENIORITY_FIELDS(F, R, I, r)                                                                                   \
    F(r, u64, admitted_ms, 0, "when its gateway admitted the request; never changes")                                  \
    F(r, u32, gateway, 0, "actor id")                                                                                  \
    F(r, u64, counter, 0, "of that gateway")

#define TOKEN_FIELDS(F, R, I, r)                                                                                       \
    F(r, token, token, 0, "id")                                                                                        \
    F(r, f32, logprob, 0, "natural, before temperature; 0 if not asked for")                                           \
    F(r, tokens, top_tokens, LOGPROBS_MAX, "most likely first")                                                        \
    F(r, f32s, top_logprobs, LOGPROBS_MAX, "of top_tokens")

#define TOKENS_ITEM_FIELDS(F, R, I, r)                                                                                 \
    F(r, u64, request, 0, "attempt")                                                                                   \
    F(r, u32, attempt, 0, "attempt")                                                                                   \
    F(r, u32, first, 0, "index of the first token here, from 0 at the first token of the answer")                      \
    I(r, token, tokens, TOKENS_ITEM_MAX, "from the first unacknowledged one")

#define POOL_FIELDS(F, R, I, r)                                                                                        \
    F(r, actor, rank, RNK, "whose it is")                                                                              \
    F(r, u32, incarnation, 0, "of the rank")                                                                           \
    F(r, text, name, POOL_NAME_BYTES_MAX, "shared memory object")                                                      \
    F(r, u64, bytes, 0, "whole size")

#define UNIT_FIELDS(F, R, I, r)                                                                                        \
    F(r, u8, unit, 0, "unit_kind_t: history, border or slot")                                                        \
    F(r, u32, index, 0, "page, border or slot in its pool")                                                            \
    F(r, u64, generation, 0, "epoch and count of its lease")                                                           \
    F(r, u64, digest, 0, "of its bytes without padding")                                                               \
    F(r, u32, rows, 0, "history: token positions filled")

#define PULL_ITEM_FIELDS(F, R, I, r)                                                                                   \
    F(r, u8, unit, 0, "unit_kind_t")                                                                                 \
    F(r, u32, source, 0, "index in the peer's pool")                                                                   \
    F(r, u64, source_generation, 0, "which it must still have before and after the copy")                              \
    F(r, u32, target, 0, "index in the own pool")                                                                      \
    F(r, u64, target_generation, 0, "of the lease; a rank refuses another one")                                        \
    F(r, u32, rows, 0, "history: token positions filled")                                                              \
    F(r, u64, digest, 0, "what the bytes must have on arrival")

#define STEP_ITEM_FIELDS(F, R, I, r)                                                                                   \
    F(r, u8, kind, 0, "device_item_kind_t")                                                                            \
    F(r, u32, slot, 0, "of the group")                                                                                 \
    F(r, u64, request, 0, "attempt, for reports; a rank decides nothing by it")                                        \
    F(r, u32, attempt, 0, "attempt")                                                                                   \
    F(r, u32, position, 0, "OPEN: tokens already there. LOAD, RUN: first token position")                                                 \
    F(r, u32, count, 0, "RUN: tokens")                                                                                 \
    F(r, tokens, tokens, PROMPT_TOKENS_MAX, "RUN: given tokens, or empty: carried from the slot. OPEN: penalty prompt")    \
    F(r, u8, sample, 0, "RUN: draw a token after the last row")                                                        \
    F(r, u8, tail, 0, "RUN: report the open page and the slot")                                                        \
    F(r, u32s, pages, PROMPT_TOKENS_MAX / PAGE_TOKENS + 1, "OPEN, EXTEND: in order")                                   \
    F(r, u64s, generations, PROMPT_TOKENS_MAX / PAGE_TOKENS + 1, "of pages: what readers will check")                  \
    F(r, u64, slot_generation, 0, "OPEN")                                                                              \
    F(r, u32, border, 0, "LOAD")                                                                                       \
    F(r, u32s, border_pages, BORDERS_PER_RUN_MAX, "RUN: page ordinals whose border is kept")                           \
    F(r, u32s, border_targets, BORDERS_PER_RUN_MAX, "where")                                                           \
    F(r, u64s, border_generations, BORDERS_PER_RUN_MAX, "of border_targets")                                           \
    R(r, sampling, sampling, "OPEN")

#define STEP_TOKEN_FIELDS(F, R, I, r)                                                                                  \
    F(r, u32, slot, 0, "whose token it is")                                                                            \
    F(r, u32, item, 0, "index of the RUN in its STEP")                                                                 \
    R(r, token, token, "what was drawn")

#define CLOSED_FIELDS(F, R, I, r)                                                                                      \
    F(r, u8, unit, 0, "unit_kind_t")                                                                                 \
    F(r, u32, index, 0, "in its pool")                                                                                 \
    F(r, u64, digest, 0, "of its bytes")

#define MAILBOX_FIELDS(F, R, I, r)                                                                                     \
    F(r, text, actor, ACTOR_NAME_BYTES_MAX, "name in the topology")                                                    \
    F(r, u32, incarnation, 0, "0: not running")                                                                        \
    F(r, u32, process, 0, "pid")                                                                                       \
    F(r, text, state, STATE_NAME_BYTES_MAX, "of the actor")                                                            \
    F(r, u32, depth, 0, "messages waiting now")                                                                        \
    F(r, u32, depth_max, 0, "high water")                                                                              \
    F(r, u64, oldest_us, 0, "age of the oldest waiting message")                                                       \
    F(r, u64, received, 0, "messages dispatched")                                                                      \
    F(r, u64, refused, 0, "messages that the tables refused")                                                          \
    F(r, u64, malformed, 0, "bodies that did not decode")                                                              \
    F(r, u64, progress, 0, "the progress word")

#define RECORD_TABLE(X)                                                                                                \
    X(sampling, SAMPLING_FIELDS)                                                                                       \
    X(limits, LIMITS_FIELDS)                                                                                           \
    X(seniority, SENIORITY_FIELDS)                                                                                     \
    X(token, TOKEN_FIELDS)                                                                                             \
    X(tokens_item, TOKENS_ITEM_FIELDS)                                                                                 \
    X(pool, POOL_FIELDS)                                                                                               \
    X(unit, UNIT_FIELDS)                                                                                               \
    X(pull_item, PULL_ITEM_FIELDS)                                                                                     \
    X(step_item, STEP_ITEM_FIELDS)                                                                                     \
    X(step_token, STEP_TOKEN_FIELDS)                                                                                   \
    X(closed, CLOSED_FIELDS)                                                                                           \
    X(mailbox, MAILBOX_FIELDS)

/* ---- life of processes --------------------------------------------------------------------------------------- */

#define JOINED_FIELDS(F, R, I, r)                                                                                      \
    F(r, actor, actor, ANYBODY, "who said HELLO")                                                                      \
    F(r, u32, incarnation, 0, "its new life; an earlier one was EXITED before")

#define EXITED_FIELDS(F, R, I, r)                                                                                      \
    F(r, actor, actor, ANYBODY, "who was reaped")                                                                      \
    F(r, u32, incarnation, 0, "which life")                                                                            \
    F(r, u8, cause, 0, "exit_cause_t: clean, failed, crashed, killed outside, killed by us, hung")

#define TICK_FIELDS(F, R, I, r)                                                                                        \
    F(r, u64, now_ms, 0, "time since this life began, without pauses of the machine")                                  \
    F(r, u64, wall_ms, 0, "Unix time; for people and seniority only")

#define STOP_FIELDS(F, R, I, r) F(r, u32, grace_ms, 0, "end running work within this, then exit")

#define KILL_FIELDS(F, R, I, r)                                                                                        \
    F(r, actor, actor, ALL, "whom")                                                                                    \
    F(r, u32, incarnation, 0, "which life; another one is left alone")                                                 \
    F(r, text, reason, REASON_BYTES_MAX, "for the log")

#define INCIDENT_FIELDS(F, R, I, r) F(r, text, reason, REASON_BYTES_MAX, "what went wrong")

#define KEEP_FIELDS(F, R, I, r)                                                                                        \
    F(r, u16, actor, 0, "who it happened to; with a leader, its ranks")                                                \
    F(r, text, reason, REASON_BYTES_MAX, "as in INCIDENT")

#define DRAIN_FIELDS(F, R, I, r)                                                                                       \
    F(r, u16, actor, 0, "leader of the group")                                                                         \
    F(r, u8, on, 0, "1: it takes no new work, and what it has ends or goes elsewhere; 0: it takes work again")         \
    F(r, u8, force, 0, "1: also if no other group of its kind takes work; requests wait then")

#define DRAIN_ANSWER_FIELDS(F, R, I, r)                                                                                \
    F(r, u16, actor, 0, "leader of the group")                                                                         \
    F(r, u8, status, 0, "status_t as a number: OK or REFUSED")                                                         \
    F(r, text, detail, REASON_BYTES_MAX, "why not")

#define DRAINING_FIELDS(F, R, I, r)                                                                                    \
    F(r, u8, on, 0, "as in DRAIN")                                                                                     \
    F(r, u32, grace_ms, 0, "what runs may go on for so long")

#define SPAWN_FIELDS(F, R, I, r)                                                                                       \
    F(r, actor, actor, ALL, "what to start")                                                                           \
    F(r, u32, incarnation, 0, "its life")                                                                              \
    F(r, u8, before, 0, "exit_cause_t: how the life before it ended")

#define GIVEN_UP_FIELDS(F, R, I, r)                                                                                    \
    F(r, actor, actor, ALL, "who has no next life")                                                                    \
    F(r, u32, incarnation, 0, "its last one")

#define DEGRADED_FIELDS(F, R, I, r) F(r, actor, actor, ALL, "who stays down")

#define SIGNAL_FIELDS(F, R, I, r)                                                                                      \
    F(r, actor, actor, ALL, "whose process")                                                                           \
    F(r, u32, incarnation, 0, "which life")                                                                            \
    F(r, u8, hard, 0, "0: ask it to end; 1: SIGKILL")

#define REAPED_FIELDS(F, R, I, r)                                                                                      \
    F(r, actor, actor, ALL, "whose process ended")                                                                     \
    F(r, u32, incarnation, 0, "which life")                                                                            \
    F(r, u8, cause, 0, "exit_cause_t")                                                                                 \
    F(r, u32, code, 0, "exit code or signal")

#define STALLED_FIELDS(F, R, I, r)                                                                                     \
    F(r, actor, actor, ALL, "whose progress word stands still")                                                        \
    F(r, u32, incarnation, 0, "which life")                                                                            \
    F(r, u32, still_ms, 0, "for how long")                                                                             \
    F(r, u8, stopped, 0, "1: a signal stopped it")

/* ---- clients ------------------------------------------------------------------------------------------------- */

#define CLIENT_REQUEST_FIELDS(F, R, I, r)                                                                              \
    F(r, u64, client, 0, "names the request between gateway and port")                                                 \
    F(r, tokens, prompt, PROMPT_TOKENS_MAX, "token ids")                                                               \
    R(r, sampling, sampling, "how to draw")                                                                            \
    R(r, limits, limits, "when to end")                                                                                \
    F(r, u64, salt, 0, "of the tenant: prefixes are shared only within it")                                            \
    F(r, u32, deadline_ms, 0, "0: none; from now")

#define CLIENT_ABORT_FIELDS(F, R, I, r)                                                                                \
    F(r, u64, client, 0, "which")                                                                                      \
    F(r, u8, reason, 0, "end_reason_t: ABORTED (gone) or STOPPED (a stop string was met)")

#define CLIENT_TOKENS_FIELDS(F, R, I, r)                                                                               \
    F(r, u64, client, 0, "which")                                                                                      \
    F(r, u32, first, 0, "index of the first token here")                                                               \
    I(r, token, tokens, TOKENS_ITEM_MAX, "new ones, in order, each once")

#define CLIENT_END_FIELDS(F, R, I, r)                                                                                  \
    F(r, u64, client, 0, "which; nothing follows")                                                                     \
    F(r, u8, reason, 0, "end_reason_t")                                                                                \
    F(r, u32, token_count, 0, "all tokens of the answer")                                                              \
    F(r, u32, cached_tokens, 0, "of the prompt, found in the prefix cache")                                            \
    F(r, u32, retry_ms, 0, "OVERLOADED: try again after this")                                                         \
    F(r, text, detail, REASON_BYTES_MAX, "what a client should know, or empty")

#define CLIENT_POISONED_FIELDS(F, R, I, r)                                                                             \
    F(r, u64, client, 0, "whose request; its CLIENT_END follows")                                                      \
    F(r, u64, request, 0, "as its gateway names it")                                                                   \
    F(r, u32, attempts, 0, "so many were begun")                                                                       \
    F(r, tokens, prompt, PROMPT_TOKENS_MAX, "token ids")                                                               \
    F(r, tokens, received, OUTPUT_TOKENS_MAX, "tokens of the answer so far")                                           \
    R(r, sampling, sampling, "how to draw")                                                                            \
    R(r, limits, limits, "when to end")                                                                                \
    F(r, u64, salt, 0, "of the tenant")

/* ---- gateway and scheduler ----------------------------------------------------------------------------------- */

#define ROUTE_FIELDS(F, R, I, r)                                                                                       \
    F(r, u64, request, 0, "attempt")                                                                                   \
    F(r, u32, attempt, 0, "attempt")                                                                                   \
    R(r, seniority, seniority, "of the request")                                                                       \
    F(r, u64s, keys, PROMPT_TOKENS_MAX / PAGE_TOKENS, "page keys of the prompt's whole pages, in order")               \
    F(r, u32, prompt_tokens, 0, "count")                                                                               \
    F(r, u32, total_tokens_max, 0, "prompt and longest answer")                                                        \
    F(r, u8, replay, 0, "1: admitted before, never refused for load")

#define ROUTED_FIELDS(F, R, I, r)                                                                                      \
    F(r, u64, request, 0, "attempt")                                                                                   \
    F(r, u32, attempt, 0, "attempt")                                                                                   \
    F(r, u8, outcome, 0, "route_outcome_t: ok, overloaded, too large, no instance")                                    \
    F(r, actor, prefill, PRE, "leader")                                                                                \
    F(r, actor, decode, DEC, "leader")                                                                                 \
    F(r, actor, transfer, TRF, "who hands over")                                                                       \
    F(r, u32, limit, 0, "TOO_LARGE: tokens that fit")

#define INSTANCE_FIELDS(F, R, I, r)                                                                                    \
    F(r, u8, ready, 0, "1: takes requests")                                                                            \
    F(r, u64, epoch, 0, "of the group")                                                                                \
    F(r, u32, pages, 0, "in all")                                                                                      \
    F(r, u32, pages_free, 0, "free or only cached")                                                                    \
    F(r, u32, slots, 0, "in all")                                                                                      \
    F(r, u32, slots_free, 0, "free")                                                                                   \
    F(r, u32, queued, 0, "attempts that wait for pages or a turn")                                                     \
    F(r, u32, running, 0, "attempts with a slot")                                                                      \
    F(r, u64, queued_tokens, 0, "prompt tokens not yet run")                                                           \
    F(r, u64, opened, 0, "attempts opened in this life")

/* ---- an attempt ---------------------------------------------------------------------------------------------- */

#define SUBMIT_FIELDS(F, R, I, r)                                                                                      \
    F(r, u64, request, 0, "attempt")                                                                                   \
    F(r, u32, attempt, 0, "attempt")                                                                                   \
    R(r, seniority, seniority, "of the request")                                                                       \
    F(r, actor, decode, DEC, "leader that will decode")                                                                \
    F(r, actor, transfer, TRF, "who hands over")                                                                       \
    F(r, u8, alone, 0, "1: a suspect; runs in steps of its own")                                                       \
    F(r, u64, salt, 0, "of the tenant")                                                                                \
    F(r, tokens, prompt, PROMPT_TOKENS_MAX, "token ids; they travel here and nowhere else")                            \
    F(r, tokens, forced, OUTPUT_TOKENS_MAX, "tokens of the answer that the client already has")                        \
    R(r, sampling, sampling, "how to draw")                                                                            \
    R(r, limits, limits, "when to end")

#define ATTEMPT_FIELDS(F, R, I, r)                                                                                     \
    F(r, u64, request, 0, "attempt")                                                                                   \
    F(r, u32, attempt, 0, "attempt")

#define ABORT_FIELDS(F, R, I, r)                                                                                       \
    ATTEMPT_FIELDS(F, R, I, r)                                                                                         \
    F(r, u8, reason, 0, "end_reason_t")

#define TOKENS_FIELDS(F, R, I, r) I(r, tokens_item, items, TOKENS_ITEMS_MAX, "every attempt of that gateway with news")

#define END_FIELDS(F, R, I, r)                                                                                         \
    ATTEMPT_FIELDS(F, R, I, r)                                                                                         \
    F(r, u8, reason, 0, "end_reason_t")                                                                                \
    F(r, u32, token_count, 0, "tokens of the answer up to here, forced ones included")                                 \
    F(r, u32, cached_tokens, 0, "of the prompt, found in the prefix cache")                                            \
    F(r, u8, suspect, 0, "1: a step that named it did not end; run it alone")                                          \
    F(r, u8, charge, 0, "1: it was alone in that step")                                                                \
    F(r, text, detail, REASON_BYTES_MAX, "for the log and the client")

#define RESERVE_FIELDS(F, R, I, r)                                                                                     \
    ATTEMPT_FIELDS(F, R, I, r)                                                                                         \
    R(r, seniority, seniority, "of the request")                                                                       \
    F(r, actor, gateway, GTW, "who gets TOKENS")                                                                       \
    F(r, actor, transfer, TRF, "who hands over")                                                                       \
    F(r, u8, alone, 0, "as in SUBMIT")                                                                                 \
    F(r, u32, prompt_tokens, 0, "count")                                                                               \
    F(r, tokens, forced, OUTPUT_TOKENS_MAX, "as in SUBMIT")                                                            \
    F(r, tokens, penalty_prompt, PROMPT_TOKENS_MAX, "the prompt, only if the repetition penalty needs it")             \
    R(r, sampling, sampling, "how to draw")                                                                            \
    R(r, limits, limits, "when to end")                                                                                \
    F(r, u32, cached_tokens, 0, "of the prompt, found in prefill's cache")

#define OPEN_FIELDS(F, R, I, r)                                                                                        \
    ATTEMPT_FIELDS(F, R, I, r)                                                                                         \
    F(r, actor, prefill, PRE, "leader that will send KV_READY")                                                        \
    F(r, u32s, pages, PROMPT_TOKENS_MAX / PAGE_TOKENS + 1, "where history goes, for the whole prompt")                 \
    F(r, u64s, generations, PROMPT_TOKENS_MAX / PAGE_TOKENS + 1, "of pages")                                           \
    F(r, u32, slot, 0, "where the slot goes")                                                                          \
    F(r, u64, slot_generation, 0, "of slot")                                                                           \
    F(r, u64, epoch, 0, "of the decode group: pulls wait for TARGETS of it")

#define LANDED_FIELDS(F, R, I, r)                                                                                      \
    ATTEMPT_FIELDS(F, R, I, r)                                                                                         \
    F(r, u8, failed, 0, "0: all units of the prompt are on all ranks, digests agree")                                  \
    F(r, token, first_token, 0, "as sampled by prefill")                                                               \
    F(r, text, detail, REASON_BYTES_MAX, "what failed")                                                                \
    F(r, u32, copies_failed, 0, "1 + the target rank that could not copy; 0: none")

#define KV_READY_FIELDS(F, R, I, r)                                                                                    \
    ATTEMPT_FIELDS(F, R, I, r)                                                                                         \
    F(r, actor, decode, DEC, "leader of the target")                                                                   \
    F(r, u64, source_epoch, 0, "of the prefill group")                                                                 \
    F(r, u32, piece, 0, "0, 1, ... in order")                                                                          \
    F(r, u32, first_page, 0, "ordinal of units[0] in the prompt")                                                      \
    I(r, unit, units, KV_UNITS_MAX, "history pages in order; in the last piece the slot stands last")                  \
    F(r, u8, last, 0, "1: the tail is here")                                                                           \
    F(r, token, first_token, 0, "last piece: the first token of the answer")

#define KV_ANSWER_FIELDS(F, R, I, r)                                                                                   \
    ATTEMPT_FIELDS(F, R, I, r)                                                                                         \
    F(r, u32, piece, 0, "which")                                                                                       \
    F(r, u8, taken, 0, "1: held until FENCED; 0: dropped, the attempt is unknown or ending here")

#define PULL_FIELDS(F, R, I, r)                                                                                        \
    ATTEMPT_FIELDS(F, R, I, r)                                                                                         \
    F(r, u64, copy, 0, "names it between transfer and rank")                                                           \
    F(r, actor, source, RNK, "rank to read from")                                                                      \
    F(r, u32, source_incarnation, 0, "of it")                                                                          \
    F(r, u64, epoch, 0, "of the target group; a rank refuses another one")                                             \
    I(r, pull_item, items, KV_UNITS_MAX, "in order")

#define PULLED_FIELDS(F, R, I, r)                                                                                      \
    ATTEMPT_FIELDS(F, R, I, r)                                                                                         \
    F(r, u64, copy, 0, "which; none of its bytes moves any more")                                                      \
    F(r, u8, status, 0, "status_t as a number: OK, STALE, CORRUPT, BROKEN, REFUSED")                                   \
    F(r, u32, failed_item, 0, "index of the first item that failed")

/* ---- groups -------------------------------------------------------------------------------------------------- */

#define RANK_JOIN_FIELDS(F, R, I, r)                                                                                   \
    F(r, u32, rank, 0, "in the group")                                                                                 \
    R(r, pool, pool, "where its pools are")                                                                            \
    F(r, u32, pages, 0, "in the pool, the test page included")                                                         \
    F(r, u32, borders, 0, "in the pool")                                                                               \
    F(r, u32, slots, 0, "in the pool")                                                                                 \
    F(r, u64, weights_digest, 0, "must be equal in the deployment")                                                    \
    F(r, u64, geometry_digest, 0, "must be equal in the deployment")                                                   \
    F(r, u64, numerics_digest, 0, "must be equal in the group")

#define RANK_JOINED_FIELDS(F, R, I, r)                                                                                 \
    F(r, u8, accepted, 0, "0: digests or counts differ from the group's")                                              \
    F(r, text, reason, REASON_BYTES_MAX, "names the field with both values")

#define REFORM_FIELDS(F, R, I, r)                                                                                      \
    F(r, u64, epoch, 0, "leave everything older: collectives break, copies end")                                       \
    F(r, text, segment, POOL_NAME_BYTES_MAX, "of the new epoch's collectives, in the deployment")

#define QUIESCED_FIELDS(F, R, I, r)                                                                                    \
    F(r, u64, epoch, 0, "no thread of the rank is in anything older")                                                  \
    F(r, u64, last_seq, 0, "last step that it did of the old one")                                                     \
    F(r, u64, digest, 0, "its parent chain there")

#define STEP_FIELDS(F, R, I, r)                                                                                        \
    F(r, u64, epoch, 0, "of the group")                                                                                \
    F(r, u64, seq, 0, "from 1 in each epoch, without gaps")                                                            \
    F(r, u64, parent, 0, "digest of the chain up to seq - 1")                                                          \
    I(r, step_item, items, STEP_ITEMS_MAX, "in the order in which they are done")

#define STEP_DONE_FIELDS(F, R, I, r)                                                                                   \
    F(r, u64, epoch, 0, "of the group")                                                                                \
    F(r, u64, seq, 0, "which")                                                                                         \
    F(r, u8, status, 0, "status_t as a number")                                                                        \
    F(r, u64, parent, 0, "the rank's own chain up to seq - 1")                                                         \
    F(r, u64, result, 0, "digest of tokens, closed units and what each item left behind")                              \
    I(r, step_token, tokens, SLOTS_MAX, "rank 0 only; the others vouch by result")                                     \
    I(r, closed, closed, CLOSED_MAX, "rank 0 only")                                                                    \
    F(r, text, detail, REASON_BYTES_MAX, "what failed")                                                                \
    F(r, u64, weighted, 0, "the second word of the step digest (device/step_digest.h): finds the item in which ranks differ") \
    F(r, u32, call, 0, "the rank's last collective call in this epoch")

#define POOLS_FIELDS(F, R, I, r)                                                                                       \
    F(r, u64, epoch, 0, "of the prefill group; 0: none now")                                                           \
    I(r, pool, pools, RANKS_MAX, "by rank")                                                                            \
    F(r, u64, weights_digest, 0, "what its ranks have loaded")

#define PAIR_FIELDS(F, R, I, r)                                                                                        \
    F(r, u64, source_epoch, 0, "as in POOLS")                                                                          \
    F(r, u64, target_epoch, 0, "of the decode group")                                                                  \
    F(r, u8, state, 0, "pair_state_t: untested, ok, refused, leaving: it forms and takes nothing")                     \
    F(r, text, reason, REASON_BYTES_MAX, "why refused")                                                                \
    F(r, u32, rank, 0, "whose pool cannot be read")                                                                    \
    F(r, u32, incarnation, 0, "of that rank; 0: no pool is to blame")

#define PEER_POOL_FIELDS(F, R, I, r)                                                                                   \
    R(r, pool, pool, "map it read-only and test it with its page 0")

#define PEER_MAPPED_FIELDS(F, R, I, r)                                                                                 \
    F(r, actor, rank, RNK, "whose pool")                                                                               \
    F(r, u32, incarnation, 0, "of it")                                                                                 \
    F(r, u8, status, 0, "status_t as a number")                                                                        \
    F(r, text, reason, REASON_BYTES_MAX, "what failed")

#define COPIES_FENCED_FIELDS(F, R, I, r)                                                                               \
    F(r, actor, actor, ORD, "who ordered copies and EXITED")                                                           \
    F(r, u32, incarnation, 0, "of it; none of its copies moves a byte here any more")

#define TARGETS_FIELDS(F, R, I, r)                                                                                     \
    F(r, u64, epoch, 0, "of the decode group; 0: none now")                                                            \
    I(r, pool, pools, RANKS_MAX, "its ranks, in order")

/* ---- a rank's device ----------------------------------------------------------------------------------------- */

#define DEVICE_READY_FIELDS(F, R, I, r)                                                                                \
    R(r, pool, pool, "as created")                                                                                     \
    F(r, u32, pages, 0, "")                                                                                            \
    F(r, u32, borders, 0, "")                                                                                          \
    F(r, u32, slots, 0, "")                                                                                            \
    F(r, u64, weights_digest, 0, "")                                                                                   \
    F(r, u64, geometry_digest, 0, "")                                                                                  \
    F(r, u64, numerics_digest, 0, "")                                                                                  \
    F(r, u8, status, 0, "status_t as a number; not OK: the device cannot go on")                                       \
    F(r, text, detail, REASON_BYTES_MAX, "why not")

#define DEVICE_EPOCH_FIELDS(F, R, I, r)                                                                                \
    F(r, u64, epoch, 0, "")                                                                                            \
    F(r, text, segment, POOL_NAME_BYTES_MAX, "")

#define DEVICE_COPY_FIELDS(F, R, I, r)                                                                                 \
    F(r, u64, copy, 0, "names it between rank and device")                                                             \
    F(r, actor, source, RNK, "rank to read from")                                                                      \
    I(r, pull_item, items, KV_UNITS_MAX, "in order")

#define DEVICE_COPIED_FIELDS(F, R, I, r)                                                                               \
    F(r, u64, copy, 0, "")                                                                                             \
    F(r, u8, status, 0, "status_t as a number")                                                                        \
    F(r, u32, failed_item, 0, "")

/* ---- looking inside ------------------------------------------------------------------------------------------ */

#define WATCH_FIELDS(F, R, I, r) F(r, text, actor, ACTOR_NAME_BYTES_MAX, "name, or empty for all")

#define MAILBOXES_FIELDS(F, R, I, r) I(r, mailbox, mailboxes, ACTORS_MAX, "in topology order")

#define EMPTY_FIELDS(F, R, I, r) F(r, u8, unused, 0, "a message has at least one field")

/* ---- the table ----------------------------------------------------------------------------------------------- */

#define SUP BIT(ACTOR_SUPERVISOR)
#define GTW BIT(ACTOR_GATEWAY)
#define SCH BIT(ACTOR_SCHEDULER)
#define PRE BIT(ACTOR_PREFILL)
#define DEC BIT(ACTOR_DECODE)
#define RNK BIT(ACTOR_RANK)
#define MIR BIT(ACTOR_MIRROR)
#define TRF BIT(ACTOR_TRANSFER)
#define ORD ACTOR_ORDERERS
#define MON BIT(ACTOR_MONITOR)
#define OBS BIT(ACTOR_OBSERVER)
#define PRT BIT(ACTOR_PORT)
#define ALL (BIT(ACTOR_OBSERVER) - 1) /* of the topology */
#define ANYBODY (ALL | OBS)

/*    name            id class    scope    from       to               answers    meaning */
#define MESSAGE_TABLE(M)                                                                                               \
    M(joined,          0, LOCAL,   ACTOR,   PRT,       ALL,             "",        "a peer's stream is up")            \
    M(exited,          1, CONTROL, ACTOR,   SUP | PRT, ALL,             "",        "a process was reaped; its stream is closed first") \
    M(tick,            2, LOCAL,   ACTOR,   PRT,       ALL,             "",        "time; after all that was in the mailbox when it fell due") \
    M(stop,            3, CONTROL, ACTOR,   SUP | PRT, ALL,             "",        "end")                              \
    M(kill,            4, CONTROL, ACTOR,   PRE | DEC, SUP,             "",        "this process must not live; EXITED follows") \
    M(spawn,           5, LOCAL,   ACTOR,   SUP,       PRT,             "",        "start a process")                  \
    M(signal,          6, LOCAL,   ACTOR,   SUP,       PRT,             "",        "signal a process")                 \
    M(reaped,          7, LOCAL,   ACTOR,   PRT,       SUP,             "",        "a child ended")                    \
    M(stalled,         8, LOCAL,   ACTOR,   PRT,       SUP,             "",        "a child's progress word stands still") \
    M(client_request,  9, LOCAL,   ACTOR,   PRT,       GTW,             "",        "a client wants tokens")            \
    M(client_abort,   10, LOCAL,   ACTOR,   PRT,       GTW,             "",        "a client left, or has enough")     \
    M(client_tokens,  11, LOCAL,   ACTOR,   GTW,       PRT,             "",        "tokens for a client")              \
    M(client_end,     12, LOCAL,   ACTOR,   GTW,       PRT,             "",        "the answer is whole, or ended")    \
    M(route,          13, REQUEST, ACTOR,   GTW,       SCH,             "",        "which instances serve this attempt?") \
    M(routed,         14, REPLY,   ATTEMPT, SCH,       GTW,             "route",   "these, or why none")               \
    M(instance,       15, STATE,   ACTOR,   PRE | DEC | TRF, SCH | MON, "",        "load and room of a group; a transfer: it lives") \
    M(submit,         16, REQUEST, ATTEMPT, GTW,       PRE,             "",        "opens an attempt at prefill")      \
    M(busy,           17, REPLY,   ATTEMPT, PRE | DEC, GTW | PRE,       "submit reserve", "no room; nothing was opened") \
    M(abort,          18, REPLY,   ATTEMPT, GTW | PRE | DEC, PRE | DEC | TRF, "submit reserve open", "end it; behind its opening, on the same stream") \
    M(tokens,         19, STATE,   ITEMS,   PRE | DEC, GTW,             "",        "new tokens since the last acknowledged") \
    M(end,            20, REPLY,   ATTEMPT, PRE | DEC, GTW | PRE,       "submit reserve", "the answer ends; once per attempt") \
    M(fenced,         21, REPLY,   ATTEMPT, PRE | DEC | TRF, GTW | PRE | DEC, "submit reserve open kv_ready", "the memory is free; once per opening") \
    M(reserve,        22, REQUEST, ATTEMPT, PRE,       DEC,             "",        "opens an attempt at decode")       \
    M(reserved,       23, REPLY,   ATTEMPT, DEC,       PRE,             "reserve", "pages are leased and the transfer knows") \
    M(running,        24, REPLY,   ATTEMPT, DEC,       PRE,             "reserve", "decode runs it; END is decode's from now on") \
    M(room,           25, STATE,   ACTOR,   DEC,       PRE,             "",        "pages came free after BUSY")       \
    M(open,           26, REQUEST, ATTEMPT, DEC,       TRF,             "",        "opens an attempt at transfer")     \
    M(opened,         27, REPLY,   ATTEMPT, TRF,       DEC,             "open",    "the transfer knows it")            \
    M(landed,         28, REPLY,   ATTEMPT, TRF,       DEC,             "open",    "all pieces are in, or one failed") \
    M(kv_ready,       29, REQUEST, ATTEMPT, PRE,       TRF,             "",        "units that all prefill ranks agree on") \
    M(kv_answer,      30, REPLY,   ATTEMPT, TRF,       PRE,             "kv_ready", "taken or dropped")                \
    M(pull,           31, REQUEST, ACTOR,   ORD,       RNK,             "",        "copy these units from a peer")     \
    M(pulled,         32, REPLY,   ATTEMPT, RNK,       ORD,             "pull",    "done, failed or cancelled: no byte moves") \
    M(pull_cancel,    33, REPLY,   ACTOR,   ORD,       RNK,             "pull",    "stop what has not begun; PULLED still comes") \
    M(rank_join,      34, REQUEST, ACTOR,   RNK,       PRE | DEC,       "",        "weights are loaded, pools are mapped") \
    M(rank_joined,    35, REPLY,   ACTOR,   PRE | DEC, RNK,             "rank_join", "accepted, or why not")           \
    M(reform,         36, CONTROL, ACTOR,   PRE | DEC, RNK,             "",        "a new epoch")                      \
    M(quiesced,       37, CONTROL, ACTOR,   RNK,       PRE | DEC,       "",        "everything older is left behind")  \
    M(step,           38, REQUEST, ACTOR,   PRE | DEC | RNK, RNK | PRT, "",        "what to compute next")             \
    M(step_done,      39, REPLY,   ACTOR,   RNK | PRT, PRE | DEC | RNK, "step",    "what came of it")                  \
    M(pools,          40, STATE,   ACTOR,   PRE,       DEC,             "",        "where my ranks' pools are")        \
    M(pair,           41, STATE,   ACTOR,   DEC,       PRE | MON,       "",        "can my ranks read yours")          \
    M(peer_pool,      42, REQUEST, ACTOR,   DEC,       RNK,             "",        "map a peer's pool and test it")    \
    M(peer_mapped,    43, REPLY,   ACTOR,   RNK,       DEC,             "peer_pool", "mapped, or why not")             \
    M(copies_fenced,  44, REPLY,   ACTOR,   RNK,       DEC,             "fence_copies", "none of them runs any more")  \
    M(targets,        45, STATE,   ACTOR,   DEC,       TRF,             "",        "the ranks of my group, by epoch")  \
    M(sources,        46, STATE,   ACTOR,   PRE,       TRF,             "",        "the ranks of my group, by epoch")  \
    M(device_ready,   47, LOCAL,   ACTOR,   PRT,       RNK,             "",        "weights are loaded")               \
    M(device_reform,  48, LOCAL,   ACTOR,   RNK,       PRT,             "",        "leave the old epoch")              \
    M(device_quiesced, 49, LOCAL,  ACTOR,   PRT,       RNK,             "",        "left")                             \
    M(device_copy,    50, LOCAL,   ACTOR,   RNK,       PRT,             "",        "copy")                             \
    M(device_copied,  51, LOCAL,   ACTOR,   PRT,       RNK,             "",        "copied")                           \
    M(device_map,     52, LOCAL,   ACTOR,   RNK,       PRT,             "",        "map")                              \
    M(device_mapped,  53, LOCAL,   ACTOR,   PRT,       RNK,             "",        "mapped")                           \
    M(watch,          54, REQUEST, ACTOR,   OBS | SUP, MON,             "",        "how are the mailboxes?")           \
    M(mailboxes,      55, REPLY,   ACTOR,   MON,       OBS | SUP,       "watch",   "so")                              \
    M(figures,        56, LOCAL,   ACTOR,   PRT,       MON,             "",        "this host's mailboxes")           \
    M(fence_copies,   57, REQUEST, ACTOR,   DEC,       RNK,             "",        "of the exited")                   \
    M(drain,          58, REQUEST, ACTOR,   PRT | GTW, GTW | SUP,       "",        "this group leaves, or comes back") \
    M(drain_answer,   59, REPLY,   ACTOR,   SUP | GTW, GTW | PRT,       "drain",   "so it is, or why not")            \
    M(draining,       60, CONTROL, ACTOR,   SUP,       PRE | DEC,       "",        "take no new work, and end what you have") \
    M(client_close,   61, LOCAL,   ACTOR,   GTW,       PRT,             "",        "let nobody in")                    \
    M(incident,       62, CONTROL, ACTOR,   GTW | PRE | DEC, SUP,       "",        "keep what led here: ranks differ, or a request is poisoned") \
    M(keep,           63, LOCAL,   ACTOR,   SUP,       PRT, "", "copy frames and journals") \
    M(client_poisoned, 64, LOCAL, ACTOR, GTW, PRT, "", "it stopped its group twice while alone")                       \
    M(given_up, 65, LOCAL, ACTOR, SUP, PRT, "", "it stays down: leave figures that say so")                            \
    M(degraded, 66, CONTROL, ACTOR, SUP | GTW, GTW | PRT, "", "it has no next life")

/* Fields of each message of MESSAGE_TABLE, where they are not <NAME>_FIELDS. Kept as one list so that a message
 * that shares a shape with another does not repeat it. */
#define MESSAGE_FIELDS_TABLE(X)                                                                                        \
    X(joined, JOINED_FIELDS) X(exited, EXITED_FIELDS) X(tick, TICK_FIELDS) X(stop, STOP_FIELDS)                        \
    X(kill, KILL_FIELDS) X(spawn, SPAWN_FIELDS) X(signal, SIGNAL_FIELDS) X(reaped, REAPED_FIELDS)                      \
    X(stalled, STALLED_FIELDS) X(client_request, CLIENT_REQUEST_FIELDS) X(client_abort, CLIENT_ABORT_FIELDS)           \
    X(client_tokens, CLIENT_TOKENS_FIELDS) X(client_end, CLIENT_END_FIELDS) X(route, ROUTE_FIELDS)                     \
    X(routed, ROUTED_FIELDS) X(instance, INSTANCE_FIELDS) X(submit, SUBMIT_FIELDS) X(busy, ATTEMPT_FIELDS)             \
    X(abort, ABORT_FIELDS) X(tokens, TOKENS_FIELDS) X(end, END_FIELDS) X(fenced, ATTEMPT_FIELDS)                       \
    X(reserve, RESERVE_FIELDS) X(reserved, ATTEMPT_FIELDS) X(running, ATTEMPT_FIELDS) X(room, EMPTY_FIELDS)            \
    X(open, OPEN_FIELDS) X(opened, ATTEMPT_FIELDS) X(landed, LANDED_FIELDS) X(kv_ready, KV_READY_FIELDS)               \
    X(kv_answer, KV_ANSWER_FIELDS) X(pull, PULL_FIELDS) X(pulled, PULLED_FIELDS)                                       \
    X(pull_cancel, ATTEMPT_FIELDS) X(rank_join, RANK_JOIN_FIELDS) X(rank_joined, RANK_JOINED_FIELDS)                   \
    X(reform, REFORM_FIELDS) X(quiesced, QUIESCED_FIELDS) X(step, STEP_FIELDS) X(step_done, STEP_DONE_FIELDS)          \
    X(pools, POOLS_FIELDS) X(pair, PAIR_FIELDS) X(peer_pool, PEER_POOL_FIELDS) X(peer_mapped, PEER_MAPPED_FIELDS)      \
    X(copies_fenced, COPIES_FENCED_FIELDS) X(targets, TARGETS_FIELDS) X(sources, TARGETS_FIELDS)                       \
    X(device_ready, DEVICE_READY_FIELDS) X(device_reform, DEVICE_EPOCH_FIELDS)                                         \
    X(device_quiesced, DEVICE_EPOCH_FIELDS) X(device_copy, DEVICE_COPY_FIELDS)                                         \
    X(device_copied, DEVICE_COPIED_FIELDS) X(device_map, PEER_POOL_FIELDS) X(device_mapped, PEER_MAPPED_FIELDS)        \
    X(watch, WATCH_FIELDS) X(mailboxes, MAILBOXES_FIELDS) X(figures, MAILBOXES_FIELDS)                                 \
    X(fence_copies, COPIES_FENCED_FIELDS) X(drain, DRAIN_FIELDS) X(drain_answer, DRAIN_ANSWER_FIELDS)                  \
    X(draining, DRAINING_FIELDS) X(client_close, EMPTY_FIELDS) X(incident, INCIDENT_FIELDS) X(keep, KEEP_FIELDS)       \
    X(client_poisoned, CLIENT_POISONED_FIELDS) X(given_up, GIVEN_UP_FIELDS)           \
    X(degraded, DEGRADED_FIELDS)

/* Ids that meant something once: X(id). */
#define MESSAGE_RETIRED_TABLE(X)

#endif

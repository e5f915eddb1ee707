/* The device port for real: a process with its two threads, and a symbolic device behind them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <unistd.h>

#include "actors/rank/port.h"
#include "messages/message.h"
#include "device/symbolic/symbolic.h"

#ifdef __SANITIZE_THREAD__
/* libzmq is not built with the sanitizer, so it does not see how its threads hand over. */
const char *__tsan_default_suppressions(void);
__attribute__((visibility("default"))) const char *__tsan_default_suppressions(void)
{
    return "called_from_lib:libzmq.so\nrace:libzmq.so\n";
}
#endif

enum { PROMPT = 300, PEER = 50, LEADER = 0, RANK = 1 };
enum { RUNS, DONE };

static const roster_t roster = {
    .count = 2,
    .actors = {{"decode/0", ACTOR_DECODE, ACTOR_NONE, 0}, {"decode/0/rank/0", ACTOR_RANK, 0, 0}},
};
static const symbolic_setup_t symbolic = {.weights = 3, .vocabulary = 500, .end_token = 1};
static uint32_t prompt[PROMPT + 1];

/* ---- an actor that plays a rank and its leader in one ---------------------------------------- */

typedef struct {
    uint8_t state;
    bool mapped;
    uint64_t page_digest;
    uint32_t steps_done;
    uint32_t tokens[2];
    uint32_t copies_done;
    uint8_t last_status;
    bool quiesced_last; /* behind everything else */
} player_t;

static void push_reform(outbox_t *outbox, uint64_t epoch)
{
    message_device_reform_t m = {epoch, {"/segment", 8}};

    outbox_push(outbox, PORT_DEVICE, MESSAGE_device_reform, &m);
}

static void push_step(outbox_t *outbox, uint64_t seq, const record_step_item_t *items,
                      uint32_t count)
{
    message_step_t m = {.epoch = 1, .seq = seq};

    m.items.data = items;
    m.items.count = count;
    outbox_push(outbox, PORT_DEVICE, MESSAGE_step, &m);
}

static status_t on_ready(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    const message_device_ready_t *m = envelope->body;
    message_device_map_t map = {.pool = m->pool};

    (void)arg;
    ASSERT(m->status == STATUS_OK);
    map.pool.rank = PEER; /* its own pool, as if it were another's */
    push_reform(outbox, 1);
    outbox_push(outbox, PORT_DEVICE, MESSAGE_device_map, &map);
    return STATUS_OK;
}

static status_t on_mapped(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    const message_device_mapped_t *m = envelope->body;

    (void)outbox;
    ASSERT(m->status == STATUS_OK);
    ASSERT(m->rank == PEER);
    ((player_t *)arg)->mapped = true;
    return STATUS_OK;
}

static status_t on_quiesced(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    static const uint32_t pages[2] = {3, 4};
    static const uint64_t generations[2] = {5, 5};
    const message_device_quiesced_t *m = envelope->body;
    player_t *self = arg;
    record_step_item_t items[2] = {
        {.kind = DEVICE_OPEN, .slot = 1, .pages = {pages, 2}, .generations = {generations, 2}},
        {.kind = DEVICE_RUN, .slot = 1, .count = PROMPT, .tokens = {prompt, PROMPT}, .sample = 1}};
    record_step_item_t carried = {
        .kind = DEVICE_RUN, .slot = 1, .position = PROMPT, .count = 1, .sample = 1};

    if (m->epoch == 2) {
        self->quiesced_last = self->steps_done == 3 && self->copies_done == 1;
        self->state = DONE;
        return STATUS_OK;
    }
    push_step(outbox, 1, items, 2);
    push_step(outbox, 2, &carried, 1);
    return STATUS_OK;
}

static void copy_page(const player_t *self, outbox_t *outbox)
{
    record_pull_item_t item = {.unit = UNIT_HISTORY,
                               .source = 3,
                               .source_generation = 5,
                               .target = 6,
                               .target_generation = 7,
                               .rows = PAGE_TOKENS,
                               .digest = self->page_digest};
    message_device_copy_t m = {.copy = 9, .source = PEER};

    m.items.data = &item;
    m.items.count = 1;
    outbox_push(outbox, PORT_DEVICE, MESSAGE_device_copy, &m);
}

static status_t on_step_done(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    const message_step_done_t *m = envelope->body;
    player_t *self = arg;

    self->steps_done++;
    ASSERT(m->seq == self->steps_done);
    if (m->seq == 3)
        return STATUS_OK; /* done or broken: it came before QUIESCED */
    ASSERT(m->status == STATUS_OK);
    ASSERT(m->tokens.count == 1);
    self->tokens[m->seq - 1] = m->tokens.data[0].token.token;
    if (m->seq == 1)
        self->page_digest = m->closed.data[0].digest;
    else
        copy_page(self, outbox);
    return STATUS_OK;
}

static status_t on_copied(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    const message_device_copied_t *m = envelope->body;
    record_step_item_t carried = {
        .kind = DEVICE_RUN, .slot = 1, .position = PROMPT + 1, .count = 1, .sample = 1};
    player_t *self = arg;

    ASSERT(m->copy == 9);
    self->copies_done++;
    self->last_status = m->status;
    push_step(outbox, 3, &carried, 1);
    push_reform(outbox, 2);
    return STATUS_OK;
}

static status_t on_tick(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    (void)arg;
    (void)envelope;
    (void)outbox;
    return STATUS_OK;
}

static uint8_t state_of(const void *arg)
{
    return ((const player_t *)arg)->state;
}

static const actor_rule_t rules[] = {
    {RUNS, MESSAGE_device_ready, on_ready, BIT(RUNS)},
    {RUNS, MESSAGE_device_mapped, on_mapped, BIT(RUNS)},
    {RUNS, MESSAGE_device_quiesced, on_quiesced, BIT(RUNS) | BIT(DONE)},
    {RUNS, MESSAGE_step_done, on_step_done, BIT(RUNS)},
    {RUNS, MESSAGE_device_copied, on_copied, BIT(RUNS)},
    {ACTOR_STATE_ANY, MESSAGE_tick, on_tick, BIT(RUNS) | BIT(DONE)},
};
static const char *const state_names[] = {"runs", "done"};
static const actor_type_t player_type = {
    .kind = ACTOR_RANK,
    .state_bytes = sizeof(player_t),
    .state = state_of,
    .table = {state_names, 2, rules, COUNT_OF(rules), NULL, 0},
};

/* ---- the test ---------------------------------------------------------------------------------- */

static void run_player(player_t *player)
{
    static char directory[64];
    static endpoints_t endpoints;
    rank_port_setup_t port = {.ops = &symbolic_ops, .setup = &symbolic};
    process_config_t config = {.type = &player_type,
                               .birth = {.id = RANK, .incarnation = 1},
                               .table = &message_table,
                               .roster = &roster,
                               .endpoints = &endpoints,
                               .ports = {{&rank_port, &port}},
                               .port_count = 1,
                               .end_states = BIT(DONE)};
    process_t *process = NULL;

    (void)snprintf(directory, sizeof(directory), "/tmp/lockstep-test-XXXXXX");
    assert_non_null(mkdtemp(directory));
    assert_int_equal(endpoints_ipc(&endpoints, &roster, directory), STATUS_OK);
    port.config.world = 1;
    port.config.page_count = 16;
    port.config.slot_count = 4;
    port.config.border_count = 1;
    port.config.incarnation = 1;
    (void)snprintf(port.config.pool.name, sizeof(port.config.pool.name), "/lockstep-test-%d-port",
                   (int)getpid());
    assert_int_equal(process_open(&config, &process), STATUS_OK);
    assert_int_equal(process_run(process), STATUS_OK);
    *player = *(const player_t *)node_dispatch(process_node(process))->self;
    process_close(process);
    (void)unlink(endpoints.at[RANK] + strlen("ipc://"));
    (void)rmdir(directory);
}

static void test_steps_copies_and_reforms_go_through_both_threads_in_order(void **state)
{
    const device_sampling_t greedy = {.top_p = 1};
    player_t player;

    (void)state;
    for (uint32_t i = 0; i < PROMPT; i++)
        prompt[i] = i % 97;
    run_player(&player);
    assert_true(player.mapped);
    assert_true(player.quiesced_last);
    assert_int_equal(player.last_status, STATUS_OK);
    assert_int_equal(player.tokens[0], symbolic_next(&symbolic, prompt, PROMPT, &greedy));
    prompt[PROMPT] = player.tokens[0];
    assert_int_equal(player.tokens[1], symbolic_next(&symbolic, prompt, PROMPT + 1, &greedy));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps_copies_and_reforms_go_through_both_threads_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

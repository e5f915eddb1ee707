/* Four rank processes on the CPU device, and a leader that only steps. A rank goes astray in a step:
 * the leader must say so within that step, who, where and how, and take nothing from it; the group
 * must go on in the next epoch. What is planted stands between the rank's port and its device. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "actors/group.h"
#include "actors/rank/port.h"
#include "actors/rank/rank.h"
#include "actors/roster.h"
#include "device/cpu/cpu.h"
#include "runtime/process.h"
#include "tests/actors/scene.h"

enum { WORLD = 4, ASTRAY = 2, SLOTS_USED = 2, PROMPT = 40, PAGES = 64, BORDERS = 16, SLOTS = 8 };
enum { FAULT_SEQ = 3, LAST_SEQ = 5, STALL_MS = 1500, QUIESCE_MS = 1000, EPOCHS_MAX = 8 };

typedef enum { NO_FAULT, TOKEN, SHORT, LOST, HANG, STOP } fault_t;

static topology_t topology;
static roster_t roster;
static endpoints_t endpoints;
static leader_setup_t leader_setup = {
    .pages = PAGES, .borders = BORDERS, .quiesce_ms = QUIESCE_MS};
static fault_t faults[EPOCHS_MAX]; /* of rank ASTRAY in step FAULT_SEQ, by the epoch's counter */
static uint32_t epochs_wanted;
static pid_t *pids; /* shared: by rank */
static char prefix[64];

static actor_id_t leader_id(void)
{
    return topology_actor(&topology, ACTOR_DECODE, 0)->id;
}

static actor_id_t supervisor_id(void)
{
    return topology_actor(&topology, ACTOR_SUPERVISOR, 0)->id;
}

/* ---- a device that goes astray --------------------------------------------------------------- */

static status_t astray(device_t *device, const device_step_t *step, device_result_t *result,
                       fault_t fault)
{
    static device_item_t items[SLOTS_USED];
    static const uint32_t other_token = 77;
    const device_item_t close = {.kind = DEVICE_CLOSE, .slot = 1};
    const device_step_t closing = {step->epoch, step->seq, &close, 1};
    device_step_t changed = *step;

    if (fault == HANG || fault == STOP)
        (void)(fault == STOP ? raise(SIGSTOP) : pause());
    if (fault == LOST && device_cpu_ops.step(device, &closing, result) != STATUS_OK)
        return STATUS_INTERNAL;
    if (fault == SHORT)
        changed.item_count--;
    if (fault == TOKEN) {
        memcpy(items, step->items, sizeof(items));
        items[1].tokens = &other_token;
        items[1].token_count = 1;
        changed.items = items;
    }
    return device_cpu_ops.step(device, &changed, result);
}

static status_t step_of_astray(device_t *device, const device_step_t *step, device_result_t *result)
{
    uint32_t epoch = (uint32_t)step->epoch;

    if (step->seq == FAULT_SEQ && epoch < EPOCHS_MAX && faults[epoch] != NO_FAULT)
        return astray(device, step, result, faults[epoch]);
    return device_cpu_ops.step(device, step, result);
}

static status_t open_astray(const device_config_t *config, const void *setup,
                            volatile uint32_t *progress, device_t **device)
{
    static device_ops_t ops;

    TRY(device_cpu_ops.open(config, setup, progress, device));
    ops = device_cpu_ops;
    ops.step = step_of_astray;
    if (config->rank == ASTRAY)
        (*device)->ops = &ops;
    return STATUS_OK;
}

/* ---- the leader ------------------------------------------------------------------------------ */

enum { ON, DONE };

typedef struct {
    uint8_t state;
    uint32_t taken[EPOCHS_MAX]; /* steps whose outcome was taken, by epoch */
    size_t group_offset;
} player_t;

static group_t *group_of(void *arg)
{
    return (group_t *)(void *)((char *)arg + ((player_t *)arg)->group_offset);
}

static size_t player_bytes(const actor_birth_t *birth)
{
    return sizeof(player_t) + 64 + group_bytes(birth);
}

static status_t init(void *arg, const actor_birth_t *birth)
{
    player_t *self = arg;

    self->group_offset = (sizeof(*self) + 63) & ~(size_t)63;
    group_init(group_of(self), birth);
    return STATUS_OK;
}

static uint8_t state_of(const void *arg)
{
    return ((const player_t *)arg)->state;
}

static void add_opening(group_t *group, uint32_t slot)
{
    record_step_item_t *item = group_add(group, DEVICE_OPEN, slot, 100 + slot, 1, 0, false);
    uint32_t *pages = group_words(group, 1);
    uint64_t *generations = group_longs(group, 1);
    uint32_t *tokens;

    pages[0] = 1 + slot;
    generations[0] = group_pool_epoch(group);
    item->pages = (u32s_view_t){pages, 1};
    item->generations = (u64s_view_t){generations, 1};
    item->sampling = (record_sampling_t){.top_p = 1, .repetition_penalty = 1};
    item = group_add(group, DEVICE_RUN, slot, 100 + slot, 1, 0, false);
    tokens = group_words(group, PROMPT);
    for (uint32_t i = 0; i < PROMPT; i++)
        tokens[i] = 10 + 3 * i + slot;
    item->tokens = (u32s_view_t){tokens, PROMPT};
    item->count = PROMPT;
    item->sample = 1;
}

static void plan(void *arg, outbox_t *outbox)
{
    player_t *self = arg;
    group_t *group = group_of(self);

    while (group_may_step(group, outbox) && group_may_run(group) && group->seq < LAST_SEQ) {
        for (uint32_t slot = 0; slot < SLOTS_USED; slot++) {
            record_step_item_t *item;

            if (group->seq == 0) {
                add_opening(group, slot);
                continue;
            }
            item = group_add(group, DEVICE_RUN, slot, 100 + slot, 1, 0, false);
            item->position = PROMPT + (uint32_t)group->seq - 1;
            item->count = 1;
            item->sample = 1;
        }
        group_send(group, outbox);
    }
}

static status_t on_rank_join(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    group_join(group_of(arg), envelope, outbox);
    return STATUS_OK;
}

static status_t on_quiesced(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    player_t *self = arg;
    uint32_t left = 0;

    (void)outbox;
    (void)group_quiesced(group_of(self), envelope);
    for (uint32_t i = 0; i < WORLD; i++)
        left += group_of(self)->ranks[i].quiesced;
    /* One that cannot leave has EXITED by then. */
    if (group_of(self)->counter == epochs_wanted && left == WORLD - 1 &&
        group_of(self)->ranks[ASTRAY].incarnation == 0)
        self->state = DONE;
    return STATUS_OK;
}

static status_t on_step_done(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    player_t *self = arg;
    group_t *group = group_of(self);
    const char *reason = group_step_done(group, envelope);

    if (reason) {
        group_reform(group, reason, outbox);
        return STATUS_OK;
    }
    while (group_complete(group)) {
        self->taken[group->counter]++;
        group_retire(group);
    }
    if (group->counter == epochs_wanted && group->done_seq == LAST_SEQ)
        self->state = DONE;
    return STATUS_OK;
}

static status_t on_exited(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    const message_exited_t *m = envelope->body;
    group_t *group = group_of(arg);
    bool was_forming = group->phase == GROUP_FORMING;

    if (group_exited(group, m->actor, m->incarnation) && !was_forming)
        group_reform(group, "a rank exited", outbox);
    return was_forming ? on_quiesced(arg, envelope, outbox) : STATUS_OK;
}

static status_t on_tick(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    const message_tick_t *m = envelope->body;
    const char *reason = group_tick(group_of(arg), m->now_ms, outbox);

    if (reason)
        group_reform(group_of(arg), reason, outbox);
    return STATUS_OK;
}

static status_t on_nothing(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    (void)arg;
    (void)envelope;
    (void)outbox;
    return STATUS_OK;
}

static const char *const state_names[] = {"on", "done"};
static const actor_rule_t rules[] = {
    {ACTOR_STATE_ANY, MESSAGE_joined, on_nothing, BIT(ON) | BIT(DONE)},
    {ACTOR_STATE_ANY, MESSAGE_exited, on_exited, BIT(ON) | BIT(DONE)},
    {ACTOR_STATE_ANY, MESSAGE_tick, on_tick, BIT(ON) | BIT(DONE)},
    {ACTOR_STATE_ANY, MESSAGE_rank_join, on_rank_join, BIT(ON) | BIT(DONE)},
    {ACTOR_STATE_ANY, MESSAGE_quiesced, on_quiesced, BIT(ON) | BIT(DONE)},
    {ACTOR_STATE_ANY, MESSAGE_step_done, on_step_done, BIT(ON) | BIT(DONE)},
};
static const actor_type_t player_type = {
    .kind = ACTOR_DECODE,
    .state_bytes = sizeof(player_t),
    .bytes = player_bytes,
    .init = init,
    .plan = plan,
    .state = state_of,
    .table = {state_names, 2, rules, COUNT_OF(rules), NULL, 0},
};

/* ---- who kills ------------------------------------------------------------------------------- */

static status_t on_kill(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    const message_kill_t *m = envelope->body;
    const message_exited_t exited = {m->actor, m->incarnation, EXIT_KILLED_BY_US};

    (void)arg;
    (void)kill(pids[m->actor - leader_id() - 1], SIGKILL);
    outbox_push(outbox, envelope->from, MESSAGE_exited, &exited);
    return STATUS_OK;
}

static uint8_t always_on(const void *arg)
{
    (void)arg;
    return ON;
}

static const actor_rule_t killer_rules[] = {
    {ACTOR_STATE_ANY, MESSAGE_joined, on_nothing, BIT(ON)},
    {ACTOR_STATE_ANY, MESSAGE_tick, on_nothing, BIT(ON)},
    {ACTOR_STATE_ANY, MESSAGE_kill, on_kill, BIT(ON)},
};
static const actor_type_t killer_type = {
    .kind = ACTOR_SUPERVISOR,
    .state_bytes = 8,
    .state = always_on,
    .table = {state_names, 1, killer_rules, COUNT_OF(killer_rules), NULL, 0},
};

/* ---- processes ------------------------------------------------------------------------------- */

static process_config_t config_of(const actor_type_t *type, actor_id_t id)
{
    return (process_config_t){
        .type = type,
        .birth = {.id = id, .incarnation = 1, .topology = &topology, .setup = NULL},
        .table = &message_table,
        .roster = &roster,
        .endpoints = &endpoints,
        .end_states = type == &player_type ? BIT(DONE) : 0};
}

static void pool_name(char name[DEVICE_NAME_BYTES_MAX], uint32_t rank)
{
    (void)snprintf(name, DEVICE_NAME_BYTES_MAX, "%spool-%u", prefix, rank);
}

/* Never returns: it is killed. */
static void run_child(process_config_t *config)
{
    process_t *process = NULL;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (process_open(config, &process) == STATUS_OK && process_run(process) == STATUS_OK)
        _exit(0);
    trail_print(stderr);
    _exit(1);
}

static void run_rank(uint32_t rank)
{
    static device_ops_t ops;
    static const device_cpu_setup_t cpu = {.folder = "model/tiny",
                                           .cache_form = FORM_FP8_BLOCKS,
                                           .index_form = FORM_FP4_BLOCKS,
                                           .threads = 1,
                                           .rows_max = 64,
                                           .positions_max = 1024};
    rank_port_setup_t port = {.ops = &ops,
                              .setup = &cpu,
                              .config = {.rank = rank,
                                         .world = WORLD,
                                         .page_count = PAGES,
                                         .border_count = BORDERS,
                                         .slot_count = SLOTS,
                                         .incarnation = 1},
                              .shm_prefix = prefix};
    process_config_t config = config_of(&rank_type, (actor_id_t)(leader_id() + 1 + rank));

    ops = device_cpu_ops;
    ops.open = open_astray;
    pool_name(port.config.pool.name, rank);
    config.ports[0] = (port_t){&rank_port, &port};
    config.port_count = 1;
    run_child(&config);
}

static pid_t start(int rank) /* -1: who kills */
{
    pid_t child = fork();

    assert_true(child >= 0);
    if (child > 0)
        return child;
    if (rank < 0) {
        process_config_t config = config_of(&killer_type, supervisor_id());

        run_child(&config);
    }
    run_rank((uint32_t)rank);
    return 0;
}

/* Runs until the leader is done, and takes everything away. What it took, and what was said. */
static const char *play(player_t *player)
{
    char directory[] = "/tmp/lockstep-test-XXXXXX", name[DEVICE_NAME_BYTES_MAX];
    process_config_t config;
    process_t *process = NULL;
    pid_t killer;

    scene_topology(&topology, 1, 1, WORLD);
    topology.stall_timeout_ms = STALL_MS;
    roster_init(&roster, &topology);
    assert_non_null(mkdtemp(directory));
    assert_int_equal(endpoints_ipc(&endpoints, &roster, directory), STATUS_OK);
    (void)snprintf(prefix, sizeof(prefix), "/lockstep-test-%d-", (int)getpid());
    scene_log_start();
    killer = start(-1);
    for (int rank = 0; rank < WORLD; rank++)
        pids[rank] = start(rank);
    config = config_of(&player_type, leader_id());
    config.birth.setup = &leader_setup;
    assert_int_equal(process_open(&config, &process), STATUS_OK);
    assert_int_equal(process_run(process), STATUS_OK);
    *player = *(const player_t *)node_dispatch(process_node(process))->self;
    process_close(process);
    (void)kill(killer, SIGKILL);
    (void)waitpid(killer, NULL, 0);
    for (uint32_t rank = 0; rank < WORLD; rank++) {
        (void)kill(pids[rank], SIGKILL);
        (void)waitpid(pids[rank], NULL, 0);
        pool_name(name, rank);
        (void)shm_unlink(name);
    }
    for (uint32_t epoch = 1; epoch < EPOCHS_MAX; epoch++) {
        (void)snprintf(name, sizeof(name), "%sgroup-%u-1%08x", prefix, leader_id(), epoch);
        (void)shm_unlink(name);
    }
    for (uint32_t i = 0; i < roster.count; i++)
        (void)unlink(endpoints.at[i] + strlen("ipc://"));
    (void)rmdir(directory);
    return scene_log_end();
}

/* The whole line that contains `part`, or "". */
static const char *line_with(const char *said, const char *part)
{
    static char line[1024];
    const char *at = strstr(said, part);
    size_t length = at ? strcspn(at, "\n") : 0;

    snprintf(line, sizeof(line), "%.*s", (int)length, at ? at : "");
    return line;
}

#define assert_says(line, part)                                                                    \
    do {                                                                                           \
        if (!strstr(line, part))                                                                   \
            fail_msg("'%s' is missing in: %s", part, line);                                        \
    } while (0)

/* ---- tests ----------------------------------------------------------------------------------- */

/* Nothing of the step in which a rank goes astray; of the one before it at times not all answers
 * are in. */
static void expect_taken(const player_t *player, uint32_t epoch)
{
    assert_in_range(player->taken[epoch], FAULT_SEQ - 2, FAULT_SEQ - 1);
}

static int setup(void **state)
{
    (void)state;
    memset(faults, 0, sizeof(faults));
    pids = mmap(NULL, WORLD * sizeof(*pids), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                -1, 0);
    return pids == MAP_FAILED;
}

static int teardown(void **state)
{
    (void)state;
    munmap(pids, WORLD * sizeof(*pids));
    return 0;
}

/* T14 (another input), T3 (another length), T2 (an entry lost on one rank only): found in the very
 * step, nothing of it is taken, and the group goes on. */
static void test_a_rank_that_goes_astray_is_named_within_the_step(void **state)
{
    const char *said, *line;
    player_t player;

    (void)state;
    faults[1] = TOKEN;
    faults[2] = SHORT;
    faults[3] = LOST;
    epochs_wanted = 4;
    said = play(&player);
    for (uint32_t epoch = 1; epoch < epochs_wanted; epoch++)
        expect_taken(&player, epoch);
    assert_int_equal(player.taken[epochs_wanted], LAST_SEQ);

    /* Result: logits are gathered, so all ranks drew the same token; the state behind it differs. */
    line = line_with(said, "GROUP-DIVERGED");
    assert_says(line, "step=3 item=1 request=0000000000000065 attempt=1 slot=1 position=41 count=1 "
                      "of=2 found=");
    assert_says(line, " call=");
    assert_says(line, " expected=");
    assert_true(strstr(line, "rank=2 ") != NULL);
    /* Call: both calls in words. */
    line = line_with(said, "GROUP-STEP-FAILED");
    assert_says(said, " step 3 layer 0 site ");
    assert_says(said, "status=MISMATCH detail=\"call ");
    /* The lost entry is refused by the device of that rank alone. */
    assert_says(said, "status=INVALID detail=\"slot 1 is not open\"");
}

/* T10: no progress. Three wait for the fourth, which hangs with its mailbox alive: the deadline
 * names it, they leave, it is killed. */
static void test_a_rank_that_hangs_in_a_step_is_named_left_and_killed(void **state)
{
    const char *said;
    player_t player;

    (void)state;
    faults[1] = HANG;
    epochs_wanted = 2;
    said = play(&player);
    expect_taken(&player, 1);
    assert_says(line_with(said, "GROUP-STALLED"), " step=3 after_ms=1500 answered=0 missing=f");
    assert_says(line_with(said, "RANK-STEP-FAILED"), "step=3 status=BROKEN detail=\"the group was");
    assert_says(line_with(said, "RANK-STEP-FAILED"), "site 0, and missed 2\"");
}

/* The same for a process that is stopped as a whole, which hears nothing of the new epoch. */
static void test_a_rank_that_is_stopped_in_a_step_is_left_and_killed(void **state)
{
    const char *said;
    player_t player;

    (void)state;
    faults[1] = STOP;
    epochs_wanted = 2;
    said = play(&player);
    expect_taken(&player, 1);
    assert_says(line_with(said, "RANK-STEP-FAILED"), "site 0, and missed 2\"");
}

#define ALONE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ALONE(test_a_rank_that_goes_astray_is_named_within_the_step),
        ALONE(test_a_rank_that_hangs_in_a_step_is_named_left_and_killed),
        ALONE(test_a_rank_that_is_stopped_in_a_step_is_left_and_killed),
    };
    return cmocka_run_group_tests_name("ranks", tests, NULL, NULL);
}

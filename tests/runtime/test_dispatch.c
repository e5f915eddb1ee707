/* Dispatch through rule and refusal tables, on a small actor that speaks as a transfer does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "messages/message.h"
#include "runtime/capture.h"
#include "runtime/dispatch.h"

/* ---- the actor: IDLE, then BUSY after STOP; one attempt, NONE or OPEN ---- */

enum { IDLE, BUSY };
enum { NONE, OPEN };
enum { TRANSFER = 0, DECODE = 1, PREFILL = 2, RANK = 3 };

typedef struct {
    uint8_t state;
    uint8_t attempt;
    uint8_t leave_in; /* what the next on_stop makes of the state */
    status_t answer;  /* what on_open returns */
    uint32_t items;
    uint32_t checks;
    bool wants_pull;
} toy_t;

static status_t on_stop(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    toy_t *self = arg;

    (void)envelope;
    (void)outbox;
    self->state = self->leave_in;
    return STATUS_OK;
}

static status_t on_open(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    const message_open_t *m = envelope->body;
    message_opened_t opened = {.request = m->request, .attempt = m->attempt};
    toy_t *self = arg;

    if (self->answer != STATUS_OK)
        return FAIL(self->answer, "told to");
    self->attempt = OPEN;
    self->wants_pull = true;
    outbox_push(outbox, envelope->from, MESSAGE_opened, &opened);
    return STATUS_OK;
}

static status_t on_nothing(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    (void)arg;
    (void)envelope;
    (void)outbox;
    return STATUS_OK;
}

static status_t on_item(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    const record_tokens_item_t *item = envelope->item;
    toy_t *self = arg;

    (void)outbox;
    assert_ptr_not_equal(item, envelope->body);
    self->items = self->items * 10 + item->first;
    return STATUS_OK;
}

static void plan(void *arg, outbox_t *outbox)
{
    message_pull_t pull = {.copy = 5};
    toy_t *self = arg;

    if (!self->wants_pull || !outbox_may_send(outbox, RANK, MESSAGE_pull))
        return;
    outbox_push(outbox, RANK, MESSAGE_pull, &pull);
    self->wants_pull = false;
}

static uint8_t state_of(const void *arg)
{
    return ((const toy_t *)arg)->state;
}

static uint8_t attempt_state(const void *arg, uint64_t request, uint32_t attempt)
{
    return request == 7 && attempt == 1 ? ((const toy_t *)arg)->attempt : NONE;
}

static const char *const state_names[] = {"IDLE", "BUSY"};
static const char *const attempt_names[] = {"NONE", "OPEN"};

static const actor_rule_t rules[] = {
    {IDLE, MESSAGE_stop, on_stop, BIT(BUSY)},
    {ACTOR_STATE_ANY, MESSAGE_joined, on_nothing, BIT(IDLE) | BIT(BUSY)},
    {ACTOR_STATE_ANY, MESSAGE_exited, on_nothing, BIT(IDLE) | BIT(BUSY)},
    {ACTOR_STATE_ANY, MESSAGE_tick, on_nothing, BIT(IDLE) | BIT(BUSY)},
    {ACTOR_STATE_ANY, MESSAGE_targets, on_nothing, BIT(IDLE) | BIT(BUSY)},
    {ACTOR_STATE_ANY, MESSAGE_sources, on_nothing, BIT(IDLE) | BIT(BUSY)},
};
static const actor_refusal_t refusals[] = {
    {BUSY, MESSAGE_stop, "it stops already"},
    {IDLE, MESSAGE_targets, "too early"},
};
static const actor_rule_t attempt_rules[] = {
    {NONE, MESSAGE_open, on_open, BIT(NONE) | BIT(OPEN)},
    {OPEN, MESSAGE_abort, on_nothing, BIT(OPEN)},
    {ACTOR_STATE_ANY, MESSAGE_kv_ready, on_nothing, BIT(NONE) | BIT(OPEN)},
    {ACTOR_STATE_ANY, MESSAGE_pulled, on_nothing, BIT(NONE) | BIT(OPEN)},
};
static const actor_refusal_t attempt_refusals[] = {
    {OPEN, MESSAGE_open, "opened twice"},
    {NONE, MESSAGE_abort, "unknown, so it has ended"},
};

static const actor_type_t toy_type = {
    .kind = ACTOR_TRANSFER,
    .state_bytes = sizeof(toy_t),
    .plan = plan,
    .state = state_of,
    .attempt_state = attempt_state,
    .table = {state_names, 2, rules, COUNT_OF(rules), refusals, COUNT_OF(refusals)},
    .attempts = {attempt_names, 2, attempt_rules, COUNT_OF(attempt_rules), attempt_refusals,
                 COUNT_OF(attempt_refusals)},
};

/* ---- fixture ---- */

static roster_t roster = {
    .count = 4,
    .actors = {{"transfer/0", ACTOR_TRANSFER, ACTOR_NONE, 0},
               {"decode/0", ACTOR_DECODE, ACTOR_NONE, 0},
               {"prefill/0", ACTOR_PREFILL, ACTOR_NONE, 0},
               {"decode/0/rank/0", ACTOR_RANK, DECODE, 0}},
};

static uint8_t memory[1 << 16];
static arena_t arena;
static dispatch_t dispatch;
static capture_t *capture;
static toy_t *toy;

static int set_up(void **state)
{
    const actor_birth_t birth = {.id = TRANSFER, .incarnation = 1};

    (void)state;
    arena_init(&arena, memory, sizeof(memory));
    assert_true(dispatch_bytes(&toy_type, &message_table, &birth) <= sizeof(memory));
    assert_int_equal(dispatch_init(&dispatch, &toy_type, &message_table, &birth, &arena),
                     STATUS_OK);
    capture = capture_open(&message_table, &roster, TRANSFER);
    toy = dispatch.self;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    capture_close(capture);
    return 0;
}

static status_t send(uint16_t id, const void *body)
{
    const envelope_t envelope = {.from = DECODE, .incarnation = 1, .id = id, .body = body};

    return dispatch_message(&dispatch, &envelope, capture_outbox(capture));
}

static jmp_buf assertion_jump;

static void jump(const char *condition, const char *file, int line)
{
    (void)condition;
    (void)file;
    (void)line;
    longjmp(assertion_jump, 1);
}

#define EXPECT_ASSERT(statement)                                                                   \
    do {                                                                                           \
        check_hook_t *before = check_hook_set(jump);                                               \
        volatile bool returned = false;                                                            \
        if (setjmp(assertion_jump) == 0) {                                                         \
            statement;                                                                             \
            returned = true;                                                                       \
        }                                                                                          \
        check_hook_set(before);                                                                    \
        assert_false(returned);                                                                    \
    } while (0)

/* ---- tests ---- */

static void test_a_rule_runs_and_leaves_in_its_state(void **state)
{
    message_stop_t stop = {0};

    (void)state;
    toy->leave_in = BUSY;
    assert_int_equal(send(MESSAGE_stop, &stop), STATUS_OK);
    assert_int_equal(toy->state, BUSY);
    assert_string_equal(dispatch_state_name(&dispatch), "BUSY");
}

static void test_a_refusal_is_counted_with_its_reason(void **state)
{
    message_stop_t stop = {0};

    (void)state;
    toy->state = BUSY;
    assert_int_equal(send(MESSAGE_stop, &stop), STATUS_OK);
    assert_int_equal(dispatch.refused[MESSAGE_stop], 1);
    assert_string_equal(dispatch.refused_why[MESSAGE_stop], "it stops already");
}

static void test_a_named_state_wins_over_any(void **state)
{
    message_targets_t targets = {0};

    (void)state;
    assert_int_equal(send(MESSAGE_targets, &targets), STATUS_OK);
    assert_string_equal(dispatch.refused_why[MESSAGE_targets], "too early");
    toy->state = BUSY;
    assert_int_equal(send(MESSAGE_targets, &targets), STATUS_OK);
    assert_int_equal(dispatch.refused[MESSAGE_targets], 1);
}

static void test_leaving_in_another_state_is_an_assertion(void **state)
{
    message_stop_t stop = {0};

    (void)state;
    toy->leave_in = IDLE;
    EXPECT_ASSERT((void)send(MESSAGE_stop, &stop));
}

static void test_an_attempt_message_goes_by_the_attempt_state(void **state)
{
    message_abort_t m = {.request = 7, .attempt = 1};
    message_open_t open = {.request = 7, .attempt = 1};
    const message_opened_t *opened;

    (void)state;
    assert_int_equal(send(MESSAGE_abort, &m), STATUS_OK);
    assert_string_equal(dispatch.refused_why[MESSAGE_abort], "unknown, so it has ended");
    assert_int_equal(send(MESSAGE_open, &open), STATUS_OK);
    opened = capture_find(capture, DECODE, MESSAGE_opened);
    assert_non_null(opened);
    assert_int_equal(opened->request, 7);
    assert_int_equal(send(MESSAGE_abort, &m), STATUS_OK);
    assert_int_equal(dispatch.refused[MESSAGE_abort], 1);
}

static void test_what_a_handler_returns_acts_by_its_class(void **state)
{
    message_open_t open = {.request = 7, .attempt = 1};

    (void)state;
    toy->answer = STATUS_BUSY;
    assert_int_equal(send(MESSAGE_open, &open), STATUS_OK);
    toy->answer = STATUS_STALE;
    assert_int_equal(send(MESSAGE_open, &open), STATUS_OK);
    assert_int_equal(dispatch.failed[MESSAGE_open], 2);
    toy->answer = STATUS_NO_MEMORY;
    assert_int_equal(send(MESSAGE_open, &open), STATUS_NO_MEMORY);
}

static void test_items_are_dispatched_one_by_one(void **state)
{
    static const actor_rule_t item_rules[] = {
        {ACTOR_STATE_ANY, MESSAGE_tokens, on_item, BIT(NONE) | BIT(OPEN)},
    };
    actor_type_t type = toy_type;
    const record_tokens_item_t items[3] = {{.request = 7, .attempt = 1, .first = 1},
                                           {.request = 8, .attempt = 1, .first = 2},
                                           {.request = 7, .attempt = 1, .first = 3}};
    message_tokens_t tokens = {.items = {items, 3}};
    const actor_birth_t birth = {0};

    (void)state;
    type.attempts.rules = item_rules;
    type.attempts.rule_count = 1;
    type.attempts.refusal_count = 0;
    arena_reset(&arena);
    assert_int_equal(dispatch_init(&dispatch, &type, &message_table, &birth, &arena), STATUS_OK);
    assert_int_equal(send(MESSAGE_tokens, &tokens), STATUS_OK);
    assert_int_equal(((toy_t *)dispatch.self)->items, 123);
}

static void test_requests_wait_for_credit_and_leave_from_the_planner_only(void **state)
{
    message_open_t open = {.request = 7, .attempt = 1};
    message_pull_t pull = {0};

    (void)state;
    assert_int_equal(send(MESSAGE_open, &open), STATUS_OK);
    assert_non_null(capture_find(capture, DECODE, MESSAGE_opened));
    EXPECT_ASSERT(outbox_push(capture_outbox(capture), RANK, MESSAGE_pull, &pull));
    capture_may_send_set(capture, RANK, MESSAGE_pull, false);
    dispatch_plan(&dispatch, capture_outbox(capture));
    assert_int_equal(capture_count(capture), 0);
    capture_may_send_set(capture, RANK, MESSAGE_pull, true);
    dispatch_plan(&dispatch, capture_outbox(capture));
    dispatch_plan(&dispatch, capture_outbox(capture));
    assert_int_equal(capture_count(capture), 1);
    assert_non_null(capture_find(capture, RANK, MESSAGE_pull));
}

static void test_only_what_the_table_allows_can_be_pushed(void **state)
{
    message_opened_t opened = {.request = 7};
    message_submit_t submit = {.request = 7};
    outbox_t *outbox = capture_outbox(capture);

    (void)state;
    EXPECT_ASSERT(outbox_push(outbox, PREFILL, MESSAGE_opened, &opened)); /* not to prefill */
    EXPECT_ASSERT(outbox_push(outbox, PREFILL, MESSAGE_submit, &submit)); /* not from transfer */
    EXPECT_ASSERT(outbox_push(outbox, 99, MESSAGE_opened, &opened));      /* to nobody */
    outbox_push(outbox, DECODE, MESSAGE_opened, &opened);
}

static uint32_t faults(const actor_type_t *type)
{
    FILE *out = fopen("/dev/null", "w");
    uint32_t count = actor_type_check(type, &message_table, out);

    (void)fclose(out);
    return count;
}

static void test_a_type_check_names_every_undecided_pair(void **state)
{
    actor_type_t type = toy_type;
    actor_rule_t doubled[COUNT_OF(rules) + 1];

    (void)state;
    assert_int_equal(actor_type_check(&toy_type, &message_table, stderr), 0);
    type.table.refusal_count = 0; /* BUSY x STOP is undecided; IDLE x TARGETS falls to its rule */
    assert_int_equal(faults(&type), 1);
    type.table.rule_count = 0; /* five more messages, two states, and IDLE x STOP */
    assert_int_equal(faults(&type), 12);
    type = toy_type;
    type.attempts.rule_count = 0;
    assert_int_equal(faults(&type), 6);
    type = toy_type;
    memcpy(doubled, rules, sizeof(rules));
    doubled[COUNT_OF(rules)] = rules[0];
    type.table.rules = doubled;
    type.table.rule_count++;
    assert_int_equal(faults(&type), 1);
    doubled[COUNT_OF(rules)] = (actor_rule_t){IDLE, MESSAGE_submit, on_stop, BIT(IDLE)};
    assert_int_equal(faults(&type), 1); /* SUBMIT never comes to a transfer */
}

static void test_the_diagram_shows_the_arrows(void **state)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    (void)state;
    actor_print_table(&toy_type, &message_table, out);
    (void)fclose(out);
    assert_non_null(strstr(text, "IDLE --> BUSY: stop"));
    assert_non_null(strstr(text, "NONE --> OPEN: open"));
    assert_non_null(strstr(text, "BUSY --> IDLE: joined"));
    assert_null(strstr(text, "IDLE --> BUSY: stop, joined, exited, tick, targets"));
    free(text);
}

static void test_ranks_are_peers_of_their_own_leader_only(void **state)
{
    static roster_t more;

    (void)state;
    more = roster;
    more.actors[4] = (roster_actor_t){"decode/1", ACTOR_DECODE, ACTOR_NONE, 0};
    more.count = 5;
    assert_true(roster_are_peers(&more, &message_table, RANK, DECODE));
    assert_false(roster_are_peers(&more, &message_table, RANK, 4));
    assert_false(roster_are_peers(&more, &message_table, PREFILL, RANK));
    assert_true(roster_are_peers(&more, &message_table, TRANSFER, RANK));
    assert_true(roster_are_peers(&more, &message_table, PREFILL, 4));
    assert_false(roster_are_peers(&more, &message_table, DECODE, 4));
}

/* Who says another actor's name in a field is refused before a handler sees it. */
static void test_a_field_names_an_actor_of_its_kinds_or_nobody(void **state)
{
    const record_t *record = &message_table.rows[MESSAGE_open].record;
    const record_t *pools = &message_table.rows[MESSAGE_targets].record;
    record_pool_t pool[2] = {{.rank = RANK}, {.rank = RANK}};
    message_targets_t targets = {.pools = {pool, 2}};
    message_open_t open = {.prefill = PREFILL};

    (void)state;
    assert_int_equal(roster_check(&roster, record, &open), STATUS_OK);
    open.prefill = ACTOR_NONE;
    assert_int_equal(roster_check(&roster, record, &open), STATUS_OK);
    open.prefill = DECODE;
    assert_int_equal(roster_check(&roster, record, &open), STATUS_MALFORMED);
    open.prefill = PORT_DEVICE;
    assert_int_equal(roster_check(&roster, record, &open), STATUS_MALFORMED);
    open.prefill = 77;
    assert_int_equal(roster_check(&roster, record, &open), STATUS_MALFORMED);
    assert_int_equal(roster_check(&roster, pools, &targets), STATUS_OK);
    pool[1].rank = DECODE;
    assert_int_equal(roster_check(&roster, pools, &targets), STATUS_MALFORMED);
    assert_non_null(strstr(trail_text(), "decode/0"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(test_a_rule_runs_and_leaves_in_its_state),
        TEST(test_a_refusal_is_counted_with_its_reason),
        TEST(test_a_named_state_wins_over_any),
        TEST(test_leaving_in_another_state_is_an_assertion),
        TEST(test_an_attempt_message_goes_by_the_attempt_state),
        TEST(test_what_a_handler_returns_acts_by_its_class),
        TEST(test_items_are_dispatched_one_by_one),
        TEST(test_requests_wait_for_credit_and_leave_from_the_planner_only),
        TEST(test_only_what_the_table_allows_can_be_pushed),
        TEST(test_a_type_check_names_every_undecided_pair),
        TEST(test_the_diagram_shows_the_arrows),
        TEST(test_ranks_are_peers_of_their_own_leader_only),
        TEST(test_a_field_names_an_actor_of_its_kinds_or_nobody),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "tests/runtime/toys.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static status_t on_joined(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    const message_joined_t *m = envelope->body;
    toy_t *self = arg;

    (void)outbox;
    if (m->actor == TOY_SUPERVISOR)
        return STATUS_OK;
    assert_false(self->is_up);
    assert_true(m->incarnation > self->peer);
    self->is_up = true;
    self->peer = m->incarnation;
    self->joins++;
    return STATUS_OK;
}

static status_t on_exited(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    const message_exited_t *m = envelope->body;
    toy_t *self = arg;

    (void)outbox;
    assert_true(self->is_up);
    assert_int_equal(m->incarnation, self->peer);
    self->is_up = false;
    self->asked = 0;
    self->exits++;
    self->cause = m->cause;
    return STATUS_OK;
}

static status_t on_tick(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    const message_tick_t *m = envelope->body;
    toy_t *self = arg;

    (void)outbox;
    assert_true(m->now_ms >= self->now_ms);
    assert_true(m->now_ms - self->now_ms <= 2 * TOY_TICK_US / 1000);
    self->now_ms = m->now_ms;
    self->ticks++;
    return STATUS_OK;
}

static status_t on_open(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    const message_open_t *m = envelope->body;
    message_opened_t opened = {.request = m->request, .attempt = m->attempt};
    toy_t *self = arg;

    assert_true(self->is_up);
    assert_int_equal(envelope->incarnation, self->peer);
    self->opens++;
    outbox_push(outbox, envelope->from, MESSAGE_opened, &opened);
    return STATUS_OK;
}

static status_t on_opened(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    const message_opened_t *m = envelope->body;
    toy_t *self = arg;

    (void)outbox;
    assert_true(self->is_up);
    assert_int_equal(envelope->incarnation, self->peer);
    assert_true(m->request < TOY_ATTEMPTS);
    self->answered_count += self->answered[m->request]++ == 0;
    if (self->answered_count == TOY_ATTEMPTS)
        self->state = TOY_DONE;
    return STATUS_OK;
}

static status_t init_decode(void *arg, const actor_birth_t *birth)
{
    static const uint32_t all = TOY_ATTEMPTS;
    toy_t *self = arg;

    self->ask_max = birth->setup ? birth->setup : &all;
    return STATUS_OK;
}

static void plan_decode(void *arg, outbox_t *outbox)
{
    toy_t *self = arg;

    if (outbox_is_up(outbox, TOY_TRANSFER))
        assert_true(self->is_up);
    for (; self->asked < *self->ask_max && outbox_may_send(outbox, TOY_TRANSFER, MESSAGE_open);
         self->asked++) {
        message_open_t open = {.request = self->asked, .attempt = 1, .prefill = ACTOR_NONE};

        if (!self->answered[self->asked])
            outbox_push(outbox, TOY_TRANSFER, MESSAGE_open, &open);
    }
}

static uint8_t state_of(const void *self)
{
    return ((const toy_t *)self)->state;
}

static uint32_t attempt_count(const void *self)
{
    return ((const toy_t *)self)->answered_count;
}

static const char *const state_names[] = {"ON", "DONE"};

#define RULE(message, handler)                                                                     \
    {                                                                                              \
        ACTOR_STATE_ANY, MESSAGE_##message, handler, BIT(TOY_ON) | BIT(TOY_DONE)                   \
    }
static const actor_rule_t decode_rules[] = {RULE(joined, on_joined), RULE(exited, on_exited),
                                            RULE(tick, on_tick), RULE(opened, on_opened)};
static const actor_rule_t transfer_rules[] = {RULE(joined, on_joined), RULE(exited, on_exited),
                                              RULE(tick, on_tick), RULE(open, on_open)};
const actor_type_t toy_decode = {
    .kind = ACTOR_DECODE,
    .state_bytes = sizeof(toy_t),
    .init = init_decode,
    .plan = plan_decode,
    .attempt_count = attempt_count,
    .state = state_of,
    .table = {state_names, 2, decode_rules, COUNT_OF(decode_rules), NULL, 0},
};
const actor_type_t toy_transfer = {
    .kind = ACTOR_TRANSFER,
    .state_bytes = sizeof(toy_t),
    .state = state_of,
    .table = {state_names, 2, transfer_rules, COUNT_OF(transfer_rules), NULL, 0},
};

/* The supervisor does one thing only: REAPED becomes EXITED for everybody who is there. */

static status_t on_reaped(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    const message_reaped_t *m = envelope->body;
    message_exited_t exited = {.actor = m->actor, .incarnation = m->incarnation, .cause = m->cause};

    (void)arg;
    for (actor_id_t id = 0; id < TOY_SUPERVISOR; id++)
        if (outbox_is_up(outbox, id))
            outbox_push(outbox, id, MESSAGE_exited, &exited);
    return STATUS_OK;
}

static status_t on_nothing(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    (void)arg;
    (void)envelope;
    (void)outbox;
    return STATUS_OK;
}

static const actor_rule_t supervisor_rules[] = {RULE(joined, on_nothing), RULE(exited, on_nothing),
                                                RULE(tick, on_nothing), RULE(reaped, on_reaped)};
const actor_type_t toy_supervisor = {
    .kind = ACTOR_SUPERVISOR,
    .state_bytes = sizeof(toy_t),
    .state = state_of,
    .table = {state_names, 2, supervisor_rules, COUNT_OF(supervisor_rules), NULL, 0},
};

const roster_t toy_roster = {.count = 3,
                             .actors = {{"decode/0", ACTOR_DECODE, ACTOR_NONE, 0},
                                        {"transfer/0", ACTOR_TRANSFER, ACTOR_NONE, 0},
                                        {"supervisor/0", ACTOR_SUPERVISOR, ACTOR_NONE, 0}}};

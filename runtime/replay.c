#include "runtime/replay.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/dispatch.h"
#include "runtime/node.h"
#include "runtime/outbox.h"

enum { TEXT_BYTES = 512, OVERWRITTEN = 0xd7 };

struct replay {
    replay_config_t config;
    actor_birth_t birth;
    dispatch_t dispatch;
    outbox_t outbox;
    node_room_t room;
    arena_t arena;   /* of the message in hand */
    void *memory;    /* of the dispatch tables and the state */
    void *second;    /* another place for the state; NULL: it does not move */
    void *elsewhere; /* where it is not now */
    const journal_record_t *record;
    uint32_t answered;
    uint32_t pushed;
    uint64_t asked;
    replay_outcome_t outcome;
    char text[TEXT_BYTES];
};

/* A handler cannot be told to stop, so it is left. */
static replay_t *stepping;
static jmp_buf out;

static _Noreturn void leave(replay_t *replay, replay_outcome_t outcome, const char *format, ...)
    PRINTF_LIKE(3, 4);

static _Noreturn void leave(replay_t *replay, replay_outcome_t outcome, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(replay->text, sizeof(replay->text), format, arguments);
    va_end(arguments);
    replay->outcome = outcome;
    longjmp(out, 1);
}

static void on_assertion(const char *condition, const char *file, int line)
{
    leave(stepping, REPLAY_ASSERTED, "assertion failed at %s:%d: %s", file, line, condition);
}

/* ---- what the outbox says and gets ----------------------------------------------------------- */

/* Null beyond the end of a record without a result: nothing is known of what it said. */
static const journal_result_t *result_of(const replay_t *replay)
{
    const journal_result_t *result = replay->record->result;

    return result && !result->lost ? result : NULL;
}

static bool answer(const void *context, actor_id_t to, uint16_t id)
{
    /* The sink's questions are const for a node; here each takes the next answer. */
    replay_t *replay = stepping;
    const journal_result_t *result = result_of(replay);
    uint32_t at = replay->answered++;
    bool yes;

    ASSERT(context == replay);
    if (!result)
        return true;
    if (at >= result->answer_count)
        leave(replay, REPLAY_DIFFERS,
              "it asks whether %s may get more, which is question %u; then it asked %u",
              roster_name(replay->config.roster, to), at + 1, result->answer_count);
    yes = replay->record->answers[at / 64] >> at % 64 & 1;
    replay->asked = journal_asked(replay->asked, to, id, yes);
    return yes;
}

static bool is_up(const void *context, actor_id_t to)
{
    return answer(context, to, JOURNAL_IS_UP);
}

static bool may_send(const void *context, actor_id_t to, const message_row_t *row)
{
    return answer(context, to, row->id);
}

static void describe(const replay_t *replay, const journal_output_t *output, char *text,
                     size_t size)
{
    const message_table_t *table = replay->config.table;

    snprintf(text, size, "%s to %s, %u bytes, digest %016llx",
             output->id < table->count && table->rows[output->id].name
                 ? table->rows[output->id].name
                 : "?",
             roster_name(replay->config.roster, output->to), output->size,
             (unsigned long long)output->digest);
}

static void put(void *context, actor_id_t to, const message_row_t *row, const uint8_t *body,
                size_t size)
{
    replay_t *replay = context;
    const journal_result_t *result = result_of(replay);
    const journal_output_t now = {journal_output_digest(body, size), (uint32_t)size, to, row->id};
    uint32_t at = replay->pushed++;
    char here[TEXT_BYTES / 3], then[TEXT_BYTES / 3] = "nothing";

    if (replay->config.pushed)
        replay->config.pushed(replay->config.context, to, row->id, body, size);
    if (!result)
        return;
    if (at < result->output_count) {
        const journal_output_t *output = &replay->record->outputs[at];

        if (output->digest == now.digest && output->size == now.size && output->to == now.to &&
            output->id == now.id)
            return;
        describe(replay, output, then, sizeof(then));
    }
    describe(replay, &now, here, sizeof(here));
    leave(replay, REPLAY_DIFFERS, "output %u: now %s; then %s", at + 1, here, then);
}

/* ---- one record ------------------------------------------------------------------------------ */

/* To the other place, and nothing is left where it was. */
static void relocate(replay_t *replay)
{
    void *from = replay->dispatch.self;

    if (!replay->second || replay->record->number % replay->config.relocate != 0)
        return;
    memcpy(replay->elsewhere, from, replay->dispatch.self_bytes);
    memset(from, OVERWRITTEN, replay->dispatch.self_bytes);
    replay->dispatch.self = replay->elsewhere;
    replay->elsewhere = from;
}

static status_t handle(replay_t *replay)
{
    const journal_input_t *input = replay->record->input;
    const void *decoded = NULL;
    envelope_t envelope;

    if (replay->record->what == JOURNAL_PLAN ||
        dispatch_admit(&replay->dispatch, replay->config.roster, input->from,
                       input->id, replay->record->body, input->size, &replay->arena,
                       &decoded) != STATUS_OK)
        return STATUS_OK;
    envelope = (envelope_t){
        .from = input->from, .incarnation = input->incarnation, .id = input->id, .body = decoded};
    return dispatch_message(&replay->dispatch, &envelope, &replay->outbox);
}

static void compare(replay_t *replay, status_t status)
{
    const journal_result_t *result = result_of(replay);
    const dispatch_t *dispatch = &replay->dispatch;
    const actor_type_t *type = dispatch->type;
    uint8_t state = type->state(dispatch->self);
    uint32_t attempts = type->attempt_count ? type->attempt_count(dispatch->self) : 0;
    char then[TEXT_BYTES / 3];

    if (status != (status_t)result->status)
        leave(replay, REPLAY_DIFFERS, "it ends with %s; then with %s", status_name(status),
              status_name((status_t)result->status));
    if (replay->pushed < result->output_count) {
        describe(replay, &replay->record->outputs[replay->pushed], then, sizeof(then));
        leave(replay, REPLAY_DIFFERS, "output %u: now nothing; then %s", replay->pushed + 1, then);
    }
    if (replay->answered != result->answer_count || replay->asked != result->asked)
        leave(replay, REPLAY_DIFFERS,
              "it asks what it may send %u times, digest %016llx; then %u times, digest %016llx",
              replay->answered, (unsigned long long)replay->asked, result->answer_count,
              (unsigned long long)result->asked);
    if (state != result->state)
        leave(replay, REPLAY_DIFFERS, "its state is %u (%s); then it was %u", state,
              dispatch_state_name(dispatch), result->state);
    if (attempts != result->attempts)
        leave(replay, REPLAY_DIFFERS, "%u attempts live; then %u did", attempts, result->attempts);
}

static void perform(replay_t *replay)
{
    status_t status = handle(replay);

    if (status == STATUS_OK)
        dispatch_plan(&replay->dispatch, &replay->outbox);
    if (result_of(replay))
        compare(replay, status);
}

replay_outcome_t replay_step(replay_t *replay, const journal_record_t *record)
{
    check_hook_t *hook;

    ASSERT(!stepping);
    arena_reset(&replay->arena);
    trail_reset();
    replay->record = record;
    relocate(replay);
    replay->answered = replay->pushed = 0;
    replay->asked = 0;
    replay->text[0] = '\0';
    replay->outcome = !record->result        ? REPLAY_ENDED
                      : record->result->lost ? REPLAY_LOST
                                             : REPLAY_SAME;
    stepping = replay;
    hook = check_hook_set(on_assertion);
    if (setjmp(out) == 0)
        perform(replay);
    check_hook_set(hook);
    replay->outbox.planning = false;
    stepping = NULL;
    return replay->outcome;
}

/* ---- life ------------------------------------------------------------------------------------ */

static status_t open_parts(replay_t *replay, const journal_file_t *file)
{
    const replay_config_t *config = &replay->config;
    uint64_t state_bytes = dispatch_state_bytes(config->type, &replay->birth);
    size_t bytes = dispatch_bytes(config->type, config->table, &replay->birth);
    arena_t arena;

    if (file->header->state_bytes != state_bytes)
        return FAIL(STATUS_MISMATCH,
                    "the state of its actor has %llu bytes, in this build it has %llu",
                    (unsigned long long)file->header->state_bytes, (unsigned long long)state_bytes);
    TRY(node_room_open(&replay->room));
    replay->memory = calloc(1, bytes);
    if (!replay->memory)
        return FAIL(STATUS_NO_MEMORY, "an actor of %zu bytes", bytes);
    arena_init(&replay->arena, replay->room.decoded, MESSAGE_ARENA_BYTES);
    outbox_init(&replay->outbox, config->table, config->roster, replay->birth.id,
                (outbox_sink_t){replay, put, is_up, may_send, NULL}, replay->room.encoded,
                MESSAGE_BYTES_MAX);
    arena_init_zeroed(&arena, replay->memory, bytes);
    TRY(dispatch_init(&replay->dispatch, config->type, config->table, &replay->birth, &arena));
    replay->dispatch.check = true;
    TRY(journal_file_state(file, replay->dispatch.self, replay->dispatch.self_bytes));
    if (config->type->check)
        config->type->check(replay->dispatch.self);
    if (!config->relocate)
        return STATUS_OK;
    replay->second = aligned_alloc(64, (replay->dispatch.self_bytes + 63) & ~(size_t)63);
    replay->elsewhere = replay->second;
    return replay->second ? STATUS_OK : FAIL(STATUS_NO_MEMORY, "a second state");
}

/* An init and a check trust their birth and state; a file is to be trusted with neither. */
static status_t open_guarded(replay_t *replay, const journal_file_t *file)
{
    check_hook_t *hook = check_hook_set(on_assertion);
    volatile status_t status = STATUS_CORRUPT;

    stepping = replay;
    if (setjmp(out) == 0)
        status = open_parts(replay, file);
    else
        status = FAIL(STATUS_CORRUPT, "its state is none that %s can have: %s", file->header->name,
                      replay->text);
    stepping = NULL;
    check_hook_set(hook);
    return status;
}

status_t replay_open(const journal_file_t *file, const replay_config_t *config, replay_t **replay_p)
{
    replay_t *replay;
    status_t status;

    if (file->header->withheld)
        return FAIL(STATUS_REFUSED,
                    "it was kept without token ids, which %s needs to run again; its messages can "
                    "be printed",
                    file->header->name);
    replay = calloc(1, sizeof(*replay));
    if (!replay)
        return FAIL(STATUS_NO_MEMORY, "a replay");
    replay->config = *config;
    replay->birth = *config->birth;
    status = open_guarded(replay, file);
    if (status != STATUS_OK) {
        replay_close(replay);
        return trail_pass(status, __func__, __LINE__);
    }
    *replay_p = replay;
    return STATUS_OK;
}

void replay_close(replay_t *replay)
{
    if (!replay)
        return;
    node_room_close(&replay->room);
    free(replay->memory);
    free(replay->second);
    free(replay);
}

const char *replay_text(const replay_t *replay)
{
    return replay->text;
}

const void *replay_state(const replay_t *replay, size_t *bytes)
{
    *bytes = replay->dispatch.self_bytes;
    return replay->dispatch.self;
}

const char *replay_state_name(const replay_t *replay)
{
    return dispatch_state_name(&replay->dispatch);
}

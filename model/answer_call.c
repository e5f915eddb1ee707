/* answer_call.c - a call that has begun: it is sent as it is read, and nothing of it is taken back.
 *
 * The closing brace of the arguments goes out only when the invoke ends, so a call that breaks inside
 * stays visibly unclosed.
 */
#include <string.h>

#include "model/answer_parts.h"

static void send_scratch(answer_t *a)
{
    answer_emit(a, ANSWER_ARGUMENTS, a->scratch.bytes, a->scratch.used);
    a->scratch.used = 0;
}

bool answer_begin_call(answer_t *a)
{
    tag_t tag = tag_read(a->text.bytes + a->invoke, a->text.used - a->invoke, BIT(TAG_INVOKE));
    ASSERT(tag.kind == TAG_INVOKE);
    /* A single newline has been sent by now: only "\n\n" or what is behind a block is in between. */
    a->reasoning = false;
    a->call_count++;
    a->names.used = 0;
    a->name_count = 0;
    a->any_sent = a->json_body;
    answer_emit(a, ANSWER_CALL, tag.name, tag.name_length);
    if (a->json_body)
        answer_emit(a, ANSWER_ARGUMENTS, a->text.bytes + a->value, a->live - 1 - a->value);
    if (!tag.closed)
        return answer_enter(a, ANSWER_LIVE_AFTER, a->live);
    answer_emit(a, ANSWER_ARGUMENTS, "{}", 2);
    return answer_enter(a, ANSWER_BEHIND, a->live);
}

static void close_call(answer_t *a)
{
    const char *end = a->any_sent ? "}" : "{}";
    answer_emit(a, ANSWER_ARGUMENTS, end, strlen(end));
}

/* Separator and key of the parameter that was named last. */
static void put_key(answer_t *a)
{
    text_put_text(&a->scratch, a->any_sent ? ", \"" : "{\"");
    text_put_escaped_text(&a->scratch, a->names.bytes + a->name, a->names.used - 1 - a->name);
    text_put_text(&a->scratch, "\": ");
    a->any_sent = true;
}

/* What was read of the call stays; from `start` on it is text. */
static bool broken(answer_t *a)
{
    return answer_enter(a, ANSWER_IN_TEXT, a->start);
}

static bool begin_parameter(answer_t *a, const tag_t *tag)
{
    if (!answer_add_name(a, tag))
        return broken(a);
    answer_enter(a, tag->string ? ANSWER_LIVE_STRING : ANSWER_LIVE_LITERAL, a->scan + tag->length);
    a->value = a->start;
    if (tag->string && a->names.status == STATUS_OK) {
        put_key(a);
        text_put_text(&a->scratch, "\"");
        send_scratch(a);
    }
    return true;
}

/* The text has ended behind a parameter or object, but for white space. */
static bool end_behind_value(answer_t *a)
{
    if (a->ended && a->ended_by == ANSWER_ENDED_BY_EOS)
        close_call(a);
    if (a->ended)
        a->start = a->text.used;
    return false;
}

bool answer_step_after(answer_t *a)
{
    bool more = answer_skip_space(a);
    if (a->scan - a->start > ANSWER_HELD_BYTES_MAX)
        return broken(a);
    if (!more)
        return end_behind_value(a);
    tag_t tag = tag_read(a->text.bytes + a->scan, a->text.used - a->scan,
                         BIT(TAG_INVOKE_END) | BIT(TAG_WRAPPER_END) | BIT(TAG_INVOKE) |
                             (a->json_body ? 0 : BIT(TAG_PARAMETER)));
    switch (tag.kind) {
    case TAG_PARAMETER:
        return begin_parameter(a, &tag);
    case TAG_WRAPPER_END:
        a->inside = ANSWER_INSIDE_NOTHING;
        close_call(a);
        return answer_enter(a, ANSWER_BEHIND, a->scan + tag.length);
    case TAG_INVOKE_END:
        close_call(a);
        return answer_enter(a, ANSWER_BEHIND, a->scan + tag.length);
    case TAG_INVOKE:
        close_call(a);
        return answer_hold_invoke(a, a->scan, a->inside);
    case TAG_CUT:
        if (!a->ended)
            return false;
        if (a->ended_by == ANSWER_ENDED_BY_LENGTH) {
            answer_suppress(a, a->start, a->text.used);
            return false;
        }
        return broken(a);
    default:
        return broken(a);
    }
}

/* Bytes at the end of the text that may begin the closing tag. */
static size_t closer_begun(const answer_t *a)
{
    size_t longest = strlen(TAG_PARAMETER_CLOSER) - 1;
    size_t have = a->text.used - a->start;
    for (size_t length = longest < have ? longest : have; length > 0; length--) {
        if (memcmp(a->text.bytes + a->text.used - length, TAG_PARAMETER_CLOSER, length) == 0)
            return length;
    }
    return 0;
}

bool answer_step_string(answer_t *a)
{
    size_t at;
    bool closed = answer_find_closer(a, a->start, &at);
    if (!closed)
        at = a->ended ? a->text.used : a->text.used - closer_begun(a);
    text_put_escaped_text(&a->scratch, a->text.bytes + a->start, at - a->start);
    if (closed)
        text_put_text(&a->scratch, "\"");
    send_scratch(a);
    a->start = at;
    return closed && answer_enter(a, ANSWER_LIVE_AFTER, at + strlen(TAG_PARAMETER_CLOSER));
}

static void send_literal(answer_t *a, size_t end)
{
    size_t from = a->value, to = end;
    while (from < to && memchr(" \t\r\n", a->text.bytes[from], 4) != NULL)
        from++;
    while (to > from && memchr(" \t\r\n", a->text.bytes[to - 1], 4) != NULL)
        to--;
    put_key(a);
    if (answer_is_json(a, from, to)) {
        text_put(&a->scratch, a->text.bytes + from, to - from);
    } else {
        text_put_text(&a->scratch, "\"");
        text_put_escaped_text(&a->scratch, a->text.bytes + a->value, end - a->value);
        text_put_text(&a->scratch, "\"");
    }
    send_scratch(a);
}

bool answer_step_literal(answer_t *a)
{
    size_t closer = strlen(TAG_PARAMETER_CLOSER), at;
    bool closed = answer_find_closer(a, a->scan, &at);
    size_t length = closed ? at - a->value : a->text.used - a->value;
    if (length > ANSWER_HELD_BYTES_MAX + (closed ? 0 : closer - 1))
        return broken(a);
    if (closed) {
        send_literal(a, at);
        return answer_enter(a, ANSWER_LIVE_AFTER, at + closer);
    }
    if (length >= closer)
        a->scan = a->text.used - (closer - 1);
    if (!a->ended)
        return false;
    if (a->ended_by == ANSWER_ENDED_BY_EOS)
        return broken(a);
    answer_suppress(a, a->start, a->text.used);
    return false;
}

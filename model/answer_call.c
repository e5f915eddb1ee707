/* answer_call.c - a call that has begun: it is sent as it is read, and nothing of it is taken back.
 *
 * The closing brace of the arguments goes out only when the invoke ends, so a call that ends inside
 * stays visibly unclosed. What does not belong into a call (a second parameter of one name, text
 * between parameters, a begun tag at the end) is suppressed, and the call goes on.
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
    tag_t tag = answer_tag(a, a->invoke, BIT(TAG_INVOKE));
    ASSERT(tag.kind == TAG_INVOKE);
    /* A single newline has been sent by now: only "\n\n" or what is behind a block is in between. */
    a->reasoning = false;
    a->call_count++;
    a->names.used = 0;
    a->name_count = 0;
    a->any_sent = a->json_body;
    a->arguments_open = !tag.closed;
    a->nonstandard += tag.ascii_bars;
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
    a->arguments_open = false;
}

/* Separator and key of the parameter that was named last. */
static void put_key(answer_t *a)
{
    text_put_text(&a->scratch, a->any_sent ? ", \"" : "{\"");
    text_put_escaped_text(&a->scratch, a->names.bytes + a->name, a->names.used - 1 - a->name);
    text_put_text(&a->scratch, "\": ");
    a->any_sent = true;
}

/* [from, ...) does not count: it is suppressed as it is read, `scan` ahead of it. */
static bool drop(answer_t *a, unsigned state, size_t from, size_t scan)
{
    answer_enter(a, state, from);
    a->scan = scan;
    return true;
}

/* Of what is dropped, all up to `scan` but what fits into one entry. Where entries end depends on the
 * text alone. */
static void drop_long(answer_t *a)
{
    while (a->scan - a->start > ANSWER_HELD_BYTES_MAX) {
        size_t end = a->start + ANSWER_HELD_BYTES_MAX;
        while ((a->text.bytes[end] & 0xc0) == 0x80) /* inside a character */
            end--;
        answer_suppress(a, a->start, end);
    }
}

/* The text has ended in what is dropped. */
static bool end_dropped(answer_t *a)
{
    a->scan = a->text.used;
    drop_long(a);
    answer_suppress_trimmed(a, a->start, a->text.used);
    return false;
}

static bool begin_parameter(answer_t *a, const tag_t *tag)
{
    if (a->json_body || !answer_add_name(a, tag))
        return drop(a, ANSWER_LIVE_DROPPED, a->scan, a->scan + tag->length);
    answer_enter(a, tag->string ? ANSWER_LIVE_STRING : ANSWER_LIVE_LITERAL, a->scan + tag->length);
    a->value = a->start;
    if (tag->string && a->names.status == STATUS_OK) {
        put_key(a);
        text_put_text(&a->scratch, "\"");
        send_scratch(a);
    }
    return true;
}

static const unsigned fits_in_call =
    BIT(TAG_INVOKE_END) | BIT(TAG_WRAPPER_END) | BIT(TAG_INVOKE) | BIT(TAG_PARAMETER);

/* A tag that fits, at `scan`. */
static bool take_tag(answer_t *a, const tag_t *tag)
{
    a->nonstandard += tag->ascii_bars;
    switch (tag->kind) {
    case TAG_PARAMETER:
        return begin_parameter(a, tag);
    case TAG_INVOKE:
        close_call(a);
        a->start = a->scan;
        return answer_hold_invoke(a, a->scan, a->inside);
    case TAG_WRAPPER_END:
        a->inside = ANSWER_INSIDE_NOTHING;
        close_call(a);
        return answer_enter(a, ANSWER_BEHIND, a->scan + tag->length);
    default:
        ASSERT(tag->kind == TAG_INVOKE_END);
        close_call(a);
        return answer_enter(a, ANSWER_BEHIND, a->scan + tag->length);
    }
}

/* Behind a parameter or an object. The end of an invoke may be missing at the end of an answer that
 * ended by itself, unless another parameter has begun. */
bool answer_step_after(answer_t *a)
{
    bool more = answer_skip_space(a), ends = a->ended && a->ended_by == ANSWER_ENDED_BY_EOS;
    a->start = a->scan;
    if (!more) {
        if (ends)
            close_call(a);
        return false;
    }
    tag_t tag = answer_tag(a, a->scan, fits_in_call);
    if (tag.kind == TAG_NONE)
        return drop(a, ANSWER_LIVE_STRAY, a->scan, a->scan + 1);
    if (tag.kind != TAG_CUT)
        return take_tag(a, &tag);
    if (!a->ended)
        return false;
    if (ends && tag.may_be != BIT(TAG_PARAMETER))
        close_call(a);
    answer_suppress_trimmed(a, a->start, a->text.used);
    return false;
}

bool answer_step_stray(answer_t *a)
{
    for (;;) {
        const char *bracket = a->scan == a->text.used ? NULL
                                                      : memchr(a->text.bytes + a->scan, '<',
                                                               a->text.used - a->scan);
        a->scan = bracket == NULL ? a->text.used : (size_t)(bracket - a->text.bytes);
        drop_long(a);
        tag_t tag = {.kind = TAG_CUT};
        if (bracket != NULL)
            tag = answer_tag(a, a->scan, fits_in_call);
        if (tag.kind == TAG_CUT)
            return a->ended && end_dropped(a);
        if (tag.kind != TAG_NONE) {
            answer_suppress_trimmed(a, a->start, a->scan);
            return take_tag(a, &tag);
        }
        a->scan++;
    }
}

/* Where the end of a parameter can begin at the earliest, when there is none behind `from` yet. */
static size_t closer_earliest(const answer_t *a, size_t from)
{
    size_t overlap = ANSWER_CLOSER_BYTES - 1;
    return a->text.used - from > overlap ? a->text.used - overlap : from;
}

bool answer_step_dropped(answer_t *a)
{
    size_t at, length;
    if (answer_find_closer(a, a->scan, &at, &length)) {
        a->scan = at + length;
        drop_long(a);
        answer_suppress(a, a->start, a->scan);
        return answer_enter(a, ANSWER_LIVE_AFTER, a->scan);
    }
    a->scan = closer_earliest(a, a->scan);
    drop_long(a);
    return a->ended && end_dropped(a);
}

/* Bytes at the end of the text that may begin the closing tag. */
static size_t closer_begun(const answer_t *a)
{
    size_t have = a->text.used - a->start;
    size_t longest = ANSWER_CLOSER_BYTES - 1 < have ? ANSWER_CLOSER_BYTES - 1 : have;
    for (size_t length = longest; length > 0; length--)
        if (answer_tag(a, a->text.used - length, BIT(TAG_PARAMETER_END)).kind == TAG_CUT)
            return length;
    return 0;
}

bool answer_step_string(answer_t *a)
{
    size_t at, length;
    bool closed = answer_find_closer(a, a->start, &at, &length);
    if (!closed)
        at = a->text.used - closer_begun(a);
    text_put_escaped_text(&a->scratch, a->text.bytes + a->start, at - a->start);
    if (closed)
        text_put_text(&a->scratch, "\"");
    send_scratch(a);
    a->start = at;
    if (closed)
        return answer_enter(a, ANSWER_LIVE_AFTER, at + length);
    if (a->ended)
        answer_suppress(a, at, a->text.used);
    return false;
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

/* One that is too long to be held does not count. */
bool answer_step_literal(answer_t *a)
{
    size_t at, length;
    bool closed = answer_find_closer(a, a->scan, &at, &length);
    if (!closed)
        a->scan = closer_earliest(a, a->scan);
    if ((closed ? at : a->scan) - a->value > ANSWER_HELD_BYTES_MAX)
        return drop(a, ANSWER_LIVE_DROPPED, a->value, a->scan);
    if (closed) {
        send_literal(a, at);
        return answer_enter(a, ANSWER_LIVE_AFTER, at + length);
    }
    return a->ended && end_dropped(a);
}

/* answer.c - see answer.h: bytes in, the text between blocks, and what all parts share.
 *
 * The states are drawn in answer_parts.h. In text only a '<' can begin something, and of the white
 * space before it only "\n\n" may have to go, so no more than that is ever held back.
 */
#include "model/answer.h"

#include <string.h>

#include "model/answer_parts.h"
#include "model/document.h"
#include "model/utf8.h"

enum { SLICE_BYTES_MAX = 1 << 14 };

_Static_assert(ANSWER_HELD_BYTES_MAX >= 4 * SLICE_BYTES_MAX, "what waits fits beside a slice");

void answer_init(answer_t *a, const answer_options_t *options, answer_sink_t *sink, void *context)
{
    *a = (answer_t){
        .options = *options, .sink = sink, .context = context, .reasoning = options->thinking};
    text_buffer_init(&a->text, 2 * (size_t)ANSWER_HELD_BYTES_MAX);
    text_buffer_init(&a->names, (size_t)ANSWER_PARAMETERS_MAX * (ANSWER_NAME_BYTES_MAX + 1));
    /* An escaped byte has at most six; key and separators come on top. */
    text_buffer_init(&a->scratch, 16 * (size_t)ANSWER_HELD_BYTES_MAX);
}

void answer_fini(answer_t *a)
{
    text_buffer_fini(&a->text);
    text_buffer_fini(&a->names);
    text_buffer_fini(&a->scratch);
}

/* ---- shared ---- */

void answer_emit(answer_t *a, answer_kind_t kind, const char *text, size_t length)
{
    if (length == 0 || a->status != STATUS_OK)
        return;
    uint32_t call = kind == ANSWER_CALL || kind == ANSWER_ARGUMENTS ? a->call_count - 1 : 0;
    a->sink(a->context, &(answer_event_t){kind, call, text, length});
}

void answer_emit_text(answer_t *a, size_t from, size_t to)
{
    ASSERT(from >= a->start && to >= from);
    answer_emit(a, a->reasoning ? ANSWER_REASONING : ANSWER_CONTENT, a->text.bytes + from,
                to - from);
    a->start = to;
}

void answer_suppress(answer_t *a, size_t from, size_t to)
{
    answer_emit(a, ANSWER_SUPPRESSED, a->text.bytes + from, to - from);
    a->start = to;
}

void answer_suppress_trimmed(answer_t *a, size_t from, size_t to)
{
    size_t first = from, last = to;
    while (first < last && memchr(" \t\r\n", a->text.bytes[first], 4) != NULL)
        first++;
    while (last > first && memchr(" \t\r\n", a->text.bytes[last - 1], 4) != NULL)
        last--;
    answer_suppress(a, first, last);
    a->start = to;
}

tag_t answer_tag(const answer_t *a, size_t at, unsigned wanted)
{
    return tag_read(a->text.bytes + at, a->text.used - at,
                    wanted | (a->options.tools ? TAG_ASCII_BARS : 0));
}

bool answer_enter(answer_t *a, unsigned state, size_t start)
{
    a->state = state;
    a->start = start;
    a->scan = start;
    return true;
}

bool answer_skip_space(answer_t *a)
{
    while (a->scan < a->text.used && memchr(" \t\r\n", a->text.bytes[a->scan], 4) != NULL)
        a->scan++;
    return a->scan < a->text.used;
}

bool answer_find_closer(const answer_t *a, size_t from, size_t *at, size_t *length)
{
    while (from < a->text.used) {
        const char *found = memchr(a->text.bytes + from, '<', a->text.used - from);
        if (found == NULL)
            return false;
        *at = (size_t)(found - a->text.bytes);
        tag_t tag = answer_tag(a, *at, BIT(TAG_PARAMETER_END));
        *length = tag.length;
        if (tag.kind == TAG_PARAMETER_END)
            return true;
        from = *at + 1;
    }
    return false;
}

bool answer_is_json(answer_t *a, size_t from, size_t to)
{
    document_t document;
    status_t status = document_parse(&document, DOCUMENT_STRICT, a->text.bytes + from, to - from);
    bool json = status == STATUS_OK && !document.twins;
    document_fini(&document);
    if (status == STATUS_NO_MEMORY)
        a->status = status;
    return json;
}

bool answer_add_name(answer_t *a, const tag_t *tag)
{
    if (a->name_count == ANSWER_PARAMETERS_MAX)
        return false;
    for (size_t at = 0; at < a->names.used;) {
        const char *name = a->names.bytes + at;
        size_t length = (size_t)((const char *)memchr(name, '\n', a->names.used - at) - name);
        if (length == tag->name_length && memcmp(name, tag->name, length) == 0)
            return false;
        at += length + 1;
    }
    a->name = a->names.used;
    a->name_count++;
    text_put(&a->names, tag->name, tag->name_length);
    text_put(&a->names, "\n", 1);
    return true;
}

/* Whether calls that come now are kept from the client. */
bool answer_suppresses(const answer_t *a)
{
    return !a->options.tools || (!a->options.parallel_tool_calls && a->call_count > 0);
}

/* ---- text ---- */

static unsigned begins_block(const answer_t *a)
{
    return BIT(TAG_WRAPPER) | (a->options.tools ? BIT(TAG_INVOKE) : 0);
}

/* From `start` up to the next '<', and what that begins. */
static bool step_text(answer_t *a)
{
    const char *bytes = a->text.bytes;
    const char *bracket =
        a->start == a->text.used ? NULL : memchr(bytes + a->start, '<', a->text.used - a->start);
    size_t stop = bracket == NULL ? a->text.used : (size_t)(bracket - bytes);
    size_t newlines = 0;
    while (newlines < 2 && newlines < stop - a->start && bytes[stop - 1 - newlines] == '\n')
        newlines++;
    if (bracket == NULL) {
        answer_emit_text(a, a->start, a->ended ? stop : stop - newlines);
        return false;
    }
    answer_emit_text(a, a->start, newlines == 2 ? stop - 2 : stop);
    tag_t tag = answer_tag(a, stop, BIT(TAG_THINK) | BIT(TAG_THINK_END) | begins_block(a));
    switch (tag.kind) {
    case TAG_CUT:
        if (!a->ended)
            return false;
        if (a->ended_by == ANSWER_ENDED_BY_LENGTH && tag.behind_mark) {
            answer_suppress(a, stop, a->text.used);
            return false;
        }
        break;
    case TAG_THINK:
    case TAG_THINK_END:
        answer_emit_text(a, a->start, stop);
        a->reasoning = tag.kind == TAG_THINK;
        a->start = stop + tag.length;
        return true;
    case TAG_WRAPPER:
        return answer_hold_wrapper(a, stop, &tag);
    case TAG_INVOKE:
        return answer_hold_invoke(a, stop, ANSWER_INSIDE_ORPHAN);
    default:
        break;
    }
    answer_emit_text(a, a->start,
                     stop + 1); /* the bracket is text, what is behind it may be more */
    return true;
}

/* Behind a block white space waits: it goes if nothing or another block follows. */
static bool step_behind(answer_t *a)
{
    bool more = answer_skip_space(a);
    if (a->scan - a->start > ANSWER_HELD_BYTES_MAX)
        return answer_enter(a, ANSWER_IN_TEXT, a->start);
    if (!more) {
        if (a->ended)
            a->start = a->text.used;
        return false;
    }
    size_t at = a->scan;
    bool open = a->inside != ANSWER_INSIDE_NOTHING;
    bool in_wrapper = a->inside == ANSWER_INSIDE_WRAPPER;
    tag_t tag = answer_tag(a, at, begins_block(a) | (open ? BIT(TAG_WRAPPER_END) : 0));
    switch (tag.kind) {
    case TAG_WRAPPER_END:
        a->inside = ANSWER_INSIDE_NOTHING;
        a->nonstandard += tag.ascii_bars;
        return answer_enter(a, ANSWER_BEHIND, at + tag.length);
    case TAG_WRAPPER:
        return answer_hold_wrapper(a, at, &tag);
    case TAG_INVOKE:
        return answer_hold_invoke(a, at, in_wrapper ? ANSWER_INSIDE_WRAPPER : ANSWER_INSIDE_ORPHAN);
    case TAG_CUT:
        if (!a->ended)
            return false;
        if (in_wrapper || (a->ended_by == ANSWER_ENDED_BY_LENGTH && tag.behind_mark)) {
            answer_suppress_trimmed(a, at, a->text.used);
            return false;
        }
        break;
    default:
        break;
    }
    return answer_enter(a, ANSWER_IN_TEXT, a->start);
}

static bool step(answer_t *a)
{
    switch (a->state) {
    case ANSWER_IN_TEXT:
        return step_text(a);
    case ANSWER_BEHIND:
        return step_behind(a);
    case ANSWER_LIVE_AFTER:
        return answer_step_after(a);
    case ANSWER_LIVE_STRING:
        return answer_step_string(a);
    case ANSWER_LIVE_LITERAL:
        return answer_step_literal(a);
    case ANSWER_LIVE_STRAY:
        return answer_step_stray(a);
    case ANSWER_LIVE_DROPPED:
        return answer_step_dropped(a);
    default:
        return answer_step_hold(a);
    }
}

/* ---- bytes ---- */

/* Drops what is decided from the front of the text. */
static void compact(answer_t *a)
{
    size_t gone = a->start;
    if (gone == 0)
        return;
    memmove(a->text.bytes, a->text.bytes + gone, a->text.used - gone);
    a->text.used -= gone;
    size_t *const offsets[] = {&a->start,    &a->scan, &a->block, &a->invoke,
                               &a->item_end, &a->live, &a->value};
    for (size_t i = 0; i < COUNT_OF(offsets); i++)
        *offsets[i] -= *offsets[i] < gone ? *offsets[i] : gone;
}

/* Moves whole characters, and U+FFFD for what cannot become one, to the text. */
static void take_partial(answer_t *a)
{
    while (a->partial_count > 0) {
        utf8_step_t first = utf8_step(a->partial, a->partial_count);
        if (first.kind == UTF8_CUT)
            return;
        if (first.kind == UTF8_WHOLE)
            text_put(&a->text, a->partial, first.bytes);
        else
            text_put_text(&a->text, UTF8_REPLACEMENT);
        a->partial_count -= first.bytes;
        memmove(a->partial, a->partial + first.bytes, a->partial_count);
    }
}

static void take_bytes(answer_t *a, const char *bytes, size_t length)
{
    size_t whole = length;
    if (a->partial_count == 0)
        utf8_check(bytes, length, &whole);
    else
        whole = 0;
    text_put(&a->text, bytes, whole);
    for (size_t i = whole; i < length; i++) {
        a->partial[a->partial_count++] = bytes[i];
        take_partial(a);
    }
}

static status_t run(answer_t *a)
{
    while (a->status == STATUS_OK && step(a))
        continue;
    const text_buffer_t *buffers[] = {&a->text, &a->names, &a->scratch};
    for (size_t i = 0; i < COUNT_OF(buffers) && a->status == STATUS_OK; i++)
        a->status = buffers[i]->status;
    return a->status;
}

status_t answer_feed(answer_t *a, const char *bytes, size_t length)
{
    ASSERT(!a->ended);
    for (size_t at = 0; at < length && a->status == STATUS_OK;) {
        size_t slice = length - at < SLICE_BYTES_MAX ? length - at : SLICE_BYTES_MAX;
        compact(a);
        take_bytes(a, bytes + at, slice);
        run(a);
        at += slice;
    }
    return a->status;
}

status_t answer_finish(answer_t *a, answer_end_t ended_by, answer_reason_t *reason)
{
    ASSERT(!a->ended);
    if (a->partial_count > 0)
        text_put_text(&a->text, UTF8_REPLACEMENT);
    a->ended = true;
    a->ended_by = ended_by;
    *reason = ANSWER_LENGTH;
    TRY(run(a));
    ASSERT(a->start == a->text.used);
    if (ended_by == ANSWER_ENDED_BY_EOS && !a->arguments_open)
        *reason = a->call_count > 0 ? ANSWER_TOOL_CALLS : ANSWER_STOP;
    return STATUS_OK;
}

/* answer_hold.c - blocks that wait until it is certain what they are.
 *
 * Nothing of a held block is sent. A small machine reads it, `scan` ahead of `start`, towards a goal:
 * enough to begin a call; a whole invoke, when it stands alone or is to be suppressed; a whole block,
 * when that is. If it can no longer get there its first '<' is text, and text is scanned behind it.
 * A whole invoke that is a call is then read again, as a call.
 */
#include <string.h>

#include "model/answer_parts.h"

typedef enum { WAIT, NEXT, FAILED, REACHED } progress_t;

static bool hold(answer_t *a, size_t block, unsigned goal, unsigned inside, unsigned state)
{
    a->block = block;
    a->item_end = block;
    a->goal = goal;
    a->inside = inside;
    a->any_invoke = false;
    a->further = state == ANSWER_HOLD_START && inside == ANSWER_INSIDE_WRAPPER;
    a->state = state;
    return true;
}

bool answer_hold_wrapper(answer_t *a, size_t block, const tag_t *tag)
{
    a->scan = block + tag->length;
    return hold(a, block, answer_suppresses(a) ? ANSWER_GOAL_BLOCK : ANSWER_GOAL_CALL,
                ANSWER_INSIDE_WRAPPER, ANSWER_HOLD_WRAPPER);
}

bool answer_hold_invoke(answer_t *a, size_t block, unsigned inside)
{
    bool orphan = inside == ANSWER_INSIDE_ORPHAN;
    a->scan = block;
    return hold(a, block, orphan || answer_suppresses(a) ? ANSWER_GOAL_INVOKE : ANSWER_GOAL_CALL,
                inside, ANSWER_HOLD_START);
}

/* A later call of a client that wants only one is suppressed like the call it is: ends may be missing. */
static bool forgives(const answer_t *a)
{
    return a->options.tools && a->goal != ANSWER_GOAL_CALL && a->inside == ANSWER_INSIDE_WRAPPER;
}

/* What was read up to the last item is enough. */
static progress_t reached_item(answer_t *a)
{
    a->scan = a->item_end;
    return REACHED;
}

static progress_t go(answer_t *a, unsigned state)
{
    a->state = state;
    return NEXT;
}

/* Behind the end of an invoke, whose call is sent from `live` on if it is to be one. */
static progress_t invoke_ends(answer_t *a, size_t live)
{
    a->live = live;
    a->item_end = a->scan;
    if (a->goal != ANSWER_GOAL_BLOCK)
        return REACHED;
    a->any_invoke = true;
    return go(a, ANSWER_HOLD_WRAPPER);
}

static progress_t read_invoke_tag(answer_t *a, const tag_t *tag)
{
    a->invoke = a->scan;
    a->scan += tag->length;
    a->json_body = false;
    return tag->closed ? invoke_ends(a, a->scan) : go(a, ANSWER_HOLD_INVOKE);
}

/* Moves to the next tag; *tag is what it is. */
static progress_t next_tag(answer_t *a, unsigned wanted, tag_t *tag)
{
    if (!answer_skip_space(a))
        return WAIT;
    *tag = answer_tag(a, a->scan, wanted);
    return tag->kind == TAG_CUT ? WAIT : tag->kind == TAG_NONE ? FAILED : NEXT;
}

static progress_t in_wrapper(answer_t *a)
{
    tag_t tag;
    progress_t progress =
        next_tag(a, BIT(TAG_INVOKE) | (a->any_invoke ? BIT(TAG_WRAPPER_END) : 0), &tag);
    if (progress == FAILED && a->any_invoke && forgives(a))
        return reached_item(a);
    if (progress != NEXT)
        return progress;
    if (tag.kind == TAG_INVOKE)
        return read_invoke_tag(a, &tag);
    a->scan += tag.length;
    return REACHED;
}

/* In a later call, which is suppressed whole: what does not belong there goes with it. */
static progress_t skip_stray(answer_t *a)
{
    const char *next = memchr(a->text.bytes + a->scan + 1, '<', a->text.used - a->scan - 1);
    a->scan = next == NULL ? a->text.used : (size_t)(next - a->text.bytes);
    return next == NULL ? WAIT : NEXT;
}

/* The end of an invoke is missing; the tag behind it is the wrapper's matter. */
static progress_t next_in_wrapper(answer_t *a)
{
    a->any_invoke = true;
    return go(a, ANSWER_HOLD_WRAPPER);
}

/* Before a parameter or the end; behind the invoke tag also before an object. */
static progress_t in_invoke(answer_t *a)
{
    bool first = a->state == ANSWER_HOLD_INVOKE;
    if (first && answer_skip_space(a) && a->text.bytes[a->scan] == '{') {
        a->value = a->scan;
        a->json = (object_scan_t){0};
        return go(a, ANSWER_HOLD_JSON);
    }
    unsigned wanted = BIT(TAG_INVOKE_END) | (a->json_body ? 0 : BIT(TAG_PARAMETER));
    if (!first && forgives(a))
        wanted |= BIT(TAG_INVOKE) | BIT(TAG_WRAPPER_END);
    tag_t tag;
    progress_t progress = next_tag(a, wanted, &tag);
    if (progress == FAILED && !first && forgives(a))
        return skip_stray(a);
    if (progress != NEXT)
        return progress;
    if (tag.kind == TAG_INVOKE || tag.kind == TAG_WRAPPER_END)
        return a->goal == ANSWER_GOAL_INVOKE ? reached_item(a) : next_in_wrapper(a);
    size_t at = a->scan;
    a->scan += tag.length;
    if (tag.kind == TAG_INVOKE_END)
        return invoke_ends(a, at);
    if (a->goal == ANSWER_GOAL_CALL) {
        a->live = at;
        return REACHED;
    }
    a->value = a->scan;
    return go(a, ANSWER_HOLD_VALUE);
}

static progress_t in_json(answer_t *a)
{
    while (a->scan < a->text.used) {
        object_scan_result_t result = object_scan_push(&a->json, a->text.bytes[a->scan++]);
        if (result == OBJECT_SCAN_MORE)
            continue;
        if (result == OBJECT_SCAN_FAIL || !answer_is_json(a, a->value, a->scan))
            return FAILED;
        a->json_body = true;
        a->live = a->scan;
        a->item_end = a->scan;
        return a->goal == ANSWER_GOAL_CALL ? REACHED : go(a, ANSWER_HOLD_AFTER);
    }
    return WAIT;
}

static progress_t in_value(answer_t *a)
{
    size_t overlap = ANSWER_CLOSER_BYTES - 1, at, length;
    if (answer_find_closer(a, a->scan, &at, &length)) {
        a->scan = at + length;
        a->item_end = a->scan;
        return go(a, ANSWER_HOLD_AFTER);
    }
    if (a->text.used - a->value > overlap)
        a->scan = a->text.used - overlap;
    return WAIT;
}

static progress_t read_on(answer_t *a)
{
    tag_t tag;
    switch (a->state) {
    case ANSWER_HOLD_START:
        tag = answer_tag(a, a->scan, BIT(TAG_INVOKE));
        ASSERT(tag.kind == TAG_INVOKE);
        return read_invoke_tag(a, &tag);
    case ANSWER_HOLD_WRAPPER:
        return in_wrapper(a);
    case ANSWER_HOLD_JSON:
        return in_json(a);
    case ANSWER_HOLD_VALUE:
        return in_value(a);
    default:
        return in_invoke(a);
    }
}

/* The text has ended by itself: behind a whole item nothing more is needed, as for a call that is sent. */
static bool ends_well(const answer_t *a)
{
    if (!a->ended || a->ended_by != ANSWER_ENDED_BY_EOS || !forgives(a))
        return false;
    size_t at = a->item_end;
    while (at < a->text.used && memchr(" \t\r\n", a->text.bytes[at], 4) != NULL)
        at++;
    return (a->state == ANSWER_HOLD_AFTER && at == a->text.used) ||
           (a->state == ANSWER_HOLD_WRAPPER && a->any_invoke);
}

static bool reached(answer_t *a)
{
    if (a->goal == ANSWER_GOAL_CALL)
        return answer_begin_call(a);
    if (a->goal == ANSWER_GOAL_INVOKE && !answer_suppresses(a)) {
        a->goal = ANSWER_GOAL_CALL;
        a->scan = a->block;
        a->state = ANSWER_HOLD_START;
        return true;
    }
    answer_suppress(a, a->block, a->scan);
    if (a->goal == ANSWER_GOAL_BLOCK)
        a->inside = ANSWER_INSIDE_NOTHING;
    return answer_enter(a, ANSWER_BEHIND, a->scan);
}

bool answer_step_hold(answer_t *a)
{
    progress_t progress = read_on(a);
    /* The limit is one of the text: what is not decided within it would not be at any chunking. */
    size_t read_to = progress == WAIT ? a->text.used : a->scan;
    if (read_to - a->block > ANSWER_HELD_BYTES_MAX)
        progress = FAILED;
    if (progress == WAIT && ends_well(a)) { /* with the tag of its end that has begun, if one has */
        a->item_end = a->scan < a->text.used ? a->text.used : a->item_end;
        progress = reached_item(a);
    }
    if (progress == NEXT)
        return true;
    if (progress == REACHED)
        return reached(a);
    if (progress == WAIT && !a->ended)
        return false;
    if (progress == WAIT && a->further) {
        answer_suppress_trimmed(a, a->block, a->text.used);
        return false;
    }
    if (progress == WAIT && a->ended_by == ANSWER_ENDED_BY_LENGTH) {
        answer_suppress(a, a->block, a->text.used);
        return false;
    }
    answer_emit_text(a, a->start, a->block + 1);
    return answer_enter(a, ANSWER_IN_TEXT, a->start);
}

/* split.c - see split.h.
 *
 * The published ids were made with another regex library, so a pattern is rewritten where PCRE2
 * differs: \p{L} ...  also names what newer Unicode versions added (unicode.h) \s, \S     without
 * U+180E, which PCRE2 counts as space and Unicode has not since 6.3 Both are classes, so outside of
 * [ ] they become one. Everything else goes through as written.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "model/split.h"

#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "model/unicode.h"

#define SPACES                                                                                     \
    "\\t-\\r "                                                                                     \
    "\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"

enum {
    PATTERN_BYTES_MAX = 4096,      /* of a pattern as in the file */
    REWRITTEN_BYTES_MAX = 65536,   /* of the same after rewriting */
    MATCH_STEPS_MAX = 100000000,   /* of one search */
    MATCH_HEAP_KIB_MAX = 64 * 1024 /* of one search that does not fit the JIT stack */
};

typedef struct {
    char text[REWRITTEN_BYTES_MAX];
    size_t used;
    bool full;
} rewritten_t;

static void put(rewritten_t *out, const char *text, size_t length)
{
    if (length > sizeof(out->text) - out->used) {
        out->full = true;
        return;
    }
    memcpy(out->text + out->used, text, length);
    out->used += length;
}

static void put_text(rewritten_t *out, const char *text)
{
    put(out, text, strlen(text));
}

static void put_property(rewritten_t *out, char class_letter, bool in_class)
{
    char item[48];
    snprintf(item, sizeof(item), "%s\\p{%c}", in_class ? "" : "[", class_letter);
    put_text(out, item);
    size_t count;
    const unicode_range_t *ranges = unicode_additions(class_letter, &count);
    for (size_t i = 0; i < count; i++) {
        snprintf(item, sizeof(item), "\\x{%x}-\\x{%x}", ranges[i].first, ranges[i].last);
        put_text(out, item);
    }
    if (!in_class)
        put_text(out, "]");
}

/* Rewrites the escape at pattern[0], a backslash; returns its length. */
static size_t put_escape(rewritten_t *out, const char *pattern, size_t length, bool in_class)
{
    size_t count;
    if (length >= 5 && pattern[1] == 'p' && pattern[2] == '{' && pattern[4] == '}' &&
        unicode_additions(pattern[3], &count) != NULL) {
        put_property(out, pattern[3], in_class);
        return 5;
    }
    if (length >= 2 && pattern[1] == 's') {
        put_text(out, in_class ? SPACES : "[" SPACES "]");
        return 2;
    }
    if (length >= 2 && pattern[1] == 'S' && !in_class) {
        put_text(out, "[^" SPACES "]");
        return 2;
    }
    size_t bytes = length < 2 ? length : 2;
    put(out, pattern, bytes);
    return bytes;
}

static void rewrite(rewritten_t *out, const char *pattern, size_t length)
{
    bool in_class = false;
    size_t class_start = 0;
    for (size_t at = 0; at < length;) {
        if (pattern[at] == '\\') {
            at += put_escape(out, pattern + at, length - at, in_class);
            continue;
        }
        if (!in_class && pattern[at] == '[') {
            in_class = true;
            class_start = at + 1 + (at + 1 < length && pattern[at + 1] == '^');
        } else if (in_class && pattern[at] == ']' && at > class_start) {
            in_class = false;
        }
        put(out, pattern + at, 1);
        at++;
    }
}

static status_t compile(split_t *split, const rewritten_t *rewritten)
{
    int error;
    PCRE2_SIZE at;
    pcre2_code *code = pcre2_compile((PCRE2_SPTR)rewritten->text, rewritten->used,
                                     PCRE2_UTF | PCRE2_UCP, &error, &at, NULL);
    if (code == NULL) {
        char text[128];
        pcre2_get_error_message(error, (PCRE2_UCHAR *)text, sizeof(text));
        return FAIL(STATUS_BAD_FILE, "split pattern: %s, near byte %zu of its rewritten form", text,
                    (size_t)at);
    }
    uint32_t length_min = 0;
    pcre2_pattern_info(code, PCRE2_INFO_MINLENGTH, &length_min);
    if (length_min == 0) {
        pcre2_code_free(code);
        return FAIL(STATUS_BAD_FILE, "split pattern can match empty text");
    }
    /* Without JIT (refused by the system, say) the interpreter gives the same matches, only slower.
     */
    pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
    split->code = code;
    return STATUS_OK;
}

status_t split_open(split_t *split, const char *pattern, size_t length)
{
    if (length > PATTERN_BYTES_MAX)
        return FAIL(STATUS_BAD_FILE, "split pattern of %zu bytes, at most %d", length,
                    PATTERN_BYTES_MAX);
    rewritten_t *rewritten = calloc(1, sizeof(*rewritten));
    if (rewritten == NULL)
        return FAIL(STATUS_NO_MEMORY, "split pattern");
    rewrite(rewritten, pattern, length);
    status_t status = rewritten->full
                          ? FAIL(STATUS_BAD_FILE, "split pattern names too many classes")
                          : compile(split, rewritten);
    free(rewritten);
    if (status != STATUS_OK)
        return status;
    split->pattern = malloc(length + 1);
    split->length = length;
    if (split->pattern == NULL) {
        split_close(split);
        return FAIL(STATUS_NO_MEMORY, "split pattern");
    }
    memcpy(split->pattern, pattern, length);
    return status;
}

void split_close(split_t *split)
{
    pcre2_code_free(split->code);
    free(split->pattern);
    *split = (split_t){0};
}

status_t split_work_init(split_work_t *work)
{
    pcre2_match_context *context = pcre2_match_context_create(NULL);
    *work = (split_work_t){pcre2_match_data_create(1, NULL), context};
    if (work->match == NULL || work->context == NULL) {
        split_work_fini(work);
        return FAIL(STATUS_NO_MEMORY, "match data");
    }
    pcre2_set_match_limit(context, MATCH_STEPS_MAX);
    pcre2_set_heap_limit(context, MATCH_HEAP_KIB_MAX);
    return STATUS_OK;
}

void split_work_fini(split_work_t *work)
{
    pcre2_match_data_free(work->match);
    pcre2_match_context_free(work->context);
    *work = (split_work_t){0};
}

status_t split_next(const split_t *split, split_work_t *work, const char *text, size_t length,
                    size_t from, bool *found, size_t *start, size_t *end)
{
    PCRE2_SPTR subject = (PCRE2_SPTR)text;
    uint32_t options = PCRE2_NO_UTF_CHECK;
    int rc = pcre2_match(split->code, subject, length, from, options, work->match, work->context);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
        rc = pcre2_match(split->code, subject, length, from, options | PCRE2_NO_JIT, work->match,
                         work->context);
    *found = rc >= 0;
    if (rc == PCRE2_ERROR_NOMATCH)
        return STATUS_OK;
    if (rc < 0)
        return FAIL(STATUS_TOO_LARGE, "splitting a text of %zu bytes needs too much work (%d)",
                    length, rc);
    const PCRE2_SIZE *bounds = pcre2_get_ovector_pointer(work->match);
    *start = bounds[0];
    *end = bounds[1];
    return STATUS_OK;
}

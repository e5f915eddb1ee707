/* answer_tag.c - see answer_tag.h. */
#include "model/answer_tag.h"

#include <string.h>

#include "runtime/base/check.h"
#include "runtime/base/limits.h"

static const char *const marks[] = {"｜DSML｜", "|DSML|"};

static const char *const wrapper_names[] = {"tool_calls", "toolcalls", "tool", "function_calls"};

typedef enum { NO, CUT, YES } match_t;

typedef struct {
    const char *text;
    size_t length;
    size_t at;
} reader_t;

static match_t expect(reader_t *r, const char *literal)
{
    size_t want = strlen(literal), have = r->length - r->at;
    size_t shared = want < have ? want : have;
    if (memcmp(r->text + r->at, literal, shared) != 0)
        return NO;
    r->at += shared;
    return shared == want ? YES : CUT;
}

/* name="N": at least one character, none of them a quote, an angle bracket or a newline. */
static match_t expect_name(reader_t *r, tag_t *tag)
{
    match_t match = expect(r, " name=\"");
    if (match != YES)
        return match;
    size_t start = r->at;
    while (r->at < r->length && memchr("\"<>\n", r->text[r->at], 4) == NULL)
        r->at++;
    tag->name = r->text + start;
    tag->name_length = r->at - start;
    if (tag->name_length > ANSWER_NAME_BYTES_MAX)
        return NO;
    if (r->at == r->length)
        return CUT;
    return tag->name_length > 0 ? expect(r, "\"") : NO;
}

static match_t expect_invoke(reader_t *r, tag_t *tag)
{
    match_t match = expect(r, "invoke");
    if (match == YES)
        match = expect_name(r, tag);
    if (match != YES)
        return match;
    tag->closed = r->at < r->length && r->text[r->at] == '/';
    return expect(r, tag->closed ? "/>" : ">");
}

static match_t expect_parameter(reader_t *r, tag_t *tag)
{
    match_t match = expect(r, "parameter");
    if (match == YES)
        match = expect_name(r, tag);
    if (match != YES || (r->at < r->length && r->text[r->at] == '>'))
        return match == YES ? expect(r, ">") : match;
    match = expect(r, " string=\"");
    if (match != YES)
        return match;
    tag->string = r->at < r->length && r->text[r->at] == 't';
    return expect(r, tag->string ? "true\">" : "false\">");
}

static match_t expect_wrapper(reader_t *r)
{
    match_t best = NO;
    for (size_t i = 0; i < COUNT_OF(wrapper_names); i++) {
        reader_t try = *r;
        match_t match = expect(&try, wrapper_names[i]);
        if (match == YES)
            match = expect(&try, ">");
        if (match > best) {
            best = match;
            *r = try;
        }
    }
    return best;
}

static match_t expect_kind(reader_t *r, tag_kind_t kind, tag_t *tag)
{
    if (kind == TAG_THINK || kind == TAG_THINK_END)
        return expect(r, kind == TAG_THINK ? "<think>" : "</think>");
    bool end = kind == TAG_WRAPPER_END || kind == TAG_INVOKE_END || kind == TAG_PARAMETER_END;
    match_t match = expect(r, end ? "</" : "<");
    if (match == YES)
        match = expect(r, marks[tag->ascii_bars]);
    tag->behind_mark = match == YES;
    if (match != YES)
        return match;
    switch (kind) {
    case TAG_WRAPPER:
    case TAG_WRAPPER_END:
        return expect_wrapper(r);
    case TAG_INVOKE:
        return expect_invoke(r, tag);
    case TAG_PARAMETER:
        return expect_parameter(r, tag);
    default:
        return expect(r, kind == TAG_INVOKE_END ? "invoke>" : "parameter>");
    }
}

tag_t tag_read(const char *text, size_t length, unsigned wanted)
{
    unsigned spellings = wanted & TAG_ASCII_BARS ? 2 : 1;
    tag_t cut = {.kind = TAG_NONE};
    for (unsigned i = 0; i < spellings * TAG_KINDS; i++) {
        tag_t tag = {.kind = (tag_kind_t)(i % TAG_KINDS), .ascii_bars = i >= TAG_KINDS};
        if (tag.kind < TAG_THINK || !(wanted & BIT(tag.kind)))
            continue;
        reader_t reader = {.text = text, .length = length};
        match_t match = expect_kind(&reader, tag.kind, &tag);
        if (match == YES) {
            tag.length = reader.at;
            return tag;
        }
        if (match == CUT) {
            cut.kind = TAG_CUT;
            cut.behind_mark = cut.behind_mark || tag.behind_mark;
            cut.may_be |= BIT(tag.kind);
        }
    }
    return cut;
}

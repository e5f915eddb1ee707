/* answer_tag.h - recognises one tag at the start of a text, or that the text may become one.
 *
 * Pure. D is the mark ｜DSML｜, or |DSML| where TAG_ASCII_BARS is wanted too; tags are written exactly as
 * here, any other spelling is no tag:
 *   <think> </think>
 *   <D tool_calls> (also toolcalls, tool, function_calls)   </D tool_calls>
 *   <D invoke name="N"> <D invoke name="N"/>                </D invoke>
 *   <D parameter name="P"> with or without string="true|false"   </D parameter>
 * without the space behind D.
 */
#ifndef MODEL_ANSWER_TAG_H
#define MODEL_ANSWER_TAG_H

#include <stdbool.h>
#include <stddef.h>

typedef enum {
    TAG_NONE, /* no wanted tag, and none can come of it */
    TAG_CUT,  /* the text ends inside what may become a wanted tag */
    TAG_THINK,
    TAG_THINK_END,
    TAG_WRAPPER,
    TAG_WRAPPER_END,
    TAG_INVOKE,
    TAG_INVOKE_END,
    TAG_PARAMETER,
    TAG_PARAMETER_END,
    TAG_KINDS
} tag_kind_t;

/* Among what is wanted: |DSML| counts as the mark. */
#define TAG_ASCII_BARS BIT(TAG_KINDS)

typedef struct {
    tag_kind_t kind;
    size_t length;    /* of the whole tag */
    const char *name; /* inside the text */
    size_t name_length;
    bool closed;      /* <D invoke name="N"/> */
    bool string;      /* string="true" */
    bool ascii_bars;  /* its mark is |DSML| */
    bool behind_mark; /* TAG_CUT: the text goes at least to the end of D */
    unsigned may_be;  /* TAG_CUT: BIT(kind) of each wanted kind that can come of it */
} tag_t;

/* `wanted` has BIT(kind) for each kind to look for. */
tag_t tag_read(const char *text, size_t length, unsigned wanted);

/* How a parameter is closed, as the mark is or with ASCII bars. */
#define TAG_PARAMETER_CLOSER "</｜DSML｜parameter>"
#define TAG_PARAMETER_CLOSER_ASCII "</|DSML|parameter>"

#endif

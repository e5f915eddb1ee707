/* chat_thinking.c - see chat_thinking.h. */
#include "model/chat_thinking.h"

#include <stdarg.h>
#include <stdio.h>

enum { PARAM_BYTES = 64, OFF = 0 /* index of none */, HIGH = 4 };

static const char *const efforts[] = {"none", "minimal", "low", "medium", "high", "xhigh", "max"};

typedef struct {
    const document_t *request;
    chat_refusal_t *refusal;
    const char *prefix; /* of parameters' names: "" or "chat_template_kwargs." */
    bool on;
    unsigned effort;         /* index; counts if effort_param is not empty */
    char param[PARAM_BYTES]; /* the switch that said on or off first; "": none did */
    char effort_param[PARAM_BYTES];
} reading_t;

static status_t refuse(reading_t *r, const char *param, const char *format, ...) PRINTF_LIKE(3, 4);

static status_t refuse(reading_t *r, const char *param, const char *format, ...)
{
    va_list arguments;

    (void)snprintf(r->refusal->param, sizeof(r->refusal->param), "%s%s", r->prefix, param);
    va_start(arguments, format);
    (void)vsnprintf(r->refusal->reason, sizeof(r->refusal->reason), format, arguments);
    va_end(arguments);
    return FAIL(STATUS_INVALID, "%s: %s", r->refusal->param, r->refusal->reason);
}

/* A member that is there and not null, else DOCUMENT_NONE. */
static uint32_t member(const reading_t *r, uint32_t object, const char *key)
{
    uint32_t node = document_member(r->request, object, key);

    return node && document_kind(r->request, node) != DOCUMENT_NULL ? node : DOCUMENT_NONE;
}

static status_t say(reading_t *r, const char *param, bool on)
{
    if (r->param[0] && on != r->on)
        return refuse(r, param, "disagrees with %s", r->param);
    if (!r->param[0])
        (void)snprintf(r->param, sizeof(r->param), "%s%s", r->prefix, param);
    r->on = on;
    return STATUS_OK;
}

static status_t read_flag(reading_t *r, uint32_t node, const char *param)
{
    document_kind_t kind = node ? document_kind(r->request, node) : DOCUMENT_NULL;

    if (!node)
        return STATUS_OK;
    if (kind != DOCUMENT_TRUE && kind != DOCUMENT_FALSE)
        return refuse(r, param, "must be true or false");
    return say(r, param, kind == DOCUMENT_TRUE);
}

static status_t read_effort(reading_t *r, uint32_t node, const char *param)
{
    unsigned effort = 0;

    if (!node)
        return STATUS_OK;
    if (document_kind(r->request, node) != DOCUMENT_STRING)
        return refuse(r, param, "must be a string");
    while (effort < COUNT_OF(efforts) && !document_equals(r->request, node, efforts[effort]))
        effort++;
    if (effort == COUNT_OF(efforts))
        return refuse(r, param, "must be none, minimal, low, medium, high, xhigh or max");
    if (r->effort_param[0] && effort != r->effort)
        return refuse(r, param, "disagrees with %s", r->effort_param);
    if (!r->effort_param[0])
        (void)snprintf(r->effort_param, sizeof(r->effort_param), "%s%s", r->prefix, param);
    r->effort = effort;
    return say(r, param, effort != OFF);
}

static status_t read_object(reading_t *r, uint32_t thinking)
{
    uint32_t type = member(r, thinking, "type");

    if (type && document_equals(r->request, type, "disabled"))
        return say(r, "thinking", false);
    if (type && (document_equals(r->request, type, "enabled") ||
                 document_equals(r->request, type, "adaptive")))
        return say(r, "thinking", true);
    return refuse(r, "thinking.type", "must be \"enabled\", \"adaptive\" or \"disabled\"");
}

/* All switches that are members of `object`. */
static status_t read_switches(reading_t *r, uint32_t object)
{
    uint32_t thinking = member(r, object, "thinking"), reasoning = member(r, object, "reasoning");

    if (thinking && document_kind(r->request, thinking) == DOCUMENT_OBJECT)
        TRY(read_object(r, thinking));
    else
        TRY(read_flag(r, thinking, "thinking"));
    TRY(read_flag(r, member(r, object, "enable_thinking"), "enable_thinking"));
    TRY(read_effort(r, member(r, object, "reasoning_effort"), "reasoning_effort"));
    TRY(read_effort(r, member(r, object, "effort"), "effort"));
    if (!reasoning)
        return STATUS_OK;
    if (document_kind(r->request, reasoning) != DOCUMENT_OBJECT)
        return refuse(r, "reasoning", "must be an object");
    TRY(read_effort(r, member(r, reasoning, "effort"), "reasoning.effort"));
    return read_flag(r, member(r, reasoning, "enabled"), "reasoning.enabled");
}

status_t chat_thinking_read(const document_t *request, bool on, chat_thinking_t *thinking,
                            chat_refusal_t *refusal)
{
    reading_t r = {.request = request, .refusal = refusal, .prefix = "", .on = on};
    uint32_t inner = member(&r, 0, "chat_template_kwargs");

    *thinking = (chat_thinking_t){0};
    *refusal = (chat_refusal_t){0};
    TRY(read_switches(&r, 0));
    if (inner && document_kind(request, inner) != DOCUMENT_OBJECT)
        return refuse(&r, "chat_template_kwargs", "must be an object");
    r.prefix = "chat_template_kwargs.";
    if (inner)
        TRY(read_switches(&r, inner));
    thinking->on = r.on;
    thinking->max = r.on && r.effort_param[0] && r.effort > HIGH;
    return STATUS_OK;
}

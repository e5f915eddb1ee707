#include "actors/request.h"

#include <string.h>

const char *request_refusal(const message_client_request_t *m, uint32_t context_tokens)
{
    if (m->prompt.count == 0)
        return "the prompt is empty";
    if (m->limits.output_tokens_max == 0)
        return "an answer has at least one token";
    if (m->prompt.count >= context_tokens ||
        m->limits.output_tokens_max > context_tokens - m->prompt.count)
        return "prompt and answer together are longer than the context";
    if (m->sampling.bias_tokens.count != m->sampling.bias_values.count)
        return "each biased token needs one value";
    return NULL;
}

void request_copy(request_parameters_t *request, const record_sampling_t *sampling,
                  const record_limits_t *limits)
{
    uint32_t bias = sampling->bias_tokens.count;
    uint32_t stop = limits->stop_tokens.count;

    ASSERT(bias <= LOGIT_BIAS_MAX && bias == sampling->bias_values.count);
    ASSERT(stop <= STOP_STRINGS_MAX);
    request->sampling = *sampling;
    request->limits = *limits;
    request->bias_count = bias;
    request->stop_count = stop;
    if (bias > 0) {
        memcpy(request->bias_tokens, sampling->bias_tokens.data, bias * sizeof(uint32_t));
        memcpy(request->bias_values, sampling->bias_values.data, bias * sizeof(float));
    }
    if (stop > 0)
        memcpy(request->stop_tokens, limits->stop_tokens.data, stop * sizeof(uint32_t));
    request->sampling.bias_tokens = (u32s_view_t){0};
    request->sampling.bias_values = (f32s_view_t){0};
    request->limits.stop_tokens = (u32s_view_t){0};
}

record_sampling_t request_sampling(const request_parameters_t *request)
{
    record_sampling_t sampling = request->sampling;

    sampling.bias_tokens = (u32s_view_t){request->bias_tokens, request->bias_count};
    sampling.bias_values = (f32s_view_t){request->bias_values, request->bias_count};
    return sampling;
}

record_limits_t request_limits(const request_parameters_t *request)
{
    record_limits_t limits = request->limits;

    limits.stop_tokens = (u32s_view_t){request->stop_tokens, request->stop_count};
    return limits;
}

bool request_ends(const request_parameters_t *request, const uint32_t *end_tokens,
                  uint32_t end_token_count, uint32_t token)
{
    for (uint32_t i = 0; i < end_token_count && !request->limits.ignore_eos; i++) {
        if (end_tokens[i] == token)
            return true;
    }
    for (uint32_t i = 0; i < request->stop_count; i++) {
        if (request->stop_tokens[i] == token)
            return true;
    }
    return false;
}

bool request_has_penalty(const request_parameters_t *request)
{
    float penalty = request->sampling.repetition_penalty;

    return penalty < 1.0f || penalty > 1.0f;
}

status_t request_check_tokens(const record_tokens_item_t *item)
{
    for (uint32_t i = 0; i < item->tokens.count; i++) {
        const record_token_t *token = &item->tokens.data[i];

        if (token->top_tokens.count != token->top_logprobs.count)
            return FAIL(STATUS_INVALID, "token %u has %u alternatives and %u logarithms",
                        item->first + i, token->top_tokens.count, token->top_logprobs.count);
    }
    return STATUS_OK;
}

bool exit_is_suspect(uint8_t cause)
{
    return cause == EXIT_FAILED_ITSELF || cause == EXIT_CRASHED || cause == EXIT_HUNG;
}

/* ---- list ------------------------------------------------------------------------------------ */

static request_link_t *link_of(const request_list_t *list, void *entries, uint32_t index)
{
    return (request_link_t *)(void *)((char *)entries + (size_t)index * list->entry_bytes);
}

void request_list_init(request_list_t *list, size_t entry_bytes)
{
    *list = (request_list_t){
        .first = REQUEST_NIL, .last = REQUEST_NIL, .entry_bytes = (uint32_t)entry_bytes};
}

/* Looked for from the end: most are the youngest. */
void request_list_insert(request_list_t *list, void *entries, uint32_t index)
{
    request_link_t *link = link_of(list, entries, index);
    uint32_t before = list->last;

    while (before != REQUEST_NIL &&
           seniority_is_older(&link->seniority, &link_of(list, entries, before)->seniority))
        before = link_of(list, entries, before)->previous;
    link->previous = before;
    link->next = before == REQUEST_NIL ? list->first : link_of(list, entries, before)->next;
    if (link->next == REQUEST_NIL)
        list->last = index;
    else
        link_of(list, entries, link->next)->previous = index;
    if (before == REQUEST_NIL)
        list->first = index;
    else
        link_of(list, entries, before)->next = index;
    list->count++;
}

void request_list_remove(request_list_t *list, void *entries, uint32_t index)
{
    request_link_t *link = link_of(list, entries, index);

    ASSERT(list->count > 0);
    if (link->previous == REQUEST_NIL)
        list->first = link->next;
    else
        link_of(list, entries, link->previous)->next = link->next;
    if (link->next == REQUEST_NIL)
        list->last = link->previous;
    else
        link_of(list, entries, link->next)->previous = link->previous;
    list->count--;
}

void request_list_check(const request_list_t *list, const void *entries)
{
    const char *base = entries;
    uint32_t count = 0;
    const request_link_t *before = NULL;

    for (uint32_t i = list->first; i != REQUEST_NIL; count++) {
        const request_link_t *link =
            (const request_link_t *)(const void *)(base + (size_t)i * list->entry_bytes);

        if (before)
            ASSERT(!seniority_is_older(&link->seniority, &before->seniority));
        before = link;
        i = link->next;
    }
    ASSERT(count == list->count);
}

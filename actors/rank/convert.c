#include "actors/rank/convert.h"

#include <string.h>

#include "runtime/base/probe.h"

static void convert_sampling(const record_sampling_t *from, device_sampling_t *to)
{
    *to = (device_sampling_t){
        .seed = from->seed,
        .temperature = from->temperature,
        .top_p = from->top_p,
        .min_p = from->min_p,
        .presence_penalty = from->presence_penalty,
        .frequency_penalty = from->frequency_penalty,
        .repetition_penalty = from->repetition_penalty,
        .top_k = from->top_k,
        .logprobs = from->logprobs,
        .bias_tokens = from->bias_tokens.data,
        .bias_values = from->bias_values.data,
        .bias_count = from->bias_tokens.count,
    };
}

static status_t check_item(uint32_t number, const record_step_item_t *item)
{
    if (item->kind > DEVICE_CLOSE)
        return FAIL(STATUS_MALFORMED, "item %u: kind %u is none", number, item->kind);
    if (item->slot >= SLOTS_MAX)
        return FAIL(STATUS_MALFORMED, "item %u: slot %u", number, item->slot);
    if (item->kind == DEVICE_RUN && item->tokens.count != item->count &&
        (item->tokens.count != 0 || item->count != 1))
        return FAIL(STATUS_MALFORMED, "item %u: %u tokens given for %u positions", number,
                    item->tokens.count, item->count);
    if (item->pages.count != item->generations.count)
        return FAIL(STATUS_MALFORMED, "item %u: %u pages, %u generations", number,
                    item->pages.count, item->generations.count);
    if (item->border_pages.count != item->border_targets.count ||
        item->border_pages.count != item->border_generations.count ||
        item->border_pages.count > DEVICE_BORDERS_MAX)
        return FAIL(STATUS_MALFORMED, "item %u: lists of borders differ in length", number);
    if (item->sampling.bias_tokens.count != item->sampling.bias_values.count)
        return FAIL(STATUS_MALFORMED, "item %u: %u biased tokens, %u values", number,
                    item->sampling.bias_tokens.count, item->sampling.bias_values.count);
    return STATUS_OK;
}

status_t convert_step(const message_step_t *message, convert_step_t *room, device_step_t *step)
{
    for (uint32_t i = 0; i < message->items.count; i++) {
        const record_step_item_t *from = &message->items.data[i];
        device_item_t *to = &room->items[i];

        TRY(check_item(i, from));
        convert_sampling(&from->sampling, &room->samplings[i]);
        *to = (device_item_t){
            .kind = (device_item_kind_t)from->kind,
            .slot = from->slot,
            .position = from->position,
            .count = from->count,
            .tokens = from->tokens.count ? from->tokens.data : NULL,
            .token_count = from->tokens.count,
            .sample = from->sample != 0,
            .tail = from->tail != 0,
            .pages = from->pages.data,
            .page_count = from->pages.count,
            .border = from->border,
            .border_count = from->border_pages.count,
            .sampling = &room->samplings[i],
        };
        for (uint32_t k = 0; k < to->border_count; k++) {
            to->border_pages[k] = from->border_pages.data[k];
            to->border_targets[k] = from->border_targets.data[k];
        }
    }
    *step = (device_step_t){message->epoch, message->seq, room->items, message->items.count};
    return STATUS_OK;
}

/* Sets the generation word of every unit that a step hands to a slot, before the step runs
 * (amendment 7). */
static void set_generations(device_t *device, const message_step_t *message)
{
    for (uint32_t i = 0; i < message->items.count; i++) {
        const record_step_item_t *item = &message->items.data[i];

        for (uint32_t k = 0; k < item->pages.count; k++)
            device->ops->generation_set(device, UNIT_HISTORY, item->pages.data[k],
                                        item->generations.data[k]);
        for (uint32_t k = 0; k < item->border_targets.count; k++)
            device->ops->generation_set(device, UNIT_BORDER, item->border_targets.data[k],
                                        item->border_generations.data[k]);
        if (item->kind == DEVICE_OPEN)
            device->ops->generation_set(device, UNIT_SLOT, item->slot, item->slot_generation);
    }
}

static void convert_token(const device_token_t *from, record_step_token_t *to)
{
    *to = (record_step_token_t){
        .slot = from->slot,
        .item = from->item,
        .token = {.token = from->token,
                  .logprob = from->logprob,
                  .top_tokens = {from->top_tokens, from->top_count},
                  .top_logprobs = {from->top_logprobs, from->top_count}},
    };
}

static void convert_done(const message_step_t *message, status_t status,
                         const device_result_t *result, bool with_tokens, convert_done_t *room,
                         message_step_done_t *done)
{
    const char *detail = status == STATUS_OK ? "" : trail_text();

    *done = (message_step_done_t){
        .epoch = message->epoch, .seq = message->seq, .status = (uint8_t)status};
    done->detail = (text_view_t){detail, (uint32_t)strnlen(detail, REASON_BYTES_MAX)};
    PROBE(step_done, message->epoch, message->seq, status);
    if (status != STATUS_OK)
        return;
    ASSERT(result->token_count <= SLOTS_MAX && result->closed_count <= CLOSED_MAX);
    done->result = result->digest.sum;
    done->weighted = result->digest.weighted;
    done->call = result->call;
    for (uint32_t i = 0; with_tokens && i < result->token_count; i++)
        convert_token(&result->tokens[i], &room->tokens[i]);
    for (uint32_t i = 0; with_tokens && i < result->closed_count; i++)
        room->closed[i] = (record_closed_t){(uint8_t)result->closed[i].unit,
                                            result->closed[i].index, result->closed[i].digest};
    done->tokens.data = room->tokens;
    done->tokens.count = with_tokens ? result->token_count : 0;
    done->closed.data = room->closed;
    done->closed.count = with_tokens ? result->closed_count : 0;
}

void convert_run(device_t *device, const message_step_t *message, uint64_t wanted, bool with_tokens,
                 convert_step_t *step_room, convert_done_t *done_room, message_step_done_t *done)
{
    device_step_t step;
    device_result_t result = {0};
    status_t status = STATUS_OK;

    if (message->epoch < wanted)
        status = STATUS_BROKEN; /* there is nothing to tell of it */
    if (status == STATUS_OK)
        status = convert_step(message, step_room, &step);
    if (status == STATUS_OK) {
        set_generations(device, message);
        status = device->ops->step(device, &step, &result);
    }
    convert_done(message, status, &result, with_tokens, done_room, done);
}

status_t convert_copy(device_t *device, uint32_t peer, const record_pull_item_t *items,
                      uint32_t count, uint32_t *failed)
{
    device_copy_t copies[DEVICE_COPIES_MAX] = {0};
    status_t status;

    ASSERT(count <= DEVICE_COPIES_MAX);
    for (*failed = 0; *failed < count; ++*failed) {
        const record_pull_item_t *item = &items[*failed];

        if (item->unit > UNIT_SLOT)
            return FAIL(STATUS_MALFORMED, "unit kind %u is none", item->unit);
        copies[*failed] = (device_copy_t){(unit_kind_t)item->unit,
                                          item->source,
                                          item->source_generation,
                                          item->target,
                                          item->target_generation,
                                          item->rows,
                                          item->digest};
    }
    status = device->ops->copy(device, peer, copies, count, failed);
    if (status != STATUS_OK && *failed < count)
        PROBE(copy_refused, copies[*failed].unit, copies[*failed].target, status);
    return status;
}

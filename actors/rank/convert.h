/* convert.h - between a rank's messages and its device: STEP in, STEP_DONE out, copies.
 *
 * The one place where messages/schema.h meets device/device.h; every driver of the device port
 * (threads of a process, the simulator) calls it. Views in what comes out borrow from what goes
 * in. No state, no allocation.
 *
 * Steps and copies run below convert_run and convert_copy and nowhere else. tools/check_pure.py
 * walks all that they can reach: no clock, no queue, no free memory, no chance.
 */
#ifndef ACTORS_RANK_CONVERT_H
#define ACTORS_RANK_CONVERT_H

#include "device/device.h"
#include "messages/message.h"

/* Room for one step. */
typedef struct {
    device_item_t items[STEP_ITEMS_MAX];
    device_sampling_t samplings[STEP_ITEMS_MAX];
} convert_step_t;

/* Room for one answer. */
typedef struct {
    record_step_token_t tokens[SLOTS_MAX];
    record_closed_t closed[CLOSED_MAX];
} convert_done_t;

/* MALFORMED, with the item named, for what a device must never see: unknown kinds, lists whose
 * lengths do not fit. */
MUST_USE status_t convert_step(const message_step_t *message, convert_step_t *room,
                               device_step_t *step);

/* Runs one step and tells what came of it. `wanted`: the newest epoch there is; a step of an older
 * one is BROKEN, unseen. `with_tokens`: rank 0; the others vouch by the digest alone. `parent`
 * stays 0: the rank's actor holds the chain. */
void convert_run(device_t *device, const message_step_t *message, uint64_t wanted,
                 bool with_tokens, convert_step_t *step_room, convert_done_t *done_room,
                 message_step_done_t *done);

/* Items of a copy, at most DEVICE_COPIES_MAX at once. `failed` as in device.h. */
MUST_USE status_t convert_copy(device_t *device, uint32_t peer, const record_pull_item_t *items,
                               uint32_t count, uint32_t *failed);

#endif

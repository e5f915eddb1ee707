/* device_cpu.h - the device port on a CPU: the forward pass over pools in named shared memory.
 *
 * A pool is one block: a header, a generation word for each unit, and the units in layer-first
 * order. Only this rank writes it; peers map it read-only, and pull. Page 0 is never leased: it
 * holds a pattern that a peer checks before its first copy.
 *
 * Runs of neighbouring items go through the model together; a run longer than `rows_max` goes in
 * pieces. Neither changes a bit. Nor does the size of the group, so the numerics digest leaves it
 * out: groups of different sizes may exchange pages and replay each other's requests.
 */
#ifndef DEVICE_CPU_CPU_H
#define DEVICE_CPU_CPU_H

#include "cache/geometry.h"
#include "device/device.h"

/* The `setup` of its open. Copied, but for the folder's text. */
typedef struct {
    const char *folder; /* of the checkpoint */
    geometry_form_t cache_form;
    geometry_form_t index_form;
    uint32_t threads;       /* of this rank */
    uint32_t rows_max;      /* token rows at once */
    uint32_t positions_max; /* longest context */
} device_cpu_setup_t;

extern const device_ops_t device_cpu_ops;

#endif

/* geometry.h - what a page, a border and a slot are made of: the one table that everybody reads.
 *
 * Computed once from the model's shape and the cache forms; pools, copies, digests, mirror,
 * transfer, `plan` and the simulator take every size and offset from here, so two of them cannot
 * disagree. Plain data without pointers: it can be copied and sent. Its digest is compared in HELLO
 * and PEER_POOL.
 *
 *   unit      pools                                        needed
 *   HISTORY   C4, C4_INDEX, C128                           by every later token
 *   BORDER    BORDER_WINDOW, BORDER_C4, BORDER_C4_INDEX    only to go on at this page's end
 *   SLOT      SLOT_WINDOW, SLOT_C4, SLOT_C4_INDEX,         by the running request, at any position
 *             SLOT_C128
 *
 * A *part* is one layer's share of one unit in one pool; in the history unit it is what other
 * engines call a page:
 *
 *   [data of row 0] ... [data of row R-1] [scales of row 0] ... [scales of row R-1] [padding]
 *   |<- rows * data_bytes ------------->| |<- rows * scale_bytes -------------->|
 *   |<- raw_bytes: in digests --------------------------------------------------->|
 *   |<- part_bytes: padded to a multiple of data_bytes (FP8_BLOCKS) ---------------------->|
 *   |<- stride: padded to 64 bytes so that any two parts are aligned ------------------------->|
 *
 * Rows of state pools (float32), w = head_dim or, of an index pool, index_head_dim:
 *   SLOT_C4      token t in row t mod rows        [kv 2w][score 2w]; the first halves are for the
 *                                                 next block
 *   BORDER_C4    row i: token end - 4 + i         [kv w][score w], the first halves only
 *   SLOT_C128    after token t: row t mod rows    [max w][sum w][weighted w]
 * The position term of a score (ape) is added before it is stored.
 *
 * Window rows: SLOT token t in row t mod rows; BORDER row i is token end - window + i.
 */
#ifndef CACHE_GEOMETRY_H
#define CACHE_GEOMETRY_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "cache/units.h"
#include "cache/unit.h"
#include "kernels/row_form.h"
#include "runtime/base/status.h"

enum {
    GEOMETRY_LAYERS_MAX = 256, /* layers and drafting blocks of a model */
    GEOMETRY_DIM_MAX = 8192,   /* channels of a cached row */
    GEOMETRY_WINDOW_MAX = 4096,
    GEOMETRY_SPECULATION_MAX = 64,
    GEOMETRY_ALIGN = 64,      /* bytes; every part starts at a multiple */
    GEOMETRY_FP8_BLOCK = 64,  /* channels that share a scale in FP8_BLOCKS */
    GEOMETRY_FP4_BLOCK = 32,  /* channels that share a scale in FP4_BLOCKS */
    GEOMETRY_TEXT_MAX = 24576 /* bytes of the canonical text, with the final NUL */
};

typedef enum {
    POOL_C4,
    POOL_C4_INDEX,
    POOL_C128,
    POOL_BORDER_WINDOW,
    POOL_BORDER_C4,
    POOL_BORDER_C4_INDEX,
    POOL_SLOT_WINDOW,
    POOL_SLOT_C4,
    POOL_SLOT_C4_INDEX,
    POOL_SLOT_C128,
    POOL_COUNT
} pool_kind_t;

/* One unit by its kind and number; made from a typed number only. */
typedef struct {
    unit_kind_t kind;
    uint32_t number;
} unit_t;

static inline unit_t unit_page(page_t page)
{
    return (unit_t){UNIT_HISTORY, page.value};
}

static inline unit_t unit_border(border_t border)
{
    return (unit_t){UNIT_BORDER, border.value};
}

static inline unit_t unit_slot(slot_t slot)
{
    return (unit_t){UNIT_SLOT, slot.value};
}

/* What the model and the topology say; model/config fills it. */
typedef struct {
    uint32_t layers;       /* of the model itself */
    uint32_t draft_layers; /* drafting (MTP) blocks whose window is kept; 0: no drafting */
    uint16_t ratios[GEOMETRY_LAYERS_MAX]; /* 0, 4 or 128, for layers, then drafting blocks */
    uint32_t head_dim;
    uint32_t rope_dim; /* the last channels of a row; stored as bf16 in FP8_BLOCKS */
    uint32_t index_head_dim;
    uint32_t window;
    geometry_form_t cache_form;  /* FLOAT32, BF16 or FP8_BLOCKS: window rows and compressed rows */
    geometry_form_t index_form;  /* FLOAT32, BF16, FP8_ROW or FP4_BLOCKS: index keys */
    uint32_t overlap_rows;       /* of the ring beyond the window, for steps in flight */
    uint32_t speculation_tokens; /* drafted tokens that may be taken back */
} geometry_config_t;

typedef struct {
    unit_kind_t unit;
    geometry_form_t form;
    uint32_t channels;    /* numbers of a row */
    uint32_t ratio;       /* tokens of a row: 4, 128; 1 for windows and states */
    uint32_t layer_count; /* layers covered; the others have no part here */
    uint32_t rows;
    uint32_t data_bytes;
    uint32_t scale_bytes;
    uint32_t raw_bytes;
    uint32_t part_bytes;
    uint32_t stride;
    uint64_t unit_offset; /* of index 0 in a page-first unit; the others follow at `stride` */
    uint16_t layers[GEOMETRY_LAYERS_MAX]; /* index in this pool -> layer */
    int16_t index[GEOMETRY_LAYERS_MAX];   /* layer -> index in this pool, -1: not covered */
} geometry_pool_t;

typedef struct {
    geometry_config_t config;
    geometry_pool_t pools[POOL_COUNT];
    uint64_t unit_bytes[UNIT_COUNT];     /* page-first, padded; multiples of GEOMETRY_ALIGN */
    uint64_t unit_raw_bytes[UNIT_COUNT]; /* without padding */
    uint64_t digest;                     /* of the canonical text */
} geometry_t;

/* The defaults of everything that no model file says: window 128, forms FP8_BLOCKS and FP4_BLOCKS,
 * overlap 1. */
void geometry_config_init(geometry_config_t *config);
/* Refuses (UNSUPPORTED, TOO_LARGE) a shape whose borders would not be self-contained or whose rows
 * are not whole 8-byte words, with the reason; `g` is written only on success. */
MUST_USE status_t geometry_init(geometry_t *g, const geometry_config_t *config);

const char *unit_kind_name(unit_kind_t unit);
const char *pool_kind_name(pool_kind_t pool);
const char *geometry_form_name(geometry_form_t form);

/* The index of a layer in a pool; asserts that the pool covers it. */
uint32_t geometry_index(const geometry_t *g, pool_kind_t pool, uint32_t layer);
bool geometry_covers(const geometry_t *g, pool_kind_t pool, uint32_t layer);
/* Ring rows of a slot's window: token t lies in row t mod this. */
uint32_t geometry_ring_rows(const geometry_t *g);

/* The canonical text that the digest covers: one line per pool. Returns its length. */
size_t geometry_text(const geometry_t *g, char text[GEOMETRY_TEXT_MAX]);
/* The table that `plan` shows. */
void geometry_print(const geometry_t *g, FILE *out);

#endif

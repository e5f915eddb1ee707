/* Copies of whole units of full Flash between pools that do not fit the caches, planning included, against one memcpy
 * of as many bytes between the same blocks. Both take turns; a row is the median of the turns' ratios.
 *
 *     build/release/bench/bench_copy [JSON]
 */
#include <stdlib.h>
#include <string.h>

#include "bench/report.h"
#include "cache/copy.h"
#include "cache/digest.h"
#include "runtime/base/check.h"

enum { PAGES = 96, BORDERS = 24, SLOTS = 18, TURNS = 15 };

#define GOAL 0.9

typedef struct {
    layout_t layout;
    unsigned char *bytes;
} block_t;

static const uint32_t counts[UNIT_COUNT] = {PAGES, BORDERS, SLOTS};

static geometry_t flash(void)
{
    geometry_config_t config;
    geometry_t g;

    geometry_config_init(&config);
    config.layers = 43;
    for (uint32_t i = 2; i < config.layers; i++)
        config.ratios[i] = i % 2 == 0 ? 4 : 128;
    config.head_dim = 512;
    config.rope_dim = 64;
    config.index_head_dim = 128;
    config.index_form = FORM_FP8_ROW;
    ASSERT(geometry_init(&g, &config) == STATUS_OK);
    return g;
}

static block_t block_make(const geometry_t *g, layout_order_t order, int fill)
{
    block_t block;

    ASSERT(layout_init(&block.layout, g, order, counts) == STATUS_OK);
    block.bytes = aligned_alloc(4096, (block.layout.bytes + 4095) / 4096 * 4096);
    ASSERT(block.bytes != NULL);
    memset(block.bytes, fill, block.layout.bytes); /* every page is touched before the clock runs */
    return block;
}

/* All units of a kind, in an order that no prefetcher of pages knows. */
static double run_ours(const geometry_t *g, const block_t *source, block_t *target,
                       unit_kind_t kind, uint32_t tokens)
{
    const double start = report_seconds();

    for (uint32_t i = 0; i < counts[kind]; i++) {
        const unit_t unit = {kind, i * 5 % counts[kind]};
        copy_item_t items[COPY_UNIT_ITEMS_MAX];
        copy_list_t list;

        copy_list_init(&list, items, COPY_UNIT_ITEMS_MAX, "bench");
        ASSERT(copy_plan(&list, g,
                         &(copy_units_t){&source->layout, &target->layout, unit, unit, 0,
                                         tokens}) == STATUS_OK);
        ASSERT(copy_execute(&list, source->bytes, source->layout.bytes, target->bytes,
                            target->layout.bytes) == STATUS_OK);
    }
    return report_seconds() - start;
}

static double run_memcpy(const block_t *source, block_t *target, uint64_t unit_bytes,
                         uint32_t count)
{
    const double start = report_seconds();

    for (uint32_t i = 0; i < count; i++) {
        const uint64_t at = (uint64_t)(i * 5 % count) * unit_bytes;

        memcpy(target->bytes + at, source->bytes + at, unit_bytes);
    }
    return report_seconds() - start;
}

static uint64_t planned_bytes(const geometry_t *g, const block_t *source, const block_t *target,
                              unit_kind_t kind, uint32_t tokens)
{
    copy_item_t items[COPY_UNIT_ITEMS_MAX];
    copy_list_t list;

    copy_list_init(&list, items, COPY_UNIT_ITEMS_MAX, "bench");
    ASSERT(copy_plan(&list, g,
                     &(copy_units_t){&source->layout, &target->layout, (unit_t){kind, 0},
                                     (unit_t){kind, 0}, 0, tokens}) == STATUS_OK);
    return copy_bytes(&list);
}

static void compare(report_t *report, const geometry_t *g, const char *name, const block_t *source,
                    block_t *target, unit_kind_t kind, uint32_t tokens, double goal)
{
    const uint64_t unit_bytes = planned_bytes(g, source, target, kind, tokens);
    const double gigabytes = (double)unit_bytes * counts[kind] * 1e-9;
    double ours[TURNS], other[TURNS], ratios[TURNS];
    char row[64];

    for (int turn = 0; turn < TURNS; turn++) {
        ours[turn] = run_ours(g, source, target, kind, tokens);
        other[turn] = run_memcpy(source, target, unit_bytes, counts[kind]);
        ratios[turn] = other[turn] / ours[turn];
    }
    snprintf(row, sizeof(row), "%s, %s", unit_kind_name(kind), name);
    report_row(report, row, gigabytes / report_median(ours, TURNS),
               gigabytes / report_median(other, TURNS), report_median(ratios, TURNS), goal);
}

/* How much dearer verifying is than copying. */
static void digests(report_t *report, const geometry_t *g, const block_t *source, block_t *target)
{
    const uint64_t unit_bytes = g->unit_bytes[UNIT_HISTORY];
    double ours[TURNS], other[TURNS], ratios[TURNS];
    volatile uint64_t sink = 0;

    for (int turn = 0; turn < TURNS; turn++) {
        const double start = report_seconds();

        for (uint32_t i = 0; i < PAGES; i++)
            sink = sink + digest_unit(g, &source->layout, source->bytes,
                                      unit_page(page_at(i * 5 % PAGES)));
        ours[turn] = report_seconds() - start;
        other[turn] = run_memcpy(source, target, unit_bytes, PAGES);
        ratios[turn] = other[turn] / ours[turn];
    }
    report_row(report, "history, digest",
               (double)unit_bytes * PAGES * 1e-9 / report_median(ours, TURNS),
               (double)unit_bytes * PAGES * 1e-9 / report_median(other, TURNS),
               report_median(ratios, TURNS), 0);
}

int main(int argc, char **argv)
{
    const geometry_t g = flash();
    block_t device = block_make(&g, LAYOUT_LAYER_FIRST, 1),
            peer = block_make(&g, LAYOUT_LAYER_FIRST, 2);
    block_t host = block_make(&g, LAYOUT_PAGE_FIRST, 3);
    report_t report;

    report_open(&report, "copies of units against memcpy", "GB/s", argc > 1 ? argv[1] : NULL);
    for (int kind = 0; kind < UNIT_COUNT; kind++) {
        compare(&report, &g, "transfer", &device, &peer, (unit_kind_t)kind, PAGE_TOKENS, GOAL);
        compare(&report, &g, "backup", &device, &host, (unit_kind_t)kind, PAGE_TOKENS, GOAL);
        compare(&report, &g, "restore", &host, &device, (unit_kind_t)kind, PAGE_TOKENS, GOAL);
    }
    compare(&report, &g, "transfer of 100 tokens", &device, &peer, UNIT_HISTORY, 100, 0);
    digests(&report, &g, &device, &peer);
    free(device.bytes);
    free(peer.bytes);
    free(host.bytes);
    return report_close(&report);
}

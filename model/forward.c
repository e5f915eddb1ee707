/* forward.c - opening, one step, one draft.
 *
 * A step goes layer by layer with all rows of all items; only attention and compressors look at
 * items. Both sites of a layer have one form: mix the streams, read, normalise, sublayer, write
 * back.
 */
#include "model/forward.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache/digest.h"
#include "model/forward_parts.h"

enum { GEMM_PARALLEL_MIN = 1 << 18, ROWS_PARALLEL_MIN = 32 };

/* -- shape
 * -------------------------------------------------------------------------------------------------------
 * */

status_t forward_geometry(const model_config_t *config, geometry_form_t cache_form,
                          geometry_form_t index_form, bool drafts, geometry_t *geometry)
{
    geometry_config_t c;

    geometry_config_init(&c);
    c.layers = config->layer_count;
    c.draft_layers = drafts ? config->mtp_count : 0;
    for (uint32_t i = 0; i < c.layers + c.draft_layers; i++)
        c.ratios[i] = (uint16_t)config->layers[i].ratio;
    c.head_dim = config->head_dim;
    c.rope_dim = config->rope_dim;
    c.index_head_dim = config->index_dim;
    c.window = config->window;
    c.cache_form = cache_form;
    c.index_form = index_form;
    return geometry_init(geometry, &c);
}

bool forward_form_parse(const char *text, geometry_form_t *cache_form, geometry_form_t *index_form)
{
    static const struct {
        const char *name;
        geometry_form_t cache, index;
    } forms[] = {
        {"float32", FORM_FLOAT32, FORM_FLOAT32},
        {"bf16", FORM_BF16, FORM_BF16},
        {"fp8", FORM_FP8_BLOCKS, FORM_FP4_BLOCKS},
        {"fp8i8", FORM_FP8_BLOCKS, FORM_FP8_ROW},
    };

    for (size_t i = 0; i < COUNT_OF(forms); i++) {
        if (strcmp(text, forms[i].name) == 0) {
            *cache_form = forms[i].cache;
            *index_form = forms[i].index;
            return true;
        }
    }
    return false;
}

static bool has_ratio(const model_config_t *config, uint32_t ratio)
{
    for (uint32_t i = 0; i < config->layer_count; i++)
        if (config->layers[i].ratio == ratio)
            return true;
    return false;
}

status_t forward_world_check(const model_config_t *config, uint32_t world)
{
    const struct {
        const char *name;
        uint32_t count;
    } parts[] = {
        {"heads", config->heads},
        {"output groups", config->output_groups},
        {"vocabulary", config->vocabulary},
    };

    if (world == 0 || world > RANKS_MAX)
        return FAIL(STATUS_UNSUPPORTED, "%u ranks; 1 to %d are possible", world, RANKS_MAX);
    for (size_t i = 0; i < COUNT_OF(parts); i++)
        if (parts[i].count % world)
            return FAIL(STATUS_UNSUPPORTED, "%u ranks do not divide %u %s", world, parts[i].count,
                        parts[i].name);
    if (config->hidden < world || config->expert_width < world)
        return FAIL(STATUS_UNSUPPORTED, "%u ranks for %u hidden channels and experts %u wide",
                    world, config->hidden, config->expert_width);
    return STATUS_OK;
}

static void cut_init(forward_cut_t *cut, uint32_t count, uint32_t world)
{
    for (uint32_t r = 0; r <= world; r++)
        cut->at[r] = (uint32_t)((uint64_t)count * r / world);
}

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

uint64_t forward_collective_capacity(const model_config_t *c, const forward_options_t *options)
{
    uint32_t world = options->world;
    const struct {
        uint64_t rows, width;
    } calls[] = {
        {options->rows_max, (uint64_t)c->output_groups * c->output_rank},
        {options->rows_max, c->hidden},
        {(uint64_t)options->rows_max * (c->experts_per_token + 1), c->expert_width},
        {options->logits_max, c->vocabulary},
    };
    uint64_t most = 0;

    for (size_t i = 0; i < COUNT_OF(calls); i++) {
        uint64_t floats = calls[i].rows * ((calls[i].width + world - 1) / world);
        most = floats > most ? floats : most;
    }
    return most * sizeof(float);
}

/* -- opening
 * -----------------------------------------------------------------------------------------------------
 * */

static void init_rope(rope_table_t *table, const model_rope_t *rope, uint32_t channels)
{
    if (rope->yarn)
        rope_table_init_yarn(table, channels, rope->theta, rope->factor, rope->original_positions,
                             rope->beta_fast, rope->beta_slow);
    else
        rope_table_init(table, channels, rope->theta);
}

static void init_shares(forward_t *f)
{
    const model_config_t *c = f->config;
    uint32_t world = f->options.world;

    f->heads = c->heads / world;
    f->groups = c->output_groups / world;
    f->index_heads = has_ratio(c, 4) ? c->index_heads : 0;
    cut_init(&f->hidden_cut, c->hidden, world);
    cut_init(&f->width_cut, c->expert_width, world);
    cut_init(&f->vocabulary_cut, c->vocabulary, world);
    cut_init(&f->group_cut, c->output_groups * c->output_rank, world);
}

uint32_t forward_share(const forward_t *f, const forward_cut_t *cut)
{
    return cut->at[f->options.rank + 1] - cut->at[f->options.rank];
}

static void place_blocks(const forward_t *f, forward_pack_t *pack, forward_blocks_t *blocks)
{
    size_t rows = f->options.rows_max; /* each block ends in a row of its own */

    blocks->firsts = forward_take(pack, rows, 4);
    blocks->items = forward_take(pack, rows, 4);
    blocks->numbers = forward_take(pack, rows, 4);
    blocks->places = forward_take(pack, rows, sizeof(rows_place_t));
    blocks->turns = forward_take(pack, rows * f->config->rope_dim, 4);
}

/* Arrays of a step's rows; counted first, then placed, like the weights. */
static void place_rows(forward_t *f, forward_pack_t *pack)
{
    const model_config_t *c = f->config;
    forward_rows_t *r = &f->r;
    const geometry_pool_t *ring = &f->geometry->pools[POOL_SLOT_WINDOW];
    size_t rows = f->options.rows_max, s = c->streams, k = c->experts_per_token, heads = f->heads;
    size_t entries = f->options.positions_max / 4, q_width = heads * c->head_dim;
    bool indexed = f->index_heads > 0, traced = f->options.trace != NULL;
    size_t part = forward_collective_capacity(c, &f->options) / sizeof(float);
    size_t share = forward_share(f, &f->width_cut);
    size_t index_width = indexed ? (size_t)c->index_heads * c->index_dim : 0;

    const struct {
        void *target;
        size_t count, size;
    } arrays[] = {
        {&r->batch_items, rows, sizeof(batch_item_t)},
        {&r->borders, rows, sizeof(batch_border_t)},
        {&r->positions, rows, 4},
        {&r->tokens, rows, 4},
        {&r->turns, rows * c->rope_dim, 4},
        {&r->turns_compressed, rows * c->rope_dim, 4},
        {&r->x, rows * s * c->hidden, 4},
        {&r->raw, rows * (2 + s) * s, 4},
        {&r->pre, rows * s, 4},
        {&r->post, rows * s, 4},
        {&r->comb, rows * s * s, 4},
        {&r->u, rows * c->hidden, 4},
        {&r->y, rows * c->hidden, 4},
        {&r->part, f->options.world > 1 ? part : 0, 4},
        {&r->qr, rows * c->query_rank, 4},
        {&r->q, rows * q_width, 4},
        {&r->core, rows * q_width, 4},
        {&r->z, rows * c->output_groups * c->output_rank, 4},
        {&r->kv, rows * c->head_dim, 4},
        {&r->row_data, rows * ring->data_bytes, 1},
        {&r->row_scale, rows * ring->scale_bytes, 1},
        {&r->states, rows * 4 * c->head_dim, 4},
        {&r->index_states, indexed ? rows * 4 * c->index_dim : 0, 4},
        {&r->entries, rows * larger(c->head_dim, c->index_dim), 4},
        {&r->index_q, rows * index_width, 4},
        {&r->index_w, indexed ? rows * c->index_heads : 0, 4},
        {&r->selected, indexed ? rows * c->index_topk : 0, 4},
        {&r->selected_count, rows, 4},
        {&r->scores, rows * c->experts, 4},
        {&r->index_scores, traced ? rows * entries : 0, 4},
        {&r->margin, rows, 4},
        {&r->chosen, rows * k, 4},
        {&r->order, rows * k, 4},
        {&r->weights, rows * k, 4},
        {&r->offsets, c->experts + 1, 4},
        {&r->sources, rows * k, 4},
        {&r->places, rows * k, 4},
        {&r->routed, rows * (k > s ? k : s) * c->hidden, 4},
        {&r->gate, rows * (k + 1) * share, 4},
        {&r->up, rows * (k + 1) * share, 4},
        {&r->width, rows * (k + 1) * c->expert_width, 4},
        {&r->shared_y, rows * c->hidden, 4},
        {&r->head_rows, f->options.logits_max, 4},
        {&r->head_x, f->options.logits_max * s * c->hidden, 4},
        {&r->trace, traced ? rows * (2 * entries + c->head_dim + k) + entries * c->head_dim : 0, 4},
    };
    for (size_t i = 0; i < COUNT_OF(arrays); i++) {
        void *memory = forward_take(pack, arrays[i].count, arrays[i].size);
        memcpy(arrays[i].target, &memory, sizeof(memory));
    }
    place_blocks(f, pack, &r->blocks_4);
    place_blocks(f, pack, &r->blocks_128);
}

/* A thread runs one operator at a time, so the largest need is enough. */
static void place_workspaces(forward_t *f, forward_pack_t *pack)
{
    const model_config_t *c = f->config;
    size_t attend = attend_workspace(f->heads, c->head_dim) * sizeof(float);
    size_t select = f->index_heads ? select_workspace(c->index_heads, c->index_dim,
                                                      f->options.positions_max / SELECT_RATIO) *
                                         sizeof(float)
                                   : 0;
    size_t most = sample_workspace(c->vocabulary);

    most = attend > most ? attend : most;
    most = select > most ? select : most;
    f->workspace_bytes = (most + 63) / 64 * 64;
    f->workspaces = forward_take(pack, f->options.threads, f->workspace_bytes);
}

void *forward_workspace(const forward_t *f, uint32_t thread)
{
    return (uint8_t *)f->workspaces + thread * f->workspace_bytes;
}

static status_t allocate(size_t bytes, const char *what, void **memory)
{
    *memory = aligned_alloc(64, bytes ? bytes : 64);
    if (!*memory)
        return FAIL(STATUS_NO_MEMORY, "no memory for %zu bytes of %s", bytes, what);
    return STATUS_OK;
}

static status_t open_memory(forward_t *f)
{
    forward_pack_t weights = {0}, rows = {0};

    f->layers = calloc(f->weights->layer_count + f->weights->mtp_count, sizeof(*f->layers));
    if (!f->layers)
        return FAIL(STATUS_NO_MEMORY, "no memory for the table of layers");
    TRY(forward_load(f, &weights));
    TRY(allocate(weights.used, "packed weights", &f->packed));
    weights = (forward_pack_t){.memory = f->packed};
    TRY(forward_load(f, &weights));

    place_rows(f, &rows);
    place_workspaces(f, &rows);
    TRY(allocate(rows.used, "workspace", &f->memory));
    memset(f->memory, 0, rows.used);
    rows = (forward_pack_t){.memory = f->memory};
    place_rows(f, &rows);
    place_workspaces(f, &rows);
    return team_open(f->options.threads, &f->team);
}

status_t forward_open(const model_config_t *config, const weights_t *weights,
                      const geometry_t *geometry, const forward_options_t *options, forward_t **out)
{
    forward_t *f;
    status_t status;

    ASSERT(options->rank < options->world && options->threads > 0 && options->rows_max > 0);
    TRY(forward_world_check(config, options->world));
    f = calloc(1, sizeof(*f));
    if (!f)
        return FAIL(STATUS_NO_MEMORY, "no memory for a forward pass");
    f->config = config;
    f->weights = weights;
    f->geometry = geometry;
    f->options = *options;
    f->options.positions_max = tokens_pages(options->positions_max) * PAGE_TOKENS;
    f->o = operators();
    f->row_form = (row_form_t){geometry->config.cache_form, config->head_dim, config->rope_dim};
    f->index_form = (row_form_t){geometry->config.index_form, config->index_dim, 0};
    init_rope(&f->rope, &config->rope, config->rope_dim);
    init_rope(&f->rope_compressed, &config->compressed_rope, config->rope_dim);
    init_shares(f);
    status = open_memory(f);
    if (status != STATUS_OK) {
        forward_close(f);
        return status;
    }
    *out = f;
    return STATUS_OK;
}

void forward_close(forward_t *f)
{
    if (!f)
        return;
    team_close(f->team);
    free(f->memory);
    free(f->packed);
    free(f->layers);
    free(f);
}

void forward_collective_set(forward_t *f, collective_t *collective)
{
    f->collective = collective;
}

void forward_note(const forward_t *f, const char *prefix, const char *name,
                  forward_trace_kind_t kind, uint32_t rows, uint32_t width, const void *values)
{
    char full[2 * FORWARD_NAME_BYTES];

    if (!f->options.trace)
        return;
    snprintf(full, sizeof(full), "%s%s", prefix, name);
    f->options.trace->note(f->options.trace->context, full, kind, rows, width, values);
}

/* -- shared work
 * -------------------------------------------------------------------------------------------------
 * */

typedef struct {
    const operators_t *o;
    gemm_t p;
    uint32_t rows, panels; /* of a part; one of them is all */
} gemm_work_t;

static void gemm_part(void *context, uint32_t part, uint32_t thread)
{
    const gemm_work_t *w = context;
    gemm_t p = w->p;

    (void)thread;
    if (w->rows < p.rows) {
        uint32_t first = part * w->rows;
        p.x += first * p.x_stride;
        p.y += first * p.y_stride;
        p.rows = p.rows - first < w->rows ? p.rows - first : w->rows;
    } else {
        uint32_t all = p.panel_count;
        p.panel_first = part * w->panels;
        p.panel_count = all - p.panel_first < w->panels ? all - p.panel_first : w->panels;
    }
    w->o->gemm(&p);
}

typedef struct {
    const operators_t *o;
    const gemm_groups_t *p;
    uint32_t panels; /* of a part */
    uint32_t parts;  /* of a group */
} groups_work_t;

/* Parts count through the groups that have rows. */
static void groups_part(void *context, uint32_t part, uint32_t thread)
{
    const groups_work_t *w = context;
    gemm_groups_t p = *w->p;
    uint32_t panels = gemm_panels(p.w->outputs), group = 0, left = part / w->parts;

    (void)thread;
    for (;; group++) {
        if (p.offsets && p.offsets[group] == p.offsets[group + 1])
            continue;
        if (left-- == 0)
            break;
    }
    p.panel_first = part % w->parts * w->panels;
    p.panel_count = panels - p.panel_first < w->panels ? panels - p.panel_first : w->panels;
    p.panel_first += group * panels;
    gemm_t product = gemm_groups_product(&p, group);
    w->o->gemm(&product);
}

void forward_gemm_groups(const forward_t *f, const gemm_groups_t *p)
{
    uint32_t panels = gemm_panels(p->w->outputs), threads = f->options.threads, groups = p->groups;
    uint64_t rows = p->offsets ? p->offsets[groups] : (uint64_t)p->rows * groups;
    groups_work_t work = {f->o, p, panels, 1};

    for (uint32_t g = 0; p->offsets && g < p->groups; g++)
        groups -= p->offsets[g] == p->offsets[g + 1];
    if (rows == 0)
        return;
    if (threads > 1 && groups < 4 * threads) { /* a thread that is done early takes another part */
        work.parts = (4 * threads + groups - 1) / groups;
        work.panels = (panels + work.parts - 1) / work.parts;
        work.parts = (panels + work.panels - 1) / work.panels;
    }
    if (threads == 1 || rows * p->w->outputs * p->w->inputs < GEMM_PARALLEL_MIN)
        for (uint32_t part = 0; part < groups * work.parts; part++)
            groups_part(&work, part, 0);
    else
        team_run(f->team, groups * work.parts, groups_part, &work);
}

void forward_gemm(const forward_t *f, const gemm_matrix_t *w, uint32_t rows, const float *x,
                  size_t x_stride, float *y, size_t y_stride)
{
    uint32_t panels = gemm_panels(w->outputs), threads = f->options.threads;
    gemm_work_t work = {f->o, {rows, x_stride, y_stride, x, w, 0, panels, y}, rows, panels};

    if (threads == 1 || (uint64_t)rows * w->outputs * w->inputs < GEMM_PARALLEL_MIN) {
        f->o->gemm(&work.p);
    } else if (rows >= ROWS_PARALLEL_MIN * threads) {
        work.rows = (rows / (2 * threads) + 7) / 8 * 8; /* whole tiles */
        team_run(f->team, (rows + work.rows - 1) / work.rows, gemm_part, &work);
    } else {
        work.panels = (panels + threads - 1) / threads;
        team_run(f->team, (panels + work.panels - 1) / work.panels, gemm_part, &work);
    }
}

typedef struct {
    forward_t *f;
    forward_rows_work_t *work;
    const void *context;
    uint32_t rows, slice;
} rows_work_t;

static void rows_part(void *context, uint32_t part, uint32_t thread)
{
    const rows_work_t *w = context;
    uint32_t first = part * w->slice, left = w->rows - first;

    (void)thread;
    w->work(w->f, w->context, first, left < w->slice ? left : w->slice);
}

void forward_by_rows(forward_t *f, uint32_t rows, forward_rows_work_t *work, const void *context)
{
    uint32_t threads = f->options.threads;
    rows_work_t w = {f, work, context, rows, rows};

    if (rows == 0)
        return;
    if (threads > 1 && rows >= ROWS_PARALLEL_MIN)
        w.slice = (rows / (2 * threads) + 15) / 16 * 16; /* mixes run sixteen rows side by side */
    team_run(f->team, (rows + w.slice - 1) / w.slice, rows_part, &w);
}

typedef struct {
    const forward_t *f;
    forward_slice_work_t *work;
    const void *context;
    uint32_t rows, slice;
} slices_t;

static void slice_part(void *context, uint32_t part, uint32_t thread)
{
    const slices_t *w = context;
    uint32_t first = part * w->slice, left = w->rows - first;

    w->work(w->f, w->context, first, left < w->slice ? left : w->slice, thread);
}

void forward_by_slices(const forward_t *f, uint32_t rows, forward_slice_work_t *work,
                       const void *context)
{
    uint32_t slice = rows / (2 * f->options.threads);
    slices_t w = {f, work, context, rows, slice};

    w.slice = slice < 1 ? 1 : slice > ATTEND_QUERIES ? ATTEND_QUERIES : slice;
    team_run(f->team, (rows + w.slice - 1) / w.slice, slice_part, &w);
}

void forward_norm(const forward_t *f, uint32_t rows, uint32_t count, const float *x,
                  const float *weight, float *y)
{
    f->o->rmsnorm(
        &(rmsnorm_t){rows, count, count, count, x, weight, (float)f->config->norm_eps, y});
}

float *forward_part(forward_t *f, float *all)
{
    return f->options.world == 1 ? all : f->r.part;
}

status_t forward_gather(forward_t *f, forward_site_id_t site, const forward_cut_t *cut,
                        uint32_t rows, const float *part, float *all)
{
    if (f->options.world == 1)
        return STATUS_OK;
    return collective_gather(f->collective, site, part, rows, cut->at, all,
                             cut->at[f->options.world]);
}

const char *forward_site_name(uint32_t site)
{
    static const char *const names[] = {
#define SITE_NAME(site, name) name,
        FORWARD_SITE_TABLE(SITE_NAME)
#undef SITE_NAME
    };

    return site < COUNT_OF(names) ? names[site] : "unknown";
}

/* -- the layers
 * --------------------------------------------------------------------------------------------------
 * */

typedef status_t sublayer_t(forward_t *f, const forward_layer_t *layer);

/* The mixes of some rows, and what the sublayer reads. */
static void site_read(forward_t *f, const void *context, uint32_t first, uint32_t count)
{
    const forward_site_t *site = context;
    const model_config_t *c = f->config;
    forward_rows_t *r = &f->r;
    uint32_t s = c->streams;
    size_t at = first, wide = (size_t)s * c->hidden;

    f->o->hyper_mix(&(hyper_mix_t){count, s, c->hidden, c->sinkhorn_rounds, r->x + at * wide,
                                   r->raw + at * (2 + s) * s, site->base, site->scale,
                                   (float)c->norm_eps, (float)c->stream_eps, r->pre + at * s,
                                   r->post + at * s, r->comb + at * s * s});
    f->o->hyper_read(&(hyper_read_t){count, s, c->hidden, r->x + at * wide, r->pre + at * s,
                                     r->u + at * c->hidden});
}

static void site_norm(forward_t *f, const void *context, uint32_t first, uint32_t count)
{
    float *u = f->r.u + (size_t)first * f->config->hidden;
    forward_norm(f, count, f->config->hidden, u, context, u);
}

static void site_write(forward_t *f, const void *context, uint32_t first, uint32_t count)
{
    const model_config_t *c = f->config;
    uint32_t s = c->streams;
    size_t at = first;

    (void)context;
    f->o->hyper_write(&(hyper_write_t){count, s, c->hidden, f->r.y + at * c->hidden,
                                       f->r.post + at * s, f->r.comb + at * s * s,
                                       f->r.x + at * s * c->hidden});
}

static void note_site(const forward_t *f, const char *prefix)
{
    const forward_rows_t *r = &f->r;
    uint32_t s = f->config->streams;

    forward_note(f, prefix, "pre", TRACE_F32, r->rows, s, r->pre);
    forward_note(f, prefix, "post", TRACE_F32, r->rows, s, r->post);
    forward_note(f, prefix, "comb", TRACE_F32, r->rows, s * s, r->comb);
    forward_note(f, prefix, "input", TRACE_F32, r->rows, f->config->hidden, r->u);
}

static status_t run_site(forward_t *f, const forward_layer_t *layer, const forward_site_t *site,
                         const float *norm, const char *name, sublayer_t *sublayer)
{
    uint32_t rows = f->r.rows, s = f->config->streams, wide = s * f->config->hidden;
    char prefix[FORWARD_NAME_BYTES];

    snprintf(prefix, sizeof(prefix), "%s%s.", layer->name, name);
    forward_gemm(f, &site->fn, rows, f->r.x, wide, f->r.raw, (2 + s) * s);
    forward_by_rows(f, rows, site_read, site);
    note_site(f, prefix);
    forward_by_rows(f, rows, site_norm, norm);
    TRY(sublayer(f, layer));
    forward_note(f, prefix, "output", TRACE_F32, rows, f->config->hidden, f->r.y);
    forward_by_rows(f, rows, site_write, NULL);
    return STATUS_OK;
}

static status_t run_layer(forward_t *f, const forward_layer_t *layer)
{
    if (f->collective)
        collective_layer(f->collective, layer->index);
    TRY(run_site(f, layer, &layer->attention_site, layer->attention_norm, "hc_attn",
                 forward_attention));
    TRY(run_site(f, layer, &layer->moe_site, layer->moe_norm, "hc_ffn", forward_moe));
    forward_note(f, layer->name, "streams", TRACE_F32, f->r.rows,
                 f->config->streams * f->config->hidden, f->r.x);
    return STATUS_OK;
}

/* Logits of the rows that are wanted: `layer` holds the mix and the norm before the head. */
static status_t run_head(forward_t *f, const forward_layer_t *layer, bool draft, float *logits)
{
    const model_config_t *c = f->config;
    forward_rows_t *r = &f->r;
    uint32_t s = c->streams, wide = s * c->hidden, wanted = 0;
    float *part = forward_part(f, logits);

    for (uint32_t i = 0; i < r->item_count; i++)
        for (uint32_t n = r->items[i].logit_count; n > 0; n--)
            r->head_rows[wanted++] = r->batch_items[i].row + r->items[i].count - n;
    if (!wanted)
        return STATUS_OK;
    f->o->rows_gather(&(rows_gather_t){wanted, wide, r->x, r->head_rows, r->head_x});
    forward_gemm(f, &layer->head_site.fn, wanted, r->head_x, wide, r->raw, s);
    f->o->hyper_mix(&(hyper_mix_t){wanted, s, c->hidden, 0, r->head_x, r->raw,
                                   layer->head_site.base, layer->head_site.scale,
                                   (float)c->norm_eps, (float)c->stream_eps, r->pre, NULL, NULL});
    forward_note(f, draft ? layer->name : "", "head_mix", TRACE_F32, wanted, s, r->pre);
    f->o->hyper_read(&(hyper_read_t){wanted, s, c->hidden, r->head_x, r->pre, r->u});
    forward_norm(f, wanted, c->hidden, r->u, layer->norm, r->u);
    forward_gemm(f, &f->head, wanted, r->u, c->hidden, part, forward_share(f, &f->vocabulary_cut));
    return forward_gather(f, SITE_LOGITS, &f->vocabulary_cut, wanted, part, logits);
}

static void keep_streams(const forward_t *f, float *streams)
{
    if (streams)
        memcpy(streams, f->r.x,
               (size_t)f->r.rows * f->config->streams * f->config->hidden * sizeof(float));
}

status_t forward_step(forward_t *f, const forward_cache_t *cache, const forward_item_t *items,
                      uint32_t item_count, float *logits, float *streams)
{
    f->cache = *cache;
    TRY(forward_batch_take(f, items, item_count));
    f->o->rows_embed(
        &(rows_embed_t){f->r.rows, f->config->streams, &f->weights->embed, f->r.tokens, f->r.x});
    for (uint32_t i = 0; i < f->weights->layer_count; i++)
        TRY(run_layer(f, &f->layers[i]));
    keep_streams(f, streams);
    return run_head(f, &f->layers[f->weights->layer_count - 1], false, logits);
}

typedef struct {
    const forward_t *f;
    sample_t p;
} draw_work_t;

static void draw_part(void *context, uint32_t part, uint32_t thread)
{
    const draw_work_t *w = context;
    sample_t p = w->p;

    p.rows = 1;
    p.logits += (size_t)part * p.vocabulary;
    p.how += part;
    p.choices += part;
    p.workspace = forward_workspace(w->f, thread);
    w->f->o->sample(&p);
}

void forward_draw(forward_t *f, const float *logits, const sample_row_t *how, uint32_t rows,
                  sample_choice_t *choices)
{
    draw_work_t work = {
        f, {.vocabulary = f->config->vocabulary, .logits = logits, .how = how, .choices = choices}};

    ASSERT(rows <= f->options.logits_max);
    team_run(f->team, rows, draw_part, &work);
}

uint64_t forward_digest(const forward_t *f, uint32_t item)
{
    const size_t wide = (size_t)f->config->streams * f->config->hidden * sizeof(float);
    const forward_item_t *run = &f->r.items[item];

    ASSERT(item < f->r.item_count);
    return digest_bytes((const char *)f->r.x + f->r.batch_items[item].row * wide, run->count * wide,
                        run->position * wide / sizeof(uint64_t));
}

status_t forward_draft(forward_t *f, uint32_t block, const forward_cache_t *cache,
                       const forward_item_t *items, uint32_t item_count, const float *streams,
                       float *logits, float *next_streams)
{
    const forward_layer_t *layer = &f->layers[f->weights->layer_count + block];
    uint32_t s = f->config->streams, hidden = f->config->hidden;
    forward_rows_t *r = &f->r;

    ASSERT(block < f->weights->mtp_count);
    f->cache = *cache;
    TRY(forward_batch_take(f, items, item_count));
    /* x = e_proj norm(embed) + h_proj norm(stream), for each stream */
    f->o->rows_embed(&(rows_embed_t){r->rows, 1, &f->weights->embed, r->tokens, r->u});
    forward_norm(f, r->rows, hidden, r->u, layer->enorm, r->u);
    forward_gemm(f, &layer->e_proj, r->rows, r->u, hidden, r->y, hidden);
    for (uint32_t m = 0; m < r->rows; m++) {
        float *x = r->x + (size_t)m * s * hidden;
        forward_norm(f, s, hidden, streams + (size_t)m * s * hidden, layer->hnorm, r->routed);
        forward_gemm(f, &layer->h_proj, s, r->routed, hidden, x, hidden);
        for (uint32_t i = 0; i < s * hidden; i++)
            x[i] = r->y[(size_t)m * hidden + i % hidden] + x[i];
    }
    TRY(run_layer(f, layer));
    keep_streams(f, next_streams);
    return run_head(f, layer, true, logits);
}

/* forward_attention.c - the attention sublayer: projections, window rows, the core, and the way
 * out.
 *
 * Columns of both output projections are shared out and gathered: no rank ever adds another's part,
 * so a product has the same bits at every size of the group.
 */
#include <math.h>
#include <string.h>

#include "model/forward_parts.h"

static const float *turns_of(const forward_t *f, const forward_layer_t *layer)
{
    return layer->ratio ? f->r.turns_compressed : f->r.turns;
}

/* Norms and rotations of some rows, and their window rows in cache form. */
static void project_rows(forward_t *f, const void *context, uint32_t first, uint32_t count)
{
    const forward_layer_t *layer = context;
    uint32_t dim = f->config->head_dim, width = f->heads * dim;
    const float *turns = turns_of(f, layer) + (size_t)first * f->config->rope_dim;
    float *q = f->r.q + (size_t)first * width, *kv = f->r.kv + (size_t)first * dim;

    forward_norm(f, count * f->heads, dim, q, NULL, q);
    f->o->rope(&(rope_t){count, f->heads, dim, f->rope.pairs, width, false, turns, q});
    forward_norm(f, count, dim, kv, layer->kv_norm, kv);
    f->o->rope(&(rope_t){count, 1, dim, f->rope.pairs, dim, false, turns, kv});
    f->o->rows_store(&(rows_store_t){.rows = count,
                                     .form = f->row_form,
                                     .x = kv,
                                     .first = first,
                                     .view = forward_window_state(f, layer).step});
}

/* qr, q of this rank's heads, window rows in cache form. */
static void project(forward_t *f, const forward_layer_t *layer)
{
    const model_config_t *c = f->config;
    uint32_t rows = f->r.rows, dim = c->head_dim;
    const geometry_pool_t *ring = &f->geometry->pools[POOL_SLOT_WINDOW];

    forward_gemm(f, &layer->wq_a, rows, f->r.u, c->hidden, f->r.qr, c->query_rank);
    forward_norm(f, rows, c->query_rank, f->r.qr, layer->q_norm, f->r.qr);
    forward_gemm(f, &layer->wq_b, rows, f->r.qr, c->query_rank, f->r.q, f->heads * dim);
    forward_gemm(f, &layer->wkv, rows, f->r.u, c->hidden, f->r.kv, dim);
    forward_by_rows(f, rows, project_rows, layer);
    if (!f->options.trace)
        return;
    for (size_t m = 0; m < rows; m++)
        row_decode(&f->row_form, f->r.row_data + m * ring->data_bytes,
                   f->r.row_scale + m * ring->scale_bytes, f->r.trace + m * dim);
    forward_note(f, layer->name, "attn.rows", TRACE_F32, rows, dim, f->r.trace);
}

/* -- the core
 * ----------------------------------------------------------------------------------------------------
 * */

static void attend_rows(const forward_t *f, const void *context, uint32_t first, uint32_t count,
                        uint32_t thread)
{
    attend_t p = *(const attend_t *)context;

    p.row_first = first;
    p.row_count = count;
    p.workspace = forward_workspace(f, thread);
    f->o->attend(&p);
}

/* A single row is cut by heads. */
static void attend_heads(const forward_t *f, const void *context, uint32_t first, uint32_t count,
                         uint32_t thread)
{
    attend_t p = *(const attend_t *)context;

    p.head_first = first;
    p.head_count = count;
    p.workspace = forward_workspace(f, thread);
    f->o->attend(&p);
}

static void attend(forward_t *f, const forward_layer_t *layer)
{
    const model_config_t *c = f->config;
    attend_t p = {.batch = &f->r.batch,
                  .row_count = f->r.rows,
                  .head_count = f->heads,
                  .heads = f->heads,
                  .channels = c->head_dim,
                  .window = c->window,
                  .scale = (float)(1.0 / sqrt((double)c->head_dim)),
                  .form = f->row_form,
                  .state = forward_window_state(f, layer),
                  .ratio = layer->ratio,
                  .sinks = layer->sinks,
                  .q = f->r.q,
                  .out = f->r.core};

    if (layer->ratio) {
        p.entries = forward_view(f, layer, layer->ratio == 4 ? POOL_C4 : POOL_C128);
        p.page_entries = PAGE_TOKENS / layer->ratio;
    }
    if (layer->ratio == 4) {
        p.selected_max = c->index_topk;
        p.selected = f->r.selected;
        p.selected_count = f->r.selected_count;
    }
    if (f->r.rows == 1)
        forward_by_slices(f, f->heads, attend_heads, &p);
    else
        forward_by_slices(f, f->r.rows, attend_rows, &p);
}

/* -- the way out
 * -------------------------------------------------------------------------------------------------
 * */

static status_t project_out(forward_t *f, const forward_layer_t *layer)
{
    const model_config_t *c = f->config;
    uint32_t rows = f->r.rows, width = f->heads * c->head_dim, group_width = width / f->groups;
    float *z = forward_part(f, f->r.z), *y;

    if (f->options.trace)
        forward_note(f, layer->name, "attn.core", TRACE_F32, rows, width, f->r.core);
    f->o->rope(&(rope_t){rows, f->heads, c->head_dim, f->rope.pairs, width, true,
                         turns_of(f, layer), f->r.core});
    forward_gemm_groups(f, &(gemm_groups_t){.groups = f->groups,
                                            .rows = rows,
                                            .w = layer->wo_a,
                                            .x_stride = width,
                                            .x_group = group_width,
                                            .y_stride = (size_t)f->groups * c->output_rank,
                                            .y_group = c->output_rank,
                                            .x = f->r.core,
                                            .y = z});
    TRY(forward_gather(f, SITE_ATTENTION_GROUPS, &f->group_cut, rows, z, f->r.z));
    y = forward_part(f, f->r.y);
    forward_gemm(f, &layer->wo_b, rows, f->r.z, (size_t)c->output_groups * c->output_rank, y,
                 forward_share(f, &f->hidden_cut));
    return forward_gather(f, SITE_ATTENTION_OUTPUT, &f->hidden_cut, rows, y, f->r.y);
}

static void keep_window(forward_t *f, const forward_layer_t *layer)
{
    const geometry_pool_t *border = &f->geometry->pools[POOL_BORDER_WINDOW];

    f->o->ring_keep(&(ring_keep_t){.batch = &f->r.batch,
                                   .item_count = f->r.item_count,
                                   .state = forward_window_state(f, layer),
                                   .border = forward_view(f, layer, POOL_BORDER_WINDOW),
                                   .border_rows = border->rows,
                                   .parts = 1,
                                   .data_bytes = border->data_bytes,
                                   .border_bytes = border->data_bytes,
                                   .scale_bytes = border->scale_bytes});
}

status_t forward_attention(forward_t *f, const forward_layer_t *layer)
{
    project(f, layer);
    forward_compress(f, layer);
    if (layer->ratio == 4)
        forward_select(f, layer);
    attend(f, layer);
    keep_window(f, layer);
    return project_out(f, layer);
}

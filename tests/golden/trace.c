/* trace.c - see trace.h: a recorded trace against one of ours. */
#include "tests/golden/trace.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* What a step of a stored value may do to what is computed from it, measured with models of random
 * weights: to a score as a part of the largest one of its row, and to an expert's weight. */
static const float score_part = 0.1f, expert_weight_step = 0.02f;

/* Three times what the README of the golden numbers measured. */
static float tolerance_of(const char *name)
{
    static const struct {
        const char *part;
        float tolerance;
    } rows[] = {
        {".pre", 6e-6f},      {".post", 6e-6f},     {".comb", 6e-6f},
        {"head_mix", 6e-6f},  {"scores", 2.7e-5f},  {"rows", 3.9e-5f},
        {"entries", 3.9e-5f}, {"core", 3.9e-5f},    {"margin", 5.4e-5f},
        {"streams", 9e-5f},   {"weights", 1.8e-6f}, {".input", 1.5e-4f},
        {".output", 1.5e-4f},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (strstr(name, rows[i].part))
            return rows[i].tolerance;
    return 0.0f;
}

/* -- steps of the storage formats ------------------------------------------------------------- */

/* The distance of neighbours at `value` in a float with that many bits of mantissa. Below 2^least
 * (times the scale) the distance is fixed. */
static float step_at(float value, int mantissa, int least, float scale)
{
    int exponent;
    frexpf(value / scale, &exponent);
    exponent = exponent - 1 < least ? least : exponent - 1;
    return ldexpf(scale, exponent - mantissa);
}

static float largest_of(const float *a, const float *b, uint32_t count)
{
    float largest = 1e-30f;
    for (uint32_t i = 0; i < count; i++)
        largest = fmaxf(largest, fmaxf(fabsf(a[i]), fabsf(b[i])));
    return largest;
}

/* The block's scale: the smallest power of two that holds its largest value. At the very edge the
 * next one may have been taken. */
static float block_scale(const float *a, const float *b, uint32_t count, float format_max)
{
    float scale = FLT_MIN, largest = largest_of(a, b, count);
    while (largest >= format_max * scale * 0.999f)
        scale *= 2.0f;
    return scale;
}

/* The step of channel i in a row as `mode` stores it. */
static float stored_step(const trace_check_t *check, const char *name, const float *a,
                         const float *b, uint32_t width, uint32_t i)
{
    float largest = fmaxf(fabsf(a[i]), fabsf(b[i]));
    bool key = strstr(name, "indexer");
    uint32_t at, block = key ? 32 : 64, packed = width - check->rope_dim;

    if (strcmp(check->c->mode, "bf16") == 0 || (!key && i >= packed))
        return step_at(largest, 7, -126, 1.0f);
    if (key && strcmp(check->c->mode, "fp8i8") == 0)
        return step_at(largest, 3, -6, largest_of(a, b, width) / 448.0f);
    at = i / block * block;
    if (key)
        return step_at(largest, 1, 0, block_scale(a + at, b + at, block, 6.0f));
    return step_at(largest, 3, -6,
                   block_scale(a + at, b + at, packed - at < block ? packed - at : block, 448.0f));
}

/* -- one row ---------------------------------------------------------------------------------- */

typedef struct {
    const trace_check_t *check;
    const char *name;
    uint32_t golden_row; /* of the tensor in the file */
    uint32_t width;
} trace_row_t;

static void row_fails(const trace_row_t *row, uint32_t i, float have, float want, float allowed)
{
    fail_msg("%s %s: %s row %u, number %u is %.9g, not %.9g (%.2g is allowed)", row->check->c->name,
             row->check->c->mode, row->name, row->golden_row, i, (double)have, (double)want,
             (double)allowed);
}

static bool near(float a, float b, float allowed)
{
    return a == b || fabsf(a - b) <= allowed; /* both may be infinite */
}

/* Returns how many numbers differ by a step. */
static uint32_t compare_stored(const trace_row_t *row, const float *want, const float *have)
{
    float tolerance = tolerance_of(row->name);
    uint32_t moved = 0;

    for (uint32_t i = 0; i < row->width; i++) {
        if (near(want[i], have[i], tolerance))
            continue;
        float step = row->check->exact
                         ? 0.0f
                         : stored_step(row->check, row->name, want, have, row->width, i);
        if (!near(want[i], have[i], step * 1.001f + tolerance))
            row_fails(row, i, have[i], want[i], step);
        moved++;
    }
    return moved;
}

static void compare_numbers(const trace_row_t *row, const float *want, const float *have, float allowed)
{
    for (uint32_t i = 0; i < row->width; i++)
        if (!near(want[i], have[i], allowed))
            row_fails(row, i, have[i], want[i], allowed);
}

/* Returns the worst difference. */
static float compare_scores(const trace_row_t *row, const float *want, const float *have)
{
    float allowed = tolerance_of(row->name), largest = 0.0f, worst = 0.0f;

    for (uint32_t i = 0; i < row->width; i++)
        if (!isinf(want[i]))
            largest = fmaxf(largest, fabsf(want[i]));
    if (!row->check->exact)
        allowed += score_part * largest;
    compare_numbers(row, want, have, allowed);
    for (uint32_t i = 0; i < row->width; i++)
        if (want[i] != have[i])
            worst = fmaxf(worst, fabsf(want[i] - have[i]));
    return worst;
}

/* Two sets may differ in entries whose scores the numbers behind them cannot tell from the last one
 * taken. */
static void compare_selected(const trace_row_t *row, const uint8_t *want, const uint8_t *have,
                             float score_moved)
{
    char scores_name[128];
    float edge = INFINITY;
    uint32_t count = 0, have_count = 0;

    if (memcmp(want, have, row->width) == 0)
        return;
    snprintf(scores_name, sizeof(scores_name), "%.*sscores",
             (int)(strlen(row->name) - strlen("selected")), row->name);
    const tensor_view_t *tensor = safetensors_find(row->check->golden, scores_name);
    if (!tensor)
        fail_msg("%s: %s is another set", row->check->c->name, row->name);
    const float *scores =
        (const float *)(const void *)tensor->data + (size_t)row->golden_row * row->width;
    for (uint32_t i = 0; i < row->width; i++) {
        count += want[i] != 0;
        have_count += have[i] != 0;
        edge = want[i] ? fminf(edge, scores[i]) : edge;
    }
    assert_int_equal(count, have_count);
    for (uint32_t i = 0; i < row->width; i++)
        if (want[i] != have[i] && !near(scores[i], edge, 2.0f * score_moved))
            fail_msg("%s: %s row %u is another set: entry %u has %g, the last one taken %g",
                     row->check->c->name, row->name, row->golden_row, i, (double)scores[i],
                     (double)edge);
}

/* In order of score; where rounding moved scores, two neighbours may have changed places, and at a
 * narrow edge another expert may be taken. */
static void compare_experts(const trace_row_t *row, const int32_t *want, const int32_t *have)
{
    const json_t *margin = json_object_get(row->check->c->facts, "router_margin");
    bool narrow = json_is_number(margin) && json_number_value(margin) < (double)expert_weight_step;
    uint32_t same = 0;

    if (memcmp(want, have, row->width * sizeof(*want)) == 0 || (!row->check->exact && narrow))
        return;
    for (uint32_t i = 0; i < row->width; i++)
        for (uint32_t k = 0; k < row->width; k++)
            same += want[i] == have[k];
    if (row->check->exact || same < row->width)
        fail_msg("%s: %s row %u has other experts", row->check->c->name, row->name,
                 row->golden_row);
}

/* Position index i of the trace: row i of the file's tensor. Returns how many numbers moved by a
 * step. */
static uint32_t compare_row(trace_check_t *check, const trace_row_t *row, uint32_t i, const void *want,
                            const void *have)
{
    if (strstr(row->name, ".selected"))
        compare_selected(row, want, have, check->score_moved[i]);
    else if (strstr(row->name, ".expert_ids"))
        compare_experts(row, want, have);
    else if (strstr(row->name, ".scores"))
        check->score_moved[i] = compare_scores(row, want, have);
    else if (strstr(row->name, ".rows") || strstr(row->name, ".entries"))
        return compare_stored(row, want, have);
    else if (!check->exact && strstr(row->name, ".expert_weights"))
        compare_numbers(row, want, have, expert_weight_step);
    else if (check->exact || !strstr(row->name, "margin"))
        compare_numbers(row, want, have, tolerance_of(row->name));
    return 0;
}

/* -- what forward notes ----------------------------------------------------------------------- */

void trace_check_init(trace_check_t *check, const harness_model_t *model, const harness_case_t *c,
                      const safetensors_t *golden)
{
    const json_t *positions = json_object_get(c->traces, "positions");

    *check = (trace_check_t){.golden = golden,
                             .c = c,
                             .rope_dim = model->config.rope_dim,
                             .position_count = (uint32_t)json_array_size(positions),
                             .exact = strcmp(c->mode, "f64") == 0};
    assert_in_range(check->position_count, 1, TRACE_POSITIONS_MAX);
    for (uint32_t i = 0; i < check->position_count; i++)
        check->positions[i] = (uint32_t)json_integer_value(json_array_get(positions, i));
}

void trace_check_note(void *context, const char *name, forward_trace_kind_t kind, uint32_t rows,
                      uint32_t width, const void *values)
{
    trace_check_t *check = context;
    const tensor_view_t *tensor = safetensors_find(check->golden, name);
    size_t row_bytes = (size_t)width * (kind == TRACE_U8 ? 1 : 4);
    bool entries = strstr(name, ".entries");
    uint32_t moved = 0, count = entries ? rows : check->position_count;

    if (!tensor || (!check->exact && strncmp(name, "layers.0.", strlen("layers.0.")) != 0))
        return;
    check->found++;
    assert_int_equal(tensor->shape[0], count);
    for (uint32_t i = 0; i < count; i++) {
        const trace_row_t row = {check, name, i, width};
        uint32_t at = i;
        if (!entries) { /* the rows that the caller has are the prompt's last ones */
            if (check->positions[i] < check->c->count - rows)
                continue;
            at = check->positions[i] - (check->c->count - rows);
        }
        moved += compare_row(check, &row, i, tensor->data + i * row_bytes,
                             (const uint8_t *)values + at * row_bytes);
    }
    if (moved > 2 + count * width / 100)
        fail_msg("%s %s: %s: %u of %u numbers are a step off: that is no accident", check->c->name,
                 check->c->mode, name, moved, count * width);
}

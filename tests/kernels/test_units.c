/* test_units.c - the reference forms of small operators against golden units (float64 outputs).
 *
 * test_operators holds every other form to the bits of these. LOCKSTEP_GOLDEN names another folder.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <unistd.h>

#include "kernels/operators.h"
#include "model/safetensors.h"

static safetensors_t file;

static void open_file(const char *name)
{
    const char *root = getenv("LOCKSTEP_GOLDEN");
    char path[1024];

    snprintf(path, sizeof(path), "%s/numbers/units/%s.safetensors", root ? root : "tests/golden",
             name);
    if (root && access(path, R_OK) != 0) { /* another golden folder need not have units */
        print_message("no %s\n", path);
        skip();
    }
    if (safetensors_open_file(&file, path) != STATUS_OK)
        fail_msg("%s", trail_text());
}

/* Elements of a tensor; fails the test if it is not there. */
static const void *find(const char *name, tensor_dtype_t dtype, size_t *count)
{
    const tensor_view_t *tensor = safetensors_find(&file, name);

    if (!tensor || tensor->dtype != dtype)
        fail_msg("no tensor %s of that type", name);
    *count = 1;
    for (uint32_t i = 0; i < tensor->rank; i++)
        *count *= tensor->shape[i];
    return tensor->data;
}

static const float *floats(const char *name, size_t *count)
{
    return find(name, TENSOR_F32, count);
}

/* `relative` where values exceed 1, as the README of the golden numbers asks. */
static void compare(const char *name, const float *found, size_t count, double tolerance)
{
    size_t wanted;
    const double *want = find(name, TENSOR_F64, &wanted);

    assert_int_equal(count, wanted);
    for (size_t i = 0; i < count; i++) {
        double scale = fabs(want[i]) > 1.0 ? fabs(want[i]) : 1.0;
        if (!(fabs((double)found[i] - want[i]) <= tolerance * scale))
            fail_msg("%s[%zu] is %.9g, not %.9g", name, i, (double)found[i], want[i]);
    }
}

static void test_sinkhorn(void **state)
{
    static const uint32_t rounds[] = {1, 2, 3, 20};
    static const float ones[4] = {1, 1, 1, 1}, scale[3] = {1, 1, 1}, base[24] = {0};
    size_t count;

    (void)state;
    open_file("sinkhorn");
    const float *in = floats("in", &count);
    for (size_t r = 0; r < COUNT_OF(rounds); r++) {
        float *out = malloc(count * sizeof(float));
        char name[16];
        for (size_t m = 0; m < count / 16; m++) { /* streams of ones: the norm is 1 */
            float raw[24] = {0}, pre[4], post[4];
            memcpy(raw + 8, in + 16 * m, 16 * sizeof(float));
            hyper_mix_ref(&(hyper_mix_t){1, 4, 1, rounds[r], ones, raw, base, scale, 0.0f, 1e-6f,
                                         pre, post, out + 16 * m});
            assert_true(fabsf(pre[0] - 0.500001f) < 1e-7f && post[3] == 1.0f);
        }
        snprintf(name, sizeof(name), "out%u", rounds[r]);
        compare(name, out, count, 1e-6);
        free(out);
    }
    safetensors_close(&file);
}

static void compare_frequencies(const char *name, const rope_table_t *table)
{
    size_t count;
    const double *want = find(name, TENSOR_F64, &count);

    assert_int_equal(count, table->pairs);
    for (size_t i = 0; i < count; i++)
        if (!(fabs(table->frequency[i] - want[i]) <= 1e-12 * fabs(want[i])))
            fail_msg("%s[%zu] is %.17g, not %.17g", name, i, table->frequency[i], want[i]);
}

static void test_frequencies(void **state)
{
    static const char *const yarns[] = {"base10000", "equal_edges", "factor4",
                                        "factor40",  "flash",       "short"};
    static const char *const plains[] = {"plain10000", "plain160000", "plain500000"};
    static const double bases[] = {10000, 160000, 500000};
    rope_table_t table;
    char name[64];
    size_t count;

    (void)state;
    open_file("frequencies");
    for (size_t i = 0; i < COUNT_OF(plains); i++) {
        rope_table_init(&table, 64, bases[i]);
        compare_frequencies(plains[i], &table);
    }
    for (size_t i = 0; i < COUNT_OF(yarns); i++) {
        snprintf(name, sizeof(name), "yarn/%s/parameters", yarns[i]);
        const double *p = find(name, TENSOR_F64, &count);
        rope_table_init_yarn(&table, 64, p[0], p[1], p[2], p[3], p[4]);
        snprintf(name, sizeof(name), "yarn/%s", yarns[i]);
        compare_frequencies(name, &table);
    }
    safetensors_close(&file);
}

static void check_rope(const rope_table_t *table, const char *kind)
{
    size_t count, rows;
    const float *in = floats("in", &count);
    const int64_t *positions = find("positions", TENSOR_I64, &rows);
    uint32_t channels = (uint32_t)(count / rows);
    float *x = malloc(count * sizeof(float)), *turns = malloc(rows * 64 * sizeof(float));
    char name[64];

    for (size_t m = 0; m < rows; m++)
        rope_turns(table, (uint32_t)positions[m], turns + 64 * m);
    for (int inverse = 0; inverse < 2; inverse++) {
        memcpy(x, in, count * sizeof(float));
        rope_ref(&(rope_t){(uint32_t)rows, 1, channels, 32, channels, inverse != 0, turns, x});
        snprintf(name, sizeof(name), "%s/%s", kind, inverse ? "inverse" : "forward");
        compare(name, x, count, 1e-6);
    }
    free(x);
    free(turns);
}

static void test_rope(void **state)
{
    rope_table_t table;

    (void)state;
    open_file("rope");
    rope_table_init(&table, 64, 10000);
    check_rope(&table, "plain");
    rope_table_init_yarn(&table, 64, 160000, 16, 65536, 32, 1);
    check_rope(&table, "yarn");
    safetensors_close(&file);
}

static void test_norm_and_activation(void **state)
{
    static const float limits[] = {3, 10};
    size_t count, width;
    float *out = malloc(8192 * sizeof(float));

    (void)state;
    open_file("small");
    const float *in = floats("rms/in", &count), *weight = floats("rms/weight", &width);
    assert_in_range(count, 1, 8192);
    rmsnorm_t norm = {
        (uint32_t)(count / width), (uint32_t)width, width, width, in, NULL, 1e-6f, out};
    rmsnorm_ref(&norm);
    compare("rms/out", out, count, 1e-6);
    norm.weight = weight;
    rmsnorm_ref(&norm);
    compare("rms/out_weighted", out, count, 1e-6);
    for (size_t i = 0; i < COUNT_OF(limits); i++) {
        const float *gate = floats("swiglu/gate", &count), *up = floats("swiglu/up", &count);
        swiglu_ref(&(swiglu_t){1, (uint32_t)count, count, gate, up, limits[i], out});
        compare(i ? "swiglu/out_limit10" : "swiglu/out_limit3", out, count, 1e-6);
    }
    free(out);
    safetensors_close(&file);
}

static void test_router(void **state)
{
    enum { TOP = 6 };
    size_t count, experts, ids;
    uint32_t *chosen = malloc(4096 * sizeof(uint32_t)), *order = malloc(4096 * sizeof(uint32_t));
    float *scores = malloc(4096 * sizeof(float)), *weights = malloc(4096 * sizeof(float));
    float *ordered = malloc(4096 * sizeof(float));

    (void)state;
    open_file("small");
    const float *logits = floats("router/logits", &count), *bias = floats("router/bias", &experts);
    const int32_t *want = find("router/ids_top6", TENSOR_I32, &ids);
    assert_in_range(count, 1, 4096);
    moe_route_ref(&(moe_route_t){.rows = (uint32_t)(count / experts),
                                 .experts = (uint32_t)experts,
                                 .chosen_count = TOP,
                                 .normalize = true,
                                 .scale = 1.5f,
                                 .logits = logits,
                                 .bias = bias,
                                 .scores = scores,
                                 .chosen = chosen,
                                 .order = order,
                                 .weights = weights});
    for (size_t i = 0; i < ids; i++) {
        assert_int_equal(order[i], want[i]);
        for (size_t j = i / TOP * TOP; j < i / TOP * TOP + TOP; j++)
            if (chosen[j] == order[i])
                ordered[i] = weights[j];
    }
    compare("router/weights_scale1.5", ordered, ids, 1e-6);

    /* sqrt(softplus) alone: the router's scores, whatever it chooses */
    const float *in = floats("sqrtsoftplus/in", &count);
    moe_route_ref(&(moe_route_t){.rows = 1,
                                 .experts = (uint32_t)count,
                                 .chosen_count = 1,
                                 .scale = 1.0f,
                                 .logits = in,
                                 .table = (const uint32_t[]){0},
                                 .tokens = (const uint32_t[]){0},
                                 .scores = scores,
                                 .chosen = chosen,
                                 .order = order,
                                 .weights = weights});
    compare("sqrtsoftplus/out", scores, count, 1e-6);
    free(chosen);
    free(order);
    free(scores);
    free(weights);
    free(ordered);
    safetensors_close(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sinkhorn), cmocka_unit_test(test_frequencies),
        cmocka_unit_test(test_rope),     cmocka_unit_test(test_norm_and_activation),
        cmocka_unit_test(test_router),
    };
    return cmocka_run_group_tests_name("units", tests, NULL, NULL);
}

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <unistd.h>

#include <math.h>

#include "kernels/format.h"
#include "kernels/isa.h"
#include "kernels/math.h"
#include "kernels/weight.h"
#include "model/safetensors.h"
#include "runtime/base/random.h"

/* Largest float32 error of the orthonormal Hadamard transform, relative to values around 1. */
static const double hadamard_tolerance = 1e-6;

static safetensors_t file;

static void open_units(const char *name)
{
    const char *root = getenv("LOCKSTEP_GOLDEN");
    char path[PATH_BYTES_MAX];

    snprintf(path, sizeof(path), "%s/numbers/units/%s.safetensors", root ? root : "tests/golden",
             name);
    if (root && access(path, R_OK) != 0) { /* another golden folder need not have units */
        print_message("no %s\n", path);
        skip();
    }
    if (safetensors_open_file(&file, path) != STATUS_OK)
        fail_msg("%s", trail_text());
}

static const tensor_view_t *tensor(const char *format, ...) PRINTF_LIKE(1, 2);
static const tensor_view_t *tensor(const char *format, ...)
{
    const tensor_view_t *found;
    va_list arguments;
    char name[128];

    va_start(arguments, format);
    vsnprintf(name, sizeof(name), format, arguments);
    va_end(arguments);
    found = safetensors_find(&file, name);
    if (!found)
        fail_msg("no tensor %s", name);
    return found;
}

static const float *floats(const tensor_view_t *t)
{
    assert_int_equal(t->dtype, TENSOR_F32);
    return (const float *)(const void *)t->data;
}

/* Equal bits; all NaNs are one. */
static void assert_same(float found, float expected, const char *what, size_t at)
{
    if (math_bits(found) != math_bits(expected) && !(isnan(found) && isnan(expected)))
        fail_msg("%s[%zu]: expected %a, found %a", what, at, (double)expected, (double)found);
}

static void assert_bytes(const void *found, const tensor_view_t *expected)
{
    for (uint64_t i = 0; i < expected->bytes; i++)
        if (((const uint8_t *)found)[i] != expected->data[i])
            fail_msg("%s: byte %llu: expected %02x, found %02x", expected->name,
                     (unsigned long long)i, expected->data[i], ((const uint8_t *)found)[i]);
}

static void test_values_of_all_codes(void **state)
{
    uint8_t code = 0;

    (void)state;
    open_units("formats");
    do {
        assert_same(format_e4m3_decode(code), floats(tensor("e4m3/values"))[code], "e4m3", code);
        assert_same(format_e8m0_decode(code), floats(tensor("e8m0/values"))[code], "e8m0", code);
        if (code < 16)
            assert_same(format_e2m1_decode(code), floats(tensor("e2m1/values"))[code], "e2m1",
                        code);
    } while (++code != 0);
    safetensors_close(&file);
}

static void test_encode_vectors(void **state)
{
    const tensor_view_t *in, *out;

    (void)state;
    open_units("formats");
    in = tensor("e4m3/in"), out = tensor("e4m3/code");
    for (size_t i = 0; i < out->bytes; i++) {
        assert_int_equal(format_e4m3_encode(floats(in)[i]), out->data[i]);
        assert_int_equal(format_e4m3_encode_double((double)floats(in)[i]), out->data[i]);
    }
    in = tensor("e2m1/in"), out = tensor("e2m1/code");
    for (size_t i = 0; i < out->bytes; i++)
        assert_int_equal(format_e2m1_encode(floats(in)[i]), out->data[i]);
    in = tensor("bf16/in"), out = tensor("bf16/out");
    for (size_t i = 0; i < out->bytes / 2; i++) {
        uint16_t code;

        memcpy(&code, out->data + 2 * i, sizeof(code));
        assert_int_equal(format_bf16_encode(floats(in)[i]), code);
    }
    in = tensor("scale/amax");
    for (size_t i = 0; i < in->bytes / 4; i++) {
        int32_t fp8, fp4;

        memcpy(&fp8, tensor("scale/fp8_exponent")->data + 4 * i, sizeof(fp8));
        memcpy(&fp4, tensor("scale/fp4_exponent")->data + 4 * i, sizeof(fp4));
        assert_int_equal(format_fp8_exponent(floats(in)[i]), fp8);
        assert_int_equal(format_fp4_exponent(floats(in)[i]), fp4);
    }
    safetensors_close(&file);
}

/* A double just beside a tie rounds away from it; as a float it would be the tie. */
static void test_doubles_are_not_rounded_twice(void **state)
{
    (void)state;
    for (int code = 0; code < 0x7e; code++) {
        double low = (double)format_e4m3_decode((uint8_t)code);
        double tie = (low + (double)format_e4m3_decode((uint8_t)(code + 1))) / 2;

        assert_int_equal(format_e4m3_encode_double(tie), code + code % 2);
        assert_int_equal(format_e4m3_encode_double(nextafter(tie, 0)), code);
        assert_int_equal(format_e4m3_encode_double(-nextafter(tie, 1e9)), 0x80 | (code + 1));
    }
}

static void test_blocks(void **state)
{
    const tensor_view_t *in;
    uint8_t codes[448], scales[8];
    float values[448], scale;

    (void)state;
    open_units("blocks");
    for (size_t row = 0; row < tensor("fp8/in")->shape[0]; row++) {
        in = tensor("fp8/in");
        format_fp8_blocks_encode(floats(in) + 448 * row, 448, 64, codes, scales);
        assert_memory_equal(codes, tensor("fp8/code")->data + 448 * row, 448);
        assert_memory_equal(scales, tensor("fp8/scale")->data + 7 * row, 7);
        format_fp8_blocks_decode(codes, scales, 448, 64, values);
        for (size_t i = 0; i < 448; i++)
            assert_same(values[i], floats(tensor("fp8/out"))[448 * row + i], "fp8", i);

        in = tensor("fp4/in");
        format_fp4_groups_encode(floats(in) + 128 * row, 128, codes, scales);
        assert_memory_equal(codes, tensor("fp4/packed")->data + 64 * row, 64);
        assert_memory_equal(scales, tensor("fp4/scale")->data + 4 * row, 4);
        format_fp4_groups_decode(codes, scales, 128, values);
        for (size_t i = 0; i < 128; i++)
            assert_same(values[i], floats(tensor("fp4/out"))[128 * row + i], "fp4", i);

        in = tensor("fp8row/in");
        scale = format_fp8_row_encode(floats(in) + 128 * row, 128, codes);
        assert_same(scale, floats(tensor("fp8row/scale"))[row], "fp8row/scale", row);
        assert_memory_equal(codes, tensor("fp8row/code")->data + 128 * row, 128);
        format_e4m3_decode_row(codes, 128, scale, values);
        for (size_t i = 0; i < 128; i++) {
            double exact;

            memcpy(&exact, tensor("fp8row/out")->data + 8 * (128 * row + i), sizeof(exact));
            assert_same(values[i], (float)exact, "fp8row", i);
        }
    }
    safetensors_close(&file);
}

static void test_hadamard(void **state)
{
    const tensor_view_t *in, *out;
    float values[128];

    (void)state;
    open_units("blocks");
    in = tensor("hadamard/in"), out = tensor("hadamard/out");
    for (size_t row = 0; row < in->shape[0]; row++) {
        format_hadamard(floats(in) + 128 * row, 128, values);
        for (size_t i = 0; i < 128; i++) {
            double exact, size;

            memcpy(&exact, out->data + 8 * (128 * row + i), sizeof(exact));
            size = fabs(exact) > 1 ? fabs(exact) : 1;
            assert_true(fabs((double)values[i] - exact) <= hadamard_tolerance * size);
        }
    }
    safetensors_close(&file);
}

/* Fills a page with the rows, holds it to the golden page, and reads the rows back. */
static void check_packed_page(uint32_t channels, uint32_t page_rows, uint32_t used)
{
    format_page_t page = format_page_packed(page_rows, channels, 64);
    const float *in = floats(tensor("row%u/in", channels));
    uint8_t *bytes = calloc(1, page.page_bytes);
    const tensor_view_t *expected = tensor("row%u/page%u_used%u", channels, page_rows, used);

    assert_int_equal(page.page_bytes, expected->bytes);
    for (uint32_t row = 0; row < used; row++) {
        uint8_t *data = format_page_data(&page, bytes, row);
        uint8_t *scale = format_page_scale(&page, bytes, row);

        format_packed_row_encode(in + (size_t)row * channels, channels, 64, data, scale);
        assert_memory_equal(data, tensor("row%u/data", channels)->data + row * page.data_bytes,
                            page.data_bytes);
        assert_memory_equal(scale, tensor("row%u/scales", channels)->data + row * page.scale_bytes,
                            page.scale_bytes);
    }
    assert_bytes(bytes, expected);
    if (page_rows == 64)
        for (uint32_t row = 0; row < used; row++) {
            float values[512];

            format_packed_row_decode(format_page_data(&page, bytes, row),
                                     format_page_scale(&page, bytes, row), channels, 64, values);
            for (uint32_t i = 0; i < channels; i++)
                assert_same(values[i],
                            floats(tensor("row%u/page64_out", channels))[row * channels + i], "row",
                            i);
        }
    free(bytes);
}

static void check_index_page(const char *form, uint32_t rows, uint32_t used)
{
    bool fp8 = strcmp(form, "fp8") == 0;
    format_page_t page = fp8 ? format_page_index_fp8(rows, 128) : format_page_index_fp4(rows, 128);
    const float *in = floats(tensor("index/in"));
    uint8_t *bytes = calloc(1, page.page_bytes);
    const tensor_view_t *expected = tensor("index/%s_page%u_used%u", form, rows, used);

    assert_int_equal(page.page_bytes, expected->bytes);
    for (uint32_t row = 0; row < used; row++)
        (fp8 ? format_index_fp8_encode : format_index_fp4_encode)(
            in + 128 * (size_t)row, 128, format_page_data(&page, bytes, row),
            format_page_scale(&page, bytes, row));
    assert_bytes(bytes, expected);
    free(bytes);
}

static void test_pages(void **state)
{
    uint32_t pages = 0;

    (void)state;
    open_units("pages");
    for (uint32_t i = 0; i < file.tensor_count; i++) {
        const char *name = file.tensors[i].name;
        unsigned channels, rows, used;
        char form[8];

        if (sscanf(name, "row%u/page%u_used%u", &channels, &rows, &used) == 3) {
            check_packed_page(channels, rows, used);
            pages++;
        } else if (sscanf(name, "index/%3[a-z0-9]_page%u_used%u", form, &rows, &used) == 3) {
            check_index_page(form, rows, used);
            pages++;
        }
    }
    assert_true(pages >= 10);
    safetensors_close(&file);
}

/* Holds weight_value to the golden values exactly, and weight_decode to them rounded once. */
static void check_weight(const weight_t *weight, const tensor_view_t *out)
{
    float *values = malloc((size_t)weight->rows * weight->columns * sizeof(*values));

    assert_int_equal(out->shape[0], weight->rows);
    assert_int_equal(out->shape[1], weight->columns);
    weight_decode(weight, 0, weight->rows, values);
    for (uint32_t r = 0; r < weight->rows; r++)
        for (uint32_t c = 0; c < weight->columns; c++) {
            size_t at = (size_t)r * weight->columns + c;
            double exact;

            if (out->dtype == TENSOR_F64)
                memcpy(&exact, out->data + 8 * at, sizeof(exact));
            else
                exact = (double)floats(out)[at];
            assert_true(weight_value(weight, r, c) == exact);
            assert_same(values[at], (float)exact, out->name, at);
        }
    free(values);
}

/* Shares of rows and columns have the values of the whole, wherever they start in a block. */
static void check_shares(const weight_t *weight, uint32_t row_step, uint32_t column_step)
{
    for (uint32_t r = 0; r < weight->rows; r += row_step)
        for (uint32_t c = 0; c < weight->columns; c += column_step) {
            uint32_t rows = weight->rows - r < row_step ? weight->rows - r : row_step;
            uint32_t columns =
                weight->columns - c < column_step ? weight->columns - c : column_step;
            weight_t part = weight_rows(weight, r, rows);
            float *values = malloc(columns * sizeof(*values));

            part = weight_columns(&part, c, columns);
            for (uint32_t i = 0; i < rows; i++) {
                weight_decode(&part, i, 1, values);
                for (uint32_t j = 0; j < columns; j++) {
                    double exact = weight_value(weight, r + i, c + j);

                    assert_true(weight_value(&part, i, j) == exact);
                    assert_same(values[j], (float)exact, "share", j);
                }
            }
            free(values);
        }
}

static weight_t golden_weight(const char *stem, weight_form_t form, const char *scale_name)
{
    const tensor_view_t *data = tensor("%s/weight", stem);
    uint32_t packed = form == WEIGHT_MXFP4 || form == WEIGHT_NVFP4 ? 2 : 1;
    float second = form == WEIGHT_NVFP4 ? floats(tensor("%s/weight_scale_2", stem))[0] : 1;

    return weight_view(form, (uint32_t)data->shape[0], (uint32_t)data->shape[1] * packed,
                       data->data, tensor("%s/%s", stem, scale_name)->data, second);
}

static void test_weights_and_their_shares(void **state)
{
    static const struct {
        const char *stem, *scale;
        weight_form_t form;
    } rows[] = {
        {"fp8", "scale", WEIGHT_FP8_E8M0},       {"fp8_base", "scale", WEIGHT_FP8_F32},
        {"mxfp4", "scale", WEIGHT_MXFP4},        {"mxfp4_partial", "scale", WEIGHT_MXFP4},
        {"nvfp4", "weight_scale", WEIGHT_NVFP4},
    };

    (void)state;
    open_units("weights");
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        weight_t weight = golden_weight(rows[i].stem, rows[i].form, rows[i].scale);

        check_weight(&weight, tensor("%s/out", rows[i].stem));
        check_shares(&weight, 128, 64);
        check_shares(&weight, 37, 6);
        check_shares(&weight, 5, 50);
    }
    safetensors_close(&file);
}

static void test_mxfp4_becomes_fp8_without_loss(void **state)
{
    static const char *const stems[] = {"mxfp4", "mxfp4_partial"};
    uint8_t wide[32] = {0};

    (void)state;
    open_units("weights");
    for (size_t i = 0; i < COUNT_OF(stems); i++) {
        weight_t weight = golden_weight(stems[i], WEIGHT_MXFP4, "scale");
        uint8_t *codes = malloc((size_t)weight.rows * weight.columns), scales[4];
        bool exact;

        weight_mxfp4_to_fp8(&weight, codes, scales, &exact);
        assert_true(exact);
        assert_bytes(codes, tensor("%s/fp8_weight", stems[i]));
        assert_bytes(scales, tensor("%s/fp8_scale", stems[i]));
        free(codes);
    }
    safetensors_close(&file);

    /* One element 15 binades below the largest scale of its block is lost; 14 are not. */
    for (uint8_t binades = 13; binades < 17; binades++) {
        const uint8_t near[2] = {120, (uint8_t)(120 - binades)};
        uint8_t codes[64], scale;
        bool exact;
        weight_t weight;

        wide[16] = 1; /* element 32: 0.5 */
        weight = weight_view(WEIGHT_MXFP4, 1, 64, wide, near, 1);
        weight_mxfp4_to_fp8(&weight, codes, &scale, &exact);
        assert_int_equal(exact, binades <= 14);
    }
}

/* All levels of this machine, on values of every kind, at lengths around the widths of vectors. */
static void test_isa_levels_give_the_same_bits(void **state)
{
    enum { LENGTH = 160 };
    float in[LENGTH], out[2][4][LENGTH];
    uint8_t codes[2][3][LENGTH * 2], raw[LENGTH];
    isa_t best = isa_level();
    random_t random;

    (void)state;
    random_init(&random, 3);
    for (int round = 0; round < 300; round++) {
        size_t n = 2 * random_below(&random, LENGTH / 2) + 2;

        for (size_t i = 0; i < LENGTH; i++) {
            uint32_t bits = (uint32_t)random_next(&random);

            /* Half of them of sizes that the small formats hold. */
            in[i] = round % 2 ? math_of_bits(bits)
                              : (float)(random_unit(&random) - 0.5) * (round % 4 ? 1000 : 0.1f);
            raw[i] = (uint8_t)bits;
        }
        for (isa_t isa = ISA_SCALAR; isa <= best; isa++) {
            int side = isa != ISA_SCALAR;

            memset(out[side], 0, sizeof(out[side]));
            memset(codes[side], 0, sizeof(codes[side]));
            isa_cap_set(isa);
            format_bf16_encode_row(in, n, codes[side][0]);
            format_bf16_decode_row(raw, n / 2, out[side][0]);
            format_e4m3_decode_row(raw, n, 0.37f, out[side][1]);
            format_e2m1_decode_row(raw, n, 3.0f, out[side][2]);
            format_hadamard(in, 128, out[side][3]);
            format_fp8_blocks_encode(in, 128, 64, codes[side][1], codes[side][1] + 128);
            format_fp4_groups_encode(in, 128, codes[side][2], codes[side][2] + 128);
            assert_memory_equal(codes[0], codes[side], sizeof(codes[0]));
            for (size_t i = 0; i < sizeof(out[0]) / sizeof(float); i++)
                assert_same(out[side][i / LENGTH][i % LENGTH], out[0][i / LENGTH][i % LENGTH],
                            isa_name(isa), i);
        }
        isa_cap_set(ISA_AVX512);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_of_all_codes),
        cmocka_unit_test(test_encode_vectors),
        cmocka_unit_test(test_doubles_are_not_rounded_twice),
        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_hadamard),
        cmocka_unit_test(test_pages),
        cmocka_unit_test(test_weights_and_their_shares),
        cmocka_unit_test(test_mxfp4_becomes_fp8_without_loss),
        cmocka_unit_test(test_isa_levels_give_the_same_bits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include <setjmp.h>
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cache/digest.h"
#include "kernels/isa.h"
#include "runtime/base/random.h"
#include "tests/cache/configs.h"

enum { BYTES = 4096 + 7 };

static unsigned char *random_bytes(size_t bytes, uint64_t seed)
{
    unsigned char *data = malloc(bytes);

    for (size_t i = 0; i < bytes; i++)
        data[i] = (unsigned char)random_at(seed, i);
    return data;
}

static void test_value_is_the_documented_sum(void **state)
{
    const uint64_t words[3] = {1, UINT64_C(0xfedcba9876543210), 0};
    uint64_t sum = 0;

    (void)state;
    for (uint64_t i = 0; i < 3; i++)
        sum += random_mix(words[i] ^ ((i + 6) * UINT64_C(0x9e3779b97f4a7c15)));
    assert_int_equal(digest_bytes(words, sizeof(words), 5), sum);
    assert_int_equal(digest_bytes(words, 0, 5), 0);
}

static void test_every_instruction_set_gives_the_same_value(void **state)
{
    enum { LENGTHS = 200 };
    unsigned char *data = random_bytes(BYTES + 8, 3);
    uint64_t scalar[LENGTHS][8];

    (void)state;
    for (int level = ISA_SCALAR; level < ISA_COUNT; level++) {
        isa_cap_set((isa_t)level);
        if ((int)isa_level() != level)
            print_message("%s is not on this machine\n", isa_name((isa_t)level));
        for (size_t bytes = 0; bytes < LENGTHS; bytes++) {
            for (size_t shift = 0; shift < 8; shift++) {
                const uint64_t value = digest_bytes(data + shift, bytes, bytes * 7);

                if (level == ISA_SCALAR)
                    scalar[bytes][shift] = value;
                assert_int_equal(value, scalar[bytes][shift]);
            }
        }
    }
    isa_cap_set(ISA_AVX512);
    free(data);
}

static void test_pieces_in_any_order_add_up(void **state)
{
    unsigned char *data = random_bytes(BYTES, 4);
    const uint64_t whole = digest_bytes(data, BYTES, 0);
    random_t random;

    (void)state;
    random_init(&random, 5);
    for (int trial = 0; trial < 100; trial++) {
        const size_t a = 8 * random_below(&random, BYTES / 8);
        const size_t b = a + 8 * random_below(&random, (BYTES - a) / 8);
        uint64_t sum = digest_bytes(data + b, BYTES - b, b / 8);

        sum += digest_bytes(data, a, 0);
        sum += digest_bytes(data + a, b - a, a / 8);
        assert_int_equal(sum, whole);
    }
    free(data);
}

typedef struct {
    const unsigned char *data;
    size_t first, last;
    uint64_t sum;
} share_t;

static void *digest_share(void *context)
{
    share_t *share = context;

    share->sum =
        digest_bytes(share->data + share->first, share->last - share->first, share->first / 8);
    return NULL;
}

static void test_threads_give_the_same_value(void **state)
{
    unsigned char *data = random_bytes(BYTES, 6);
    share_t shares[3] = {{data, 0, 1000, 0}, {data, 1000, 3000, 0}, {data, 3000, BYTES, 0}};
    pthread_t threads[3];
    uint64_t sum = 0;

    (void)state;
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, digest_share, &shares[i]), 0);
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
        sum += shares[i].sum;
    }
    assert_int_equal(sum, digest_bytes(data, BYTES, 0));
    free(data);
}

static void test_any_flipped_bit_and_any_swap_shows(void **state)
{
    enum { SMALL = 8 * 24 };
    unsigned char *data = random_bytes(SMALL, 7), word[8];
    const uint64_t whole = digest_bytes(data, SMALL, 0);

    (void)state;
    for (int bit = 0; bit < SMALL * 8; bit++) {
        data[bit / 8] ^= (unsigned char)(1 << bit % 8);
        assert_int_not_equal(digest_bytes(data, SMALL, 0), whole);
        data[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    for (int a = 0; a < SMALL; a += 8) {
        for (int b = a + 8; b < SMALL; b += 8) {
            memcpy(word, data + a, 8);
            memcpy(data + a, data + b, 8);
            memcpy(data + b, word, 8);
            assert_int_not_equal(digest_bytes(data, SMALL, 0), whole);
            memcpy(data + b, data + a, 8);
            memcpy(data + a, word, 8);
        }
    }
    assert_int_not_equal(digest_bytes(data, SMALL, 1), whole); /* the same bytes elsewhere */
    free(data);
}

/* Offsets of a unit's bytes that are in no digest. */
static void test_padding_is_in_no_digest_and_every_other_byte_is(void **state)
{
    const uint32_t counts[UNIT_COUNT] = {2, 2, 2};
    static const uint16_t ratios[] = {4, 128};
    geometry_config_t config = config_make(2, ratios, 512);
    geometry_t g = geometry_make(&config);
    layout_t layout;
    unsigned char *memory;

    (void)state;
    assert_int_equal(layout_init(&layout, &g, LAYOUT_LAYER_FIRST, counts), STATUS_OK);
    memory = aligned_alloc(GEOMETRY_ALIGN, layout.bytes);
    memset(memory, 0, layout.bytes);
    for (int kind = 0; kind < POOL_COUNT; kind++) {
        const geometry_pool_t *pool = &g.pools[kind];
        const unit_t unit = {pool->unit, 1};
        const uint64_t digest = digest_unit(&g, &layout, memory, unit);
        const uint32_t places[] = {0, pool->rows * pool->data_bytes - 1, pool->raw_bytes - 1,
                                   pool->raw_bytes, pool->stride - 1};

        for (uint32_t index = 0; index < pool->layer_count; index++) {
            unsigned char *part = memory + layout_offset(&layout, &g, (pool_kind_t)kind, index, 1);

            for (size_t i = 0; i < COUNT_OF(places); i++) {
                if (places[i] >= pool->stride)
                    continue; /* a part without padding */
                part[places[i]] = 1;
                assert_int_equal(digest_unit(&g, &layout, memory, unit) == digest,
                                 places[i] >= pool->raw_bytes);
                part[places[i]] = 0;
            }
        }
    }
    free(memory);
}

static void test_open_page_covers_closed_rows_only(void **state)
{
    const uint32_t counts[UNIT_COUNT] = {2, 1, 1};
    geometry_config_t config = config_tiny();
    geometry_t g = geometry_make(&config);
    layout_t layout;
    layout_view_t view;
    unsigned char *memory;
    uint64_t before;

    (void)state;
    assert_int_equal(layout_init(&layout, &g, LAYOUT_LAYER_FIRST, counts), STATUS_OK);
    memory = random_bytes(layout.bytes, 9);
    assert_int_equal(digest_page_open(&g, &layout, memory, page_at(1), 3), 0);
    assert_int_equal(digest_page_open(&g, &layout, memory, page_at(1), PAGE_TOKENS),
                     digest_unit(&g, &layout, memory, unit_page(page_at(1))));
    before = digest_page_open(&g, &layout, memory, page_at(1), 43);
    view = layout_view(&layout, &g, memory, POOL_C4, 1);
    view_data(&view, 1, 10)[0] ^= 1; /* positions 40..43: still open */
    view_scale(&view, 1, 10)[0] ^= 1;
    assert_int_equal(digest_page_open(&g, &layout, memory, page_at(1), 43), before);
    view_scale(&view, 1, 9)[0] ^= 1;
    assert_int_not_equal(digest_page_open(&g, &layout, memory, page_at(1), 43), before);
    free(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_value_is_the_documented_sum),
        cmocka_unit_test(test_every_instruction_set_gives_the_same_value),
        cmocka_unit_test(test_pieces_in_any_order_add_up),
        cmocka_unit_test(test_threads_give_the_same_value),
        cmocka_unit_test(test_any_flipped_bit_and_any_swap_shows),
        cmocka_unit_test(test_padding_is_in_no_digest_and_every_other_byte_is),
        cmocka_unit_test(test_open_page_covers_closed_rows_only),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

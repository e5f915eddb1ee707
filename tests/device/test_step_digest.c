/* test_step_digest.c - two words name the one item in which ranks differ. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "device/step_digest.h"
#include "runtime/base/limits.h"

enum { SEQ = 42, STRIDE = 13 };

/* A step of which each item drew a token, closed a unit and left a state; `wrong` did otherwise. */
static step_digest_t step_of(uint32_t item_count, uint32_t wrong)
{
    step_digest_t digest = step_digest_begin(SEQ);

    for (uint32_t i = 0; i < item_count; i++) {
        step_digest_add(&digest, i, STEP_DIGEST_TOKEN, i % 7, 100 + (i == wrong));
        step_digest_add(&digest, i, STEP_DIGEST_UNIT, i, 5);
        step_digest_add(&digest, i, STEP_DIGEST_STATE, i * 3, 9);
    }
    return digest;
}

static void test_one_item_is_found_wherever_it_stands(void **state)
{
    const step_digest_t right = step_of(STEP_ITEMS_MAX, UINT32_MAX);

    (void)state;
    for (uint32_t wrong = 0; wrong < STEP_ITEMS_MAX; wrong += STRIDE) {
        const step_digest_t other = step_of(STEP_ITEMS_MAX, wrong);

        assert_true(right.sum != other.sum);
        assert_int_equal(step_digest_item(right, other, STEP_ITEMS_MAX), wrong);
        assert_int_equal(step_digest_item(other, right, STEP_ITEMS_MAX), wrong);
    }
}

static void test_several_items_are_not_taken_for_one(void **state)
{
    const step_digest_t right = step_of(STEP_ITEMS_MAX, UINT32_MAX);

    (void)state;
    for (uint32_t wrong = 0; wrong + 1 < STEP_ITEMS_MAX; wrong += STRIDE) {
        step_digest_t other = step_of(STEP_ITEMS_MAX, wrong);

        step_digest_add(&other, wrong + 1, STEP_DIGEST_TOKEN, 0, 0);
        assert_int_equal(step_digest_item(right, other, STEP_ITEMS_MAX), STEP_DIGEST_SEVERAL);
    }
}

static void test_nothing_cancels_and_order_does_not_count(void **state)
{
    step_digest_t a = step_digest_begin(SEQ), b = step_digest_begin(SEQ);
    const step_digest_t next = step_digest_begin(SEQ + 1);

    (void)state;
    assert_true(a.sum != next.sum);
    step_digest_add(&a, 0, STEP_DIGEST_TOKEN, 1, 2);
    step_digest_add(&a, 1, STEP_DIGEST_TOKEN, 3, 4);
    step_digest_add(&b, 1, STEP_DIGEST_TOKEN, 3, 4);
    step_digest_add(&b, 0, STEP_DIGEST_TOKEN, 1, 2);
    assert_true(a.sum == b.sum && a.weighted == b.weighted);
    b = step_digest_begin(SEQ); /* the same words in each other's place */
    step_digest_add(&b, 0, STEP_DIGEST_TOKEN, 3, 4);
    step_digest_add(&b, 1, STEP_DIGEST_TOKEN, 1, 2);
    assert_true(a.sum != b.sum);
    b = step_digest_begin(SEQ); /* the same numbers as something else */
    step_digest_add(&b, 0, STEP_DIGEST_STATE, 1, 2);
    step_digest_add(&b, 1, STEP_DIGEST_TOKEN, 3, 4);
    assert_true(a.sum != b.sum);
    assert_int_equal(step_digest_item(a, b, 2), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_item_is_found_wherever_it_stands),
        cmocka_unit_test(test_several_items_are_not_taken_for_one),
        cmocka_unit_test(test_nothing_cancels_and_order_does_not_count),
    };
    return cmocka_run_group_tests_name("digest", tests, NULL, NULL);
}

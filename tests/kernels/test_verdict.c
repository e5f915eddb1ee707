/* test_verdict.c - two words name the one item in which ranks differ. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kernels/verdict.h"
#include "runtime/base/limits.h"

enum { SEQ = 42, STRIDE = 13 };

/* A step of which each item drew a token, closed a unit and left a state; `wrong` did otherwise. */
static verdict_t step_of(uint32_t item_count, uint32_t wrong)
{
    verdict_t verdict = verdict_begin(SEQ);

    for (uint32_t i = 0; i < item_count; i++) {
        verdict_add(&verdict, i, VERDICT_TOKEN, i % 7, 100 + (i == wrong));
        verdict_add(&verdict, i, VERDICT_UNIT, i, 5);
        verdict_add(&verdict, i, VERDICT_STATE, i * 3, 9);
    }
    return verdict;
}

static void test_one_item_is_found_wherever_it_stands(void **state)
{
    const verdict_t right = step_of(STEP_ITEMS_MAX, UINT32_MAX);

    (void)state;
    for (uint32_t wrong = 0; wrong < STEP_ITEMS_MAX; wrong += STRIDE) {
        const verdict_t other = step_of(STEP_ITEMS_MAX, wrong);

        assert_true(right.sum != other.sum);
        assert_int_equal(verdict_item(right, other, STEP_ITEMS_MAX), wrong);
        assert_int_equal(verdict_item(other, right, STEP_ITEMS_MAX), wrong);
    }
}

static void test_several_items_are_not_taken_for_one(void **state)
{
    const verdict_t right = step_of(STEP_ITEMS_MAX, UINT32_MAX);

    (void)state;
    for (uint32_t wrong = 0; wrong + 1 < STEP_ITEMS_MAX; wrong += STRIDE) {
        verdict_t other = step_of(STEP_ITEMS_MAX, wrong);

        verdict_add(&other, wrong + 1, VERDICT_TOKEN, 0, 0);
        assert_int_equal(verdict_item(right, other, STEP_ITEMS_MAX), VERDICT_SEVERAL);
    }
}

static void test_nothing_cancels_and_order_does_not_count(void **state)
{
    verdict_t a = verdict_begin(SEQ), b = verdict_begin(SEQ), next = verdict_begin(SEQ + 1);

    (void)state;
    assert_true(a.sum != next.sum);
    verdict_add(&a, 0, VERDICT_TOKEN, 1, 2);
    verdict_add(&a, 1, VERDICT_TOKEN, 3, 4);
    verdict_add(&b, 1, VERDICT_TOKEN, 3, 4);
    verdict_add(&b, 0, VERDICT_TOKEN, 1, 2);
    assert_true(a.sum == b.sum && a.weighted == b.weighted);
    b = verdict_begin(SEQ); /* the same words in each other's place */
    verdict_add(&b, 0, VERDICT_TOKEN, 3, 4);
    verdict_add(&b, 1, VERDICT_TOKEN, 1, 2);
    assert_true(a.sum != b.sum);
    b = verdict_begin(SEQ); /* the same numbers as something else */
    verdict_add(&b, 0, VERDICT_STATE, 1, 2);
    verdict_add(&b, 1, VERDICT_TOKEN, 3, 4);
    assert_true(a.sum != b.sum);
    assert_int_equal(verdict_item(a, b, 2), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_item_is_found_wherever_it_stands),
        cmocka_unit_test(test_several_items_are_not_taken_for_one),
        cmocka_unit_test(test_nothing_cancels_and_order_does_not_count),
    };
    return cmocka_run_group_tests_name("verdict", tests, NULL, NULL);
}

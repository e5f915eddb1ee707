/* Plants have names, and none of them is in this binary. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/base/plant.h"

static void test_every_name_is_found_in_both_spellings(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < PLANT_COUNT; i++) {
        char name[64];
        plant_t plant = PLANT_COUNT;

        snprintf(name, sizeof(name), "%s", plant_name((plant_t)i));
        assert_null(strchr(name, '_'));
        assert_true(plant_parse(name, &plant));
        assert_int_equal(plant, i);
        assert_non_null(plant_text(plant));
    }
    assert_true(plant_parse("early_return", &(plant_t){0}));
    assert_false(plant_parse("early", &(plant_t){0}));
}

static void test_the_product_holds_no_plant(void **state)
{
    (void)state;
    assert_false(plant_is_built());
    assert_false(PLANTED(early_return));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_name_is_found_in_both_spellings),
        cmocka_unit_test(test_the_product_holds_no_plant),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

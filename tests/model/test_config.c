#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "model/config.h"

static void test_flash_has_the_schedule_of_the_release(void **state)
{
    model_config_t config;
    uint32_t of_4 = 0, of_128 = 0;

    (void)state;
    assert_int_equal(model_config_load("topology/examples/flash", &config), STATUS_OK);
    for (uint32_t i = 0; i < config.layer_count; i++) {
        of_4 += config.layers[i].ratio == 4;
        of_128 += config.layers[i].ratio == 128;
        assert_int_equal(config.layers[i].hash, i < 3);
    }
    assert_int_equal(config.layer_count, 43);
    assert_int_equal(of_4, 21);
    assert_int_equal(of_128, 20);
    assert_int_equal(config.mtp_count, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flash_has_the_schedule_of_the_release),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

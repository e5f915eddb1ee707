#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/weights.h"

static const char *const golden_models[] = {
    "swa", "swa/base", "swa/nvfp4", "swa/hf", "csa", "csa/hf", "hca", "full", "pro", "odd",
};

static const char *golden(const char *model)
{
    static char path[PATH_BYTES_MAX];
    const char *root = getenv("LOCKSTEP_GOLDEN");

    snprintf(path, sizeof(path), "%s/numbers/%s", root ? root : "tests/golden", model);
    return path;
}

static void open_golden(const char *model, model_config_t *config, weights_t *weights)
{
    if (model_config_load(golden(model), config) != STATUS_OK ||
        weights_open(weights, golden(model), config) != STATUS_OK)
        fail_msg("%s: %s", model, trail_text());
}

static void test_every_golden_model_opens(void **state)
{
    model_config_t config;
    weights_t weights;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(golden_models); i++) {
        open_golden(golden_models[i], &config, &weights);
        assert_int_equal(weights.layer_count, config.layer_count);
        weights_close(&weights);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_golden_model_opens),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

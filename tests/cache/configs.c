#include "tests/cache/configs.h"

#include <string.h>

geometry_config_t config_make(uint32_t layers, const uint16_t *ratios, uint32_t head_dim)
{
    geometry_config_t config;

    geometry_config_init(&config);
    config.layers = layers;
    memcpy(config.ratios, ratios, layers * sizeof(ratios[0]));
    config.head_dim = head_dim;
    config.rope_dim = 64;
    config.index_head_dim = 128;
    return config;
}

geometry_config_t config_flash(void)
{
    uint16_t ratios[43] = {0, 0};
    geometry_config_t config;

    for (int i = 2; i < 43; i++)
        ratios[i] = i % 2 == 0 ? 4 : 128;
    config = config_make(43, ratios, 512);
    config.index_form = FORM_FP8_ROW;
    return config;
}

geometry_config_t config_tiny(void)
{
    static const uint16_t ratios[] = {0, 4, 128, 4};

    return config_make(4, ratios, 128);
}

geometry_t geometry_make(const geometry_config_t *config)
{
    geometry_t g;

    ASSERT(geometry_init(&g, config) == STATUS_OK);
    return g;
}

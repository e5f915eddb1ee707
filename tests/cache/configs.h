/* configs.h - model shapes that the cache tests share: full Flash, the tiny model, the golden
 * models. */
#ifndef TESTS_CACHE_CONFIGS_H
#define TESTS_CACHE_CONFIGS_H

#include "cache/geometry.h"

/* 43 layers: 0, 0, 4, 128, 4, ... 4 */
geometry_config_t config_flash(void);
/* Any other shape; `ratios` has `layers` numbers. */
geometry_config_t config_make(uint32_t layers, const uint16_t *ratios, uint32_t head_dim);
/* ratios 0 4 128 4, heads of 128 */
geometry_config_t config_tiny(void);
/* A geometry that must be right; fails the test otherwise. */
geometry_t geometry_make(const geometry_config_t *config);

#endif

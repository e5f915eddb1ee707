#include "runtime/base/plant.h"

#include <stdint.h>
#include <string.h>

#include "runtime/base/check.h"

enum { NAME_BYTES_MAX = 32 };

static const char *const names[] = {
#define PLANT_NAME(name, text) #name,
    PLANT_TABLE(PLANT_NAME)
#undef PLANT_NAME
};
static const char *const texts[] = {
#define PLANT_TEXT(name, text) text,
    PLANT_TABLE(PLANT_TEXT)
#undef PLANT_TEXT
};

static plant_t planted = PLANT_none;

void plant_set(plant_t plant)
{
    ASSERT(plant_is_built() || !plant_is_code(plant));
    planted = plant;
}

bool plant_is_set(plant_t plant)
{
    return planted == plant;
}

bool plant_is_code(plant_t plant)
{
    return plant > PLANT_wrong_token;
}

bool plant_is_built(void)
{
#ifdef LOCKSTEP_PLANTS
    return true;
#else
    return false;
#endif
}

const char *plant_name(plant_t plant)
{
    static char name[NAME_BYTES_MAX];
    size_t i = 0;

    ASSERT(plant < PLANT_COUNT && strlen(names[plant]) < sizeof(name));
    do
        name[i] = (char)(names[plant][i] == '_' ? '-' : names[plant][i]);
    while (names[plant][i++]);
    return name;
}

bool plant_parse(const char *text, plant_t *plant)
{
    for (uint32_t i = 0; i < PLANT_COUNT; i++) {
        if (strcmp(text, plant_name((plant_t)i)) == 0 || strcmp(text, names[i]) == 0) {
            *plant = (plant_t)i;
            return true;
        }
    }
    return false;
}

const char *plant_text(plant_t plant)
{
    return texts[plant];
}

/* values.c - single values of a topology file: numbers with units, near words, descriptions. */
#include "topology/schema.h"

#include <string.h>

typedef struct {
    const char *word;
    uint64_t factor;
} unit_t;

/* Largest first; of equal ones the first is written. */
static const unit_t byte_units[] = {
    {"TiB", 1ull << 40},   {"TB", 1000000000000ull}, {"GiB", 1ull << 30},
    {"GB", 1000000000ull}, {"MiB", 1ull << 20},      {"MB", 1000000ull},
    {"KiB", 1ull << 10},   {"KB", 1000ull},          {"B", 1},
};
static const unit_t duration_units[] = {
    {"h", 3600000},
    {"m", 60000},
    {"s", 1000},
    {"ms", 1},
};
static const unit_t plain_units[] = {{"", 1}};

static const unit_t *units_of(schema_type_t type, size_t *count)
{
    if (type == SCHEMA_BYTES) {
        *count = COUNT_OF(byte_units);
        return byte_units;
    }
    if (type == SCHEMA_DURATION) {
        *count = COUNT_OF(duration_units);
        return duration_units;
    }
    *count = 1;
    return plain_units;
}

bool schema_parse_number(const char *text, schema_type_t type, uint64_t *value)
{
    uint64_t number = 0;
    size_t digits = 0;
    for (; text[digits] >= '0' && text[digits] <= '9'; digits++) {
        uint64_t digit = (uint64_t)(text[digits] - '0');
        if (number > (UINT64_MAX - digit) / 10)
            return false;
        number = 10 * number + digit;
    }
    if (digits == 0 || (digits > 1 && text[0] == '0')) /* 010 is eight to some readers */
        return false;
    const char *unit = text + digits;
    while (*unit == ' ' && type != SCHEMA_NUMBER)
        unit++;
    size_t count;
    const unit_t *units = units_of(type, &count);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(unit, units[i].word) != 0)
            continue;
        if (number > UINT64_MAX / units[i].factor)
            return false;
        *value = number * units[i].factor;
        return true;
    }
    if (number == 0 && *unit == '\0') { /* zero needs no unit */
        *value = 0;
        return true;
    }
    return false;
}

void schema_format_number(uint64_t value, schema_type_t type, char *text, size_t size)
{
    size_t count;
    const unit_t *units = units_of(type, &count);
    if (value == 0)
        snprintf(text, size, "0");
    for (size_t i = 0; value > 0 && i < count; i++) {
        if (value % units[i].factor == 0) {
            snprintf(text, size, "%llu%s", (unsigned long long)(value / units[i].factor),
                     units[i].word);
            return;
        }
    }
}

enum { NEAREST_LETTERS_MAX = 40 };

/* Letters to change, add, drop or swap with the next (optimal string alignment). */
static size_t distance(const char *a, const char *b)
{
    size_t rows = strlen(a), columns = strlen(b);
    size_t d[NEAREST_LETTERS_MAX + 1][NEAREST_LETTERS_MAX + 1];
    if (rows > NEAREST_LETTERS_MAX || columns > NEAREST_LETTERS_MAX)
        return SIZE_MAX;
    for (size_t i = 0; i <= rows; i++)
        d[i][0] = i;
    for (size_t j = 0; j <= columns; j++)
        d[0][j] = j;
    for (size_t i = 1; i <= rows; i++) {
        for (size_t j = 1; j <= columns; j++) {
            size_t best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            if (d[i - 1][j] + 1 < best)
                best = d[i - 1][j] + 1;
            if (d[i][j - 1] + 1 < best)
                best = d[i][j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                d[i - 2][j - 2] + 1 < best)
                best = d[i - 2][j - 2] + 1;
            d[i][j] = best;
        }
    }
    return d[rows][columns];
}

/* "index_form" is no typo of "index", but one begins with the other, or else ends with it: how many
 * letters that is worse than equal, 0 for not at all. Any typo is nearer. */
static size_t part_distance(const char *text, const char *word)
{
    size_t text_length = strlen(text), word_length = strlen(word);
    size_t longer = text_length > word_length ? text_length : word_length;
    size_t shorter = text_length < word_length ? text_length : word_length;
    if (shorter < 4)
        return 0;
    if (strncmp(text, word, shorter) == 0)
        return longer;
    return strcmp(text + text_length - shorter, word + word_length - shorter) ? 0 : longer + 1;
}

const char *schema_nearest(const char *text, const char *const *words, size_t count)
{
    const char *nearest = NULL;
    size_t nearest_distance = SIZE_MAX;
    for (size_t i = 0; i < count; i++) {
        if (!words[i])
            continue;
        size_t d = distance(text, words[i]);
        size_t letters = strlen(words[i]) > strlen(text) ? strlen(words[i]) : strlen(text);
        bool near = d != SIZE_MAX && (3 * d <= letters || (letters <= 4 && d <= 1));
        if (!near) {
            d = part_distance(text, words[i]);
            near = d > 0;
        }
        if (near && d < nearest_distance) {
            nearest_distance = d;
            nearest = words[i];
        }
    }
    return nearest;
}

static void describe_choices(const schema_key_t *key, char *text, size_t size)
{
    size_t used = 0;
    for (size_t i = 0; key->choices[i] && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s",
                                 i == 0                ? ""
                                 : key->choices[i + 1] ? ", "
                                                       : " or ",
                                 key->choices[i]);
}

void schema_describe(const schema_key_t *key, char *text, size_t size)
{
    static const char *const kinds[] = {
        [SCHEMA_NUMBER] = "a number",
        [SCHEMA_BYTES] = "bytes with a unit",
        [SCHEMA_DURATION] = "a time with a unit",
        [SCHEMA_NAME] = "a name of letters, digits, '-', '_' and '.'",
        [SCHEMA_TEXT] = "text",
        [SCHEMA_ADDRESS] = "an IP address or host name",
        [SCHEMA_LISTEN] = "an IPv4 address or localhost",
        [SCHEMA_CHOICE] = "a word",
        [SCHEMA_HOST] = "the name of a host",
        [SCHEMA_DEVICES] = "a list of device numbers",
        [SCHEMA_WORDS] = "a list of words",
        [SCHEMA_MAP] = "a map",
        [SCHEMA_LIST] = "a list of maps",
    };
    char min[32], max[32];
    schema_format_number(key->min, key->type, min, sizeof(min));
    schema_format_number(key->max, key->type, max, sizeof(max));
    const char *or_zero = key->zero ? ", or " : "";
    const char *zero = key->zero ? key->zero : "";
    if (key->type == SCHEMA_CHOICE)
        describe_choices(key, text, size);
    else if (key->type == SCHEMA_NUMBER && key->min == key->max)
        snprintf(text, size, "%s", min);
    else if (key->type <= SCHEMA_DURATION)
        snprintf(text, size, "%s from %s to %s%s%s", kinds[key->type], min, max, or_zero, zero);
    else
        snprintf(text, size, "%s", kinds[key->type]);
}

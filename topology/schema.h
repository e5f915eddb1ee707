/* schema.h - the keys of a topology file: one table drives parsing, printing and docs/topology.md.
 *
 * A key is a row: name, type, range, default, where it goes, what it means. Adding a key is adding
 * a row in schema.c and a field in topology.h; parser, canonical form, version digest and
 * documentation follow.
 */
#ifndef TOPOLOGY_SCHEMA_H
#define TOPOLOGY_SCHEMA_H

#include <stddef.h>

#include "topology/topology.h"

typedef enum {
    SCHEMA_NUMBER,   /* min..max */
    SCHEMA_BYTES,    /* number and unit: 8GiB, 512MB */
    SCHEMA_DURATION, /* number and unit: 500ms, 30s, 5m, 1h; kept in milliseconds */
    SCHEMA_NAME,     /* letters, digits, '-', '_', '.'; begins with a letter or digit */
    SCHEMA_TEXT,     /* any line */
    SCHEMA_ADDRESS,  /* IPv4 or IPv6 address or host name */
    SCHEMA_LISTEN,   /* IPv4 address, or localhost, which is kept as 127.0.0.1 */
    SCHEMA_CHOICE,   /* one of choices */
    SCHEMA_HOST,     /* name of a host */
    SCHEMA_DEVICES,  /* list of device numbers, one for each rank */
    SCHEMA_WORDS,    /* list of words without spaces, kept as one text with spaces between */
    SCHEMA_MAP,      /* keys of `section`; fields of the same struct */
    SCHEMA_LIST      /* list of maps with keys of `section` */
} schema_type_t;

typedef struct schema_section schema_section_t;

typedef struct {
    const char *name;
    schema_type_t type;
    uint32_t offset;      /* of the field in the section's struct */
    uint32_t width;       /* bytes of the field, of a list: of one entry; 0: checked but not kept */
    uint32_t count;       /* lists: offset of the uint16_t that counts the entries */
    uint64_t min, max;    /* lists: of entries */
    const char *zero;     /* word that stands for 0: "auto", "none"; NULL: there is none */
    const char *standard; /* the default as it would be written; NULL: the key must be there */
    const char *derived;  /* instead of a default: where the value comes from */
    const char *const *choices; /* ends with NULL */
    const schema_section_t *section;
    const char *meaning;
} schema_key_t;

struct schema_section {
    const char *name;    /* "" is the file itself */
    const char *meaning; /* one line for the documentation */
    const schema_key_t *keys;
    size_t key_count;
};

extern const schema_section_t schema_root;
/* All sections in the order of the documentation, the root first. */
extern const schema_section_t *const schema_sections[];
extern const size_t schema_section_count;

/* ---- values (values.c) ------------------------------------------------------------------------ */

/* Digits and, for BYTES and DURATION, a unit. False if the text is no such thing or overflows. */
bool schema_parse_number(const char *text, schema_type_t type, uint64_t *value);
/* The shortest exact spelling, e.g. "8GiB". */
void schema_format_number(uint64_t value, schema_type_t type, char *text, size_t size);
/* The word of `words` (`count`, NULL ones are passed over) that is nearest to `text`, or NULL if
 * none is near: at most a third of its letters differ. */
const char *schema_nearest(const char *text, const char *const *words, size_t count);
/* "a number from 1 to 64" and so on. */
void schema_describe(const schema_key_t *key, char *text, size_t size);

#endif

/* json_scan.h - reads JSON of a known form in place, without building a tree.
 *
 * For headers of checkpoints: they are foreign and may be large, and a tree of them takes many
 * times their size. Every call skips white space first. A call that fails leaves the reason and the
 * place in the scanner; every later call fails too, so a chain can be checked once at its end.
 * Nothing here allocates or recurses.
 */
#ifndef MODEL_JSON_SCAN_H
#define MODEL_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { JSON_SCAN_DEPTH_MAX = 64 };

typedef struct {
    const char *text;
    size_t size;
    size_t at;
    const char *error; /* NULL while all is well */
} json_scan_t;

/* Bytes between the quotes, as they stand in the text. */
typedef struct {
    const char *bytes;
    size_t size;
    bool escaped; /* holds a backslash */
} json_string_view_t;

void json_scan_init(json_scan_t *scan, const char *text, size_t size);
/* Sets the error, with `at` where it is, unless there is one already. Returns false. */
bool json_scan_fail(json_scan_t *scan, const char *error);

/* Whether the next byte is `c`; takes nothing. */
bool json_scan_sees(json_scan_t *scan, char c);
/* Takes `c`, or fails. */
bool json_scan_take(json_scan_t *scan, char c);
/* Takes a comma if there is one: `while (more)` loops over lists and members. Takes `close` and
 * returns false otherwise, or fails. */
bool json_scan_more(json_scan_t *scan, char close);
bool json_scan_string(json_scan_t *scan, json_string_view_t *string);
/* A string and the colon behind it. */
bool json_scan_key(json_scan_t *scan, json_string_view_t *key);
/* A whole number without sign, point or exponent. */
bool json_scan_u64(json_scan_t *scan, uint64_t *value);
/* Any value. Nesting up to JSON_SCAN_DEPTH_MAX; scalars are not looked at closely. */
bool json_scan_skip(json_scan_t *scan);
/* Nothing but white space is left. */
bool json_scan_end(json_scan_t *scan);

bool json_string_is(const json_string_view_t *string, const char *text);
/* Printable ASCII without escapes, not empty, below `room` bytes. */
bool json_string_plain(const json_string_view_t *string, size_t room);

#endif

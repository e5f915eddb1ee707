/* golden.h - golden files for the tests of this folder: found, read, counted. */
#ifndef TESTS_MODEL_GOLDEN_H
#define TESTS_MODEL_GOLDEN_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* The JSON at `name` in the golden folder (LOCKSTEP_GOLDEN, else tests/golden). Fails the test if
 * it cannot. */
json_t *golden_load(const char *name);
/* The bytes of the same file, allocated. */
char *golden_read(const char *name, size_t *length);
/* Text of a key with its length; fails the test if there is none. */
const char *golden_text(const json_t *object, const char *key, size_t *length);
/* One object per line of a .jsonl file; returns false at the end. Opens at the first call, *file
 * NULL. */
bool golden_line(FILE **file, const char *path, json_t **object);

#endif

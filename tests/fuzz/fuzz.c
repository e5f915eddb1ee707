/* fuzz.c - a variant is the seed after one to four small accidents: a bit, a byte, a cut, a piece
 * doubled or taken out, or one of the words below put over or into it. The words are what parsers
 * trip over: huge and odd numbers, brackets without end, half characters, aliases, control marks. */
#include "tests/fuzz/fuzz.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/base/check.h"
#include "runtime/base/random.h"

enum { GROWTH_MAX = 4096, ACCIDENTS_MAX = 4, PIECE_MAX = 512 };

static const char *const words[] = {
    "18446744073709551615",
    "18446744073709551616",
    "-9223372036854775808",
    "4294967296",
    "-1",
    "0",
    "1e999",
    "-0.0",
    "NaN",
    "null",
    "true",
    "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
    "{\"a\":{\"a\":{\"a\":",
    "\"",
    "\\ud800",
    "\\u0000",
    "\\",
    "\xff\xfe",
    "\xf4\x90\x80\x80",
    "\xc3",
    "\xef\xbf\xbd",
    "\n",
    ": ",
    "- ",
    "&a [*a, *a]",
    "<<: *a",
    "!!binary",
    "---\n",
    "..",
    "/",
    "%s%n",
    "</think>",
    "<\xef\xbd\x9c\x44SML\xef\xbd\x9ctool_calls>",
    "</\xef\xbd\x9c\x44SML\xef\xbd\x9cparameter>",
};

static size_t accident(random_t *random, char *text, size_t size, size_t room)
{
    size_t at = (size_t)random_below(random, size + 1);
    const char *word = words[random_below(random, COUNT_OF(words))];
    size_t length = strlen(word);
    size_t piece = (size_t)random_below(random, PIECE_MAX) + 1;

    if (piece > size - at)
        piece = size - at;
    switch (random_below(random, 7)) {
    case 0: /* a bit */
        if (at < size)
            text[at] = (char)(text[at] ^ (1 << random_below(random, 8)));
        return size;
    case 1: /* a byte */
        if (at < size)
            text[at] = (char)random_below(random, 256);
        return size;
    case 2: /* a cut */
        return random_below(random, 4) ? size : at;
    case 3: /* a piece taken out */
        memmove(text + at, text + at + piece, size - at - piece);
        return size - piece;
    case 4: /* a piece doubled */
        if (size + piece > room)
            return size;
        memmove(text + at + piece, text + at, size - at);
        return size + piece;
    case 5: /* a word over what is there */
        memcpy(text + at, word, length < size - at ? length : size - at);
        return size;
    default: /* a word between */
        if (size + length > room)
            return size;
        memmove(text + at + length, text + at, size - at);
        memcpy(text + at, word, length);
        return size + length;
    }
}

void fuzz_run(const char *name, const char *seed, size_t seed_bytes, uint32_t rounds,
              fuzz_target_t *target, void *context)
{
    size_t room = seed_bytes + GROWTH_MAX;
    char *text = malloc(room);
    bool trace = getenv("LOCKSTEP_FUZZ_TRACE") != NULL;

    assert_non_null(text);
    if (getenv("LOCKSTEP_LONG"))
        rounds *= 20;
    for (uint32_t round = 0; round <= rounds; round++) {
        random_t random;
        size_t size = seed_bytes;
        char *exact;

        random_init(&random, round);
        memcpy(text, seed, seed_bytes);
        for (uint64_t n = round ? random_below(&random, ACCIDENTS_MAX) + 1 : 0; n > 0; n--)
            size = accident(&random, text, size, room);
        exact = malloc(size ? size : 1); /* so that AddressSanitizer sees a read behind the end */
        assert_non_null(exact);
        memcpy(exact, text, size);
        if (trace)
            print_message("%s: variant %u of %zu bytes\n", name, round, size);
        target(context, exact, size);
        free(exact);
    }
    print_message("%s: %u variants\n", name, rounds);
    free(text);
}

char *fuzz_read(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    char *text;
    long size;

    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    size = ftell(file);
    assert_true(size >= 0);
    rewind(file);
    text = malloc((size_t)size + 1);
    assert_non_null(text);
    *bytes = fread(text, 1, (size_t)size, file);
    assert_int_equal(*bytes, size);
    text[size] = '\0';
    fclose(file);
    return text;
}

/* codec.h - what can be done with any message, by loops over its field descriptors.
 *
 * On the wire a body is a msgpack array of its fields in the order of the row, a nested record an
 * array inside it. A decoder takes missing trailing fields as zero and skips further ones, so rows
 * may grow at their end. Arrays of numbers are msgpack bin, little endian, whatever the host.
 * Floats travel by their bits and compare by them: NaN is let through, since dropping a STEP_DONE
 * for one bad logprob would turn a wrong number into a hang; whoever takes numbers from people
 * checks their range at his door. Text is for people: an encoder cuts it at its limit and replaces
 * bytes that are no UTF-8 or NUL by '?', a decoder refuses both. Nothing here allocates.
 */
#ifndef RUNTIME_CODEC_H
#define RUNTIME_CODEC_H

#include "runtime/base/arena.h"
#include "runtime/base/random.h"
#include "runtime/base/status.h"
#include "runtime/message.h"

/* STATUS_TOO_LARGE if it does not fit `size`. A view of anything but text that is longer than its
 * limit is a programmer error (ASSERT). */
MUST_USE status_t codec_encode(const message_row_t *row, const void *body, uint8_t *bytes,
                               size_t size, size_t *used);

/* Decodes one body that fills `bytes` into a zeroed struct in `arena`. Numbers of views are copied
 * there, bytes and text stay views of `bytes`. STATUS_MALFORMED names the field; STATUS_TOO_LARGE:
 * the arena is too small. */
MUST_USE status_t codec_decode(const message_row_t *row, const uint8_t *bytes, size_t size,
                               arena_t *arena, const void **body);

/* Sets every token id in one encoded body to zero, in place and in as many bytes: for what must not
 * hold anybody's text. STATUS_MALFORMED, and any of it may be left, if it is no such body, or has
 * fields behind those of this row, which may hold anything. */
MUST_USE status_t codec_blank_tokens(const message_row_t *row, uint8_t *bytes, size_t size);

/* The largest number that a field of this type holds; 0 if it holds none, or a float. */
uint64_t codec_uint_max(const field_t *field);

bool codec_equal(const message_row_t *row, const void *a, const void *b);

/* One line without its end: submit{request=1, sampling={seed=7, ...}, prompt=[120 u32s], ...}.
 * Token ids are somebody's text, so what a FIELD_TOKENS holds is counted, not shown, unless
 * `reveal`. */
void codec_print(const message_row_t *row, const void *body, bool reveal, FILE *out);

/* A random valid body in `arena`, its views at most `count_max` long and seldom empty; NULL if it
 * does not fit. */
const void *codec_random(const message_row_t *row, random_t *random, uint32_t count_max,
                         arena_t *arena);

#endif

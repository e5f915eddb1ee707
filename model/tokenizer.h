/* tokenizer.h - text to token ids and back: byte-level BPE as a tokenizer.json describes it.
 *
 * Read-only once open, so any number of threads may use one. Text comes in spans. Only a span that
 * is trusted (written by us or by the checkpoint) can yield an added token such as a role tag; in
 * any other span the same characters are ordinary text, so no user can write a control token. Spans
 * say only that: splits and merges go across their borders, as if the text were one.
 */
#ifndef MODEL_TOKENIZER_H
#define MODEL_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/status.h"

typedef struct tokenizer tokenizer_t;

/* From the end of the span before it up to `end`, a byte offset. */
typedef struct {
    size_t end;
    bool trusted;
} text_span_t;

/* One per answer: the bytes of a character that is not whole yet. Zeroed at the start. */
typedef struct {
    char pending[4];
    unsigned char count;
} tokenizer_decoder_t;

/* Reads `path`. BAD_FILE, with the reason, for anything but byte-level BPE behind plain splits. */
MUST_USE status_t tokenizer_open(const char *path, tokenizer_t **out);
void tokenizer_close(tokenizer_t *tokenizer);

/* Ids are below this; some may have no piece. */
uint32_t tokenizer_id_count(const tokenizer_t *tokenizer);
/* The added token written exactly so. NOT_FOUND if there is none. */
MUST_USE status_t tokenizer_find_added(const tokenizer_t *tokenizer, const char *content,
                                       uint32_t *id);
/* Bytes that an id stands for, valid until close; *length 0 if it has no piece. */
const char *tokenizer_piece(const tokenizer_t *tokenizer, uint32_t id, size_t *length);

/* One byte as an id, and what a pair of ids is merged into, with its rank (the lowest goes first). */
uint32_t tokenizer_byte_id(const tokenizer_t *tokenizer, unsigned char byte);
bool tokenizer_merge(const tokenizer_t *tokenizer, uint32_t left, uint32_t right, uint32_t *rank,
                     uint32_t *id);

/* Writes the ids of `text` and their number. The last span ends at the end of the text.
 * INVALID: not UTF-8. TOO_LARGE: more than ids_max ids. No BOS is added. */
MUST_USE status_t tokenizer_encode(const tokenizer_t *tokenizer, const char *text,
                                   const text_span_t *spans, size_t span_count, uint32_t *ids,
                                   size_t ids_max, size_t *id_count);
/* The same for text of one kind. */
MUST_USE status_t tokenizer_encode_trusted(const tokenizer_t *tokenizer, const char *text,
                                           size_t length, uint32_t *ids, size_t ids_max,
                                           size_t *id_count);
MUST_USE status_t tokenizer_encode_plain(const tokenizer_t *tokenizer, const char *text,
                                         size_t length, uint32_t *ids, size_t ids_max,
                                         size_t *id_count);

/* Room that one call of the two functions below may need. */
size_t tokenizer_delta_bytes_max(const tokenizer_t *tokenizer);
/* Writes what becomes visible with `id`, whole characters only, no NUL; returns its length. An id
 * without a piece shows nothing. Never allocates. */
size_t tokenizer_decode(const tokenizer_t *tokenizer, tokenizer_decoder_t *decoder, uint32_t id,
                        char *delta);
/* What is left when no id follows: nothing, or U+FFFD for a character that stays incomplete. */
size_t tokenizer_decode_end(tokenizer_decoder_t *decoder, char *delta);

#endif

/* tokenizer_parts.h - what a tokenizer is made of. For tokenizer.c and tokenizer_file.c only. */
#ifndef MODEL_TOKENIZER_PARTS_H
#define MODEL_TOKENIZER_PARTS_H

#include "model/bpe.h"
#include "model/split.h"
#include "model/tokenizer.h"

enum { SPLITS_MAX = 8, ADDED_PASSES = 2 };

typedef struct {
    char *content;
    size_t length;
    uint32_t id;
} added_token_t;

/* Added tokens that one pass looks for, in byte order, a prefix before what it begins. */
typedef struct {
    added_token_t *tokens;
    size_t count;
    bool can_begin[256]; /* by first byte */
} added_set_t;

struct tokenizer {
    uint32_t id_count;
    size_t *piece_start; /* id_count + 1 offsets into pieces */
    char *pieces;
    size_t piece_bytes_max;
    uint32_t byte_ids[256];
    bpe_t bpe;
    added_set_t added[ADDED_PASSES];
    split_t splits[SPLITS_MAX];
    size_t split_count;
};

#endif

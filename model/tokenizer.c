/* tokenizer.c - see tokenizer.h. Reading the file is in tokenizer_file.c.
 *
 * Encoding goes down a ladder, each rung handing what it does not take itself to the next:
 *
 *   1. added tokens that are not to be normalized    <｜begin▁of▁sentence｜> ...
 *   2. the other added tokens, in what is left       <think>, <｜User｜> ...
 *   3. the split patterns, one after the other       both matches and what lies between go on
 *   4. byte-pair merges of one piece
 *
 * The file format allows both passes to find tokens only in whole: `<｜User` stays ordinary text. A
 * piece of rung 3 may cross a border between spans; a token of rungs 1 and 2 lies in trusted text
 * entirely.
 */
#include "model/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "model/tokenizer_parts.h"
#include "model/utf8.h"

typedef struct {
    const tokenizer_t *tokenizer;
    const char *text;
    const text_span_t *spans;
    size_t span_count;
    size_t span_at[ADDED_PASSES]; /* each pass walks the spans once */
    split_work_t split_work;
    bpe_scratch_t scratch;
    uint32_t *word; /* ids of the word that is being merged */
    size_t word_max;
    uint32_t *ids;
    size_t ids_max;
    size_t id_count;
} encoding_t;

static status_t push_id(encoding_t *e, uint32_t id)
{
    if (e->id_count == e->ids_max)
        return FAIL(STATUS_TOO_LARGE, "text gives more than %zu tokens", e->ids_max);
    e->ids[e->id_count++] = id;
    return STATUS_OK;
}

static status_t encode_word(encoding_t *e, size_t start, size_t end)
{
    size_t count = end - start;
    if (count > e->word_max) {
        uint32_t *word = realloc(e->word, 2 * count * sizeof(*word));
        if (word == NULL)
            return FAIL(STATUS_NO_MEMORY, "a word of %zu bytes", count);
        e->word = word;
        e->word_max = 2 * count;
    }
    for (size_t i = 0; i < count; i++)
        e->word[i] = e->tokenizer->byte_ids[(unsigned char)e->text[start + i]];
    TRY(bpe_merge(&e->tokenizer->bpe, &e->scratch, e->word, &count));
    for (size_t i = 0; i < count; i++)
        TRY(push_id(e, e->word[i]));
    return STATUS_OK;
}

/* Each piece of one pattern is a text of its own for the next: a lookahead does not see past its
 * end. */
static status_t encode_splits(encoding_t *e, size_t level, size_t start, size_t end)
{
    if (start == end)
        return STATUS_OK;
    if (level == e->tokenizer->split_count)
        return encode_word(e, start, end);
    for (size_t at = start; at < end;) {
        bool found;
        size_t match_start, match_end;
        TRY(split_next(&e->tokenizer->splits[level], &e->split_work, e->text + start, end - start,
                       at - start, &found, &match_start, &match_end));
        if (!found)
            return encode_splits(e, level + 1, at, end);
        TRY(encode_splits(e, level + 1, at, start + match_start));
        TRY(encode_splits(e, level + 1, start + match_start, start + match_end));
        at = start + match_end;
    }
    return STATUS_OK;
}

/* The end of the trusted text that holds `at`, or `at` itself if its span is not trusted.
 * Successive calls for one pass never go back. */
static size_t trusted_end(encoding_t *e, size_t pass, size_t at)
{
    while (e->spans[e->span_at[pass]].end <= at)
        e->span_at[pass]++;
    size_t last = e->span_at[pass];
    if (!e->spans[last].trusted)
        return at;
    while (last + 1 < e->span_count && e->spans[last + 1].trusted)
        last++;
    return e->spans[last].end;
}

/* The longest token that `text` begins with, or NULL: narrows [low, high) of the sorted tokens byte
 * by byte. */
static const added_token_t *longest_token(const added_set_t *set, const char *text, size_t length)
{
    const added_token_t *longest = NULL;
    size_t low = 0, high = set->count;
    for (size_t depth = 0; depth < length && low < high; depth++) {
        unsigned char want = (unsigned char)text[depth];
        size_t bounds[2]; /* first token with a byte >= want, first with one > want */
        for (unsigned above = 0; above < 2; above++) {
            size_t from = above ? bounds[0] : low, to = high;
            while (from < to) {
                size_t middle = from + (to - from) / 2;
                const added_token_t *token = &set->tokens[middle];
                if (token->length <= depth || (unsigned char)token->content[depth] < want + above)
                    from = middle + 1;
                else
                    to = middle;
            }
            bounds[above] = from;
        }
        low = bounds[0];
        high = bounds[1];
        if (low < high && set->tokens[low].length == depth + 1)
            longest = &set->tokens[low];
    }
    return longest;
}

static status_t encode_added(encoding_t *e, size_t pass, size_t start, size_t end)
{
    if (start == end)
        return STATUS_OK;
    if (pass == ADDED_PASSES)
        return encode_splits(e, 0, start, end);
    const added_set_t *set = &e->tokenizer->added[pass];
    size_t rest = start;
    for (size_t at = start; at < end;) {
        if (!set->can_begin[(unsigned char)e->text[at]]) {
            at++;
            continue;
        }
        size_t limit = trusted_end(e, pass, at);
        if (limit > end)
            limit = end;
        const added_token_t *token = longest_token(set, e->text + at, limit - at);
        if (token == NULL) {
            at++;
            continue;
        }
        TRY(encode_added(e, pass + 1, rest, at));
        TRY(push_id(e, token->id));
        at += token->length;
        rest = at;
    }
    return encode_added(e, pass + 1, rest, end);
}

status_t tokenizer_encode(const tokenizer_t *tokenizer, const char *text, const text_span_t *spans,
                          size_t span_count, uint32_t *ids, size_t ids_max, size_t *id_count)
{
    *id_count = 0;
    size_t length = 0;
    for (size_t i = 0; i < span_count; i++) {
        ASSERT(spans[i].end >= length);
        length = spans[i].end;
    }
    size_t broken_at;
    if (!utf8_check(text, length, &broken_at))
        return FAIL(STATUS_INVALID, "text is not UTF-8 at byte %zu", broken_at);
    encoding_t e = {.tokenizer = tokenizer,
                    .text = text,
                    .spans = spans,
                    .span_count = span_count,
                    .ids = ids,
                    .ids_max = ids_max};
    TRY(split_work_init(&e.split_work));
    status_t status = encode_added(&e, 0, 0, length);
    split_work_fini(&e.split_work);
    bpe_scratch_fini(&e.scratch);
    free(e.word);
    if (status == STATUS_OK)
        *id_count = e.id_count;
    return status;
}

status_t tokenizer_encode_trusted(const tokenizer_t *tokenizer, const char *text, size_t length,
                                  uint32_t *ids, size_t ids_max, size_t *id_count)
{
    text_span_t span = {length, true};
    return tokenizer_encode(tokenizer, text, &span, 1, ids, ids_max, id_count);
}

status_t tokenizer_encode_plain(const tokenizer_t *tokenizer, const char *text, size_t length,
                                uint32_t *ids, size_t ids_max, size_t *id_count)
{
    text_span_t span = {length, false};
    return tokenizer_encode(tokenizer, text, &span, 1, ids, ids_max, id_count);
}

uint32_t tokenizer_id_count(const tokenizer_t *tokenizer)
{
    return tokenizer->id_count;
}

status_t tokenizer_find_added(const tokenizer_t *tokenizer, const char *content, uint32_t *id)
{
    size_t length = strlen(content);
    for (size_t pass = 0; pass < ADDED_PASSES; pass++) {
        const added_token_t *token = longest_token(&tokenizer->added[pass], content, length);
        if (token != NULL && token->length == length) {
            *id = token->id;
            return STATUS_OK;
        }
    }
    return FAIL(STATUS_NOT_FOUND, "the tokenizer has no added token %s", content);
}

const char *tokenizer_piece(const tokenizer_t *tokenizer, uint32_t id, size_t *length)
{
    if (id >= tokenizer->id_count) {
        *length = 0;
        return "";
    }
    size_t start = tokenizer->piece_start[id];
    *length = tokenizer->piece_start[id + 1] - start;
    return tokenizer->pieces + start;
}

uint32_t tokenizer_byte_id(const tokenizer_t *tokenizer, unsigned char byte)
{
    return tokenizer->byte_ids[byte];
}

bool tokenizer_merge(const tokenizer_t *tokenizer, uint32_t left, uint32_t right, uint32_t *rank,
                     uint32_t *id)
{
    return bpe_find(&tokenizer->bpe, left, right, rank, id);
}

size_t tokenizer_delta_bytes_max(const tokenizer_t *tokenizer)
{
    /* At worst every byte of the piece, and each one pending, becomes a U+FFFD of three bytes. */
    return 3 * (tokenizer->piece_bytes_max + UTF8_BYTES_MAX);
}

/* Takes characters and broken parts off the front of the pending bytes; stops at a cut one. */
static size_t show_pending(tokenizer_decoder_t *decoder, char *delta)
{
    size_t written = 0;
    while (decoder->count > 0) {
        utf8_step_t step = utf8_step(decoder->pending, decoder->count);
        if (step.kind == UTF8_CUT)
            break;
        const char *shown = step.kind == UTF8_WHOLE ? decoder->pending : UTF8_REPLACEMENT;
        size_t bytes = step.kind == UTF8_WHOLE ? step.bytes : strlen(UTF8_REPLACEMENT);
        memcpy(delta + written, shown, bytes);
        written += bytes;
        decoder->count = (unsigned char)(decoder->count - step.bytes);
        memmove(decoder->pending, decoder->pending + step.bytes, decoder->count);
    }
    return written;
}

size_t tokenizer_decode(const tokenizer_t *tokenizer, tokenizer_decoder_t *decoder, uint32_t id,
                        char *delta)
{
    size_t length;
    const char *piece = tokenizer_piece(tokenizer, id, &length);
    size_t written = 0;
    for (size_t i = 0; i < length; i++) {
        ASSERT(decoder->count < sizeof(decoder->pending));
        decoder->pending[decoder->count++] = piece[i];
        written += show_pending(decoder, delta + written);
    }
    ASSERT(written <= tokenizer_delta_bytes_max(tokenizer));
    return written;
}

size_t tokenizer_decode_end(tokenizer_decoder_t *decoder, char *delta)
{
    if (decoder->count == 0)
        return 0;
    decoder->count = 0;
    memcpy(delta, UTF8_REPLACEMENT, strlen(UTF8_REPLACEMENT));
    return strlen(UTF8_REPLACEMENT);
}

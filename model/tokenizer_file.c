/* tokenizer_file.c - reads a tokenizer.json and refuses what tokenizer.c would not encode as it was
 * meant.
 *
 * The file format covers many kinds of tokenizers. This engine needs one of them, so everything
 * that would change ids is checked and named when it differs; nothing is ignored silently.
 */
#include "model/tokenizer.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "model/tokenizer_parts.h"
#include "model/utf8.h"
#include "runtime/base/limits.h"

typedef struct {
    tokenizer_t *tokenizer;
    const char *path;
    json_t *root;
    json_t *vocab;
    const char **contents; /* by id; NULL where no piece is */
    int16_t byte_of[512];  /* by character of the byte alphabet; -1 if it stands for no byte */
} loading_t;

#define REFUSE(l, ...) refuse((l)->path, __func__, __LINE__, __VA_ARGS__)

static status_t PRINTF_LIKE(4, 5)
    refuse(const char *path, const char *function, int line, const char *format, ...)
{
    char text[TRAIL_TEXT_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    return trail_fail(STATUS_BAD_FILE, function, line, "%s: %s", path, text);
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text == NULL ? "" : text;
}

static bool absent(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return value == NULL || json_is_null(value);
}

/* The byte alphabet of GPT-2: printable bytes stand for themselves, the others for U+0100 onwards.
 */
static bool prints(unsigned byte)
{
    return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

static void byte_alphabet(loading_t *l, uint32_t characters[256])
{
    for (size_t i = 0; i < COUNT_OF(l->byte_of); i++)
        l->byte_of[i] = -1;
    uint32_t next = 0x100;
    for (unsigned byte = 0; byte < 256; byte++) {
        characters[byte] = prints(byte) ? byte : next++;
        l->byte_of[characters[byte]] = (int16_t)byte;
    }
}

static status_t open_file(loading_t *l)
{
    struct stat info;
    if (stat(l->path, &info) != 0)
        return REFUSE(l, "cannot be read: %m");
    if (!S_ISREG(info.st_mode) || info.st_size > TOKENIZER_FILE_BYTES_MAX)
        return REFUSE(l, "not a file of at most %d bytes", TOKENIZER_FILE_BYTES_MAX);
    json_error_t error;
    l->root = json_load_file(l->path, JSON_REJECT_DUPLICATES, &error);
    if (l->root == NULL)
        return REFUSE(l, "line %d, column %d: %s", error.line, error.column, error.text);
    return STATUS_OK;
}

/* Everything around the model that could change ids must be absent or do nothing. */
static status_t check_surroundings(const loading_t *l)
{
    static const char *const must_be_absent[] = {"truncation", "padding"};
    for (size_t i = 0; i < COUNT_OF(must_be_absent); i++) {
        if (!absent(l->root, must_be_absent[i]))
            return REFUSE(l, "%s must be null", must_be_absent[i]);
    }
    const json_t *normalizer = json_object_get(l->root, "normalizer");
    if (!absent(l->root, "normalizer") &&
        (strcmp(text_of(normalizer, "type"), "Sequence") != 0 ||
         json_array_size(json_object_get(normalizer, "normalizers")) != 0))
        return REFUSE(l, "normalizer must be null or an empty Sequence, found type \"%s\"",
                      text_of(normalizer, "type"));
    if (!absent(l->root, "post_processor") &&
        strcmp(text_of(json_object_get(l->root, "post_processor"), "type"), "ByteLevel") != 0)
        return REFUSE(l, "post_processor must be null or ByteLevel, found type \"%s\"",
                      text_of(json_object_get(l->root, "post_processor"), "type"));
    const char *decoder = text_of(json_object_get(l->root, "decoder"), "type");
    if (strcmp(decoder, "ByteLevel") != 0)
        return REFUSE(l, "decoder must be ByteLevel, found type \"%s\"", decoder);
    return STATUS_OK;
}

static status_t check_model(const loading_t *l)
{
    const json_t *model = json_object_get(l->root, "model");
    if (strcmp(text_of(model, "type"), "BPE") != 0)
        return REFUSE(l, "model.type must be BPE, found \"%s\"", text_of(model, "type"));
    static const char *const must_be_off[] = {"dropout", "unk_token", "fuse_unk", "byte_fallback",
                                              "ignore_merges"};
    for (size_t i = 0; i < COUNT_OF(must_be_off); i++) {
        if (!absent(model, must_be_off[i]) &&
            !json_is_false(json_object_get(model, must_be_off[i])))
            return REFUSE(l, "model.%s must be null or false", must_be_off[i]);
    }
    if (text_of(model, "continuing_subword_prefix")[0] || text_of(model, "end_of_word_suffix")[0])
        return REFUSE(l, "model has a subword prefix or suffix, which byte-level BPE does not use");
    if (!json_is_object(json_object_get(model, "vocab")) ||
        !json_is_array(json_object_get(model, "merges")))
        return REFUSE(l, "model.vocab must be an object and model.merges an array");
    return STATUS_OK;
}

static status_t load_splits(loading_t *l)
{
    const json_t *pre_tokenizer = json_object_get(l->root, "pre_tokenizer");
    const json_t *steps = json_object_get(pre_tokenizer, "pretokenizers");
    size_t count = json_array_size(steps);
    if (strcmp(text_of(pre_tokenizer, "type"), "Sequence") != 0 || count == 0)
        return REFUSE(l,
                      "pre_tokenizer must be a Sequence of Split and ByteLevel, found type \"%s\"",
                      text_of(pre_tokenizer, "type"));
    if (count - 1 > SPLITS_MAX)
        return REFUSE(l, "pre_tokenizer has %zu splits, at most %d", count - 1, SPLITS_MAX);
    for (size_t i = 0; i + 1 < count; i++) {
        const json_t *step = json_array_get(steps, i);
        const json_t *regex = json_object_get(json_object_get(step, "pattern"), "Regex");
        if (strcmp(text_of(step, "type"), "Split") != 0 || !json_is_string(regex) ||
            strcmp(text_of(step, "behavior"), "Isolated") != 0 ||
            json_is_true(json_object_get(step, "invert")))
            return REFUSE(
                l, "pre_tokenizer step %zu must be a Split by Regex, Isolated, not inverted", i);
        TRY(split_open(&l->tokenizer->splits[i], json_string_value(regex),
                       json_string_length(regex)));
        l->tokenizer->split_count++;
    }
    const json_t *last = json_array_get(steps, count - 1);
    if (strcmp(text_of(last, "type"), "ByteLevel") != 0 ||
        json_is_true(json_object_get(last, "add_prefix_space")) ||
        !json_is_false(json_object_get(last, "use_regex")))
        return REFUSE(
            l, "the last pre_tokenizer step must be ByteLevel without prefix space and regex");
    return STATUS_OK;
}

/* Gives an id its content. */
static status_t claim_id(loading_t *l, const json_t *value, const char *content)
{
    json_int_t id = json_is_integer(value) ? json_integer_value(value) : -1;
    if (id < 0 || id >= VOCABULARY_MAX)
        return REFUSE(l, "id of piece \"%s\" must be an integer from 0 to %d", content,
                      VOCABULARY_MAX - 1);
    const char *holder = l->contents[id];
    if (holder != NULL && strcmp(holder, content) != 0)
        return REFUSE(l, "id %d belongs to \"%s\" and to \"%s\"", (int)id, holder, content);
    l->contents[id] = content;
    if (id >= l->tokenizer->id_count)
        l->tokenizer->id_count = (uint32_t)id + 1;
    return STATUS_OK;
}

static status_t load_vocab(loading_t *l)
{
    l->vocab = json_object_get(json_object_get(l->root, "model"), "vocab");
    const char *content;
    json_t *id;
    json_object_foreach(l->vocab, content, id) TRY(claim_id(l, id, content));
    uint32_t characters[256];
    byte_alphabet(l, characters);
    for (unsigned byte = 0; byte < 256; byte++) {
        char text[UTF8_BYTES_MAX + 1] = {0};
        utf8_write(characters[byte], text);
        const json_t *byte_id = json_object_get(l->vocab, text);
        if (byte_id == NULL)
            return REFUSE(l, "model.vocab has no piece for byte 0x%02x (\"%s\")", byte, text);
        l->tokenizer->byte_ids[byte] = (uint32_t)json_integer_value(byte_id);
    }
    return STATUS_OK;
}

/* A merge is "left right" or ["left", "right"]; both forms are in use. */
static status_t merge_sides(const loading_t *l, const json_t *merge, size_t rank, char *left,
                            const char **right)
{
    const char *first = json_string_value(json_is_array(merge) ? json_array_get(merge, 0) : merge);
    *right = NULL;
    if (json_array_size(merge) == 2)
        *right = json_string_value(json_array_get(merge, 1));
    else if (json_is_string(merge))
        *right = strchr(first, ' ');
    if (first == NULL || *right == NULL)
        return REFUSE(l, "merge %zu must be two pieces", rank);
    size_t length = json_is_string(merge) ? (size_t)(*right - first) : strlen(first);
    if (json_is_string(merge))
        (*right)++;
    if (length + strlen(*right) >= PIECE_BYTES_MAX)
        return REFUSE(l, "merge %zu is longer than %d bytes", rank, PIECE_BYTES_MAX);
    memcpy(left, first, length);
    left[length] = '\0';
    return STATUS_OK;
}

static status_t load_merges(loading_t *l)
{
    const json_t *merges = json_object_get(json_object_get(l->root, "model"), "merges");
    size_t count = json_array_size(merges);
    if (count > VOCABULARY_MAX)
        return REFUSE(l, "%zu merges, at most %d", count, VOCABULARY_MAX);
    TRY(bpe_init(&l->tokenizer->bpe, count));
    for (size_t rank = 0; rank < count; rank++) {
        char left[PIECE_BYTES_MAX];
        char both[PIECE_BYTES_MAX];
        const char *right;
        TRY(merge_sides(l, json_array_get(merges, rank), rank, left, &right));
        snprintf(both, sizeof(both), "%s%s", left, right);
        const json_t *ids[3] = {json_object_get(l->vocab, left), json_object_get(l->vocab, right),
                                json_object_get(l->vocab, both)};
        if (ids[0] == NULL || ids[1] == NULL || ids[2] == NULL)
            return REFUSE(l, "merge %zu (\"%s\" \"%s\") names a piece that is not in model.vocab",
                          rank, left, right);
        uint32_t numbers[3];
        for (size_t i = 0; i < 3; i++)
            numbers[i] = (uint32_t)json_integer_value(ids[i]);
        if (bpe_add(&l->tokenizer->bpe, numbers[0], numbers[1], (uint32_t)rank, numbers[2]) !=
            STATUS_OK)
            return REFUSE(l, "merge %zu is there twice", rank);
    }
    return STATUS_OK;
}

static status_t load_added_token(loading_t *l, const json_t *entry, size_t index)
{
    const json_t *content = json_object_get(entry, "content");
    if (!json_is_string(content) || json_string_length(content) == 0 ||
        json_string_length(content) >= PIECE_BYTES_MAX)
        return REFUSE(l, "added_tokens[%zu].content must be text of 1 to %d bytes", index,
                      PIECE_BYTES_MAX - 1);
    const char *text = json_string_value(content);
    static const char *const must_be_off[] = {"single_word", "lstrip", "rstrip"};
    for (size_t i = 0; i < COUNT_OF(must_be_off); i++) {
        if (json_is_true(json_object_get(entry, must_be_off[i])))
            return REFUSE(l, "added token \"%s\": %s is not supported", text, must_be_off[i]);
    }
    const json_t *id = json_object_get(entry, "id");
    TRY(claim_id(l, id, text));
    bool normalized = json_is_true(json_object_get(entry, "normalized"));
    added_set_t *set = &l->tokenizer->added[normalized ? 1 : 0];
    char *copy = strdup(text);
    if (copy == NULL)
        return FAIL(STATUS_NO_MEMORY, "added tokens");
    set->tokens[set->count++] =
        (added_token_t){copy, strlen(copy), (uint32_t)json_integer_value(id)};
    set->can_begin[(unsigned char)copy[0]] = true;
    return STATUS_OK;
}

static int compare_tokens(const void *a, const void *b)
{
    return strcmp(((const added_token_t *)a)->content, ((const added_token_t *)b)->content);
}

static status_t load_added(loading_t *l)
{
    const json_t *entries = json_object_get(l->root, "added_tokens");
    size_t count = json_array_size(entries);
    if (count > VOCABULARY_MAX)
        return REFUSE(l, "%zu added tokens, at most %d", count, VOCABULARY_MAX);
    for (size_t pass = 0; pass < ADDED_PASSES; pass++) {
        l->tokenizer->added[pass].tokens = calloc(count + 1, sizeof(added_token_t));
        if (l->tokenizer->added[pass].tokens == NULL)
            return FAIL(STATUS_NO_MEMORY, "added tokens");
    }
    for (size_t i = 0; i < count; i++)
        TRY(load_added_token(l, json_array_get(entries, i), i));
    for (size_t pass = 0; pass < ADDED_PASSES; pass++) {
        added_set_t *set = &l->tokenizer->added[pass];
        qsort(set->tokens, set->count, sizeof(set->tokens[0]), compare_tokens);
        for (size_t i = 1; i < set->count; i++) {
            if (strcmp(set->tokens[i - 1].content, set->tokens[i].content) == 0)
                return REFUSE(l, "added token \"%s\" is there twice", set->tokens[i].content);
        }
    }
    return STATUS_OK;
}

/* Bytes of a piece: its characters through the byte alphabet, or as they are if one is not of it,
 * as in the names of most added tokens. */
static size_t piece_bytes(const loading_t *l, const char *content, char *out)
{
    size_t length = strlen(content), written = 0;
    for (size_t at = 0; at < length;) {
        utf8_step_t step = utf8_step(content + at, length - at);
        if (step.code >= COUNT_OF(l->byte_of) || l->byte_of[step.code] < 0) {
            memcpy(out, content, length);
            return length;
        }
        out[written++] = (char)l->byte_of[step.code];
        at += step.bytes;
    }
    return written;
}

static status_t build_pieces(loading_t *l)
{
    tokenizer_t *t = l->tokenizer;
    size_t total = 0;
    for (uint32_t id = 0; id < t->id_count; id++)
        total += l->contents[id] == NULL ? 0 : strlen(l->contents[id]);
    t->piece_start = calloc((size_t)t->id_count + 1, sizeof(*t->piece_start));
    t->pieces = malloc(total + 1);
    if (t->piece_start == NULL || t->pieces == NULL)
        return FAIL(STATUS_NO_MEMORY, "%u pieces of %zu bytes", t->id_count, total);
    size_t used = 0;
    for (uint32_t id = 0; id < t->id_count; id++) {
        t->piece_start[id] = used;
        if (l->contents[id] == NULL)
            continue;
        size_t length = piece_bytes(l, l->contents[id], t->pieces + used);
        used += length;
        if (length > t->piece_bytes_max)
            t->piece_bytes_max = length;
    }
    t->piece_start[t->id_count] = used;
    return STATUS_OK;
}

static status_t load(loading_t *l)
{
    TRY(open_file(l));
    TRY(check_surroundings(l));
    TRY(check_model(l));
    TRY(load_splits(l));
    TRY(load_vocab(l));
    TRY(load_merges(l));
    TRY(load_added(l));
    return build_pieces(l);
}

status_t tokenizer_open(const char *path, tokenizer_t **out)
{
    *out = NULL;
    loading_t l = {.path = path,
                   .tokenizer = calloc(1, sizeof(tokenizer_t)),
                   .contents = calloc(VOCABULARY_MAX, sizeof(char *))};
    status_t status = l.tokenizer == NULL || l.contents == NULL
                          ? FAIL(STATUS_NO_MEMORY, "tokenizer %s", path)
                          : load(&l);
    json_decref(l.root);
    free((void *)l.contents);
    if (status != STATUS_OK) {
        tokenizer_close(l.tokenizer);
        return status;
    }
    *out = l.tokenizer;
    return STATUS_OK;
}

void tokenizer_close(tokenizer_t *tokenizer)
{
    if (tokenizer == NULL)
        return;
    for (size_t pass = 0; pass < ADDED_PASSES; pass++) {
        for (size_t i = 0; i < tokenizer->added[pass].count; i++)
            free(tokenizer->added[pass].tokens[i].content);
        free(tokenizer->added[pass].tokens);
    }
    for (size_t i = 0; i < tokenizer->split_count; i++)
        split_close(&tokenizer->splits[i]);
    bpe_fini(&tokenizer->bpe);
    free(tokenizer->piece_start);
    free(tokenizer->pieces);
    free(tokenizer);
}

/* chat_blocks.c - see chat_blocks.h.
 *
 * Of the encoder, a Python file, three assignments are read: string literals, joined by '+' or by
 * standing next to each other, in parentheses or not. Two of them are templates for str.format;
 * the names of the marks in them are put in, and the text is cut where the schemas go.
 */
#include "model/chat_blocks.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "model/document.h"

enum { SOURCE_BYTES_MAX = 1 << 20 };

static status_t read_file(const char *path, char **bytes, size_t *length)
{
    struct stat info;
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return FAIL(errno == ENOENT || errno == ENOTDIR ? STATUS_NOT_FOUND : STATUS_BAD_FILE,
                    "%s: %m", path);
    status_t status = STATUS_OK;
    *bytes = NULL;
    if (fstat(fileno(file), &info) != 0 || !S_ISREG(info.st_mode) ||
        info.st_size > SOURCE_BYTES_MAX)
        status =
            FAIL(STATUS_BAD_FILE, "%s is not a file of at most %d bytes", path, SOURCE_BYTES_MAX);
    else if ((*bytes = malloc((size_t)info.st_size + 1)) == NULL)
        status = FAIL(STATUS_NO_MEMORY, "%s", path);
    if (status == STATUS_OK) {
        *length = fread(*bytes, 1, (size_t)info.st_size, file);
        (*bytes)[*length] = '\0';
    }
    fclose(file);
    return status;
}

void chat_blocks_close(chat_blocks_t *blocks)
{
    for (size_t i = 0; i < blocks->effort_count; i++) {
        free(blocks->efforts[i].name);
        free(blocks->efforts[i].text);
    }
    free(blocks->tools_before);
    free(blocks->tools_after);
    free(blocks->format_before);
    *blocks = (chat_blocks_t){0};
}

/* Moves what a buffer holds into a text of its own. */
static status_t take_text(text_buffer_t *buffer, char **text)
{
    text_put(buffer, "", 1); /* the final NUL */
    *text = buffer->status == STATUS_OK ? strdup(buffer->bytes) : NULL;
    status_t status = buffer->status;
    if (status == STATUS_OK && *text == NULL)
        status = FAIL(STATUS_NO_MEMORY, "a chat block");
    text_buffer_fini(buffer);
    return status;
}

static status_t json_block(const document_t *document, const char *key, char **text)
{
    uint32_t node = document_member(document, 0, key);
    if (node == DOCUMENT_NONE || document_kind(document, node) != DOCUMENT_STRING)
        return FAIL(STATUS_BAD_FILE, "no text \"%s\"", key);
    text_buffer_t buffer;
    text_buffer_init(&buffer, CHAT_BLOCK_BYTES_MAX);
    document_put_string(document, node, &buffer);
    return take_text(&buffer, text);
}

static status_t blocks_from_json(const document_t *document, chat_blocks_t *blocks)
{
    TRY(json_block(document, "tools_before_schemas", &blocks->tools_before));
    TRY(json_block(document, "tools_after_schemas", &blocks->tools_after));
    TRY(json_block(document, "response_format_before_schema", &blocks->format_before));
    blocks->effort_count = 1;
    TRY(json_block(document, "max_effort_prefix", &blocks->efforts[0].text));
    blocks->efforts[0].name = strdup("max");
    return blocks->efforts[0].name == NULL ? FAIL(STATUS_NO_MEMORY, "a chat block") : STATUS_OK;
}

/* Steps over blanks, line ends, comments, '(' and '+': what may stand between two literals. */
static const char *skip_between(const char *at, const char *end)
{
    while (at < end && strchr(" \t\r\n(+#\\", *at) != NULL && *at != '\0') {
        if (*at == '#')
            while (at < end && *at != '\n')
                at++;
        else
            at++;
    }
    return at;
}

/* Puts one string literal, in single or triple quotes; *at is moved behind it. */
static status_t put_literal(const char **at, const char *end, text_buffer_t *out)
{
    const char *p = *at;
    char quote = *p;
    size_t quotes = end - p >= 6 && p[1] == quote && p[2] == quote ? 3 : 1;
    for (p += quotes; p < end; p++) {
        if (*p == quote && (quotes == 1 || (end - p >= 3 && p[1] == quote && p[2] == quote))) {
            *at = p + quotes;
            return STATUS_OK;
        }
        if (*p != '\\') {
            text_put(out, p, 1);
            continue;
        }
        static const char letters[] = "n\"'\\\n", values[] = "\n\"'\\";
        const char *letter = ++p < end && *p != '\0' ? strchr(letters, *p) : NULL;
        if (letter == NULL)
            return FAIL(STATUS_BAD_FILE, "the encoder has an escape that is not understood");
        if (*letter != '\n')
            text_put(out, &values[letter - letters], 1);
    }
    return FAIL(STATUS_BAD_FILE, "the encoder ends inside a string");
}

/* The start of the value of `name = ...` or `name: str = ...` at the beginning of a line, or NULL.
 */
static const char *find_assignment(const char *source, const char *end, const char *name)
{
    size_t length = strlen(name);
    for (const char *line = source; line < end;) {
        const char *line_end = memchr(line, '\n', (size_t)(end - line));
        if (line_end == NULL)
            line_end = end;
        if ((size_t)(line_end - line) > length && memcmp(line, name, length) == 0 &&
            strchr(" :=", line[length]) != NULL) {
            const char *equals = memchr(line, '=', (size_t)(line_end - line));
            if (equals != NULL)
                return equals + 1;
        }
        line = line_end + 1;
    }
    return NULL;
}

static status_t python_text(const char *source, size_t length, const char *name, char **text)
{
    const char *end = source + length;
    const char *at = find_assignment(source, end, name);
    if (at == NULL)
        return FAIL(STATUS_BAD_FILE, "the encoder does not assign %s", name);
    text_buffer_t buffer;
    text_buffer_init(&buffer, CHAT_BLOCK_BYTES_MAX);
    status_t status = STATUS_OK;
    for (at = skip_between(at, end); status == STATUS_OK && at < end && (*at == '"' || *at == '\'');
         at = skip_between(at, end))
        status = put_literal(&at, end, &buffer);
    if (status == STATUS_OK && buffer.used == 0)
        status = FAIL(STATUS_BAD_FILE, "the encoder gives %s no text", name);
    if (status != STATUS_OK) {
        text_buffer_fini(&buffer);
        return status;
    }
    return take_text(&buffer, text);
}

/* What str.format makes of text[0, length), as far as the encoder's templates need it. */
static status_t format_template(const char *text, size_t length, char **out)
{
    static const struct {
        const char *field;
        const char *value;
    } fields[] = {{"{dsml_token}", "｜DSML｜"},
                  {"{thinking_start_token}", "<think>"},
                  {"{thinking_end_token}", "</think>"},
                  {"{{", "{"},
                  {"}}", "}"}};
    text_buffer_t buffer;
    text_buffer_init(&buffer, CHAT_BLOCK_BYTES_MAX);
    for (size_t at = 0; at < length;) {
        size_t step = 1;
        for (size_t i = 0; i < COUNT_OF(fields) && step == 1; i++) {
            size_t bytes = strlen(fields[i].field);
            if (bytes <= length - at && memcmp(text + at, fields[i].field, bytes) == 0) {
                text_put_text(&buffer, fields[i].value);
                step = bytes;
            }
        }
        if (step == 1)
            text_put(&buffer, text + at, 1);
        at += step;
    }
    return take_text(&buffer, out);
}

/* Formats what stands before and behind `field`; `after` NULL if nothing may stand behind. */
static status_t cut_template(const char *text, const char *field, char **before, char **after)
{
    const char *at = strstr(text, field);
    if (at == NULL || (after == NULL && at[strlen(field)] != '\0'))
        return FAIL(STATUS_BAD_FILE, "a template of the encoder has no %s where it must be", field);
    TRY(format_template(text, (size_t)(at - text), before));
    if (after == NULL)
        return STATUS_OK;
    at += strlen(field);
    return format_template(at, strlen(at), after);
}

status_t chat_blocks_extract(const char *source, size_t length, chat_blocks_t *blocks)
{
    *blocks = (chat_blocks_t){.effort_count = 1};
    char *tools = NULL, *format = NULL;
    blocks->efforts[0].name = strdup("max");
    status_t status =
        blocks->efforts[0].name == NULL ? FAIL(STATUS_NO_MEMORY, "a chat block") : STATUS_OK;
    if (status == STATUS_OK)
        status = python_text(source, length, "REASONING_EFFORT_MAX", &blocks->efforts[0].text);
    if (status == STATUS_OK)
        status = python_text(source, length, "TOOLS_TEMPLATE", &tools);
    if (status == STATUS_OK)
        status = python_text(source, length, "response_format_template", &format);
    if (status == STATUS_OK)
        status = cut_template(tools, "{tool_schemas}", &blocks->tools_before, &blocks->tools_after);
    if (status == STATUS_OK)
        status = cut_template(format, "{schema}", &blocks->format_before, NULL);
    free(tools);
    free(format);
    if (status != STATUS_OK)
        chat_blocks_close(blocks);
    return status;
}

status_t chat_blocks_prove(const chat_blocks_t *blocks)
{
    const struct {
        const char *name;
        const char *text;
        const char *digest;
    } wanted[] = {
        {"max-effort prefix", blocks->efforts[0].text,
         "f7a24f3b3050d4a83781e9b755b316aae2ec1d9dc87562541d90bcb04d7350f7"},
        {"tools block before the schemas", blocks->tools_before,
         "c7c9042638154a237b5d1bd48be772374a35a4d24c5cacfd1ffbd92703da329c"},
        {"tools block after the schemas", blocks->tools_after,
         "690702850fe256512cb1ee67c4e436ecb3e735c71ebee77ca45ff357a75fb5a7"},
        {"response-format block", blocks->format_before,
         "5200f58413f49f3957c43beddbc97bead023232cb5934fad0c1997c30c139112"},
    };
    for (size_t i = 0; i < COUNT_OF(wanted); i++) {
        unsigned char digest[crypto_hash_sha256_BYTES];
        char hex[2 * sizeof(digest) + 1];
        crypto_hash_sha256(digest, (const unsigned char *)wanted[i].text, strlen(wanted[i].text));
        sodium_bin2hex(hex, sizeof(hex), digest, sizeof(digest));
        if (strcmp(hex, wanted[i].digest) != 0)
            return FAIL(STATUS_BAD_FILE,
                        "%s of the encoder has SHA-256 %.16s..., expected %.16s...: "
                        "put a chat_blocks.json beside the model",
                        wanted[i].name, hex, wanted[i].digest);
    }
    return STATUS_OK;
}

static status_t open_json(const char *bytes, size_t length, chat_blocks_t *blocks)
{
    document_t document;
    status_t status = document_parse(&document, DOCUMENT_STRICT, bytes, length);
    if (status == STATUS_INVALID) {
        char reason[256];
        snprintf(reason, sizeof(reason), "%s", trail_text());
        status = FAIL(STATUS_BAD_FILE, "not JSON: %s", reason);
    }
    if (status == STATUS_OK)
        status = blocks_from_json(&document, blocks);
    document_fini(&document);
    if (status != STATUS_OK)
        chat_blocks_close(blocks);
    return status;
}

static status_t open_encoder(const char *bytes, size_t length, chat_blocks_t *blocks)
{
    TRY(chat_blocks_extract(bytes, length, blocks));
    status_t status = chat_blocks_prove(blocks);
    if (status != STATUS_OK)
        chat_blocks_close(blocks);
    return status;
}

status_t chat_blocks_open(const char *model_folder, chat_blocks_t *blocks)
{
    static const struct {
        const char *name;
        status_t (*open)(const char *bytes, size_t length, chat_blocks_t *blocks);
    } sources[] = {{"chat_blocks.json", open_json}, {"encoding/encoding_dsv4.py", open_encoder}};
    *blocks = (chat_blocks_t){0};
    for (size_t i = 0; i < COUNT_OF(sources); i++) {
        char path[PATH_BYTES_MAX];
        char *bytes = NULL;
        size_t length = 0;
        snprintf(path, sizeof(path), "%s/%s", model_folder, sources[i].name);
        status_t status = read_file(path, &bytes, &length);
        if (status == STATUS_NOT_FOUND)
            continue;
        if (status == STATUS_OK && (status = sources[i].open(bytes, length, blocks)) != STATUS_OK) {
            char reason[256];
            snprintf(reason, sizeof(reason), "%s", trail_text());
            status = FAIL(status, "%s: %s", path, reason);
        }
        free(bytes);
        return status;
    }
    return FAIL(STATUS_NOT_FOUND, "%s has neither chat_blocks.json nor encoding/encoding_dsv4.py",
                model_folder);
}

/* grammar.c - `lockstep grammar`: JSON schemas against instances that satisfy them or do not.
 *
 * A file holds an object a line: name, schema, tests with valid and data, as MaskBench has them. Each
 * instance is written as json.dumps writes it, cut into the model's tokens, and followed: before each
 * token the mask is made. With a schema and an instance alone it says where the instance leaves it.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/command.h"
#include "model/document.h"
#include "model/grammar.h"
#include "runtime/base/limits.h"

enum { TIMES_MAX = 1 << 22, REASONS_MAX = 64, TOKENS_MAX = 1 << 20 };

typedef struct {
    double *us;
    size_t count;
} times_t;

typedef struct {
    char keyword[GRAMMAR_KEYWORD_BYTES];
    uint32_t count;
} reason_t;

typedef struct {
    bool json, list;
    const char *tokenizer_path;
    tokenizer_t *tokenizer;
    grammar_vocabulary_t *vocabulary;
    double vocabulary_ms;
    uint64_t *mask;
    uint32_t *tokens;
    void *memory;
    times_t compile_us, first_us, mask_us, take_us;
    reason_t reasons[REASONS_MAX];
    uint32_t reason_count;
    uint32_t schemas, passing, refused, valid, invalid, valid_refused, invalid_accepted;
    size_t block_bytes_max;
} grammar_command_t;

static double now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); /* other work of the machine is not ours */
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void add_time(times_t *times, double us)
{
    if (times->us == NULL)
        times->us = malloc(TIMES_MAX * sizeof(*times->us));
    if (times->us != NULL && times->count < TIMES_MAX)
        times->us[times->count++] = us;
}

static int compare_us(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double percentile(times_t *times, double part)
{
    if (times->count == 0)
        return 0;
    qsort(times->us, times->count, sizeof(*times->us), compare_us);
    return times->us[(size_t)((double)(times->count - 1) * part)];
}

static double average(const times_t *times)
{
    double sum = 0;

    for (size_t i = 0; i < times->count; i++)
        sum += times->us[i];
    return times->count > 0 ? sum / (double)times->count : 0;
}

/* Follows the text; *left_at is where no mask lets it go on, or its length where it may not end. */
static status_t follow(grammar_command_t *self, const void *block, const char *text, size_t length,
                       bool first, bool *accepted, size_t *left_at)
{
    grammar_matcher_t matcher;
    size_t at = 0, token = 0, token_count = 0;
    double start = now_us();

    *accepted = false;
    *left_at = 0;
    TRY(grammar_open(&matcher, block, self->vocabulary, self->memory));
    TRY(tokenizer_encode_plain(self->tokenizer, text, length, self->tokens, TOKENS_MAX,
                               &token_count));
    while (at < length) {
        uint32_t forced, id;
        size_t piece_length;
        *left_at = at;
        start = now_us();
        TRY(grammar_mask(&matcher, self->mask));
        add_time(first ? &self->first_us : &self->mask_us, now_us() - start);
        first = false;
        id = self->tokens[token++];
        if (grammar_forced(&matcher, &forced, 1) == 1 && forced != id) {
            /* The same bytes, cut as the grammar alone would have them. */
            const char *piece = tokenizer_piece(self->tokenizer, forced, &piece_length);
            if (piece_length > length - at || memcmp(piece, text + at, piece_length) != 0)
                return STATUS_OK;
            id = forced;
            token = 0;
            TRY(tokenizer_encode_plain(self->tokenizer, text + at + piece_length,
                                       length - at - piece_length, self->tokens, TOKENS_MAX,
                                       &token_count));
        }
        tokenizer_piece(self->tokenizer, id, &piece_length);
        if (!(self->mask[id / 64] >> id % 64 & 1))
            return STATUS_OK;
        start = now_us();
        TRY(grammar_take(&matcher, id));
        add_time(&self->take_us, now_us() - start);
        at += piece_length;
    }
    *left_at = at;
    *accepted = grammar_can_end(&matcher);
    return STATUS_OK;
}

static void count_reason(grammar_command_t *self, const char *keyword)
{
    uint32_t at = 0;

    if (*keyword == '\0')
        keyword = "(other)";
    while (at < self->reason_count && strcmp(self->reasons[at].keyword, keyword) != 0)
        at++;
    if (at == REASONS_MAX)
        return;
    if (at == self->reason_count)
        snprintf(self->reasons[self->reason_count++].keyword, GRAMMAR_KEYWORD_BYTES, "%s", keyword);
    self->reasons[at].count++;
}

/* One instance of the file; true if it was judged as the file says. */
static bool run_test(grammar_command_t *self, const document_t *line, uint32_t test,
                     const void *block, bool first, const char *name)
{
    text_buffer_t text;
    bool accepted = false;
    size_t left_at = 0;
    uint32_t valid = document_member(line, test, "valid");
    bool is_valid = valid != DOCUMENT_NONE && document_kind(line, valid) == DOCUMENT_TRUE;

    text_buffer_init(&text, DOCUMENT_BYTES_MAX);
    document_put_python(line, document_member(line, test, "data"), &text);
    status_t status = follow(self, block, text.bytes, text.used, first, &accepted, &left_at);
    if (is_valid) {
        self->valid++;
        self->valid_refused += !accepted;
    } else {
        self->invalid++;
        self->invalid_accepted += accepted;
    }
    if (self->list && accepted != is_valid)
        printf("%s: %s at byte %zu of %.*s%s\n", name,
               accepted ? "INVALID ACCEPTED" : "valid refused", left_at,
               (int)(text.used < 300 ? text.used : 300), text.bytes,
               status == STATUS_OK ? "" : trail_text());
    text_buffer_fini(&text);
    return accepted == is_valid;
}

static void run_line(grammar_command_t *self, const document_t *line)
{
    uint32_t schema = document_member(line, 0, "schema"), tests = document_member(line, 0, "tests");
    uint32_t name_node = document_member(line, 0, "name");
    text_buffer_t name;
    grammar_refusal_t refusal;
    void *block = NULL;
    size_t bytes = 0;
    bool passes = true, first = true;

    if (schema == DOCUMENT_NONE || tests == DOCUMENT_NONE || name_node == DOCUMENT_NONE)
        return;
    text_buffer_init(&name, 256);
    document_put_string(line, name_node, &name);
    text_put(&name, "", 1);
    grammar_spec_t spec = {.kind = GRAMMAR_JSON_SCHEMA,
                           .source = line->text + line->nodes[schema].start,
                           .length = line->nodes[schema].end - line->nodes[schema].start};
    double start = now_us();
    status_t status = grammar_compile(&spec, grammar_vocabulary_digest(self->vocabulary), &block,
                                      &bytes, &refusal);
    add_time(&self->compile_us, now_us() - start);
    self->schemas++;
    if (status != STATUS_OK) {
        self->refused++;
        count_reason(self, refusal.keyword);
        if (self->list)
            printf("%s: refused: %s\n", name.bytes, trail_text());
    } else {
        for (uint32_t test = document_next(line, tests, DOCUMENT_NONE); test != DOCUMENT_NONE;
             test = document_next(line, tests, test)) {
            size_t before = self->first_us.count;
            passes = run_test(self, line, test, block, first, name.bytes) && passes;
            if (self->first_us.count > before)
                self->first_us.us[before] += self->compile_us.us[self->compile_us.count - 1];
            first = false;
        }
        self->passing += passes;
        if (bytes > self->block_bytes_max)
            self->block_bytes_max = bytes;
    }
    free(block);
    text_buffer_fini(&name);
}

/* The file, through gzip where its name says so. */
static FILE *open_lines(const char *path, pid_t *child)
{
    size_t length = strlen(path);
    int ends[2];

    *child = 0;
    if (length < 3 || strcmp(path + length - 3, ".gz") != 0)
        return fopen(path, "r");
    if (access(path, R_OK) != 0 || pipe(ends) != 0)
        return NULL;
    *child = fork();
    if (*child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        execlp("gzip", "gzip", "-dc", "--", path, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    return fdopen(ends[0], "r");
}

static status_t run_file(grammar_command_t *self, const char *path)
{
    pid_t child;
    FILE *file = open_lines(path, &child);
    char *text = NULL;
    size_t room = 0;
    ssize_t length;
    uint32_t number = 0;
    status_t status = STATUS_OK;

    if (file == NULL)
        return FAIL(STATUS_BAD_FILE, "cannot open %s: %m", path);
    while (status == STATUS_OK && (length = getline(&text, &room, file)) >= 0) {
        document_t line;
        number++;
        status = document_parse(&line, DOCUMENT_STRICT, text, (size_t)length);
        if (status == STATUS_OK)
            run_line(self, &line);
        else
            status = FAIL(STATUS_BAD_FILE, "%s:%u: no JSON object", path, number);
        document_fini(&line);
    }
    free(text);
    fclose(file);
    if (child > 0)
        waitpid(child, NULL, 0);
    return status;
}

static void print_times(const char *name, times_t *times, bool json)
{
    double p50 = percentile(times, 0.5), p99 = percentile(times, 0.99);

    if (json)
        printf(", \"%s_us\": {\"avg\": %.2f, \"p50\": %.2f, \"p99\": %.2f, \"count\": %zu}", name,
               average(times), p50, p99, times->count);
    else
        printf("  %-26s avg %8.1f  p50 %8.1f  p99 %8.1f us  (%zu)\n", name, average(times), p50,
               p99, times->count);
}

static void print_result(grammar_command_t *self)
{
    if (self->json) {
        printf(
            "{\"schemas\": %u, \"passing\": %u, \"refused\": %u, \"valid\": %u, \"invalid\": %u, "
            "\"valid_refused\": %u, \"invalid_accepted\": %u, \"vocabulary_ms\": %.1f, "
            "\"vocabulary_bytes\": %zu, \"block_bytes_max\": %zu",
            self->schemas, self->passing, self->refused, self->valid, self->invalid,
            self->valid_refused, self->invalid_accepted, self->vocabulary_ms,
            grammar_vocabulary_bytes(self->vocabulary), self->block_bytes_max);
    } else {
        printf("%u schemas: %u pass, %u refused\n", self->schemas, self->passing, self->refused);
        for (uint32_t i = 0; i < self->reason_count; i++)
            printf("  %5u refused for %s\n", self->reasons[i].count, self->reasons[i].keyword);
        printf("%u valid instances, %u refused; %u invalid, %u accepted\n", self->valid,
               self->valid_refused, self->invalid, self->invalid_accepted);
        printf("vocabulary: %zu bytes in %.1f ms; largest block %zu bytes\n",
               grammar_vocabulary_bytes(self->vocabulary), self->vocabulary_ms,
               self->block_bytes_max);
    }
    print_times("compile", &self->compile_us, self->json);
    print_times("compile_and_first_mask", &self->first_us, self->json);
    print_times("mask", &self->mask_us, self->json);
    print_times("take", &self->take_us, self->json);
    if (self->json)
        printf("}\n");
}

static char *read_whole(const char *path, size_t *length)
{
    FILE *file = fopen(path, "r");
    char *text = malloc(GRAMMAR_SOURCE_BYTES_MAX + 1);

    *length = 0;
    if (file != NULL && text != NULL)
        *length = fread(text, 1, GRAMMAR_SOURCE_BYTES_MAX + 1, file);
    if (file == NULL) {
        free(text);
        return NULL;
    }
    fclose(file);
    return text;
}

/* One schema, one instance: where does it leave? */
static int run_instance(grammar_command_t *self, const char *schema_path, const char *instance)
{
    size_t length, bytes, left_at;
    char *source = read_whole(schema_path, &length);
    document_t document;
    text_buffer_t text;
    grammar_refusal_t refusal;
    void *block = NULL;
    bool accepted;
    int code = EXIT_BAD_FILE;

    if (source == NULL) {
        fprintf(stderr, "lockstep grammar: cannot open %s: %m\n", schema_path);
        return EXIT_BAD_FILE;
    }
    text_buffer_init(&text, DOCUMENT_BYTES_MAX);
    grammar_spec_t spec = {.kind = GRAMMAR_JSON_SCHEMA, .source = source, .length = length};
    status_t status = document_parse(&document, DOCUMENT_STRICT, instance, strlen(instance));
    if (status == STATUS_OK) {
        document_put_python(&document, 0, &text);
        status = grammar_compile(&spec, grammar_vocabulary_digest(self->vocabulary), &block, &bytes,
                                 &refusal);
    }
    if (status == STATUS_OK)
        status = follow(self, block, text.bytes, text.used, true, &accepted, &left_at);
    if (status != STATUS_OK) {
        fprintf(stderr, "lockstep grammar: %s\n", trail_text());
    } else {
        code = accepted ? EXIT_OK : EXIT_FAILED;
        if (accepted)
            printf("the instance satisfies the schema: %.*s\n", (int)text.used, text.bytes);
        else
            printf("the instance leaves the schema at byte %zu, behind %.*s\n", left_at,
                   (int)left_at, text.bytes);
    }
    free(block);
    free(source);
    document_fini(&document);
    text_buffer_fini(&text);
    return code;
}

static status_t open_vocabulary(grammar_command_t *self)
{
    char path[PATH_BYTES_MAX];
    struct stat status;
    bool folder = stat(self->tokenizer_path, &status) == 0 && S_ISDIR(status.st_mode);

    snprintf(path, sizeof(path), "%s%s", self->tokenizer_path, folder ? "/tokenizer.json" : "");
    TRY(tokenizer_open(path, &self->tokenizer));
    double start = now_us();
    TRY(grammar_vocabulary_open(self->tokenizer, &self->vocabulary));
    self->vocabulary_ms = (now_us() - start) / 1e3;
    self->mask = malloc(grammar_vocabulary_words(self->vocabulary) * sizeof(uint64_t));
    self->tokens = malloc(TOKENS_MAX * sizeof(uint32_t));
    self->memory = malloc(GRAMMAR_MATCHER_BYTES);
    if (self->mask == NULL || self->tokens == NULL || self->memory == NULL)
        return FAIL(STATUS_NO_MEMORY, "grammar");
    return STATUS_OK;
}

int command_grammar(int argc, char **argv)
{
    grammar_command_t self = {.tokenizer_path = "model/tiny"};
    char **paths = calloc((size_t)argc, sizeof(char *));
    int path_count = 0, code = EXIT_OK;

    for (int at = 1; at < argc && paths != NULL; at++) {
        if (strcmp(argv[at], "--json") == 0)
            self.json = true;
        else if (strcmp(argv[at], "--list") == 0)
            self.list = true;
        else if (strcmp(argv[at], "--model") == 0 && at + 1 < argc)
            self.tokenizer_path = argv[++at];
        else if (strncmp(argv[at], "--", 2) == 0)
            path_count = argc;
        else
            paths[path_count++] = argv[at];
    }
    bool lines = path_count > 0 && path_count < argc && strstr(paths[0], ".jsonl") != NULL;
    if (path_count == 0 || path_count >= argc || (!lines && path_count != 2)) {
        free(paths);
        return command_usage("grammar", "expected FILE.jsonl[.gz]... or SCHEMA.json INSTANCE");
    }
    status_t status = open_vocabulary(&self);
    for (int i = 0; i < path_count && status == STATUS_OK && lines; i++)
        status = run_file(&self, paths[i]);
    if (status != STATUS_OK) {
        fprintf(stderr, "lockstep grammar: %s\n", trail_text());
        code = EXIT_BAD_FILE;
    } else if (lines) {
        print_result(&self);
        code = self.invalid_accepted > 0 ? EXIT_FAILED : EXIT_OK;
    } else {
        code = run_instance(&self, paths[0], paths[1]);
    }
    grammar_vocabulary_close(self.vocabulary);
    tokenizer_close(self.tokenizer);
    void *all[] = {self.mask,        self.tokens,     self.memory,     self.compile_us.us,
                   self.first_us.us, self.mask_us.us, self.take_us.us, paths};
    for (size_t i = 0; i < COUNT_OF(all); i++)
        free(all[i]);
    return code;
}

/* A segment is created at its whole size, blocks reserved, so that writing into the mapping can
 * never meet a full disk (which would be a SIGBUS). Of a file that somebody else cuts short while it is
 * written the rest is lost (mapped.h), and nothing is read back from it. Answers and outputs of the message in hand are
 * gathered aside and written with its result: room for the largest result is kept free whenever an
 * input is written, so a record is always whole within one segment. */
#include "runtime/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/base/log.h"
#include "runtime/base/mapped.h"
#include "runtime/base/random.h"
#include "runtime/codec.h"

enum {
    RESULT_BYTES_MAX = sizeof(journal_mark_t) + sizeof(journal_result_t) + JOURNAL_ANSWERS_MAX / 8 +
                       JOURNAL_OUTPUTS_MAX * sizeof(journal_output_t),
    BLOCK_BYTES = 4096,
    RUN_GAP_BYTES = 64 /* zeros that are not worth the end of a run: its head is not smaller */
};

_Static_assert(sizeof(journal_header_t) % 8 == 0 && sizeof(journal_run_t) % 8 == 0 &&
                   sizeof(journal_mark_t) % 8 == 0 && sizeof(journal_input_t) % 8 == 0 &&
                   sizeof(journal_result_t) % 8 == 0 && sizeof(journal_output_t) % 8 == 0,
               "everything in a file begins at a word");

typedef struct {
    uint8_t *bytes; /* mapped; NULL: there is none */
    size_t size;
    uint64_t used; /* as its header says, unless somebody wrote there */
    int guard;
    uint32_t number;
} segment_t;

struct journal {
    journal_place_t place;
    const message_table_t *table;
    const actor_birth_t *birth; /* what it points to outlives the journal */
    journal_header_t head;      /* what every segment's header has in common */
    const uint8_t *self;
    const actor_type_t *type;
    uint8_t *scratch; /* of a body; NULL unless withheld */

    segment_t segments[2]; /* even and odd numbers */
    segment_t *now;        /* NULL: the journal has ended */
    journal_run_t *runs;   /* of the state at its beginning */
    uint32_t run_count;
    uint32_t run_room;
    uint64_t record; /* number of the one in hand */
    bool in_hand;
    journal_result_t result;
    uint64_t answers[JOURNAL_ANSWERS_MAX / 64];
    journal_output_t outputs[JOURNAL_OUTPUTS_MAX];
    char directory[JOURNAL_PATH_BYTES];
};

/* ---- digests --------------------------------------------------------------------------------- */

/* Four lanes side by side, since every message goes through here. Each step is a bijection of its
 * lane, so a change of one word always changes the digest. */
static uint64_t digest_of(uint64_t seed, const void *bytes, size_t size)
{
    const uint64_t factor = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t lanes[4] = {seed, ~seed, seed + size, size}, digest = 0;
    const uint8_t *from = bytes;

    for (size_t at = 0; at < size; at += sizeof(lanes)) {
        uint64_t words[4] = {0};

        memcpy(words, from + at, size - at < sizeof(words) ? size - at : sizeof(words));
        for (uint32_t i = 0; i < 4; i++) {
            lanes[i] = (lanes[i] ^ words[i]) * factor;
            lanes[i] ^= lanes[i] >> 32;
        }
    }
    for (uint32_t i = 0; i < 4; i++)
        digest = random_mix(digest ^ lanes[i]);
    return digest;
}

uint64_t journal_header_check(const journal_header_t *header, const void *parts, size_t size)
{
    journal_header_t constant = *header;

    constant.used = 0;
    constant.check = 0;
    return digest_of(digest_of(0, &constant, sizeof(constant)), parts, size);
}

static uint64_t record_check(uint64_t number, uint32_t what, const void *bytes, size_t size)
{
    return digest_of(random_mix(number) ^ what, bytes, size);
}

uint64_t journal_record_check(uint64_t number, const journal_mark_t *mark)
{
    return record_check(number, mark->what, mark + 1, mark->bytes - sizeof(*mark));
}

uint64_t journal_asked(uint64_t asked, actor_id_t to, uint16_t id, bool answer)
{
    return random_mix(asked ^ ((uint64_t)to << 32 | (uint64_t)id << 1 | answer));
}

uint64_t journal_output_digest(const uint8_t *body, size_t size)
{
    return digest_of(0, body, size);
}

uint64_t journal_build(void)
{
    static uint64_t digest;
    uint8_t bytes[1 << 16];
    ssize_t count;
    int file;

    if (digest)
        return digest;
    file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    while (file >= 0 && (count = read(file, bytes, sizeof(bytes))) > 0)
        digest = digest_of(digest, bytes, (size_t)count);
    if (file >= 0)
        close(file);
    return digest;
}

static uint64_t mix_text(uint64_t digest, const char *text)
{
    return digest_of(digest, text, strlen(text));
}

static uint64_t mix_record(uint64_t digest, const record_t *record)
{
    for (uint32_t i = 0; i < record->field_count; i++) {
        const field_t *field = &record->fields[i];

        digest = random_mix(mix_text(digest, field->name) ^ field->type);
        if (field->record)
            digest = mix_record(digest, field->record);
    }
    return digest;
}

uint64_t journal_table(const message_table_t *table)
{
    uint64_t digest = table->count;

    for (uint32_t id = 0; id < table->count; id++)
        if (table->rows[id].name)
            digest =
                mix_record(mix_text(digest ^ id, table->rows[id].name), &table->rows[id].record);
    return digest;
}

static bool record_holds_tokens(const record_t *record)
{
    for (uint32_t i = 0; i < record->field_count; i++) {
        const field_t *field = &record->fields[i];

        if (field->type == FIELD_TOKEN || field->type == FIELD_TOKENS ||
            (field->record && record_holds_tokens(field->record)))
            return true;
    }
    return false;
}

bool journal_sees_tokens(const message_table_t *table, actor_kind_t kind)
{
    for (uint32_t id = 0; id < table->count; id++) {
        const message_row_t *row = &table->rows[id];

        if (row->name && (row->to & BIT(kind)) && record_holds_tokens(&row->record))
            return true;
    }
    return false;
}

/* ---- segments -------------------------------------------------------------------------------- */

static void segment_path(const journal_t *journal, uint32_t number, char *path)
{
    char name[ACTOR_NAME_BYTES_MAX];
    int length;

    memcpy(name, journal->head.name, sizeof(name));
    for (char *at = name; *at; at++)
        if (*at == '/')
            *at = '.';
    length = snprintf(path, JOURNAL_PATH_BYTES, "%s/%s-%u-%06u.journal", journal->directory, name,
                      journal->head.incarnation, number);
    ASSERT(length < JOURNAL_PATH_BYTES); /* journal_open looked */
}

static journal_header_t *header_of(const journal_t *journal)
{
    return (journal_header_t *)(void *)journal->now->bytes;
}

static void publish(journal_t *journal, uint64_t used)
{
    journal->now->used = used;
    __atomic_store_n(&header_of(journal)->used, used, __ATOMIC_RELEASE);
}

static uint64_t used_of(const journal_t *journal)
{
    return journal->now->used;
}

static uint64_t word_at(const journal_t *journal, uint64_t at)
{
    uint64_t word = 0, left = journal->head.state_bytes - at;

    memcpy(&word, journal->self + at, left < sizeof(word) ? left : sizeof(word));
    return word;
}

static bool is_zero(const uint8_t *block)
{
    return block[0] == 0 && memcmp(block, block + 1, BLOCK_BYTES - 1) == 0;
}

/* The next run of words that are not zero, from `*at` on and below `end`. False: there is none. Most
 * of a state is tables that nothing stands in. */
static bool next_run(const journal_t *journal, uint64_t end, uint64_t *at, journal_run_t *run)
{
    uint64_t last;

    while (*at < end && word_at(journal, *at) == 0) {
        bool block = *at % BLOCK_BYTES == 0 && *at + BLOCK_BYTES <= end;

        *at += block && is_zero(journal->self + *at) ? BLOCK_BYTES : sizeof(uint64_t);
    }
    if (*at >= end)
        return false;
    run->offset = last = *at;
    for (; *at < end && *at - last <= RUN_GAP_BYTES; *at += sizeof(uint64_t))
        if (word_at(journal, *at) != 0)
            last = *at;
    *at = last + sizeof(uint64_t);
    run->size = (*at < end ? *at : end) - run->offset;
    return true;
}

static status_t collect_runs_below(journal_t *journal, uint64_t at, uint64_t end, uint64_t *bytes)
{
    journal_run_t run;

    while (next_run(journal, end, &at, &run)) {
        if (journal->run_count == journal->run_room) {
            uint32_t room = journal->run_room ? 2 * journal->run_room : 1024;
            journal_run_t *runs = realloc(journal->runs, room * sizeof(*runs));

            if (!runs)
                return FAIL(STATUS_NO_MEMORY, "%u runs of a state", room);
            journal->runs = runs;
            journal->run_room = room;
        }
        journal->runs[journal->run_count++] = run;
        *bytes += sizeof(run) + journal_padded(run.size);
    }
    return STATUS_OK;
}

/* Finds what must be kept of the state. */
static status_t collect_runs(journal_t *journal, uint64_t *bytes)
{
    size_t from = 0, to = 0;

    journal->run_count = 0;
    *bytes = 0;
    if (journal->head.withheld)
        return STATUS_OK;
    if (journal->type->untouched)
        journal->type->untouched(journal->self, &from, &to);
    from = journal_padded(from);
    to -= to % BLOCK_BYTES;
    if (from >= to)
        return collect_runs_below(journal, 0, journal->head.state_bytes, bytes);
    TRY(collect_runs_below(journal, 0, from, bytes));
    return collect_runs_below(journal, to, journal->head.state_bytes, bytes);
}

static void put(uint8_t **to, const void *bytes, size_t size)
{
    if (size)
        memcpy(*to, bytes, size);
    *to += journal_padded(size);
}

static void write_head(journal_t *journal, uint64_t runs_bytes)
{
    journal_header_t *header = header_of(journal);
    uint8_t *parts = (uint8_t *)(header + 1), *to = parts;

    publish(journal, 0); /* what stood there before is no journal from here on */
    *header = journal->head;
    header->number = journal->now->number;
    header->runs_bytes = runs_bytes;
    header->first = journal->record;
    put(&to, journal->birth->topology, header->topology_bytes);
    put(&to, journal->birth->setup, header->setup_bytes);
    for (uint32_t i = 0; i < journal->run_count; i++) {
        put(&to, &journal->runs[i], sizeof(*journal->runs));
        put(&to, journal->self + journal->runs[i].offset, journal->runs[i].size);
    }
    header->check = journal_header_check(header, parts, (size_t)(to - parts));
    publish(journal, (uint64_t)(to - journal->now->bytes));
}

static status_t create(const char *path, segment_t *segment)
{
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), error;
    void *memory = MAP_FAILED;

    if (file < 0)
        return FAIL(STATUS_IO, "cannot create %s: %s", path, strerror(errno));
    error = posix_fallocate(file, 0, (off_t)segment->size);
    if (error == 0) {
        memory = mmap(NULL, segment->size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        error = errno;
    }
    close(file);
    if (memory == MAP_FAILED) {
        unlink(path);
        return FAIL(STATUS_IO, "%s of %zu bytes: %s", path, segment->size, strerror(error));
    }
    segment->bytes = memory;
    segment->guard = mapped_guard(memory, segment->size);
    return STATUS_OK;
}

/* Its file stays, or goes. */
static void drop_segment(const journal_t *journal, segment_t *segment, bool keep)
{
    char path[JOURNAL_PATH_BYTES];
    bool lost;

    if (!segment->bytes)
        return;
    lost = mapped_is_lost(segment->guard);
    mapped_release(segment->guard);
    munmap(segment->bytes, segment->size);
    segment->bytes = NULL;
    segment_path(journal, segment->number, path);
    if (!keep)
        (void)unlink(path);
    else if (!lost && truncate(path, (off_t)segment->used) != 0)
        LOG(WARN, "JOURNAL-LONG file=%s used=%llu: %s", path, (unsigned long long)segment->used,
            strerror(errno));
}

/* Begins segment `number` in the place of the one before the last, with the state as it is: its file
 * and memory are taken over if they are large enough, which saves the system making new ones. A
 * segment has at least as much room for records as its state takes, so that a large state is not
 * written more often than it is worth. `input` is the size of a record that must fit. */
static status_t begin_segment(journal_t *journal, uint32_t number, size_t input)
{
    const journal_header_t *head = &journal->head;
    segment_t *segment = &journal->segments[number % 2];
    char from[JOURNAL_PATH_BYTES], path[JOURNAL_PATH_BYTES];
    uint64_t runs_bytes = 0;
    size_t size, room = journal->place.segment_bytes;

    TRY(collect_runs(journal, &runs_bytes));
    room = room < runs_bytes ? runs_bytes : room;
    size = sizeof(*head) + journal_padded(head->topology_bytes) +
           journal_padded(head->setup_bytes) + runs_bytes + input + RESULT_BYTES_MAX + room;
    segment_path(journal, number, path);
    segment_path(journal, segment->number, from);
    if (segment->bytes && (segment->size < size || mapped_is_lost(segment->guard) ||
                           rename(from, path) != 0))
        drop_segment(journal, segment, false);
    segment->number = number;
    if (!segment->bytes) {
        segment->size = size;
        TRY(create(path, segment));
    }
    journal->now = segment;
    write_head(journal, runs_bytes);
    return STATUS_OK;
}

static void end_journal(journal_t *journal)
{
    for (uint32_t i = 0; i < COUNT_OF(journal->segments); i++)
        drop_segment(journal, &journal->segments[i], true);
    journal->now = NULL;
}

static void next_segment(journal_t *journal, size_t input)
{
    if (begin_segment(journal, journal->now->number + 1, input) == STATUS_OK)
        return;
    LOG(ERROR, "JOURNAL-ENDS actor=%s record=%llu: %s", journal->head.name,
        (unsigned long long)journal->record, trail_text());
    end_journal(journal);
}

/* ---- records --------------------------------------------------------------------------------- */

static journal_mark_t *mark_at_end(const journal_t *journal)
{
    return (journal_mark_t *)(void *)(journal->now->bytes + used_of(journal));
}

static void commit(journal_t *journal, journal_what_t what, const uint8_t *end)
{
    journal_mark_t *mark = mark_at_end(journal);

    mark->what = what;
    mark->bytes = (uint32_t)(end - (const uint8_t *)mark);
    mark->check = record_check(journal->record, what, mark + 1,
                               (size_t)(end - (const uint8_t *)(mark + 1)));
    publish(journal, (uint64_t)(end - journal->now->bytes));
}

/* What may be kept of a body without its token ids. One that cannot be read has none that can be
 * found, so nothing of it is kept. */
static const uint8_t *blanked(journal_t *journal, uint16_t id, const uint8_t *body, size_t size)
{
    const message_row_t *row = id < journal->table->count ? &journal->table->rows[id] : NULL;

    if (size == 0)
        return body;
    memcpy(journal->scratch, body, size);
    if (!row || !row->name || codec_blank_tokens(row, journal->scratch, size) != STATUS_OK)
        memset(journal->scratch, 0, size);
    return journal->scratch;
}

void journal_input(journal_t *journal, journal_what_t what, const journal_input_t *input,
                   const uint8_t *body)
{
    size_t bytes = sizeof(journal_mark_t) + sizeof(*input) + journal_padded(input->size);
    uint8_t *to;

    if (!journal || !journal->now)
        return;
    ASSERT(!journal->in_hand);
    if (mapped_is_lost(journal->now->guard)) {
        LOG(ERROR, "JOURNAL-ENDS actor=%s record=%llu: its file was cut short by somebody else",
            journal->head.name, (unsigned long long)journal->record);
        end_journal(journal);
        return;
    }
    if (used_of(journal) + bytes + RESULT_BYTES_MAX > journal->now->size)
        next_segment(journal, bytes);
    if (!journal->now)
        return;
    journal->in_hand = true;
    journal->result = (journal_result_t){0};
    to = (uint8_t *)(mark_at_end(journal) + 1);
    put(&to, input, sizeof(*input));
    put(&to, journal->head.withheld ? blanked(journal, input->id, body, input->size) : body,
        input->size);
    commit(journal, what, to);
}

void journal_answer(journal_t *journal, actor_id_t to, uint16_t id, bool answer)
{
    journal_result_t *result;
    uint32_t at;

    if (!journal || !journal->in_hand || journal->head.withheld)
        return;
    result = &journal->result;
    at = result->answer_count;
    if (at == JOURNAL_ANSWERS_MAX) {
        result->lost = 1;
        return;
    }
    if (at % 64 == 0)
        journal->answers[at / 64] = 0;
    journal->answers[at / 64] |= (uint64_t)answer << at % 64;
    result->answer_count++;
    result->asked = journal_asked(result->asked, to, id, answer);
}

void journal_output(journal_t *journal, actor_id_t to, uint16_t id, const uint8_t *body,
                    size_t size)
{
    journal_output_t *output;

    if (!journal || !journal->in_hand)
        return;
    if (journal->result.output_count == JOURNAL_OUTPUTS_MAX) {
        journal->result.lost = 1;
        return;
    }
    output = &journal->outputs[journal->result.output_count++];
    *output = (journal_output_t){.size = (uint32_t)size, .to = to, .id = id};
    if (!journal->head.withheld)
        output->digest = journal_output_digest(body, size);
}

void journal_result(journal_t *journal, status_t status, uint8_t state, uint32_t attempts)
{
    journal_result_t *result;
    uint8_t *to;

    if (!journal || !journal->in_hand)
        return;
    result = &journal->result;
    result->status = (uint8_t)status;
    result->state = state;
    result->attempts = attempts;
    to = (uint8_t *)(mark_at_end(journal) + 1);
    put(&to, result, sizeof(*result));
    put(&to, journal->answers, journal_padded((result->answer_count + 7) / 8));
    put(&to, journal->outputs, result->output_count * sizeof(*journal->outputs));
    commit(journal, JOURNAL_RESULT, to);
    journal->record++;
    journal->in_hand = false;
    if (result->lost)
        next_segment(journal, 0);
}

/* ---- life ------------------------------------------------------------------------------------ */

static status_t open_parts(journal_t *journal, const actor_type_t *type, const char *name,
                           const void *self, size_t self_bytes)
{
    const actor_birth_t *birth = journal->birth;
    journal_header_t *head = &journal->head;
    char path[JOURNAL_PATH_BYTES];
    int length = snprintf(path, sizeof(path), "%s/%s-4294967295-999999999.journal",
                          journal->place.directory, name);

    if (length >= JOURNAL_PATH_BYTES)
        return FAIL(STATUS_TOO_LARGE, "a journal's path of %d bytes", length);
    snprintf(journal->directory, sizeof(journal->directory), "%s", journal->place.directory);
    *head = (journal_header_t){
        .magic = JOURNAL_MAGIC,
        .version = JOURNAL_VERSION,
        .build = journal_build(),
        .table = journal_table(journal->table),
        .withheld = !journal->place.tokens && journal_sees_tokens(journal->table, type->kind),
        .state_bytes = self_bytes,
        .topology_bytes = birth->topology ? journal->place.topology_bytes : 0,
        .setup_bytes = birth->setup ? birth->setup_bytes : 0,
        .incarnation = birth->incarnation,
        .actor = birth->id,
        .kind = (uint16_t)type->kind,
    };
    snprintf(head->name, sizeof(head->name), "%s", name);
    journal->self = self;
    journal->type = type;
    if (head->withheld) {
        journal->scratch = malloc(MESSAGE_BYTES_MAX);
        if (!journal->scratch)
            return FAIL(STATUS_NO_MEMORY, "a message without its token ids");
    }
    return begin_segment(journal, 0, 0);
}

status_t journal_open(const journal_place_t *place, const message_table_t *table,
                      const actor_type_t *type, const actor_birth_t *birth, const char *name,
                      const void *self, size_t self_bytes, journal_t **journal_p)
{
    journal_t *journal = calloc(1, sizeof(*journal));
    status_t status;

    if (!journal)
        return FAIL(STATUS_NO_MEMORY, "a journal");
    journal->place = *place;
    journal->table = table;
    journal->birth = birth;
    if (journal->place.segment_bytes == 0)
        journal->place.segment_bytes = JOURNAL_SEGMENT_BYTES;
    status = open_parts(journal, type, name, self, self_bytes);
    if (status != STATUS_OK) {
        journal_close(journal);
        return trail_pass(status, __func__, __LINE__);
    }
    *journal_p = journal;
    return STATUS_OK;
}

void journal_close(journal_t *journal)
{
    if (!journal)
        return;
    end_journal(journal);
    free(journal->runs);
    free(journal->scratch);
    free(journal);
}

void journal_trim(const char *path)
{
    journal_header_t header;
    int file = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);

    if (file < 0)
        return;
    if (pread(file, &header, sizeof(header), 0) == (ssize_t)sizeof(header) &&
        header.magic == JOURNAL_MAGIC && header.used >= sizeof(header) &&
        ftruncate(file, (off_t)header.used) != 0)
        LOG(WARN, "JOURNAL-LONG file=%s: %s", path, strerror(errno));
    close(file);
}

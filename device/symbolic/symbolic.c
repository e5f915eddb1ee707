/* symbolic.c - see symbolic.h. */
#include "device/symbolic/symbolic.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cache/geometry.h"
#include "device/backend.h"
#include "kernels/sample/sample.h"
#include "runtime/base/random.h"

enum { WORLD_POOLS_MAX = 256 };

#define PREFIX_ROOT UINT64_C(0x6c6f636b73746570) /* hash of the empty prefix */

/* Readers and the owner may be different processes: every word is read and written whole. */
typedef struct {
    uint64_t words[SYMBOLIC_WORDS];
} content_t;

/* A pool is there for its owner and for each that mapped it. */
struct symbolic_world {
    pthread_mutex_t lock;
    struct {
        char name[DEVICE_NAME_BYTES_MAX]; /* "" once the owner has left */
        void *memory;                     /* NULL: a free place */
        uint32_t references;
    } pools[WORLD_POOLS_MAX];
};

typedef struct {
    device_generic_t base;
    symbolic_setup_t setup;
    uint32_t mistakes;
} symbolic_t;

/* ---- prefix hashes and words -------------------------------------------------------------------
 */

static uint64_t prefix_step(uint64_t hash, uint32_t token)
{
    return random_mix(hash ^ (UINT64_C(0x9e3779b97f4a7c15) * ((uint64_t)token + 1)));
}

static uint64_t layer_word(uint64_t a, uint64_t b, uint32_t layer)
{
    return random_mix(random_mix(a + layer + 1) ^ b);
}

static void fill_words(uint64_t a, uint64_t b, uint64_t words[SYMBOLIC_WORDS])
{
    words[0] = a;
    words[1] = b;
    for (uint32_t layer = 0; layer + 2 < SYMBOLIC_WORDS; layer++)
        words[layer + 2] = layer_word(a, b, layer);
}

static uint64_t words_digest(const uint64_t words[SYMBOLIC_WORDS])
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < SYMBOLIC_WORDS; i++)
        sum += random_mix(words[i] ^ random_mix(i));
    return sum;
}

static uint64_t float_word(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return random_mix(bits);
}

/* What penalties make of a draw: 0 without any. As in the real sampler, repetition looks at prompt and answer
 * alike, presence and frequency at the answer only. */
static uint64_t penalty_word(const device_sampling_t *sampling, const uint32_t *prompt,
                             uint32_t prompt_count, const uint32_t *answer, uint32_t answer_count)
{
    uint64_t all = PREFIX_ROOT;
    uint64_t said = PREFIX_ROOT;
    uint64_t word = 0;
    if (sampling->repetition_penalty != 1) {
        for (uint32_t i = 0; i < prompt_count; i++)
            all = prefix_step(all, prompt[i]);
        for (uint32_t i = 0; i < answer_count; i++)
            all = prefix_step(all, answer[i]);
        word += all ^ float_word(sampling->repetition_penalty);
    }
    if (sampling->presence_penalty != 0 || sampling->frequency_penalty != 0) {
        for (uint32_t i = 0; i < answer_count; i++)
            said = prefix_step(said, answer[i]);
        word += random_mix(said ^ float_word(sampling->presence_penalty)) ^
                float_word(sampling->frequency_penalty);
    }
    return word;
}

static uint32_t draw(const symbolic_setup_t *setup, uint64_t hash,
                     const device_sampling_t *sampling, uint64_t penalties)
{
    uint64_t key = random_mix(hash ^ setup->weights) ^ penalties;
    if (sampling->temperature > 0)
        key = random_at(key, sampling->seed);
    if (setup->answer_tokens != 0 && random_at(key, 1) % setup->answer_tokens == 0)
        return setup->end_token;
    uint32_t token = (uint32_t)(random_at(key, 2) % setup->vocabulary);
    return token == setup->end_token ? (token + 1) % setup->vocabulary : token;
}

uint32_t symbolic_next(const symbolic_setup_t *setup, const uint32_t *prefix, uint32_t count,
                       const device_sampling_t *sampling)
{
    uint64_t hash = PREFIX_ROOT;
    for (uint32_t i = 0; i < count; i++)
        hash = prefix_step(hash, prefix[i]);
    return draw(setup, hash, sampling, penalty_word(sampling, prefix, count, NULL, 0));
}

static bool ends(const symbolic_setup_t *setup, uint32_t token, bool ignore_end,
                 const uint32_t *stop_tokens, uint32_t stop_count)
{
    if (token == setup->end_token && !ignore_end)
        return true;
    for (uint32_t i = 0; i < stop_count; i++) {
        if (stop_tokens[i] == token)
            return true;
    }
    return false;
}

uint32_t symbolic_answer(const symbolic_setup_t *setup, const uint32_t *prompt,
                         uint32_t prompt_count, const device_sampling_t *sampling, bool ignore_end,
                         const uint32_t *stop_tokens, uint32_t stop_count, uint32_t length_max,
                         uint32_t *tokens, uint32_t size)
{
    uint64_t hash = PREFIX_ROOT;
    for (uint32_t i = 0; i < prompt_count; i++)
        hash = prefix_step(hash, prompt[i]);
    uint32_t count = 0;
    while (count < length_max && count < size) {
        uint32_t token = draw(setup, hash, sampling,
                              penalty_word(sampling, prompt, prompt_count, tokens, count));
        tokens[count++] = token;
        if (ends(setup, token, ignore_end, stop_tokens, stop_count))
            break;
        hash = prefix_step(hash, token);
    }
    return count;
}

/* ---- pools -------------------------------------------------------------------------------------
 */

static content_t *content_of(const device_memory_t *pool, unit_kind_t unit, uint32_t index)
{
    ASSERT(index < pool->counts[unit]);
    size_t first = 0;
    for (uint32_t kind = 0; kind < (uint32_t)unit; kind++)
        first += pool->counts[kind];
    return (content_t *)(void *)pool->units + first + index;
}

static void words_read(const device_memory_t *pool, unit_kind_t unit, uint32_t index,
                       uint64_t words[SYMBOLIC_WORDS])
{
    const content_t *content = content_of(pool, unit, index);
    for (uint32_t i = 0; i < SYMBOLIC_WORDS; i++)
        words[i] = __atomic_load_n(&content->words[i], __ATOMIC_ACQUIRE);
}

static void words_write(const device_memory_t *pool, unit_kind_t unit, uint32_t index,
                        const uint64_t words[SYMBOLIC_WORDS])
{
    content_t *content = content_of(pool, unit, index);
    for (uint32_t i = 0; i < SYMBOLIC_WORDS; i++)
        __atomic_store_n(&content->words[i], words[i], __ATOMIC_RELEASE);
}

static void unit_fill(device_generic_t *device, unit_kind_t unit, uint32_t index, uint64_t a,
                      uint64_t b)
{
    uint64_t words[SYMBOLIC_WORDS];
    fill_words(a, b, words);
    words_write(&device->pool, unit, index, words);
}

static status_t symbolic_units_bytes(const device_generic_t *device,
                                     const uint32_t counts[UNIT_COUNT], uint64_t *bytes)
{
    (void)device;
    *bytes = ((uint64_t)counts[0] + counts[1] + counts[2]) * sizeof(content_t);
    return STATUS_OK;
}

static void symbolic_test_fill(device_generic_t *device)
{
    unit_fill(device, UNIT_HISTORY, 0, PREFIX_ROOT, device->config.incarnation);
}

static uint64_t symbolic_digest(const device_generic_t *device, const device_memory_t *pool,
                                unit_kind_t unit, uint32_t index, uint32_t rows)
{
    uint64_t words[SYMBOLIC_WORDS];
    (void)device;
    (void)rows; /* the words say how far a page is filled */
    words_read(pool, unit, index, words);
    return words_digest(words);
}

static status_t symbolic_copy(device_generic_t *device, const device_memory_t *from,
                              const device_copy_t *copies, uint32_t count)
{
    uint64_t words[SYMBOLIC_WORDS];
    for (uint32_t i = 0; i < count; i++) {
        words_read(from, copies[i].unit, copies[i].source, words);
        words_write(&device->pool, copies[i].unit, copies[i].target, words);
    }
    return STATUS_OK;
}

/* ---- a world's pools ----------------------------------------------------------------------------
 */

static symbolic_world_t *world_of(const device_generic_t *device)
{
    return ((const symbolic_t *)device)->setup.world;
}

static status_t world_create(device_generic_t *device, uint64_t bytes, void **memory)
{
    symbolic_world_t *world = world_of(device);
    uint32_t place = 0;
    void *fresh = aligned_alloc(DEVICE_POOL_ALIGN, bytes);
    if (fresh == NULL)
        return FAIL(STATUS_NO_MEMORY, "pool of %llu bytes", (unsigned long long)bytes);
    memset(fresh, 0, bytes);
    pthread_mutex_lock(&world->lock);
    while (place < WORLD_POOLS_MAX && world->pools[place].memory != NULL)
        place++;
    if (place < WORLD_POOLS_MAX) {
        world->pools[place].memory = fresh;
        world->pools[place].references = 1;
        memcpy(world->pools[place].name, device->config.pool.name, DEVICE_NAME_BYTES_MAX);
    }
    pthread_mutex_unlock(&world->lock);
    if (place == WORLD_POOLS_MAX) {
        free(fresh);
        return FAIL(STATUS_NO_MEMORY, "more than %d pools in one world", WORLD_POOLS_MAX);
    }
    *memory = fresh;
    return STATUS_OK;
}

static status_t world_map(device_generic_t *device, const device_pool_t *wanted, void **memory)
{
    symbolic_world_t *world = world_of(device);
    *memory = NULL;
    pthread_mutex_lock(&world->lock);
    for (uint32_t i = 0; i < WORLD_POOLS_MAX && *memory == NULL; i++) {
        if (world->pools[i].memory != NULL && strcmp(world->pools[i].name, wanted->name) == 0) {
            world->pools[i].references++;
            *memory = world->pools[i].memory;
        }
    }
    pthread_mutex_unlock(&world->lock);
    return *memory != NULL ? STATUS_OK : FAIL(STATUS_NOT_FOUND, "no pool %s", wanted->name);
}

/* The owner takes the name away; the memory stays until the last mapper is gone. */
static void world_unmap(device_generic_t *device, void *memory, bool own)
{
    symbolic_world_t *world = world_of(device);
    pthread_mutex_lock(&world->lock);
    for (uint32_t i = 0; i < WORLD_POOLS_MAX; i++) {
        if (world->pools[i].memory != memory)
            continue;
        if (own)
            world->pools[i].name[0] = '\0';
        if (--world->pools[i].references == 0) {
            world->pools[i].memory = NULL;
            free(memory);
        }
        break;
    }
    pthread_mutex_unlock(&world->lock);
}

symbolic_world_t *symbolic_world_open(void)
{
    symbolic_world_t *world = calloc(1, sizeof *world);
    if (world != NULL)
        pthread_mutex_init(&world->lock, NULL);
    return world;
}

void symbolic_world_close(symbolic_world_t *world)
{
    for (uint32_t i = 0; i < WORLD_POOLS_MAX; i++)
        ASSERT(world->pools[i].memory == NULL);
    pthread_mutex_destroy(&world->lock);
    free(world);
}

/* ---- life --------------------------------------------------------------------------------------
 */

static const device_backend_t symbolic_backend[2];

static void symbolic_close(device_generic_t *device)
{
    free(device);
}

static status_t symbolic_open(const device_config_t *config, const void *setup,
                              volatile uint32_t *progress, device_t **device)
{
    const symbolic_setup_t *s = setup;
    symbolic_t *self = calloc(1, sizeof *self);
    if (self == NULL)
        return FAIL(STATUS_NO_MEMORY, "device");
    self->setup = *s;
    self->base.base.ops = &symbolic_ops;
    self->base.backend = &symbolic_backend[s->world != NULL];
    self->base.config = *config;
    self->base.shape = (device_shape_t){
        .vocabulary = s->vocabulary,
        .positions_max = config->page_count * PAGE_TOKENS,
        .rows_max = UINT32_MAX,
        .digests = {.weights = random_mix(s->weights), .geometry = random_mix(SYMBOLIC_WORDS)}};
    self->base.shape.digests.numerics =
        random_mix(self->base.shape.digests.weights + config->world);
    status_t status = generic_open(&self->base);
    if (status != STATUS_OK) {
        generic_close(&self->base.base);
        return status;
    }
    if (progress != NULL)
        *progress = 1000;
    *device = &self->base.base;
    return STATUS_OK;
}

/* ---- steps -------------------------------------------------------------------------------------
 */

/* Reads a unit and holds it to its own first two words. */
static status_t read_checked(const device_generic_t *device, unit_kind_t unit, uint32_t index,
                             uint64_t words[SYMBOLIC_WORDS])
{
    uint64_t expected[SYMBOLIC_WORDS];
    words_read(&device->pool, unit, index, words);
    fill_words(words[0], words[1], expected);
    for (uint32_t i = 2; i < SYMBOLIC_WORDS; i++) {
        if (words[i] != expected[i])
            return FAIL(STATUS_CORRUPT, "%s %u word %u: expected %016llx, found %016llx",
                        unit_kind_name(unit), index, i, (unsigned long long)expected[i],
                        (unsigned long long)words[i]);
    }
    return STATUS_OK;
}

/* The slot's state must be of `position` tokens, and its pages must hold the history of just those.
 */
static status_t read_history(const device_generic_t *device, uint32_t index, uint32_t position,
                             uint64_t *hash)
{
    const device_slot_t *slot = &device->slots[index];
    uint64_t words[SYMBOLIC_WORDS];
    TRY(read_checked(device, UNIT_SLOT, index, words));
    if (words[0] != position)
        return FAIL(STATUS_CORRUPT, "slot %u: expected position %u, found %llu", index, position,
                    (unsigned long long)words[0]);
    *hash = words[1];
    uint32_t count = (position + PAGE_TOKENS - 1) / PAGE_TOKENS;
    if (count > slot->page_count)
        return FAIL(STATUS_INVALID, "slot %u has %u pages, position %u needs %u", index,
                    slot->page_count, position, count);
    uint64_t end = PREFIX_ROOT;
    for (uint32_t i = 0; i < count; i++) {
        TRY(read_checked(device, UNIT_HISTORY, slot->pages[i], words));
        if (words[0] != end)
            return FAIL(STATUS_CORRUPT,
                        "slot %u page %u (ordinal %u): expected start %016llx, "
                        "found %016llx",
                        index, slot->pages[i], i, (unsigned long long)end,
                        (unsigned long long)words[0]);
        end = words[1];
    }
    if (end != *hash)
        return FAIL(STATUS_CORRUPT,
                    "slot %u page %u (ordinal %u): expected end %016llx, found %016llx", index,
                    count == 0 ? 0 : slot->pages[count - 1], count - 1, (unsigned long long)*hash,
                    (unsigned long long)end);
    return STATUS_OK;
}

static status_t symbolic_start(device_generic_t *device, uint32_t slot, uint32_t position)
{
    uint64_t hash = 0;
    if (position != 0)
        return read_history(device, slot, position, &hash);
    unit_fill(device, UNIT_SLOT, slot, 0, PREFIX_ROOT);
    return STATUS_OK;
}

static status_t symbolic_load(device_generic_t *device, uint32_t border, uint32_t slot,
                              uint32_t position)
{
    uint64_t words[SYMBOLIC_WORDS];
    uint64_t hash = 0;
    TRY(read_checked(device, UNIT_BORDER, border, words));
    if (words[0] != position)
        return FAIL(STATUS_CORRUPT, "border %u: expected position %u, found %llu", border, position,
                    (unsigned long long)words[0]);
    unit_fill(device, UNIT_SLOT, slot, words[0], words[1]);
    return read_history(device, slot, position, &hash);
}

static void draw_token(symbolic_t *self, const device_run_t *run, uint64_t hash,
                       device_token_t *token)
{
    const device_slot_t *slot = &self->base.slots[run->slot];
    const device_sampling_t *sampling = &slot->sampling;
    uint64_t penalties =
        penalty_word(sampling, slot->tokens, slot->prompt_count, slot->tokens + slot->prompt_count,
                     slot->token_count - slot->prompt_count);
    token->token = draw(&self->setup, hash, sampling, penalties);
    if (self->mistakes > 0) {
        self->mistakes--;
        token->token = (token->token + 1) % self->setup.vocabulary;
    }
    if (sampling->logprobs == 0)
        return;
    token->logprob = -(float)(hash % 1000) / 256;
    token->top_count = sampling->logprobs - 1;
    for (uint32_t i = 0; i < token->top_count && i < LOGPROBS_MAX; i++) {
        token->top_tokens[i] = (token->token + i) % self->setup.vocabulary;
        token->top_logprobs[i] = token->logprob - (float)i;
    }
}

/* Writes the page that holds position - 1, filled up to `position`, and the border kept at its end. */
static void fill_page(symbolic_t *self, const device_run_t *run, uint32_t position, uint64_t start,
                      uint64_t hash)
{
    uint32_t ordinal = (position - 1) / PAGE_TOKENS;
    unit_fill(&self->base, UNIT_HISTORY, self->base.slots[run->slot].pages[ordinal], start, hash);
    for (uint32_t i = 0; i < run->border_count; i++) {
        if (run->border_pages[i] == ordinal && position % PAGE_TOKENS == 0)
            unit_fill(&self->base, UNIT_BORDER, run->border_targets[i], position, hash);
    }
}

static status_t run_one(symbolic_t *self, const device_run_t *run, device_outcome_t *outcome)
{
    const device_slot_t *slot = &self->base.slots[run->slot];
    uint32_t end = run->position + run->count;
    uint64_t words[SYMBOLIC_WORDS];
    uint64_t hash = 0;
    TRY(read_history(&self->base, run->slot, run->position, &hash));
    uint64_t start = hash;
    if (run->position % PAGE_TOKENS != 0) {
        words_read(&self->base.pool, UNIT_HISTORY, slot->pages[run->position / PAGE_TOKENS], words);
        start = words[0];
    }
    for (uint32_t i = 0; i < run->count; i++) {
        uint32_t position = run->position + i + 1;
        hash = prefix_step(hash, run->tokens[i]);
        if (position % PAGE_TOKENS == 0 || position == end)
            fill_page(self, run, position, start, hash);
        if (position % PAGE_TOKENS == 0)
            start = hash;
    }
    unit_fill(&self->base, UNIT_SLOT, run->slot, end, hash);
    *outcome = (device_outcome_t){.state = hash};
    if (run->draw)
        draw_token(self, run, hash, &outcome->token);
    return STATUS_OK;
}

static status_t symbolic_run(device_generic_t *device, const device_run_t *runs, uint32_t count,
                             device_outcome_t *outcomes)
{
    for (uint32_t i = 0; i < count; i++)
        TRY(run_one((symbolic_t *)device, &runs[i], &outcomes[i]));
    return STATUS_OK;
}

/* Takes the time of a step. */
static void symbolic_begin(device_generic_t *device, const device_step_t *step)
{
    const uint32_t ms = ((const symbolic_t *)device)->setup.step_ms;
    const struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};

    for (uint32_t i = 0; ms != 0 && i < step->item_count; i++) {
        if (step->items[i].kind == DEVICE_RUN) {
            (void)nanosleep(&time, NULL);
            return;
        }
    }
}

/* ---- faults ------------------------------------------------------------------------------------
 */

void symbolic_flip(device_t *device, unit_kind_t unit, uint32_t index, uint32_t word, uint32_t bit)
{
    symbolic_t *self = (symbolic_t *)device;
    ASSERT(word < SYMBOLIC_WORDS);
    ASSERT(bit < 64);
    content_of(&self->base.pool, unit, index)->words[word] ^= UINT64_C(1) << bit;
}

void symbolic_mistake(device_t *device, uint32_t count)
{
    ((symbolic_t *)device)->mistakes = count;
}

void symbolic_read(const device_t *device, unit_kind_t unit, uint32_t index, uint64_t *generation,
                   uint64_t words[SYMBOLIC_WORDS])
{
    const device_memory_t *pool = &((const symbolic_t *)device)->base.pool;
    *generation = generation_pack(generation_read(generic_generation(pool, unit, index), 0));
    words_read(pool, unit, index, words);
}

#define SYMBOLIC_COMPUTES                                                                          \
    .close = symbolic_close, .units_bytes = symbolic_units_bytes, .test_fill = symbolic_test_fill, \
    .begin = symbolic_begin, .start = symbolic_start, .load = symbolic_load, .run = symbolic_run,  \
    .digest = symbolic_digest, .copy = symbolic_copy

/* In named shared memory, and in a world. */
static const device_backend_t symbolic_backend[2] = {
    {SYMBOLIC_COMPUTES},
    {SYMBOLIC_COMPUTES, .create = world_create, .map = world_map, .unmap = world_unmap},
};

const device_ops_t symbolic_ops = GENERIC_OPS("symbolic", symbolic_open);

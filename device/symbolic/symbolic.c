/* symbolic.c - see symbolic.h. */
#include "device/symbolic/symbolic.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "runtime/base/random.h"
#include "runtime/base/shared.h"

enum { PEERS_MAX = 256, WORLD_POOLS_MAX = 256 };

#define PREFIX_ROOT UINT64_C(0x6c6f636b73746570) /* hash of the empty prefix */
#define POOL_MAGIC UINT64_C(0x53594d424f4c4943)

/* Readers and the owner may be different processes: every word is read and written whole. */
typedef struct {
    uint64_t generation;
    uint64_t words[SYMBOLIC_WORDS];
} unit_t;

typedef struct {
    uint64_t magic;
    uint64_t incarnation;
    uint32_t counts[UNIT_COUNT]; /* pages, borders, slots; units follow in this order */
    uint32_t references;         /* plain memory: owner and mappers */
    unit_t units[];
} pool_t;

struct symbolic_world {
    pthread_mutex_t lock;
    struct {
        char name[DEVICE_NAME_BYTES_MAX];
        pool_t *pool;
    } pools[WORLD_POOLS_MAX];
};

typedef struct {
    bool open;
    bool drawn; /* last_token is one that this slot drew */
    uint32_t page_count;
    uint32_t last_token;
    uint64_t seed;
    float temperature;
    uint32_t logprobs;
    uint32_t *pages;
} block_table_t;

typedef struct {
    device_t base;
    symbolic_setup_t setup;
    device_config_t config;
    pool_t *pool;
    block_table_t *slots;
    uint32_t *pages; /* backing of all block tables */
    struct {
        uint32_t peer;
        pool_t *pool;
        uint64_t bytes;
    } peers[PEERS_MAX];
    uint32_t peer_count;
    uint64_t epoch;
    uint64_t broken; /* steps of older epochs do not go on; written by any thread */
    uint32_t mistakes;
    device_token_t *tokens;
    device_closed_t *closed;
    uint32_t token_count;
    uint32_t closed_count;
    uint32_t item; /* of the step, that runs now */
    step_digest_t digest;
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

static uint64_t unit_digest(const uint64_t words[SYMBOLIC_WORDS])
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < SYMBOLIC_WORDS; i++)
        sum += random_mix(words[i] ^ random_mix(i));
    return sum;
}

static uint32_t draw(const symbolic_setup_t *setup, uint64_t hash, uint64_t seed, float temperature)
{
    uint64_t key = random_mix(hash ^ setup->weights);
    if (temperature > 0)
        key = random_at(key, seed);
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
    return draw(setup, hash, sampling->seed, sampling->temperature);
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
        uint32_t token = draw(setup, hash, sampling->seed, sampling->temperature);
        tokens[count++] = token;
        if (ends(setup, token, ignore_end, stop_tokens, stop_count))
            break;
        hash = prefix_step(hash, token);
    }
    return count;
}

/* ---- pools -------------------------------------------------------------------------------------
 */

static size_t pool_bytes(const uint32_t counts[UNIT_COUNT])
{
    size_t units = (size_t)counts[0] + counts[1] + counts[2];
    return sizeof(pool_t) + units * sizeof(unit_t);
}

static unit_t *unit_at(const pool_t *pool, unit_kind_t unit, uint32_t index)
{
    ASSERT(index < pool->counts[unit]);
    size_t first = 0;
    for (uint32_t kind = 0; kind < (uint32_t)unit; kind++)
        first += pool->counts[kind];
    /* The pool of a peer is mapped read-only; only owners write through this pointer. */
    return (unit_t *)(uintptr_t)&pool->units[first + index];
}

static void unit_read(const unit_t *unit, uint64_t words[SYMBOLIC_WORDS])
{
    for (uint32_t i = 0; i < SYMBOLIC_WORDS; i++)
        words[i] = __atomic_load_n(&unit->words[i], __ATOMIC_ACQUIRE);
}

static void unit_write(unit_t *unit, const uint64_t words[SYMBOLIC_WORDS])
{
    for (uint32_t i = 0; i < SYMBOLIC_WORDS; i++)
        __atomic_store_n(&unit->words[i], words[i], __ATOMIC_RELEASE);
}

static uint64_t generation_of(const unit_t *unit)
{
    return __atomic_load_n(&unit->generation, __ATOMIC_ACQUIRE);
}

static status_t pool_create(const symbolic_t *self, size_t bytes, pool_t **pool)
{
    if (self->setup.world != NULL) {
        *pool = calloc(1, bytes);
        return *pool != NULL ? STATUS_OK : FAIL(STATUS_NO_MEMORY, "pool of %zu bytes", bytes);
    }
    void *memory = NULL;
    TRY(shared_create(self->config.pool.name, bytes, &memory));
    *pool = memory;
    return STATUS_OK;
}

static status_t world_put(symbolic_world_t *world, const char *name, pool_t *pool)
{
    uint32_t place = 0;
    pthread_mutex_lock(&world->lock);
    while (place < WORLD_POOLS_MAX && world->pools[place].pool != NULL)
        place++;
    if (place < WORLD_POOLS_MAX) {
        world->pools[place].pool = pool;
        memcpy(world->pools[place].name, name, sizeof world->pools[place].name);
        pool->references = 1;
    }
    pthread_mutex_unlock(&world->lock);
    if (place == WORLD_POOLS_MAX)
        return FAIL(STATUS_NO_MEMORY, "more than %d pools in one world", WORLD_POOLS_MAX);
    return STATUS_OK;
}

/* Takes a reference. */
static pool_t *world_find(symbolic_world_t *world, const device_pool_t *wanted)
{
    pool_t *pool = NULL;
    pthread_mutex_lock(&world->lock);
    for (uint32_t i = 0; i < WORLD_POOLS_MAX && pool == NULL; i++) {
        if (world->pools[i].pool != NULL && strcmp(world->pools[i].name, wanted->name) == 0)
            pool = world->pools[i].pool;
    }
    if (pool != NULL)
        pool->references++;
    pthread_mutex_unlock(&world->lock);
    return pool;
}

/* Drops the name too if the owner leaves: memory stays until the last mapper is gone. */
static void world_drop(symbolic_world_t *world, pool_t *pool, bool owner)
{
    pthread_mutex_lock(&world->lock);
    for (uint32_t i = 0; i < WORLD_POOLS_MAX && owner; i++) {
        if (world->pools[i].pool == pool)
            world->pools[i].pool = NULL;
    }
    if (--pool->references == 0)
        free(pool);
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
        ASSERT(world->pools[i].pool == NULL);
    pthread_mutex_destroy(&world->lock);
    free(world);
}

/* ---- life --------------------------------------------------------------------------------------
 */

static void pool_leave(symbolic_t *self, pool_t *pool, uint64_t bytes, bool owner)
{
    if (pool == NULL)
        return;
    if (self->setup.world != NULL) {
        world_drop(self->setup.world, pool, owner);
        return;
    }
    munmap(pool, bytes);
    if (owner)
        shared_unlink(self->config.pool.name);
}

static void symbolic_close(device_t *device)
{
    symbolic_t *self = (symbolic_t *)device;
    if (self == NULL)
        return;
    for (uint32_t i = 0; i < self->peer_count; i++)
        pool_leave(self, self->peers[i].pool, self->peers[i].bytes, false);
    pool_leave(self, self->pool, self->config.pool.bytes, true);
    free(self->slots);
    free(self->pages);
    free(self->tokens);
    free(self->closed);
    free(self);
}

static status_t open_memory(symbolic_t *self)
{
    const device_config_t *config = &self->config;
    self->slots = calloc(config->slot_count, sizeof *self->slots);
    self->pages = calloc((size_t)config->slot_count * config->page_count, sizeof *self->pages);
    self->tokens = calloc(config->slot_count, sizeof *self->tokens);
    self->closed = calloc(CLOSED_MAX, sizeof *self->closed);
    if (self->slots == NULL || self->pages == NULL || self->tokens == NULL || self->closed == NULL)
        return FAIL(STATUS_NO_MEMORY, "block tables of %u slots", config->slot_count);
    for (uint32_t i = 0; i < config->slot_count; i++)
        self->slots[i].pages = self->pages + (size_t)i * config->page_count;
    const uint32_t counts[UNIT_COUNT] = {config->page_count, config->border_count,
                                         config->slot_count};
    pool_t *pool = NULL;
    self->config.pool.bytes = pool_bytes(counts);
    TRY(pool_create(self, self->config.pool.bytes, &pool));
    if (self->setup.world != NULL) {
        status_t status = world_put(self->setup.world, config->pool.name, pool);
        if (status != STATUS_OK) {
            free(pool);
            return status;
        }
    }
    self->pool = pool;
    memcpy(pool->counts, counts, sizeof counts);
    pool->incarnation = config->incarnation;
    uint64_t words[SYMBOLIC_WORDS];
    fill_words(POOL_MAGIC, config->incarnation, words);
    unit_write(unit_at(pool, UNIT_HISTORY, 0), words);
    __atomic_store_n(&pool->magic, POOL_MAGIC, __ATOMIC_RELEASE);
    return STATUS_OK;
}

static status_t symbolic_open(const device_config_t *config, const void *setup,
                              volatile uint32_t *progress, device_t **device)
{
    const symbolic_setup_t *s = setup;
    if (config->page_count < 2 || config->slot_count == 0 || s->vocabulary < 2)
        return FAIL(STATUS_INVALID, "pages=%u slots=%u vocabulary=%u", config->page_count,
                    config->slot_count, s->vocabulary);
    symbolic_t *self = calloc(1, sizeof *self);
    if (self == NULL)
        return FAIL(STATUS_NO_MEMORY, "device");
    self->base.ops = &symbolic_ops;
    self->setup = *s;
    self->config = *config;
    self->config.pool.incarnation = config->incarnation;
    status_t status = open_memory(self);
    if (status != STATUS_OK) {
        symbolic_close(&self->base);
        return status;
    }
    if (progress != NULL)
        *progress = 1000;
    *device = &self->base;
    return STATUS_OK;
}

static void symbolic_describe(const device_t *device, device_pool_t *pool,
                              device_digests_t *digests)
{
    const symbolic_t *self = (const symbolic_t *)device;
    *pool = self->config.pool;
    digests->weights = random_mix(self->setup.weights);
    digests->geometry = random_mix(SYMBOLIC_WORDS);
    digests->numerics = random_mix(digests->weights + self->config.world);
}

static status_t symbolic_reform(device_t *device, uint64_t epoch, const char *segment)
{
    symbolic_t *self = (symbolic_t *)device;
    (void)segment; /* its ranks have nothing to exchange */
    ASSERT(epoch >= self->epoch);
    self->epoch = epoch;
    for (uint32_t i = 0; i < self->config.slot_count; i++) {
        self->slots[i].open = false;
        self->slots[i].drawn = false;
        self->slots[i].page_count = 0;
    }
    return STATUS_OK;
}

static void symbolic_interrupt(device_t *device, uint64_t epoch)
{
    symbolic_t *self = (symbolic_t *)device;
    __atomic_store_n(&self->broken, epoch, __ATOMIC_RELEASE);
}

static void symbolic_generation_set(device_t *device, unit_kind_t unit, uint32_t index,
                                    uint64_t generation)
{
    symbolic_t *self = (symbolic_t *)device;
    if (index < self->pool->counts[unit])
        __atomic_store_n(&unit_at(self->pool, unit, index)->generation, generation,
                         __ATOMIC_RELEASE);
}

/* ---- steps -------------------------------------------------------------------------------------
 */

static const char *const unit_names[UNIT_COUNT] = {"page", "border", "slot"};

/* Reads a unit and holds it to its own first two words. */
static status_t read_checked(const symbolic_t *self, unit_kind_t unit, uint32_t index,
                             uint64_t words[SYMBOLIC_WORDS])
{
    uint64_t expected[SYMBOLIC_WORDS];
    unit_read(unit_at(self->pool, unit, index), words);
    fill_words(words[0], words[1], expected);
    for (uint32_t i = 2; i < SYMBOLIC_WORDS; i++) {
        if (words[i] != expected[i])
            return FAIL(STATUS_CORRUPT, "%s %u word %u: expected %016llx, found %016llx",
                        unit_names[unit], index, i, (unsigned long long)expected[i],
                        (unsigned long long)words[i]);
    }
    return STATUS_OK;
}

/* The slot's state must be of `position` tokens, and its pages must hold the history of just those.
 */
static status_t read_history(const symbolic_t *self, uint32_t index, uint32_t position,
                             uint64_t *hash)
{
    const block_table_t *slot = &self->slots[index];
    uint64_t words[SYMBOLIC_WORDS];
    TRY(read_checked(self, UNIT_SLOT, index, words));
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
        TRY(read_checked(self, UNIT_HISTORY, slot->pages[i], words));
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

static status_t close_unit(symbolic_t *self, unit_kind_t unit, uint32_t index, uint64_t a,
                           uint64_t b, bool report)
{
    uint64_t words[SYMBOLIC_WORDS];
    fill_words(a, b, words);
    unit_write(unit_at(self->pool, unit, index), words);
    if (!report)
        return STATUS_OK;
    if (self->closed_count == CLOSED_MAX)
        return FAIL(STATUS_TOO_LARGE, "a step closes more than %d units", CLOSED_MAX);
    self->closed[self->closed_count++] =
        (device_closed_t){.unit = unit, .index = index, .digest = unit_digest(words)};
    step_digest_add(&self->digest, self->item, STEP_DIGEST_UNIT, (uint64_t)unit << 32 | index,
                unit_digest(words));
    return STATUS_OK;
}

static status_t add_pages(symbolic_t *self, const device_item_t *item)
{
    block_table_t *slot = &self->slots[item->slot];
    if (item->page_count > self->config.page_count - slot->page_count)
        return FAIL(STATUS_INVALID, "slot %u gets more pages than there are", item->slot);
    for (uint32_t i = 0; i < item->page_count; i++) {
        if (item->pages[i] == 0 || item->pages[i] >= self->config.page_count)
            return FAIL(STATUS_INVALID, "slot %u gets page %u of %u", item->slot, item->pages[i],
                        self->config.page_count);
        slot->pages[slot->page_count++] = item->pages[i];
    }
    return STATUS_OK;
}

static status_t run_open(symbolic_t *self, const device_item_t *item)
{
    block_table_t *slot = &self->slots[item->slot];
    if (slot->open)
        return FAIL(STATUS_INVALID, "slot %u is open", item->slot);
    slot->open = true;
    slot->drawn = false;
    slot->page_count = 0;
    slot->seed = item->sampling->seed;
    slot->temperature = item->sampling->temperature;
    slot->logprobs = item->sampling->logprobs;
    TRY(add_pages(self, item));
    if (item->position == 0)
        return close_unit(self, UNIT_SLOT, item->slot, 0, PREFIX_ROOT, false);
    uint64_t hash = 0;
    return read_history(self, item->slot, item->position, &hash);
}

static status_t run_load(symbolic_t *self, const device_item_t *item)
{
    if (item->border >= self->config.border_count)
        return FAIL(STATUS_INVALID, "border %u of %u", item->border, self->config.border_count);
    uint64_t words[SYMBOLIC_WORDS];
    TRY(read_checked(self, UNIT_BORDER, item->border, words));
    if (words[0] != item->position)
        return FAIL(STATUS_CORRUPT, "border %u: expected position %u, found %llu", item->border,
                    item->position, (unsigned long long)words[0]);
    TRY(close_unit(self, UNIT_SLOT, item->slot, words[0], words[1], false));
    uint64_t hash = 0;
    return read_history(self, item->slot, item->position, &hash);
}

static void draw_token(symbolic_t *self, const device_item_t *item, uint64_t hash)
{
    block_table_t *slot = &self->slots[item->slot];
    device_token_t *token = &self->tokens[self->token_count++];
    memset(token, 0, sizeof *token);
    token->item = self->item;
    token->slot = item->slot;
    token->token = draw(&self->setup, hash, slot->seed, slot->temperature);
    if (self->mistakes > 0) {
        self->mistakes--;
        token->token = (token->token + 1) % self->setup.vocabulary;
    }
    step_digest_add(&self->digest, self->item, STEP_DIGEST_TOKEN, item->slot, token->token);
    slot->last_token = token->token;
    slot->drawn = true;
    if (slot->logprobs == 0)
        return;
    token->logprob = -(float)(hash % 1000) / 256;
    token->top_count = slot->logprobs - 1;
    for (uint32_t i = 0; i < token->top_count && i < LOGPROBS_MAX; i++) {
        token->top_tokens[i] = (token->token + i) % self->setup.vocabulary;
        token->top_logprobs[i] = token->logprob - (float)i;
    }
}

/* Where a border of page `ordinal` is kept, or UINT32_MAX. */
static uint32_t border_of(const device_item_t *item, uint32_t ordinal)
{
    for (uint32_t i = 0; i < item->border_count; i++) {
        if (item->border_pages[i] == ordinal)
            return item->border_targets[i];
    }
    return UINT32_MAX;
}

/* Writes the page that holds position - 1, filled up to `position`. */
static status_t run_page(symbolic_t *self, const device_item_t *item, uint32_t position,
                         uint64_t start, uint64_t hash)
{
    uint32_t ordinal = (position - 1) / PAGE_TOKENS;
    bool full = position % PAGE_TOKENS == 0;
    bool last = position == item->position + item->count;
    uint32_t page = self->slots[item->slot].pages[ordinal];
    TRY(close_unit(self, UNIT_HISTORY, page, start, hash, full || (last && item->tail)));
    uint32_t border = full ? border_of(item, ordinal) : UINT32_MAX;
    if (border == UINT32_MAX)
        return STATUS_OK;
    if (border >= self->config.border_count)
        return FAIL(STATUS_INVALID, "border %u of %u", border, self->config.border_count);
    return close_unit(self, UNIT_BORDER, border, position, hash, true);
}

static status_t run_tokens(symbolic_t *self, const device_item_t *item)
{
    block_table_t *slot = &self->slots[item->slot];
    if (item->count == 0 || item->count > UINT32_MAX - item->position)
        return FAIL(STATUS_INVALID, "slot %u runs %u tokens at %u", item->slot, item->count,
                    item->position);
    uint32_t end = item->position + item->count;
    if ((end - 1) / PAGE_TOKENS >= slot->page_count)
        return FAIL(STATUS_INVALID, "slot %u has %u pages, position %u needs more", item->slot,
                    slot->page_count, end);
    if (item->tokens == NULL && (item->count != 1 || !slot->drawn))
        return FAIL(STATUS_INVALID, "slot %u carries no token", item->slot);
    uint64_t hash = 0;
    TRY(read_history(self, item->slot, item->position, &hash));
    uint64_t start = hash;
    if (item->position % PAGE_TOKENS != 0) {
        uint64_t words[SYMBOLIC_WORDS];
        unit_read(unit_at(self->pool, UNIT_HISTORY, slot->pages[item->position / PAGE_TOKENS]),
                  words);
        start = words[0];
    }
    for (uint32_t i = 0; i < item->count; i++) {
        uint32_t token = item->tokens != NULL ? item->tokens[i] : slot->last_token;
        uint32_t position = item->position + i + 1;
        hash = prefix_step(hash, token);
        if (position % PAGE_TOKENS == 0 || position == end)
            TRY(run_page(self, item, position, start, hash));
        if (position % PAGE_TOKENS == 0)
            start = hash;
    }
    TRY(close_unit(self, UNIT_SLOT, item->slot, end, hash, item->tail));
    step_digest_add(&self->digest, self->item, STEP_DIGEST_STATE, end, hash);
    slot->drawn = false;
    if (item->sample)
        draw_token(self, item, hash);
    return STATUS_OK;
}

static status_t run_item(symbolic_t *self, const device_item_t *item)
{
    if (item->slot >= self->config.slot_count)
        return FAIL(STATUS_INVALID, "slot %u of %u", item->slot, self->config.slot_count);
    if (item->kind != DEVICE_OPEN && !self->slots[item->slot].open)
        return FAIL(STATUS_INVALID, "slot %u is not open", item->slot);
    switch (item->kind) {
    case DEVICE_OPEN:
        return run_open(self, item);
    case DEVICE_EXTEND:
        return add_pages(self, item);
    case DEVICE_LOAD:
        return run_load(self, item);
    case DEVICE_RUN:
        return run_tokens(self, item);
    case DEVICE_CLOSE:
        self->slots[item->slot].open = false;
        return STATUS_OK;
    }
    return FAIL(STATUS_INVALID, "item kind %d", (int)item->kind);
}

static void take_time(const symbolic_t *self, const device_step_t *step)
{
    const uint32_t ms = self->setup.step_ms;
    const struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};

    for (uint32_t i = 0; ms != 0 && i < step->item_count; i++) {
        if (step->items[i].kind == DEVICE_RUN) {
            (void)nanosleep(&time, NULL);
            return;
        }
    }
}

static status_t symbolic_step(device_t *device, const device_step_t *step, device_result_t *result)
{
    symbolic_t *self = (symbolic_t *)device;
    self->token_count = 0;
    self->closed_count = 0;
    self->digest = step_digest_begin(step->seq);
    if (step->epoch != self->epoch)
        return FAIL(STATUS_STALE, "step of epoch %llx, device is in %llx",
                    (unsigned long long)step->epoch, (unsigned long long)self->epoch);
    take_time(self, step);
    for (uint32_t i = 0; i < step->item_count; i++) {
        if (__atomic_load_n(&self->broken, __ATOMIC_ACQUIRE) > step->epoch)
            return FAIL(STATUS_BROKEN, "epoch %llx is broken", (unsigned long long)step->epoch);
        self->item = i;
        TRY(run_item(self, &step->items[i]));
    }
    *result = (device_result_t){.digest = self->digest,
                                .tokens = self->tokens,
                                .token_count = self->token_count,
                                .closed = self->closed,
                                .closed_count = self->closed_count};
    return STATUS_OK;
}

/* ---- copies ------------------------------------------------------------------------------------
 */

static status_t map_memory(symbolic_t *self, const device_pool_t *wanted, pool_t **pool)
{
    if (self->setup.world != NULL) {
        *pool = world_find(self->setup.world, wanted);
        return *pool != NULL ? STATUS_OK : FAIL(STATUS_NOT_FOUND, "no pool %s", wanted->name);
    }
    if (wanted->bytes < sizeof(pool_t))
        return FAIL(STATUS_MISMATCH, "pool %s: %llu bytes are none", wanted->name,
                    (unsigned long long)wanted->bytes);
    void *memory = NULL;
    TRY(shared_open(wanted->name, wanted->bytes, false, &memory));
    *pool = memory;
    return STATUS_OK;
}

static status_t map_test(const pool_t *pool, const device_pool_t *wanted)
{
    uint64_t expected[SYMBOLIC_WORDS];
    uint64_t found[SYMBOLIC_WORDS];
    if (__atomic_load_n(&pool->magic, __ATOMIC_ACQUIRE) != POOL_MAGIC)
        return FAIL(STATUS_MISMATCH, "%s is no symbolic pool", wanted->name);
    if (pool_bytes(pool->counts) != wanted->bytes)
        return FAIL(STATUS_MISMATCH, "pool %s: counts do not fit its %llu bytes", wanted->name,
                    (unsigned long long)wanted->bytes);
    fill_words(POOL_MAGIC, wanted->incarnation, expected);
    unit_read(unit_at(pool, UNIT_HISTORY, 0), found);
    if (memcmp(expected, found, sizeof expected) != 0)
        return FAIL(STATUS_MISMATCH, "pool %s: test page is not of incarnation %llu", wanted->name,
                    (unsigned long long)wanted->incarnation);
    return STATUS_OK;
}

static status_t symbolic_map(device_t *device, uint32_t peer, const device_pool_t *wanted)
{
    symbolic_t *self = (symbolic_t *)device;
    uint32_t place = 0;
    while (place < self->peer_count && self->peers[place].peer != peer)
        place++;
    if (place == PEERS_MAX)
        return FAIL(STATUS_NO_MEMORY, "more than %d peers", PEERS_MAX);
    pool_t *pool = NULL;
    TRY(map_memory(self, wanted, &pool));
    status_t status = map_test(pool, wanted);
    if (status != STATUS_OK) {
        pool_leave(self, pool, wanted->bytes, false);
        return status;
    }
    if (place == self->peer_count)
        self->peer_count++;
    else
        pool_leave(self, self->peers[place].pool, self->peers[place].bytes, false);
    self->peers[place].peer = peer;
    self->peers[place].pool = pool;
    self->peers[place].bytes = wanted->bytes;
    return STATUS_OK;
}

static const pool_t *peer_pool(const symbolic_t *self, uint32_t peer)
{
    for (uint32_t i = 0; i < self->peer_count; i++) {
        if (self->peers[i].peer == peer)
            return self->peers[i].pool;
    }
    return NULL;
}

static status_t copy_source(const pool_t *pool, const device_copy_t *copy,
                            uint64_t words[SYMBOLIC_WORDS])
{
    const unit_t *source = unit_at(pool, copy->unit, copy->source);
    uint64_t before = generation_of(source);
    unit_read(source, words);
    uint64_t after = generation_of(source);
    if (before != copy->source_generation || after != copy->source_generation)
        return FAIL(STATUS_STALE, "%s %u of peer %u: expected generation %llx, found %llx and %llx",
                    unit_names[copy->unit], copy->source, copy->peer,
                    (unsigned long long)copy->source_generation, (unsigned long long)before,
                    (unsigned long long)after);
    uint64_t digest = unit_digest(words);
    if (digest != copy->digest)
        return FAIL(STATUS_CORRUPT, "%s %u of peer %u: expected digest %016llx, found %016llx",
                    unit_names[copy->unit], copy->source, copy->peer,
                    (unsigned long long)copy->digest, (unsigned long long)digest);
    return STATUS_OK;
}

static status_t symbolic_copy(device_t *device, const device_copy_t *copy)
{
    symbolic_t *self = (symbolic_t *)device;
    const pool_t *pool = peer_pool(self, copy->peer);
    if (pool == NULL)
        return FAIL(STATUS_NOT_FOUND, "peer %u is not mapped", copy->peer);
    if ((uint32_t)copy->unit >= UNIT_COUNT || copy->source >= pool->counts[copy->unit] ||
        copy->target >= self->pool->counts[copy->unit])
        return FAIL(STATUS_INVALID, "copy of unit %d from %u to %u", (int)copy->unit, copy->source,
                    copy->target);
    unit_t *target = unit_at(self->pool, copy->unit, copy->target);
    if (generation_of(target) > copy->target_generation)
        return FAIL(STATUS_STALE, "%s %u: leased as %llx, copy is for %llx", unit_names[copy->unit],
                    copy->target, (unsigned long long)generation_of(target),
                    (unsigned long long)copy->target_generation);
    __atomic_store_n(&target->generation, copy->target_generation, __ATOMIC_RELEASE);
    uint64_t words[SYMBOLIC_WORDS];
    TRY(copy_source(pool, copy, words));
    unit_write(target, words);
    return STATUS_OK;
}

/* ---- faults ------------------------------------------------------------------------------------
 */

void symbolic_flip(device_t *device, unit_kind_t unit, uint32_t index, uint32_t word,
                   uint32_t bit)
{
    symbolic_t *self = (symbolic_t *)device;
    ASSERT(word < SYMBOLIC_WORDS);
    ASSERT(bit < 64);
    unit_at(self->pool, unit, index)->words[word] ^= UINT64_C(1) << bit;
}

void symbolic_mistake(device_t *device, uint32_t count)
{
    ((symbolic_t *)device)->mistakes = count;
}

void symbolic_read(const device_t *device, unit_kind_t unit, uint32_t index, uint64_t *generation,
                   uint64_t words[SYMBOLIC_WORDS])
{
    const unit_t *found = unit_at(((const symbolic_t *)device)->pool, unit, index);
    *generation = generation_of(found);
    unit_read(found, words);
}

const device_ops_t symbolic_ops = {
    .name = "symbolic",
    .open = symbolic_open,
    .close = symbolic_close,
    .describe = symbolic_describe,
    .reform = symbolic_reform,
    .step = symbolic_step,
    .interrupt = symbolic_interrupt,
    .generation_set = symbolic_generation_set,
    .map = symbolic_map,
    .copy = symbolic_copy,
};

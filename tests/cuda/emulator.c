/* emulator.c - fibers, their order, memory and its rights; see emulator.h.
 *
 * A launch has one block at a time, or all blocks alive when they take turns. A fault switches back
 * to the scheduler for good: the fibers' stacks are simply used again by the next launch.
 */
#include "tests/cuda/emulator.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "runtime/base/check.h"
#include "runtime/base/random.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

enum {
    STACK_BYTES = 64 << 10,
    FIBERS_MAX = 16 << 10, /* of all blocks that take turns */
    BLOCKS_MAX = 1024,
    RANGES_MAX = 1 << 16,
    COPIES_MAX = 256,
    PAUSES_MAX = 1 << 20, /* in a row, without a wait that ends */
    WARP = 32,
};

typedef enum { READY, AT_BARRIER, AT_WARP, DONE } fiber_state_t;

typedef struct {
    unsigned char *target;
    uint64_t source;
    uint32_t bytes, filled, group;
} copy_t;

typedef struct {
    void *stack_pointer;
    unsigned char *stack;
    uint32_t thread; /* in its block */
    fiber_state_t state;
    uint32_t mask, site; /* of the warp operation or barrier that it waits at */
    uint32_t turn;       /* warp operations done */
    uint32_t copy_count, group;
    copy_t copies[COPIES_MAX];
} fiber_t;

/* What lanes give each other: by parity of the turn, so that the next turn cannot overwrite it. */
typedef struct {
    uint32_t words[6];
} box_t;

typedef struct {
    box_t of[2];
} box_pair_t;

typedef struct {
    emulator_size_t index;
    uint32_t first; /* fiber */
    uint32_t live;
    unsigned char *shared;
    bool ended;
} block_t;

typedef struct {
    uintptr_t at;
    size_t bytes;
    uint32_t readers, writers;
} range_t;

static struct {
    emulator_launch_t launch;
    uint32_t threads;
    uint32_t shared_bytes;
    fiber_t *fibers;
    box_pair_t *boxes;
    block_t blocks[BLOCKS_MAX];
    fiber_t *fiber; /* the one that runs */
    block_t *block;
    void *scheduler;
    uint32_t pauses;
    random_t random;
    bool faulted;
    char fault[256];
} e;

static range_t ranges[RANGES_MAX];
static uint32_t range_count;
static const range_t *range_last; /* where the last address lay */

/* -- fibers ---------------------------------------------------------------------------------- */

void emulator_switch(void **save, void *load);
__asm__(".text\n.globl emulator_switch\n.hidden emulator_switch\n"
        ".type emulator_switch,@function\nemulator_switch:\n"
        " push %rbp; push %rbx; push %r12; push %r13; push %r14; push %r15\n"
        " mov %rsp,(%rdi)\n mov %rsi,%rsp\n"
        " pop %r15; pop %r14; pop %r13; pop %r12; pop %rbx; pop %rbp\n ret\n"
        ".size emulator_switch,.-emulator_switch\n");

#if defined(__SANITIZE_ADDRESS__)
static const void *scheduler_stack;
static size_t scheduler_bytes;
#define LEAVE(bottom, bytes) __sanitizer_start_switch_fiber(NULL, (bottom), (bytes))
#define ARRIVE(bottom, bytes) __sanitizer_finish_switch_fiber(NULL, (bottom), (bytes))
#else
#define LEAVE(bottom, bytes) ((void)0)
#define ARRIVE(bottom, bytes) ((void)0)
#endif

static void to_scheduler(void)
{
    LEAVE(scheduler_stack, scheduler_bytes);
    emulator_switch(&e.fiber->stack_pointer, e.scheduler);
    ARRIVE(NULL, NULL);
}

static void fiber_main(void)
{
    ARRIVE(&scheduler_stack, &scheduler_bytes);
    e.launch.kernel->run(e.launch.parameters);
    if (e.fiber->copy_count)
        emulator_fault("a thread leaves with copies that it did not wait for");
    e.fiber->state = DONE;
    e.block->live--;
    to_scheduler();
    UNREACHABLE("a fiber that is done is not taken up again");
}

static void to_fiber(fiber_t *fiber)
{
    e.fiber = fiber;
    LEAVE(fiber->stack, STACK_BYTES);
    emulator_switch(&e.scheduler, fiber->stack_pointer);
    ARRIVE(NULL, NULL);
}

static void fiber_init(fiber_t *fiber, uint32_t thread)
{
    unsigned char *stack = fiber->stack;
    void **top;

    if (!stack) {
        stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        ASSERT(stack != MAP_FAILED);
    }
#if defined(__SANITIZE_ADDRESS__)
    __asan_unpoison_memory_region(stack, STACK_BYTES); /* a fault leaves frames behind */
#endif
    *fiber = (fiber_t){.stack = stack, .thread = thread};
    top = (void **)(void *)(stack + STACK_BYTES - 16);
    *--top = NULL; /* where fiber_main would return to */
    *--top = (void *)(uintptr_t)fiber_main;
    for (int i = 0; i < 6; i++)
        *--top = NULL;
    fiber->stack_pointer = top;
}

void emulator_fault(const char *format, ...)
{
    emulator_size_t block = e.block->index;
    int used =
        snprintf(e.fault, sizeof(e.fault), "%s: block %u,%u,%u thread %u: ", e.launch.kernel->name,
                 block.x, block.y, block.z, e.fiber->thread);
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(e.fault + used, sizeof(e.fault) - (size_t)used, format, arguments);
    va_end(arguments);
    e.faulted = true;
    to_scheduler();
    UNREACHABLE("after a fault no fiber is taken up again");
}

/* -- order ----------------------------------------------------------------------------------- */

/* A fault that the scheduler finds, of the fiber given. */
static bool stop(block_t *block, fiber_t *fiber, const char *why)
{
    snprintf(e.fault, sizeof(e.fault), "%s: block %u,%u,%u thread %u: %s", e.launch.kernel->name,
             block->index.x, block->index.y, block->index.z, fiber->thread, why);
    e.faulted = true;
    return false;
}

/* Do all lanes of the fiber's mask wait with it? False after a fault. */
static bool lanes_meet(block_t *block, fiber_t *warp, uint32_t lanes, fiber_t *fiber, bool *all)
{
    *all = true;
    for (uint32_t lane = 0; lane < WARP; lane++) {
        if (!(fiber->mask >> lane & 1))
            continue;
        if (lane >= lanes)
            return stop(block, fiber, "the warp mask names threads that are not there");
        if (warp[lane].state == DONE)
            return stop(block, fiber, "the warp mask names a thread that left");
        if (warp[lane].state != AT_WARP) {
            *all = false;
            continue;
        }
        if (warp[lane].mask != fiber->mask)
            return stop(block, fiber, "lanes of a warp operation have different masks");
        if (warp[lane].site != fiber->site)
            return stop(block, fiber, "lanes of a warp meet at different instructions");
    }
    return true;
}

static bool release_warps(block_t *block)
{
    fiber_t *fibers = e.fibers + block->first;

    for (uint32_t i = 0; i < e.threads; i++) {
        uint32_t first = i / WARP * WARP, lanes = e.threads - first;
        bool all;

        if (fibers[i].state != AT_WARP)
            continue;
        if (!lanes_meet(block, fibers + first, lanes, fibers + i, &all))
            return false;
        for (uint32_t lane = 0; all && lane < WARP; lane++)
            if (fibers[i].mask >> lane & 1)
                fibers[first + lane].state = READY;
    }
    return true;
}

static bool release_barrier(block_t *block)
{
    fiber_t *fibers = e.fibers + block->first;

    for (uint32_t i = 0; i < e.threads; i++) {
        if (fibers[i].state == DONE)
            return stop(block, fibers + i, "left before a barrier that others wait at");
        if (fibers[i].site != fibers[i / WARP * WARP].site)
            return stop(block, fibers + i, "threads of a warp wait at different barriers");
    }
    for (uint32_t i = 0; i < e.threads; i++)
        fibers[i].state = READY;
    return true;
}

/* Nobody of the block is ready: lets those go on whose wait is over. False after a fault. */
static bool release(block_t *block)
{
    fiber_t *fibers = e.fibers + block->first;
    uint32_t waiting = 0, ready = 0;

    for (uint32_t i = 0; i < e.threads; i++)
        waiting += fibers[i].state == AT_BARRIER;
    if (waiting && waiting == block->live)
        return release_barrier(block);
    if (!release_warps(block))
        return false;
    for (uint32_t i = 0; i < e.threads; i++)
        ready += fibers[i].state == READY;
    for (uint32_t i = 0; !ready && i < e.threads; i++)
        if (fibers[i].state != DONE)
            return stop(block, fibers + i, "deadlock: threads wait at different places");
    return true;
}

/* Everybody of the block who is ready runs once: from a random start, in a random direction, and
 * now and then one only. */
static bool round_of(block_t *block)
{
    bool back = e.launch.seed && random_below(&e.random, 2);
    bool lone = e.launch.seed && !random_below(&e.random, 4);
    uint32_t start = e.launch.seed ? (uint32_t)random_below(&e.random, e.threads) : 0, ran = 0;

    e.block = block;
    for (uint32_t i = 0; i < e.threads; i++) {
        uint32_t at = (start + (back ? e.threads - i : i)) % e.threads;
        fiber_t *fiber = e.fibers + block->first + at;

        if (fiber->state != READY)
            continue;
        to_fiber(fiber);
        ran++;
        if (e.faulted)
            return false;
        if (lone)
            break;
    }
    block->ended = !block->live;
    return ran || block->ended || release(block);
}

static void block_init(block_t *block, uint32_t first, uint32_t number)
{
    emulator_size_t grid = e.launch.grid;
    unsigned char *shared = block->shared;

    if (!shared) /* behind it lies nothing: what leaves it is a fault of ours */
        shared = aligned_alloc(128, EMULATOR_SHARED_BYTES_MAX + 1024);
    ASSERT(shared);
    *block = (block_t){{number % grid.x, number / grid.x % grid.y, number / grid.x / grid.y},
                       first,
                       e.threads,
                       shared,
                       false};
    memset(shared, 0xff, e.shared_bytes);
    for (uint32_t i = 0; i < e.threads; i++)
        fiber_init(e.fibers + first + i, i);
}

static void run_in_order(uint32_t count)
{
    uint32_t *order = malloc(count * sizeof(*order));

    ASSERT(order);
    for (uint32_t i = 0; i < count; i++)
        order[i] = i;
    for (uint32_t i = count; e.launch.seed && i > 1; i--) {
        uint32_t other = (uint32_t)random_below(&e.random, i), kept = order[i - 1];
        order[i - 1] = order[other];
        order[other] = kept;
    }
    for (uint32_t i = 0; i < count && !e.faulted; i++) {
        block_init(&e.blocks[0], 0, order[i]);
        while (!e.blocks[0].ended && round_of(&e.blocks[0]))
            ;
    }
    free(order);
}

static void run_in_turns(uint32_t count)
{
    uint32_t left = count;

    for (uint32_t i = 0; i < count; i++)
        block_init(&e.blocks[i], i * e.threads, i);
    while (left && !e.faulted) {
        block_t *block = &e.blocks[random_below(&e.random, count)];
        if (!block->ended && round_of(block))
            left -= block->ended;
    }
}

const char *emulator_run(const emulator_launch_t *launch)
{
    uint64_t count = (uint64_t)launch->grid.x * launch->grid.y * launch->grid.z;
    uint64_t threads = (uint64_t)launch->block.x * launch->block.y * launch->block.z;

    if (!e.fibers) {
        e.fibers = calloc(FIBERS_MAX, sizeof(*e.fibers));
        e.boxes = calloc(FIBERS_MAX, sizeof(*e.boxes));
        ASSERT(e.fibers && e.boxes);
    }
    e.launch = *launch;
    e.threads = (uint32_t)threads;
    e.shared_bytes = launch->kernel->shared_bytes + launch->shared_bytes;
    e.pauses = 0;
    e.faulted = false;
    random_init(&e.random, launch->seed);
    if (!threads || threads > EMULATOR_THREADS_MAX || !count || count > UINT32_MAX ||
        e.shared_bytes > EMULATOR_SHARED_BYTES_MAX)
        return "no such launch: grid, block or shared memory";
    if (launch->turns && (count > BLOCKS_MAX || count * threads > FIBERS_MAX))
        return "too many blocks to take turns";
    (launch->turns ? run_in_turns : run_in_order)((uint32_t)count);
    return e.faulted ? e.fault : NULL;
}

/* -- where a thread is ------------------------------------------------------------------------ */

emulator_size_t emulator_thread(void)
{
    emulator_size_t block = e.launch.block;
    uint32_t thread = e.fiber->thread;

    return (emulator_size_t){thread % block.x, thread / block.x % block.y,
                             thread / block.x / block.y};
}

emulator_size_t emulator_block(void)
{
    return e.block->index;
}

emulator_size_t emulator_block_size(void)
{
    return e.launch.block;
}

emulator_size_t emulator_grid_size(void)
{
    return e.launch.grid;
}

uint32_t emulator_lane(void)
{
    return e.fiber->thread % WARP;
}

/* -- memory ---------------------------------------------------------------------------------- */

/* The first range that ends behind `at`. */
static uint32_t range_find(uintptr_t at)
{
    uint32_t low = 0, high = range_count;

    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (ranges[middle].at + ranges[middle].bytes <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void emulator_range_add(uintptr_t at, size_t bytes, uint32_t readers, uint32_t writers)
{
    uint32_t place = range_find(at);

    ASSERT(range_count < RANGES_MAX && bytes);
    ASSERT(place == range_count || at + bytes <= ranges[place].at);
    memmove(ranges + place + 1, ranges + place, (range_count - place) * sizeof(*ranges));
    ranges[place] = (range_t){at, bytes, readers, writers};
    range_count++;
    range_last = NULL;
}

bool emulator_range_remove(uintptr_t at)
{
    uint32_t place = range_find(at);

    if (place == range_count || ranges[place].at != at)
        return false;
    range_count--;
    memmove(ranges + place, ranges + place + 1, (range_count - place) * sizeof(*ranges));
    range_last = NULL;
    return true;
}

static const range_t *range_of(uintptr_t at, size_t bytes, uint32_t device, bool write)
{
    const range_t *range = range_last;

    if (!range || at < range->at || at - range->at >= range->bytes) {
        uint32_t place = range_find(at);
        if (place == range_count || at < ranges[place].at)
            return NULL;
        range_last = range = &ranges[place];
    }
    if (bytes > range->bytes - (at - range->at))
        return NULL;
    return (write ? range->writers : range->readers) >> device & 1 ? range : NULL;
}

bool emulator_range_covers(uintptr_t at, size_t bytes, uint32_t device, bool write)
{
    while (bytes) { /* ranges that touch are as good as one */
        const range_t *range = range_of(at, 1, device, write);
        size_t here;

        if (!range)
            return false;
        here = range->bytes - (at - range->at);
        if (here >= bytes)
            return true;
        at += here;
        bytes -= here;
    }
    return true;
}

unsigned char *emulator_global(uint64_t at, uint32_t bytes, bool write)
{
    if (at % bytes)
        emulator_fault("address %llx is not aligned to %u", (unsigned long long)at, bytes);
    if (!range_of((uintptr_t)at, bytes, e.launch.device, write))
        emulator_fault("illegal address: %s of %u bytes at %llx", write ? "write" : "read", bytes,
                       (unsigned long long)at);
    return (unsigned char *)(uintptr_t)at;
}

unsigned char *emulator_shared(uint64_t at, uint32_t bytes, bool write)
{
    if ((uint32_t)at % bytes)
        emulator_fault("shared address %u is not aligned to %u", (uint32_t)at, bytes);
    if ((uint32_t)at > e.shared_bytes || bytes > e.shared_bytes - (uint32_t)at)
        emulator_fault("%s of %u bytes at %u leaves the %u bytes of shared memory",
                       write ? "write" : "read", bytes, (uint32_t)at, e.shared_bytes);
    return e.block->shared + (uint32_t)at;
}

uint64_t emulator_cvta_shared(uint64_t at)
{
    return (uintptr_t)e.block->shared + (uint32_t)at;
}

uint64_t emulator_cvta_to_shared(uint64_t at)
{
    return at - (uintptr_t)e.block->shared;
}

unsigned char *emulator_generic(uint64_t at, uint32_t bytes, bool write)
{
    uintptr_t stack = (uintptr_t)e.fiber->stack;

    if (at - (uintptr_t)e.block->shared < e.shared_bytes)
        return emulator_shared(emulator_cvta_to_shared(at), bytes, write);
    if (at - stack < STACK_BYTES)
        return (unsigned char *)(uintptr_t)at;
    return emulator_global(at, bytes, write);
}

void emulator_copy(uint64_t shared, uint64_t global, uint32_t bytes, uint32_t filled)
{
    fiber_t *fiber = e.fiber;
    unsigned char *target = emulator_shared(shared, bytes, true);

    if (fiber->copy_count == COPIES_MAX)
        emulator_fault("more than %d copies in flight", COPIES_MAX);
    if (filled > bytes)
        emulator_fault("a copy of %u bytes fills %u", bytes, filled);
    if (filled)
        (void)emulator_global(global, bytes, false);
    memset(target, 0xff, bytes); /* who reads before the wait sees NaNs */
    fiber->copies[fiber->copy_count++] = (copy_t){target, global, bytes, filled, fiber->group};
}

void emulator_copy_commit(void)
{
    e.fiber->group++;
}

void emulator_copy_wait(uint32_t groups_left)
{
    fiber_t *fiber = e.fiber;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < fiber->copy_count; i++) {
        copy_t copy = fiber->copies[i];
        if (copy.group + groups_left >= fiber->group && groups_left) {
            fiber->copies[kept++] = copy;
            continue;
        }
        memset(copy.target, 0, copy.bytes);
        memcpy(copy.target, (const void *)(uintptr_t)copy.source, copy.filled);
    }
    fiber->copy_count = kept;
}

/* -- waits ----------------------------------------------------------------------------------- */

void emulator_barrier(uint32_t site)
{
    e.fiber->site = site;
    e.fiber->state = AT_BARRIER;
    e.pauses = 0;
    to_scheduler();
}

void emulator_pause(void)
{
    if (++e.pauses > PAUSES_MAX)
        emulator_fault("spins for ever%s",
                       e.launch.turns ? "" : "; if for another block, let blocks take turns");
    if (e.launch.turns || e.launch.seed)
        to_scheduler();
}

/* Gives words to the other lanes of the mask and waits for theirs; returns the warp's boxes. */
static const box_pair_t *exchange(const box_t *mine, uint32_t mask, uint32_t site, uint32_t *parity)
{
    fiber_t *fiber = e.fiber;
    uint32_t lane = fiber->thread % WARP, at = (uint32_t)(fiber - e.fibers);

    if (!(mask >> lane & 1))
        emulator_fault("a lane outside its warp mask takes part");
    *parity = fiber->turn++ & 1;
    e.boxes[at].of[*parity] = *mine;
    fiber->mask = mask;
    fiber->site = site;
    fiber->state = AT_WARP;
    e.pauses = 0;
    to_scheduler();
    return e.boxes + at - lane;
}

void emulator_warp_wait(uint32_t mask, uint32_t site)
{
    uint32_t parity;

    (void)exchange(&(box_t){{0}}, mask, site, &parity);
}

uint32_t emulator_shuffle(emulator_shuffle_t how, uint32_t value, uint32_t n, uint32_t c,
                          uint32_t mask, uint32_t site, bool *ok)
{
    uint32_t parity, lane = emulator_lane(), clamp = c & 31, segment = c >> 8 & 31;
    uint32_t low = lane & segment, high = low | (clamp & ~segment), source;
    const box_pair_t *boxes = exchange(&(box_t){{value}}, mask, site, &parity);

    n &= 31;
    switch (how) {
    case SHUFFLE_UP: /* its clamp is the lower end */
        *ok = lane >= n && lane - n >= high;
        source = lane - n;
        break;
    case SHUFFLE_DOWN:
        *ok = lane + n <= high;
        source = lane + n;
        break;
    case SHUFFLE_BFLY:
        *ok = (lane ^ n) <= high;
        source = lane ^ n;
        break;
    default:
        source = low | (n & ~segment);
        *ok = source <= high;
    }
    if (!*ok)
        return value;
    if (!(mask >> source & 1))
        emulator_fault("a shuffle reads lane %u, which its mask does not name", source);
    return boxes[source].of[parity].words[0];
}

uint32_t emulator_ballot(bool value, uint32_t mask, uint32_t site)
{
    uint32_t parity, bits = 0;
    const box_pair_t *boxes = exchange(&(box_t){{value}}, mask, site, &parity);

    for (uint32_t lane = 0; lane < WARP; lane++)
        if (mask >> lane & 1)
            bits |= boxes[lane].of[parity].words[0] << lane;
    return bits;
}

/* -- mma ------------------------------------------------------------------------------------- */

/* A float as significand * 2^(exponent - its bits behind the point); the exponent is the leading
 * bit's, of zeros and subnormals the smallest. */
static int64_t significand_of(float x, int *exponent)
{
    uint32_t bits;
    int64_t fraction;

    memcpy(&bits, &x, sizeof(bits));
    fraction = bits & 0x7fffff;
    *exponent = (int)(bits >> 23 & 255);
    if (*exponent)
        fraction |= 0x800000;
    else
        *exponent = 1;
    *exponent -= 127;
    return bits >> 31 ? -fraction : fraction;
}

enum { MMA_TERMS_MAX = 33 };

/* Exact products and c, aligned to the largest exponent, cut toward zero `fraction` bits below it,
 * added exactly; the sum is cut toward zero to 24 bits. */
float emulator_mma_sum(const float *a, const float *b, int count, float c, int fraction)
{
    int64_t terms[MMA_TERMS_MAX], sum = 0;
    int exponents[MMA_TERMS_MAX], behind[MMA_TERMS_MAX], top = INT32_MIN, high;
    uint64_t magnitude;
    double value;

    ASSERT(count < MMA_TERMS_MAX);
    for (int i = 0; i < count; i++) {
        int ea, eb;
        int64_t x = significand_of(a[i], &ea) / 65536,
                y = significand_of(b[i], &eb) / 65536; /* bf16 */
        terms[i] = x * y;
        exponents[i] = ea + eb;
        behind[i] = 14;
    }
    terms[count] = significand_of(c, &exponents[count]);
    behind[count] = 23;
    for (int i = 0; i <= count; i++)
        if (terms[i] && exponents[i] > top)
            top = exponents[i];
    for (int i = 0; i <= count; i++) {
        int shift = fraction - behind[i] + exponents[i] - top;
        int64_t size = terms[i] < 0 ? -terms[i] : terms[i];
        if (!size)
            continue;
        size = shift >= 0 ? (int64_t)((uint64_t)size << shift) : shift > -63 ? size >> -shift : 0;
        sum += terms[i] < 0 ? -size : size;
    }
    if (!sum)
        return 0.0f;
    magnitude = (uint64_t)(sum < 0 ? -sum : sum);
    high = 63 - __builtin_clzll(magnitude);
    if (high > 23)
        magnitude = magnitude >> (high - 23) << (high - 23);
    value = ldexp((double)magnitude, top - fraction);
    return (float)(sum < 0 ? -value : value);
}

static float bf16_of(uint32_t pair, uint32_t half)
{
    uint32_t bits = half ? pair & 0xffff0000u : pair << 16;
    float x;

    memcpy(&x, &bits, sizeof(x));
    return x;
}

/* Lane 4 g + t holds rows g and g + 8 of A, column g of B, and columns 2 t, 2 t + 1 of C and D. */
void emulator_mma_bf16(uint32_t *d, const uint32_t *a, const uint32_t *b, const uint32_t *c,
                       uint32_t site)
{
    uint32_t parity, lane = emulator_lane();
    const box_pair_t *boxes =
        exchange(&(box_t){{a[0], a[1], a[2], a[3], b[0], b[1]}}, UINT32_MAX, site, &parity);

    for (uint32_t i = 0; i < 4; i++) {
        uint32_t row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
        float x[16], y[16], start, sum;

        for (uint32_t k = 0; k < 16; k++) {
            uint32_t t = k % 8 / 2, upper = k / 8;
            x[k] = bf16_of(boxes[row % 8 * 4 + t].of[parity].words[row / 8 + 2 * upper], k % 2);
            y[k] = bf16_of(boxes[column * 4 + t].of[parity].words[4 + upper], k % 2);
        }
        memcpy(&start, &c[i], sizeof(start));
        sum = emulator_mma_sum(x, y, 16, start, 25);
        memcpy(&d[i], &sum, sizeof(sum));
    }
}

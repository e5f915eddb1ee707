/* emulator.h - a CUDA device on the host: translated kernels (tools/ptx2c.py), one fiber a thread.
 *
 * One OS thread runs all fibers of a block; a fiber runs until it waits (barrier, warp operation) or
 * pauses, and who goes next is a choice of the seed. So a forgotten wait shows as bits that depend
 * on the seed, or as a fault; the same seed does the same again. Shared memory starts as NaNs, and an
 * asynchronous copy lands when its thread waits for it, no sooner.
 *
 * Not seen here: memory order between blocks and processes, what ptxas makes of the PTX, and time.
 * Not reentrant: one launch at a time in a process. x86-64 only.
 */
#ifndef TESTS_CUDA_EMULATOR_H
#define TESTS_CUDA_EMULATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    EMULATOR_PARAMETERS_MAX = 16,
    EMULATOR_PARAMETER_BYTES_MAX = 1024,
    EMULATOR_SHARED_BYTES_MAX = 227 << 10, /* of a block, on both architectures' larger one */
    EMULATOR_THREADS_MAX = 1024,
};

typedef struct {
    uint32_t x, y, z;
} emulator_size_t;

typedef struct {
    const char *name;
    void (*run)(const unsigned char *parameters);
    uint32_t shared_bytes; /* static */
    uint32_t parameter_count;
    struct {
        uint32_t offset, bytes;
    } parameters[EMULATOR_PARAMETERS_MAX];
} emulator_kernel_t;

typedef struct {
    const emulator_kernel_t *kernel;
    emulator_size_t grid, block;
    uint32_t shared_bytes; /* dynamic */
    uint64_t seed;         /* 0: blocks and threads in their order */
    bool turns;            /* blocks take turns: they may wait for each other */
    uint32_t device;
    const unsigned char *parameters; /* as the kernel lays them out */
} emulator_launch_t;

/* Runs it to its end. NULL, or what went wrong (of the emulator's, until the next launch). */
const char *emulator_run(const emulator_launch_t *launch);

/* -- memory that kernels may touch --------------------------------------------------------- */

/* [at, at + bytes), for the devices of the two masks; ranges do not overlap. */
void emulator_range_add(uintptr_t at, size_t bytes, uint32_t readers, uint32_t writers);
/* The range that starts at `at` goes; false if there is none. */
bool emulator_range_remove(uintptr_t at);
/* Host code asks: may `device` touch all of it? */
bool emulator_range_covers(uintptr_t at, size_t bytes, uint32_t device, bool write);

/* -- what translated kernels call ------------------------------------------------------------ */

emulator_size_t emulator_thread(void);
emulator_size_t emulator_block(void);
emulator_size_t emulator_block_size(void);
emulator_size_t emulator_grid_size(void);
uint32_t emulator_lane(void);

/* The bytes behind an address, checked: alignment, bounds, rights. */
unsigned char *emulator_global(uint64_t at, uint32_t bytes, bool write);
unsigned char *emulator_shared(uint64_t at, uint32_t bytes, bool write);
unsigned char *emulator_generic(uint64_t at, uint32_t bytes, bool write);
static inline unsigned char *emulator_local(uint64_t at, uint32_t bytes, bool write)
{
    (void)bytes, (void)write; /* ASan sees these */
    return (unsigned char *)(uintptr_t)at;
}
#define emulator_const emulator_local
/* Between shared addresses (from 0) and generic ones. */
uint64_t emulator_cvta_shared(uint64_t at);
uint64_t emulator_cvta_to_shared(uint64_t at);
static inline uint64_t emulator_cvta_other(uint64_t at)
{
    return at;
}
#define emulator_cvta_to_other emulator_cvta_other

/* `site` names the instruction: lanes of a warp must meet at one. */
void emulator_barrier(uint32_t site);
void emulator_warp_wait(uint32_t mask, uint32_t site);
typedef enum { SHUFFLE_IDX, SHUFFLE_UP, SHUFFLE_DOWN, SHUFFLE_BFLY } emulator_shuffle_t;
uint32_t emulator_shuffle(emulator_shuffle_t how, uint32_t value, uint32_t n, uint32_t c,
                          uint32_t mask, uint32_t site, bool *ok);
uint32_t emulator_ballot(bool value, uint32_t mask, uint32_t site);
/* mma.sync m16n8k16 of bf16 into float32, by the arithmetic of MMA-Sim (arXiv 2511.10909). */
void emulator_mma_bf16(uint32_t *d, const uint32_t *a, const uint32_t *b, const uint32_t *c,
                       uint32_t site);
/* cp.async: `filled` of `bytes` come from the source, the rest are zero. */
void emulator_copy(uint64_t shared, uint64_t global, uint32_t bytes, uint32_t filled);
void emulator_copy_commit(void);
void emulator_copy_wait(uint32_t groups_left);
/* Where others may be waited for: a volatile access, an atomic, a fence. */
void emulator_pause(void);
/* Ends the launch. */
_Noreturn void emulator_fault(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The sum of mma for one output: c + sum of a[i] b[i], cut at `fraction` bits below the largest. */
float emulator_mma_sum(const float *a, const float *b, int count, float c, int fraction);

#endif

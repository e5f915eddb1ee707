/* fake_cuda.h - what the two files of the fake driver share; see fake_cuda.c. */
#ifndef TESTS_CUDA_FAKE_CUDA_H
#define TESTS_CUDA_FAKE_CUDA_H

#include <cuda.h>
#include <pthread.h>

#include "runtime/base/check.h"
#include "runtime/base/random.h"
#include "tests/cuda/emulator.h"

enum {
    DEVICES_MAX = 8,
    GRANULE = 2 << 20,
    STREAMS_MAX = 256,
    MAPPINGS_MAX = 4096,
    MODULES_MAX = 256,
    SHARED_BYTES_PLAIN = 48 << 10, /* without cuFuncSetAttribute */
    GRID_HEIGHT_MAX = 65535,
};

typedef enum { WORK_LAUNCH, WORK_COPY, WORK_SET, WORK_RECORD, WORK_WAIT } work_kind_t;

typedef struct work {
    struct work *next;
    work_kind_t kind;
    uintptr_t target, source; /* COPY, SET */
    bool target_device, source_device;
    size_t bytes;
    unsigned char value; /* SET */
    struct CUevent_st *event;
    uint64_t number; /* of the event's record */
    emulator_launch_t launch;
    unsigned char parameters[EMULATOR_PARAMETER_BYTES_MAX];
} work_t;

struct CUctx_st {
    int device;
};

struct CUstream_st {
    bool used;
    int device;
    work_t *first, **last;
    bool capturing;
};

struct CUevent_st {
    uint64_t recorded, done; /* records submitted, and run */
};

struct CUfunc_st {
    const emulator_kernel_t *kernel;
    uint32_t shared_bytes_max;
};

struct CUgraph_st {
    work_t *first, **last;
};

typedef struct {
    uintptr_t at;
    size_t bytes;
    bool mapped, accessible;
} mapping_t;

extern const emulator_kernel_t *const ptx_tables[];

typedef struct {
    pthread_mutex_t lock;
    bool started;
    uint64_t devices, memory, seed, full, lost, version, peers;
    uint64_t used[DEVICES_MAX];
    uint64_t allocations, submitted;
    CUresult sticky;
    random_t random;
    struct CUctx_st contexts[DEVICES_MAX];
    struct CUstream_st streams[STREAMS_MAX];
    struct CUfunc_st functions[MODULES_MAX];
    mapping_t mappings[MAPPINGS_MAX];
} fake_cuda_t;

extern fake_cuda_t fake;
extern _Thread_local CUcontext current;

/* Adds a piece of work to a stream. */
CUresult submit(CUstream stream, const work_t *work);
/* Runs what all streams hold. */
CUresult drain_all(void);

#define API __attribute__((visibility("default"))) CUresult CUDAAPI
#define LOCKED(body)                                                                               \
    do {                                                                                           \
        CUresult result_;                                                                          \
        pthread_mutex_lock(&fake.lock);                                                            \
        result_ = fake.sticky != CUDA_SUCCESS ? fake.sticky : (body);                              \
        pthread_mutex_unlock(&fake.lock);                                                          \
        return result_;                                                                            \
    } while (0)

#endif

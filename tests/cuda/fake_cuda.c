/* fake_cuda.c - a libcuda.so.1 without a device: memory is the host's, kernels are the translated
 * PTX on tests/cuda/emulator.h, a stream is a queue.
 *
 * As strict as a driver may be: work runs as late as it may or as early, by the seed, so that what
 * nobody waited for is not there yet; streams meet at events alone; kernels and copies touch only
 * memory that is mapped for their device; the first fault is sticky and every later call returns it.
 * A stream that is captured runs nothing. What is not here is missing at dlsym, as with an old driver.
 *
 * LOCKSTEP_FAKE_CUDA="devices=2,memory=1073741824,seed=3,full=7,lost=9,version=13000,peers=0": how
 * many devices, bytes of each, order, the 7th allocation fails, the 9th piece of work loses the
 * device, the driver's version, no peer reaches another. Thread-safe: one lock.
 */
#include "tests/cuda/fake_cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

fake_cuda_t fake = {.lock = PTHREAD_MUTEX_INITIALIZER};
_Thread_local CUcontext current;

/* -- start ----------------------------------------------------------------------------------- */

static uint64_t option(const char *name, uint64_t otherwise)
{
    const char *at = getenv("LOCKSTEP_FAKE_CUDA");
    size_t length = strlen(name);

    for (; at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (!strncmp(at, name, length) && at[length] == '=')
            return strtoull(at + length + 1, NULL, 10);
    return otherwise;
}

API cuInit(unsigned flags)
{
    (void)flags;
    pthread_mutex_lock(&fake.lock);
    if (!fake.started) {
        fake.devices = option("devices", 1);
        fake.memory = option("memory", 1 << 30);
        fake.seed = option("seed", 1);
        fake.full = option("full", 0);
        fake.lost = option("lost", 0);
        fake.version = option("version", 13000);
        fake.peers = option("peers", 1);
        ASSERT(fake.devices <= DEVICES_MAX);
        random_init(&fake.random, fake.seed);
        for (int i = 0; i < DEVICES_MAX; i++)
            fake.contexts[i].device = i;
        fake.started = true;
    }
    pthread_mutex_unlock(&fake.lock);
    return fake.devices ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

API cuDriverGetVersion(int *version)
{
    *version = (int)fake.version;
    return CUDA_SUCCESS;
}

API cuGetErrorName(CUresult result, const char **text)
{
    *text = result == CUDA_ERROR_OUT_OF_MEMORY     ? "CUDA_ERROR_OUT_OF_MEMORY"
            : result == CUDA_ERROR_ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS"
                                                   : "CUDA_ERROR";
    return CUDA_SUCCESS;
}

API cuGetErrorString(CUresult result, const char **text)
{
    static _Thread_local char words[32];

    snprintf(words, sizeof(words), "code %d", (int)result);
    *text = words;
    return CUDA_SUCCESS;
}

API cuDeviceGetCount(int *count)
{
    *count = (int)fake.devices;
    return CUDA_SUCCESS;
}

API cuDeviceGet(CUdevice *device, int number)
{
    *device = number;
    return number >= 0 && (uint64_t)number < fake.devices ? CUDA_SUCCESS
                                                          : CUDA_ERROR_INVALID_DEVICE;
}

API cuDeviceGetName(char *name, int bytes, CUdevice device)
{
    snprintf(name, (size_t)bytes, "no device, number %d", device);
    return CUDA_SUCCESS;
}

API cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    (void)device;
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        *value = 9;
        return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        *value = 0;
        return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
        *value = 1;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

API cuDeviceTotalMem(size_t *bytes, CUdevice device)
{
    (void)device;
    *bytes = fake.memory;
    return CUDA_SUCCESS;
}

API cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
    *can = device != peer && fake.peers;
    return CUDA_SUCCESS;
}

API cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    *context = &fake.contexts[device];
    return fake.sticky;
}

API cuDevicePrimaryCtxRelease(CUdevice device)
{
    (void)device;
    return CUDA_SUCCESS;
}

API cuCtxSetCurrent(CUcontext context)
{
    current = context;
    return fake.sticky;
}

/* -- streams --------------------------------------------------------------------------------- */

static CUresult lose(CUresult why, const char *words)
{
    fprintf(stderr, "fake cuda: %s\n", words);
    return fake.sticky = why;
}

static CUresult run_copy(const work_t *work, int device)
{
    if ((work->target_device &&
         !emulator_range_covers(work->target, work->bytes, (uint32_t)device, true)) ||
        (work->source_device &&
         !emulator_range_covers(work->source, work->bytes, (uint32_t)device, false)))
        return lose(CUDA_ERROR_ILLEGAL_ADDRESS, "a copy leaves the memory that is mapped");
    if (work->kind == WORK_SET)
        memset((void *)work->target, work->value, work->bytes);
    else
        memmove((void *)work->target, (const void *)work->source, work->bytes);
    return CUDA_SUCCESS;
}

static CUresult run_work(work_t *work, int device)
{
    const char *fault = NULL;

    switch (work->kind) {
    case WORK_RECORD:
        work->event->done = work->number;
        return CUDA_SUCCESS;
    case WORK_WAIT:
        return CUDA_SUCCESS;
    case WORK_COPY:
    case WORK_SET:
        return run_copy(work, device);
    default:
        work->launch.parameters = work->parameters;
        work->launch.device = (uint32_t)device;
        work->launch.seed = fake.seed ? random_next(&fake.random) : 0;
        fault = emulator_run(&work->launch);
        return fault ? lose(CUDA_ERROR_ILLEGAL_ADDRESS, fault) : CUDA_SUCCESS;
    }
}

static bool can_run(const struct CUstream_st *stream)
{
    return stream->first && !(stream->first->kind == WORK_WAIT &&
                              stream->first->event->done < stream->first->number);
}

/* One piece of work of some stream that can go on; false if none can. */
static bool run_some(void)
{
    struct CUstream_st *ready[STREAMS_MAX], *stream;
    uint32_t count = 0;
    work_t *work;

    for (uint32_t i = 0; i < STREAMS_MAX; i++)
        if (!fake.streams[i].capturing && can_run(&fake.streams[i]))
            ready[count++] = &fake.streams[i];
    if (!count)
        return false;
    stream = ready[random_below(&fake.random, count)];
    work = stream->first;
    stream->first = work->next;
    if (!stream->first)
        stream->last = &stream->first;
    (void)run_work(work, stream->device);
    free(work);
    return fake.sticky == CUDA_SUCCESS;
}

/* Until the stream has nothing left. */
static CUresult drain(const struct CUstream_st *stream)
{
    while (stream->first && run_some())
        ;
    ASSERT(fake.sticky != CUDA_SUCCESS || !stream->first); /* else a wait without a record */
    return fake.sticky;
}

CUresult submit(CUstream stream, const work_t *work)
{
    work_t *copy;

    if (!stream || !stream->used)
        return CUDA_ERROR_INVALID_HANDLE; /* the default stream waits for all: nobody uses it */
    if (++fake.submitted == fake.lost)
        return lose(CUDA_ERROR_UNKNOWN, "the device is lost, as was asked");
    copy = malloc(sizeof(*copy));
    ASSERT(copy);
    *copy = *work;
    copy->next = NULL;
    *stream->last = copy;
    stream->last = &copy->next;
    while (!stream->capturing && random_below(&fake.random, 4) == 0 && run_some())
        ;
    return fake.sticky;
}

static CUresult stream_create(CUstream *out)
{
    for (uint32_t i = 0; i < STREAMS_MAX; i++) {
        struct CUstream_st *stream = &fake.streams[i];
        if (stream->used)
            continue;
        *stream = (struct CUstream_st){.used = true, .device = current ? current->device : 0};
        stream->last = &stream->first;
        *out = stream;
        return current ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
    }
    return CUDA_ERROR_OUT_OF_MEMORY;
}

API cuStreamCreate(CUstream *stream, unsigned flags)
{
    (void)flags;
    LOCKED(stream_create(stream));
}

static CUresult stream_destroy(CUstream stream)
{
    CUresult result = drain(stream);
    stream->used = false;
    return result;
}

API cuStreamDestroy(CUstream stream)
{
    LOCKED(stream_destroy(stream));
}

API cuStreamSynchronize(CUstream stream)
{
    LOCKED(stream->capturing ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : drain(stream));
}

static CUresult query(const struct CUstream_st *stream)
{
    if (stream->first)
        (void)run_some();
    return fake.sticky != CUDA_SUCCESS ? fake.sticky
           : stream->first             ? CUDA_ERROR_NOT_READY
                                       : CUDA_SUCCESS;
}

API cuStreamQuery(CUstream stream)
{
    LOCKED(query(stream));
}

CUresult drain_all(void)
{
    for (uint32_t i = 0; i < STREAMS_MAX && fake.sticky == CUDA_SUCCESS; i++)
        if (fake.streams[i].used && !fake.streams[i].capturing)
            (void)drain(&fake.streams[i]);
    return fake.sticky;
}

API cuCtxSynchronize(void)
{
    LOCKED(drain_all());
}

/* -- events ---------------------------------------------------------------------------------- */

API cuEventCreate(CUevent *event, unsigned flags)
{
    (void)flags;
    *event = calloc(1, sizeof(**event));
    return *event ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult event_destroy(CUevent event)
{
    CUresult result = drain_all(); /* nothing names it any more */
    free(event);
    return result;
}

API cuEventDestroy(CUevent event)
{
    LOCKED(event_destroy(event));
}

static CUresult event_work(CUstream stream, CUevent event, work_kind_t kind)
{
    if (stream->capturing)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (kind == WORK_RECORD)
        event->recorded++;
    return submit(stream, &(work_t){.kind = kind, .event = event, .number = event->recorded});
}

API cuEventRecord(CUevent event, CUstream stream)
{
    LOCKED(event_work(stream, event, WORK_RECORD));
}

API cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    (void)flags;
    LOCKED(event_work(stream, event, WORK_WAIT));
}

static CUresult event_query(const struct CUevent_st *event)
{
    if (event->done < event->recorded)
        (void)run_some();
    return fake.sticky != CUDA_SUCCESS     ? fake.sticky
           : event->done < event->recorded ? CUDA_ERROR_NOT_READY
                                           : CUDA_SUCCESS;
}

API cuEventQuery(CUevent event)
{
    LOCKED(event_query(event));
}

static CUresult event_wait(const struct CUevent_st *event)
{
    while (event->done < event->recorded && run_some())
        ;
    return fake.sticky;
}

API cuEventSynchronize(CUevent event)
{
    LOCKED(event_wait(event));
}

/* -- graphs: a captured stream's work, again and again ---------------------------------------- */

static CUresult capture_begin(CUstream stream)
{
    if (stream->capturing)
        return CUDA_ERROR_ILLEGAL_STATE;
    (void)drain(stream);
    stream->capturing = true;
    return fake.sticky;
}

API cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode)
{
    (void)mode;
    LOCKED(capture_begin(stream));
}

static CUresult capture_end(CUstream stream, CUgraph *graph)
{
    if (!stream->capturing)
        return CUDA_ERROR_ILLEGAL_STATE;
    *graph = calloc(1, sizeof(**graph));
    ASSERT(*graph);
    (*graph)->first = stream->first;
    stream->first = NULL;
    stream->last = &stream->first;
    stream->capturing = false;
    return CUDA_SUCCESS;
}

API cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    LOCKED(capture_end(stream, graph));
}

static CUresult instantiate(CUgraphExec *out, CUgraph graph)
{
    struct CUgraph_st *copy = calloc(1, sizeof(*copy));

    ASSERT(copy);
    copy->last = &copy->first;
    for (const work_t *work = graph->first; work; work = work->next) {
        *copy->last = malloc(sizeof(*work));
        ASSERT(*copy->last);
        **copy->last = *work;
        (*copy->last)->next = NULL;
        copy->last = &(*copy->last)->next;
    }
    *out = (CUgraphExec)(void *)copy;
    return CUDA_SUCCESS;
}

API cuGraphInstantiate(CUgraphExec *out, CUgraph graph, unsigned long long flags)
{
    (void)flags;
    LOCKED(instantiate(out, graph));
}

static CUresult graph_launch(CUgraphExec exec, CUstream stream)
{
    const struct CUgraph_st *graph = (const struct CUgraph_st *)(void *)exec;
    CUresult result = CUDA_SUCCESS;

    for (const work_t *work = graph->first; work && result == CUDA_SUCCESS; work = work->next)
        result = submit(stream, work);
    return result;
}

API cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
    LOCKED(graph_launch(exec, stream));
}

API cuGraphDestroy(CUgraph graph)
{
    for (work_t *work = graph->first, *next; work; work = next) {
        next = work->next;
        free(work);
    }
    free(graph);
    return CUDA_SUCCESS;
}

API cuGraphExecDestroy(CUgraphExec exec)
{
    return cuGraphDestroy((CUgraph)(void *)exec);
}

/* -- modules and launches -------------------------------------------------------------------- */

API cuModuleLoadData(CUmodule *module, const void *image)
{
    uint32_t magic;

    memcpy(&magic, image, sizeof(magic));
    *module = (CUmodule)(uintptr_t)1;
    return magic == 0xba55ed50 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_IMAGE; /* a fatbin's */
}

API cuModuleUnload(CUmodule module)
{
    (void)module;
    return CUDA_SUCCESS;
}

static CUresult function_find(CUfunction *out, const char *name)
{
    for (const emulator_kernel_t *const *table = ptx_tables; *table; table++)
        for (const emulator_kernel_t *kernel = *table; kernel->name; kernel++) {
            if (strcmp(kernel->name, name) != 0)
                continue;
            for (uint32_t i = 0; i < MODULES_MAX; i++)
                if (!fake.functions[i].kernel || fake.functions[i].kernel == kernel) {
                    fake.functions[i].kernel = kernel;
                    *out = &fake.functions[i];
                    return CUDA_SUCCESS;
                }
        }
    return CUDA_ERROR_NOT_FOUND;
}

API cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    (void)module;
    LOCKED(function_find(function, name));
}

API cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value)
{
    if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
        return CUDA_ERROR_INVALID_VALUE;
    function->shared_bytes_max = (uint32_t)value;
    return CUDA_SUCCESS;
}

static CUresult launch(CUfunction function, emulator_size_t grid, emulator_size_t block,
                       unsigned shared, CUstream stream, void **parameters, bool turns)
{
    const emulator_kernel_t *kernel = function->kernel;
    work_t work = {.kind = WORK_LAUNCH,
                   .launch = {.kernel = kernel,
                              .grid = grid,
                              .block = block,
                              .shared_bytes = shared,
                              .turns = turns}};

    if (kernel->shared_bytes + shared > SHARED_BYTES_PLAIN && shared > function->shared_bytes_max)
        return CUDA_ERROR_INVALID_VALUE;
    if (grid.y > GRID_HEIGHT_MAX || grid.z > GRID_HEIGHT_MAX || !grid.x || !grid.y || !grid.z)
        return CUDA_ERROR_INVALID_VALUE;
    if ((uint64_t)block.x * block.y * block.z - 1 >= EMULATOR_THREADS_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    for (uint32_t i = 0; i < kernel->parameter_count; i++) /* taken at the call */
        memcpy(work.parameters + kernel->parameters[i].offset, parameters[i],
               kernel->parameters[i].bytes);
    return submit(stream, &work);
}

API cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                   unsigned by, unsigned bz, unsigned shared, CUstream stream, void **parameters,
                   void **extra)
{
    (void)extra;
    LOCKED(launch(function, (emulator_size_t){gx, gy, gz}, (emulator_size_t){bx, by, bz}, shared,
                  stream, parameters, false));
}

API cuLaunchCooperativeKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz,
                              unsigned bx, unsigned by, unsigned bz, unsigned shared,
                              CUstream stream, void **parameters)
{
    LOCKED(launch(function, (emulator_size_t){gx, gy, gz}, (emulator_size_t){bx, by, bz}, shared,
                  stream, parameters, true));
}

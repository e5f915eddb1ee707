/* fake_memory.c - memory of the fake driver: plain, the host's, and virtual; see fake_cuda.c. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/cuda/fake_cuda.h"

/* -- memory ---------------------------------------------------------------------------------- */

static CUresult take(int device, size_t bytes)
{
    if (++fake.allocations == fake.full || fake.used[device] + bytes > fake.memory)
        return CUDA_ERROR_OUT_OF_MEMORY;
    fake.used[device] += bytes;
    return CUDA_SUCCESS;
}

API cuMemGetInfo(size_t *left, size_t *total)
{
    *total = fake.memory;
    *left = fake.memory - fake.used[current->device];
    return fake.sticky;
}

static const uint32_t everybody = (1u << DEVICES_MAX) - 1;

/* Plain device memory: a size in front, so that freeing finds it. */
static CUresult mem_alloc(CUdeviceptr *out, size_t bytes)
{
    unsigned char *memory;

    if (!current || !bytes)
        return CUDA_ERROR_INVALID_VALUE;
    if (take(current->device, bytes) != CUDA_SUCCESS)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memory = aligned_alloc(256, 256 + (bytes + 255) / 256 * 256);
    ASSERT(memory);
    memcpy(memory, &bytes, sizeof(bytes));
    memset(memory + 256, 0xff, bytes); /* NaNs until somebody writes */
    emulator_range_add((uintptr_t)memory + 256, bytes, 1u << current->device,
                       1u << current->device);
    *out = (uintptr_t)memory + 256;
    return CUDA_SUCCESS;
}

API cuMemAlloc(CUdeviceptr *out, size_t bytes)
{
    LOCKED(mem_alloc(out, bytes));
}

static CUresult mem_free(CUdeviceptr at)
{
    size_t bytes;

    (void)drain_all(); /* as cuMemFree does */
    if (!emulator_range_remove((uintptr_t)at))
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&bytes, (const void *)(uintptr_t)(at - 256), sizeof(bytes));
    fake.used[current->device] -= bytes;
    free((void *)(uintptr_t)(at - 256));
    return fake.sticky;
}

API cuMemFree(CUdeviceptr at)
{
    LOCKED(mem_free(at));
}

static CUresult host_alloc(void **out, size_t bytes)
{
    *out = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (!*out)
        return CUDA_ERROR_OUT_OF_MEMORY;
    emulator_range_add((uintptr_t)*out, bytes, everybody, everybody);
    return CUDA_SUCCESS;
}

API cuMemHostAlloc(void **out, size_t bytes, unsigned flags)
{
    (void)flags;
    LOCKED(host_alloc(out, bytes));
}

static CUresult host_forget(void *at, bool release)
{
    (void)drain_all();
    if (!emulator_range_remove((uintptr_t)at))
        return CUDA_ERROR_INVALID_VALUE;
    if (release)
        free(at);
    return fake.sticky;
}

API cuMemFreeHost(void *at)
{
    LOCKED(host_forget(at, true));
}

static CUresult host_register(void *at, size_t bytes)
{
    emulator_range_add((uintptr_t)at, bytes, everybody, everybody);
    return CUDA_SUCCESS;
}

API cuMemHostRegister(void *at, size_t bytes, unsigned flags)
{
    (void)flags;
    LOCKED(host_register(at, bytes));
}

API cuMemHostUnregister(void *at)
{
    LOCKED(host_forget(at, false));
}

API cuMemcpyHtoDAsync(CUdeviceptr target, const void *source, size_t bytes, CUstream stream)
{
    LOCKED(submit(stream, &(work_t){.kind = WORK_COPY,
                                    .target = (uintptr_t)target,
                                    .source = (uintptr_t)source,
                                    .target_device = true,
                                    .bytes = bytes}));
}

API cuMemcpyDtoHAsync(void *target, CUdeviceptr source, size_t bytes, CUstream stream)
{
    LOCKED(submit(stream, &(work_t){.kind = WORK_COPY,
                                    .target = (uintptr_t)target,
                                    .source = (uintptr_t)source,
                                    .source_device = true,
                                    .bytes = bytes}));
}

API cuMemcpyDtoDAsync(CUdeviceptr target, CUdeviceptr source, size_t bytes, CUstream stream)
{
    LOCKED(submit(stream, &(work_t){.kind = WORK_COPY,
                                    .target = (uintptr_t)target,
                                    .source = (uintptr_t)source,
                                    .target_device = true,
                                    .source_device = true,
                                    .bytes = bytes}));
}

API cuMemsetD8Async(CUdeviceptr target, unsigned char value, size_t bytes, CUstream stream)
{
    LOCKED(submit(stream, &(work_t){.kind = WORK_SET,
                                    .target = (uintptr_t)target,
                                    .target_device = true,
                                    .value = value,
                                    .bytes = bytes}));
}

/* -- virtual memory: addresses are reserved, memory is a memfd, a map joins them --------------- */

API cuMemGetAllocationGranularity(size_t *bytes, const CUmemAllocationProp *prop,
                                  CUmemAllocationGranularity_flags flags)
{
    (void)prop, (void)flags;
    *bytes = GRANULE;
    return CUDA_SUCCESS;
}

static CUresult reserve(CUdeviceptr *out, size_t bytes)
{
    void *at;

    if (!bytes || bytes % GRANULE)
        return CUDA_ERROR_INVALID_VALUE;
    at = mmap(NULL, bytes + GRANULE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out = ((uintptr_t)at + GRANULE - 1) / GRANULE * GRANULE;
    return CUDA_SUCCESS;
}

API cuMemAddressReserve(CUdeviceptr *out, size_t bytes, size_t alignment, CUdeviceptr wanted,
                        unsigned long long flags)
{
    (void)alignment, (void)wanted, (void)flags;
    LOCKED(reserve(out, bytes));
}

API cuMemAddressFree(CUdeviceptr at, size_t bytes)
{
    munmap((void *)(uintptr_t)at, bytes); /* the rest of the last granule stays reserved */
    return CUDA_SUCCESS;
}

static CUresult mem_create(CUmemGenericAllocationHandle *out, size_t bytes,
                           const CUmemAllocationProp *prop)
{
    int fd;

    if (!bytes || bytes % GRANULE || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
        prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        (uint64_t)prop->location.id >= fake.devices)
        return CUDA_ERROR_INVALID_VALUE;
    if (take(prop->location.id, bytes) != CUDA_SUCCESS)
        return CUDA_ERROR_OUT_OF_MEMORY;
    fd = memfd_create("fake-cuda", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out = (CUmemGenericAllocationHandle)fd;
    return CUDA_SUCCESS;
}

API cuMemCreate(CUmemGenericAllocationHandle *out, size_t bytes, const CUmemAllocationProp *prop,
                unsigned long long flags)
{
    (void)flags;
    LOCKED(mem_create(out, bytes, prop));
}

API cuMemRelease(CUmemGenericAllocationHandle handle)
{
    return close((int)handle) == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

API cuMemExportToShareableHandle(void *out, CUmemGenericAllocationHandle handle,
                                 CUmemAllocationHandleType type, unsigned long long flags)
{
    int fd = fcntl((int)handle, F_DUPFD_CLOEXEC, 0);

    (void)flags;
    memcpy(out, &fd, sizeof(fd));
    return type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR && fd >= 0 ? CUDA_SUCCESS
                                                                       : CUDA_ERROR_NOT_SUPPORTED;
}

API cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *out, void *shareable,
                                   CUmemAllocationHandleType type)
{
    int fd = fcntl((int)(intptr_t)shareable, F_DUPFD_CLOEXEC, 0);

    *out = (CUmemGenericAllocationHandle)fd;
    return type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR && fd >= 0 ? CUDA_SUCCESS
                                                                       : CUDA_ERROR_INVALID_VALUE;
}

static mapping_t *mapping_of(CUdeviceptr at)
{
    for (uint32_t i = 0; i < MAPPINGS_MAX; i++)
        if (fake.mappings[i].mapped && fake.mappings[i].at == (uintptr_t)at)
            return &fake.mappings[i];
    return NULL;
}

static CUresult mem_map(CUdeviceptr at, size_t bytes, size_t offset,
                        CUmemGenericAllocationHandle handle)
{
    if (at % GRANULE || bytes % GRANULE || offset || mapping_of(at))
        return CUDA_ERROR_INVALID_VALUE;
    for (uint32_t i = 0; i < MAPPINGS_MAX; i++) {
        if (fake.mappings[i].mapped)
            continue;
        if (mmap((void *)(uintptr_t)at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                 (int)handle, 0) == MAP_FAILED)
            return CUDA_ERROR_INVALID_VALUE;
        fake.mappings[i] = (mapping_t){(uintptr_t)at, bytes, true, false};
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_OUT_OF_MEMORY;
}

API cuMemMap(CUdeviceptr at, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
             unsigned long long flags)
{
    (void)flags;
    LOCKED(mem_map(at, bytes, offset, handle));
}

static CUresult mem_unmap(CUdeviceptr at, size_t bytes)
{
    mapping_t *mapping = mapping_of(at);

    if (!mapping || mapping->bytes != bytes)
        return CUDA_ERROR_INVALID_VALUE;
    if (mapping->accessible)
        (void)emulator_range_remove(mapping->at);
    mapping->mapped = false;
    (void)mmap((void *)(uintptr_t)at, bytes, PROT_NONE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    return CUDA_SUCCESS;
}

API cuMemUnmap(CUdeviceptr at, size_t bytes)
{
    LOCKED(mem_unmap(at, bytes));
}

static CUresult set_access(CUdeviceptr at, size_t bytes, const CUmemAccessDesc *access,
                           size_t count)
{
    mapping_t *mapping = mapping_of(at);
    uint32_t readers = 0, writers = 0;

    if (!mapping || mapping->bytes != bytes)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        uint32_t device = 1u << access[i].location.id;
        readers |= access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE ? device : 0;
        writers |= access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? device : 0;
    }
    if (mapping->accessible)
        (void)emulator_range_remove(mapping->at);
    emulator_range_add(mapping->at, bytes, readers, writers);
    mapping->accessible = true;
    return CUDA_SUCCESS;
}

API cuMemSetAccess(CUdeviceptr at, size_t bytes, const CUmemAccessDesc *access, size_t count)
{
    LOCKED(set_access(at, bytes, access, count));
}

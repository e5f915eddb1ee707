/* driver.h - the CUDA driver, opened at run time: this program links no CUDA library.
 *
 * One table of symbols; what a driver lacks is found when it is opened, not when it is called.
 * Codes of the driver are translated here (cuda_check); a caller sees statuses.
 */
#ifndef KERNELS_CUDA_DRIVER_H
#define KERNELS_CUDA_DRIVER_H

#include <cuda.h>

#include "runtime/base/status.h"

/* Names as cuda.h has them; its macros turn them into the versions that it means. */
#define CUDA_DRIVER_TABLE(F)                                                                       \
    F(cuInit)                                                                                      \
    F(cuDriverGetVersion)                                                                          \
    F(cuGetErrorName)                                                                              \
    F(cuGetErrorString)                                                                            \
    F(cuDeviceGetCount)                                                                            \
    F(cuDeviceGet)                                                                                 \
    F(cuDeviceGetName)                                                                             \
    F(cuDeviceGetAttribute)                                                                        \
    F(cuDeviceTotalMem)                                                                            \
    F(cuDeviceCanAccessPeer)                                                                       \
    F(cuDevicePrimaryCtxRetain)                                                                    \
    F(cuDevicePrimaryCtxRelease)                                                                   \
    F(cuCtxSetCurrent)                                                                             \
    F(cuCtxSynchronize)                                                                            \
    F(cuModuleLoadData)                                                                            \
    F(cuModuleUnload)                                                                              \
    F(cuModuleGetFunction)                                                                         \
    F(cuFuncSetAttribute)                                                                          \
    F(cuLaunchKernel)                                                                              \
    F(cuLaunchCooperativeKernel)                                                                   \
    F(cuMemGetInfo)                                                                                \
    F(cuMemAlloc)                                                                                  \
    F(cuMemFree)                                                                                   \
    F(cuMemHostAlloc)                                                                              \
    F(cuMemFreeHost)                                                                               \
    F(cuMemHostRegister)                                                                           \
    F(cuMemHostUnregister)                                                                         \
    F(cuMemcpyHtoDAsync)                                                                           \
    F(cuMemcpyDtoHAsync)                                                                           \
    F(cuMemcpyDtoDAsync)                                                                           \
    F(cuMemsetD8Async)                                                                             \
    F(cuMemGetAllocationGranularity)                                                               \
    F(cuMemAddressReserve)                                                                         \
    F(cuMemAddressFree)                                                                            \
    F(cuMemCreate)                                                                                 \
    F(cuMemRelease)                                                                                \
    F(cuMemMap)                                                                                    \
    F(cuMemUnmap)                                                                                  \
    F(cuMemSetAccess)                                                                              \
    F(cuMemExportToShareableHandle)                                                                \
    F(cuMemImportFromShareableHandle)                                                              \
    F(cuStreamCreate)                                                                              \
    F(cuStreamDestroy)                                                                             \
    F(cuStreamSynchronize)                                                                         \
    F(cuStreamQuery)                                                                               \
    F(cuStreamWaitEvent)                                                                           \
    F(cuStreamBeginCapture)                                                                        \
    F(cuStreamEndCapture)                                                                          \
    F(cuEventCreate)                                                                               \
    F(cuEventDestroy)                                                                              \
    F(cuEventRecord)                                                                               \
    F(cuEventQuery)                                                                                \
    F(cuEventSynchronize)                                                                          \
    F(cuGraphInstantiate)                                                                          \
    F(cuGraphLaunch)                                                                               \
    F(cuGraphExecDestroy)                                                                          \
    F(cuGraphDestroy)

enum { CUDA_DRIVER_VERSION_MIN = 13000 };

typedef struct {
    void *library;
    int version; /* 13000 is 13.0 */
    int device_count;
#define CUDA_DRIVER_FIELD(name) __typeof__(name) *name;
    CUDA_DRIVER_TABLE(CUDA_DRIVER_FIELD)
#undef CUDA_DRIVER_FIELD
} cuda_driver_t;

/* Opens libcuda.so.1 and starts it. UNSUPPORTED, with one line that says what was found: no driver,
 * a symbol that it lacks, a version too old, no device. */
MUST_USE status_t cuda_driver_open(cuda_driver_t *driver);
void cuda_driver_close(cuda_driver_t *driver);

/* OK, or what a code means, with the driver's words: NO_MEMORY, UNSUPPORTED, else IO. */
MUST_USE status_t cuda_check(const cuda_driver_t *driver, CUresult result, const char *call);
#define CUDA_TRY(driver, call) TRY(cuda_check((driver), (driver)->call, #call))

#endif

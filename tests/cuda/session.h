/* session.h - a driver opened on its first device, for a test in a process of its own: what fails
 * ends the process with a line. */
#ifndef TESTS_CUDA_SESSION_H
#define TESTS_CUDA_SESSION_H

#include "kernels/cuda/operators.h"

enum { SESSION_BYTES = 2 << 20 };

extern cuda_driver_t d;

#define MUST(call) session_must(d.call, #call, __LINE__)
void session_must(CUresult result, const char *call, int line);

void session_start(void);
/* SESSION_BYTES of the first device's memory, which can be exported; and a mapping of such. */
CUmemGenericAllocationHandle session_create(void);
CUdeviceptr session_map(CUmemGenericAllocationHandle handle, int device, CUmemAccess_flags flags);
/* Starts; maps a pool of another process read-only and reads it while its owner lives and after its
 * SIGKILL. 0, or the place that went wrong; then `pool` and a stream are there. */
int session_pull(CUdeviceptr *pool, CUstream *stream);

#endif

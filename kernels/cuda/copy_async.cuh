/* copy_async.cuh - copies from global to shared memory that pass no register. */
#ifndef KERNELS_CUDA_COPY_ASYNC_CUH
#define KERNELS_CUDA_COPY_ASYNC_CUH

#include <stdint.h>

/* Of this thread; nobody may read the target before copy_async_wait and a barrier. */
static __device__ __forceinline__ void copy_async_4(void *shared, const void *global)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(
                     (uint32_t)__cvta_generic_to_shared(shared)),
                 "l"(global)
                 : "memory");
}

/* Ends a group of copies. */
static __device__ __forceinline__ void copy_async_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Waits for all groups of this thread but the last LEFT. */
template <int LEFT> static __device__ __forceinline__ void copy_async_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}

#endif

/* operators.h - the operators of kernels/operators.h on a CUDA device, with the same bits.
 *
 * A form submits its work to a stream and returns; every pointer in its parameters is one that the
 * device can follow. The host reads at once, too: `w` of a gemm, and w[0] of groups. Forms neither allocate nor wait.
 * The kernels are the .cu beside each reference form.
 */
#ifndef KERNELS_CUDA_OPERATORS_H
#define KERNELS_CUDA_OPERATORS_H

#include "kernels/cuda/driver.h"
#include "kernels/operators.h"

#define CUDA_KERNEL_TABLE(K)                                                                       \
    K(gemm_f32_1)                                                                                  \
    K(gemm_f32_8)                                                                                  \
    K(gemm_f32_groups)                                                                             \
    K(gemm_bf16_1)                                                                                 \
    K(gemm_bf16_8)                                                                                 \
    K(gemm_bf16_groups)                                                                            \
    K(gemm_fp8_1)                                                                                  \
    K(gemm_fp8_8)                                                                                  \
    K(gemm_fp8_groups)                                                                             \
    K(gemm_fp4_1)                                                                                  \
    K(gemm_fp4_8)                                                                                  \
    K(gemm_fp4_groups)                                                                             \
    K(rows_gather)                                                                                 \
    K(rmsnorm)                                                                                     \
    K(rope)                                                                                        \
    K(hyper_mix)                                                                                   \
    K(hyper_read)                                                                                  \
    K(hyper_write)                                                                                 \
    K(moe_route)                                                                                   \
    K(moe_sort)                                                                                    \
    K(swiglu)                                                                                      \
    K(moe_combine)

typedef enum {
#define CUDA_KERNEL_ENUM(name) CUDA_KERNEL_##name,
    CUDA_KERNEL_TABLE(CUDA_KERNEL_ENUM)
#undef CUDA_KERNEL_ENUM
        CUDA_KERNEL_COUNT
} cuda_kernel_t;

enum { CUDA_MODULES_MAX = 32 };

/* The kernels in one context. Open: it is a table. */
typedef struct {
    const cuda_driver_t *driver;
    CUmodule modules[CUDA_MODULES_MAX];
    uint32_t module_count;
    CUfunction functions[CUDA_KERNEL_COUNT];
} cuda_kernels_t;

/* Compiled kernels, one image a .cu file; ends with NULL. Made by cmake/cuda.cmake. */
extern const void *const cuda_images[];

/* Loads all kernels into the current context. UNSUPPORTED: the binary has no code for this device. */
MUST_USE status_t cuda_kernels_open(const cuda_driver_t *driver, cuda_kernels_t *kernels);
void cuda_kernels_close(cuda_kernels_t *kernels);

/* Rows of OPERATOR_TABLE that have a CUDA form. */
#define CUDA_OPERATOR_TABLE(O)                                                                     \
    O(gemm, gemm_t)                                                                                \
    O(gemm_groups, gemm_groups_t)                                                                  \
    O(rows_gather, rows_gather_t)                                                                  \
    O(rmsnorm, rmsnorm_t)                                                                          \
    O(rope, rope_t)                                                                                \
    O(hyper_mix, hyper_mix_t)                                                                      \
    O(hyper_read, hyper_read_t)                                                                    \
    O(hyper_write, hyper_write_t)                                                                  \
    O(moe_route, moe_route_t)                                                                      \
    O(moe_sort, moe_sort_t)                                                                        \
    O(swiglu, swiglu_t)                                                                            \
    O(moe_combine, moe_combine_t)

#define CUDA_OPERATOR(name, parameters)                                                            \
    MUST_USE status_t name##_cuda(const cuda_kernels_t *kernels, CUstream stream,                  \
                                  const parameters *p);
CUDA_OPERATOR_TABLE(CUDA_OPERATOR)
#undef CUDA_OPERATOR

#endif

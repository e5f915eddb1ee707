/* operators.c - grids and blocks of the operators; see operators.h. */
#include "kernels/cuda/operators.h"

enum {
    THREADS = 128,
    WARP = 32,
    GEMM_THREADS = 128,   /* gemm.cu: ways x quads */
    GEMM_ROWS = 8,        /* of its larger form */
    GROUP_SHARES = 4, /* blocks that share a panel, where the rows of a group are not known */
    SORT_THREADS = 256,
};

static const char *const names[CUDA_KERNEL_COUNT] = {
#define CUDA_KERNEL_NAME(name) #name,
    CUDA_KERNEL_TABLE(CUDA_KERNEL_NAME)
#undef CUDA_KERNEL_NAME
};

static status_t find(cuda_kernels_t *kernels, uint32_t kernel)
{
    for (uint32_t i = 0; i < kernels->module_count; i++)
        if (kernels->driver->cuModuleGetFunction(&kernels->functions[kernel], kernels->modules[i],
                                                 names[kernel]) == CUDA_SUCCESS)
            return STATUS_OK;
    return FAIL(STATUS_UNSUPPORTED, "no CUDA kernel %s in this binary", names[kernel]);
}

status_t cuda_kernels_open(const cuda_driver_t *driver, cuda_kernels_t *kernels)
{
    *kernels = (cuda_kernels_t){.driver = driver};
    for (; cuda_images[kernels->module_count]; kernels->module_count++) {
        ASSERT(kernels->module_count < CUDA_MODULES_MAX);
        CUDA_TRY(driver, cuModuleLoadData(&kernels->modules[kernels->module_count],
                                          cuda_images[kernels->module_count]));
    }
    for (uint32_t kernel = 0; kernel < CUDA_KERNEL_COUNT; kernel++)
        TRY(find(kernels, kernel));
    return STATUS_OK;
}

void cuda_kernels_close(cuda_kernels_t *kernels)
{
    while (kernels->module_count)
        kernels->driver->cuModuleUnload(kernels->modules[--kernels->module_count]);
}

static uint32_t over(size_t count, uint32_t size)
{
    return (uint32_t)((count + size - 1) / size);
}

/* `arguments` point at the kernel's parameters. */
static status_t launch(const cuda_kernels_t *kernels, CUstream stream, uint32_t kernel,
                       uint32_t grid_x, uint32_t grid_y, uint32_t threads, void **arguments)
{
    if (!grid_x || !grid_y)
        return STATUS_OK;
    return cuda_check(kernels->driver,
                      kernels->driver->cuLaunchKernel(kernels->functions[kernel], grid_x, grid_y, 1,
                                                      threads, 1, 1, 0, stream, arguments, NULL),
                      names[kernel]);
}

status_t gemm_cuda(const cuda_kernels_t *kernels, CUstream stream, const gemm_t *p)
{
    static const cuda_kernel_t forms[GEMM_FORM_COUNT] = {
        [GEMM_F32] = CUDA_KERNEL_gemm_f32_1,
        [GEMM_BF16] = CUDA_KERNEL_gemm_bf16_1,
        [GEMM_FP8] = CUDA_KERNEL_gemm_fp8_1,
        [GEMM_FP4] = CUDA_KERNEL_gemm_fp4_1,
    };
    gemm_t parameters = *p;
    gemm_matrix_t matrix = *p->w;
    uint32_t rows = p->rows == 1 ? 1 : GEMM_ROWS;

    return launch(kernels, stream, (uint32_t)forms[matrix.form] + (rows > 1), p->panel_count,
                  over(p->rows, rows), GEMM_THREADS, (void *[]){&parameters, &matrix});
}

status_t gemm_groups_cuda(const cuda_kernels_t *kernels, CUstream stream, const gemm_groups_t *p)
{
    static const cuda_kernel_t forms[GEMM_FORM_COUNT] = {
        [GEMM_F32] = CUDA_KERNEL_gemm_f32_groups,
        [GEMM_BF16] = CUDA_KERNEL_gemm_bf16_groups,
        [GEMM_FP8] = CUDA_KERNEL_gemm_fp8_groups,
        [GEMM_FP4] = CUDA_KERNEL_gemm_fp4_groups,
    };
    gemm_groups_t parameters = *p;
    uint32_t shares = p->offsets ? GROUP_SHARES : over(p->rows, GEMM_ROWS);

    return launch(kernels, stream, (uint32_t)forms[p->w[0].form], p->panel_count,
                  shares, GEMM_THREADS, (void *[]){&parameters});
}

/* An operator whose only parameter is its struct; the grid is formed from `p`. */
#define OPERATOR(name, type, grid_x, grid_y, threads)                                              \
    status_t name##_cuda(const cuda_kernels_t *kernels, CUstream stream, const type *p)            \
    {                                                                                              \
        type parameters = *p;                                                                      \
        return launch(kernels, stream, CUDA_KERNEL_##name, (grid_x), (grid_y), (threads),          \
                      (void *[]){&parameters});                                                    \
    }

OPERATOR(rmsnorm, rmsnorm_t, p->rows, 1, THREADS)
OPERATOR(rope, rope_t, over((size_t)p->heads * p->pairs, THREADS), p->rows, THREADS)
OPERATOR(hyper_mix, hyper_mix_t, p->rows, 1, THREADS)
OPERATOR(hyper_read, hyper_read_t, over(p->hidden, THREADS), p->rows, THREADS)
OPERATOR(hyper_write, hyper_write_t, over(p->hidden, THREADS), p->rows, THREADS)
OPERATOR(moe_route, moe_route_t, p->rows, 1, WARP)
OPERATOR(moe_sort, moe_sort_t, 1, 1, SORT_THREADS)
OPERATOR(rows_gather, rows_gather_t, p->rows, over(p->width, THREADS), THREADS)
OPERATOR(swiglu, swiglu_t, over(p->width, THREADS), p->rows, THREADS)
OPERATOR(moe_combine, moe_combine_t, over(p->channels, THREADS), p->rows, THREADS)

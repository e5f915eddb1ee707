/* column.c - see column.h. */
#include "tests/cuda/column.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "kernels/cuda/operators.h"

static cuda_driver_t driver;
static cuda_kernels_t kernels;
static CUstream stream;

static void must(status_t status)
{
    if (status != STATUS_OK)
        fail_msg("%s", trail_text());
}

#define MUST(call) must(cuda_check(&driver, driver.call, #call))

static void open_once(void)
{
    CUdevice device;
    CUcontext context;

    if (driver.library)
        return;
    if (cuda_driver_open(&driver) != STATUS_OK) {
        print_message("%s\n", trail_text());
        skip();
    }
    MUST(cuDeviceGet(&device, 0));
    MUST(cuDevicePrimaryCtxRetain(&context, device));
    MUST(cuCtxSetCurrent(context));
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    must(cuda_kernels_open(&driver, &kernels));
}

void column_pin(void *memory, size_t bytes)
{
    open_once();
    MUST(cuMemHostRegister(memory, bytes, CU_MEMHOSTREGISTER_PORTABLE));
}

void column_unpin(void *memory)
{
    MUST(cuMemHostUnregister(memory));
}

#define FORM(name, parameters)                                                                     \
    static void name##_column(const parameters *p)                                                 \
    {                                                                                              \
        must(name##_cuda(&kernels, stream, p));                                                    \
        MUST(cuStreamSynchronize(stream));                                                         \
    }
CUDA_OPERATOR_TABLE(FORM)
#undef FORM

const operators_t *column_operators(void)
{
#define ROW(name, parameters) .name = name##_column,
    static const operators_t forms = {CUDA_OPERATOR_TABLE(ROW)};
#undef ROW
    static operators_t column;

    open_once();
    column = forms;
#define FILL(name, parameters)                                                                     \
    if (!column.name) {                                                                            \
        column.name = operators_ref.name;                                                          \
        print_message("no CUDA form yet: " #name "\n");                                            \
    }
    OPERATOR_TABLE(FILL)
#undef FILL
    return &column;
}

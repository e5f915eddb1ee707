/* driver.c - see driver.h. */
#include "kernels/cuda/driver.h"

#include <dlfcn.h>
#include <string.h>

/* The versioned name: the argument is expanded before it becomes text. */
#define TEXT_OF(name) #name

static status_t load(cuda_driver_t *driver)
{
    void *found;

#define LOAD(name)                                                                                 \
    found = dlsym(driver->library, TEXT_OF(name));                                                 \
    if (!found)                                                                                    \
        return FAIL(STATUS_UNSUPPORTED, "the CUDA driver has no " TEXT_OF(                         \
                                            name) ": it is too old, 13.0 or newer is needed");     \
    memcpy(&driver->name, &found, sizeof(found));
    CUDA_DRIVER_TABLE(LOAD)
#undef LOAD
    return STATUS_OK;
}

static status_t start(cuda_driver_t *driver)
{
    TRY(load(driver));
    CUDA_TRY(driver, cuInit(0));
    CUDA_TRY(driver, cuDriverGetVersion(&driver->version));
    if (driver->version < CUDA_DRIVER_VERSION_MIN)
        return FAIL(STATUS_UNSUPPORTED, "the CUDA driver is of version %d.%d, %d.%d is needed",
                    driver->version / 1000, driver->version % 1000 / 10,
                    CUDA_DRIVER_VERSION_MIN / 1000, CUDA_DRIVER_VERSION_MIN % 1000 / 10);
    CUDA_TRY(driver, cuDeviceGetCount(&driver->device_count));
    if (driver->device_count == 0)
        return FAIL(STATUS_UNSUPPORTED, "the CUDA driver has no device");
    return STATUS_OK;
}

status_t cuda_driver_open(cuda_driver_t *driver)
{
    status_t status;

    *driver = (cuda_driver_t){.library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL)};
    if (!driver->library)
        return FAIL(STATUS_UNSUPPORTED, "no CUDA driver: %s", dlerror());
    status = start(driver);
    if (status != STATUS_OK)
        cuda_driver_close(driver);
    return status == STATUS_OK ? STATUS_OK : trail_pass(status, __func__, __LINE__);
}

void cuda_driver_close(cuda_driver_t *driver)
{
    if (driver->library)
        dlclose(driver->library);
    *driver = (cuda_driver_t){0};
}

status_t cuda_check(const cuda_driver_t *driver, CUresult result, const char *call)
{
    const char *name = "?", *text = "?";

    if (result == CUDA_SUCCESS)
        return STATUS_OK;
    driver->cuGetErrorName(result, &name);
    driver->cuGetErrorString(result, &text);
    return FAIL(result == CUDA_ERROR_OUT_OF_MEMORY ? STATUS_NO_MEMORY
                : result == CUDA_ERROR_NO_DEVICE || result == CUDA_ERROR_NO_BINARY_FOR_GPU ||
                        result == CUDA_ERROR_NOT_SUPPORTED
                    ? STATUS_UNSUPPORTED
                    : STATUS_IO,
                "%.*s: %s (%s)", (int)strcspn(call, "("), call, text, name);
}

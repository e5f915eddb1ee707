#include "runtime/base/shared.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static status_t map(const char *name, int file, size_t bytes, bool writable, void **memory)
{
    void *mapped =
        mmap(NULL, bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, file, 0);

    if (mapped == MAP_FAILED)
        return FAIL(STATUS_NO_MEMORY, "cannot map %zu bytes of shared memory %s: %s", bytes, name,
                    strerror(errno));
    *memory = mapped;
    return STATUS_OK;
}

/* A signal may interrupt it, and nothing is lost when it begins again. */
static int take(int file, size_t bytes)
{
    int error;

    do
        error = posix_fallocate(file, 0, (off_t)bytes);
    while (error == EINTR);
    return error;
}

static status_t make(const char *name, int flags, size_t bytes, void **memory)
{
    int file = shm_open(name, O_CREAT | O_RDWR | O_CLOEXEC | flags, 0600);
    status_t status;
    int error;

    if (file < 0)
        return FAIL(STATUS_IO, "cannot create shared memory %s: %s", name, strerror(errno));
    error = take(file, bytes);
    status = error == 0 ? map(name, file, bytes, true, memory)
                        : FAIL(STATUS_NO_MEMORY, "no room for %zu bytes of shared memory %s: %s",
                               bytes, name, strerror(error));
    close(file);
    if (status != STATUS_OK)
        shared_unlink(name);
    return status;
}

status_t shared_create(const char *name, size_t bytes, void **memory)
{
    shared_unlink(name);
    return make(name, O_EXCL, bytes, memory);
}

status_t shared_join(const char *name, size_t bytes, void **memory)
{
    return make(name, 0, bytes, memory);
}

status_t shared_open(const char *name, size_t bytes, bool writable, void **memory)
{
    int file = shm_open(name, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC, 0);
    struct stat info = {0};
    status_t status;

    if (file < 0)
        return FAIL(STATUS_NOT_FOUND, "cannot open shared memory %s: %s", name, strerror(errno));
    status = fstat(file, &info) == 0 && info.st_size == (off_t)bytes
                 ? map(name, file, bytes, writable, memory)
                 : FAIL(STATUS_MISMATCH, "shared memory %s has %lld bytes, expected %zu", name,
                        (long long)info.st_size, bytes);
    close(file);
    return status;
}

void shared_unlink(const char *name)
{
    (void)shm_unlink(name);
}

/* session.c - see session.h. */
#include "tests/cuda/session.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

cuda_driver_t d;

void session_must(CUresult result, const char *call, int line)
{
    if (result == CUDA_SUCCESS)
        return;
    fprintf(stderr, "line %d: %s: code %d\n", line, call, (int)result);
    _exit(99);
}

void session_start(void)
{
    CUcontext context;

    if (cuda_driver_open(&d) != STATUS_OK) {
        fprintf(stderr, "%s\n", trail_text());
        _exit(98);
    }
    MUST(cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cuCtxSetCurrent(context));
}

CUdeviceptr session_map(CUmemGenericAllocationHandle handle, int device, CUmemAccess_flags flags)
{
    CUdeviceptr at;
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, device}, flags};

    MUST(cuMemAddressReserve(&at, SESSION_BYTES, 0, 0, 0));
    MUST(cuMemMap(at, SESSION_BYTES, 0, handle, 0));
    MUST(cuMemSetAccess(at, SESSION_BYTES, &access, 1));
    return at;
}

CUmemGenericAllocationHandle session_create(void)
{
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};

    MUST(cuMemCreate(&handle, SESSION_BYTES, &prop, 0));
    return handle;
}

static void send_fd(int socket, int fd)
{
    char byte = 0, box[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec part = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = box, .msg_controllen = sizeof(box)};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);

    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &fd, sizeof(fd));
    if (sendmsg(socket, &message, 0) != 1)
        _exit(95);
}

static int take_fd(int socket)
{
    char byte, box[CMSG_SPACE(sizeof(int))];
    struct iovec part = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = box, .msg_controllen = sizeof(box)};
    int fd;

    if (recvmsg(socket, &message, 0) != 1 || !CMSG_FIRSTHDR(&message))
        _exit(94);
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fd));
    return fd;
}

static void own_pool(int socket)
{
    static unsigned char bytes[SESSION_BYTES];
    CUmemGenericAllocationHandle handle;
    CUstream stream;
    CUdeviceptr pool;
    int fd;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    session_start();
    handle = session_create();
    pool = session_map(handle, 0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    memset(bytes, 5, sizeof(bytes));
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    MUST(cuMemcpyHtoDAsync(pool, bytes, SESSION_BYTES, stream));
    MUST(cuStreamSynchronize(stream));
    MUST(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    send_fd(socket, fd);
    for (;;)
        pause();
}

int session_pull(CUdeviceptr *pool, CUstream *stream)
{
    static unsigned char bytes[SESSION_BYTES];
    CUmemGenericAllocationHandle handle;
    int pair[2];
    pid_t owner;

    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
        return 93;
    owner = fork();
    if (owner == 0)
        own_pool(pair[1]);
    close(pair[1]); /* an owner that dies too early is an end, no wait */
    session_start();
    MUST(cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)take_fd(pair[0]),
                                        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    *pool = session_map(handle, 0, CU_MEM_ACCESS_FLAGS_PROT_READ);
    MUST(cuStreamCreate(stream, CU_STREAM_NON_BLOCKING));
    for (int life = 0; life < 2; life++) {
        memset(bytes, 0, sizeof(bytes));
        MUST(cuMemcpyDtoHAsync(bytes, *pool, SESSION_BYTES, *stream));
        MUST(cuStreamSynchronize(*stream));
        if (bytes[0] != 5 || memcmp(bytes, bytes + 1, SESSION_BYTES - 1) != 0)
            return life + 1;
        if (life == 0 && (kill(owner, SIGKILL) != 0 || waitpid(owner, NULL, 0) != owner))
            return 92;
    }
    return 0;
}

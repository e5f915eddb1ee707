/* test_fake_cuda.c - the driver table on the fake driver, and the fake driver's strictness: what a
 * device would punish now and then is punished here for certain, or in some order of eight.
 *
 * Each case runs in a child of its own: a driver is started once in a process, and forgets nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/cuda/session.h"

enum { BYTES = SESSION_BYTES, ORDERS = 8 };

/* The exit status of `body` in a child with these options. */
static int in_child(const char *options, int (*body)(void))
{
    int status = 0;
    pid_t child = fork();

    if (child == 0) {
        setenv("LOCKSTEP_FAKE_CUDA", options, 1);
        _exit(body());
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* In how many orders the body ends with 1; it may end with 0 or 1 alone. */
static int in_orders(int (*body)(void))
{
    int count = 0;

    for (int seed = 1; seed <= ORDERS; seed++) {
        char options[32];
        snprintf(options, sizeof(options), "seed=%d,devices=2", seed);
        int code = in_child(options, body);
        assert_true(code == 0 || code == 1);
        count += code;
    }
    return count;
}

/* -- the driver's lines ---------------------------------------------------------------------- */

static int says(const char *words)
{
    return cuda_driver_open(&d) == STATUS_UNSUPPORTED && strstr(trail_text(), words) && !d.library
               ? 0
               : 1;
}

static int says_version(void)
{
    return says("of version 12.4, 13.0 is needed");
}

static int says_no_device(void)
{
    return says("CUDA_ERROR");
}

static void test_a_driver_that_will_not_do_is_one_line(void **state)
{
    (void)state;
    assert_int_equal(in_child("version=12040", says_version), 0);
    assert_int_equal(in_child("devices=0", says_no_device), 0);
}

/* -- streams --------------------------------------------------------------------------------- */

/* One stream writes, another reads; with or without an event between. 1: read too early. */
static int read_behind(bool event)
{
    static unsigned char sent[BYTES], got[BYTES];
    CUstream writer, reader;
    CUevent done;
    CUdeviceptr memory;

    session_start();
    memset(sent, 7, sizeof(sent));
    MUST(cuStreamCreate(&writer, CU_STREAM_NON_BLOCKING));
    MUST(cuStreamCreate(&reader, CU_STREAM_NON_BLOCKING));
    MUST(cuEventCreate(&done, CU_EVENT_DISABLE_TIMING));
    MUST(cuMemAlloc(&memory, BYTES));
    MUST(cuMemcpyHtoDAsync(memory, sent, BYTES, writer));
    MUST(cuEventRecord(done, writer));
    if (event)
        MUST(cuStreamWaitEvent(reader, done, 0));
    MUST(cuMemcpyDtoHAsync(got, memory, BYTES, reader));
    MUST(cuStreamSynchronize(reader));
    return memcmp(sent, got, BYTES) != 0;
}

static int read_behind_event(void)
{
    return read_behind(true);
}

static int read_behind_nothing(void)
{
    return read_behind(false);
}

static void test_streams_meet_at_events_alone(void **state)
{
    (void)state;
    assert_int_equal(in_orders(read_behind_event), 0);
    assert_true(in_orders(read_behind_nothing) > 0);
}

/* A norm, captured and replayed twice on new input, has the bits of the eager one. */
static int replay(void)
{
    enum { COUNT = 300 };
    static float x[COUNT], eager[COUNT], again[COUNT];
    cuda_kernels_t kernels;
    CUstream stream;
    CUgraph graph;
    CUgraphExec exec;
    CUdeviceptr memory;
    rmsnorm_t p = {1, COUNT, COUNT, COUNT, .eps = 1e-6f};

    session_start();
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    MUST(cuMemAlloc(&memory, 2 * sizeof(x)));
    p.x = (const float *)(uintptr_t)memory;
    p.y = (float *)(uintptr_t)memory + COUNT;
    if (cuda_kernels_open(&d, &kernels) != STATUS_OK)
        return 97;
    MUST(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    if (rmsnorm_cuda(&kernels, stream, &p) != STATUS_OK)
        return 96;
    MUST(cuStreamEndCapture(stream, &graph));
    MUST(cuGraphInstantiate(&exec, graph, 0));
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < COUNT; i++)
            x[i] = (float)(i * 7 % 31 + round) - 11.0f;
        MUST(cuMemcpyHtoDAsync(memory, x, sizeof(x), stream));
        if (rmsnorm_cuda(&kernels, stream, &p) != STATUS_OK)
            return 96;
        MUST(cuMemcpyDtoHAsync(eager, memory + sizeof(x), sizeof(x), stream));
        MUST(cuMemsetD8Async(memory + sizeof(x), 0xff, sizeof(x), stream));
        MUST(cuGraphLaunch(exec, stream));
        MUST(cuMemcpyDtoHAsync(again, memory + sizeof(x), sizeof(x), stream));
        MUST(cuStreamSynchronize(stream));
        rmsnorm_ref(&(rmsnorm_t){1, COUNT, COUNT, COUNT, x, NULL, 1e-6f, x});
        if (memcmp(eager, x, sizeof(x)) != 0 || memcmp(again, x, sizeof(x)) != 0)
            return 1;
    }
    MUST(cuGraphExecDestroy(exec));
    MUST(cuGraphDestroy(graph));
    return 0;
}

static void test_a_graph_replay_has_the_bits_of_the_eager_run(void **state)
{
    (void)state;
    assert_int_equal(in_orders(replay), 0);
}

/* -- memory ---------------------------------------------------------------------------------- */

/* A write into a pool that is mapped read-only is the end of the device. 0: it was, after the pull. */
static int pull(void)
{
    static unsigned char bytes[BYTES];
    CUstream stream;
    CUdeviceptr pool;
    int code = session_pull(&pool, &stream);

    if (code)
        return code;
    (void)d.cuMemcpyHtoDAsync(pool, bytes, BYTES, stream);
    return d.cuStreamSynchronize(stream) == CUDA_ERROR_ILLEGAL_ADDRESS ? 0 : 1;
}

static void test_a_pool_is_read_after_its_owner_was_killed(void **state)
{
    (void)state;
    assert_int_equal(in_orders(pull), 0);
}

/* A copy that is still to come when its source is unmapped. 1: the driver says so, and stays so. */
static int read_unmapped(void)
{
    static unsigned char bytes[BYTES];
    CUmemGenericAllocationHandle handle;
    CUstream stream, other;
    CUevent event;
    CUdeviceptr pool;
    CUresult result;

    session_start();
    handle = session_create();
    pool = session_map(handle, 0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    MUST(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    MUST(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    (void)d.cuMemcpyDtoHAsync(bytes, pool, BYTES, stream);
    MUST(cuMemUnmap(pool, BYTES));
    result = d.cuStreamSynchronize(stream);
    return result == CUDA_ERROR_ILLEGAL_ADDRESS &&
           d.cuEventRecord(event, other) == CUDA_ERROR_ILLEGAL_ADDRESS;
}

static void test_a_pool_read_after_unmap_ends_the_device(void **state)
{
    (void)state;
    assert_true(in_orders(read_unmapped) > 0);
}

/* Device 1 reads memory of device 0: only if it was given access. 1: it was refused. */
static int peer(bool given)
{
    static unsigned char bytes[BYTES];
    CUmemGenericAllocationHandle handle;
    CUcontext context;
    CUstream stream;
    CUdeviceptr pool;

    session_start();
    handle = session_create();
    pool = session_map(handle, given ? 1 : 0, CU_MEM_ACCESS_FLAGS_PROT_READ);
    MUST(cuDevicePrimaryCtxRetain(&context, 1));
    MUST(cuCtxSetCurrent(context));
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    (void)d.cuMemcpyDtoHAsync(bytes, pool, BYTES, stream);
    return d.cuStreamSynchronize(stream) == CUDA_ERROR_ILLEGAL_ADDRESS;
}

static int peer_given(void)
{
    return peer(true);
}

static int peer_not_given(void)
{
    return peer(false);
}

static void test_a_peer_reads_what_it_was_given(void **state)
{
    (void)state;
    assert_int_equal(in_orders(peer_given), 0);
    assert_int_equal(in_orders(peer_not_given), ORDERS);
}

/* -- on demand ------------------------------------------------------------------------------- */

static int full(void)
{
    CUdeviceptr at;

    session_start();
    MUST(cuMemAlloc(&at, 1000));
    if (cuda_check(&d, d.cuMemAlloc(&at, 1000), "cuMemAlloc(&at)") != STATUS_NO_MEMORY ||
        !strstr(trail_text(), "cuMemAlloc: "))
        return 1;
    MUST(cuMemAlloc(&at, 1000)); /* it goes on */
    return d.cuMemAlloc(&at, 1 << 20) == CUDA_ERROR_OUT_OF_MEMORY ? 0 : 1;
}

static int lost(void)
{
    CUdeviceptr at;
    CUstream stream;

    session_start();
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    MUST(cuMemAlloc(&at, 1000));
    MUST(cuMemsetD8Async(at, 1, 1000, stream));
    if (d.cuMemsetD8Async(at, 1, 1000, stream) == CUDA_SUCCESS)
        return 1;
    return d.cuStreamSynchronize(stream) != CUDA_SUCCESS && d.cuMemAlloc(&at, 8) != CUDA_SUCCESS
               ? 0
               : 1;
}

static void test_memory_is_full_and_a_device_lost_on_demand(void **state)
{
    (void)state;
    assert_int_equal(in_child("full=2,memory=100000", full), 0);
    assert_int_equal(in_child("lost=2", lost), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_driver_that_will_not_do_is_one_line),
        cmocka_unit_test(test_streams_meet_at_events_alone),
        cmocka_unit_test(test_a_graph_replay_has_the_bits_of_the_eager_run),
        cmocka_unit_test(test_a_pool_is_read_after_its_owner_was_killed),
        cmocka_unit_test(test_a_pool_read_after_unmap_ends_the_device),
        cmocka_unit_test(test_a_peer_reads_what_it_was_given),
        cmocka_unit_test(test_memory_is_full_and_a_device_lost_on_demand),
    };
    return cmocka_run_group_tests_name("fake cuda", tests, NULL, NULL);
}

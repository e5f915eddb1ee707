/* facts.c - what a driver and its device are and do, one line each: "ok", "FAILED" or a fact.
 *
 *     facts driver | pull | tiles COUNT
 *
 * driver: version, devices, virtual memory, peers. pull: a pool of another process, read-only, before
 * and after its owner's SIGKILL. tiles: COUNT random tiles of mma.sync m16n8k16 bf16 against the
 * arithmetic that the emulator has. Needs a driver; exit code 0 if all is well.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/random.h"
#include "tests/cuda/emulator.h"
#include "tests/cuda/session.h"

enum { LANES = 32, TILES_AT_ONCE = 4096 };

__asm__(".section .rodata\n.balign 16\nplants_image:\n.incbin \"" PLANTS_IMAGE "\"\n.previous\n");
extern const char plants_image[];

static int tell_driver(void)
{
    session_start();
    printf("driver %d.%d, %d devices\n", d.version / 1000, d.version % 1000 / 10, d.device_count);
    for (int i = 0; i < d.device_count; i++) {
        int major, minor, virtual_memory, descriptor, peer;
        char name[128];
        size_t bytes;

        MUST(cuDeviceGetName(name, sizeof(name), i));
        MUST(cuDeviceTotalMem(&bytes, i));
        MUST(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, i));
        MUST(cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, i));
        MUST(cuDeviceGetAttribute(&virtual_memory,
                                  CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, i));
        MUST(cuDeviceGetAttribute(
            &descriptor, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, i));
        printf("device %d: %s, %d.%d, %zu MiB, virtual memory %d, descriptors %d, peers:", i, name,
               major, minor, bytes >> 20, virtual_memory, descriptor);
        for (int j = 0; j < d.device_count; j++) {
            if (j == i)
                continue;
            MUST(cuDeviceCanAccessPeer(&peer, i, j));
            printf(" %d:%d", j, peer);
        }
        printf("\n");
    }
    return 0;
}

static int tell_pull(void)
{
    CUdeviceptr pool;
    CUstream stream;
    int code = session_pull(&pool, &stream);

    printf("%s pull from a pool of another process, alive and killed (%d)\n",
           code ? "FAILED" : "ok", code);
    return code != 0;
}

typedef struct {
    uint32_t a[LANES][4], b[LANES][2];
    float c[LANES][4], d[LANES][4];
} tile_t;

/* Numbers of like and of very different size, no NaN and no infinity. */
static uint32_t number(random_t *random)
{
    uint32_t bits = (uint32_t)random_next(random), exponent = 127 - 12 + bits % 25;

    return (bits & 0x807f0000u) | exponent << 23;
}

static void fill(random_t *random, tile_t *tile)
{
    for (int lane = 0; lane < LANES; lane++) {
        for (int i = 0; i < 4; i++) {
            uint32_t c = number(random) | (uint32_t)random_below(random, 1 << 16);
            tile->a[lane][i] = number(random) | number(random) >> 16;
            memcpy(&tile->c[lane][i], &c, sizeof(c));
        }
        for (int i = 0; i < 2; i++)
            tile->b[lane][i] = number(random) | number(random) >> 16;
    }
}

static float half_of(uint32_t pair, uint32_t k)
{
    uint32_t bits = k % 2 ? pair & 0xffff0000u : pair << 16;
    float x;

    memcpy(&x, &bits, sizeof(x));
    return x;
}

/* Outputs of a tile that are not the model's. */
static uint32_t differ(const tile_t *tile)
{
    uint32_t count = 0;

    for (uint32_t lane = 0; lane < LANES; lane++)
        for (uint32_t i = 0; i < 4; i++) {
            uint32_t row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
            float x[16], y[16], want;

            for (uint32_t k = 0; k < 16; k++) {
                uint32_t t = k % 8 / 2, upper = k / 8;
                x[k] = half_of(tile->a[row % 8 * 4 + t][row / 8 + 2 * upper], k);
                y[k] = half_of(tile->b[column * 4 + t][upper], k);
            }
            want = emulator_mma_sum(x, y, 16, tile->c[lane][i], 25);
            count += memcmp(&want, &tile->d[lane][i], sizeof(want)) != 0;
        }
    return count;
}

static int tell_tiles(uint64_t tiles)
{
    /* As the kernel wants them: all tiles of one operand together. */
    static tile_t tile[TILES_AT_ONCE];
    uint32_t *a, *b;
    float *c, *out;
    void *memory;
    CUmodule module;
    CUfunction function;
    CUstream stream;
    random_t random;
    uint64_t wrong = 0;

    session_start();
    random_init(&random, 17);
    MUST(cuModuleLoadData(&module, plants_image));
    MUST(cuModuleGetFunction(&function, module, "tile"));
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    MUST(cuMemHostAlloc(&memory, sizeof(tile), CU_MEMHOSTALLOC_PORTABLE));
    a = memory;
    b = a + TILES_AT_ONCE * LANES * 4;
    c = (float *)(void *)(b + TILES_AT_ONCE * LANES * 2);
    out = c + TILES_AT_ONCE * LANES * 4;
    for (uint64_t done = 0; done < tiles; done += TILES_AT_ONCE) {
        uint64_t left = tiles - done;
        uint32_t count = left < TILES_AT_ONCE ? (uint32_t)left : TILES_AT_ONCE;

        for (uint32_t i = 0; i < count; i++) {
            fill(&random, &tile[i]);
            memcpy(a + i * LANES * 4, tile[i].a, sizeof(tile[i].a));
            memcpy(b + i * LANES * 2, tile[i].b, sizeof(tile[i].b));
            memcpy(c + i * LANES * 4, tile[i].c, sizeof(tile[i].c));
        }
        MUST(cuLaunchKernel(function, count, 1, 1, LANES, 1, 1, 0, stream,
                            (void *[]){&a, &b, &c, &out}, NULL));
        MUST(cuStreamSynchronize(stream));
        for (uint32_t i = 0; i < count; i++) {
            memcpy(tile[i].d, out + i * LANES * 4, sizeof(tile[i].d));
            wrong += differ(&tile[i]);
        }
    }
    printf("%s %llu tiles of mma against the model: %llu outputs differ\n", wrong ? "FAILED" : "ok",
           (unsigned long long)tiles, (unsigned long long)wrong);
    return wrong != 0;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";

    if (!strcmp(what, "driver"))
        return tell_driver();
    if (!strcmp(what, "pull"))
        return tell_pull();
    if (!strcmp(what, "tiles") && argc > 2)
        return tell_tiles(strtoull(argv[2], NULL, 10));
    fprintf(stderr, "facts driver | pull | tiles COUNT\n");
    return 2;
}

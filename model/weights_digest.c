#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define XXH_STATIC_LINKING_ONLY /* a state on the stack */
#include <xxhash.h>

#include "model/weights.h"

enum { DIGEST_THREADS_MAX = 64 };

/* Name with its NUL, dtype, rank, sizes: all that a tensor is but its bytes. */
static void update_about(XXH3_state_t *state, const tensor_view_t *tensor)
{
    const char *dtype = tensor_dtype_name(tensor->dtype);

    XXH3_128bits_update(state, tensor->name, strlen(tensor->name) + 1);
    XXH3_128bits_update(state, dtype, strlen(dtype) + 1);
    XXH3_128bits_update(state, &tensor->rank, sizeof(tensor->rank));
    XXH3_128bits_update(state, tensor->shape, tensor->rank * sizeof(tensor->shape[0]));
}

/* Threads take tensors by number; each tensor has its own digest, and those are digested in order
 * of names. */
typedef struct {
    const safetensors_t *file;
    XXH128_hash_t *digests;
    atomic_uint next;
} work_t;

static void *digest_tensors(void *argument)
{
    work_t *work = argument;
    XXH3_state_t state;
    unsigned i;

    while ((i = atomic_fetch_add(&work->next, 1)) < work->file->tensor_count) {
        const tensor_view_t *tensor = &work->file->tensors[i];

        XXH3_128bits_reset(&state);
        update_about(&state, tensor);
        XXH3_128bits_update(&state, tensor->data, tensor->bytes);
        work->digests[i] = XXH3_128bits_digest(&state);
    }
    return NULL;
}

status_t weights_digest(const weights_t *weights, uint32_t threads, weights_digest_t *digest)
{
    work_t work = {.file = &weights->file};
    pthread_t helpers[DIGEST_THREADS_MAX];
    uint32_t started = 0;
    XXH128_hash_t hash;

    work.digests = calloc(weights->file.tensor_count, sizeof(*work.digests));
    if (!work.digests)
        return FAIL(STATUS_NO_MEMORY, "no memory for %u digests", weights->file.tensor_count);
    /* A thread that cannot start leaves its share to the others. */
    while (started + 1 < threads && started < DIGEST_THREADS_MAX &&
           pthread_create(&helpers[started], NULL, digest_tensors, &work) == 0)
        started++;
    digest_tensors(&work);
    for (uint32_t i = 0; i < started; i++)
        pthread_join(helpers[i], NULL);
    hash = XXH3_128bits(work.digests, weights->file.tensor_count * sizeof(*work.digests));
    free(work.digests);
    *digest = (weights_digest_t){hash.low64, hash.high64};
    return STATUS_OK;
}

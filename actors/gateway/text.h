/* text.h - a request's body becomes token ids and parameters, or an error, on threads of its own: so that
 * a long text delays nobody's token.
 *
 * Two threads, and a body of more than TEXT_SMALL_BYTES goes to one of them only: small ones never wait
 * behind large ones. Clients take turns: whoever was served last waits for another address. What
 * waits is bounded in bytes; its number the caller bounds, a job a client. The caller's thread calls all.
 */
#ifndef ACTORS_GATEWAY_TEXT_H
#define ACTORS_GATEWAY_TEXT_H

#include "actors/gateway/openai.h"
#include "model/chat.h"
#include "model/tokenizer.h"
#include "topology/topology.h"

enum {
    TEXT_INLINE_BYTES = 1 << 10, /* so little is read at once: less work than to hand it over */
    TEXT_SMALL_BYTES = 64 << 10,
    TEXT_BYTES_MAX = 128 << 20, /* of bodies that wait or are read */
};

/* Constant while the pool lives; borrowed. */
typedef struct {
    const topology_t *topology;
    const tokenizer_t *tokenizer;
    const chat_blocks_t *blocks;
    const model_config_t *config;
    const model_generation_t *generation;
} text_model_t;

typedef struct text_job text_job_t;

struct text_job {
    void *owner; /* who waits for it; NULL: it left, and the result is for nobody */
    uint64_t peer; /* whose turn it is to wait for others */
    char *body;    /* malloc'd or NULL; of the job */
    size_t body_bytes;
    bool chat;
    uint64_t seed; /* for a request that names none */

    status_t status; /* not OK: `error` says why, and what follows is not set */
    openai_error_t error;
    openai_parameters_t parameters; /* its views look into it */
    uint32_t *ids;                  /* the prompt; malloc'd, of the job */
    uint32_t id_count;
    bool thinking; /* the prompt ended with <think> */
    bool tools;    /* tools were rendered */

    text_job_t *next;
};

typedef struct text_pool text_pool_t;

/* `wake` is called on a thread of the pool, when a job is done. Owner closes. */
MUST_USE status_t text_pool_open(const text_model_t *model, void (*wake)(void *context),
                                 void *context, text_pool_t **pool);
/* Waits for the jobs that run; all others are freed. NULL is nothing. */
void text_pool_close(text_pool_t *pool);
/* Takes the job. False, and it stays the caller's: too many bytes wait. */
MUST_USE bool text_pool_push(text_pool_t *pool, text_job_t *job);
/* A job that is done, now the caller's; NULL: none. */
text_job_t *text_pool_take(text_pool_t *pool);

/* The same on the caller's own thread. */
void text_run(const text_model_t *model, text_job_t *job);
void text_job_free(text_job_t *job);

#endif

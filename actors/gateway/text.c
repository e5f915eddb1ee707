/* text.c - parsing, rendering and tokenizing of requests; and the threads that do it. */
#include "actors/gateway/text.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* The one that also takes large bodies gives way to whoever delivers tokens. */
enum { THREADS = 2, ROOMY = 0, ROOMY_NICE = 10 };

/* ---- a job ------------------------------------------------------------------------------------ */

static status_t chat_ids(const text_model_t *model, const document_t *document, text_job_t *job,
                         uint32_t *ids, size_t *count)
{
    chat_thinking_t thinking;
    chat_refusal_t refusal;
    chat_prompt_t prompt = {0};
    status_t status = chat_thinking_read(document, model->topology->thinking, &thinking, &refusal);

    if (status == STATUS_OK)
        status = chat_encode(model->blocks, document, &thinking, &prompt, &refusal);
    if (status != STATUS_OK) {
        openai_error_set(&job->error, 400, refusal.param, "%s", refusal.reason);
    } else {
        status = tokenizer_encode(model->tokenizer, prompt.text.bytes, prompt.spans,
                                  prompt.span_count, ids, model->topology->context_tokens, count);
        if (status != STATUS_OK) {
            openai_error_set(&job->error, 400, "messages", "%s", trail_text());
            job->error.code = status == STATUS_TOO_LARGE ? "context_length_exceeded" : NULL;
        }
        job->thinking = prompt.thinking_open;
        job->tools = prompt.tools;
    }
    chat_prompt_fini(&prompt);
    return status;
}

/* A prompt in text is a client's text, so no part of it becomes a control token; BOS goes first. */
static status_t completion_ids(const text_model_t *model, const document_t *document,
                               text_job_t *job, uint32_t *ids, size_t *count)
{
    uint32_t context = model->topology->context_tokens, id_count, node;
    text_buffer_t text;
    size_t encoded = 0;
    status_t status;

    TRY(openai_prompt(document, model->config->vocabulary, ids, context, &id_count, &node,
                      &job->error));
    *count = id_count;
    if (!node)
        return STATUS_OK;
    text_buffer_init(&text, PROMPT_BYTES_MAX);
    document_put_string(document, node, &text);
    ids[0] = model->config->bos_token;
    status = text.status == STATUS_OK
                 ? tokenizer_encode_plain(model->tokenizer, text.bytes ? text.bytes : "", text.used,
                                          ids + 1, context - 1, &encoded)
                 : text.status;
    if (status != STATUS_OK) {
        openai_error_set(&job->error, 400, "prompt", "%s", trail_text());
        job->error.code = status == STATUS_TOO_LARGE ? "context_length_exceeded" : NULL;
    }
    *count = encoded + 1;
    text_buffer_fini(&text);
    return status;
}

static status_t read_document(const text_model_t *model, const document_t *document,
                              text_job_t *job)
{
    size_t room = ((size_t)model->topology->context_tokens + 1) * sizeof(uint32_t), count = 0;
    status_t status;
    uint32_t *ids;

    TRY(openai_parse(document, job->chat, model->topology->served_name, model->config,
                     model->generation, job->seed, &job->parameters, &job->error));
    ids = malloc(room); /* touched as far as the prompt goes */
    if (!ids) {
        openai_error_set(&job->error, 503, "", "out of memory");
        return FAIL(STATUS_NO_MEMORY, "%zu bytes for a prompt", room);
    }
    status = job->chat ? chat_ids(model, document, job, ids, &count)
                       : completion_ids(model, document, job, ids, &count);
    if (status == STATUS_OK) {
        job->ids = realloc(ids, (count ? count : 1) * sizeof(*ids));
        job->id_count = (uint32_t)count;
    }
    if (!job->ids)
        free(ids);
    return status;
}

void text_run(const text_model_t *model, text_job_t *job)
{
    document_t document = {0};

    trail_reset();
    job->status =
        document_parse(&document, DOCUMENT_STRICT, job->body ? job->body : "", job->body_bytes);
    if (job->status != STATUS_OK)
        openai_error_set(&job->error, 400, "", "the body is not JSON: %s", trail_text());
    else
        job->status = read_document(model, &document, job);
    document_fini(&document);
    free(job->body);
    job->body = NULL;
}

void text_job_free(text_job_t *job)
{
    if (!job)
        return;
    free(job->body);
    free(job->ids);
    free(job);
}

/* ---- threads ---------------------------------------------------------------------------------- */

typedef struct {
    text_job_t *first;
    text_job_t *last;
    uint64_t served; /* the peer of the job that went last */
} lane_t;

struct text_pool {
    text_model_t model;
    void (*wake)(void *context);
    void *context;
    pthread_t threads[THREADS];
    uint32_t thread_count;
    pthread_mutex_t lock; /* of all that follows */
    pthread_cond_t ready;
    lane_t small;
    lane_t large;
    lane_t done;
    size_t bytes;
    bool ending;
};

static void lane_put(lane_t *lane, text_job_t *job)
{
    job->next = NULL;
    if (lane->last)
        lane->last->next = job;
    else
        lane->first = job;
    lane->last = job;
}

static text_job_t *lane_pop(lane_t *lane)
{
    text_job_t *job = lane->first;

    if (!job)
        return NULL;
    lane->first = job->next;
    if (!lane->first)
        lane->last = NULL;
    return job;
}

/* The oldest of another peer than the last one's, if there is one; else the oldest. */
static text_job_t *lane_take(lane_t *lane)
{
    text_job_t *before = NULL, *job = lane->first;

    while (job && job->peer == lane->served) {
        before = job;
        job = job->next;
    }
    if (!job || !before) {
        job = lane_pop(lane);
    } else {
        before->next = job->next;
        if (lane->last == job)
            lane->last = before;
    }
    if (job)
        lane->served = job->peer;
    return job;
}

static void *work(void *context)
{
    text_pool_t *pool = context;
    bool roomy;

    (void)pthread_setname_np(pthread_self(), "text");
    (void)pthread_mutex_lock(&pool->lock);
    roomy = pthread_equal(pthread_self(), pool->threads[ROOMY]);
    if (roomy)
        (void)setpriority(PRIO_PROCESS, (id_t)gettid(), ROOMY_NICE); /* of this thread alone */
    while (!pool->ending) {
        text_job_t *job = roomy ? lane_take(&pool->large) : NULL;
        size_t bytes;

        job = job ? job : lane_take(&pool->small);
        if (!job) {
            (void)pthread_cond_wait(&pool->ready, &pool->lock);
            continue;
        }
        (void)pthread_mutex_unlock(&pool->lock);
        bytes = job->body_bytes;
        text_run(&pool->model, job);
        (void)pthread_mutex_lock(&pool->lock);
        pool->bytes -= bytes;
        lane_put(&pool->done, job);
        (void)pthread_mutex_unlock(&pool->lock);
        pool->wake(pool->context);
        (void)pthread_mutex_lock(&pool->lock);
    }
    (void)pthread_mutex_unlock(&pool->lock);
    return NULL;
}

status_t text_pool_open(const text_model_t *model, void (*wake)(void *context), void *context,
                        text_pool_t **out)
{
    text_pool_t *pool = calloc(1, sizeof(*pool));
    status_t status = STATUS_OK;

    if (!pool)
        return FAIL(STATUS_NO_MEMORY, "threads for texts");
    pool->model = *model;
    pool->wake = wake;
    pool->context = context;
    (void)pthread_mutex_init(&pool->lock, NULL);
    (void)pthread_cond_init(&pool->ready, NULL);
    (void)pthread_mutex_lock(&pool->lock); /* a thread looks for itself among them */
    for (; pool->thread_count < THREADS && status == STATUS_OK; pool->thread_count++)
        if (pthread_create(&pool->threads[pool->thread_count], NULL, work, pool) != 0) {
            status = FAIL(STATUS_NO_MEMORY, "a thread for texts");
            break;
        }
    (void)pthread_mutex_unlock(&pool->lock);
    if (status != STATUS_OK) {
        text_pool_close(pool);
        return status;
    }
    *out = pool;
    return STATUS_OK;
}

void text_pool_close(text_pool_t *pool)
{
    if (!pool)
        return;
    (void)pthread_mutex_lock(&pool->lock);
    pool->ending = true;
    (void)pthread_cond_broadcast(&pool->ready);
    (void)pthread_mutex_unlock(&pool->lock);
    for (uint32_t i = 0; i < pool->thread_count; i++)
        (void)pthread_join(pool->threads[i], NULL);
    for (lane_t *lanes[] = {&pool->small, &pool->large, &pool->done}, **lane = lanes;
         lane < lanes + COUNT_OF(lanes); lane++)
        for (text_job_t *job; (job = lane_pop(*lane)) != NULL;)
            text_job_free(job);
    (void)pthread_mutex_destroy(&pool->lock);
    (void)pthread_cond_destroy(&pool->ready);
    free(pool);
}

bool text_pool_push(text_pool_t *pool, text_job_t *job)
{
    bool fits;

    (void)pthread_mutex_lock(&pool->lock);
    fits = job->body_bytes <= TEXT_BYTES_MAX - pool->bytes;
    if (fits) {
        pool->bytes += job->body_bytes;
        lane_put(job->body_bytes <= TEXT_SMALL_BYTES ? &pool->small : &pool->large, job);
        (void)pthread_cond_broadcast(&pool->ready); /* not everybody takes everything */
    }
    (void)pthread_mutex_unlock(&pool->lock);
    return fits;
}

text_job_t *text_pool_take(text_pool_t *pool)
{
    text_job_t *job;

    (void)pthread_mutex_lock(&pool->lock);
    job = lane_pop(&pool->done);
    (void)pthread_mutex_unlock(&pool->lock);
    return job;
}

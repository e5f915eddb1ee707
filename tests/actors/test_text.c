/* Bodies become prompts on other threads, in turns, and nothing is lost when somebody leaves or all ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <semaphore.h>

#include "actors/gateway/text.h"

enum { LARGE = TEXT_SMALL_BYTES + 1, SMALL = 256, A = 1, B = 2 };

static topology_t topology = {.context_tokens = 64, .served_name = "tiny"};
static model_config_t config;
static model_generation_t generation;
static chat_blocks_t blocks;
static tokenizer_t *tokenizer;
static text_model_t model;

static int open_model(void **state)
{
    (void)state;
    if (model_config_load("model/tiny", &config) != STATUS_OK ||
        model_generation_load("model/tiny", &generation) != STATUS_OK ||
        chat_blocks_open("model/tiny", &blocks) != STATUS_OK ||
        tokenizer_open("model/tiny/tokenizer.json", &tokenizer) != STATUS_OK)
        return -1;
    model = (text_model_t){&topology, tokenizer, &blocks, &config, &generation};
    return 0;
}

static int close_model(void **state)
{
    (void)state;
    tokenizer_close(tokenizer);
    chat_blocks_close(&blocks);
    return 0;
}

/* A body of that size: what it says, then blanks. */
static text_job_t *job_of(const char *body, size_t bytes, uint64_t peer)
{
    text_job_t *job = calloc(1, sizeof(*job));

    assert_non_null(job);
    *job = (text_job_t){.owner = job, .peer = peer, .body = malloc(bytes), .body_bytes = bytes};
    assert_non_null(job->body);
    memset(job->body, ' ', bytes);
    memcpy(job->body, body, strlen(body));
    return job;
}

static text_job_t *completion(size_t bytes, uint64_t peer)
{
    return job_of("{\"model\": \"tiny\", \"prompt\": [5, 6, 7]}", bytes, peer);
}

/* ---- one body --------------------------------------------------------------------------------- */

static void test_a_body_becomes_ids_or_an_error(void **state)
{
    static const struct {
        const char *body;
        bool chat;
        const char *param; /* NULL: it is right */
        uint32_t least_ids;
    } rows[] = {
        {"{\"model\": \"tiny\", \"prompt\": [5, 6, 7]}", false, NULL, 3},
        {"{\"model\": \"tiny\", \"prompt\": \"Hello\"}", false, NULL, 2},
        {"{\"model\": \"tiny\", \"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}]}", true,
         NULL, 4},
        {"{\"model\": \"tiny\", \"messages\": 5}", true, "messages", 0},
        {"{\"model\": \"tiny\", \"temperature\": 5}", true, "temperature", 0},
        {"{\"model\": \"tiny\", \"prompt\": [5, -6]}", false, "prompt", 0},
        {"{\"model\": ", false, "", 0},
        {"", true, "", 0},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        text_job_t *job = job_of(rows[i].body, SMALL, A);

        job->chat = rows[i].chat;
        text_run(&model, job);
        assert_int_equal(job->status == STATUS_OK, rows[i].param == NULL);
        if (rows[i].param) {
            assert_int_equal(job->error.status, 400);
            assert_string_equal(job->error.param, rows[i].param);
            assert_null(job->ids);
        } else {
            assert_in_range(job->id_count, rows[i].least_ids, topology.context_tokens);
            assert_true(job->ids[job->id_count - 1] < config.vocabulary);
        }
        assert_null(job->body);
        text_job_free(job);
    }
}

static void test_a_prompt_without_end_is_refused(void **state)
{
    text_job_t *job = job_of("{\"model\": \"tiny\", \"prompt\": \"", LARGE, A);

    (void)state;
    memcpy(job->body + LARGE - 2, "\"}", 2);
    text_run(&model, job);
    assert_int_equal(job->status, STATUS_TOO_LARGE);
    assert_int_equal(job->error.status, 400);
    text_job_free(job);
}

/* ---- many ------------------------------------------------------------------------------------- */

typedef struct {
    text_pool_t *pool;
    sem_t done; /* a job is */
    sem_t go;   /* lets the thread go on that did the first one */
    _Atomic uint32_t calls;
} world_t;

static void wake(void *context)
{
    world_t *world = context;
    bool first = world->calls++ == 0;

    (void)sem_post(&world->done);
    while (first && sem_wait(&world->go) != 0)
        continue;
}

static text_job_t *await_job(world_t *world)
{
    text_job_t *job;

    while (sem_wait(&world->done) != 0)
        continue;
    job = text_pool_take(world->pool);
    assert_non_null(job);
    return job;
}

static void push(world_t *world, text_job_t *job)
{
    assert_true(text_pool_push(world->pool, job));
}

/* With a large body done, and the thread that takes such ones held. */
static void open_held(world_t *world)
{
    *world = (world_t){0};
    assert_int_equal(sem_init(&world->done, 0, 0), 0);
    assert_int_equal(sem_init(&world->go, 0, 0), 0);
    assert_int_equal(text_pool_open(&model, wake, world, &world->pool), STATUS_OK);
    push(world, completion(LARGE, A));
    text_job_free(await_job(world));
}

static void close_held(world_t *world)
{
    (void)sem_post(&world->go);
    text_pool_close(world->pool);
    (void)sem_destroy(&world->done);
    (void)sem_destroy(&world->go);
}

static void test_small_bodies_do_not_wait_behind_large_ones(void **state)
{
    world_t world;

    (void)state;
    open_held(&world);
    push(&world, completion(LARGE, A));
    for (uint32_t i = 0; i < 3; i++) {
        text_job_t *job = completion(SMALL, A), *done;

        push(&world, job);
        done = await_job(&world);
        assert_ptr_equal(done, job);
        assert_int_equal(done->id_count, 3);
        text_job_free(done);
    }
    (void)sem_post(&world.go);
    text_job_free(await_job(&world));
    assert_null(text_pool_take(world.pool));
    close_held(&world);
}

static void test_clients_take_turns(void **state)
{
    static const uint64_t peers[] = {A, A, A, B, B}, turns[] = {B, A, B, A, A};
    world_t world;

    (void)state;
    open_held(&world); /* A was served last */
    for (size_t i = 0; i < COUNT_OF(peers); i++)
        push(&world, completion(LARGE, peers[i]));
    (void)sem_post(&world.go);
    for (size_t i = 0; i < COUNT_OF(turns); i++) {
        text_job_t *job = await_job(&world); /* in order: one thread takes them */

        assert_int_equal(job->peer, turns[i]);
        text_job_free(job);
    }
    close_held(&world);
}

static void test_what_waits_is_bounded_and_ends_with_the_pool(void **state)
{
    text_job_t *huge = completion(TEXT_BYTES_MAX / 2 + 1, A),
               *more = completion(TEXT_BYTES_MAX / 2, B);
    world_t world;

    (void)state;
    open_held(&world);
    push(&world, huge);
    assert_false(text_pool_push(world.pool, more));
    text_job_free(more);
    push(&world, completion(LARGE, B));
    close_held(&world); /* nothing leaks: the sanitizer looks */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_body_becomes_ids_or_an_error),
        cmocka_unit_test(test_a_prompt_without_end_is_refused),
        cmocka_unit_test(test_small_bodies_do_not_wait_behind_large_ones),
        cmocka_unit_test(test_clients_take_turns),
        cmocka_unit_test(test_what_waits_is_bounded_and_ends_with_the_pool),
    };

    return cmocka_run_group_tests(tests, open_model, close_model);
}

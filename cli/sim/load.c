#include "cli/sim/load.h"

#include <stdlib.h>

#include "messages/message.h"

enum { BEGINNINGS = 3 };

/* Lengths at and around page ends show what lengths in between hide. */
static uint32_t draw_length(random_t *random, uint32_t max)
{
    uint32_t length = 1 + (uint32_t)random_below(random, max);

    if (random_below(random, 3) == 0 && max > PAGE_TOKENS) {
        uint32_t pages = 1 + (uint32_t)random_below(random, max / PAGE_TOKENS);

        length = pages * PAGE_TOKENS - 1 + (uint32_t)random_below(random, 3);
    }
    return length > max ? max : length;
}

static void draw_sampling(world_client_t *client, random_t *random)
{
    client->sampling =
        (device_sampling_t){.seed = random_next(random), .top_p = 1, .repetition_penalty = 1};
    if (random_below(random, 2) == 0)
        client->sampling.temperature = 1;
}

static void fill(world_client_t *client, const world_config_t *config,
                 const symbolic_setup_t *setup, uint64_t beginning, uint64_t own, uint32_t shared)
{
    client->prompt = calloc(client->prompt_count, sizeof(*client->prompt));
    client->answer = calloc(client->output_tokens_max, sizeof(*client->answer));
    ASSERT(client->prompt && client->answer);
    for (uint32_t i = 0; i < client->prompt_count; i++) {
        uint64_t word = i < shared ? random_at(config->seed + beginning, i) : random_at(own, i);

        client->prompt[i] = (uint32_t)(word % setup->vocabulary);
    }
    client->answer_count =
        symbolic_answer(setup, client->prompt, client->prompt_count, &client->sampling, false, NULL,
                        0, client->output_tokens_max, client->answer, client->output_tokens_max);
    client->answer_ends_by =
        client->answer[client->answer_count - 1] == setup->end_token ? END_STOP : END_LENGTH;
}

static void make(world_client_t *client, const world_config_t *config,
                 const symbolic_setup_t *setup, random_t *random)
{
    uint64_t beginning = random_below(random, BEGINNINGS + 1); /* the last one is nobody else's */
    uint64_t own = random_next(random);
    uint32_t shared;

    client->arrives_us = random_below(random, config->spread_us + 1);
    client->prompt_count = draw_length(random, config->prompt_tokens_max);
    shared = (uint32_t)random_below(random, client->prompt_count + 1);
    client->output_tokens_max = 1 + (uint32_t)random_below(random, config->answer_tokens_max);
    draw_sampling(client, random);
    fill(client, config, setup, beginning, own, beginning < BEGINNINGS ? shared : 0);
}

static void make_as_told(world_client_t *client, const world_config_t *config,
                         const symbolic_setup_t *setup, const world_request_t *request,
                         random_t *random)
{
    client->arrives_us = request->arrives_us;
    client->prompt_count = request->prompt_tokens;
    client->output_tokens_max = request->output_tokens_max;
    client->sampling = (device_sampling_t){.top_p = 1, .repetition_penalty = 1};
    fill(client, config, setup, 0, random_next(random), request->shared_tokens);
}

void load_make(world_client_t *clients, uint32_t count, const world_config_t *config,
               const symbolic_setup_t *setup, random_t *random)
{
    for (uint32_t i = 0; i < count; i++) {
        clients[i] = (world_client_t){.id = i + 1};
        if (config->requests)
            make_as_told(&clients[i], config, setup, &config->requests[i], random);
        else
            make(&clients[i], config, setup, random);
    }
}

void load_free(world_client_t *clients, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        free(clients[i].prompt);
        free(clients[i].answer);
    }
}

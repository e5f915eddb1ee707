#include "sim/load.h"

#include <stdlib.h>

#include "messages/message.h"

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

/* One in eight has this penalty, one in eight that: a replay that counts tokens wrongly draws others. */
static device_sampling_t sampling_of(const world_load_t *load)
{
    const uint64_t kind = load->sampling_seed >> 61;

    return (device_sampling_t){.seed = load->sampling_seed,
                               .temperature = load->warm ? 1 : 0,
                               .top_p = 1,
                               .presence_penalty = kind == 1 ? 0.5f : 0,
                               .frequency_penalty = kind == 2 ? -0.5f : 0,
                               .repetition_penalty = kind == 3 ? 1.5f : 1};
}

static void make(world_client_t *client, const world_config_t *config,
                 const symbolic_setup_t *setup, const world_load_t *load)
{
    client->arrives_us = load->arrives_us;
    client->prompt_count = load->prompt_tokens;
    client->output_tokens_max = load->output_tokens_max;
    client->deadline_ms = load->deadline_ms;
    client->sampling = sampling_of(load);
    if (load->output_tokens_max > 0)
        fill(client, config, setup, load->beginning, load->own, load->shared_tokens);
}

/* The same ones whatever the seed, so that a test may know them. */
static void make_as_told(world_client_t *client, const world_config_t *config,
                         const symbolic_setup_t *setup, const world_request_t *request)
{
    world_config_t told = *config;

    told.seed = 0;
    client->arrives_us = request->arrives_us;
    client->prompt_count = request->prompt_tokens;
    client->output_tokens_max = request->output_tokens_max;
    client->sampling = (device_sampling_t){.top_p = 1, .repetition_penalty = 1};
    fill(client, &told, setup, 0, random_at(told.seed, client->id), request->shared_tokens);
}

void load_make(world_client_t *clients, uint32_t count, const world_config_t *config,
               const symbolic_setup_t *setup)
{
    for (uint32_t i = 0; i < count; i++) {
        clients[i] = (world_client_t){.id = i + 1};
        if (config->load)
            make(&clients[i], config, setup, &config->load[i]);
        else
            make_as_told(&clients[i], config, setup, &config->requests[i]);
        clients[i].poisoned = clients[i].id == config->poisoned && clients[i].prompt;
        if (clients[i].poisoned)
            clients[i].prompt[clients[i].prompt_count - 1] = WORLD_POISON_TOKEN;
    }
}

void load_free(world_client_t *clients, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        free(clients[i].prompt);
        free(clients[i].answer);
    }
}

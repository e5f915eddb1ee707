#include "cli/life.h"

#include "actors/group.h"
#include "actors/roster.h"
#include "actors/types.h"
#include "messages/message.h"

static status_t check_setup(const journal_header_t *header, const leader_setup_t *setup)
{
    bool leads = header->kind == ACTOR_PREFILL || header->kind == ACTOR_DECODE;

    if (header->setup_bytes == 0)
        return STATUS_OK;
    if (!leads || header->setup_bytes != sizeof(*setup))
        return FAIL(STATUS_MISMATCH, "%llu bytes of setup, which %s does not have in this build",
                    (unsigned long long)header->setup_bytes, header->name);
    return setup->end_token_count <= EOS_TOKENS_MAX
               ? STATUS_OK
               : FAIL(STATUS_CORRUPT, "%u end tokens", setup->end_token_count);
}

static status_t read_facts(life_t *life)
{
    const journal_header_t *header = life->file.header;
    const leader_setup_t *setup = (const void *)life->file.setup;

    if (header->topology_bytes != sizeof(topology_t))
        return FAIL(STATUS_MISMATCH, "its topology has %llu bytes, in this build it has %zu",
                    (unsigned long long)header->topology_bytes, sizeof(topology_t));
    life->topology = (const void *)life->file.topology;
    TRY(topology_check(life->topology));
    roster_init(&life->roster, life->topology);
    if (header->actor >= life->roster.count ||
        life->roster.actors[header->actor].kind != (actor_kind_t)header->kind)
        return FAIL(STATUS_CORRUPT, "its topology has no such actor");
    TRY(check_setup(header, setup));
    life->type = actor_type_of((actor_kind_t)header->kind);
    life->birth = (actor_birth_t){.id = header->actor,
                                  .incarnation = header->incarnation,
                                  .topology = life->topology,
                                  .setup = header->setup_bytes ? setup : NULL};
    return STATUS_OK;
}

status_t life_open(const char *path, life_t *life)
{
    status_t status;

    *life = (life_t){0};
    TRY(journal_file_open(path, &life->file));
    status = read_facts(life);
    if (status != STATUS_OK)
        life_close(life);
    return status;
}

void life_close(life_t *life)
{
    journal_file_close(&life->file);
}

replay_config_t life_replay(const life_t *life)
{
    return (replay_config_t){.type = life->type,
                             .table = &message_table,
                             .roster = &life->roster,
                             .birth = &life->birth};
}

#include "tests/actors/scene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "actors/roster.h"
#include "runtime/base/log.h"
#include "topology/internal.h"

void scene_topology(topology_t *topology, uint16_t prefills, uint16_t decodes, uint16_t tp)
{
    topology->host_count = 1;
    topology->hosts[0].devices = (uint32_t)(prefills + decodes) * tp;
    topology->context_tokens = 4096;
    topology->border_every = 4;
    topology->drain_timeout_ms = 30000;
    topology->stall_timeout_ms = 60000;
    topology->gateway_count = 1;
    topology->gateways[0].queued_max = 4;
    topology->gateways[0].streams_max = 16;
    topology->prefill_count = prefills;
    topology->decode_count = decodes;
    topology->transfer_count = 2;
    for (uint16_t i = 0; i < INSTANCES_MAX; i++) {
        topology->prefills[i] = topology->decodes[i] = (topology_group_t){
            .tp = tp, .slots = 8, .pages = 64, .borders = 16, .chunk_tokens = 512};
    }
    topology_derive_actors(topology);
}

scene_t *scene_open_on(const topology_t *topology, const actor_type_t *type, actor_kind_t kind)
{
    scene_t *scene = calloc(1, sizeof(*scene));
    actor_birth_t birth = {.incarnation = 1};
    arena_t arena;
    size_t bytes;

    scene->topology = *topology;
    roster_init(&scene->roster, &scene->topology);
    scene->type = type;
    scene->id = birth.id =
        kind == ACTOR_RANK ? scene_rank(scene, ACTOR_DECODE, 0, 0) : scene_actor(scene, kind, 0);
    birth.topology = &scene->topology;
    scene->capture = capture_open(&message_table, &scene->roster, scene->id);
    bytes = dispatch_bytes(type, &message_table, &birth);
    scene->memory = malloc(bytes);
    arena_init(&arena, scene->memory, bytes);
    assert_int_equal(dispatch_init(&scene->dispatch, type, &message_table, &birth, &arena),
                     STATUS_OK);
    scene->dispatch.check = true;
    return scene;
}

scene_t *scene_open(const actor_type_t *type, actor_kind_t kind, uint16_t prefills,
                    uint16_t decodes, uint16_t tp)
{
    static topology_t topology;

    topology = (topology_t){0};
    scene_topology(&topology, prefills, decodes, tp);
    return scene_open_on(&topology, type, kind);
}

scene_t *scene_open_large(const actor_type_t *type, actor_kind_t kind, uint16_t tp)
{
    static topology_t topology;

    topology = (topology_t){0};
    scene_topology(&topology, 1, 1, tp);
    topology.context_tokens = PROMPT_TOKENS_MAX;
    topology.prefills[0].pages = topology.decodes[0].pages =
        8 * (PROMPT_TOKENS_MAX / PAGE_TOKENS) + 2;
    topology.prefills[0].chunk_tokens = topology.decodes[0].chunk_tokens = STEP_TOKENS_MAX;
    return scene_open_on(&topology, type, kind);
}

void scene_close(scene_t *scene)
{
    capture_close(scene->capture);
    free(scene->memory);
    free(scene);
}

void scene_send(scene_t *scene, actor_id_t from, uint16_t id, const void *body)
{
    scene_send_as(scene, from, 1, id, body);
}

void scene_send_as(scene_t *scene, actor_id_t from, incarnation_t incarnation, uint16_t id,
                   const void *body)
{
    envelope_t envelope = {.from = from, .incarnation = incarnation, .id = id, .body = body};

    assert_int_equal(dispatch_message(&scene->dispatch, &envelope, capture_outbox(scene->capture)),
                     STATUS_OK);
    capture_plan(scene->capture, scene->type, scene->dispatch.self);
}

void scene_tick(scene_t *scene, uint64_t now_ms)
{
    message_tick_t tick = {now_ms, UINT64_C(1700000000000) + now_ms};

    scene_send(scene, PORT_RUNTIME, MESSAGE_tick, &tick);
}

void scene_exited(scene_t *scene, actor_id_t actor, incarnation_t incarnation)
{
    scene_exited_by(scene, actor, incarnation, EXIT_CRASHED);
}

void scene_exited_by(scene_t *scene, actor_id_t actor, incarnation_t incarnation,
                     exit_cause_t cause)
{
    message_exited_t exited = {actor, incarnation, (uint8_t)cause};

    capture_up_set(scene->capture, actor, false);
    scene_send(scene, scene_actor(scene, ACTOR_SUPERVISOR, 0), MESSAGE_exited, &exited);
}

actor_id_t scene_actor(const scene_t *scene, actor_kind_t kind, uint16_t instance)
{
    const topology_actor_t *actor = topology_actor(&scene->topology, kind, instance);

    assert_non_null(actor);
    return actor->id;
}

actor_id_t scene_rank(const scene_t *scene, actor_kind_t kind, uint16_t instance, uint16_t rank)
{
    const topology_actor_t *actor = topology_rank(&scene->topology, kind, instance, rank);

    assert_non_null(actor);
    return actor->id;
}

const void *scene_take(scene_t *scene, actor_id_t to, uint16_t id)
{
    const void *body = capture_find(scene->capture, to, id);

    if (!body)
        fail_msg("nothing of kind %s went to actor %u", message_table.rows[id].name, to);
    return body;
}

void scene_expect_nothing(scene_t *scene)
{
    capture_push_t push;

    if (capture_next(scene->capture, &push))
        fail_msg("%s went to actor %u unexpectedly", message_table.rows[push.id].name, push.to);
}

static int log_file = -1;

void scene_log_start(void)
{
    log_file = memfd_create("log", MFD_CLOEXEC);
    assert_true(log_file >= 0);
    log_open(log_file, "");
}

const char *scene_log_end(void)
{
    static char text[1 << 16];
    ssize_t used = pread(log_file, text, sizeof(text) - 1, 0);

    assert_true(used >= 0);
    text[used] = '\0';
    log_open(STDERR_FILENO, "");
    close(log_file);
    return text;
}

/* scene.h - one actor alone on a stage: a topology by hand, messages in, pushes out. */
#ifndef TESTS_ACTORS_SCENE_H
#define TESTS_ACTORS_SCENE_H

#include "messages/message.h"
#include "runtime/capture.h"
#include "runtime/dispatch.h"
#include "topology/topology.h"

typedef struct {
    topology_t topology;
    roster_t roster;
    actor_id_t id;
    const actor_type_t *type;
    dispatch_t dispatch;
    capture_t *capture;
    void *memory;
} scene_t;

/* That topology alone. */
void scene_topology(topology_t *topology, uint16_t prefills, uint16_t decodes, uint16_t tp);
/* One gateway, `prefills` and `decodes` groups of `tp` ranks, two transfers. The actor is
 * instance 0 of `kind`, or rank 0 of decode group 0. */
scene_t *scene_open(const actor_type_t *type, actor_kind_t kind, uint16_t prefills,
                    uint16_t decodes, uint16_t tp);
/* One group of each kind, in which everything is as large as a topology may say. */
scene_t *scene_open_large(const actor_type_t *type, actor_kind_t kind, uint16_t tp);
/* On this topology, which is copied. */
scene_t *scene_open_on(const topology_t *topology, const actor_type_t *type, actor_kind_t kind);
void scene_close(scene_t *scene);

/* Dispatches one message and runs the planner. `status` of the handler is judged by the counters
 * of dispatch. */
void scene_send(scene_t *scene, actor_id_t from, uint16_t id, const void *body);
/* From another life than the first. */
void scene_send_as(scene_t *scene, actor_id_t from, incarnation_t incarnation, uint16_t id,
                   const void *body);
void scene_tick(scene_t *scene, uint64_t now_ms);
void scene_exited(scene_t *scene, actor_id_t actor, incarnation_t incarnation);
void scene_exited_by(scene_t *scene, actor_id_t actor, incarnation_t incarnation,
                     exit_cause_t cause);

actor_id_t scene_actor(const scene_t *scene, actor_kind_t kind, uint16_t instance);
actor_id_t scene_rank(const scene_t *scene, actor_kind_t kind, uint16_t instance, uint16_t rank);
/* The oldest push of `id` to `to`, taken out; fails the test if there is none. */
const void *scene_take(scene_t *scene, actor_id_t to, uint16_t id);
/* Fails the test if anything was pushed that nobody took. */
void scene_expect_nothing(scene_t *scene);

/* From here on, lines of the log are kept instead of shown; at the end they are returned, valid
 * until the next start. */
void scene_log_start(void);
const char *scene_log_end(void);

#endif

/* stage.h - a simulated deployment for tests: its topology, its actors by name, its counts. */
#ifndef TESTS_SIM_STAGE_H
#define TESTS_SIM_STAGE_H

#include "actors/decode/decode.h"
#include "actors/prefill/prefill.h"
#include "sim/scenario.h"
#include "sim/world.h"
#include "messages/message.h"

/* LOCKSTEP_LONG=1 in the environment: every bound of these tests is far out. */
bool stage_is_long(void);
/* `brief` steps apart in a normal run, `stride` 1 in a long one; builds with checks take longer
 * ones. */
uint32_t stage_stride(uint32_t brief);

/* A copy of topology/examples/`name`.yaml, which the test may change; valid until the next call. */
topology_t *stage_topology(const char *name);
/* One whose text the test brings. */
topology_t *stage_topology_text(const char *text);
/* These requests, on that topology; seed 1. */
world_t *stage_open(const topology_t *topology, const world_request_t *requests, uint32_t count);
/* Everything ends, everything is free, every answer is right; closes the world. */
void stage_finish(world_t *world);

actor_id_t stage_actor(const world_t *world, actor_kind_t kind, uint16_t instance);
actor_id_t stage_rank(const world_t *world, actor_kind_t leader, uint16_t instance, uint16_t rank);
/* Until that actor has handled that message; fails the test if it never does. */
void stage_run_to(world_t *world, actor_id_t actor, uint16_t id);
void stage_run_for(world_t *world, uint64_t us);

const leader_counts_t *stage_decode(world_t *world);
const leader_counts_t *stage_prefill(world_t *world);

#endif

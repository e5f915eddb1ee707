/* attempt.h - what the files of this actor share: its state, its requests, and how an attempt changes.
 *
 * gateway.c has the handlers and says what holds between them (G1 to G8), plan.c what goes out when
 * nobody asked. All memory is the actor's block.
 */
#ifndef ACTORS_GATEWAY_ATTEMPT_H
#define ACTORS_GATEWAY_ATTEMPT_H

#include "actors/gateway/availability.h"
#include "actors/gateway/gateway.h"
#include "actors/request.h"
#include "messages/message.h"
#include "runtime/base/block.h"
#include "runtime/base/token_list.h"
#include "runtime/base/free_list.h"
#include "runtime/base/map.h"

enum { NONE, QUEUED, ROUTING, ROUTED, PREFILL, DECODE, ENDING, ATTEMPT_STATES };
enum { NO_DRAIN, DRAIN_DUE, DRAIN_ASKED };

typedef struct {
    request_link_t link;
    uint64_t client;
    uint64_t request;
    uint32_t attempt;
    uint8_t state; /* of the attempt */
    uint8_t alone;
    uint8_t charges;
    bool routed;        /* an instance was found for it once: load does not refuse it any more */
    uint8_t crashes;    /* actors that crashed with it */
    uint8_t end_reason; /* ENDING */
    uint32_t end_count; /* ENDING: tokens of the whole answer */
    uint32_t had;       /* tokens when this attempt began */
    uint32_t fruitless; /* attempts in a row without a new token */
    uint32_t cached_tokens;
    actor_id_t prefill; /* ACTOR_NONE: it has exited, and decode goes on without it */
    actor_id_t decode;
    actor_id_t transfer;
    uint64_t deadline_ms; /* 0: none */
    uint64_t came_ms;
    uint64_t nobody_since_ms; /* nobody is known to be ready since then; 0: somebody is */
    uint64_t retry_ms; /* QUEUED: not before this */
    uint64_t salt;
    request_parameters_t parameters;
    token_list_t prompt;
    token_list_t received;
} request_t;

typedef struct {
    uint8_t state;
    actor_id_t id;
    incarnation_t incarnation;
    actor_id_t scheduler;
    uint32_t request_max;
    uint32_t probing; /* of the live ones */
    uint32_t context_tokens;
    free_list_t free; /* requests, linked by next */
    uint64_t counter; /* of requests admitted */
    uint64_t now_ms;
    uint64_t wall_ms;
    uint64_t words_max;      /* of the store */
    uint64_t words_reserved; /* prompts and longest answers of all live requests */
    uint64_t close_at_ms;    /* CLOSING: who has no end by then gets one */
    message_drain_t drain;   /* an operator's wish, until its supervisor answers */
    uint8_t drain_state;
    uint16_t actor_count;
    actor_id_t supervisors[ACTORS_MAX]; /* of each actor */
    uint64_t isolated;                  /* the request that is out alone of its kind, or 0 */
    availability_t availability;
    request_list_t queued; /* by seniority */
    request_list_t routed; /* by seniority */
    gateway_counts_t counts;
    size_t by_request_offset; /* offsets from this struct; the block is relocatable */
    size_t by_client_offset;
    size_t requests_offset;
    size_t store_offset;
    size_t words_offset; /* room for a prompt and an answer */
    size_t keys_offset;
} gateway_t;

request_t *gateway_requests(gateway_t *self);
token_store_t *gateway_store(gateway_t *self);

/* Its state changes here only, and with it the list that it is in (G1). */
void attempt_become(gateway_t *self, request_t *request, uint8_t state);
/* Nothing was opened, so the same attempt may ask for a route again, in a while. */
void attempt_ask_again(gateway_t *self, request_t *request, uint64_t wait_ms);
/* A leader cannot say which of all that it held it died of. Once is chance; who was there twice goes
 * out while no other such request is, so that a further crash tells. */
bool attempt_needs_isolation(const request_t *request);
bool attempt_is_probe(const request_t *request);
/* Patience begins, unless it has begun before. */
void attempt_nobody_is_ready(const gateway_t *self, request_t *request);

/* Sends what may be sent now: an operator's wish, ROUTE and SUBMIT. */
void gateway_plan(void *arg, outbox_t *outbox);

#endif

/* toys.h - small actors for tests of drivers: a decode leader that opens TOY_ATTEMPTS attempts at a
 * transfer until all are answered, and a supervisor that tells who exited. Each checks what the
 * runtime promises to actors. */
#ifndef TESTS_RUNTIME_TOYS_H
#define TESTS_RUNTIME_TOYS_H

#include "messages/message.h"
#include "runtime/actor.h"
#include "runtime/roster.h"

enum {
    TOY_DECODE,
    TOY_TRANSFER,
    TOY_SUPERVISOR,
    TOY_COUNT,
    TOY_ATTEMPTS = 400,
    TOY_TICK_US = 20000
};
enum { TOY_ON, TOY_DONE }; /* states; a decode leader is DONE when all attempts are answered */

typedef struct {
    uint8_t state;
    bool is_up;
    incarnation_t peer;
    uint32_t asked; /* attempts whose OPEN was sent in this life of the peer */
    uint32_t answered_count;
    uint8_t answered[TOY_ATTEMPTS]; /* times OPENED came */
    uint64_t now_ms;
    uint32_t ticks;
    uint32_t joins;
    uint32_t exits;
    uint8_t cause;           /* of the last of them */
    uint64_t opens;          /* transfer: OPENs taken */
    const uint32_t *ask_max; /* decode: attempts it may ask for by now */
} toy_t;

extern const roster_t toy_roster;
/* Its birth's setup is a number of attempts that it may ask for, which a test may raise; NULL: all. */
extern const actor_type_t toy_decode;
extern const actor_type_t toy_transfer;
extern const actor_type_t toy_supervisor;

#endif

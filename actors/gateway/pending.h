/* pending.h - tokens of a stream that wait for a client who reads slowly.
 *
 * They are kept as numbers, since text is far longer: 4 bytes each, with logprobs 12 and 8 for each
 * alternative. An answer's length bounds how many there can be.
 */
#ifndef ACTORS_GATEWAY_PENDING_H
#define ACTORS_GATEWAY_PENDING_H

#include "messages/message.h"

typedef struct {
    bool logprobs; /* kept too; set while nothing is pending */
    uint32_t *words;
    uint32_t first;
    uint32_t count;
    uint32_t room;
} pending_t;

/* False: no memory. */
bool pending_put(pending_t *pending, const record_token_t *token);
/* The oldest one, with views that hold until the next verb; false: there is none. */
bool pending_take(pending_t *pending, record_token_t *token);
void pending_fini(pending_t *pending);

#endif

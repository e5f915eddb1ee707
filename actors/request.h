/* request.h - what gateways and leaders keep of a request: how to draw, when to end, and its place by age.
 *
 * Plain data for tables that may be copied away: views are stored as arrays, links as indices.
 */
#ifndef ACTORS_REQUEST_H
#define ACTORS_REQUEST_H

#include "actors/group.h"
#include "messages/message.h"

enum { REQUEST_NIL = 0xffffffff };

typedef struct {
    record_sampling_t sampling; /* its views are empty: request_sampling */
    record_limits_t limits;     /* as well */
    uint32_t bias_count;
    uint32_t stop_count;
    uint32_t bias_tokens[LOGIT_BIAS_MAX];
    float bias_values[LOGIT_BIAS_MAX];
    uint32_t stop_tokens[STOP_STRINGS_MAX];
} request_parameters_t;

/* Why a gateway cannot take it, whatever there is; NULL: it can. */
const char *request_refusal(const message_client_request_t *m, uint32_t context_tokens);
void request_copy(request_parameters_t *request, const record_sampling_t *sampling,
                  const record_limits_t *limits);
/* With views into `request`. */
record_sampling_t request_sampling(const request_parameters_t *request);
record_limits_t request_limits(const request_parameters_t *request);
/* True if this token is the last one of the answer. */
bool request_ends(const request_parameters_t *request, const uint32_t *end_tokens,
                  uint32_t end_token_count, uint32_t token);
bool request_has_penalty(const request_parameters_t *request);
/* STATUS_INVALID: a token has not as many logarithms as alternatives. */
status_t request_check_tokens(const record_tokens_item_t *item);
/* An end of a process that what it worked on may have caused, for nobody else did; an exit_cause_t. */
bool exit_is_suspect(uint8_t cause);

/* The first member of a table's entries that stand in a list, oldest first. */
typedef struct {
    record_seniority_t seniority;
    uint32_t previous; /* REQUEST_NIL at the ends */
    uint32_t next;
} request_link_t;

typedef struct {
    uint32_t first; /* oldest */
    uint32_t last;
    uint32_t count;
    uint32_t entry_bytes;
} request_list_t;

void request_list_init(request_list_t *list, size_t entry_bytes);
void request_list_insert(request_list_t *list, void *entries, uint32_t index);
void request_list_remove(request_list_t *list, void *entries, uint32_t index);
/* Asserts order and count. */
void request_list_check(const request_list_t *list, const void *entries);

#endif

/* endpoint.h - the server that a command talks to: a deployment of this user by name, or any URL. */
#ifndef CLI_ENDPOINT_H
#define CLI_ENDPOINT_H

#include "cli/http_call.h"

enum { ENDPOINT_MODEL_BYTES = 256, ENDPOINT_TIMEOUT_MS = 10000 };

typedef struct {
    http_url_t url; /* its base ends with "/v1" */
    char model[ENDPOINT_MODEL_BYTES];
} endpoint_t;

/* `url` wins; else the deployment `name`, NULL: the only one that runs. Asks it which model it has.
 * NOT_FOUND: no such deployment; BROKEN and others: the server does not answer as it should. */
MUST_USE status_t endpoint_find(const char *name, const char *url, endpoint_t *endpoint);
/* What an error body of the API says, or how it begins; `text` of 256 bytes. */
void endpoint_error_text(unsigned status, const char *body, char text[256]);

#endif

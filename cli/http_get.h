/* http_get.h - asks a deployment's own gateway something, from a command line tool. Blocking. */
#ifndef CLI_HTTP_GET_H
#define CLI_HTTP_GET_H

#include <stddef.h>
#include <stdint.h>

/* GET (body NULL) or POST of JSON to what listens there (see http_url_local). Copies the answer's
 * body, cut at `size` - 1, and ends it with NUL. Returns the HTTP status, 0 if there was no answer
 * within `timeout_ms`. */
unsigned http_get(const char *address, uint16_t port, const char *path, const char *body,
                  unsigned timeout_ms, char *answer, size_t size);

#endif

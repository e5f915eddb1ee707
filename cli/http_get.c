#include "cli/http_get.h"

#include <stdio.h>

#include "cli/http_call.h"

unsigned http_get(const char *address, uint16_t port, const char *path, const char *body,
                  unsigned timeout_ms, char *answer, size_t size)
{
    unsigned status = 0;
    http_call_t call;
    http_url_t url;

    answer[0] = '\0';
    http_url_local(address, port, &url);
    if (http_call_open(&url, path, body, &call) != STATUS_OK)
        return 0;
    if (http_call_finish(&call, timeout_ms) == HTTP_CALL_WHOLE) {
        status = call.status;
        snprintf(answer, size, "%s", http_call_body(&call));
    }
    http_call_close(&call);
    return status;
}

#include "cli/endpoint.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "cli/rundir.h"

static status_t find_url(const char *name, const char *text, http_url_t *url)
{
    deployment_t *deployment;
    rundir_t rundir;
    uint16_t port;
    size_t used;

    if (text) {
        TRY(http_url_parse(text, url));
    } else {
        TRY(rundir_find(name, &rundir));
        port = rundir_port(&rundir, 0);
        if (!port)
            return FAIL(STATUS_NOT_FOUND, "%s does not listen yet", rundir.name);
        TRY(rundir_deployment_read(&rundir, &deployment));
        http_url_local(deployment->topology.gateways[0].listen, port, url);
        free(deployment);
    }
    used = strlen(url->base);
    if (used >= 3 && strcmp(url->base + used - 3, "/v1") == 0)
        return STATUS_OK;
    if (used + 4 > sizeof(url->base))
        return FAIL(STATUS_INVALID, "the path of the URL is too long");
    snprintf(url->base + used, sizeof(url->base) - used, "/v1");
    return STATUS_OK;
}

void endpoint_error_text(unsigned status, const char *body, char text[256])
{
    json_t *root = json_loads(body, 0, NULL);
    json_t *error = json_object_get(root, "error");
    const char *message = json_string_value(json_object_get(error, "message"));

    if (!message)
        message = json_string_value(json_object_get(root, "message"));
    if (message)
        snprintf(text, 256, "%s", message);
    else
        snprintf(text, 256, "HTTP %u: %.*s", status, (int)strcspn(body, "\r\n"), body);
    json_decref(root);
}

static status_t read_model(const http_call_t *call, const char *body, char *model)
{
    json_t *root = json_loads(body, 0, NULL);
    json_t *first = json_array_get(json_object_get(root, "data"), 0);
    const char *id = json_string_value(json_object_get(first, "id"));
    bool fits = id && strlen(id) < ENDPOINT_MODEL_BYTES;

    if (fits)
        snprintf(model, ENDPOINT_MODEL_BYTES, "%s", id);
    json_decref(root);
    return fits && call->status == 200
               ? STATUS_OK
               : FAIL(STATUS_MALFORMED, "GET /v1/models (HTTP %u) names no model", call->status);
}

status_t endpoint_find(const char *name, const char *url, endpoint_t *endpoint)
{
    http_call_t call;
    status_t status;

    TRY(find_url(name, url, &endpoint->url));
    TRY(http_call_open(&endpoint->url, "/models", NULL, &call));
    status = http_call_finish(&call, ENDPOINT_TIMEOUT_MS) == HTTP_CALL_WHOLE
                 ? read_model(&call, http_call_body(&call), endpoint->model)
                 : STATUS_BROKEN;
    http_call_close(&call);
    return status;
}

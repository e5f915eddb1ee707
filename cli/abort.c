/* abort.c - `lockstep abort [NAME] ID`: ends one request of a deployment, whoever it belongs to. */
#include <jansson.h>
#include <stdlib.h>

#include "cli/command.h"
#include "cli/http_get.h"
#include "cli/rundir.h"

enum { ANSWER_BYTES = 1 << 20, TIMEOUT_MS = 5000 };

static char answer[ANSWER_BYTES];

/* What could have been meant; returns how many there are. */
static size_t print_open(const char *address, uint16_t port)
{
    json_t *root, *request;
    size_t i = 0;

    if (http_get(address, port, "/requests", NULL, TIMEOUT_MS, answer, sizeof(answer)) != 200)
        return 0;
    root = json_loads(answer, 0, NULL);
    json_array_foreach (json_object_get(root, "requests"), i, request)
        fprintf(stderr, "  open is %s  %s, %lld ms old, %lld tokens\n",
                json_string_value(json_object_get(request, "id")),
                json_string_value(json_object_get(request, "state")),
                (long long)json_integer_value(json_object_get(request, "age_ms")),
                (long long)json_integer_value(json_object_get(request, "tokens")));
    json_decref(root);
    return i;
}

/* Asks one gateway after the other: only one of them has it. */
static int abort_request(const rundir_t *rundir, const topology_t *topology, const char *id)
{
    json_t *object = json_pack("{s:s}", "id", id);
    char *body = json_dumps(object, 0);
    uint16_t gateway_count = topology->gateway_count;
    unsigned silent = 0;
    unsigned status = 0;
    size_t open = 0;

    json_decref(object);
    if (!body) {
        fprintf(stderr, "lockstep abort: that is no id\n");
        return EXIT_USAGE;
    }
    for (uint16_t i = 0; i < gateway_count && status != 200; i++) {
        const char *address = topology->gateways[i].admin_listen;
        uint16_t port = rundir_admin_port(rundir, i);

        status = port ? http_get(address, port, "/abort", body, TIMEOUT_MS, answer, sizeof(answer))
                      : 0;
        silent += status == 0;
    }
    free(body);
    if (status == 200) {
        printf("%s is ended\n", id);
        return EXIT_OK;
    }
    if (silent)
        fprintf(stderr, "lockstep abort: %u of %u gateways do not answer\n", silent, gateway_count);
    fprintf(stderr, "lockstep abort: %s has no open request %s\n", rundir->name, id);
    for (uint16_t i = 0; i < gateway_count; i++)
        open += print_open(topology->gateways[i].admin_listen, rundir_admin_port(rundir, i));
    if (open == 0 && silent == 0)
        fprintf(stderr, "  none is open: it may have ended just now\n");
    return EXIT_FAILED;
}

int command_abort(int argc, char **argv)
{
    deployment_t *deployment;
    rundir_t rundir;
    int code;

    if (argc < 2 || argc > 3 || argv[1][0] == '-')
        return command_usage("abort", "expected [NAME] ID");
    if (rundir_find(argc == 3 ? argv[1] : NULL, &rundir) != STATUS_OK ||
        rundir_deployment_read(&rundir, &deployment) != STATUS_OK) {
        fprintf(stderr, "lockstep abort: %s\n", trail_text());
        return EXIT_NOT_RUNNING;
    }
    code = abort_request(&rundir, &deployment->topology, argv[argc - 1]);
    free(deployment);
    return code;
}

/* drain.c - `lockstep drain [NAME] GROUP...` and `lockstep undrain`: groups leave, and come back.
 *
 * Asks a gateway, which asks the supervisor of the group. What the group does then stands in shared
 * memory, as for `ps`: drain ends when every group there says that it is empty.
 */
#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/command.h"
#include "cli/http_get.h"
#include "cli/rundir.h"
#include "runtime/figures.h"

enum { ANSWER_BYTES = 1 << 16, TIMEOUT_MS = 5000, LOOK_MS = 20, MARGIN_MS = 10000 };

typedef struct {
    const char *name; /* of the deployment; NULL: the only one */
    char **groups;
    int group_count;
    bool force;
} options_t;

/* The first gateway that answers speaks for all. */
static int ask(const rundir_t *rundir, const topology_t *topology, const char *path,
               const char *group, bool force)
{
    static char answer[ANSWER_BYTES];
    json_t *object = json_pack("{s:s, s:b}", "instance", group, "force", force);
    char *body = object ? json_dumps(object, 0) : NULL;
    unsigned status = 0;
    json_t *root;

    json_decref(object);
    for (uint16_t i = 0; i < topology->gateway_count && status == 0 && body; i++) {
        uint16_t port = rundir_admin_port(rundir, i);

        status = port ? http_get(topology->gateways[i].admin_listen, port, path, body, TIMEOUT_MS,
                                 answer, sizeof(answer))
                      : 0;
    }
    free(body);
    if (status == 200)
        return EXIT_OK;
    root = json_loads(answer, 0, NULL);
    fprintf(stderr, "lockstep %s: %s\n", path + 1,
            status == 0
                ? "no answer: a gateway passes it on to the supervisor of the group, which a "
                  "deployment --in-process does not have; see lockstep ps"
                : json_string_value(json_object_get(json_object_get(root, "error"), "message")));
    json_decref(root);
    return EXIT_FAILED;
}

static bool is_in_state(const rundir_t *rundir, const char *group, const char *state)
{
    const figures_t *figures;
    bool found;

    if (figures_open(rundir->shm_prefix, group, &figures) != STATUS_OK)
        return false;
    found = strcmp(figures->state_names[figure_get(&figures->state) % 16], state) == 0;
    figures_close(figures);
    return found;
}

static int await_empty(const rundir_t *rundir, const topology_t *topology, const char *group)
{
    const struct timespec look = {0, LOOK_MS * 1000000L};
    uint64_t most_ms = topology->drain_timeout_ms + MARGIN_MS;

    for (uint64_t ms = 0; !is_in_state(rundir, group, "drained"); ms += LOOK_MS) {
        if (ms > most_ms) {
            fprintf(stderr, "lockstep drain: %s is not empty after %llu s; see lockstep ps\n",
                    group, (unsigned long long)most_ms / 1000);
            return EXIT_FAILED;
        }
        nanosleep(&look, NULL);
    }
    printf("%s is drained\n", group);
    return EXIT_OK;
}

/* A name of a deployment has no slash, a group's has one. */
static bool parse(int argc, char **argv, options_t *options)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--force") == 0 && strcmp(argv[0], "drain") == 0)
            options->force = true;
        else if (argv[i][0] == '-')
            return false;
        else if (strchr(argv[i], '/'))
            options->groups[options->group_count++] = argv[i];
        else if (options->name || options->group_count)
            return false;
        else
            options->name = argv[i];
    }
    return options->group_count > 0;
}

/* All are asked first, so that none gets what another gives away. Each is told of, whatever became of
 * the others; the worst outcome is the exit code. */
static int move(const rundir_t *rundir, const topology_t *topology, const char *path,
                const options_t *options)
{
    bool drain = strcmp(path, "/drain") == 0;
    int code = EXIT_OK;

    for (int i = 0; i < options->group_count; i++) {
        if (ask(rundir, topology, path, options->groups[i], options->force) != EXIT_OK) {
            options->groups[i] = NULL;
            code = EXIT_FAILED;
        }
    }
    for (int i = 0; i < options->group_count; i++) {
        if (!options->groups[i])
            continue;
        if (!drain)
            printf("%s takes requests again\n", options->groups[i]);
        else if (await_empty(rundir, topology, options->groups[i]) != EXIT_OK)
            code = EXIT_FAILED;
    }
    return code;
}

static int run(int argc, char **argv, const char *path)
{
    options_t options = {.groups = calloc((size_t)argc, sizeof(char *))};
    deployment_t *deployment = NULL;
    rundir_t rundir;
    int code = EXIT_OK;

    if (!options.groups || !parse(argc, argv, &options)) {
        code = command_usage(argv[0], "expected [NAME] GROUP..., of names such as decode/0");
    } else if (rundir_find(options.name, &rundir) != STATUS_OK ||
               rundir_deployment_read(&rundir, &deployment) != STATUS_OK) {
        fprintf(stderr, "lockstep %s: %s\n", argv[0], trail_text());
        code = EXIT_NOT_RUNNING;
    }
    if (code == EXIT_OK)
        code = move(&rundir, &deployment->topology, path, &options);
    free(deployment);
    free(options.groups);
    return code;
}

int command_drain(int argc, char **argv)
{
    return run(argc, argv, "/drain");
}

int command_undrain(int argc, char **argv)
{
    return run(argc, argv, "/undrain");
}

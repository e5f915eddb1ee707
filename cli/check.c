/* check.c - `lockstep check FILE... | --schema`: what is wrong with topology files, all of it. */
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/plan.h"
#include "cli/shared_memory.h"

static bool check_checkpoint(const deployment_t *d, const char *path)
{
    if (!deployment_has_weights(d)) {
        printf("%s: %s has no weights: it can be planned, not started\n", path,
               d->topology.model_path);
        return true;
    }
    trail_reset();
    if (deployment_check_model(d) != STATUS_OK) {
        fprintf(stderr, "%s: model: %s\n", path, trail_text());
        return false;
    }
    return true;
}

/* Of the host that needs most. The file may be for another machine, so less is no fault of it. */
static void print_shared_memory(const char *path, const deployment_t *d)
{
    char text[SHARED_MEMORY_TEXT_BYTES];
    uint64_t needed = 0, found;
    for (uint16_t h = 0; h < d->topology.host_count; h++) {
        uint64_t bytes = shared_memory_needed(d, h);
        needed = bytes > needed ? bytes : needed;
    }
    printf("%s: a host needs %s of /dev/shm; ", path, shared_memory_text(needed, text));
    if (shared_memory_free(&found) != STATUS_OK)
        printf("here %s\n", trail_text());
    else
        printf("here %s are free%s\n", shared_memory_text(found, text),
               found < needed ? ", too little to start it" : "");
}

static bool check_file(const char *path, deployment_t *d)
{
    topology_errors_t errors;
    memset(&errors, 0, sizeof(errors));
    status_t status = deployment_load(path, d, &errors);
    topology_errors_print(&errors, stderr);
    if (status != STATUS_OK) {
        if (errors.count == 0)
            fprintf(stderr, "%s: %s\n", path, trail_text());
        return false;
    }
    if (!check_checkpoint(d, path))
        return false;
    printf("%s: good. %u actors on %u host%s; ", path, d->topology.actor_count,
           d->topology.host_count, d->topology.host_count == 1 ? "" : "s");
    plan_print_capacity(d, d->topology.context_tokens, stdout);
    print_shared_memory(path, d);
    return true;
}

int command_check(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--schema") == 0) {
        topology_schema_print(stdout);
        return EXIT_OK;
    }
    if (argc < 2 || argv[1][0] == '-')
        return command_usage("check", "expected FILE... or --schema");
    deployment_t *deployment = malloc(sizeof(*deployment));
    if (!deployment) {
        fprintf(stderr, "lockstep check: out of memory\n");
        return EXIT_FAILED;
    }
    bool good = true;
    for (int i = 1; i < argc; i++)
        good = check_file(argv[i], deployment) && good;
    free(deployment);
    return good ? EXIT_OK : EXIT_BAD_FILE;
}

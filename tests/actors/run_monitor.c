/* run_monitor.c DIRECTORY TOPOLOGY - a monitor alone in a process, for peers in other languages
 * to join.
 *
 * Says its id and endpoint in a line when it can be joined, shows its own mailbox and nobody
 * else's, and ends when its standard input does. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "actors/monitor/host.h"
#include "actors/monitor/monitor.h"
#include "actors/roster.h"
#include "runtime/process.h"

static void on_input(struct ev_loop *loop, ev_io *watcher, int events)
{
    char bytes[64];

    (void)loop;
    (void)events;
    if (read(STDIN_FILENO, bytes, sizeof(bytes)) <= 0)
        process_stop(watcher->data);
}

int main(int argc, char **argv)
{
    static topology_t topology;
    static topology_errors_t errors;
    static roster_t roster;
    static endpoints_t endpoints;
    char prefix[64];
    host_setup_t host = {.roster = &roster, .shm_prefix = prefix};
    process_config_t config = {.type = &monitor_type,
                               .birth = {.incarnation = 1, .topology = &topology},
                               .table = &message_table,
                               .roster = &roster,
                               .endpoints = &endpoints,
                               .ports = {{&host_port, &host}},
                               .port_count = 1,
                               .shm_prefix = prefix};
    process_t *process = NULL;
    status_t status;
    ev_io input;

    if (argc != 3 || topology_load(argv[2], &topology, &errors) != STATUS_OK)
        return 2;
    roster_init(&roster, &topology);
    config.birth.id = topology_actor(&topology, ACTOR_MONITOR, 0)->id;
    (void)snprintf(prefix, sizeof(prefix), "/lockstep-test-%d-", (int)getpid());
    if (endpoints_ipc(&endpoints, &roster, argv[1]) != STATUS_OK ||
        process_open(&config, &process) != STATUS_OK) {
        trail_print(stderr);
        return 1;
    }
    ev_io_init(&input, on_input, STDIN_FILENO, EV_READ);
    input.data = process;
    ev_io_start(process_loop(process), &input);
    printf("%u %s\n", config.birth.id, endpoints.at[config.birth.id]);
    (void)fflush(stdout);
    status = process_run(process);
    ev_io_stop(process_loop(process), &input);
    process_close(process);
    return status == STATUS_OK ? 0 : 1;
}

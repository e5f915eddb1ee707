/* up.c - `lockstep up FILE`: starts a deployment, says when and where it is ready, stops it.
 *
 * This process only watches: the supervisor is a child of it and parent of everything else. With
 * --detach the child goes on alone. Whatever way this ends, nothing stays behind: children die with
 * their supervisor, and directory and shared memory are removed by whoever ends last.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/http_call.h"
#include "cli/http_get.h"
#include "cli/launch.h"
#include "cli/shared_memory.h"
#include "runtime/figures.h"
#include "runtime/journal.h"

enum { POLL_MS = 50, NAMES_MAX = 16, READY_MS = 500, LOG_TAIL_BYTES = 4096 };

typedef struct {
    const char *file;
    const char *name; /* NULL: the topology's own */
    const char *port; /* NULL: the topology's */
    bool detach;
    bool in_process;
    bool journal; /* also if the topology asks for none */
} options_t;

static volatile sig_atomic_t stop_wanted; /* so many times */

static void on_stop(int number)
{
    (void)number;
    stop_wanted++;
}

static int parse(int argc, char **argv, options_t *options)
{
    static const struct option long_options[] = {
        {"port", required_argument, NULL, 'p'}, {"name", required_argument, NULL, 'n'},
        {"detach", no_argument, NULL, 'd'},     {"in-process", no_argument, NULL, 'i'},
        {"journal", no_argument, NULL, 'j'},    {NULL, 0, NULL, 0}};
    int option;

    optind = 1;
    while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
        char *end;

        switch (option) {
        case 'p':
            if (strtoul(optarg, &end, 10) > UINT16_MAX || *end || optarg[0] < '0' ||
                optarg[0] > '9') {
                fprintf(stderr, "lockstep up: a port is 0 to 65535, not '%s'\n", optarg);
                return EXIT_USAGE;
            }
            options->port = optarg;
            break;
        case 'n':
            options->name = optarg;
            break;
        case 'd':
            options->detach = true;
            break;
        case 'i':
            options->in_process = true;
            break;
        case 'j':
            options->journal = true;
            break;
        default:
            return command_usage("up", "--detach or --in-process, not both");
        }
    }
    if (optind + 1 != argc || (options->detach && options->in_process))
        return command_usage("up", "--detach or --in-process, not both");
    options->file = argv[optind];
    return EXIT_OK;
}

/* ---- the supervisor -------------------------------------------------------------------------- */

static _Noreturn void be_supervisor(rundir_t *rundir, const deployment_t *deployment, int log,
                                    bool detach)
{
    int null = open("/dev/null", O_RDONLY), code;

    if (!detach)
        prctl(PR_SET_PDEATHSIG, SIGTERM);
    setsid();
    if (null < 0)
        _exit(EXIT_NO_START);
    dup2(null, STDIN_FILENO);
    dup2(log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    close(null);
    close(log);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    rundir_pid_write(rundir, getpid());
    code = launch_actor(rundir, deployment,
                        topology_actor(&deployment->topology, ACTOR_SUPERVISOR, 0)->id, 1, 0);
    rundir_remove(rundir);
    _exit(code);
}

/* For a debugger: no child, no supervisor, and nothing that comes back. */
static int be_everything(rundir_t *rundir, const deployment_t *deployment)
{
    int code;

    rundir_pid_write(rundir, getpid());
    printf("%s runs in this process; it is ready when a line says GATEWAY-READY.\n"
           "Ctrl-C stops it.\n",
           rundir->name);
    fflush(stdout);
    code = launch_threads(rundir, deployment);
    rundir_remove(rundir);
    return code;
}

/* ---- watching -------------------------------------------------------------------------------- */

static void pause_ms(long ms)
{
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};

    nanosleep(&time, NULL);
}

static bool is_ready(const rundir_t *rundir, const topology_t *topology)
{
    char answer[256];

    for (uint16_t i = 0; i < topology->gateway_count; i++) {
        uint16_t port = rundir_port(rundir, i);

        if (!port || http_get(topology->gateways[i].listen, port, "/ready", NULL, READY_MS, answer,
                              sizeof(answer)) != 200)
            return false;
    }
    return true;
}

static uint32_t count_running(const rundir_t *rundir, const topology_t *topology)
{
    uint32_t running = 0;

    for (uint32_t i = 0; i < topology->actor_count; i++) {
        const figures_t *figures;

        if (figures_open(rundir->shm_prefix, topology->actors[i].name, &figures) != STATUS_OK)
            continue;
        running++;
        figures_close(figures);
    }
    return running;
}

/* The end of the log. */
static void read_log(int log, char text[LOG_TAIL_BYTES + 1])
{
    off_t end = lseek(log, 0, SEEK_END);
    ssize_t bytes =
        pread(log, text, LOG_TAIL_BYTES, end > LOG_TAIL_BYTES ? end - LOG_TAIL_BYTES : 0);

    text[bytes > 0 ? bytes : 0] = '\0';
}

/* An actor that ended itself, or crashed, before all were ready once: no second life would do better. */
static bool says_failure(const char *log)
{
    static const char *const signs[] = {" failed code=", " crashed code=", "SUPERVISOR-DEGRADED"};

    for (size_t i = 0; i < COUNT_OF(signs); i++)
        if (strstr(log, signs[i]))
            return true;
    return false;
}

/* Prints the lines of the log that say what went wrong; all if none does, since a library that ends
 * the process knows nothing of our levels. */
static void print_errors(const char *log)
{
    bool all = !strstr(log, " error ");

    for (const char *line = log; *line;) {
        size_t length = strcspn(line, "\n");

        if (all || memmem(line, length, " error ", 7))
            fprintf(stderr, "  %.*s\n", (int)length, line);
        line += length + (line[length] != '\0');
    }
}

typedef enum { STARTED, STOPPED, FAILED } start_t;

static start_t wait_until_ready(const rundir_t *rundir, const topology_t *topology,
                                pid_t supervisor, int log)
{
    char said[LOG_TAIL_BYTES + 1];
    bool terminal = isatty(STDERR_FILENO);
    uint32_t told = UINT32_MAX;

    while (!stop_wanted) {
        uint32_t running = count_running(rundir, topology);
        bool ended;

        if (running != told && terminal)
            fprintf(stderr, "\r%u of %u actors run, weights load ...", running,
                    topology->actor_count);
        told = running;
        if (is_ready(rundir, topology)) {
            if (terminal)
                fprintf(stderr, "\r\033[K");
            return STARTED;
        }
        ended = waitpid(supervisor, NULL, WNOHANG) != 0;
        read_log(log, said); /* its last words too */
        if (ended || says_failure(said)) {
            fprintf(stderr, "%slockstep up: %s did not come up:\n", terminal ? "\n" : "",
                    rundir->name);
            print_errors(said);
            return FAILED;
        }
        pause_ms(POLL_MS);
    }
    return STOPPED;
}

/* Asks the supervisor to end and waits for it; what it could not remove is removed here. Open
 * requests may end, until somebody asks again. */
static void stop(rundir_t *rundir, pid_t supervisor)
{
    int asked = stop_wanted;

    kill(supervisor, SIGTERM);
    kill(supervisor, SIGCONT); /* if it is stopped, nobody else lets it hear that */
    while (waitpid(supervisor, NULL, WNOHANG) == 0) {
        if (stop_wanted > asked)
            kill(supervisor, SIGINT);
        asked = stop_wanted;
        pause_ms(POLL_MS);
    }
    rundir_remove(rundir);
}

static int watch(rundir_t *rundir, const topology_t *topology, pid_t supervisor, int log,
                 bool detach)
{
    start_t start = wait_until_ready(rundir, topology, supervisor, log);
    char said[LOG_TAIL_BYTES + 1];
    int code = EXIT_OK, status = -1;

    if (start != STARTED) {
        stop(rundir, supervisor);
        return start == STOPPED ? EXIT_OK : EXIT_NO_START;
    }
    for (uint16_t i = 0; i < topology->gateway_count; i++) {
        http_url_t url;

        http_url_local(topology->gateways[i].listen, rundir_port(rundir, i), &url);
        printf("%s is ready: http://%s:%s/v1 (model %s), administration on %s:%u\n", rundir->name,
               url.host, url.port, topology->served_name, topology->gateways[i].admin_listen,
               rundir_admin_port(rundir, i));
    }
    rundir_print(rundir, topology, stdout);
    if (detach)
        printf("lockstep ps %s shows it, lockstep down %s stops it.\n", rundir->name, rundir->name);
    else
        printf("Ctrl-C stops it when open requests have ended, and at once the second time.\n");
    if (fflush(stdout) != 0) { /* nobody was told where it listens */
        fprintf(stderr, "lockstep up: cannot write to standard output: %s\n", strerror(errno));
        stop(rundir, supervisor);
        return EXIT_FAILED;
    }
    if (detach)
        return EXIT_OK;
    while (!stop_wanted && waitpid(supervisor, &status, WNOHANG) == 0)
        pause_ms(POLL_MS);
    if (!stop_wanted && WIFEXITED(status) && WEXITSTATUS(status) == EXIT_OK) {
        printf("%s was taken down\n", rundir->name);
    } else if (!stop_wanted) {
        read_log(log, said);
        fprintf(stderr, "lockstep up: the supervisor ended:\n");
        print_errors(said);
        code = EXIT_FAILED;
    }
    stop(rundir, supervisor);
    return code;
}

/* ---- the command ----------------------------------------------------------------------------- */

/* A name of its own for a second deployment of one file: NAME-2, NAME-3, ... */
static status_t open_rundir(const options_t *options, const topology_t *topology, rundir_t *rundir)
{
    char name[NAME_BYTES_MAX + 8];
    status_t status;

    if (options->name)
        return rundir_open(options->name, rundir);
    status = rundir_open(topology->name, rundir);
    for (unsigned i = 2; status == STATUS_BUSY && i < NAMES_MAX; i++) {
        snprintf(name, sizeof(name), "%s-%u", topology->name, i);
        status = rundir_open(name, rundir);
    }
    return status;
}

/* The folder from anywhere: actors may run elsewhere. */
static status_t resolve_paths(deployment_t *deployment)
{
    char *absolute = realpath(deployment->topology.model_path, NULL);

    if (!absolute)
        return FAIL(STATUS_BAD_FILE, "model folder %s: %s", deployment->topology.model_path,
                    strerror(errno));
    if (strlen(absolute) >= PATH_BYTES_MAX) {
        free(absolute);
        return FAIL(STATUS_BAD_FILE, "the path of the model folder has more than %d bytes",
                    PATH_BYTES_MAX - 1);
    }
    snprintf(deployment->topology.model_path, PATH_BYTES_MAX, "%s", absolute);
    free(absolute);
    return STATUS_OK;
}

/* Nobody may listen there yet: who finds it taken when all else runs has waited for nothing. */
static status_t check_port(const char *address, uint16_t port, const char *option)
{
    struct sockaddr_in where = {.sin_family = AF_INET, .sin_port = htons(port)};
    int listener, yes = 1;
    bool taken;

    if (port == 0 || inet_pton(AF_INET, address, &where.sin_addr) != 1)
        return STATUS_OK;
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0)
        return STATUS_OK; /* whoever starts will say why */
    (void)setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    taken = bind(listener, (const struct sockaddr *)&where, sizeof(where)) != 0 ||
            listen(listener, 1) != 0;
    close(listener);
    return taken ? FAIL(STATUS_BUSY, "cannot listen on %s:%u: %s (--port %s)", address, port,
                        strerror(errno), option)
                 : STATUS_OK;
}

static status_t check_ports(const options_t *options, const topology_t *topology)
{
    for (uint16_t i = 0; i < topology->gateway_count; i++) {
        const topology_gateway_t *gateway = &topology->gateways[i];

        if (options->port) {
            if (i == 0)
                TRY(check_port(gateway->listen, (uint16_t)strtoul(options->port, NULL, 10),
                               "0 takes any free one"));
            continue;
        }
        TRY(check_port(gateway->listen, gateway->port, "N takes another one, 0 any free one"));
        TRY(check_port(gateway->admin_listen, gateway->admin_port,
                       "takes any free one for administration"));
    }
    return STATUS_OK;
}

/* What could not come up, before anything starts. */
static status_t check_start(const options_t *options, const deployment_t *deployment)
{
    const topology_t *topology = &deployment->topology;

    if (topology->host_count > 1)
        return FAIL(STATUS_UNSUPPORTED,
                    "it has %u hosts: `up` starts the actors of one host, and several hosts "
                    "cannot be started yet; `plan` shows them",
                    topology->host_count);
    TRY(launch_check_device(topology));
    if (!launch_is_symbolic()) {
        if (!deployment_has_weights(deployment))
            return FAIL(STATUS_BAD_FILE, "%s has no weights: it can be planned, not started",
                        topology->model_path);
        TRY(deployment_check_model(deployment));
        TRY(shared_memory_check(deployment, 0));
    }
    return check_ports(options, topology);
}

static int start(const options_t *options, deployment_t *deployment)
{
    char path[RUNDIR_PATH_BYTES + 32];
    rundir_t rundir;
    pid_t supervisor;
    int code, log;

    if (resolve_paths(deployment) != STATUS_OK) {
        fprintf(stderr, "lockstep up: %s\n", trail_text());
        return EXIT_BAD_FILE;
    }
    switch (check_start(options, deployment)) {
    case STATUS_OK:
        break;
    case STATUS_BAD_FILE:
    case STATUS_BAD_CONFIG:
    case STATUS_NOT_FOUND:
        fprintf(stderr, "lockstep up: %s: model: %s\n", options->file, trail_text());
        return EXIT_BAD_FILE;
    default:
        fprintf(stderr, "lockstep up: %s: %s\n", options->file, trail_text());
        return EXIT_NO_START;
    }
    if (options->journal && !deployment->topology.journal_bytes)
        deployment->topology.journal_bytes = JOURNAL_SEGMENT_BYTES;
    if (open_rundir(options, &deployment->topology, &rundir) != STATUS_OK ||
        rundir_deployment_write(&rundir, deployment) != STATUS_OK ||
        (deployment->topology.journal_bytes && rundir_journal_make(&rundir) != STATUS_OK)) {
        fprintf(stderr, "lockstep up: %s\n", trail_text());
        if (rundir.lock >= 0)
            rundir_remove(&rundir);
        return EXIT_NO_START;
    }
    if (options->port)
        setenv("LOCKSTEP_PORT", options->port, 1);
    else
        unsetenv("LOCKSTEP_PORT"); /* between us and our gateway, not the caller's */
    if (options->in_process)
        return be_everything(&rundir, deployment);
    signal(SIGINT, on_stop);
    signal(SIGTERM, on_stop);
    if (signal(SIGHUP, on_stop) == SIG_IGN)
        signal(SIGHUP, SIG_IGN); /* nohup */
    signal(SIGPIPE, SIG_IGN);
    fflush(NULL);
    rundir_file(&rundir, "log", path);
    log =
        open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600); /* to be read when it is gone */
    supervisor = log < 0 ? -1 : fork();
    if (supervisor == 0)
        be_supervisor(&rundir, deployment, log, options->detach);
    if (supervisor < 0) {
        perror("lockstep up");
        rundir_remove(&rundir);
        return EXIT_NO_START;
    }
    rundir_leave(&rundir); /* the supervisor holds it */
    code = watch(&rundir, &deployment->topology, supervisor, log, options->detach);
    fflush(stdout);
    return code;
}

int command_up(int argc, char **argv)
{
    options_t options = {0};
    deployment_t *deployment = malloc(sizeof(*deployment));
    static topology_errors_t errors;
    int code = parse(argc, argv, &options);

    if (code == EXIT_OK && !deployment)
        code = EXIT_FAILED;
    if (code == EXIT_OK && deployment_load(options.file, deployment, &errors) != STATUS_OK) {
        topology_errors_print(&errors, stderr);
        code = EXIT_BAD_FILE;
    }
    if (code == EXIT_OK)
        code = start(&options, deployment);
    free(deployment);
    return code;
}

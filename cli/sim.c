/* sim.c - `lockstep sim`: runs simulated deployments and says whether anything was violated.
 *
 * Exit 0: no violation. Exit 1: a violation; the last line names it and its seed.
 */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/sim/scenario.h"
#include "runtime/base/log.h"

enum { JOBS_MAX = 256 };

typedef struct {
    const char *file;
    uint64_t first;
    uint64_t last;
    uint32_t jobs;
    bool trace;
    plant_t plant;
} options_t;

/* What a job tells the parent, once per seed. */
typedef struct {
    uint64_t seed;
    scenario_result_t result;
} report_t;

static int usage(const char *why, const char *what)
{
    fprintf(stderr,
            "lockstep sim: %s%s\n"
            "usage: lockstep sim [--topology FILE] (--seed N [--trace] | --seeds A..B [--jobs N]) "
            "[--plant NAME]\n",
            why, what);
    fprintf(stderr, "plants:\n");
    for (uint32_t i = 0; i < PLANT_COUNT; i++)
        fprintf(stderr, "  %-20s %s\n", plant_name((plant_t)i), plant_text((plant_t)i));
    return EXIT_USAGE;
}

static bool parse_number(const char *text, const char **end, uint64_t *number)
{
    char *stop;

    if (*text < '0' || *text > '9')
        return false;
    *number = strtoull(text, &stop, 10);
    *end = stop;
    return true;
}

static int parse(int argc, char **argv, options_t *options)
{
    static const struct option long_options[] = {
        {"topology", required_argument, NULL, 't'},
        {"seed", required_argument, NULL, 's'},
        {"seeds", required_argument, NULL, 'r'},
        {"jobs", required_argument, NULL, 'j'},
        {"plant", required_argument, NULL, 'p'},
        {"trace", no_argument, NULL, 'v'},
        {NULL, 0, NULL, 0},
    };
    bool seeds_known = false;
    const char *end;
    uint64_t number;
    int option;

    optind = 1;
    while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
        switch (option) {
        case 't':
            options->file = optarg;
            break;
        case 's':
            if (!parse_number(optarg, &end, &options->first) || *end)
                return usage("a seed is a number, not ", optarg);
            options->last = options->first;
            seeds_known = true;
            break;
        case 'r':
            if (!parse_number(optarg, &end, &options->first) || strncmp(end, "..", 2) != 0 ||
                !parse_number(end + 2, &end, &options->last) || *end ||
                options->last < options->first)
                return usage("seeds are A..B, not ", optarg);
            seeds_known = true;
            break;
        case 'j':
            if (!parse_number(optarg, &end, &number) || *end || number < 1 || number > JOBS_MAX)
                return usage("--jobs takes 1 to 256, not ", optarg);
            options->jobs = (uint32_t)number;
            break;
        case 'p':
            if (!plant_parse(optarg, &options->plant))
                return usage("there is no plant ", optarg);
            break;
        case 'v':
            options->trace = true;
            break;
        default:
            return usage("unknown option", "");
        }
    }
    if (optind < argc)
        return usage("unexpected argument ", argv[optind]);
    return seeds_known ? EXIT_OK : usage("which seed?", "");
}

static void run_seed(const topology_t *topology, const options_t *options, uint64_t seed,
                     report_t *report)
{
    scenario_t scenario = {topology, seed, options->plant, options->trace ? stdout : NULL};

    report->seed = seed;
    scenario_run(&scenario, &report->result);
}

/* Job number `job` runs every jobs-th seed and writes a report for each. */
static void run_job(const topology_t *topology, const options_t *options, uint32_t job, int out)
{
    report_t report;

    memset(&report, 0, sizeof(report));
    for (uint64_t seed = options->first + job; seed <= options->last; seed += options->jobs) {
        run_seed(topology, options, seed, &report);
        if (write(out, &report, sizeof(report)) != (ssize_t)sizeof(report) || !report.result.passed)
            break;
    }
    _exit(0);
}

typedef struct {
    uint64_t seeds;
    uint64_t events;
    uint64_t virtual_us;
    uint64_t requests;
    report_t failed; /* the lowest seed that failed; passed: none did */
} total_t;

static void add(total_t *total, const report_t *report)
{
    total->seeds++;
    total->events += report->result.events;
    total->virtual_us += report->result.virtual_us;
    total->requests += report->result.requests;
    if (!report->result.passed &&
        (total->failed.result.passed || report->seed < total->failed.seed))
        total->failed = *report;
}

/* A report is smaller than PIPE_BUF, so writes of several jobs do not mix. */
_Static_assert(sizeof(report_t) < 4096, "reports are written whole");

static void run_all(const topology_t *topology, const options_t *options, total_t *total)
{
    report_t report;
    int ends[2];

    if (pipe(ends) != 0) {
        perror("lockstep sim: pipe");
        exit(EXIT_FAILED);
    }
    fflush(stdout);
    for (uint32_t job = 0; job < options->jobs; job++)
        if (fork() == 0)
            run_job(topology, options, job, ends[1]);
    close(ends[1]);
    while (read(ends[0], &report, sizeof(report)) == (ssize_t)sizeof(report)) {
        add(total, &report);
        if (isatty(STDERR_FILENO) && total->seeds % 64 == 0)
            fprintf(stderr, "\r%llu seeds", (unsigned long long)total->seeds);
    }
    close(ends[0]);
    while (wait(NULL) > 0)
        ;
}

static double seconds_since(const struct timespec *start)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - start->tv_sec) + (double)(now.tv_nsec - start->tv_nsec) * 1e-9;
}

/* Faults of code are in another binary, beside this one. Returns only if it cannot be executed. */
static int execute_planted(int argc, char **argv)
{
    static const char suffix[] = "-planted";
    char path[PATH_BYTES_MAX];
    ssize_t bytes = readlink("/proc/self/exe", path, sizeof(path) - sizeof(suffix));
    char **arguments = calloc((size_t)argc + 2, sizeof(*arguments));

    if (bytes < 0 || !arguments) {
        perror("lockstep sim");
        free(arguments);
        return EXIT_FAILED;
    }
    memcpy(path + bytes, suffix, sizeof(suffix));
    arguments[0] = path;
    memcpy(arguments + 1, argv, (size_t)argc * sizeof(*argv));
    execv(path, arguments);
    fprintf(stderr, "lockstep sim: this plant is in %s: %m\n", path);
    free(arguments);
    return EXIT_FAILED;
}

int command_sim(int argc, char **argv)
{
    options_t options = {.file = "topology/examples/default.yaml", .jobs = 1};
    static topology_t topology;
    static topology_errors_t errors;
    total_t total = {.failed.result.passed = true};
    struct timespec start;
    int code = parse(argc, argv, &options);

    if (code != EXIT_OK)
        return code;
    if (plant_is_code(options.plant) && !plant_is_built())
        return execute_planted(argc, argv);
    if (topology_load(options.file, &topology, &errors) != STATUS_OK) {
        topology_errors_print(&errors, stderr);
        return EXIT_BAD_FILE;
    }
    plant_set(options.plant);
    log_level_set(options.trace ? LOG_TRACE : LOG_ERROR);
    clock_gettime(CLOCK_MONOTONIC, &start);
    world_keep_memory();
    if (options.first == options.last) {
        report_t report;

        run_seed(&topology, &options, options.first, &report);
        add(&total, &report);
        printf("frame-trace digest %016llx\n", (unsigned long long)report.result.digest);
    } else {
        run_all(&topology, &options, &total);
    }
    printf("%llu seeds, %llu requests, %llu events, %.1f virtual seconds in %.1f seconds\n",
           (unsigned long long)total.seeds, (unsigned long long)total.requests,
           (unsigned long long)total.events, (double)total.virtual_us * 1e-6,
           seconds_since(&start));
    if (!total.failed.result.passed) {
        printf("VIOLATION seed %llu: %s\n", (unsigned long long)total.failed.seed,
               total.failed.result.violation);
        return EXIT_FAILED;
    }
    if (total.seeds != options.last - options.first + 1) {
        printf("VIOLATION a run ended without a report: %llu of %llu seeds reported\n",
               (unsigned long long)total.seeds,
               (unsigned long long)(options.last - options.first + 1));
        return EXIT_FAILED;
    }
    return EXIT_OK;
}

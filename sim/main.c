/* main.c - `lockstep-sim`, which `lockstep sim` runs: simulated deployments, and whether anything was violated.
 *
 * A violation of a range of seeds is made small (shrink.h), written to a story file, and shown as the
 * sequence of messages that led to it. Exit 0: no violation. Exit 1: a violation; a line that begins
 * so names it and its seed.
 */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/isolated.h"
#include "sim/jobs.h"
#include "sim/schedule.h"
#include "sim/shrink.h"
#include "runtime/base/exit.h"
#include "runtime/base/log.h"

#define NO_PLANT "there is no plant "
#define NO_SCHEDULE "there is no schedule "

enum { SHRINK_RUNS_MAX = 1500, SEQUENCE_LINES = 80 };

typedef struct {
    const char *file; /* topology */
    const char *story;
    const char *perfetto;
    const char *journal; /* folder */
    uint64_t first;
    uint64_t last;
    uint32_t jobs;
    bool trace;
    bool coverage;
    bool shrink;
    bool keep_going;
    plant_t plant;
    const schedule_t *schedule;
} options_t;

/* What is wrong, and where a name is, those that there are. */
static int usage(const char *why, const char *what)
{
    fprintf(stderr, "lockstep sim: %s%s\n", why, what);
    if (strcmp(why, NO_PLANT) == 0)
        for (uint32_t i = 0; i < PLANT_COUNT; i++)
            fprintf(stderr, "    %-20s %s\n", plant_name((plant_t)i), plant_text((plant_t)i));
    if (strcmp(why, NO_SCHEDULE) == 0)
        for (uint32_t i = 0; i < schedule_count; i++)
            fprintf(stderr, "    %s\n", schedules[i].name);
    fprintf(stderr, "'lockstep help sim' says how it is called\n");
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

static bool parse_seeds(const char *text, options_t *options)
{
    const char *end;

    return parse_number(text, &end, &options->first) && strncmp(end, "..", 2) == 0 &&
           parse_number(end + 2, &end, &options->last) && !*end && options->last >= options->first;
}

/* NULL: taken. Else why not. */
static const char *take_option(int option, const char *value, options_t *options)
{
    const char *end;
    uint64_t number;

    switch (option) {
    case 't':
        options->file = value;
        return NULL;
    case 's':
        if (!parse_number(value, &end, &options->first) || *end)
            return "a seed is a number, not ";
        options->last = options->first;
        return NULL;
    case 'r':
        return parse_seeds(value, options) ? NULL : "seeds are A..B, not ";
    case 'j':
        if (!parse_number(value, &end, &number) || *end || number < 1 || number > JOBS_MAX)
            return "--jobs takes 1 to 256, not ";
        options->jobs = (uint32_t)number;
        return NULL;
    case 'p':
        return plant_parse(value, &options->plant) ? NULL : NO_PLANT;
    case 'o':
        options->story = value;
        return NULL;
    case 'f':
        options->perfetto = value;
        return NULL;
    case 'c':
        options->schedule = schedule_find(value);
        return options->schedule ? NULL : NO_SCHEDULE;
    case 'w':
        options->journal = value;
        return NULL;
    default:
        return "no option, or one without its value: ";
    }
}

static int parse(int argc, char **argv, options_t *options)
{
    int trace = 0, coverage = 0, shrink = 0, keep_going = 0;
    const struct option long_options[] = {
        {"topology", required_argument, NULL, 't'}, {"seed", required_argument, NULL, 's'},
        {"seeds", required_argument, NULL, 'r'},    {"jobs", required_argument, NULL, 'j'},
        {"plant", required_argument, NULL, 'p'},    {"story", required_argument, NULL, 'o'},
        {"perfetto", required_argument, NULL, 'f'}, {"trace", no_argument, &trace, 1},
        {"coverage", no_argument, &coverage, 1},    {"shrink", no_argument, &shrink, 1},
        {"journal", required_argument, NULL, 'w'},  {"keep-going", no_argument, &keep_going, 1},
        {"schedule", required_argument, NULL, 'c'}, {NULL, 0, NULL, 0},
    };
    bool known = false;
    int option;

    optind = 1;
    opterr = 0;
    while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
        const char *why = option == 0 ? NULL : take_option(option, optarg, options);

        if (why)
            return usage(why, optarg ? optarg : argv[optind - 1]);
        known = known || option == 's' || option == 'r' || option == 'o' || option == 'c';
    }
    options->trace = trace;
    options->coverage = coverage;
    options->shrink = shrink;
    options->keep_going = keep_going;
    if (optind < argc)
        return usage("unexpected argument ", argv[optind]);
    return known ? EXIT_OK : usage("expected --seed, --seeds, --story or --schedule", "");
}

/* ---- one run --------------------------------------------------------------------------------- */

/* What the process of a run is to show of it when it has ended. */
typedef struct {
    chronicle_t *chronicle;
    const char *perfetto;
    bool sequence;
    const coverage_t *coverage;
} showing_t;

static void show_run(void *context, const scenario_result_t *result)
{
    const showing_t *showing = context;
    FILE *out = showing->perfetto ? fopen(showing->perfetto, "w") : NULL;

    if (showing->perfetto && !out)
        fprintf(stderr, "lockstep sim: cannot write %s: %m\n", showing->perfetto);
    if (out) {
        chronicle_print_perfetto(showing->chronicle, out);
        (void)fclose(out);
    }
    if (showing->coverage)
        coverage_print(showing->coverage, stdout);
    if (showing->sequence && !result->passed)
        chronicle_print_sequence(showing->chronicle, result->violation, SEQUENCE_LINES, stdout);
}

static void run_one(const options_t *options, const scenario_t *given, bool sequence,
                    scenario_result_t *result)
{
    static coverage_t coverage;
    const journal_place_t journal = {
        .directory = options->journal, .topology_bytes = sizeof(topology_t), .tokens = true};
    scenario_t scenario = *given;
    showing_t showing = {.perfetto = options->perfetto, .sequence = sequence};

    if (sequence || options->perfetto)
        scenario.chronicle = showing.chronicle = chronicle_open();
    if (options->coverage)
        showing.coverage = scenario.coverage = &coverage;
    if (options->trace)
        scenario.trace = stdout;
    if (options->journal)
        scenario.journal = &journal;
    isolated_run(&scenario, show_run, &showing, result);
    chronicle_close(showing.chronicle);
}

static int run_schedule(const options_t *options)
{
    static coverage_t coverage;
    char violation[WORLD_VIOLATION_BYTES];

    printf("%s: %s\n", options->schedule->name, options->schedule->text);
    if (schedule_play(options->schedule, options->first, options->trace ? stdout : NULL, &coverage,
                      violation) != STATUS_OK) {
        fprintf(stderr, "lockstep sim: %s\n", trail_text());
        return EXIT_BAD_FILE;
    }
    if (options->coverage)
        coverage_print(&coverage, stdout);
    if (violation[0])
        printf("VIOLATION seed %llu: %s\n", (unsigned long long)options->first, violation);
    return violation[0] ? EXIT_FAILED : EXIT_OK;
}

/* ---- a violation ----------------------------------------------------------------------------- */

/* Makes the story small, keeps it in a file, and shows how it comes to its violation. */
static void explain(const options_t *options, const scenario_t *scenario, scenario_result_t *result)
{
    static story_t story;
    options_t only = {0};
    char path[64];
    scenario_t smallest = *scenario;
    shrink_counts_t counts;
    FILE *out;

    if (scenario->story)
        story = *scenario->story;
    else
        story_draw(&story, scenario->seed, scenario->topology);
    counts = shrink(scenario, &story, result, SHRINK_RUNS_MAX);
    snprintf(path, sizeof(path), "lockstep-sim-%llu.story", (unsigned long long)story.seed);
    out = fopen(path, "w");
    if (out) {
        story_print(&story, options->file, out);
        (void)fclose(out);
    }
    printf("\nthe smallest story, after %u runs (%u changes kept):\n\n", counts.runs, counts.kept);
    story_print(&story, options->file, stdout);
    printf("\nhow it comes to that:\n\n");
    smallest.story = &story;
    run_one(&only, &smallest, true, result);
    printf("\nagain: lockstep sim --story %s%s%s\n", path,
           options->plant == PLANT_none ? "" : " --plant ",
           options->plant == PLANT_none ? "" : plant_name(options->plant));
}

static int judge(const options_t *options, const scenario_t *scenario, scenario_result_t *result,
                 bool explained)
{
    if (result->passed)
        return EXIT_OK;
    printf("VIOLATION seed %llu: %s\n", (unsigned long long)scenario->seed, result->violation);
    if (explained)
        explain(options, scenario, result);
    return EXIT_FAILED;
}

static int run_single(const options_t *options, scenario_t *scenario)
{
    scenario_result_t result;

    run_one(options, scenario, scenario->story && !options->shrink, &result);
    printf("frame-trace digest %016llx\n", (unsigned long long)result.digest);
    printf("1 seed, %u requests, %u faults, %llu events, %.1f virtual seconds\n", result.requests,
           result.faults, (unsigned long long)result.events, (double)result.virtual_us * 1e-6);
    return judge(options, scenario, &result, options->shrink);
}

/* ---- many ------------------------------------------------------------------------------------ */

static int run_many(const options_t *options, scenario_t *scenario)
{
    jobs_config_t config = {.topology = scenario->topology,
                            .plant = options->plant,
                            .first = options->first,
                            .last = options->last,
                            .jobs = options->jobs,
                            .keep_going = options->keep_going,
                            .coverage = options->coverage};
    static jobs_total_t total;

    jobs_run(&config, &total);
    printf(
        "%llu seeds, %llu requests, %llu faults, %llu events, %.2f virtual hours in %.1f minutes, "
        "%.1f seeds/s/core on %u, %llu violations\n",
        (unsigned long long)total.seeds, (unsigned long long)total.requests,
        (unsigned long long)total.faults, (unsigned long long)total.events,
        (double)total.virtual_us / 3.6e9, total.seconds / 60,
        (double)total.seeds / total.seconds / options->jobs, options->jobs,
        (unsigned long long)total.violations);
    if (total.coverage)
        coverage_print(total.coverage, stdout);
    free(total.coverage);
    if (total.violations == 0)
        return EXIT_OK;
    scenario->seed = total.failed_seed;
    return judge(options, scenario, &total.failed, options->shrink || options->plant == PLANT_none);
}

/* 0, or an exit code. */
static int load(options_t *options, story_t *story, topology_t *topology)
{
    static char file[PATH_BYTES_MAX];
    static topology_errors_t errors;
    char error[256];

    if (options->story) {
        FILE *in = fopen(options->story, "r");
        bool read = in && story_read(in, story, file, error, sizeof(error));

        if (!in)
            snprintf(error, sizeof(error), "cannot be read: %m");
        if (in)
            (void)fclose(in);
        if (!read) {
            fprintf(stderr, "lockstep sim: %s: %s\n", options->story, error);
            return EXIT_BAD_FILE;
        }
        options->file = file;
        options->first = options->last = story->seed;
    }
    if (topology_load(options->file, topology, &errors) == STATUS_OK)
        return EXIT_OK;
    topology_errors_print(&errors, stderr);
    return EXIT_BAD_FILE;
}

int main(int argc, char **argv)
{
    options_t options = {
        .file = "topology/examples/default.yaml", .first = 1, .last = 1, .jobs = 1};
    static topology_t topology;
    static story_t story;
    scenario_t scenario = {.topology = &topology};
    int code = parse(argc, argv, &options);

    if (code != EXIT_OK)
        return code;
    if (plant_is_code(options.plant) && !plant_is_built())
        return usage("a build with sanitizers has no plant ", plant_name(options.plant));
    plant_set(options.plant);
    log_level_set(options.trace ? LOG_TRACE : LOG_ERROR);
    world_keep_memory();
    if (options.schedule)
        return run_schedule(&options);
    code = load(&options, &story, &topology);
    if (code != EXIT_OK)
        return code;
    scenario.seed = options.first;
    scenario.plant = options.plant;
    scenario.story = options.story ? &story : NULL;
    return options.first == options.last ? run_single(&options, &scenario)
                                         : run_many(&options, &scenario);
}

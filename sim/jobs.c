#include "sim/jobs.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LOOK_MS = 500, QUIET_SECONDS = 60 };

/* What a job tells the parent, once per seed. */
typedef struct {
    uint64_t seed;
    scenario_result_t result;
} report_t;

/* A report is smaller than PIPE_BUF, so writes of several jobs do not mix. */
_Static_assert(sizeof(report_t) < 4096, "reports are written whole");

/* What a job and the parent share, by job. */
typedef struct {
    uint64_t seed; /* it runs now; 0 and done: it has ended in order */
    bool done;
    coverage_t coverage;
} slot_t;

typedef struct {
    const jobs_config_t *config;
    jobs_total_t *total;
    slot_t *slots;
    bool *stop; /* shared: somebody violated */
    struct timespec start;
    double shown_at;
} jobs_t;

static double seconds_since(const struct timespec *start)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - start->tv_sec) + (double)(now.tv_nsec - start->tv_nsec) * 1e-9;
}

static void *share(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED) {
        perror("lockstep sim: memory");
        exit(EXIT_FAILURE);
    }
    return memory;
}

/* ---- a job ----------------------------------------------------------------------------------- */

/* Of a job's process: a hook has no context. */
static struct {
    report_t report;
    int out;
} job;

static bool send_report(void)
{
    return write(job.out, &job.report, sizeof(job.report)) == (ssize_t)sizeof(job.report);
}

static void on_assert(const char *condition, const char *file, int line)
{
    check_hook_set(NULL);
    job.report.result.passed = false;
    snprintf(job.report.result.violation, sizeof(job.report.result.violation), "assert %s: %s:%d",
             condition, file, line);
    (void)send_report();
    _exit(0);
}

static _Noreturn void run_job(const jobs_t *self, uint32_t number, int out)
{
    const jobs_config_t *config = self->config;
    slot_t *slot = &self->slots[number];
    scenario_t scenario = {.topology = config->topology,
                           .plant = config->plant,
                           .coverage = config->coverage ? &slot->coverage : NULL};

    job.out = out;
    check_hook_set(on_assert);
    for (uint64_t seed = config->first + number; seed <= config->last && !*self->stop;
         seed += config->jobs) {
        memset(&job.report, 0, sizeof(job.report));
        job.report.seed = slot->seed = scenario.seed = seed;
        scenario_run(&scenario, &job.report.result);
        if (!send_report() || (!job.report.result.passed && !config->keep_going))
            break;
    }
    slot->done = true;
    _exit(0);
}

/* ---- the parent ------------------------------------------------------------------------------ */

static void add(jobs_t *self, const report_t *report)
{
    jobs_total_t *total = self->total;

    total->seeds++;
    total->requests += report->result.requests;
    total->faults += report->result.faults;
    total->events += report->result.events;
    total->virtual_us += report->result.virtual_us;
    if (report->result.passed)
        return;
    if (total->violations++ == 0 || report->seed < total->failed_seed) {
        total->failed_seed = report->seed;
        total->failed = report->result;
    }
    if (self->config->keep_going)
        fprintf(stderr, "VIOLATION seed %llu: %s\n", (unsigned long long)report->seed,
                report->result.violation);
    else
        *self->stop = true;
}

/* "12000 of 100000 seeds, 131 seeds/s, 11 min left" */
static void show(jobs_t *self)
{
    bool terminal = isatty(STDERR_FILENO);
    double seconds = seconds_since(&self->start);
    uint64_t all = self->config->last - self->config->first + 1;
    double rate = (double)self->total->seeds / (seconds > 0 ? seconds : 1);
    double left = rate > 0 ? (double)(all - self->total->seeds) / rate : 0;

    if (seconds - self->shown_at < (terminal ? LOOK_MS / 1000.0 : QUIET_SECONDS))
        return;
    self->shown_at = seconds;
    fprintf(stderr, "%s%llu of %llu seeds, %llu violations, %.0f seeds/s, %.0f %s left   %s",
            terminal ? "\r" : "", (unsigned long long)self->total->seeds, (unsigned long long)all,
            (unsigned long long)self->total->violations, rate, left < 120 ? left : left / 60,
            left < 120 ? "s" : "min", terminal ? "" : "\n");
}

static void collect(jobs_t *self, int in)
{
    struct pollfd ready = {.fd = in, .events = POLLIN};
    report_t report;
    ssize_t got;

    for (;;) {
        int count = poll(&ready, 1, LOOK_MS);

        show(self);
        if (count < 0 && errno != EINTR)
            break;
        if (count <= 0)
            continue;
        got = read(in, &report, sizeof(report));
        if (got != (ssize_t)sizeof(report))
            break;
        add(self, &report);
    }
    if (isatty(STDERR_FILENO) && self->shown_at > 0)
        fprintf(stderr, "\r%70s\r", "");
}

/* A job that did not end in order was killed while it ran its seed, unless it said why. */
static void judge_ends(jobs_t *self)
{
    for (uint32_t i = 0; i < self->config->jobs; i++) {
        report_t report = {.seed = self->slots[i].seed};

        if (self->slots[i].done || self->total->violations > 0)
            continue;
        snprintf(report.result.violation, sizeof(report.result.violation),
                 "crash: the run ended without a result");
        add(self, &report);
    }
}

static void add_coverage(jobs_t *self)
{
    self->total->coverage = calloc(1, sizeof(*self->total->coverage));
    ASSERT(self->total->coverage != NULL);
    for (uint32_t i = 0; i < self->config->jobs; i++)
        coverage_add(self->total->coverage, &self->slots[i].coverage);
}

void jobs_run(const jobs_config_t *config, jobs_total_t *total)
{
    jobs_t self = {.config = config, .total = total};
    size_t bytes = config->jobs * sizeof(*self.slots);
    int ends[2];

    memset(total, 0, sizeof(*total));
    self.slots = share(bytes);
    self.stop = share(sizeof(*self.stop));
    clock_gettime(CLOCK_MONOTONIC, &self.start);
    if (pipe(ends) != 0) {
        perror("lockstep sim: pipe");
        exit(EXIT_FAILURE);
    }
    fflush(NULL);
    for (uint32_t number = 0; number < config->jobs; number++)
        if (fork() == 0) {
            close(ends[0]);
            run_job(&self, number, ends[1]);
        }
    close(ends[1]);
    collect(&self, ends[0]);
    close(ends[0]);
    while (wait(NULL) > 0)
        ;
    judge_ends(&self);
    total->seconds = seconds_since(&self.start);
    if (config->coverage)
        add_coverage(&self);
    munmap(self.slots, bytes);
    munmap(self.stop, sizeof(*self.stop));
}

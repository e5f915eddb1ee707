#include "sim/isolated.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Of the process that runs: a hook has no context. */
static struct {
    isolated_after_t *after;
    void *context;
    int out; /* where the result goes */
} isolated;

static _Noreturn void leave(const scenario_result_t *result)
{
    bool sent;

    check_hook_set(NULL);
    if (isolated.after)
        isolated.after(isolated.context, result);
    fflush(NULL);
    sent = write(isolated.out, result, sizeof(*result)) == (ssize_t)sizeof(*result);
    _exit(sent ? 0 : 1);
}

static void on_assert(const char *condition, const char *file, int line)
{
    static scenario_result_t result;

    snprintf(result.violation, sizeof(result.violation), "assert %s: %s:%d", condition, file, line);
    leave(&result);
}

void isolated_run(const scenario_t *scenario, isolated_after_t *after, void *context,
               scenario_result_t *result)
{
    int ends[2];
    pid_t child;

    memset(result, 0, sizeof(*result));
    fflush(NULL);
    if (pipe(ends) != 0 || (child = fork()) < 0) {
        perror("lockstep sim");
        exit(EXIT_FAILURE);
    }
    if (child == 0) {
        close(ends[0]);
        isolated.after = after;
        isolated.context = context;
        isolated.out = ends[1];
        check_hook_set(on_assert);
        scenario_run(scenario, result);
        leave(result);
    }
    close(ends[1]);
    if (read(ends[0], result, sizeof(*result)) != (ssize_t)sizeof(*result))
        snprintf(result->violation, sizeof(result->violation),
                 "crash: the run ended without a result");
    close(ends[0]);
    (void)waitpid(child, NULL, 0);
}

/* inherited.c - see inherited.h. */
#include "cli/inherited.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OWNER_BITS = 0700, STACK_BYTES = 8 << 20 };

static int open_standard_streams(void)
{
    for (int descriptor = STDIN_FILENO; descriptor <= STDERR_FILENO; descriptor++) {
        if (fcntl(descriptor, F_GETFD) >= 0 || errno != EBADF)
            continue;
        /* the lowest free number: this one, since those below are open */
        if (open("/dev/null", descriptor == STDIN_FILENO ? O_RDONLY : O_WRONLY) != descriptor)
            return -1;
    }
    return 0;
}

static bool may_stay_ignored(int number)
{
    return number == SIGHUP || number == SIGINT || number == SIGQUIT || number == SIGTSTP ||
           number == SIGTTIN || number == SIGTTOU;
}

static void reset_signals(void)
{
    sigset_t none;

    for (int number = 1; number < NSIG; number++) {
        struct sigaction action;

        if (sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN &&
            !may_stay_ignored(number))
            signal(number, SIG_DFL);
    }
    signal(SIGXFSZ, SIG_IGN);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static bool stack_is_small(void)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur < STACK_BYTES;
}

/* Also for the threads that libraries start. */
static void enlarge_thread_stacks(void)
{
    pthread_attr_t attributes;
    size_t bytes;

    if (pthread_getattr_default_np(&attributes) != 0)
        return;
    if (pthread_attr_getstacksize(&attributes, &bytes) == 0 && bytes < STACK_BYTES &&
        pthread_attr_setstacksize(&attributes, STACK_BYTES) == 0)
        (void)pthread_setattr_default_np(&attributes);
    pthread_attr_destroy(&attributes);
}

int inherited_mend(void)
{
    if (open_standard_streams() != 0)
        return -1;
    reset_signals();
    umask(umask(0) & ~(mode_t)OWNER_BITS);
    enlarge_thread_stacks();
    return 0;
}

typedef struct {
    inherited_main_t *run;
    int argc;
    char **argv;
    sigset_t signals; /* blocked in the caller, for this thread to get */
    int code;
} call_t;

static void *call(void *argument)
{
    call_t *it = argument;

    pthread_sigmask(SIG_SETMASK, &it->signals, NULL);
    it->code = it->run(it->argc, it->argv);
    return NULL;
}

/* The thread that runs gets the signals, as the only one would: who waits in a system call is to be
 * interrupted. */
int inherited_run(inherited_main_t *run, int argc, char **argv)
{
    call_t it = {.run = run, .argc = argc, .argv = argv};
    pthread_t thread;
    sigset_t all;

    if (!stack_is_small())
        return run(argc, argv);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &it.signals);
    if (pthread_create(&thread, NULL, call, &it) != 0) {
        pthread_sigmask(SIG_SETMASK, &it.signals, NULL);
        return run(argc, argv);
    }
    pthread_join(thread, NULL);
    return it.code;
}

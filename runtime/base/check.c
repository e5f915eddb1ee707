#include "runtime/base/check.h"

#include <stdio.h>
#include <stdlib.h>

static void print_and_abort(const char *condition, const char *file, int line)
{
    fprintf(stderr, "ASSERT %s:%d: %s\n", file, line, condition);
    abort();
}

static check_hook_t *current_hook = print_and_abort;

check_hook_t *check_hook_set(check_hook_t *hook)
{
    check_hook_t *before = current_hook;

    current_hook = hook ? hook : print_and_abort;
    return before;
}

void check_failed(const char *condition, const char *file, int line)
{
    current_hook(condition, file, line);
    print_and_abort(condition, file, line); /* a hook that returned broke its contract */
    abort();
}

/* assertion.h - expects a failed ASSERT: EXPECT_ASSERTION(pool_release(pool, unit, 3)). */
#ifndef TESTS_CACHE_ASSERTION_H
#define TESTS_CACHE_ASSERTION_H

#include <setjmp.h>

#include "runtime/base/check.h"

extern jmp_buf assertion_jump;
void assertion_catch(const char *condition, const char *file, int line);

#define EXPECT_ASSERTION(call)                                                                     \
    do {                                                                                           \
        check_hook_t *hook_before_ = check_hook_set(assertion_catch);                              \
        volatile bool caught_ = true;                                                              \
        if (setjmp(assertion_jump) == 0) {                                                         \
            (void)(call);                                                                          \
            caught_ = false;                                                                       \
        }                                                                                          \
        check_hook_set(hook_before_);                                                              \
        if (!caught_)                                                                              \
            fail_msg("%s was not caught", #call);                                                  \
    } while (0)

#endif

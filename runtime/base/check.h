/* check.h - assertions that stay on in every build.
 *
 * ASSERT is for programmer errors only; bytes from outside are refused with FAIL (status.h). A failed
 * assertion calls the hook, which by default prints and aborts; tests install a hook that longjmps.
 */
#ifndef RUNTIME_BASE_CHECK_H
#define RUNTIME_BASE_CHECK_H

/* Called with the failed condition; must not return. */
typedef void check_hook_t(const char *condition, const char *file, int line);

/* Installs a hook and returns the one before it; NULL restores the default. Not thread safe. */
check_hook_t *check_hook_set(check_hook_t *hook);

_Noreturn void check_failed(const char *condition, const char *file, int line);

#define ASSERT(condition) ((condition) ? (void)0 : check_failed(#condition, __FILE__, __LINE__))
/* A place that no value of the types before it leads to; `reason` (a literal) says which one holds. */
#define UNREACHABLE(reason) check_failed("unreachable: " reason, __FILE__, __LINE__)

#define MUST_USE __attribute__((warn_unused_result))
#define PRINTF_LIKE(text, first) __attribute__((format(printf, text, first)))
#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define BIT(n) (1u << (n))

#endif

/* futex.c - see futex.h: sleeping on a word, and waking who sleeps there. */
#include "device/futex.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

void futex_wait(atomic_uint *word, unsigned value, bool shared)
{
    syscall(SYS_futex, word, shared ? FUTEX_WAIT : FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

void futex_wake(atomic_uint *word, bool shared)
{
    syscall(SYS_futex, word, shared ? FUTEX_WAKE : FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

void futex_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

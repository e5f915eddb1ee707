/* futex.h - threads and processes sleep on a word until it changes.
 *
 * Who returns looks at the word again: waking is a hint, the word decides, and no time is involved.
 */
#ifndef DEVICE_FUTEX_H
#define DEVICE_FUTEX_H

#include <stdatomic.h>
#include <stdbool.h>

/* Sleeps while the word is `value`; may return for no reason. `shared`: with other processes. */
void futex_wait(atomic_uint *word, unsigned value, bool shared);
/* Wakes all that sleep on it; change it first. */
void futex_wake(atomic_uint *word, bool shared);
/* Between two looks at a word, without sleeping. */
void futex_relax(void);

#endif

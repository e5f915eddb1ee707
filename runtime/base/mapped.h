/* mapped.h - memory of a file that somebody else may cut short while it is mapped.
 *
 * Touching a page that the file no longer has is a SIGBUS. In guarded memory it puts anonymous memory in
 * the place of the whole mapping instead: what was there reads as zeros, writing goes nowhere, and
 * mapped_is_lost says so from then on. Any thread; at most MAPPED_GUARDS_MAX at a time in a process.
 */
#ifndef RUNTIME_BASE_MAPPED_H
#define RUNTIME_BASE_MAPPED_H

#include <stdbool.h>
#include <stddef.h>

enum { MAPPED_GUARDS_MAX = 1024 };

/* `bytes` is the start of a mapping of `size`. Returns the guard's number, or -1 if there are too many:
 * the memory is then as any other. */
int mapped_guard(void *bytes, size_t size);
/* Before the memory is unmapped. Nothing for -1. */
void mapped_release(int guard);
bool mapped_is_lost(int guard);

#endif

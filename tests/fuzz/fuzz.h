/* fuzz.h - hostile variants of good input: the same for the same seed, so a failure can be had again.
 *
 * A target is fed each variant once. It must survive (the debug build watches), and checks by itself
 * what must hold after OK and after a refusal. LOCKSTEP_LONG=1 feeds twenty times as many.
 */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* `bytes` has exactly `size` bytes and is the target's to read only. */
typedef void fuzz_target_t(void *context, const char *bytes, size_t size);

/* Feeds the seed itself and then `rounds` variants of it. With LOCKSTEP_FUZZ_TRACE set it says which one it
 * feeds, so that the last one named is the one that failed. */
void fuzz_run(const char *name, const char *seed, size_t seed_bytes, uint32_t rounds,
              fuzz_target_t *target, void *context);
/* The content of a file below the source root, with a NUL behind it; fails the test if it cannot be
 * read. Caller frees. */
char *fuzz_read(const char *path, size_t *bytes);

#endif

/* libFuzzer on crowd.h: it grows the scripts that reach new code. LOCKSTEP_FUZZ_TRACE=1 prints what a script does,
 * to look at one that it found: `fuzz_crowd FILE`. */
#include <stdlib.h>

#include "tests/fuzz/crowd.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    crowd_run(bytes, size, getenv("LOCKSTEP_FUZZ_TRACE") ? stderr : NULL);
    return 0;
}

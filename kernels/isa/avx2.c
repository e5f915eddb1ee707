/* avx2.c - all operators with AVX2, FMA and F16C; CMakeLists.txt sets the flags of this file alone.
 */
#define LANES_AVX2
#include "kernels/isa/operators_cpu.h"

const operators_t operators_avx2 = OPERATORS_CPU;

/* avx512.c - all operators with AVX-512 F, BW, DQ and VL; CMakeLists.txt sets the flags of this
 * file alone. */
#define LANES_AVX512
#include "kernels/isa/operators_cpu.h"

const operators_t operators_avx512 = OPERATORS_CPU;

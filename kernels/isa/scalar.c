/* scalar.c - all operators for any machine; sixteen lanes are an array. */
#define LANES_PORTABLE
#include "kernels/isa/operators_cpu.h"

const operators_t operators_scalar = OPERATORS_CPU;

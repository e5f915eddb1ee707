/* isa_tables.h - the operator tables of all instruction sets. For operators.c only. */
#ifndef KERNELS_ISA_ISA_TABLES_H
#define KERNELS_ISA_ISA_TABLES_H

#include "kernels/operators.h"

extern const operators_t operators_scalar;
extern const operators_t operators_avx2;
extern const operators_t operators_avx512;

#endif

/* operators_cpu.h - all CPU forms and their table; the including file has chosen the instruction
 * set. */
#ifndef KERNELS_ISA_OPERATORS_CPU_H
#define KERNELS_ISA_OPERATORS_CPU_H

#include "kernels/attention/attend_cpu.h"
#include "kernels/compressor/compressor_cpu.h"
#include "kernels/gemm/gemm_cpu.h"
#include "kernels/hyper/hyper_cpu.h"
#include "kernels/indexer/select_cpu.h"
#include "kernels/isa/isa_tables.h"
#include "kernels/moe/moe_cpu.h"
#include "kernels/norm/rmsnorm_cpu.h"
#include "kernels/ring/ring_cpu.h"
#include "kernels/rope/rope_cpu.h"
#include "kernels/rows/rows_cpu.h"
#include "kernels/sample/sample_cpu.h"

#define OPERATORS_CPU_ROW(name, parameters) .name = name##_cpu,
#define OPERATORS_CPU                                                                              \
    {                                                                                              \
        OPERATOR_TABLE(OPERATORS_CPU_ROW)                                                          \
    }

#endif

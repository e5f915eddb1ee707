/* operators.h - the table of operators, one per instruction set; the reference forms are a table
 * too.
 *
 * A step of the model is a fixed list of these, each over all rows, items or experts at once: what
 * a backend launches one behind another. On a CPU, a caller gives each thread a share.
 *
 * Every table computes the same bits (tests/kernels/test_operators.c). Which one runs is decided at
 * run time, from the machine (kernels/isa.h): a build never depends on where it was built.
 * Operators do not allocate, block or keep state.
 */
#ifndef KERNELS_OPERATORS_H
#define KERNELS_OPERATORS_H

#include "kernels/attention/attend.h"
#include "kernels/compressor/compressor.h"
#include "kernels/gemm/gemm.h"
#include "kernels/hyper/hyper.h"
#include "kernels/indexer/select.h"
#include "kernels/isa.h"
#include "kernels/moe/moe.h"
#include "kernels/norm/rmsnorm.h"
#include "kernels/ring/ring.h"
#include "kernels/rope/rope.h"
#include "kernels/rows/rows.h"
#include "kernels/sample/sample.h"

/*    name              parameters */
#define OPERATOR_TABLE(O)                                                                          \
    O(gemm, gemm_t)                                                                                \
    O(gemm_groups, gemm_groups_t)                                                                  \
    O(rows_gather, rows_gather_t)                                                                  \
    O(rows_embed, rows_embed_t)                                                                    \
    O(rows_store, rows_store_t)                                                                    \
    O(rows_round, rows_round_t)                                                                    \
    O(rows_scale, rows_scale_t)                                                                    \
    O(ring_keep, ring_keep_t)                                                                      \
    O(rmsnorm, rmsnorm_t)                                                                          \
    O(rope, rope_t)                                                                                \
    O(hyper_mix, hyper_mix_t)                                                                      \
    O(hyper_read, hyper_read_t)                                                                    \
    O(hyper_write, hyper_write_t)                                                                  \
    O(compressor_bias, compressor_bias_t)                                                          \
    O(compressor_fold, compressor_fold_t)                                                          \
    O(compressor_overlap, compressor_overlap_t)                                                    \
    O(index_select, index_select_t)                                                                \
    O(attend, attend_t)                                                                            \
    O(moe_route, moe_route_t)                                                                      \
    O(moe_sort, moe_sort_t)                                                                        \
    O(swiglu, swiglu_t)                                                                            \
    O(moe_combine, moe_combine_t)                                                                  \
    O(sample, sample_t)

typedef struct {
#define OPERATOR_FIELD(name, parameters) void (*name)(const parameters *p);
    OPERATOR_TABLE(OPERATOR_FIELD)
#undef OPERATOR_FIELD
} operators_t;

/* The meaning: plain loops. */
extern const operators_t operators_ref;
/* The table of a level; asserts that the machine has it. */
const operators_t *operators_at(isa_t isa);
/* The best that this machine has, within isa_cap_set. */
const operators_t *operators(void);

#endif

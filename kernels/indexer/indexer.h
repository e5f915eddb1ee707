/* indexer.h - which compressed entries a query may read: scores over index heads, then the k best.
 *
 *   score[j] = sum over heads, ascending, of weight[h] * max(0, q[h] . key[j]) (fma, at last + 0)
 * The products q . key are a gemm (dots). Choosing is by a total order: score down, then entry up;
 * -0 and +0 are one score.
 */
#ifndef KERNELS_INDEXER_INDEXER_H
#define KERNELS_INDEXER_INDEXER_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint32_t queries;
    uint32_t heads;
    uint32_t entries;
    size_t dots_stride;   /* from one head's row to the next */
    size_t scores_stride; /* from one query to the next */
    const float *weights; /* [queries, heads] */
    const float *dots;    /* [queries, heads, entries] */
    float *scores;        /* [queries, entries] */
} indexer_score_t;

/* An entry in the total order: larger is better, no two are equal. */
typedef uint64_t indexer_rank_t;

void indexer_score_ref(const indexer_score_t *p);

indexer_rank_t indexer_rank(float score, uint32_t entry);
uint32_t indexer_rank_entry(indexer_rank_t rank);
float indexer_rank_score(indexer_rank_t rank);
/* Moves the `keep` best of `count` to the front, in no order; ranks is reordered. keep <= count. */
void indexer_best(indexer_rank_t *ranks, uint32_t count, uint32_t keep);
/* Entries of ranks, ascending. */
void indexer_entries(const indexer_rank_t *ranks, uint32_t count, uint32_t *entries);

#endif

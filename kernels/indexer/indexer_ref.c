#include "kernels/indexer/indexer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void indexer_score_ref(const indexer_score_t *p)
{
    for (uint32_t m = 0; m < p->queries; m++) {
        for (uint32_t j = 0; j < p->entries; j++) {
            float score = 0.0f;
            for (uint32_t h = 0; h < p->heads; h++) {
                float dot = p->dots[((size_t)m * p->heads + h) * p->dots_stride + j];
                score = fmaf(p->weights[m * p->heads + h], dot > 0.0f ? dot : 0.0f, score);
            }
            p->scores[m * p->scores_stride + j] = score + 0.0f;
        }
    }
}

/* Floats as integers that sort alike: negative ones are turned over. */
indexer_rank_t indexer_rank(float score, uint32_t entry)
{
    uint32_t bits;

    score = score + 0.0f; /* -0 and +0 are one score */
    memcpy(&bits, &score, sizeof(bits));
    bits = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    return (uint64_t)bits << 32 | ~entry;
}

uint32_t indexer_rank_entry(indexer_rank_t rank)
{
    return ~(uint32_t)rank;
}

float indexer_rank_score(indexer_rank_t rank)
{
    uint32_t bits = (uint32_t)(rank >> 32);
    float score;

    bits = bits & 0x80000000u ? bits & 0x7fffffffu : ~bits;
    memcpy(&score, &bits, sizeof(score));
    return score;
}

/* Quickselect; ranks differ pairwise, so the chosen set does not depend on the pivots. */
void indexer_best(indexer_rank_t *ranks, uint32_t count, uint32_t keep)
{
    uint32_t first = 0, end = count;

    while (keep > first && keep < end) {
        indexer_rank_t pivot = ranks[first + (end - first - 1) / 2];
        uint32_t i = first, j = end - 1;
        for (;;) {
            while (ranks[i] > pivot)
                i++;
            while (ranks[j] < pivot)
                j--;
            if (i >= j)
                break;
            indexer_rank_t swap = ranks[i];
            ranks[i++] = ranks[j];
            ranks[j--] = swap;
        }
        /* [first, j] >= pivot >= [j + 1, end) */
        if (keep <= j + 1)
            end = j + 1;
        else
            first = j + 1;
    }
}

static int compare_entries(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

void indexer_entries(const indexer_rank_t *ranks, uint32_t count, uint32_t *entries)
{
    for (uint32_t i = 0; i < count; i++)
        entries[i] = indexer_rank_entry(ranks[i]);
    qsort(entries, count, sizeof(entries[0]), compare_entries);
}

#include "kernels/indexer/indexer.h"

#include <math.h>
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

/* Moves the root down to its place in a heap with the largest on top. */
static void sift(uint32_t *heap, uint32_t root, uint32_t count)
{
    uint32_t value = heap[root], child;

    for (; (child = 2 * root + 1) < count; root = child) {
        if (child + 1 < count && heap[child + 1] > heap[child])
            child++;
        if (heap[child] <= value)
            break;
        heap[root] = heap[child];
    }
    heap[root] = value;
}

/* Not qsort, which asks the machine for its memory before it chooses a way. */
void indexer_entries(const indexer_rank_t *ranks, uint32_t count, uint32_t *entries)
{
    for (uint32_t i = 0; i < count; i++)
        entries[i] = indexer_rank_entry(ranks[i]);
    for (uint32_t root = count / 2; root-- > 0;)
        sift(entries, root, count);
    for (uint32_t end = count; end-- > 1;) {
        uint32_t largest = entries[0];
        entries[0] = entries[end];
        entries[end] = largest;
        sift(entries, 0, end);
    }
}

/* metrics.h - what a gateway counts, in the form that Prometheus reads. */
#ifndef ACTORS_GATEWAY_METRICS_H
#define ACTORS_GATEWAY_METRICS_H

#include "actors/gateway/availability.h"
#include "messages/message.h"
#include "model/text_buffer.h"

enum { METRICS_BUCKETS = 16 };

typedef struct {
    uint64_t counts[METRICS_BUCKETS + 1]; /* not cumulative; the last one is +Inf */
    double sum;
} metrics_histogram_t;

typedef struct {
    uint64_t requests[END_REASON_COUNT]; /* by how they ended */
    uint64_t refused;                    /* with 4xx before they became a request */
    uint64_t prompt_tokens;
    uint64_t cached_tokens;
    uint64_t completion_tokens;
    uint64_t suppressed; /* answers with markup that was not shown (bug report C22) */
    uint64_t nonstandard; /* answers with tags that were read though they had ASCII bars */
    uint32_t open;       /* requests now */
    metrics_histogram_t first_token;
    metrics_histogram_t next_token;
    metrics_histogram_t whole;
} metrics_t;

void metrics_observe(metrics_histogram_t *histogram, double seconds);
void metrics_put(const metrics_t *metrics, bool ready, const topology_t *topology,
                 const availability_t *availability, text_buffer_t *out);

#endif

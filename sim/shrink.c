/* shrink.c - greedy: one change after another, each kept if the story still violates, until a whole
 * round keeps none. Requests go by halves first, then one by one, since most are no part of it. */
#include "sim/shrink.h"

#include <string.h>

#include "sim/isolated.h"

/* ---- trying ---------------------------------------------------------------------------------- */

typedef struct {
    const scenario_t *scenario;
    story_t *story; /* the smallest so far */
    scenario_result_t *result;
    story_t candidate;
    shrink_counts_t counts;
    uint32_t runs_max;
} shrink_t;

static size_t word_bytes(const char *violation)
{
    return strcspn(violation, ":");
}

static bool is_the_same(const char *a, const char *b)
{
    return word_bytes(a) == word_bytes(b) && strncmp(a, b, word_bytes(a)) == 0;
}

/* Keeps the candidate if it violates in the same way. */
static bool try_candidate(shrink_t *self)
{
    scenario_t scenario = *self->scenario;
    scenario_result_t result;

    if (self->counts.runs == self->runs_max ||
        memcmp(&self->candidate, self->story, sizeof(self->candidate)) == 0)
        return false;
    self->counts.runs++;
    scenario.story = &self->candidate;
    isolated_run(&scenario, NULL, NULL, &result);
    if (result.passed || !is_the_same(result.violation, self->result->violation))
        return false;
    *self->story = self->candidate;
    *self->result = result;
    self->counts.kept++;
    return true;
}

/* ---- requests -------------------------------------------------------------------------------- */

/* Takes requests out by runs of `size`. */
static bool drop_requests(shrink_t *self, uint32_t size)
{
    bool kept = false;

    for (uint32_t first = 0; first < self->story->request_count; first += size) {
        bool any = false;

        self->candidate = *self->story;
        for (uint32_t i = first; i < first + size && i < self->candidate.request_count; i++) {
            any = any || self->candidate.requests[i].output_tokens_max > 0;
            self->candidate.requests[i] = (story_request_t){0};
        }
        if (any && story_requests(&self->candidate) > 0)
            kept = try_candidate(self) || kept;
    }
    return kept;
}

static bool drop_all_requests(shrink_t *self)
{
    bool kept = false;

    for (uint32_t size = self->story->request_count; size > 0; size /= 2)
        kept = drop_requests(self, size) || kept;
    return kept;
}

/* ---- faults ---------------------------------------------------------------------------------- */

/* What struck behind it strikes at its time, and a while later. */
static void take_fault_out(story_t *story, uint32_t index)
{
    story_fault_t *fault = &story->faults[index];

    if (index + 1 < story->fault_count && fault[1].when == WHEN_behind) {
        fault[1].when = fault->when;
        fault[1].phase = fault->phase;
        fault[1].after_us += fault->after_us;
        if (fault->when == WHEN_phase && fault[1].kind != FAULT_abort)
            fault[1].request = fault->request;
    }
    memmove(fault, fault + 1, (story->fault_count - index - 1) * sizeof(*fault));
    memset(&story->faults[--story->fault_count], 0, sizeof(*fault));
}

static bool drop_faults(shrink_t *self)
{
    bool kept = false;

    for (uint32_t i = self->story->fault_count; i-- > 0;) {
        self->candidate = *self->story;
        take_fault_out(&self->candidate, i);
        kept = try_candidate(self) || kept;
    }
    return kept;
}

/* ---- values ---------------------------------------------------------------------------------- */

/* To 0, else to `least`, else half the way there. */
static bool lower_u32(shrink_t *self, uint32_t *value, uint32_t least)
{
    uint32_t *there =
        (uint32_t *)(void *)((char *)&self->candidate + ((char *)value - (char *)self->story));
    bool kept = false;

    for (uint32_t at = *value; at > least; at = *value) {
        self->candidate = *self->story;
        *there = least;
        if (try_candidate(self))
            return true;
        self->candidate = *self->story;
        *there = least + (at - least) / 2;
        if (*there == least || !try_candidate(self))
            return kept;
        kept = true;
    }
    return kept;
}

static bool lower_u64(shrink_t *self, uint64_t *value, uint64_t least)
{
    uint64_t *there =
        (uint64_t *)(void *)((char *)&self->candidate + ((char *)value - (char *)self->story));

    if (*value <= least)
        return false;
    self->candidate = *self->story;
    *there = least;
    if (try_candidate(self))
        return true;
    self->candidate = *self->story;
    *there = least + (*value - least) / 2;
    return *there > least && try_candidate(self);
}

static bool simplify_requests(shrink_t *self)
{
    bool kept = false;

    for (uint32_t i = 0; i < self->story->request_count; i++) {
        story_request_t *request = &self->story->requests[i];

        if (request->output_tokens_max == 0)
            continue;
        kept = lower_u32(self, &request->output_tokens_max, 1) || kept;
        kept = lower_u32(self, &request->shared_tokens, 0) || kept;
        kept = lower_u32(self, &request->prompt_tokens, 1) || kept;
        kept = lower_u32(self, &request->beginning, 0) || kept;
        kept = lower_u32(self, &request->warm, 0) || kept;
        kept = lower_u32(self, &request->deadline_ms, 0) || kept;
        kept = lower_u64(self, &request->arrives_us, 0) || kept;
    }
    return kept;
}

static bool simplify_faults(shrink_t *self)
{
    bool kept = false;

    for (uint32_t i = 0; i < self->story->fault_count; i++) {
        kept = lower_u64(self, &self->story->faults[i].us, 1) || kept;
        kept = lower_u64(self, &self->story->faults[i].after_us, 0) || kept;
    }
    return kept;
}

static bool lift_bounds(shrink_t *self)
{
    uint32_t *const bounds[] = {&self->story->pages,        &self->story->slots,
                                &self->story->streams,      &self->story->chunk_tokens,
                                &self->story->border_every, &self->story->credit,
                                &self->story->poisoned};
    bool kept = false;

    for (uint32_t i = 0; i < COUNT_OF(bounds); i++)
        kept = lower_u32(self, bounds[i], 0) || kept;
    return kept;
}

/* ---- actors ---------------------------------------------------------------------------------- */

static bool keep_fewer(shrink_t *self, uint32_t *count, uint32_t now)
{
    uint32_t *there =
        (uint32_t *)(void *)((char *)&self->candidate + ((char *)count - (char *)self->story));

    for (uint32_t wanted = 1; wanted < now; wanted *= 2) {
        self->candidate = *self->story;
        *there = wanted;
        if (try_candidate(self))
            return true;
    }
    return false;
}

static bool drop_actors(shrink_t *self)
{
    static topology_t topology;
    bool kept = false;

    if (!story_topology(self->story, self->scenario->topology, &topology))
        return false;
    kept = keep_fewer(self, &self->story->gateways, topology.gateway_count) || kept;
    kept = keep_fewer(self, &self->story->transfers, topology.transfer_count) || kept;
    kept = keep_fewer(self, &self->story->prefills, topology.prefill_count) || kept;
    kept = keep_fewer(self, &self->story->decodes, topology.decode_count) || kept;
    return keep_fewer(self, &self->story->tp, topology.prefills[0].tp) || kept;
}

shrink_counts_t shrink(const scenario_t *scenario, story_t *story, scenario_result_t *result,
                       uint32_t runs_max)
{
    static bool (*const ways[])(shrink_t *) = {drop_all_requests, drop_faults,     drop_actors,
                                               simplify_requests, simplify_faults, lift_bounds};
    static shrink_t self;
    bool kept = true;

    self = (shrink_t){.scenario = scenario, .story = story, .result = result, .runs_max = runs_max};
    while (kept) {
        kept = false;
        for (uint32_t i = 0; i < COUNT_OF(ways); i++)
            kept = ways[i](&self) || kept;
    }
    return self.counts;
}

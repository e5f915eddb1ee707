/* harness.h - golden models and cases: found, opened, run on a group, compared. For the tests of
 * this folder. */
#ifndef TESTS_GOLDEN_HARNESS_H
#define TESTS_GOLDEN_HARNESS_H

#include <jansson.h>
#include <stdbool.h>

#include "model/group.h"

enum {
    HARNESS_PATH_MAX = 1024,
    HARNESS_MODELS_MAX = 64,
    HARNESS_TOKENS_MAX = 4096,
    HARNESS_MODES = 4,
    HARNESS_SKIPPED = 77 /* exit code, for ctest */
};

/* A folder with config.json below numbers/; its cases may be its parent's. */
typedef struct {
    char folder[HARNESS_PATH_MAX];
    char cases_folder[HARNESS_PATH_MAX];
    char name[64];
} harness_place_t;

typedef struct {
    harness_place_t place;
    model_config_t config;
    weights_t weights;
    json_t *cases;
    safetensors_t numbers;
    uint32_t longest; /* tokens of the longest prompt */
} harness_model_t;

/* One case in one mode. */
typedef struct {
    const char *name, *mode;
    uint32_t count;
    uint32_t tokens[HARNESS_TOKENS_MAX];
    uint32_t first_logit; /* row of the first stored logits; the rest follows */
    const float *logits;  /* [count - first_logit, vocabulary] */
    const float *draft_logits;
    uint32_t draft_rows; /* of draft_logits: the last ones */
    json_t *facts;       /* modes.MODE */
    json_t *traces;      /* traces.MODE or NULL */
} harness_case_t;

extern const char *const harness_modes[HARNESS_MODES];
/* The golden folder: LOCKSTEP_GOLDEN, else tests/golden. */
const char *harness_root(void);
uint32_t harness_places(harness_place_t places[HARNESS_MODELS_MAX]);
void harness_open(harness_model_t *model, const harness_place_t *place);
void harness_close(harness_model_t *model);
size_t harness_case_count(const harness_model_t *model);
/* False if case `index` has no such mode. */
bool harness_case(const harness_model_t *model, size_t index, const char *mode, harness_case_t *c);
/* A group for a golden mode ("f64" is float32 here). */
group_t *harness_group(const harness_model_t *model, const char *mode, uint32_t world,
                       uint32_t threads, uint32_t slots, const forward_trace_t *trace);
/* Largest size of a group that divides, up to 8: sizes[0] = 1. Returns how many. */
uint32_t harness_worlds(const harness_model_t *model, uint32_t sizes[8]);

/* Tokens [from, to) of a slot in chunks; logits of rows >= first_logit, streams of all rows (or
 * NULL). */
void harness_run(group_t *group, const harness_model_t *model, uint32_t slot,
                 const uint32_t *tokens, uint32_t from, uint32_t to, uint32_t chunk,
                 uint32_t first_logit, float *logits, float *streams);
uint32_t harness_best(const float *logits, uint32_t vocabulary);
/* What the README asks for. */
float harness_tolerance(const harness_model_t *model, const harness_case_t *c);

#endif

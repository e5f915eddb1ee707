#include "tests/golden/harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <dirent.h>
#include <unistd.h>

const char *const harness_modes[HARNESS_MODES] = {"f64", "bf16", "fp8", "fp8i8"};

const char *harness_root(void)
{
    const char *root = getenv("LOCKSTEP_GOLDEN");
    return root ? root : "tests/golden";
}

static void must(status_t status)
{
    if (status != STATUS_OK)
        fail_msg("%s: %s", status_name(status), trail_text());
}

static bool exists(const char *folder, const char *name)
{
    char path[HARNESS_PATH_MAX + 32];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return access(path, R_OK) == 0;
}

/* Adds `folder` if it holds a model, then what lies below it, in order of names. */
static uint32_t find_places(const char *folder, const char *parent, const char *name,
                            uint32_t depth, harness_place_t *places, uint32_t count)
{
    struct dirent **entries;
    int found;

    if (exists(folder, "config.json")) {
        harness_place_t *place = &places[count];
        assert_true(count < HARNESS_MODELS_MAX);
        snprintf(place->folder, sizeof(place->folder), "%s", folder);
        snprintf(place->cases_folder, sizeof(place->cases_folder), "%s",
                 exists(folder, "cases.json") ? folder : parent);
        snprintf(place->name, sizeof(place->name), "%s", name);
        count++;
    }
    if (depth == 0 || (found = scandir(folder, &entries, NULL, alphasort)) < 0)
        return count;
    for (int i = 0; i < found; i++) {
        char below[HARNESS_PATH_MAX], below_name[64];
        if (entries[i]->d_name[0] != '.' &&
            snprintf(below, sizeof(below), "%s/%s", folder, entries[i]->d_name) <
                (int)sizeof(below)) {
            snprintf(below_name, sizeof(below_name), "%.30s%s%.30s", name, *name ? "/" : "",
                     entries[i]->d_name);
            count = find_places(below, folder, below_name, depth - 1, places, count);
        }
        free(entries[i]);
    }
    free(entries);
    return count;
}

uint32_t harness_places(harness_place_t places[HARNESS_MODELS_MAX])
{
    char folder[HARNESS_PATH_MAX];
    snprintf(folder, sizeof(folder), "%s/numbers", harness_root());
    return find_places(folder, folder, "", 2, places, 0);
}

void harness_open(harness_model_t *model, const harness_place_t *place)
{
    char path[HARNESS_PATH_MAX + 32];
    json_error_t error;

    memset(model, 0, sizeof(*model));
    model->place = *place;
    must(model_config_load(place->folder, &model->config));
    must(weights_open(&model->weights, place->folder, &model->config));
    snprintf(path, sizeof(path), "%s/cases.json", place->cases_folder);
    model->cases = json_load_file(path, 0, &error);
    assert_non_null(model->cases);
    snprintf(path, sizeof(path), "%s/cases.safetensors", place->cases_folder);
    must(safetensors_open_file(&model->numbers, path));
    for (size_t i = 0; i < harness_case_count(model); i++) {
        json_t *object = json_array_get(json_object_get(model->cases, "cases"), i);
        size_t count = json_array_size(json_object_get(object, "tokens"));
        model->longest = count > model->longest ? (uint32_t)count : model->longest;
    }
    assert_in_range(model->longest, 1, HARNESS_TOKENS_MAX);
}

void harness_close(harness_model_t *model)
{
    safetensors_close(&model->numbers);
    json_decref(model->cases);
    weights_close(&model->weights);
}

size_t harness_case_count(const harness_model_t *model)
{
    return json_array_size(json_object_get(model->cases, "cases"));
}

static const float *find_floats(const harness_model_t *model, const harness_case_t *c,
                                const char *what, uint32_t *rows)
{
    char name[128];
    snprintf(name, sizeof(name), "%s/%s/%s", c->name, c->mode, what);
    const tensor_view_t *tensor = safetensors_find(&model->numbers, name);
    if (!tensor)
        return NULL;
    assert_int_equal(tensor->dtype, TENSOR_F32);
    assert_int_equal(tensor->shape[1], model->config.vocabulary);
    *rows = (uint32_t)tensor->shape[0];
    return (const float *)(const void *)tensor->data;
}

bool harness_case(const harness_model_t *model, size_t index, const char *mode, harness_case_t *c)
{
    json_t *object = json_array_get(json_object_get(model->cases, "cases"), index);
    json_t *tokens = json_object_get(object, "tokens"),
           *positions = json_object_get(object, "logit_positions");
    uint32_t rows = 0;

    *c = (harness_case_t){.name = json_string_value(json_object_get(object, "name")), .mode = mode};
    c->facts = json_object_get(json_object_get(object, "modes"), mode);
    c->traces = json_object_get(json_object_get(object, "traces"), mode);
    if (!c->facts)
        return false;
    c->count = (uint32_t)json_array_size(tokens);
    assert_in_range(c->count, 1, HARNESS_TOKENS_MAX);
    for (uint32_t i = 0; i < c->count; i++)
        c->tokens[i] = (uint32_t)json_integer_value(json_array_get(tokens, i));
    c->first_logit = (uint32_t)json_integer_value(json_array_get(positions, 0));
    c->logits = find_floats(model, c, "logits", &rows);
    assert_non_null(c->logits);
    assert_int_equal(rows, c->count - c->first_logit);
    c->draft_logits = find_floats(model, c, "mtp_logits", &c->draft_rows);
    return true;
}

group_t *harness_group(const harness_model_t *model, const char *mode, uint32_t world,
                       uint32_t threads, uint32_t slots, const forward_trace_t *trace)
{
    group_options_t options = {.world = world,
                               .threads = threads,
                               .slots = slots,
                               .borders = 4,
                               .rows_max = model->longest + 64,
                               .logits_max = 64,
                               .positions_max = model->longest + 64,
                               .drafts = model->weights.mtp_count > 0,
                               .trace = trace};
    group_t *group;

    if (!forward_form_parse(strcmp(mode, "f64") == 0 ? "float32" : mode, &options.cache_form,
                            &options.index_form))
        fail_msg("no cache form for mode %s", mode);
    must(group_open(&model->config, &model->weights, &options, &group));
    return group;
}

uint32_t harness_worlds(const harness_model_t *model, uint32_t sizes[8])
{
    uint32_t count = 0;
    for (uint32_t world = 1; world <= 8; world++)
        if (forward_world_check(&model->config, world) == STATUS_OK)
            sizes[count++] = world;
    return count;
}

void harness_run(group_t *group, const harness_model_t *model, uint32_t slot,
                 const uint32_t *tokens, uint32_t from, uint32_t to, uint32_t chunk,
                 uint32_t first_logit, float *logits, float *streams)
{
    for (uint32_t at = from; at < to;) {
        uint32_t count = to - at < chunk ? to - at : chunk, end = at + count;
        uint32_t wanted = end > first_logit ? end - (at > first_logit ? at : first_logit) : 0;
        forward_item_t item = {.slot = slot,
                               .position = at,
                               .count = count,
                               .tokens = tokens + at,
                               .logit_count = wanted};
        must(group_forward(group, &item, 1, logits, streams));
        logits += (size_t)wanted * model->config.vocabulary;
        if (streams)
            streams += (size_t)count * model->config.streams * model->config.hidden;
        at = end;
    }
}

uint32_t harness_best(const float *logits, uint32_t vocabulary)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < vocabulary; i++)
        if (logits[i] > logits[best])
            best = i;
    return best;
}

/* Depth is what makes a rounding difference grow; `full` is the deepest of the golden models. */
float harness_tolerance(const harness_model_t *model, const harness_case_t *c)
{
    bool deep = model->config.layer_count > 4;

    if (strcmp(c->mode, "f64") == 0)
        return c->count <= 9 ? 5e-5f : 1e-4f;
    if (strcmp(c->mode, "bf16") == 0)
        return deep ? 0.05f : 0.03f;
    return c->count <= 9 ? 0.05f : deep ? 0.2f : 0.1f;
}

/* test_numbers.c - the forward pass against golden numbers: logits, greedy tokens, drafts,
 * intermediates; and the same bits in every chunking, at every size of the group, number of
 * threads, mix of a batch, instruction set, and after a resume.
 *
 * LOCKSTEP_GOLDEN names another folder of the same form; LOCKSTEP_LONG=1 runs the whole product
 * instead of a walk through it.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/isa.h"
#include "runtime/base/random.h"
#include "tests/golden/trace.h"

enum { GENERATED_MAX = 32, LOGIT_ROWS = 64 };

static const uint32_t chunks[] = {1, 3, 4, 7, 64, 128, 129, 256, HARNESS_TOKENS_MAX};

static harness_place_t places[HARNESS_MODELS_MAX];
static uint32_t place_count;

static bool long_run(void)
{
    const char *text = getenv("LOCKSTEP_LONG");
    return text && *text && strcmp(text, "0") != 0;
}

/* Builds with sanitizers take the shorter prompts and fewer steps: there the point is memory and
 * threads, not numbers. */
static bool brief(void)
{
#if defined(__OPTIMIZE__) && !defined(__SANITIZE_THREAD__)
    return false;
#else
    return !long_run();
#endif
}

static uint32_t tokens_limit(void)
{
    return brief() ? 130 : HARNESS_TOKENS_MAX;
}

/* Where one mode goes the way of all, a brief run takes fp8: it packs, and it transforms. */
static int mode_first(void)
{
    return brief() ? 2 : 0;
}

static int mode_last(void)
{
    return brief() ? 2 : HARNESS_MODES - 1;
}

static void must(status_t status)
{
    if (status != STATUS_OK)
        fail_msg("%s: %s", status_name(status), trail_text());
}

static float worst_difference(const float *a, const float *b, size_t count)
{
    float worst = 0.0f;
    for (size_t i = 0; i < count; i++) {
        float difference = fabsf(a[i] - b[i]);
        worst = difference > worst || difference != difference ? difference : worst;
    }
    return worst;
}

/* -- one case
 * ----------------------------------------------------------------------------------------------------
 * */

typedef struct {
    float *logits;  /* prompt rows, then one row for each token fed */
    float *streams; /* of the prompt */
    float *draft_logits;
    uint32_t drafts[8];
} answer_t;

static void answer_open(answer_t *a, const harness_model_t *model)
{
    size_t wide = (size_t)model->config.streams * model->config.hidden,
           vocabulary = model->config.vocabulary;
    a->logits = calloc(LOGIT_ROWS * vocabulary, sizeof(float));
    a->streams = calloc(HARNESS_TOKENS_MAX * wide, sizeof(float));
    a->draft_logits = calloc(LOGIT_ROWS * vocabulary, sizeof(float));
}

static void answer_close(answer_t *a)
{
    free(a->logits);
    free(a->streams);
    free(a->draft_logits);
}

/* Feeds the stored tokens, so that one wrong token is one failure. */
static void run_case(group_t *group, const harness_model_t *model, const harness_case_t *c,
                     uint32_t chunk, answer_t *a)
{
    json_t *generated = json_object_get(c->facts, "generated");
    uint32_t count = (uint32_t)json_array_size(generated), tokens[GENERATED_MAX];
    bool drafts = c->draft_logits && model->weights.mtp_count > 0;

    assert_in_range(count, 1, GENERATED_MAX);
    for (uint32_t i = 0; i < count; i++)
        tokens[i] = (uint32_t)json_integer_value(json_array_get(generated, i));
    group_clear(group, 0);
    harness_run(group, model, 0, c->tokens, 0, c->count, chunk, c->first_logit, a->logits,
                drafts ? a->streams : NULL);
    for (uint32_t i = 0; i + 1 < count; i++) {
        forward_item_t item = {
            .position = c->count + i, .count = 1, .tokens = &tokens[i], .logit_count = 1};
        must(group_forward(
            group, &item, 1,
            a->logits + (size_t)(c->count - c->first_logit + i) * model->config.vocabulary, NULL));
    }
}

static void check_tokens(const harness_model_t *model, const harness_case_t *c, const answer_t *a)
{
    json_t *generated = json_object_get(c->facts, "generated"),
           *margins = json_object_get(c->facts, "margins");
    uint32_t vocabulary = model->config.vocabulary;

    for (uint32_t i = 0; i < json_array_size(generated); i++) {
        const float *row = a->logits + (size_t)(c->count - c->first_logit - 1 + i) * vocabulary;
        uint32_t best = harness_best(row, vocabulary);
        if (best != (uint32_t)json_integer_value(json_array_get(generated, i)))
            fail_msg("%s %s %s: token %u is %u, not %u (margin %g)", model->place.name, c->name,
                     c->mode, i, best, (uint32_t)json_integer_value(json_array_get(generated, i)),
                     json_real_value(json_array_get(margins, i)));
    }
}

/* The block goes through the whole prompt, then feeds itself. It has a window of its own, in slot 0
 * as well. */
static void run_drafts(group_t *group, const harness_model_t *model, const harness_case_t *c,
                       uint32_t chunk, answer_t *a)
{
    uint32_t shifted[HARNESS_TOKENS_MAX], first = c->count - c->draft_rows,
                                          vocabulary = model->config.vocabulary;
    size_t wide = (size_t)model->config.streams * model->config.hidden;
    uint32_t drafted = (uint32_t)json_array_size(json_object_get(c->facts, "drafts"));
    float *logits = a->draft_logits;

    memcpy(shifted, c->tokens + 1, (c->count - 1) * sizeof(shifted[0]));
    shifted[c->count - 1] =
        (uint32_t)json_integer_value(json_array_get(json_object_get(c->facts, "generated"), 0));
    for (uint32_t at = 0; at < c->count; at += chunk) {
        uint32_t count = c->count - at < chunk ? c->count - at : chunk, end = at + count;
        uint32_t wanted = end > first ? end - (at > first ? at : first) : 0;
        forward_item_t item = {
            .position = at, .count = count, .tokens = shifted + at, .logit_count = wanted};
        float *streams = a->streams + at * wide;
        must(group_draft(group, 0, &item, 1, streams, logits, streams));
        logits += (size_t)wanted * vocabulary;
    }
    for (uint32_t i = 0; i < drafted; i++) {
        a->drafts[i] = harness_best(logits - vocabulary, vocabulary);
        forward_item_t item = {
            .position = c->count + i, .count = 1, .tokens = &a->drafts[i], .logit_count = 1};
        float *streams = a->streams + (c->count - 1) * wide;
        must(group_draft(group, 0, &item, 1, streams, logits, streams));
        logits += vocabulary;
    }
}

/* A row's drafts lean on the streams of every row before it, and in a rounding mode some row's
 * router may stand on an edge (n386-bf16 of full has one with a margin of 6e-4, far from the rows
 * whose margins the case vouches for). So there only the tokens are held to the stored ones. */
static void check_drafts(const harness_model_t *model, const harness_case_t *c, const answer_t *a)
{
    json_t *drafts = json_object_get(c->facts, "drafts");
    float worst = worst_difference(a->draft_logits, c->draft_logits,
                                   (size_t)c->draft_rows * model->config.vocabulary);

    if (strcmp(c->mode, "f64") == 0 && !(worst <= harness_tolerance(model, c)))
        fail_msg("%s %s %s: draft logits differ by %g", model->place.name, c->name, c->mode,
                 (double)worst);
    for (uint32_t i = 0; i < json_array_size(drafts); i++)
        assert_int_equal(a->drafts[i], json_integer_value(json_array_get(drafts, i)));
}

/* -- golden
 * ------------------------------------------------------------------------------------------------------
 * */

static void check_mode(const harness_model_t *model, const char *mode, float *worst)
{
    group_t *group = harness_group(model, mode, 1, 1, 1, NULL);
    static harness_case_t c;
    answer_t a;

    answer_open(&a, model);
    for (size_t i = 0; i < harness_case_count(model); i++) {
        if (!harness_case(model, i, mode, &c) || c.count > tokens_limit())
            continue;
        run_case(group, model, &c, chunks[COUNT_OF(chunks) - 1], &a);
        float difference = worst_difference(
            a.logits, c.logits, (size_t)(c.count - c.first_logit) * model->config.vocabulary);
        if (!(difference <= harness_tolerance(model, &c)))
            fail_msg("%s %s %s: logits differ by %g, at most %g are allowed", model->place.name,
                     c.name, mode, (double)difference, (double)harness_tolerance(model, &c));
        *worst = difference > *worst ? difference : *worst;
        check_tokens(model, &c, &a);
        if (c.draft_logits && model->weights.mtp_count > 0) {
            run_drafts(group, model, &c, chunks[COUNT_OF(chunks) - 1], &a);
            check_drafts(model, &c, &a);
        }
    }
    answer_close(&a);
    group_close(group);
}

static void test_logits_tokens_and_drafts_are_golden(void **state)
{
    (void)state;
    for (uint32_t p = 0; p < place_count; p++) {
        static harness_model_t model;
        harness_open(&model, &places[p]);
        for (int mode = 0; mode < HARNESS_MODES; mode++) {
            float worst = 0.0f;
            check_mode(&model, harness_modes[mode], &worst);
            print_message("  %-10s %-6s worst logit difference %.2g\n", model.place.name,
                          harness_modes[mode], (double)worst);
        }
        harness_close(&model);
    }
}

/* -- the same bits
 * ------------------------------------------------------------------------------------------------
 * */

static void compare_bits(const harness_model_t *model, const harness_case_t *c,
                         const answer_t *whole, const answer_t *a, const char *how)
{
    size_t fed = json_array_size(json_object_get(c->facts, "generated")) - 1;
    size_t count = (c->count - c->first_logit + fed) * model->config.vocabulary;

    if (memcmp(whole->logits, a->logits, count * sizeof(float)) != 0)
        fail_msg("%s %s %s: other bits %s (by %g)", model->place.name, c->name, c->mode, how,
                 (double)worst_difference(whole->logits, a->logits, count));
    if (!c->draft_logits || model->weights.mtp_count == 0)
        return;
    count = (c->draft_rows + json_array_size(json_object_get(c->facts, "drafts"))) *
            model->config.vocabulary;
    if (memcmp(whole->draft_logits, a->draft_logits, count * sizeof(float)) != 0)
        fail_msg("%s %s %s: other bits of drafts %s", model->place.name, c->name, c->mode, how);
}

static void run_all(group_t *group, const harness_model_t *model, const harness_case_t *c,
                    uint32_t chunk, answer_t *a)
{
    run_case(group, model, c, chunk, a);
    if (c->draft_logits && model->weights.mtp_count > 0)
        run_drafts(group, model, c, chunk, a);
}

/* The whole product in a long run; else each case takes one more step through it. Long prompts in
 * small chunks, and small chunks on large groups, are slow, so a short walk leaves those to shorter
 * prompts. */
static bool takes_part(size_t turn, size_t case_index, size_t world_index, size_t chunk_index,
                       size_t combinations, uint32_t tokens, uint32_t chunk)
{
    if (long_run())
        return true;
    if (tokens / chunk > 140)
        return false;
    (void)world_index;
    return (case_index * 7 + turn * 3 + chunk_index) % combinations ==
           world_index * 4 % combinations;
}

static void check_bits(const harness_model_t *model, size_t turn, const char *mode)
{
    uint32_t worlds[8], world_count = harness_worlds(model, worlds);
    group_t *alone = harness_group(model, mode, 1, 1, 1, NULL);
    static harness_case_t c;
    answer_t whole, a;

    answer_open(&whole, model);
    answer_open(&a, model);
    for (size_t w = 0; w < world_count; w++) {
        group_t *group = harness_group(model, mode, worlds[w], 1 + w % 2, 1, NULL);
        for (size_t i = 0; i < harness_case_count(model); i++) {
            bool have = false;
            if (!harness_case(model, i, mode, &c) || c.count > tokens_limit())
                continue;
            for (size_t k = 0; k < COUNT_OF(chunks); k++) {
                char how[64];
                if (!takes_part(turn, i, w, k, (brief() ? 30 : 6) * COUNT_OF(chunks), c.count,
                                chunks[k]))
                    continue;
                if (!have)
                    run_all(alone, model, &c, chunks[COUNT_OF(chunks) - 1], &whole);
                have = true;
                run_all(group, model, &c, chunks[k], &a);
                snprintf(how, sizeof(how), "in chunks of %u on %u ranks", chunks[k], worlds[w]);
                compare_bits(model, &c, &whole, &a, how);
            }
        }
        group_close(group);
    }
    answer_close(&whole);
    answer_close(&a);
    group_close(alone);
}

static void test_chunks_ranks_and_threads_leave_the_bits_alone(void **state)
{
    size_t turn = 0;

    (void)state;
    for (uint32_t p = 0; p < place_count; p++) {
        static harness_model_t model;
        harness_open(&model, &places[p]);
        for (int mode = 0; mode < HARNESS_MODES; mode++)
            check_bits(&model, turn++, harness_modes[mode]);
        harness_close(&model);
    }
}

/* The model with most kinds of layers, and of those the deepest. */
static void open_mixed(harness_model_t *model)
{
    uint32_t best = 0, best_rank = 0;
    for (uint32_t p = 0; p < place_count; p++) {
        static model_config_t config;
        uint32_t kinds[3] = {0};
        must(model_config_load(places[p].folder, &config));
        for (uint32_t i = 0; i < config.layer_count; i++)
            kinds[config.layers[i].ratio == 0 ? 0 : config.layers[i].ratio == 4 ? 1 : 2] = 1;
        uint32_t rank = (kinds[0] + kinds[1] + kinds[2]) * LAYERS_MAX + config.layer_count;
        if (rank > best_rank) {
            best = p;
            best_rank = rank;
        }
    }
    harness_open(model, &places[best]);
}

/* Another golden folder may have no prompt of the length that a test needs. */
static void skip_prompts(void)
{
    print_message("no prompt of the right length in %s\n", harness_root());
    skip();
}

/* The longest case of a mode with at most `limit` tokens; false if there is none. */
static bool longest_case(const harness_model_t *model, const char *mode, uint32_t limit,
                         harness_case_t *c)
{
    size_t best = SIZE_MAX;
    uint32_t longest = 0;

    for (size_t i = 0; i < harness_case_count(model); i++)
        if (harness_case(model, i, mode, c) && c->count > longest && c->count <= limit) {
            longest = c->count;
            best = i;
        }
    return best != SIZE_MAX && harness_case(model, best, mode, c);
}

/* Four sequences go through one batch at different paces, chunks of one beside decoded tokens of
 * another. */
static void test_a_batch_leaves_the_bits_alone(void **state)
{
    static harness_model_t model;
    static harness_case_t cases[4];
    static const uint32_t limits[4] = {400, 300, 140, 9}, paces[4] = {97, 31, 1, 2};
    uint32_t at[4] = {0}, vocabulary;

    (void)state;
    open_mixed(&model);
    vocabulary = model.config.vocabulary;
    for (int mode = mode_first(); mode <= mode_last(); mode++) {
        float *alone[4], *mixed = calloc(LOGIT_ROWS * (size_t)vocabulary, sizeof(float));
        group_t *group = harness_group(&model, harness_modes[mode], 1, 2, 4, NULL);
        memset(at, 0, sizeof(at));
        for (uint32_t s = 0; s < 4; s++) {
            if (!longest_case(&model, harness_modes[mode], limits[s], &cases[s]))
                skip_prompts();
            alone[s] = calloc((size_t)cases[s].count * vocabulary, sizeof(float));
            for (uint32_t t = 0; t < cases[s].count; t++) /* token by token, each one's logits */
                harness_run(group, &model, s, cases[s].tokens, t, t + 1, 1, t,
                            alone[s] + (size_t)t * vocabulary, NULL);
            group_clear(group, s);
        }
        for (uint32_t step = 0; at[0] < cases[0].count; step++) {
            forward_item_t items[4];
            uint32_t count = 0;
            for (uint32_t i = 0; i < 4; i++) {
                uint32_t s = (i + step) % 4, left = cases[s].count - at[s],
                         run = left < paces[s] ? left : paces[s];
                if (!run)
                    continue;
                items[count++] = (forward_item_t){.slot = s,
                                                  .position = at[s],
                                                  .count = run,
                                                  .tokens = cases[s].tokens + at[s],
                                                  .logit_count = 1};
                at[s] += run;
            }
            must(group_forward(group, items, count, mixed, NULL));
            for (uint32_t i = 0; i < count; i++)
                assert_memory_equal(mixed + (size_t)i * vocabulary,
                                    alone[items[i].slot] +
                                        (size_t)(at[items[i].slot] - 1) * vocabulary,
                                    vocabulary * sizeof(float));
        }
        group_close(group);
        for (uint32_t s = 0; s < 4; s++)
            free(alone[s]);
        free(mixed);
    }
    harness_close(&model);
}

/* A border kept inside a chunk is all that is needed to go on at its page's end; slots and borders
 * are the same bytes on every rank. */
static void test_a_resumed_prefix_leaves_the_bits_alone(void **state)
{
    static harness_model_t model;
    static harness_case_t c;
    static const uint32_t ordinals[1] = {0}, targets[1] = {2},
                          keep_chunks[] = {HARNESS_TOKENS_MAX, 100, 256, 64};
    uint32_t vocabulary;

    (void)state;
    open_mixed(&model);
    vocabulary = model.config.vocabulary;
    for (int mode = mode_first(); mode <= mode_last(); mode++) {
        group_t *group = harness_group(&model, harness_modes[mode], 2, 1, 2, NULL);
        float *cold = calloc(LOGIT_ROWS * (size_t)vocabulary, sizeof(float));
        float *warm = calloc(LOGIT_ROWS * (size_t)vocabulary, sizeof(float));
        if (!longest_case(&model, harness_modes[mode], 600, &c) || c.count <= PAGE_TOKENS)
            skip_prompts();
        for (size_t k = 0; k < COUNT_OF(keep_chunks); k++) {
            group_clear(group, 0);
            for (uint32_t at = 0; at < c.count;) {
                uint32_t count = c.count - at < keep_chunks[k] ? c.count - at : keep_chunks[k];
                bool keeps = at < PAGE_TOKENS && at + count >= PAGE_TOKENS;
                forward_item_t item = {.slot = 0,
                                       .position = at,
                                       .count = count,
                                       .tokens = c.tokens + at,
                                       .logit_count = at + count == c.count,
                                       .border_count = keeps,
                                       .border_ordinals = ordinals,
                                       .border_targets = targets};
                must(group_forward(group, &item, 1, cold, NULL));
                at += count;
            }
            assert_true(group_digest(group, 0, UNIT_BORDER, 2) ==
                        group_digest(group, 1, UNIT_BORDER, 2));
            assert_true(group_digest(group, 0, UNIT_SLOT, 0) ==
                        group_digest(group, 1, UNIT_SLOT, 0));
            group_resume(group, 1, 0, 2, PAGE_TOKENS);
            harness_run(group, &model, 1, c.tokens, PAGE_TOKENS, c.count, 50, c.count - 1, warm,
                        NULL);
            assert_memory_equal(cold, warm, vocabulary * sizeof(float));
            assert_true(group_digest(group, 0, UNIT_HISTORY, group_page(group, 0, 1)) ==
                        group_digest(group, 0, UNIT_HISTORY, group_page(group, 1, 1)));
        }
        free(cold);
        free(warm);
        group_close(group);
    }
    harness_close(&model);
}

static void test_instruction_sets_leave_the_bits_alone(void **state)
{
    static harness_model_t model;
    static harness_case_t c;
    answer_t first, a;

    (void)state;
    open_mixed(&model);
    answer_open(&first, &model);
    answer_open(&a, &model);
    for (int mode = mode_first(); mode <= mode_last(); mode += 2) {
        if (!longest_case(&model, harness_modes[mode], long_run() ? 600 : 140, &c))
            skip_prompts();
        for (int isa = ISA_COUNT - 1; isa >= ISA_SCALAR; isa--) {
            isa_cap_set((isa_t)isa);
            group_t *group = harness_group(&model, harness_modes[mode], 1, 1, 1, NULL);
            run_all(group, &model, &c, 64, isa == ISA_COUNT - 1 ? &first : &a);
            if (isa < ISA_COUNT - 1)
                compare_bits(&model, &c, &first, &a, isa_name((isa_t)isa));
            group_close(group);
        }
    }
    isa_cap_set(ISA_AVX512);
    answer_close(&first);
    answer_close(&a);
    harness_close(&model);
}

/* One number for what this set of operators computes. It stands here so that builds of all kinds
 * (gcc and clang, -O0 with sanitizers and -O3) are held to the same bits; an operator whose written
 * order changes changes it. */
static void test_every_build_has_the_same_bits(void **state)
{
    static const uint64_t expected[HARNESS_MODES] = {0xea1ab5543f08d84a, 0x77e9a9d22871010d,
                                                     0xf432a6aed586d4d5, 0x01b012f242aed619};
    static harness_model_t model;
    static harness_case_t c;
    answer_t a;

    (void)state;
    if (getenv("LOCKSTEP_GOLDEN")) {
        print_message("the digests belong to tests/golden\n");
        skip();
    }
    open_mixed(&model);
    answer_open(&a, &model);
    for (int mode = 0; mode < HARNESS_MODES; mode++) {
        uint64_t digest = 0;
        group_t *group = harness_group(&model, harness_modes[mode], 1, 1, 1, NULL);
        assert_true(longest_case(&model, harness_modes[mode], 300, &c));
        harness_run(group, &model, 0, c.tokens, 0, c.count, HARNESS_TOKENS_MAX, c.count - 8,
                    a.logits, NULL);
        for (uint32_t i = 0; i < 8 * model.config.vocabulary; i++) {
            uint32_t bits;
            memcpy(&bits, a.logits + i, sizeof(bits));
            digest = random_mix(digest ^ bits);
        }
        if (digest != expected[mode])
            fail_msg("%s: digest of logits is 0x%016llx, not 0x%016llx", harness_modes[mode],
                     (unsigned long long)digest, (unsigned long long)expected[mode]);
        group_close(group);
    }
    answer_close(&a);
    harness_close(&model);
}

/* -- intermediates
 * ------------------------------------------------------------------------------------------------
 * */

static void check_trace(const harness_model_t *model, const harness_case_t *c)
{
    char path[HARNESS_PATH_MAX + 128];
    safetensors_t golden;
    trace_check_t check;
    forward_trace_t trace = {&check, trace_check_note};
    answer_t a;

    snprintf(path, sizeof(path), "%s/%s", model->place.cases_folder,
             json_string_value(json_object_get(c->traces, "file")));
    must(safetensors_open_file(&golden, path));
    trace_check_init(&check, model, c, &golden);
    group_t *group = harness_group(model, c->mode, 1, 1, 1, &trace);
    answer_open(&a, model);
    harness_run(group, model, 0, c->tokens, 0, c->count, HARNESS_TOKENS_MAX,
                c->count - (c->count < 64 ? c->count : 64), a.logits, a.streams);
    assert_true(check.found > 2);
    if (check.exact && c->draft_logits && model->weights.mtp_count > 0) {
        uint32_t shifted[HARNESS_TOKENS_MAX];
        memcpy(shifted, c->tokens + 1, (c->count - 1) * sizeof(shifted[0]));
        shifted[c->count - 1] =
            (uint32_t)json_integer_value(json_array_get(json_object_get(c->facts, "generated"), 0));
        forward_item_t item = {.count = c->count, .tokens = shifted, .logit_count = 1};
        must(group_draft(group, 0, &item, 1, a.streams, a.logits, NULL));
        assert_int_equal(check.found, golden.tensor_count);
    }
    answer_close(&a);
    group_close(group);
    safetensors_close(&golden);
}

static void test_intermediates_are_golden(void **state)
{
    (void)state;
    for (uint32_t p = 0; p < place_count; p++) {
        static harness_model_t model;
        static harness_case_t c;
        harness_open(&model, &places[p]);
        for (size_t i = 0; i < harness_case_count(&model); i++)
            for (int mode = 0; mode < HARNESS_MODES; mode++)
                if (harness_case(&model, i, harness_modes[mode], &c) && c.traces &&
                    c.count <= tokens_limit())
                    check_trace(&model, &c);
        harness_close(&model);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_logits_tokens_and_drafts_are_golden),
        cmocka_unit_test(test_chunks_ranks_and_threads_leave_the_bits_alone),
        cmocka_unit_test(test_a_batch_leaves_the_bits_alone),
        cmocka_unit_test(test_a_resumed_prefix_leaves_the_bits_alone),
        cmocka_unit_test(test_instruction_sets_leave_the_bits_alone),
        cmocka_unit_test(test_every_build_has_the_same_bits),
        cmocka_unit_test(test_intermediates_are_golden),
    };
    place_count = harness_places(places);
    if (place_count == 0) {
        print_error("no golden numbers in %s/numbers\n", harness_root());
        return getenv("LOCKSTEP_GOLDEN") ? HARNESS_SKIPPED : 1;
    }
    const char *filter = getenv("LOCKSTEP_TEST"); /* a pattern of test names */
    if (filter)
        cmocka_set_test_filter(filter);
    return cmocka_run_group_tests_name("numbers", tests, NULL, NULL);
}

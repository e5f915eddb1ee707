#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

#include "kernels/operators.h"
#include "model/sampler.h"
#include "runtime/base/random.h"

enum { VOCABULARY = 1000, DRAWS = 20000 };

static const device_sampling_t plain = {.temperature = 1, .top_p = 1, .repetition_penalty = 1};
static const sampler_history_t no_history;
static void *workspace;
static float logits[VOCABULARY];

static int set_up(void **state)
{
    random_t random;

    (void)state;
    random_init(&random, 7);
    for (uint32_t i = 0; i < VOCABULARY; i++)
        logits[i] = (float)(6 * random_unit(&random) - 3);
    workspace = aligned_alloc(64, sample_workspace(VOCABULARY));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    free(workspace);
    return 0;
}

static sample_choice_t draw(const float *row, const sample_row_t *how)
{
    sample_choice_t choice;

    operators()->sample(&(sample_t){1, VOCABULARY, row, how, workspace, &choice});
    return choice;
}

static sample_choice_t choose(const float *row, const device_sampling_t *sampling,
                              const sampler_history_t *history, uint64_t position)
{
    sample_row_t how = sampler_row(sampling, history, position);
    sample_choice_t choice = draw(row, &how);

    assert_int_equal(sampler_check(sampling, VOCABULARY), STATUS_OK);
    assert_int_equal(sampler_outcome(&choice), STATUS_OK);
    return choice;
}

/* Counts of DRAWS draws, at positions 0, 1, ... */
static void count_draws(const device_sampling_t *sampling, uint32_t counts[VOCABULARY])
{
    memset(counts, 0, VOCABULARY * sizeof(*counts));
    for (uint32_t i = 0; i < DRAWS; i++)
        counts[choose(logits, sampling, &no_history, i).token]++;
}

/* Chi-square of the counts against weights, scaled to a normal deviate: for the right distribution it
 * lies within a few units of 0. Tokens of weight 0 must not occur. */
static double deviate(const uint32_t counts[VOCABULARY], const double weights[VOCABULARY])
{
    double total = 0, chi = 0, degrees = -1, rest = 0, rest_count = 0;

    for (uint32_t i = 0; i < VOCABULARY; i++)
        total += weights[i];
    for (uint32_t i = 0; i < VOCABULARY; i++) {
        double expected = weights[i] / total * DRAWS;

        if (weights[i] == 0 && counts[i] > 0)
            return INFINITY;
        rest += expected;
        rest_count += counts[i];
        if (rest < 5)
            continue; /* rare tokens are taken together */
        chi += (rest_count - rest) * (rest_count - rest) / rest;
        degrees++;
        rest = rest_count = 0;
    }
    return degrees > 0 ? (chi - degrees) / sqrt(2 * degrees) : 0;
}

static void reference_weights(double temperature, double weights[VOCABULARY])
{
    for (uint32_t i = 0; i < VOCABULARY; i++)
        weights[i] = exp((double)logits[i] / temperature);
}

/* Zeroes all but the `count` best; returns how many have the top share. */
static void keep_best(double weights[VOCABULARY], uint32_t count, double share)
{
    double total = 0, sum = 0;
    uint32_t kept = 0;
    double left[VOCABULARY];

    memcpy(left, weights, sizeof(left));
    for (int pass = 0; pass < 2; pass++) {
        memcpy(weights, left, sizeof(left));
        double copy[VOCABULARY];

        memcpy(copy, left, sizeof(copy));
        sum = 0;
        for (kept = 0; kept < count && (pass == 0 || kept == 0 || sum < share * total); kept++) {
            uint32_t best = 0;

            for (uint32_t i = 1; i < VOCABULARY; i++)
                best = copy[i] > copy[best] ? i : best;
            sum += copy[best];
            copy[best] = 0;
        }
        total = pass == 0 ? sum : total;
        for (uint32_t i = 0; i < VOCABULARY; i++)
            weights[i] = copy[i] == 0 ? weights[i] : 0;
    }
}

static void test_draws_follow_the_distribution(void **state)
{
    static const struct {
        float temperature, top_p, min_p;
        uint32_t top_k;
    } cases[] = {
        {1, 1, 0, 0},         {0.5f, 1, 0, 0}, {2, 1, 0, 0},        {1, 1, 0, 20},
        {1, 0.5f, 0, 0},      {1, 1, 0.3f, 0}, {0.7f, 0.8f, 0, 50}, {0.7f, 0.9f, 0.2f, 40},
        {1, 0.000001f, 0, 0}, {1, 1, 0, 1},    {1, 1e-45f, 0, 0},
    };
    static uint32_t counts[VOCABULARY];
    static double weights[VOCABULARY];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        device_sampling_t sampling = plain;
        double best = 0, found;

        sampling.seed = 11 + i;
        sampling.temperature = cases[i].temperature;
        sampling.top_p = cases[i].top_p;
        sampling.min_p = cases[i].min_p;
        sampling.top_k = cases[i].top_k;
        reference_weights((double)sampling.temperature, weights);
        for (uint32_t t = 0; t < VOCABULARY; t++)
            best = weights[t] > best ? weights[t] : best;
        for (uint32_t t = 0; t < VOCABULARY; t++)
            weights[t] = weights[t] < best * (double)sampling.min_p ? 0 : weights[t];
        if (sampling.top_k || sampling.top_p < 1)
            keep_best(weights, sampling.top_k ? sampling.top_k : VOCABULARY,
                      (double)sampling.top_p);
        count_draws(&sampling, counts);
        found = deviate(counts, weights);
        if (fabs(found) > 4)
            fail_msg("case %zu: counts lie %.1f deviates from the distribution", i, found);
    }
}

static void test_greedy_takes_the_best_and_the_lower_of_equals(void **state)
{
    device_sampling_t sampling = plain;
    float row[VOCABULARY];

    (void)state;
    sampling.temperature = 0;
    for (uint32_t at = 0; at < VOCABULARY; at++) {
        memcpy(row, logits, sizeof(row));
        row[at] = row[VOCABULARY - 1] = 50;
        assert_int_equal(choose(row, &sampling, &no_history, 0).token, at);
    }
    for (uint32_t i = 0; i < VOCABULARY; i++)
        row[i] = i % 2 ? 0.0f : -0.0f;
    assert_int_equal(choose(row, &sampling, &no_history, 0).token, 0);
}

static void test_top_k_takes_the_lower_of_equals(void **state)
{
    device_sampling_t sampling = plain;
    float row[VOCABULARY] = {0};

    (void)state;
    sampling.top_k = 3;
    for (uint32_t position = 0; position < 200; position++)
        assert_true(choose(row, &sampling, &no_history, position).token < 3);
}

static void test_a_draw_depends_on_seed_and_position_alone(void **state)
{
    device_sampling_t sampling = plain, other = plain;
    uint32_t same_seed = 0;

    (void)state;
    sampling.seed = 5;
    other.seed = 6;
    for (uint32_t i = 0; i < 100; i++) {
        sample_choice_t first = choose(logits, &sampling, &no_history, i);
        sample_choice_t noise = choose(logits, &other, &no_history, i);
        sample_choice_t again = choose(logits, &sampling, &no_history, i);

        assert_memory_equal(&first, &again, sizeof(first));
        same_seed += noise.token == first.token;
    }
    assert_true(same_seed < 20);
}

static void test_isa_levels_give_the_same_bits(void **state)
{
    isa_t best = isa_level();

    (void)state;
    for (uint32_t i = 0; i < 300; i++) {
        sample_choice_t first, other;
        device_sampling_t sampling = plain;

        sampling.seed = i;
        sampling.logprobs = 1 + i % (LOGPROBS_MAX + 1);
        sampling.top_k = i % 3 ? 0 : 30;
        sampling.top_p = i % 2 ? 1.0f : 0.9f;
        isa_cap_set(ISA_SCALAR);
        first = choose(logits, &sampling, &no_history, i);
        for (isa_t isa = ISA_AVX2; isa <= best; isa++) {
            isa_cap_set(isa);
            other = choose(logits, &sampling, &no_history, i);
            assert_memory_equal(&first, &other, sizeof(first));
        }
        isa_cap_set(ISA_AVX512);
    }
}

static void test_penalties_have_the_meaning_of_the_api(void **state)
{
    static const uint32_t prompt[] = {1, 2}, output[] = {2, 3, 3, 3};
    const sampler_history_t history = {prompt, output, 2, 4};
    device_sampling_t sampling = plain;
    float row[VOCABULARY];

    (void)state;
    sampling.temperature = 0;
    for (uint32_t i = 0; i < VOCABULARY; i++)
        row[i] = -100;
    /* Frequency counts: 3 was put out three times, 2 once, 1 never. */
    row[1] = 1, row[2] = 2, row[3] = 4;
    sampling.frequency_penalty = 1;
    assert_int_equal(choose(row, &sampling, &history, 0).token, 1); /* 1, 2 - 1, 4 - 3: a tie */
    sampling.frequency_penalty = 0.875f;
    assert_int_equal(choose(row, &sampling, &history, 0).token, 3); /* 1, 1.125, 1.375 */
    /* Presence does not count, and the prompt does not matter. */
    sampling.frequency_penalty = 0;
    sampling.presence_penalty = 2;
    row[1] = 2.5f, row[2] = 3, row[3] = 4;
    assert_int_equal(choose(row, &sampling, &history, 0).token, 1);
    /* Repetition: prompt and output; positive logits are divided, others multiplied. */
    sampling.presence_penalty = 0;
    sampling.repetition_penalty = 2;
    row[0] = 1.9f, row[1] = 3, row[2] = 3.5f, row[3] = 3.9f;
    assert_int_equal(choose(row, &sampling, &history, 0).token, 3);
    row[3] = 3.7f;
    assert_int_equal(choose(row, &sampling, &history, 0).token, 0);
    row[0] = -3, row[1] = -2, row[2] = -2, row[3] = -2;
    assert_int_equal(choose(row, &sampling, &history, 0).token, 0);
    /* Nothing of this stays. */
    sampling.repetition_penalty = 1;
    assert_int_equal(choose(row, &sampling, &history, 0).token, 1);
}

static void test_bias_moves_and_bans_tokens(void **state)
{
    static const uint32_t tokens[] = {10, 20};
    static const float values[] = {100, -100};
    device_sampling_t sampling = plain;

    (void)state;
    sampling.bias_tokens = tokens;
    sampling.bias_values = values;
    sampling.bias_count = 2;
    for (uint32_t i = 0; i < 100; i++)
        assert_int_equal(choose(logits, &sampling, &no_history, i).token, 10);
    sampling.bias_tokens = &tokens[1];
    sampling.bias_values = &values[1];
    sampling.bias_count = 1;
    for (uint32_t i = 0; i < 2000; i++)
        assert_int_not_equal(choose(logits, &sampling, &no_history, i).token, 20);
}

/* Logprobs are of the row as it came, whatever temperature, bias and cuts do to the draw. */
static void test_logprobs_are_of_the_raw_row(void **state)
{
    static const uint32_t tokens[] = {10};
    static const float values[] = {50};
    device_sampling_t sampling = plain;
    sample_choice_t choice;
    double total = 0;

    (void)state;
    for (uint32_t i = 0; i < VOCABULARY; i++)
        total += exp((double)logits[i]);
    sampling.temperature = 0.3f;
    sampling.bias_tokens = tokens;
    sampling.bias_values = values;
    sampling.bias_count = 1;
    sampling.logprobs = LOGPROBS_MAX + 1;
    choice = choose(logits, &sampling, &no_history, 3);
    assert_int_equal(choice.token, 10);
    assert_true(fabs((double)choice.logprob - ((double)logits[10] - log(total))) < 2e-6);
    assert_int_equal(choice.top_count, LOGPROBS_MAX);
    for (uint32_t i = 0; i < choice.top_count; i++) {
        double expected = (double)logits[choice.top_tokens[i]] - log(total);
        uint32_t better = 0;

        assert_true(fabs((double)choice.top_logprobs[i] - expected) < 2e-6);
        for (uint32_t t = 0; t < VOCABULARY; t++)
            better += logits[t] > logits[choice.top_tokens[i]];
        assert_int_equal(better, i);
    }
    sampling.logprobs = 1;
    assert_int_equal(choose(logits, &sampling, &no_history, 3).top_count, 0);
    sampling.logprobs = 0;
    assert_true(choose(logits, &sampling, &no_history, 3).logprob == 0.0f);
}

/* A mask is behind the bias and before penalties; logprobs do not see it. */
static void test_tokens_that_are_not_allowed_are_not_drawn(void **state)
{
    static const uint32_t banned[] = {7}, output[] = {31, 32};
    static const float values[] = {100};
    const sampler_history_t history = {NULL, output, 0, 2};
    uint32_t allowed[(VOCABULARY + 31) / 32] = {0}, drawn[3] = {0};
    device_sampling_t sampling = plain;
    sample_choice_t choice, open;
    sample_row_t how;

    (void)state;
    allowed[0] = 1u << 31; /* 31, 32, 999 */
    allowed[1] = 1;
    allowed[999 / 32] |= 1u << 999 % 32;
    sampling.logprobs = 3;
    sampling.bias_tokens = banned;
    sampling.bias_values = values;
    sampling.bias_count = 1;
    for (uint32_t i = 0; i < 3000; i++) {
        sampling.top_k = i % 3 ? 0 : 50;
        sampling.top_p = i % 2 ? 1.0f : 0.99f;
        how = sampler_row(&sampling, &no_history, i);
        open = draw(logits, &how);
        how.allowed = allowed;
        choice = draw(logits, &how);
        assert_true(choice.token == 31 || choice.token == 32 || choice.token == 999);
        drawn[choice.token == 31 ? 0 : choice.token == 32 ? 1 : 2]++;
        assert_int_equal(open.token, 7);
        assert_memory_equal(choice.top_tokens, open.top_tokens, sizeof(open.top_tokens));
        assert_memory_equal(choice.top_logprobs, open.top_logprobs, sizeof(open.top_logprobs));
    }
    assert_true(drawn[0] > 0 && drawn[1] > 0 && drawn[2] > 0);
    /* Penalties see what is left: 2 from the output's tokens, or 4 that repeat, turn the order. */
    sampling = plain;
    sampling.temperature = 0.0f;
    sampling.presence_penalty = 2.0f;
    sampling.frequency_penalty = 2.0f;
    float row[VOCABULARY] = {0};
    row[31] = 3.0f;
    row[32] = 2.0f;
    row[999] = -0.5f;
    how = sampler_row(&sampling, &history, 0);
    how.allowed = allowed;
    assert_int_equal(draw(row, &how).token, 999);
    how = sampler_row(&plain, &no_history, 0);
    how.temperature = 0.0f;
    how.allowed = allowed;
    assert_int_equal(draw(row, &how).token, 31);
    /* Nothing allowed that can be drawn. */
    memset(allowed, 0, sizeof(allowed));
    choice = draw(row, &how);
    assert_int_equal(choice.outcome, SAMPLE_NONE);
}

static void test_rows_that_are_no_logits_are_refused(void **state)
{
    device_sampling_t sampling = plain;
    sample_choice_t choice;
    sample_row_t how;
    float row[VOCABULARY];

    (void)state;
    for (uint32_t at = 0; at < VOCABULARY; at += 37)
        for (int kind = 0; kind < 4; kind++) {
            memcpy(row, logits, sizeof(row));
            row[at] = kind < 2 ? NAN : INFINITY;
            sampling.temperature = kind % 2 ? 1.0f : 0.0f;
            how = sampler_row(&sampling, &no_history, 0);
            choice = draw(row, &how);
            assert_int_equal(choice.outcome, SAMPLE_NO_NUMBER);
            assert_int_equal(choice.token, at);
            assert_int_equal(sampler_outcome(&choice), STATUS_CORRUPT);
        }
    for (uint32_t i = 0; i < VOCABULARY; i++)
        row[i] = -INFINITY;
    choice = draw(row, &how);
    assert_int_equal(choice.outcome, SAMPLE_NONE);
    assert_int_equal(sampler_outcome(&choice), STATUS_CORRUPT);
    row[5] = -3;
    for (uint32_t i = 0; i < 20; i++)
        assert_int_equal(choose(row, &sampling, &no_history, i).token, 5);
}

static void test_parameters_are_refused_by_name(void **state)
{
    static const uint32_t foreign[] = {VOCABULARY};
    static const float values[] = {1}, large[] = {101};
    device_sampling_t bad[12];
    const char *names[] = {"temperature",
                           "temperature",
                           "top_p",
                           "top_p",
                           "min_p",
                           "presence_penalty",
                           "frequency_penalty",
                           "repetition_penalty",
                           "top_logprobs",
                           "logit_bias",
                           "logit_bias",
                           "logit_bias"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        bad[i] = plain;
    bad[0].temperature = -1;
    bad[1].temperature = NAN;
    bad[2].top_p = 0;
    bad[3].top_p = 1.5f;
    bad[4].min_p = -0.1f;
    bad[5].presence_penalty = 2.1f;
    bad[6].frequency_penalty = -2.1f;
    bad[7].repetition_penalty = 0;
    bad[8].logprobs = LOGPROBS_MAX + 2;
    bad[9].bias_count = LOGIT_BIAS_MAX + 1;
    bad[10].bias_count = bad[11].bias_count = 1;
    bad[10].bias_tokens = foreign, bad[10].bias_values = values;
    bad[11].bias_tokens = &(uint32_t){1}, bad[11].bias_values = large;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_int_equal(sampler_check(&bad[i], VOCABULARY), STATUS_INVALID);
        assert_memory_equal(trail_text(), names[i], strlen(names[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_draws_follow_the_distribution),
        cmocka_unit_test(test_greedy_takes_the_best_and_the_lower_of_equals),
        cmocka_unit_test(test_top_k_takes_the_lower_of_equals),
        cmocka_unit_test(test_a_draw_depends_on_seed_and_position_alone),
        cmocka_unit_test(test_isa_levels_give_the_same_bits),
        cmocka_unit_test(test_penalties_have_the_meaning_of_the_api),
        cmocka_unit_test(test_bias_moves_and_bans_tokens),
        cmocka_unit_test(test_logprobs_are_of_the_raw_row),
        cmocka_unit_test(test_tokens_that_are_not_allowed_are_not_drawn),
        cmocka_unit_test(test_rows_that_are_no_logits_are_refused),
        cmocka_unit_test(test_parameters_are_refused_by_name),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}

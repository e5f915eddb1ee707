/* test_plan.c - `check` and `plan`: figures by independent arithmetic, refusals, exit codes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "cli/command.h"
#include "cli/graph.h"
#include "cli/plan.h"

static deployment_t deployment, second;
static topology_errors_t errors;

static const char *const examples[] = {
    "topology/examples/default.yaml", "topology/examples/tp2.yaml",
    "topology/examples/unequal.yaml", "topology/examples/8-devices.yaml",
    "topology/examples/16-devices.yaml", "topology/examples/64-devices.yaml",
    "topology/examples/8-gpus.yaml",
};

static void load_good(const char *path)
{
    if (deployment_load(path, &deployment, &errors) != STATUS_OK) {
        topology_errors_print(&errors, stderr);
        fail_msg("%s is refused", path);
    }
}

/* ---- figures of Flash, from the shapes of its fact sheet, not from the table of the code -------- */

/* FP8 with a scale byte for 128 x 128. */
static uint64_t fp8(uint64_t rows, uint64_t columns)
{
    return rows * columns + rows / 128 * (columns / 128);
}

static uint64_t bf16(uint64_t rows, uint64_t columns)
{
    return 2 * rows * columns;
}

static uint64_t f32(uint64_t rows, uint64_t columns)
{
    return 4 * rows * columns;
}

/* Two dimensions of FP4: half a byte, and a scale byte for 32 columns. */
static uint64_t fp4(uint64_t rows, uint64_t columns)
{
    return rows * columns / 2 + rows * columns / 32;
}

/* Attention of one layer of Flash on one of `tp` ranks. */
static uint64_t flash_attention(uint32_t ratio, uint64_t tp)
{
    uint64_t bytes = fp8(1024, 4096) + bf16(1, 1024) + fp8(32768 / tp, 1024) + fp8(512, 4096) +
                     bf16(1, 512) + f32(1, 64 / tp) + fp8(8192 / tp, 4096) + fp8(4096 / tp, 8192);
    if (ratio == 4)
        bytes += 2 * bf16(1024, 4096) + f32(4, 1024) + bf16(1, 512) + fp8(8192, 1024) +
                 bf16(64, 4096) + 2 * bf16(256, 4096) + f32(4, 256) + bf16(1, 128);
    if (ratio == 128)
        bytes += 2 * bf16(512, 4096) + f32(128, 512) + bf16(1, 512);
    return bytes;
}

static uint64_t flash_mixes(void)
{
    return 2 * (f32(24, 16384) + f32(1, 24) + f32(1, 3)) + 2 * bf16(1, 4096);
}

static uint64_t flash_other(uint64_t tp)
{
    uint64_t head_mix = f32(4, 16384) + f32(1, 4) + f32(1, 1) + bf16(1, 4096);
    uint64_t shared = 2 * fp8(2048 / tp, 4096) + fp8(4096 / tp, 2048);
    return head_mix + 43 * (flash_mixes() + bf16(256, 4096) + shared) + 40 * f32(1, 256) +
           3 * 8ull * 129280 * 6;
}

static void test_flash_has_the_bytes_of_its_shapes(void **state)
{
    (void)state;
    load_good("topology/examples/8-gpus.yaml");
    weight_bytes_t whole = weight_bytes(&deployment.config, 0, 1);
    uint64_t expert = 2 * fp4(2048, 4096) + fp4(4096, 2048);
    assert_int_equal(whole.bytes[WEIGHTS_EXPERTS], 43 * 256 * expert);
    assert_int_equal(whole.bytes[WEIGHTS_EXPERTS] / 100000000, 1471); /* 147.2 GB, rounded */
    assert_int_equal(whole.bytes[WEIGHTS_TOKENS], 2 * bf16(129280, 4096));
    assert_int_equal(whole.bytes[WEIGHTS_ATTENTION], 2 * flash_attention(0, 1) +
                                                         21 * flash_attention(4, 1) +
                                                         20 * flash_attention(128, 1));
    assert_int_equal(whole.bytes[WEIGHTS_OTHER], flash_other(1));
    assert_int_equal(whole.parameters / 10000000, 28433);       /* 284.33 B */
    assert_int_equal(whole.active_parameters / 10000000, 1327); /* 13.27 B */
}

static void test_flash_shares_of_ranks(void **state)
{
    (void)state;
    load_good("topology/examples/8-gpus.yaml");
    for (uint32_t tp = 2; tp <= 8; tp *= 2) {
        for (uint32_t rank = 0; rank < tp; rank++) {
            weight_bytes_t share = weight_bytes(&deployment.config, rank, tp);
            uint64_t expert = 2 * fp4(2048 / tp, 4096) + fp4(4096 / tp, 2048);
            assert_int_equal(share.bytes[WEIGHTS_EXPERTS], 43 * 256 * expert);
            assert_int_equal(share.bytes[WEIGHTS_TOKENS],
                             bf16(129280, 4096) + bf16(129280 / tp, 4096));
            assert_int_equal(share.bytes[WEIGHTS_ATTENTION], 2 * flash_attention(0, tp) +
                                                                 21 * flash_attention(4, tp) +
                                                                 20 * flash_attention(128, tp));
            assert_int_equal(share.bytes[WEIGHTS_OTHER], flash_other(tp));
        }
    }
}

static void test_flash_units_are_those_of_the_design(void **state)
{
    (void)state;
    load_good("topology/examples/8-gpus.yaml");
    uint64_t page = 21 * (37440 + 8448) + 20 * 1728;
    uint64_t border = 43 * 74880 + 21 * (4 * 2 * 512 + 4 * 2 * 128) * 4;
    assert_int_equal(page, 998208);
    assert_int_equal(deployment.geometry.unit_bytes[UNIT_HISTORY], page);
    assert_int_equal(deployment.geometry.unit_bytes[UNIT_BORDER], border);
    const deployment_group_t *prefill = deployment_group(&deployment, ACTOR_PREFILL, 0);
    const deployment_group_t *decode = deployment_group(&deployment, ACTOR_DECODE, 0);
    assert_int_equal(prefill->bytes.history, prefill->counts[UNIT_HISTORY] * page);
    assert_int_equal(prefill->bytes.borders, prefill->counts[UNIT_BORDER] * border);
    assert_int_equal(decode->counts[UNIT_BORDER], 0);
    /* As many pages as all slots can use, and page 0. */
    assert_int_equal(decode->counts[UNIT_HISTORY], 128 * 131072 / 256 + 1);
    /* Prefill fills its device up to the reserve: one more group of 16 pages has no room. */
    uint64_t total = deployment_bytes_total(&prefill->bytes), room = 141000000000ull / 1000 * 950;
    assert_true(total <= room);
    assert_true(total + 16 * page + border > room);
}

static void test_the_tiny_checkpoint_has_the_bytes_that_are_counted(void **state)
{
    (void)state;
    load_good("topology/examples/default.yaml");
    FILE *file = fopen("model/tiny/model.safetensors", "rb");
    uint64_t header;
    assert_non_null(file);
    assert_int_equal(fread(&header, sizeof(header), 1, file), 1);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    uint64_t stored = (uint64_t)ftell(file) - sizeof(header) - header;
    fclose(file);
    weight_bytes_t whole = weight_bytes(&deployment.config, 0, 1);
    assert_int_equal(weight_bytes_total(&whole), stored);
}

/* ---- capacity ----------------------------------------------------------------------------------- */

static char *print(void (*what)(const deployment_t *, FILE *))
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    what(&deployment, out);
    fclose(out);
    return text;
}

static void print_capacities(const deployment_t *d, FILE *out)
{
    plan_print_capacity(d, 1024, out);
    plan_print_capacity(d, 8192, out);
    plan_print_capacity(d, 300, out);
    deployment.topology.gateways[0].streams_max = 5;
    plan_print_capacity(d, 1024, out);
}

static void test_capacity_in_words(void **state)
{
    (void)state;
    load_good("topology/examples/8-devices.yaml"); /* 1023 pages to lease, 64 slots */
    char *text = print(print_capacities);
    assert_string_equal(text, "64 sessions at 1 K, limited by decode slots\n"
                              "31 sessions at 8 K, limited by decode pages\n"
                              "64 sessions at 300 tokens, limited by decode slots\n"
                              "5 sessions at 1 K, limited by gateway streams\n");
    free(text);
}

static void test_every_example_has_a_plan_that_repeats(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(examples); i++) {
        load_good(examples[i]);
        second = deployment;
        char *text = print(plan_print);
        load_good(examples[i]);
        char *again = print(plan_print);
        assert_memory_equal(&deployment, &second, sizeof(deployment));
        assert_string_equal(text, again);
        for (uint16_t a = 0; a < deployment.topology.actor_count; a++)
            if (deployment.topology.actors[a].kind != ACTOR_RANK ||
                deployment.topology.actors[a].rank == 0)
                assert_non_null(strstr(text, deployment.topology.actors[a].name));
        free(text);
        free(again);
    }
}

/* ---- graph -------------------------------------------------------------------------------------- */

typedef struct {
    bool route, foreign_step, own_step;
    uint32_t count;
} seen_t;

static void see(void *context, const graph_edge_t *edge)
{
    seen_t *seen = context;
    seen->count++;
    for (uint32_t i = 0; i < edge->count; i++) {
        bool step = strcmp(edge->messages[i], "step") == 0;
        seen->route |= strcmp(edge->messages[i], "route") == 0 &&
                       strcmp(edge->from, "gateway/0") == 0 && strcmp(edge->to, "scheduler/0") == 0;
        seen->own_step |= step && strcmp(edge->from, "prefill/0") == 0 &&
                          strcmp(edge->to, "prefill/0/rank/0-3") == 0;
        seen->foreign_step |=
            step && strcmp(edge->from, "prefill/0") == 0 && strncmp(edge->to, "decode", 6) == 0;
        assert_string_not_equal(edge->messages[i], "tick"); /* never on the wire */
    }
}

static void test_edges_follow_the_message_table(void **state)
{
    (void)state;
    seen_t seen = {0};
    load_good("topology/examples/unequal.yaml");
    graph_visit(&deployment.topology, see, &seen);
    assert_true(seen.route);
    assert_true(seen.own_step);
    assert_false(seen.foreign_step);
    assert_true(seen.count > 20);
}

/* ---- refused ------------------------------------------------------------------------------------ */

static void test_what_does_not_fit_the_model_is_refused_at_its_place(void **state)
{
    static const struct {
        const char *text;
        const char *error;
    } rows[] = {
        {"prefill: [{}]\ndecode:\n  - tp: 16\n",
         ":5:9: decode[0].tp: 16 ranks do not divide 8 heads\n"},
        {"prefill: [{tp: 3}]\ndecode: [{}]\n",
         ":3:16: prefill[0].tp: 3 ranks do not divide 8 heads\n"},
        {"prefill: [{}]\ndecode: [{pages: 100000}]\n", ":4:18: decode[0].pages: a rank needs 34"},
        {"prefill: [{pages: 512}]\ndecode: [{pages: 512}]\nhosts: [{memory: 90MiB}]\n"
         "limits: {context_tokens: 4096}\n",
         ":5:18: hosts[0].memory: 94.4 MB, but the ranks of 'local' need "},
        {"prefill: [{}]\ndecode: [{}]\nhosts: [{device_memory: 10MB}]\n",
         ":3:11: prefill[0].pages: auto: "},
        {"prefill: [{}]\ndecode: [{}]\nlimits: {context_tokens: 1048576}\n"
         "hosts: [{device_memory: 200MB}]\n",
         ":3:11: prefill[0].pages: auto: "},
    };
    (void)state;
    char path[] = "/tmp/lockstep-plan-XXXXXX";
    int descriptor = mkstemp(path);
    assert_true(descriptor >= 0);
    close(descriptor);
    char folder[PATH_BYTES_MAX];
    assert_non_null(getcwd(folder, sizeof(folder)));
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        fprintf(file, "lockstep: 1\nmodel: %s/model/tiny\n%s", folder, rows[i].text);
        fclose(file);
        assert_int_equal(deployment_load(path, &deployment, &errors), STATUS_BAD_CONFIG);
        char *text = NULL;
        size_t size = 0;
        FILE *out = open_memstream(&text, &size);
        topology_errors_print(&errors, out);
        fclose(out);
        if (strncmp(text, path, strlen(path)) != 0 || !strstr(text, rows[i].error))
            fail_msg("expected %s, found %s", rows[i].error, text);
        free(text);
    }
    unlink(path);
}

/* ---- commands ----------------------------------------------------------------------------------- */

static int run(const char *arguments)
{
    char line[512];
    snprintf(line, sizeof(line), LOCKSTEP_BINARY " %s >/dev/null 2>&1", arguments);
    int code = system(line);
    assert_true(WIFEXITED(code));
    return WEXITSTATUS(code);
}

static void test_exit_codes(void **state)
{
    (void)state;
    assert_int_equal(run("check topology/examples/*.yaml"), EXIT_OK);
    assert_int_equal(run("check --schema"), EXIT_OK);
    assert_int_equal(run("check"), EXIT_USAGE);
    assert_int_equal(run("check --what"), EXIT_USAGE);
    assert_int_equal(run("check nowhere.yaml"), EXIT_BAD_FILE);
    assert_int_equal(run("check topology/examples/default.yaml README.md"), EXIT_BAD_FILE);
    assert_int_equal(run("plan topology/examples/8-gpus.yaml"), EXIT_OK);
    assert_int_equal(run("plan --dot topology/examples/8-gpus.yaml"), EXIT_OK);
    assert_int_equal(run("plan --dot --json topology/examples/8-gpus.yaml"), EXIT_USAGE);
    assert_int_equal(run("plan a b"), EXIT_USAGE);
    assert_int_equal(run("plan nowhere.yaml"), EXIT_BAD_FILE);
}

static void test_json_says_what_the_plan_says(void **state)
{
    (void)state;
    load_good("topology/examples/8-gpus.yaml");
    char *text = print(plan_print_json);
    json_t *plan = json_loads(text, 0, NULL);
    assert_non_null(plan);
    assert_int_equal(json_array_size(json_object_get(plan, "actors")),
                     deployment.topology.actor_count);
    json_t *group = json_array_get(json_object_get(plan, "groups"), 1);
    assert_string_equal(json_string_value(json_object_get(group, "name")), "decode/0");
    assert_int_equal(
        json_integer_value(json_object_get(json_object_get(group, "rank_bytes"), "history")),
        deployment.decodes[0].bytes.history);
    json_decref(plan);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flash_has_the_bytes_of_its_shapes),
        cmocka_unit_test(test_flash_shares_of_ranks),
        cmocka_unit_test(test_flash_units_are_those_of_the_design),
        cmocka_unit_test(test_the_tiny_checkpoint_has_the_bytes_that_are_counted),
        cmocka_unit_test(test_capacity_in_words),
        cmocka_unit_test(test_every_example_has_a_plan_that_repeats),
        cmocka_unit_test(test_edges_follow_the_message_table),
        cmocka_unit_test(test_what_does_not_fit_the_model_is_refused_at_its_place),
        cmocka_unit_test(test_exit_codes),
        cmocka_unit_test(test_json_says_what_the_plan_says),
    };
    return cmocka_run_group_tests_name("plan", tests, NULL, NULL);
}

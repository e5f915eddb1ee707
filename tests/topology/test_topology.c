/* test_topology.c - the file form: what is refused and where, what is accepted and what it means. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/base/random.h"
#include "tests/topology/bad_files.h"
#include "topology/topology.h"
#include "topology/yaml.h"

static topology_t topology, second;
static topology_errors_t errors;

static const char *const examples[] = {
    "topology/examples/default.yaml", "topology/examples/tp2.yaml",
    "topology/examples/unequal.yaml", "topology/examples/8-devices.yaml",
    "topology/examples/8-gpus.yaml", "topology/examples/two-decodes.yaml",
};

static status_t parse(const char *text)
{
    return topology_parse(text, strlen(text), "dir/a file.yaml", &topology, &errors);
}

static void parse_good(const char *text)
{
    if (parse(text) != STATUS_OK) {
        topology_errors_print(&errors, stderr);
        fail_msg("refused: %s", text);
    }
    assert_int_equal(errors.count, 0);
}

/* The text of topology_print; the caller frees. */
static char *print_text(const topology_t *t)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    topology_print(t, out);
    fclose(out);
    return text;
}

static char *file_text(const char *path, size_t *size)
{
    char *text = malloc(TOPOLOGY_BYTES_MAX);
    FILE *file = fopen(path, "rb");
    assert_non_null(text);
    assert_non_null(file);
    *size = fread(text, 1, TOPOLOGY_BYTES_MAX, file);
    fclose(file);
    return text;
}

/* ---- refused ----------------------------------------------------------------------------------- */

static void test_each_bad_file_is_refused_at_its_place(void **state)
{
    (void)state;
    unsigned wrong = 0;
    for (size_t i = 0; i < COUNT_OF(bad_files); i++) {
        const bad_file_t *bad = &bad_files[i];
        memset(&topology, 0xA5, sizeof(topology));
        memset(&second, 0xA5, sizeof(second));
        status_t status = parse(bad->text);
        const topology_error_t *first = &errors.items[0];
        bool fits = status == STATUS_BAD_CONFIG && errors.count > 0 &&
                    first->at.line == bad->line && first->at.column == bad->column &&
                    strstr(first->text, bad->words) &&
                    (bad->count == 0 || errors.count == bad->count);
        if (!fits) {
            fprintf(stderr, "row %zu, expected %u:%u: %s\n%s", i, bad->line, bad->column,
                    bad->words, bad->text);
            topology_errors_print(&errors, stderr);
            wrong++;
        }
        assert_memory_equal(&topology, &second, sizeof(topology)); /* nothing was written */
    }
    assert_int_equal(wrong, 0);
}

static void test_all_errors_of_a_file_are_told_in_its_order(void **state)
{
    (void)state;
    assert_int_equal(
        topology_parse(several_bad, strlen(several_bad), "several.yaml", &topology, &errors),
        STATUS_BAD_CONFIG);
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    topology_errors_print(&errors, out);
    fclose(out);
    char *rest = text;
    for (size_t i = 0; i < COUNT_OF(several_bad_lines); i++)
        assert_string_equal(strsep(&rest, "\n"), several_bad_lines[i]);
    assert_string_equal(rest, "");
    free(text);
}

static void test_errors_are_bounded_and_the_rest_is_counted(void **state)
{
    (void)state;
    char text[4096] = HEAD GROUPS;
    for (int i = 0; i < 50; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "unknown_%d: 1\n", i);
    assert_int_equal(parse(text), STATUS_BAD_CONFIG);
    assert_int_equal(errors.count, TOPOLOGY_ERRORS_MAX);
    assert_int_equal(errors.dropped, 30);
}

static void test_control_signs_of_a_file_never_reach_the_terminal(void **state)
{
    (void)state;
    assert_int_equal(parse(HEAD GROUPS "\"a\\tb\\x7e\\tc\": 1\n"), STATUS_BAD_CONFIG);
    assert_non_null(strstr(errors.items[0].text, "a?b~?c"));
}

/* `count` times `piece`, behind a good file. */
static status_t parse_repeated(const char *piece, size_t count)
{
    size_t length = strlen(piece), used = strlen(HEAD GROUPS);
    char *text = malloc(used + count * length + 1);
    assert_non_null(text);
    memcpy(text, HEAD GROUPS, used);
    for (size_t i = 0; i < count; i++)
        memcpy(text + used + i * length, piece, length);
    status_t status = topology_parse(text, used + count * length, "big.yaml", &topology, &errors);
    free(text);
    return status;
}

static void test_bombs_are_refused_with_a_reason(void **state)
{
    static const struct {
        const char *piece;
        size_t count;
        const char *words;
    } bombs[] = {
        {"#\n", 1 << 20, "more than 262144 bytes"},
        {"x: [", 50000, "nested more than 8"},
        {"[", 100000, "expected ':'"},
        {"- ", 100000, "expected key"},
        {"a:\n ", 50000, ""},
        {"x: {a: {a: {a: {a: {a: {a: {a: {a: {a: 1}}}}}}}}}\n", 1, "nested more than 8"},
        {"? ", 100000, "a map cannot be a key"},
        {"a: ", 80000, "begin a new line"},
        {"\"", 200000, "expected ':'"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(bombs); i++) {
        assert_int_equal(parse_repeated(bombs[i].piece, bombs[i].count), STATUS_BAD_CONFIG);
        if (!strstr(errors.items[0].text, bombs[i].words))
            fail_msg("bomb %zu: %s", i, errors.items[0].text);
    }
    /* A list of many values: the tree is bounded. */
    char *list = malloc(TOPOLOGY_BYTES_MAX);
    size_t used = (size_t)snprintf(list, TOPOLOGY_BYTES_MAX, "x: [");
    for (int i = 0; i < 100000; i++) {
        list[used++] = '1';
        list[used++] = ',';
    }
    assert_int_equal(topology_parse(list, used, "many.yaml", &topology, &errors),
                     STATUS_BAD_CONFIG);
    assert_non_null(strstr(errors.items[0].text, "more than 8192 values"));
    free(list);
}

static void test_a_file_that_is_not_there_says_so(void **state)
{
    (void)state;
    assert_int_equal(topology_load("topology/none.yaml", &topology, &errors), STATUS_BAD_CONFIG);
    assert_non_null(strstr(errors.items[0].text, "No such file"));
    assert_int_equal(topology_load("topology", &topology, &errors), STATUS_BAD_CONFIG);
    assert_non_null(strstr(errors.items[0].text, "directory"));
}

/* ---- accepted ---------------------------------------------------------------------------------- */

static void test_four_lines_are_a_deployment(void **state)
{
    (void)state;
    parse_good(HEAD GROUPS);
    assert_string_equal(topology.name, "a-file");
    assert_string_equal(topology.model_path, "dir/m");
    assert_string_equal(topology.served_name, "m");
    assert_int_equal(topology.host_count, 1);
    assert_string_equal(topology.hosts[0].name, "local");
    assert_int_equal(topology.hosts[0].devices, 2);
    assert_int_equal(topology.gateway_count, 1);
    assert_string_equal(topology.gateways[0].listen, "127.0.0.1");
    assert_int_equal(topology.gateways[0].port, 8000);
    assert_int_equal(topology.context_tokens, 32768);
    assert_int_equal(topology.request_timeout_ms, 0);
    assert_int_equal(topology.drain_timeout_ms, 30000);
    assert_int_equal(topology.stall_timeout_ms, 60000);
    assert_int_equal(topology.index_form, TOPOLOGY_INDEX_FP4);
    assert_int_equal(topology.prefills[0].slots, 16);
    assert_int_equal(topology.decodes[0].slots, 64);
    assert_int_equal(topology.decodes[0].devices[0], 1);
    assert_int_equal(topology.decodes[0].tp_at.line, 4);
    assert_int_equal(topology.decodes[0].tp_at.column, 15);
}

static void test_styles_of_yaml_mean_the_same(void **state)
{
    static const char *const styles[] = {
        "lockstep: 1\nmodel: m\nprefill:\n- tp: 2\n  slots: 3\ndecode:\n- {}\n",
        "---\n# c\nlockstep: 1 # c\nmodel: 'm'\nprefill:\n  -\n    tp: 2\n    slots: 3\ndecode:\n  "
        "- tp: 1\n",
        "\xEF\xBB\xBF{lockstep: 1, \"model\":\"m\", prefill: [{tp: 2,\n slots: 3,}], # c\n\n "
        "decode: [{ }]}",
        "lockstep: 1\r\nmodel: \"m\"\r\nprefill:\r\n  - slots: 3\r\n    tp: 2\r\ndecode: [\r\n  "
        "{}\r\n]\r\n",
        "decode:\n  - count: 1\nprefill: [{slots: 3, 'tp' : 2}]\nmodel: \"\\x6d\"\nlockstep: 1",
    };
    (void)state;
    parse_good(styles[0]);
    uint64_t version = topology.version;
    for (size_t i = 1; i < COUNT_OF(styles); i++) {
        parse_good(styles[i]);
        assert_int_equal(topology.version, version);
    }
    parse_good("lockstep: 1\nmodel: m\nprefill:\n- tp: 2\n  slots: 4\ndecode:\n- {}\n");
    assert_int_not_equal(topology.version, version);
}

static void test_units(void **state)
{
    static const struct {
        const char *memory;
        uint64_t bytes;
    } rows[] = {{"8GiB", 8ull << 30},
                {"141GB", 141000000000ull},
                {"1536 MiB", 1536ull << 20},
                {"4194304B", 4194304},
                {"1TB", 1000000000000ull}};
    char text[256];
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        snprintf(text, sizeof(text), HEAD GROUPS "hosts: [{device_memory: %s}]\n", rows[i].memory);
        parse_good(text);
        assert_int_equal(topology.hosts[0].device_bytes, rows[i].bytes);
    }
    parse_good(HEAD GROUPS "limits: {drain_timeout: 1500ms}\n");
    assert_int_equal(topology.drain_timeout_ms, 1500);
    parse_good(HEAD GROUPS "thinking: on\n");
    assert_int_equal(topology.thinking, 1);
    parse_good(HEAD GROUPS);
    assert_int_equal(topology.thinking, 0);
    parse_good(HEAD GROUPS "limits: {request_timeout: 10m}\n");
    assert_int_equal(topology.request_timeout_ms, 600000);
    parse_good(HEAD GROUPS "limits: {request_timeout: none}\n");
    assert_int_equal(topology.request_timeout_ms, 0);
    parse_good(HEAD GROUPS "limits: {drain_timeout: 0, stall_timeout: 5m}\n");
    assert_int_equal(topology.drain_timeout_ms, 0);
    assert_int_equal(topology.stall_timeout_ms, 300000);
}

static void test_the_canonical_form_reads_back_as_the_same_deployment(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(examples); i++) {
        assert_int_equal(topology_load(examples[i], &topology, &errors), STATUS_OK);
        char *text = print_text(&topology);
        assert_int_equal(topology_parse(text, strlen(text), examples[i], &second, &errors),
                         STATUS_OK);
        char *again = print_text(&second);
        assert_string_equal(text, again);
        assert_int_equal(topology.version, second.version);
        assert_memory_equal(topology.actors, second.actors, sizeof(topology.actors));
        free(text);
        free(again);
    }
}

static void test_a_count_stands_for_equal_entries(void **state)
{
    (void)state;
    parse_good(HEAD "prefill: [{count: 2, tp: 2}, {tp: 1}]\ndecode: [{count: 3, slots: 7}]\n"
                    "transfer: [{count: 4}]\n");
    assert_int_equal(topology.prefill_count, 3);
    assert_int_equal(topology.prefills[1].tp, 2);
    assert_int_equal(topology.prefills[2].tp, 1);
    assert_int_equal(topology.decode_count, 3);
    assert_int_equal(topology.decodes[2].slots, 7);
    assert_int_equal(topology.transfer_count, 4);
    assert_int_equal(topology.hosts[0].devices, 2 + 2 + 1 + 3);
}

/* ---- actors ------------------------------------------------------------------------------------ */

static void test_the_actor_table_and_its_look_ups(void **state)
{
    (void)state;
    parse_good(HEAD "hosts: [{name: a, devices: 4}, {name: b, devices: 4}]\n"
                    "prefill: [{tp: 2, host: b}]\ndecode: [{tp: 4, host: a}, {tp: 2}]\n");
    assert_int_equal(topology.actor_count, 2 + 1 + 1 + 1 + 3 + 5 + 3 + 1);
    assert_string_equal(topology.actors[0].name, "supervisor/0");
    assert_int_equal(topology.actors[0].host, 0);
    for (uint16_t i = 0; i < topology.actor_count; i++) {
        const topology_actor_t *actor = &topology.actors[i];
        assert_int_equal(actor->id, i);
        assert_ptr_equal(topology_actor_by_name(&topology, actor->name), actor);
        if (actor->kind != ACTOR_RANK)
            assert_ptr_equal(topology_actor(&topology, actor->kind, actor->instance), actor);
    }
    const topology_actor_t *rank = topology_rank(&topology, ACTOR_DECODE, 0, 3);
    assert_string_equal(rank->name, "decode/0/rank/3");
    assert_int_equal(rank->device, 3);
    assert_string_equal(topology.actors[rank->leader].name, "decode/0");
    rank = topology_rank(&topology, ACTOR_DECODE, 1, 1);
    assert_int_equal(rank->host, 1);
    assert_int_equal(rank->device, 3);
    assert_null(topology_rank(&topology, ACTOR_DECODE, 1, 2));
    assert_null(topology_rank(&topology, ACTOR_GATEWAY, 0, 0));
    assert_null(topology_actor(&topology, ACTOR_DECODE, 2));
    assert_null(topology_actor_by_name(&topology, "decode/7"));
    assert_int_equal(topology_count(&topology, ACTOR_DECODE), 2);
}

static void test_placing_is_large_first_lowest_free_and_repeatable(void **state)
{
    static const char text[] = HEAD "hosts: [{name: a, devices: 9}, {name: b, devices: 4}]\n"
                                    "prefill: [{tp: 1}, {tp: 4}]\ndecode: [{tp: 4}, {tp: 2, host: "
                                    "b, devices: [3, 1]}, {tp: 2}]\n";
    (void)state;
    parse_good(text);
    second = topology;
    parse_good(text);
    assert_memory_equal(&topology, &second, sizeof(topology));
    assert_int_equal(topology.prefills[1].devices[0],
                     0); /* four ranks first, prefill before decode */
    assert_int_equal(topology.decodes[0].devices[0], 4);
    assert_int_equal(topology.decodes[0].host, 0);
    assert_int_equal(topology.decodes[1].devices[0], 3); /* as stated */
    assert_int_equal(topology.decodes[2].host, 1);       /* the lowest free of what is left */
    assert_int_equal(topology.decodes[2].devices[0], 0);
    assert_int_equal(topology.decodes[2].devices[1], 2);
    assert_int_equal(topology.prefills[0].host, 0);
    assert_int_equal(topology.prefills[0].devices[0], 8);
}

/* Random deployments: no device has two ranks, every rank has one, groups stay on one host. */
static void test_placing_gives_every_rank_its_own_device(void **state)
{
    random_t random;
    unsigned placed = 0;
    (void)state;
    random_init(&random, 7);
    for (int round = 0; round < 300; round++) {
        char text[1024];
        size_t used = (size_t)snprintf(text, sizeof(text), HEAD "hosts:\n");
        uint64_t hosts = 1 + random_below(&random, 4);
        for (uint64_t h = 0; h < hosts; h++)
            used += (size_t)snprintf(text + used, sizeof(text) - used,
                                     "  - {name: h%llu, devices: %llu}\n", (unsigned long long)h,
                                     (unsigned long long)(4 + random_below(&random, 9)));
        for (int kind = 0; kind < 2; kind++) {
            used += (size_t)snprintf(text + used, sizeof(text) - used,
                                     kind ? "decode:\n" : "prefill:\n");
            for (uint64_t g = 1 + random_below(&random, 4); g > 0; g--)
                used += (size_t)snprintf(text + used, sizeof(text) - used, "  - tp: %u\n",
                                         1u << random_below(&random, 4));
        }
        if (parse(text) != STATUS_OK) {
            assert_non_null(strstr(errors.items[0].text, "left"));
            continue;
        }
        placed++;
        uint16_t owner[HOSTS_MAX][DEVICES_MAX] = {{0}};
        for (uint16_t i = 0; i < topology.actor_count; i++) {
            const topology_actor_t *actor = &topology.actors[i];
            if (actor->kind != ACTOR_RANK)
                continue;
            assert_true(actor->device < topology.hosts[actor->host].devices);
            assert_int_equal(owner[actor->host][actor->device]++, 0);
            assert_int_equal(actor->host, topology.actors[actor->leader].host);
        }
    }
    assert_true(placed > 50);
}

/* ---- everything else ---------------------------------------------------------------------------- */

static void test_the_documentation_has_the_keys_of_the_parser(void **state)
{
    (void)state;
    size_t size = 0, doc_size = 0;
    char *text = NULL;
    FILE *out = open_memstream(&text, &size);
    topology_schema_print(out);
    fclose(out);
    char *doc = file_text("docs/topology.md", &doc_size);
    doc[doc_size < TOPOLOGY_BYTES_MAX ? doc_size : TOPOLOGY_BYTES_MAX - 1] = '\0';
    if (!strstr(doc, text))
        fail_msg("docs/topology.md is stale: put the output of `lockstep check --schema` into it");
    free(text);
    free(doc);
}

/* Whatever happens to a good file, it is read or refused with a place, and never written past. */
static void test_damaged_examples_are_read_or_refused_with_a_place(void **state)
{
    static const char signs[] = "\n :-[]{}&*!#%@`\"'|>?,\t\\~0";
    random_t random;
    unsigned refused = 0, read = 0;
    (void)state;
    random_init(&random, 1);
    for (size_t e = 0; e < COUNT_OF(examples); e++) {
        size_t size;
        char *good = file_text(examples[e], &size);
        for (int round = 0; round < 1500; round++) {
            size_t length = size;
            char *bad = malloc(size); /* exact, so that a sanitizer sees a read behind it */
            memcpy(bad, good, size);
            for (uint64_t flips = random_below(&random, 4); flips > 0; flips--)
                bad[random_below(&random, size)] =
                    random_below(&random, 3) ? signs[random_below(&random, sizeof(signs) - 1)]
                                             : (char)random_below(&random, 256);
            if (random_below(&random, 3) == 0) {
                length = random_below(&random, size + 1);
                bad = realloc(bad, length ? length : 1);
            }
            if (topology_parse(bad, length, "f.yaml", &topology, &errors) == STATUS_OK) {
                read++;
            } else {
                refused++;
                assert_true(errors.count > 0);
                for (uint32_t i = 0; i < errors.count; i++)
                    assert_true(errors.items[i].text[0] != '\0');
            }
            free(bad);
        }
        free(good);
    }
    assert_true(refused > 1000);
    assert_true(read > 500);
}

static void test_every_truncation_of_an_example(void **state)
{
    (void)state;
    size_t size;
    char *good = file_text(examples[3], &size);
    for (size_t length = 0; length <= size; length++) {
        char *cut = malloc(length ? length : 1);
        memcpy(cut, good, length);
        if (topology_parse(cut, length, "f.yaml", &topology, &errors) != STATUS_OK)
            assert_true(errors.count > 0);
        free(cut);
    }
    free(good);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_bad_file_is_refused_at_its_place),
        cmocka_unit_test(test_all_errors_of_a_file_are_told_in_its_order),
        cmocka_unit_test(test_errors_are_bounded_and_the_rest_is_counted),
        cmocka_unit_test(test_control_signs_of_a_file_never_reach_the_terminal),
        cmocka_unit_test(test_bombs_are_refused_with_a_reason),
        cmocka_unit_test(test_a_file_that_is_not_there_says_so),
        cmocka_unit_test(test_four_lines_are_a_deployment),
        cmocka_unit_test(test_styles_of_yaml_mean_the_same),
        cmocka_unit_test(test_units),
        cmocka_unit_test(test_the_canonical_form_reads_back_as_the_same_deployment),
        cmocka_unit_test(test_a_count_stands_for_equal_entries),
        cmocka_unit_test(test_the_actor_table_and_its_look_ups),
        cmocka_unit_test(test_placing_is_large_first_lowest_free_and_repeatable),
        cmocka_unit_test(test_placing_gives_every_rank_its_own_device),
        cmocka_unit_test(test_the_documentation_has_the_keys_of_the_parser),
        cmocka_unit_test(test_damaged_examples_are_read_or_refused_with_a_place),
        cmocka_unit_test(test_every_truncation_of_an_example),
    };
    return cmocka_run_group_tests_name("topology", tests, NULL, NULL);
}

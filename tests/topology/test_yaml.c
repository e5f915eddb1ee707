/* test_yaml.c - the tree that yaml.c makes of libyaml's events, and what hostile bytes cost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "topology/yaml.h"

static yaml_tree_t tree;
static topology_errors_t errors;

/* The tree as one line: lists in [], maps in {}, values in <>, values in quotes in "", nothing
 * as ~. */
static void write_node(uint32_t node, FILE *out)
{
    const yaml_tree_node_t *n = &tree.nodes[node];
    if (n->kind == YAML_NULL)
        fputs("~", out);
    if (n->kind == YAML_SCALAR)
        fprintf(out, n->quoted ? "\"%s\"" : "<%s>", yaml_text(&tree, n->text));
    if (n->kind != YAML_LIST && n->kind != YAML_MAP)
        return;
    fputc(n->kind == YAML_LIST ? '[' : '{', out);
    for (uint32_t i = n->first; i != YAML_NONE; i = tree.nodes[i].next) {
        if (n->kind == YAML_MAP)
            fprintf(out, "%s=", yaml_text(&tree, tree.nodes[i].key));
        write_node(i, out);
        fputs(tree.nodes[i].next != YAML_NONE ? " " : "", out);
    }
    fputc(n->kind == YAML_LIST ? ']' : '}', out);
}

/* Reads an exact copy, so that a sanitizer sees a read behind it. True if it is accepted; a refused
 * text has exactly one error, with words and a place in the text, or 0:0 if that is the whole. */
static bool read_copy(const char *text, size_t size)
{
    char *copy = malloc(size ? size : 1);
    assert_non_null(copy);
    memcpy(copy, text, size);
    memset(&errors, 0, sizeof(errors));
    status_t status = yaml_read(copy, size, &tree, &errors);
    free(copy);
    if (status == STATUS_OK) {
        assert_int_equal(errors.count, 0);
        assert_true(tree.count > 0);
        return true;
    }
    assert_int_equal(status, STATUS_BAD_CONFIG);
    assert_int_equal(errors.count, 1);
    const topology_error_t *error = &errors.items[0];
    /* To libyaml the end is a line of its own, and so is what follows NEL, LS and PS, as in YAML
     * 1.1. */
    uint32_t lines = 2;
    for (size_t i = 0; i < size; i++)
        lines += memchr("\n\r\x85\xA8\xA9", text[i], 5) != NULL;
    assert_true(error->text[0] != '\0');
    assert_true(error->at.line <= lines);
    assert_true((error->at.line == 0) == (error->at.column == 0));
    if (error->at.line == 0 && !strstr(error->text, "empty"))
        fail_msg("an error without a place: %s", error->text);
    return false;
}

static void test_texts_and_their_trees(void **state)
{
    static const char *const rows[][2] = {
        {"a", "<a>"},
        {"a: b", "{a=<b>}"},
        {"a: \n  b\n", "{a=<b>}"},
        {"'a': \"b c\"  # d\n", "{a=\"b c\"}"},
        {"a:\n- b\n- e: f\n  g: h\nb: {}\nc:\n  -\n  - - c\n    - d\n",
         "{a=[<b> {e=<f> g=<h>}] b={} c=[~ [<c> <d>]]}"},
        {"a:\n  - b:\n    - c\n  -   d: e\n      f: g\n", "{a=[{b=[<c>]} {d=<e> f=<g>}]}"},
        {"{a: [b, c, ], \"d\":e, f: , 'g' : {h: [[i]]},}\n",
         "{a=[<b> <c>] d=<e> f=~ g={h=[[<i>]]}}"},
        {"[a,\n  b,   # c\n\n c]\n", "[<a> <b> <c>]"},
        {"a: b#c\nd: e # f\ng: 'it''s'\nh: \"x\\ty\\\\z\\x41\\u00e4\"\n",
         "{a=<b#c> d=<e> g=\"it's\" h=\"x\ty\\zA\xC3\xA4\"}"},
        {"a: http://x:80/y\nb: -1\nc: a-b\nd: ?x\ne: :x\n",
         "{a=<http://x:80/y> b=<-1> c=<a-b> d=<?x> e=<:x>}"},
        {"---\na: ~\nb: null\nc: ''\nd:\ne: 'null'\n", "{a=~ b=~ c=\"\" d=~ e=\"null\"}"},
        {"# c\n\n---  # d\n\na: b\n\n\n...\n", "{a=<b>}"},
        {"a: b\r\nc:\r\n  - d\r\n", "{a=<b> c=[<d>]}"},
        {"'a: b': c\n\"d\" : e\n", "{a: b=<c> d=<e>}"},
        {"\xEF\xBB\xBF"
         "a: \xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80\n",
         "{a=<\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80>}"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        if (!read_copy(rows[i][0], strlen(rows[i][0])))
            fail_msg("refused: %s: %s", rows[i][0], errors.items[0].text);
        char *line = NULL;
        size_t size = 0;
        FILE *out = open_memstream(&line, &size);
        assert_non_null(out);
        write_node(0, out);
        fclose(out);
        assert_string_equal(line, rows[i][1]);
        free(line);
    }
}

static void test_places_count_characters_from_1(void **state)
{
    static const char text[] = "\xEF\xBB\xBF"
                               "a: 1\n\xC3\xA4\xC3\xB6: [x,\n  {b: 2}]\n";
    (void)state;
    assert_true(read_copy(text, sizeof(text) - 1));
    static const topology_mark_t places[][2] = {
        /* of the value, of its key */
        {{1, 1}, {0, 0}}, {{1, 4}, {1, 1}}, {{2, 5}, {2, 1}},
        {{2, 6}, {0, 0}}, {{3, 3}, {0, 0}}, {{3, 7}, {3, 4}},
    };
    assert_int_equal(tree.count, COUNT_OF(places));
    for (size_t i = 0; i < COUNT_OF(places); i++) {
        assert_memory_equal(&tree.nodes[i].at, &places[i][0], sizeof(topology_mark_t));
        assert_memory_equal(&tree.nodes[i].key_at, &places[i][1], sizeof(topology_mark_t));
    }
}

/* ---- hostile --------------------------------------------------------------------------------- */

/* Returns the size; at most `room`. */
static size_t example_text(const char *path, char *text, size_t room)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t size = fread(text, 1, room, file);
    assert_true(size > 0 && size < room);
    fclose(file);
    return size;
}

static void test_every_truncation_and_flipped_bit_of_the_examples(void **state)
{
    static const char *const examples[] = {
        "topology/examples/default.yaml", "topology/examples/tp2.yaml",
        "topology/examples/unequal.yaml", "topology/examples/8-devices.yaml",
        "topology/examples/8-gpus.yaml",
    };
    static char text[16384];
    unsigned accepted = 0, refused = 0;
    (void)state;
    for (size_t e = 0; e < COUNT_OF(examples); e++) {
        size_t size = example_text(examples[e], text, sizeof(text));
        assert_true(read_copy(text, size));
        for (size_t length = 0; length < size; length++)
            read_copy(text, length) ? accepted++ : refused++;
        for (size_t bit = 0; bit < 8 * size; bit++) {
            text[bit / 8] = (char)(text[bit / 8] ^ 1 << bit % 8);
            read_copy(text, size) ? accepted++ : refused++;
            text[bit / 8] = (char)(text[bit / 8] ^ 1 << bit % 8);
        }
    }
    assert_true(accepted > 1000);
    assert_true(refused > 1000);
}

/* As many bytes as a file may have, of what makes a parser nest, look ahead or grow. */
static void test_a_file_full_of_one_piece(void **state)
{
    /* clang-format off */
    static const char *const pieces[] = {
        "[", "{", "]", "}", "- ", "? ", ": ", ",", "a: ", "\"", "'", "|", ">", "|\n ", "&a ", "*a ",
        "!a ", "%", "#", "\n", "\r", "\t", " ", "-\n", "a\n", "a:\n ", "a ", "[a", "{a: ", "[\n",
        "{\n", "[a, ", "[{", "[a: ", "? a\n", "- a\n", "\\", "---\n", "...\n", "\"\\L\" ", "!<",
        "\xEF\xBB\xBF", "a: &a\n", "{\"a\":", "? - ", "\xC2\x85", "\xE2\x80\xA8", "%TAG ! a\n",
    };
    /* clang-format on */
    static char text[TOPOLOGY_BYTES_MAX];
    static const char *const heads[] = {"", "a: ", "a: [", "a: \"", "a:\n  - ", "a: |\n  "};
    (void)state;
    for (size_t h = 0; h < COUNT_OF(heads); h++) {
        for (size_t p = 0; p < COUNT_OF(pieces); p++) {
            size_t used = strlen(heads[h]), length = strlen(pieces[p]);
            memcpy(text, heads[h], used);
            for (; used + length <= sizeof(text); used += length)
                memcpy(text + used, pieces[p], length);
            read_copy(text, used);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts_and_their_trees),
        cmocka_unit_test(test_places_count_characters_from_1),
        cmocka_unit_test(test_every_truncation_and_flipped_bit_of_the_examples),
        cmocka_unit_test(test_a_file_full_of_one_piece),
    };
    return cmocka_run_group_tests_name("yaml", tests, NULL, NULL);
}

/* test_yaml.c - what yaml.c reads means what libfyaml reads.
 *
 * Only texts that yaml.c accepts go to libfyaml: from some others it never returns (yaml.h).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <libfyaml.h>

#include "runtime/base/random.h"
#include "topology/yaml.h"

static yaml_tree_t tree;
static topology_errors_t errors;

/* Both sides are written as one line: lists in [], maps in {}, values in <>, nothing as ~. */
static void write_node(uint32_t node, FILE *out)
{
    const yaml_node_t *n = &tree.nodes[node];
    if (n->kind == YAML_NULL)
        fputs("~", out);
    if (n->kind == YAML_SCALAR)
        fprintf(out, "<%s>", yaml_text(&tree, n->text));
    if (n->kind != YAML_LIST && n->kind != YAML_MAP)
        return;
    fputc(n->kind == YAML_LIST ? '[' : '{', out);
    for (uint32_t i = n->first; i != YAML_NONE; i = tree.nodes[i].next) {
        if (n->kind == YAML_MAP)
            fprintf(out, "<%s>=", yaml_text(&tree, tree.nodes[i].key));
        write_node(i, out);
        fputc(' ', out);
    }
    fputc(n->kind == YAML_LIST ? ']' : '}', out);
}

static void write_scalar(struct fy_event *event, bool key, FILE *out)
{
    size_t length = 0;
    struct fy_token *token = event->scalar.value;
    const char *text = token ? fy_token_get_text(token, &length) : "";
    bool plain = !token || fy_token_scalar_style(token) == FYSS_PLAIN;
    bool null = plain && (length == 0 || (length == 1 && text[0] == '~') ||
                          (length == 4 && memcmp(text, "null", 4) == 0));
    if (null && !key)
        fputs("~", out);
    else
        fprintf(out, "<%.*s>", (int)length, text);
    fputc(key ? '=' : ' ', out);
}

static void write_nothing(struct fy_diag *diag, void *user, const char *text, size_t size)
{
    (void)diag, (void)user, (void)text, (void)size;
}

/* False if libfyaml refuses the text. */
static bool write_events(const char *text, size_t size, FILE *out)
{
    const struct fy_diag_cfg silent = {.output_fn = write_nothing, .level = FYET_ERROR};
    struct fy_diag *diag = fy_diag_create(&silent);
    const struct fy_parse_cfg config = {
        .flags = FYPCF_QUIET | FYPCF_DEFAULT_VERSION_1_2 | FYPCF_JSON_NONE, .diag = diag};
    struct fy_parser *parser = fy_parser_create(&config);
    assert_non_null(parser);
    assert_int_equal(fy_parser_set_string(parser, text, size), 0);
    bool maps[TOPOLOGY_DEPTH_MAX + 1] = {false}, keys[TOPOLOGY_DEPTH_MAX + 1] = {false};
    uint32_t depth = 0;
    struct fy_event *event;
    while ((event = fy_parser_parse(parser)) != NULL) {
        bool opens = event->type == FYET_MAPPING_START || event->type == FYET_SEQUENCE_START;
        bool closes = event->type == FYET_MAPPING_END || event->type == FYET_SEQUENCE_END;
        if (opens) {
            keys[depth] = maps[depth];
            depth++;
            assert_true(depth <= TOPOLOGY_DEPTH_MAX);
            keys[depth] = maps[depth] = event->type == FYET_MAPPING_START;
            fputc(maps[depth] ? '{' : '[', out);
        } else if (closes) {
            fputs(maps[depth] ? "} " : "] ", out);
            depth--;
        } else if (event->type == FYET_SCALAR) {
            write_scalar(event, keys[depth], out);
            keys[depth] = maps[depth] && !keys[depth];
        }
        fy_parser_event_free(parser, event);
    }
    bool good = !fy_parser_get_stream_error(parser);
    fy_parser_destroy(parser);
    fy_diag_destroy(diag);
    return good;
}

static unsigned compared;

/* True if yaml.c accepts the text; then libfyaml must read the same, or refuse it: there is valid
 * YAML that it does not take, for example "-" alone on a line in front of "- - a". */
static bool same(const char *text, size_t size)
{
    memset(&errors, 0, sizeof(errors));
    if (yaml_read(text, size, &tree, &errors) != STATUS_OK)
        return false;
    char *ours = NULL, *theirs = NULL;
    size_t ours_size = 0, theirs_size = 0;
    FILE *out = open_memstream(&ours, &ours_size);
    write_node(0, out);
    fputc(' ', out);
    fclose(out);
    out = open_memstream(&theirs, &theirs_size);
    bool good = write_events(text, size, out);
    fclose(out);
    compared += good;
    if (good && strcmp(ours, theirs) != 0)
        fail_msg("%.*s\nyaml.c   %s\nlibfyaml %s", (int)size, text, ours, theirs);
    free(ours);
    free(theirs);
    return true;
}

static void test_hand_written_texts(void **state)
{
    static const char *const texts[] = {
        "a",
        "a: b",
        "a: \n  b\n",
        "'a': \"b c\"  # d\n",
        "a:\n- b\n- e: f\n  g: h\nb: {}\nc:\n  -\n  - - c\n    - d\n",
        "a:\n  - b:\n    - c\n  -   d: e\n      f: g\n",
        "{a: [b, c, ], \"d\":e, f: , 'g' : {h: [[i]]},}\n",
        "[a,\n  b,   # c\n\n c]\n",
        "a: b#c\nd: e # f\ng: 'it''s'\nh: \"x\\ty\\\\z\\x41\"\n",
        "a: http://x:80/y\nb: -1\nc: a-b\nd: ?x\ne: :x\n",
        "---\na: ~\nb: null\nc: ''\nd:\ne: 'null'\n",
        "# c\n\n---  # d\n\na: b\n\n\n",
        "a: b\r\nc:\r\n  - d\r\n",
        "'a: b': c\n\"d\" : e\n",
        "a: \xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80\n",
    };
    (void)state;
    compared = 0;
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        if (!same(texts[i], strlen(texts[i])))
            fail_msg("refused: %s: %s", texts[i], errors.items[0].text);
        if (compared != i + 1)
            fail_msg("libfyaml refuses %s", texts[i]);
    }
}

/* A random tree, written in a random mix of styles. */
typedef struct {
    random_t random;
    char text[65536];
    size_t used;
} writer_t;

static void put(writer_t *w, const char *text)
{
    w->used += (size_t)snprintf(w->text + w->used, sizeof(w->text) - w->used, "%s", text);
    assert_true(w->used < sizeof(w->text));
}

static bool chance(writer_t *w, uint64_t of)
{
    return random_below(&w->random, of) == 0;
}

static void put_scalar(writer_t *w)
{
    static const char *const scalars[] = {"a",    "8GiB",     "'x y'", "\"q\\\"r\"", "1",   "a b",
                                          "\"\"", "'it''s'",  "x:y",   "a#b",        "-7",  "~",
                                          "../m", "\"# no\"", "'[x]'", "null",       "b-c", "?z"};
    put(w, scalars[random_below(&w->random, COUNT_OF(scalars))]);
}

static void put_key(writer_t *w, uint32_t number)
{
    char key[32];
    static const char *const forms[] = {"key%u", "'k %u'", "\"k%u\"", "k-%u"};
    snprintf(key, sizeof(key), forms[random_below(&w->random, COUNT_OF(forms))], number);
    put(w, key);
    put(w, chance(w, 8) ? " :" : ":");
}

static void put_flow(writer_t *w, uint32_t depth)
{
    uint64_t kind = depth >= 5 ? 0 : random_below(&w->random, 3);
    if (kind == 0) {
        put_scalar(w);
        return;
    }
    put(w, kind == 1 ? "[" : "{");
    uint64_t count = random_below(&w->random, 4);
    for (uint32_t i = 0; i < count; i++) {
        if (kind == 2) {
            put_key(w, i);
            put(w, " ");
        }
        put_flow(w, depth + 1);
        put(w, i + 1 < count ? (chance(w, 6) ? ",  # c\n            " : ", ") : "");
    }
    put(w, kind == 1 ? "]" : "}");
}

static void put_indent(writer_t *w, uint32_t indent)
{
    if (chance(w, 8))
        put(w, chance(w, 2) ? "\n" : "   # a comment\n");
    for (uint32_t i = 0; i < indent; i++)
        put(w, " ");
}

/* Entries of one block, each on a line of its own at `indent`; the first is indented already. */
static void put_block(writer_t *w, uint32_t indent, uint32_t depth)
{
    bool list = chance(w, 2);
    uint64_t count = 1 + random_below(&w->random, 4);
    for (uint32_t i = 0; i < count; i++) {
        if (i > 0)
            put_indent(w, indent);
        if (list)
            put(w, "-");
        else
            put_key(w, i);
        bool deeper = depth < 4 && chance(w, 3);
        if (deeper && list) {
            put(w, " ");
            put_block(w, indent + 2, depth + 1);
            continue;
        }
        if (deeper) {
            uint32_t inner = indent + 1 + (uint32_t)random_below(&w->random, 3);
            put(w, chance(w, 4) ? "  # c\n" : "\n");
            for (uint32_t k = 0; k < inner; k++)
                put(w, " ");
            put_block(w, inner, depth + 1);
            continue;
        }
        if (!chance(w, 10)) {
            put(w, " ");
            put_flow(w, depth + 1);
        }
        put(w, chance(w, 8) ? " # c\n" : "\n");
    }
}

static void test_random_texts(void **state)
{
    static writer_t w;
    (void)state;
    compared = 0;
    random_init(&w.random, 11);
    for (int round = 0; round < 3000; round++) {
        w.used = 0;
        put_block(&w, 0, 1);
        if (!same(w.text, w.used))
            fail_msg("refused: %u:%u %s\n%s", errors.items[0].at.line, errors.items[0].at.column,
                     errors.items[0].text, w.text);
        /* Damage: whatever is still read is read alike. */
        static const char signs[] = "\n :-[]{},#'\"";
        for (int flips = 0; flips < 3; flips++) {
            w.text[random_below(&w.random, w.used)] =
                signs[random_below(&w.random, sizeof(signs) - 1)];
            same(w.text, w.used);
        }
    }
    assert_true(compared > 3300);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hand_written_texts),
        cmocka_unit_test(test_random_texts),
    };
    return cmocka_run_group_tests_name("yaml", tests, NULL, NULL);
}

/* options.c - see options.h. */
#include "cli/options.h"

#include <string.h>

#include "runtime/base/check.h"
#include "topology/schema.h"

/* `run` and `verify`: a model in this process. */
#define LOCAL_OPTIONS                                                                              \
    {"--cache", "FORM", "fp8", "form of cached rows: float32, bf16, fp8 or fp8i8"},                \
        {"--tp", "N", "1", "ranks that share the model"},                                          \
        {"--chunk", "N", "512", "tokens of a prompt that one step takes"},                         \
        {"--threads", "N", "this machine's cores over the ranks", "threads of each rank"}

static const command_options_t rows[] = {
    {"check", "FILE...", 0, COMMAND_WORDS_ANY, false,
     {{"--schema", NULL, NULL, "print all keys of a topology file instead, as docs/topology.md"}}},
    {"plan", "FILE", 1, 1, false,
     {{"--dot", NULL, NULL, "print who may send what to whom, for Graphviz"},
      {"--json", NULL, NULL, "print the plan as JSON"}}},
    {"up", "FILE", 1, 1, false,
     {{"--port", "N", "the file's, 8000 if it has none",
       "port of the first gateway; 0: any free one. Its admin port is then any free one too"},
      {"--name", "NAME", "the file's, else from the name of the file",
       "what ps, down and the others call it; a second one of a file gets NAME-2"},
      {"--journal", NULL, "what the file says", "keep what every actor is told, for replay"},
      {"--detach", NULL, NULL, "return when it is ready, and leave it running"},
      {"--in-process", NULL, NULL, "run all actors as threads of this process, for a debugger"}}},
    {"down", "[NAME]", 0, 1, false,
     {{"--now", NULL, NULL, "do not wait until open requests have ended (limits.drain_timeout)"},
      {"--keep", NULL, NULL, "leave log, journals and incidents in the run directory"}}},
    {"drain", "[NAME] GROUP...", 1, COMMAND_WORDS_ANY, false,
     {{"--force", NULL, NULL, "also the last group of its kind that takes requests"}}},
    {"undrain", "[NAME] GROUP...", 1, COMMAND_WORDS_ANY, false, {{NULL, NULL, NULL, NULL}}},
    {"ps", "[NAME]", 0, 1, false,
     {{"--json", NULL, NULL, "print as JSON"},
      {"--streams", NULL, NULL, "show each stream between actors instead"},
      {"--ranks", NULL, NULL, "show each rank's collective calls instead"}}},
    {"tap", "[NAME]", 0, 1, false,
     {{"--actor", "ACTOR", "all", "only messages of this actor, such as decode/0"},
      {"--message", "MESSAGE", "all", "only messages of this name, such as step"},
      {"--old", NULL, NULL, "print those that were already sent, and end"},
      {"--reveal", NULL, NULL, "print token ids too"}}},
    {"probe", "[NAME] [ACTOR|all PROBE on|off]", 0, 4, false, {{NULL, NULL, NULL, NULL}}},
    {"chat", "[NAME]", 0, 1, false,
     {{"--url", "URL", "the deployment's", "talk to this OpenAI-compatible server instead"},
      {"--tools", "FILE", "no tools", "a JSON list of tools that the model may call"},
      {"--system", "TEXT", "none", "a system message"},
      {"--thinking", NULL, NULL, "let it think first, and show that"}}},
    {"abort", "[NAME] ID", 1, 2, false, {{NULL, NULL, NULL, NULL}}},
    {"bench", "[NAME]", 0, 1, false,
     {{"--url", "URL", "the deployment's", "load this OpenAI-compatible server instead"},
      {"--sessions", "N", "8", "requests at a time"},
      {"--requests", "N", "64", "requests in all"},
      {"--prompt-tokens", "N", "128", "tokens of each prompt, about"},
      {"--max-tokens", "N", "64", "tokens of each answer"},
      {"--seed", "N", "1", "other seed, other prompts"},
      {"--json", NULL, NULL, "print as JSON"}}},
    {"actor", "DIRECTORY ID INCARNATION BEFORE", 4, 4, false, {{NULL, NULL, NULL, NULL}}},
    {"run", "MODEL PROMPT", 2, 2, false,
     {{"--tokens", "N", "256", "tokens of the answer at most"},
      {"--raw", NULL, NULL, "the prompt is the text to go on from, without the chat format"},
      {"--trace", "FILE", "none", "write intermediates of the prompt, as safetensors"},
      LOCAL_OPTIONS}},
    {"verify", "MODEL FILE.jsonl...", 2, COMMAND_WORDS_ANY, false, {LOCAL_OPTIONS}},
    {"grammar", "FILE.jsonl[.gz]... | SCHEMA.json INSTANCE", 1, COMMAND_WORDS_ANY, false,
     {{"--model", "FOLDER", "model/tiny", "whose tokenizer.json it uses, or that file itself"},
      {"--json", NULL, NULL, "print the figures as JSON"},
      {"--list", NULL, NULL, "print each schema that is refused and each wrong verdict"}}},
    {"replay", "JOURNAL|FOLDER...", 1, COMMAND_WORDS_ANY, false,
     {{"--to", "N", "the end", "stop behind message N"},
      {"--print", NULL, NULL, "print each message, and what it led to"},
      {"--reveal", NULL, NULL, "with --print: token ids too"},
      {"--step", NULL, NULL, "print, and wait for Enter behind each message"}}},
    {"sim", "", 0, 0, true,
     {{"--topology", "FILE", "topology/examples/default.yaml", "the deployment"},
      {"--seed", "N", "none", "run one seed"},
      {"--seeds", "A..B", "none", "run these seeds"},
      {"--jobs", "N", "1", "with --seeds: processes at a time"},
      {"--keep-going", NULL, NULL, "with --seeds: go on behind a violation"},
      {"--story", "FILE", "none", "run what a story file says"},
      {"--schedule", "NAME", "none",
       "run one schedule that is hard to meet by chance; a wrong NAME lists them"},
      {"--shrink", NULL, NULL, "make the story of a violation small"},
      {"--trace", NULL, NULL, "print every message of one run"},
      {"--perfetto", "FILE", "none", "write one run as a trace for ui.perfetto.dev"},
      {"--journal", "FOLDER", "none", "keep what every actor of one run was told, for replay"},
      {"--coverage", NULL, NULL, "print what the runs never reached"},
      {"--plant", "NAME", "none", "put a known fault back; a wrong NAME lists them"}}},
};

const command_options_t *options_of(const char *command)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (strcmp(rows[i].command, command) == 0)
            return &rows[i];
    return NULL;
}

void options_print(const command_options_t *options, FILE *out)
{
    for (const command_option_t *o = options->options; o->name; o++) {
        fprintf(out, "  %s%s%s\n      %s", o->name, o->value ? " " : "", o->value ? o->value : "",
                o->meaning);
        if (o->standard)
            fprintf(out, " (default: %s)", o->standard);
        fprintf(out, "\n");
    }
}

/* ---- a command line --------------------------------------------------------------------------- */

/* The option that `word` up to a '=' names; NULL, having said so, if there is none. */
static const command_option_t *find(const command_options_t *options, const char *word)
{
    const char *names[COMMAND_OPTIONS_MAX];
    size_t length = strcspn(word, "="), count = 0;
    const char *nearest;

    for (const command_option_t *o = options->options; o->name; o++) {
        if (strlen(o->name) == length && strncmp(o->name, word, length) == 0)
            return o;
        names[count++] = o->name;
    }
    nearest = schema_nearest(word, names, count);
    fprintf(stderr, "lockstep %s: no option '%.*s'%s%s%s\n", options->command, (int)length, word,
            nearest ? "; did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
    return NULL;
}

static bool count_fits(const command_options_t *options, int count, const char *last)
{
    if (count < options->words_min)
        fprintf(stderr, "lockstep %s: expected %s\n", options->command, options->words);
    else if (count > options->words_max)
        fprintf(stderr, "lockstep %s: '%s' is one argument too many, expected %s\n",
                options->command, last, *options->words ? options->words : "none");
    return count >= options->words_min && count <= options->words_max;
}

int options_check(const command_options_t *options, int argc, char **argv, char **words)
{
    int used = 0, count = 0, at = 1;
    const char *last = "";

    words[used++] = argv[0];
    for (; at < argc && strcmp(argv[at], "--") != 0; at++) {
        const command_option_t *option;
        char *equals;

        words[used++] = argv[at];
        if (argv[at][0] != '-' || argv[at][1] == '\0') {
            count++;
            last = argv[at];
            continue;
        }
        option = find(options, argv[at]);
        if (!option)
            return 0;
        equals = strchr(argv[at], '=');
        if (equals && option->value) { /* from now on two words */
            *equals = '\0';
            words[used++] = equals + 1;
        } else if (equals) {
            fprintf(stderr, "lockstep %s: %s takes no value\n", options->command, option->name);
            return 0;
        } else if (option->value && at + 1 == argc) {
            fprintf(stderr, "lockstep %s: %s takes %s\n", options->command, option->name,
                    option->value);
            return 0;
        } else if (option->value) {
            words[used++] = argv[++at];
        }
    }
    for (at++; at < argc; at++, count++)
        words[used++] = argv[at], last = argv[at];
    words[used] = NULL;
    return count_fits(options, count, last) ? used : 0;
}

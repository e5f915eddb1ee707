/* command.h - the commands of `lockstep`, one row each. Adding a command: a file cli/<name>.c and a row here. */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include "runtime/base/exit.h"

/*    name       usage                              what it does */
#define COMMAND_TABLE(C)                                                                           \
    C(check, "FILE... | --schema", "say what is wrong with topology files, or what they may hold") \
    C(plan, "FILE [--dot | --json]", "show placement, memory, capacity and actors before a start") \
    C(up, "FILE [--port N] [--name NAME] [--journal] [--detach | --in-process]",                  \
      "start a deployment and say when it is ready; --in-process: as threads, to debug")           \
    C(down, "[NAME] [--now] [--keep]", "stop a deployment; open requests may end, unless --now")             \
    C(drain, "[NAME] GROUP... [--force]",                                                          \
      "let groups end what they have and take no more, until they are empty")                      \
    C(undrain, "[NAME] GROUP...", "let groups take requests again")                                \
    C(ps, "[NAME] [--json | --streams | --ranks]",                                                 \
      "show every actor: state, mailbox, progress; who waits for whom")                            \
    C(tap, "[NAME] [--actor ACTOR] [--message MESSAGE] [--old] [--reveal]",                        \
      "show messages as they come; --old: and those before; --reveal: token ids too")              \
    C(probe, "[NAME] [ACTOR|all PROBE on|off]", "list probes, or switch one of an actor")          \
    C(chat, "[NAME | --url URL] [--tools FILE] [--system TEXT] [--thinking]",                      \
      "talk to a deployment, or to any OpenAI-compatible server")                                  \
    C(abort, "[NAME] ID", "end one request, by the id of its answer")                             \
    C(bench,                                                                                       \
      "[NAME | --url URL] [--sessions N] [--requests N] [--prompt-tokens N] [--max-tokens N] "     \
      "[--seed N] [--json]",                                                                       \
      "load a deployment, or any OpenAI-compatible server, and measure it")                        \
    C(actor, "DIRECTORY ID INCARNATION BEFORE", "one actor of a deployment; a supervisor calls this") \
    C(run,                                                                                         \
      "MODEL PROMPT [--tokens N] [--raw] [--trace FILE] [--cache FORM] [--tp N] [--chunk N] "      \
      "[--threads N]",                                                                             \
      "answer one prompt in this process, without actors")                                         \
    C(verify, "MODEL FILE.jsonl... [--cache FORM] [--tp N] [--chunk N] [--threads N]",             \
      "hold greedy answers to recorded ones")                                                      \
    C(grammar, "FILE.jsonl[.gz]... | SCHEMA.json INSTANCE [--model FOLDER] [--json | --list]",      \
      "hold JSON schemas to instances that fit and that do not; say where one leaves its schema") \
    C(replay, "JOURNAL|FOLDER... [--to N] [--print [--reveal]] [--step]",                         \
      "run journals again, message by message, and stop where it goes another way")                \
    C(sim,                                                                                         \
      "[--topology FILE] (--seed N | --seeds A..B [--jobs N] | --story FILE | --schedule NAME) "   \
      "[--trace] [--journal FOLDER] [--plant NAME] ...",                                           \
      "run simulated deployments: load, faults, oracles")

/* argv[0] is the command's own name. Returns an exit code. */
typedef int command_main_t(int argc, char **argv);

#define COMMAND_DECLARE(name, usage, text) command_main_t command_##name;
COMMAND_TABLE(COMMAND_DECLARE)
#undef COMMAND_DECLARE

/* Says on standard error what is wrong with a command line, NULL if that was said already, and where to
 * learn better; returns EXIT_USAGE. */
int command_usage(const char *name, const char *why);

#endif

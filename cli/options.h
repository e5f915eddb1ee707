/* options.h - what every command may be called with: its arguments and options, each with its meaning and default.
 * Help is printed from here, and a command line is held to it before the command runs.
 */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include <stdbool.h>
#include <stdio.h>

typedef struct {
    const char *name;     /* "--port" */
    const char *value;    /* what it takes: "N"; NULL: nothing */
    const char *standard; /* what holds without it; NULL: it does not happen */
    const char *meaning;
} command_option_t;

enum { COMMAND_OPTIONS_MAX = 16, COMMAND_WORDS_ANY = 1 << 20 };

typedef struct {
    const char *command;
    const char *words; /* what the arguments are that are no options: "FILE" */
    int words_min, words_max;
    bool passes_on; /* another program takes the command line, and checks it */
    command_option_t options[COMMAND_OPTIONS_MAX + 1]; /* ends with a name of NULL */
} command_options_t;

/* NULL: no such command. */
const command_options_t *options_of(const char *command);
void options_print(const command_options_t *options, FILE *out);

/* Holds argv[1..] to the options of argv[0], and writes "--x=y" as two words, into `words` of argc * 2 + 1
 * entries; "--" ends the options. Returns the new argc, or 0 if something is wrong, with one line on
 * standard error that says what. The texts stay argv's, which is cut at each '='. */
int options_check(const command_options_t *options, int argc, char **argv, char **words);

#endif

/* inherited.h - what a parent hands down and a program should not depend on: open descriptors, signals,
 * umask, limits.
 */
#ifndef CLI_INHERITED_H
#define CLI_INHERITED_H

/* Call first, before any file is opened and any thread starts. Afterwards
 *   descriptors 0 to 2 are open: one that was closed is /dev/null, so no lock or log takes its number;
 *   no signal is blocked or ignored, but for SIGHUP (nohup), SIGINT and SIGQUIT (a shell's background
 *   job) and those of job control; writing beyond the file size limit is an error and no signal;
 *   files and folders of ours are open to their owner, whatever the umask;
 *   a thread that is started has a stack of at least 8 MB.
 * Returns 0, or -1 where there is no /dev/null. */
int inherited_mend(void);

typedef int inherited_main_t(int argc, char **argv);

/* Calls `run`, on a stack of 8 MB also where the limit handed down is less. */
int inherited_run(inherited_main_t *run, int argc, char **argv);

#endif

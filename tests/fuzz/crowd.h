/* crowd.h - one real actor behind its node, and a crowd of peers that do whatever a script says.
 *
 * The node is the product's: streams, mailbox, codec, dispatch, the actor with its own check after every message.
 * The peers are the roster's other actors and observers. They speak the protocol well enough to get in, and then
 * lie: any message that the table lets them send (and others), with values that the actor itself has used, small
 * ones and absurd ones; frames twice, early, spoilt, of earlier and later lives; no acknowledgements, or false
 * ones. The actor's ports are not hostile: they answer as the real ones would, when the script lets them.
 */
#ifndef TESTS_FUZZ_CROWD_H
#define TESTS_FUZZ_CROWD_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Runs a script against the actor that its first byte chooses. Whatever must not happen is an ASSERT. `trace` gets a
 * line for each action, or NULL. */
void crowd_run(const uint8_t *bytes, size_t size, FILE *trace);

#endif

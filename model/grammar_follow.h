/* grammar_follow.h - what may follow each state of an automaton, for masks that need not walk. */
#ifndef MODEL_GRAMMAR_FOLLOW_H
#define MODEL_GRAMMAR_FOLLOW_H

#include "model/grammar_regex.h"

/* Fills the flags of grammar_block.h of each state. Only used while a grammar is compiled. */
MUST_USE status_t follow_flags(const regex_automaton_t *automaton, uint32_t *flags);

#endif

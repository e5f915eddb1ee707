/* grammar_parts.h - the front ends of grammar_compile. For grammar_*.c only. */
#ifndef MODEL_GRAMMAR_PARTS_H
#define MODEL_GRAMMAR_PARTS_H

#include "model/grammar.h"
#include "model/grammar_build.h"

MUST_USE status_t grammar_compile_schema(const grammar_spec_t *spec, uint64_t vocabulary_digest,
                                         void **block, size_t *bytes, grammar_refusal_t *refusal);
/* Rule 0 and all that it needs. */
MUST_USE status_t grammar_read_gbnf(build_t *build, const char *text, size_t length);
MUST_USE status_t grammar_read_lark(build_t *build, const char *text, size_t length);

#endif

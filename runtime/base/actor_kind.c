/* actor_kind.c - the words of the kinds. */
#include "runtime/base/actor_kind.h"

static const char *const words[ACTOR_KIND_COUNT] = {
#define KIND_WORD(name, word, decides) word,
    ACTOR_KIND_TABLE(KIND_WORD)
#undef KIND_WORD
};

const char *actor_kind_word(actor_kind_t kind)
{
    return kind < ACTOR_KIND_COUNT ? words[kind] : "unknown";
}

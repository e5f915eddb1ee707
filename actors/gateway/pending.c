#include "actors/gateway/pending.h"

#include <stdlib.h>
#include <string.h>

enum { FIXED_WORDS = 3, ROOM_WORDS = 64 };

_Static_assert((int)ROOM_WORDS >= FIXED_WORDS + 2 * LOGPROBS_MAX, "growth makes room for one");

/* A token is a word. With logprobs its own and the number of alternatives follow, then these and theirs. */
static uint32_t words_of(const pending_t *pending, uint32_t alternatives)
{
    return pending->logprobs ? FIXED_WORDS + 2 * alternatives : 1;
}

bool pending_put(pending_t *pending, const record_token_t *token)
{
    uint32_t alternatives = token->top_tokens.count, *words;

    ASSERT(alternatives <= LOGPROBS_MAX && token->top_logprobs.count == alternatives);
    if (pending->first == pending->count)
        pending->first = pending->count = 0;
    if (words_of(pending, alternatives) > pending->room - pending->count) {
        uint32_t room = 2 * pending->room + ROOM_WORDS;
        uint32_t *grown = realloc(pending->words, room * sizeof(*grown));

        if (!grown)
            return false;
        pending->words = grown;
        pending->room = room;
    }
    words = pending->words + pending->count;
    pending->count += words_of(pending, alternatives);
    words[0] = token->token;
    if (!pending->logprobs)
        return true;
    memcpy(&words[1], &token->logprob, sizeof(float));
    words[2] = alternatives;
    if (alternatives > 0) {
        memcpy(&words[3], token->top_tokens.data, alternatives * sizeof(uint32_t));
        memcpy(&words[3 + alternatives], token->top_logprobs.data, alternatives * sizeof(float));
    }
    return true;
}

bool pending_take(pending_t *pending, record_token_t *token)
{
    const uint32_t *words = pending->words + pending->first;

    if (pending->first == pending->count)
        return false;
    *token = (record_token_t){.token = words[0]};
    if (pending->logprobs) {
        memcpy(&token->logprob, &words[1], sizeof(float));
        token->top_tokens = (u32s_view_t){&words[3], words[2]};
        token->top_logprobs =
            (f32s_view_t){(const float *)(const void *)&words[3 + words[2]], words[2]};
    }
    pending->first += words_of(pending, token->top_tokens.count);
    return true;
}

void pending_fini(pending_t *pending)
{
    free(pending->words);
    *pending = (pending_t){0};
}

/* openai.h - a request body of the OpenAI API becomes parameters, or an error that names one.
 *
 * Keys of the official API that change the answer are read or refused; those that only label a
 * request (user, metadata, store) and keys of other servers are passed over. Beyond the official
 * ones it takes what vLLM takes: top_k, min_p, repetition_penalty, ignore_eos, stop_token_ids, and
 * timeout_ms. The prompt itself is model/chat.h's business.
 */
#ifndef ACTORS_GATEWAY_OPENAI_H
#define ACTORS_GATEWAY_OPENAI_H

#include "messages/message.h"
#include "model/config.h"
#include "model/document.h"

/* What a server says instead of an answer. */
typedef struct {
    unsigned status; /* HTTP */
    const char *type;
    const char *code; /* NULL: null */
    char param[96];   /* "": null */
    char message[256];
} openai_error_t;

typedef struct {
    bool stream;
    bool include_usage;
    bool parallel_tool_calls;
    bool keep_stop; /* the stop string that ends the answer is shown */
    bool logprobs;  /* wanted, of `sampling.logprobs - 1` alternatives */
    uint32_t timeout_ms; /* 0: none */
    uint64_t salt;
    record_limits_t limits;   /* output_tokens_max 0: as far as the context goes */
    const char *length_param; /* what gave output_tokens_max; NULL: a default, which may be cut */
    record_sampling_t sampling;
    uint32_t stop_tokens[STOP_STRINGS_MAX];
    uint32_t bias_tokens[LOGIT_BIAS_MAX];
    float bias_values[LOGIT_BIAS_MAX];
    uint32_t stop_count;
    struct {
        uint32_t bytes;
        char text[STOP_BYTES_MAX];
    } stops[STOP_STRINGS_MAX];
} openai_parameters_t;

/* `chat`: /v1/chat/completions, else /v1/completions. `seed` counts if the request names none.
 * INVALID fills *error. The views of limits and sampling look into *parameters. */
MUST_USE status_t openai_parse(const document_t *request, bool chat, const char *served_name,
                               const model_config_t *config, const model_generation_t *defaults,
                               uint64_t seed, openai_parameters_t *parameters,
                               openai_error_t *error);

/* The prompt of /v1/completions: a string (PLAIN text) or an array of token ids, which are written
 * to `ids`; or an array of one of these. Sets *text to the string's node, or DOCUMENT_NONE. */
MUST_USE status_t openai_prompt(const document_t *request, uint32_t vocabulary, uint32_t *ids,
                                uint32_t ids_max, uint32_t *id_count, uint32_t *text,
                                openai_error_t *error);

/* Envoy and what is built on it say with it how long they wait: an answer that nobody would get holds
 * no memory. */
#define OPENAI_TIMEOUT_HEADER "x-envoy-expected-rq-timeout-ms"

/* parameters->timeout_ms becomes the least of itself, the header's value (NULL: absent) and the
 * server's own limit; 0 stands for none in all. */
MUST_USE status_t openai_timeout(const char *header, uint32_t limit_ms,
                                 openai_parameters_t *parameters, openai_error_t *error);

void openai_error_set(openai_error_t *error, unsigned status, const char *param, const char *format,
                      ...) PRINTF_LIKE(4, 5);

#endif

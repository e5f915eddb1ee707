#include "actors/gateway/metrics.h"

#include <stdarg.h>

/* Seconds; from a token of a small model to a long answer of a large one. */
static const double bounds[METRICS_BUCKETS] = {0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2,
                                               0.5,   1,     2,     5,    10,   30,   60,  240};

static const char *const reasons[END_REASON_COUNT] = {
    "stop",      "length",   "stop_string", "aborted", "deadline",   "lost",
    "retracted", "poisoned", "overloaded",  "refused", "unavailable"};

static void put(text_buffer_t *out, const char *format, ...) PRINTF_LIKE(2, 3);

static void put(text_buffer_t *out, const char *format, ...)
{
    char text[256];
    va_list arguments;
    int length;

    va_start(arguments, format);
    length = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    ASSERT(length >= 0 && (size_t)length < sizeof(text));
    text_put(out, text, (size_t)length);
}

void metrics_observe(metrics_histogram_t *histogram, double seconds)
{
    uint32_t bucket = 0;

    while (bucket < METRICS_BUCKETS && seconds > bounds[bucket])
        bucket++;
    histogram->counts[bucket]++;
    histogram->sum += seconds;
}

static void put_head(text_buffer_t *out, const char *name, const char *type, const char *help)
{
    put(out, "# HELP lockstep_%s %s\n# TYPE lockstep_%s %s\n", name, help, name, type);
}

static void put_number(text_buffer_t *out, const char *name, const char *type, const char *help,
                       uint64_t value)
{
    put_head(out, name, type, help);
    put(out, "lockstep_%s %llu\n", name, (unsigned long long)value);
}

static void put_histogram(text_buffer_t *out, const char *name, const char *help,
                          const metrics_histogram_t *histogram)
{
    uint64_t count = 0;

    put_head(out, name, "histogram", help);
    for (uint32_t i = 0; i < METRICS_BUCKETS; i++) {
        count += histogram->counts[i];
        put(out, "lockstep_%s_bucket{le=\"%g\"} %llu\n", name, bounds[i],
            (unsigned long long)count);
    }
    count += histogram->counts[METRICS_BUCKETS];
    put(out, "lockstep_%s_bucket{le=\"+Inf\"} %llu\n", name, (unsigned long long)count);
    put(out, "lockstep_%s_sum %.9g\nlockstep_%s_count %llu\n", name, histogram->sum, name,
        (unsigned long long)count);
}

void metrics_put(const metrics_t *metrics, bool ready, const topology_t *topology,
                 const availability_t *availability, text_buffer_t *out)
{
    put_head(out, "requests_total", "counter", "Requests by how they ended.");
    for (uint32_t i = 0; i < END_REASON_COUNT; i++)
        put(out, "lockstep_requests_total{end=\"%s\"} %llu\n", reasons[i],
            (unsigned long long)metrics->requests[i]);
    put_number(out, "requests_refused_total", "counter",
               "Requests that were wrong and got a 4xx at once.", metrics->refused);
    put_number(out, "requests_open", "gauge", "Requests without an end now.", metrics->open);
    put_number(out, "ready", "gauge", "1 once a request of the gateway's own was answered.", ready);
    put_number(out, "prompt_tokens_total", "counter", "Prompt tokens of ended requests.",
               metrics->prompt_tokens);
    put_number(out, "cached_tokens_total", "counter", "Of these, found in the prefix cache.",
               metrics->cached_tokens);
    put_number(out, "completion_tokens_total", "counter", "Tokens sent to clients.",
               metrics->completion_tokens);
    put_number(out, "markup_suppressed_total", "counter",
               "Answers with tool-call markup that was held back.", metrics->suppressed);
    put_number(out, "markup_nonstandard_total", "counter",
               "Answers whose tool-call markup had ASCII bars.", metrics->nonstandard);
    put_head(out, "actor_degraded", "gauge", "1: restarted too often, it stays down.");
    for (uint32_t i = 0; i < topology->actor_count; i++)
        put(out, "lockstep_actor_degraded{actor=\"%.*s\"} %d\n", ACTOR_NAME_BYTES_MAX,
            topology->actors[i].name, availability->down[i]);
    put_histogram(out, "first_token_seconds", "From request to first token.",
                  &metrics->first_token);
    put_histogram(out, "next_token_seconds", "Between two deliveries of tokens to one client.",
                  &metrics->next_token);
    put_histogram(out, "request_seconds", "From request to end.", &metrics->whole);
}

/* bench.c - `lockstep bench`: loads any OpenAI-compatible server and measures it as a client sees it.
 *
 * N sessions, each with one request at a time, until all requests were made: a closed loop. One
 * thread waits for all of them, so the generator itself costs little and nothing is lost in locks.
 * Prompts are random words, each request its own, so a prefix cache finds nothing; how many words
 * make the wished number of tokens is learned from one request before the measurement.
 */
#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/bench_figures.h"
#include "cli/command.h"
#include "cli/endpoint.h"
#include "runtime/base/check.h"
#include "runtime/base/random.h"

enum {
    SESSIONS_MAX = 4096,
    REQUESTS_MAX = 1 << 24,
    TOKENS_MAX = 1 << 20,
    PROMPT_BYTES_MAX = 16 << 20,
    SILENCE_S = 300, /* a request that hears nothing so long has failed */
    POLL_MS = 500,
    LEARN_WORDS = 64,
    URL_TEXT_BYTES = 3 * HTTP_URL_BYTES_MAX,
};

typedef struct {
    const char *name, *url;
    uint32_t sessions, requests, prompt_tokens, max_tokens;
    uint64_t seed;
    bool json;
} options_t;

typedef struct bench bench_t;

typedef struct {
    bench_t *bench;
    http_call_t call;
    bool busy;
    double began_at, first_at, last_at, heard_at;
    uint32_t events; /* with text */
    uint32_t prompt_tokens, cached_tokens, output_tokens;
    bool usage_told;
    char error[256];
} session_t;

struct bench {
    options_t options;
    endpoint_t endpoint;
    double words_per_token;
    random_t random;
    session_t *sessions;
    struct pollfd *waits;
    uint32_t begun; /* requests */
    bench_figures_t figures;
};

static volatile sig_atomic_t stop_wanted;

static void on_stop(int number)
{
    (void)number;
    stop_wanted = 1;
}

static double now_s(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* ---- one request ----------------------------------------------------------------------------- */

static void put_prompt(bench_t *self, uint32_t words, text_buffer_t *out)
{
    static const char *const list[] = {
        "table", "river", "stone", "green", "seven", "paper", "light", "house", "north", "apple",
        "train", "small", "music", "water", "plain", "chair", "cloud", "field", "sugar", "metal",
        "quick", "ocean", "brick", "voice", "lemon", "earth", "night", "glass", "horse", "wheel",
        "truth", "storm", "bread", "spoon", "fruit", "clock", "shirt", "grass", "smile", "coast"};

    for (uint32_t i = 0; i < words; i++) {
        text_put_text(out, i ? " " : "");
        text_put_text(out, list[random_below(&self->random, COUNT_OF(list))]);
    }
    text_put(out, "", 1);
}

/* NULL if there is no memory; caller frees. */
static char *request_body(bench_t *self, uint32_t words, uint32_t max_tokens)
{
    text_buffer_t prompt;
    json_t *body;
    char *text = NULL;

    text_buffer_init(&prompt, PROMPT_BYTES_MAX);
    put_prompt(self, words, &prompt);
    if (prompt.status == STATUS_OK) {
        body = json_pack("{s:s, s:s, s:i, s:i, s:b, s:b, s:{s:b}}", "model", self->endpoint.model,
                         "prompt", prompt.bytes, "max_tokens", (int)max_tokens, "temperature", 0,
                         "ignore_eos", 1, "stream", 1, "stream_options", "include_usage", 1);
        text = json_dumps(body, JSON_COMPACT);
        json_decref(body);
    }
    text_buffer_fini(&prompt);
    return text;
}

static uint32_t count_of(const json_t *object, const char *key)
{
    json_int_t count = json_integer_value(json_object_get(object, key));

    return count > 0 && count <= UINT32_MAX ? (uint32_t)count : 0;
}

static void on_event(void *context, const char *data)
{
    session_t *session = context;
    bench_samples_t *samples = session->bench->figures.samples;
    const char *text;
    json_t *root, *usage;
    double now = now_s();

    if (strcmp(data, "[DONE]") == 0)
        return;
    root = json_loads(data, 0, NULL);
    if (!root || json_object_get(root, "error"))
        endpoint_error_text(200, data, session->error);
    text = json_string_value(json_object_get(
        json_array_get(json_object_get(root, "choices"), 0), "text"));
    if (text && text[0]) {
        if (session->events++ == 0)
            session->first_at = now;
        else
            bench_samples_add(&samples[BENCH_NEXT_TOKEN], now - session->last_at);
        session->last_at = now;
    }
    usage = json_object_get(root, "usage");
    if (json_is_object(usage)) {
        session->usage_told = true;
        session->prompt_tokens = count_of(usage, "prompt_tokens");
        session->output_tokens = count_of(usage, "completion_tokens");
        session->cached_tokens =
            count_of(json_object_get(usage, "prompt_tokens_details"), "cached_tokens");
    }
    json_decref(root);
}

static void session_begin(session_t *session, uint32_t words, uint32_t max_tokens)
{
    bench_t *self = session->bench;
    char *body = request_body(self, words, max_tokens);

    *session = (session_t){.bench = self, .began_at = now_s()};
    session->heard_at = session->began_at;
    if (body && http_call_open(&self->endpoint.url, "/completions", body, &session->call) ==
                    STATUS_OK)
        session->busy = true;
    else
        snprintf(session->error, sizeof(session->error), "%.250s",
                 body ? trail_text() : "out of memory");
    free(body);
}

/* Takes what came. The session is not busy any more when its answer has ended. */
static void session_read(session_t *session)
{
    http_call_state_t state = http_call_read(&session->call, on_event, session);

    session->heard_at = now_s();
    if (state == HTTP_CALL_OPEN)
        return;
    if (state == HTTP_CALL_BROKEN)
        snprintf(session->error, sizeof(session->error), "%.250s", trail_text());
    else if (session->call.status != 200)
        endpoint_error_text(session->call.status, http_call_body(&session->call), session->error);
    else if (session->events == 0 && !session->error[0])
        snprintf(session->error, sizeof(session->error), "an answer without text");
    http_call_close(&session->call);
    session->busy = false;
}

/* ---- the load -------------------------------------------------------------------------------- */

static void account(bench_t *self, const session_t *session)
{
    bench_figures_t *figures = &self->figures;
    uint32_t tokens = session->usage_told ? session->output_tokens : session->events;

    if (session->error[0]) {
        if (figures->failed++ == 0)
            memcpy(figures->error, session->error, sizeof(figures->error));
        return;
    }
    figures->answered++;
    figures->counted_events |= !session->usage_told;
    figures->prompt_tokens += session->prompt_tokens;
    figures->cached_tokens += session->cached_tokens;
    figures->output_tokens += tokens;
    bench_samples_add(&figures->samples[BENCH_FIRST_TOKEN], session->first_at - session->began_at);
    bench_samples_add(&figures->samples[BENCH_REQUEST], now_s() - session->began_at);
    if (tokens > 1)
        bench_samples_add(&figures->samples[BENCH_PER_TOKEN],
                          (session->last_at - session->first_at) / (tokens - 1));
}

/* The next request of a session, unless all were made. One that fails at once is accounted. */
static void go_on(bench_t *self, session_t *session)
{
    uint32_t words = (uint32_t)(self->options.prompt_tokens * self->words_per_token + 0.5);

    while (!session->busy && self->begun < self->options.requests && !stop_wanted) {
        self->begun++;
        session_begin(session, words ? words : 1, self->options.max_tokens);
        if (!session->busy)
            account(self, session);
    }
}

static uint32_t collect_waits(bench_t *self)
{
    uint32_t busy = 0;

    for (uint32_t i = 0; i < self->options.sessions; i++) {
        const session_t *session = &self->sessions[i];

        self->waits[i] = (struct pollfd){.fd = -1};
        if (!session->busy)
            continue;
        self->waits[i] = (struct pollfd){.fd = session->call.descriptor, .events = POLLIN};
        busy++;
    }
    return busy;
}

static void check_silence(session_t *session, double now)
{
    if (!session->busy || now - session->heard_at < SILENCE_S)
        return;
    snprintf(session->error, sizeof(session->error), "no byte within %u s", SILENCE_S);
    http_call_close(&session->call);
    session->busy = false;
}

static void load(bench_t *self)
{
    bool terminal = isatty(STDERR_FILENO);
    double began = now_s();

    for (uint32_t i = 0; i < self->options.sessions; i++)
        go_on(self, &self->sessions[i]);
    while (collect_waits(self) > 0 && !stop_wanted) {
        int ready = poll(self->waits, self->options.sessions, POLL_MS);
        double now = now_s();

        if (ready < 0 && errno != EINTR)
            break;
        for (uint32_t i = 0; i < self->options.sessions; i++) {
            session_t *session = &self->sessions[i];
            bool was_busy = session->busy;

            if (ready > 0 && self->waits[i].revents)
                session_read(session);
            else
                check_silence(session, now);
            if (was_busy && !session->busy) {
                account(self, session);
                go_on(self, session);
            }
        }
        if (terminal)
            fprintf(stderr, "\r%llu of %u answered ...",
                    (unsigned long long)self->figures.answered, self->options.requests);
    }
    self->figures.wall_s = now_s() - began;
    if (terminal)
        fprintf(stderr, "\r\033[K");
    for (uint32_t i = 0; i < self->options.sessions; i++)
        if (self->sessions[i].busy)
            http_call_close(&self->sessions[i].call);
}

/* One request by itself says how many tokens a word has; it also warms the server up. */
static status_t learn_words(bench_t *self)
{
    session_t *session = &self->sessions[0];
    struct pollfd wait = {.events = POLLIN};

    session_begin(session, LEARN_WORDS, 2);
    wait.fd = session->call.descriptor;
    while (session->busy && !stop_wanted) {
        if (poll(&wait, 1, POLL_MS) > 0)
            session_read(session);
        else
            check_silence(session, now_s());
    }
    if (session->busy)
        http_call_close(&session->call);
    session->busy = false;
    if (session->error[0])
        return FAIL(STATUS_REFUSED, "%s", session->error);
    self->words_per_token =
        session->prompt_tokens ? (double)LEARN_WORDS / session->prompt_tokens : 1;
    bench_figures_fini(&self->figures);
    return STATUS_OK;
}

/* ---- the command ----------------------------------------------------------------------------- */

static bool read_number(const char *name, const char *text, uint64_t max, uint64_t *value)
{
    char *end;

    errno = 0;
    *value = strtoull(text, &end, 10);
    if (text[0] >= '0' && text[0] <= '9' && !*end && !errno && *value >= 1 && *value <= max)
        return true;
    fprintf(stderr, "lockstep bench: --%s takes a number from 1 to %llu, not '%s'\n", name,
            (unsigned long long)max, text);
    return false;
}

static int parse(int argc, char **argv, options_t *options)
{
    static const struct option long_options[] = {{"sessions", required_argument, NULL, 0},
                                                 {"requests", required_argument, NULL, 0},
                                                 {"prompt-tokens", required_argument, NULL, 0},
                                                 {"max-tokens", required_argument, NULL, 0},
                                                 {"seed", required_argument, NULL, 0},
                                                 {"url", required_argument, NULL, 'u'},
                                                 {"json", no_argument, NULL, 'j'},
                                                 {NULL, 0, NULL, 0}};
    static const uint64_t most[] = {SESSIONS_MAX, REQUESTS_MAX, TOKENS_MAX, TOKENS_MAX, INT64_MAX};
    uint32_t *const targets[] = {&options->sessions, &options->requests, &options->prompt_tokens,
                                 &options->max_tokens};
    int option, index = 0;

    optind = 1;
    while ((option = getopt_long(argc, argv, "", long_options, &index)) != -1) {
        uint64_t value;

        if (option == 'u') {
            options->url = optarg;
        } else if (option == 'j') {
            options->json = true;
        } else if (option != 0) {
            return command_usage("bench", "a NAME or --url, not both");
        } else if (!read_number(long_options[index].name, optarg, most[index], &value)) {
            return EXIT_USAGE;
        } else if ((size_t)index < COUNT_OF(targets)) {
            *targets[index] = (uint32_t)value;
        } else {
            options->seed = value;
        }
    }
    if (optind < argc)
        options->name = argv[optind++];
    if (optind < argc || (options->name && options->url))
        return command_usage("bench", "a NAME or --url, not both");
    if (options->sessions > options->requests)
        options->sessions = options->requests;
    return EXIT_OK;
}

static int measure(bench_t *self)
{
    const http_url_t *url = &self->endpoint.url;
    char text[URL_TEXT_BYTES];

    if (learn_words(self) != STATUS_OK) {
        fprintf(stderr, "lockstep bench: the server does not answer a first request: %s\n",
                trail_text());
        return EXIT_FAILED;
    }
    snprintf(text, sizeof(text), "http://%s:%s%s", url->host, url->port, url->base);
    self->figures = (bench_figures_t){.url = text,
                                      .model = self->endpoint.model,
                                      .sessions = self->options.sessions,
                                      .seed = self->options.seed};
    load(self);
    if (self->options.json)
        bench_figures_json(&self->figures, stdout);
    else
        bench_figures_print(&self->figures, stdout);
    bench_figures_fini(&self->figures);
    return self->figures.failed || self->figures.answered < self->options.requests ? EXIT_FAILED
                                                                                   : EXIT_OK;
}

int command_bench(int argc, char **argv)
{
    static bench_t self;
    struct sigaction action = {.sa_handler = on_stop};
    int code;

    self.options = (options_t){.sessions = 8,
                               .requests = 64,
                               .prompt_tokens = 128,
                               .max_tokens = 64,
                               .seed = (uint64_t)time(NULL)};
    code = parse(argc, argv, &self.options);
    if (code != EXIT_OK)
        return code;
    if (endpoint_find(self.options.name, self.options.url, &self.endpoint) != STATUS_OK) {
        fprintf(stderr, "lockstep bench: %s\n", trail_text());
        return EXIT_NOT_RUNNING;
    }
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    random_init(&self.random, self.options.seed);
    self.sessions = calloc(self.options.sessions, sizeof(*self.sessions));
    self.waits = calloc(self.options.sessions, sizeof(*self.waits));
    code = EXIT_FAILED;
    if (self.sessions && self.waits) {
        for (uint32_t i = 0; i < self.options.sessions; i++)
            self.sessions[i].bench = &self;
        code = measure(&self);
    }
    free(self.sessions);
    free(self.waits);
    return code;
}

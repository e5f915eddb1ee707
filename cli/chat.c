/* chat.c - `lockstep chat`: a conversation in a terminal, with any OpenAI-compatible server.
 *
 * One thread waits for the keyboard or for the answer, never for both. SIGINT is blocked but for
 * these waits, so it cannot come unseen between two of them: at the prompt it drops the line, in an
 * answer it closes the connection, which is how a server learns that nobody reads any more. What
 * was said until then stays in the conversation. Without a terminal each line of standard input is
 * a message (or the result of the call before it), and what is written has no colours.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/endpoint.h"
#include "runtime/base/check.h"

enum { CALLS_MAX = 64, TEXT_BYTES_MAX = 16 << 20, LINE_BYTES_MAX = 1 << 20 };

#define DIM "\033[2m"
#define BOLD "\033[1m"
#define CYAN "\033[36m"
#define PLAIN "\033[0m"

typedef struct {
    const char *name, *url, *system, *tools_file;
    bool thinking;
} options_t;

typedef struct {
    char id[128];
    char name[128];
    text_buffer_t arguments;
} tool_call_t;

/* What of the answer was printed last. */
typedef enum { PART_NONE, PART_REASONING, PART_CONTENT, PART_CALL } part_t;

typedef struct {
    endpoint_t endpoint;
    json_t *messages;
    json_t *tools; /* NULL: none */
    bool thinking;
    bool terminal;    /* keyboard and screen */
    bool failed;      /* some answer did not come */
    sigset_t waiting; /* signals blocked while waiting: not SIGINT */
    char *input;      /* read, not yet used */
    size_t input_used;
    bool input_ended;
    /* the answer that comes */
    part_t part;
    text_buffer_t content, reasoning;
    tool_call_t calls[CALLS_MAX];
    uint32_t call_count;
    uint64_t tokens;
    bool cut; /* at its length limit */
    char error[256];
    double began_at, first_at;
} chat_t;

static volatile sig_atomic_t interrupted;

static void on_interrupt(int number)
{
    (void)number;
    interrupted = 1;
}

static double now_s(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* ---- the screen ------------------------------------------------------------------------------ */

static void style(const chat_t *self, const char *code)
{
    if (self->terminal)
        fputs(code, stdout);
}

/* A model may say anything; a terminal must not obey it. C1 controls are two bytes of UTF-8. */
static void print_text(const char *text)
{
    for (const unsigned char *at = (const unsigned char *)text; *at; at++) {
        if ((*at < ' ' && *at != '\n' && *at != '\t') || *at == 0x7f)
            fputs("\xef\xbf\xbd", stdout);
        else if (*at == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0)
            fputs("\xef\xbf\xbd", stdout), at++;
        else
            putchar(*at);
    }
}

/* Begins another part of the answer: its style, and what separates it from the one before. */
static void turn_to(chat_t *self, part_t part)
{
    if (self->part == part)
        return;
    style(self, PLAIN);
    if (self->part == PART_REASONING)
        fputs("\n\n", stdout);
    else if (self->part != PART_NONE)
        putchar('\n');
    if (part == PART_REASONING) {
        style(self, DIM);
        fputs("thinking: ", stdout);
    }
    self->part = part;
}

/* ---- an answer ------------------------------------------------------------------------------- */

static void add_call(chat_t *self, const json_t *delta)
{
    json_t *function = json_object_get(delta, "function");
    const char *id = json_string_value(json_object_get(delta, "id"));
    const char *name = json_string_value(json_object_get(function, "name"));
    const char *arguments = json_string_value(json_object_get(function, "arguments"));
    json_int_t index = json_integer_value(json_object_get(delta, "index"));

    if (index == (json_int_t)self->call_count && index < CALLS_MAX) {
        tool_call_t *call = &self->calls[self->call_count++];

        snprintf(call->id, sizeof(call->id), "%s", id ? id : "");
        snprintf(call->name, sizeof(call->name), "%s", name ? name : "");
        text_buffer_init(&call->arguments, TEXT_BYTES_MAX);
        turn_to(self, PART_NONE);
        turn_to(self, PART_CALL);
        style(self, CYAN);
        fputs("-> ", stdout);
        print_text(call->name);
        putchar(' ');
    }
    if (arguments && index >= 0 && index == (json_int_t)self->call_count - 1) {
        text_put_text(&self->calls[index].arguments, arguments);
        print_text(arguments);
    }
}

static void add_text(chat_t *self, part_t part, const json_t *text)
{
    const char *piece = json_string_value(text);

    if (!piece || !piece[0])
        return;
    turn_to(self, part);
    text_put_text(part == PART_CONTENT ? &self->content : &self->reasoning, piece);
    print_text(piece);
}

static void on_event(void *context, const char *data)
{
    chat_t *self = context;
    json_t *root, *choice, *delta, *reasoning, *call, *usage;
    const char *finish;
    size_t i;

    if (strcmp(data, "[DONE]") == 0)
        return;
    root = json_loads(data, 0, NULL);
    if (!root || json_object_get(root, "error"))
        endpoint_error_text(200, data, self->error);
    choice = json_array_get(json_object_get(root, "choices"), 0);
    delta = json_object_get(choice, "delta");
    reasoning = json_object_get(delta, "reasoning_content"); /* some servers: reasoning */
    add_text(self, PART_REASONING, reasoning ? reasoning : json_object_get(delta, "reasoning"));
    add_text(self, PART_CONTENT, json_object_get(delta, "content"));
    json_array_foreach (json_object_get(delta, "tool_calls"), i, call)
        add_call(self, call);
    if (self->part != PART_NONE && self->first_at == 0)
        self->first_at = now_s();
    finish = json_string_value(json_object_get(choice, "finish_reason"));
    self->cut |= finish && strcmp(finish, "length") == 0;
    usage = json_object_get(root, "usage");
    if (usage)
        self->tokens =
            (uint64_t)json_integer_value(json_object_get(usage, "completion_tokens"));
    json_decref(root);
    fflush(stdout);
}

static char *request_body(const chat_t *self)
{
    json_t *body = json_pack("{s:s, s:O, s:b, s:{s:b}}", "model", self->endpoint.model, "messages",
                             self->messages, "stream", 1, "stream_options", "include_usage", 1);
    char *text;

    if (self->thinking)
        json_object_set_new(body, "chat_template_kwargs", json_pack("{s:b}", "thinking", 1));
    if (self->tools)
        json_object_set(body, "tools", self->tools);
    text = json_dumps(body, JSON_COMPACT);
    json_decref(body);
    return text;
}

static void answer_reset(chat_t *self)
{
    for (uint32_t i = 0; i < self->call_count; i++)
        text_buffer_fini(&self->calls[i].arguments);
    text_buffer_fini(&self->content);
    text_buffer_fini(&self->reasoning);
    text_buffer_init(&self->content, TEXT_BYTES_MAX);
    text_buffer_init(&self->reasoning, TEXT_BYTES_MAX);
    self->call_count = 0;
    self->tokens = 0;
    self->part = PART_NONE;
    self->cut = false;
    self->error[0] = '\0';
    self->began_at = now_s();
    self->first_at = 0;
}

/* Reads until the answer ends, one way or another. */
static void answer_read(chat_t *self, http_call_t *call)
{
    struct pollfd wait = {.fd = call->descriptor, .events = POLLIN};
    http_call_state_t state;

    interrupted = 0;
    while ((state = http_call_read(call, on_event, self)) == HTTP_CALL_OPEN && !interrupted)
        ppoll(&wait, 1, NULL, &self->waiting);
    if (state == HTTP_CALL_BROKEN && !self->error[0])
        snprintf(self->error, sizeof(self->error), "%.250s", trail_text());
    if (state == HTTP_CALL_WHOLE && call->status != 200)
        endpoint_error_text(call->status, http_call_body(call), self->error);
    else if (state == HTTP_CALL_WHOLE && !call->events)
        snprintf(self->error, sizeof(self->error), "the server answers, but not as a stream");
}

static void print_figures(const chat_t *self)
{
    double first = self->first_at - self->began_at, rest = now_s() - self->first_at;

    if (self->first_at == 0 || self->tokens == 0)
        return;
    printf(DIM "[%" PRIu64 " tokens, the first after %.2f s", self->tokens, first);
    if (rest > 0 && self->tokens > 1)
        printf(", then %.0f/s", (double)(self->tokens - 1) / rest);
    printf("]" PLAIN "\n");
}

static const char *text_of(text_buffer_t *buffer)
{
    text_put(buffer, "", 1);
    return buffer->status == STATUS_OK ? buffer->bytes : "";
}

/* The answer becomes a part of the conversation. False: there is nothing of it. */
static bool answer_keep(chat_t *self)
{
    bool said = self->content.used > 0;
    json_t *message, *calls;

    if (!said && self->call_count == 0)
        return false;
    message = json_pack("{s:s}", "role", "assistant");
    json_object_set_new(message, "content",
                        said ? json_string(text_of(&self->content)) : json_null());
    if (self->reasoning.used)
        json_object_set_new(message, "reasoning_content", json_string(text_of(&self->reasoning)));
    calls = json_array();
    for (uint32_t i = 0; i < self->call_count; i++)
        json_array_append_new(
            calls, json_pack("{s:s, s:s, s:{s:s, s:s}}", "id", self->calls[i].id, "type",
                             "function", "function", "name", self->calls[i].name, "arguments",
                             text_of(&self->calls[i].arguments)));
    if (self->call_count)
        json_object_set(message, "tool_calls", calls);
    json_decref(calls);
    return json_array_append_new(self->messages, message) == 0;
}

/* One request. False: no answer came, or it was stopped before it said anything. */
static bool answer(chat_t *self)
{
    char *body = request_body(self);
    http_call_t call;
    bool stopped;

    answer_reset(self);
    if (!body ||
        http_call_open(&self->endpoint.url, "/chat/completions", body, &call) != STATUS_OK) {
        snprintf(self->error, sizeof(self->error), "%.250s", body ? trail_text() : "out of memory");
    } else {
        answer_read(self, &call);
        http_call_close(&call);
    }
    free(body);
    stopped = interrupted;
    interrupted = 0;
    turn_to(self, PART_NONE);
    if (stopped || self->error[0])
        self->call_count = 0; /* half a call is none */
    if (stopped)
        printf("(stopped)\n");
    if (self->cut)
        printf("(the answer reached its limit)\n");
    if (self->error[0]) {
        fflush(stdout);
        fprintf(stderr, "lockstep chat: %s\n", self->error);
        self->failed = true;
        return false;
    }
    if (self->terminal && !stopped)
        print_figures(self);
    return answer_keep(self);
}

/* ---- the keyboard ---------------------------------------------------------------------------- */

typedef enum { LINE_READ, LINE_DROPPED, LINE_NONE } line_t;

/* The next line of standard input, without its end, in memory of its own. */
static line_t read_line(chat_t *self, const char *prompt, char **line)
{
    struct pollfd wait = {.fd = STDIN_FILENO, .events = POLLIN};

    if (self->terminal)
        printf(BOLD "%s" PLAIN, prompt);
    fflush(stdout);
    for (;;) {
        char *end = memchr(self->input, '\n', self->input_used);
        size_t length = end ? (size_t)(end - self->input) : self->input_used;
        ssize_t got;

        if (end || (self->input_ended && length) || length == LINE_BYTES_MAX) {
            size_t used = length + (end ? 1 : 0);

            *line = strndup(self->input, length);
            self->input_used -= used;
            memmove(self->input, self->input + used, self->input_used);
            return *line ? LINE_READ : LINE_NONE;
        }
        if (self->input_ended)
            return LINE_NONE;
        if (ppoll(&wait, 1, NULL, &self->waiting) < 0 && interrupted) {
            interrupted = 0;
            putchar('\n');
            return self->terminal ? LINE_DROPPED : LINE_NONE;
        }
        got = read(STDIN_FILENO, self->input + self->input_used, LINE_BYTES_MAX - length);
        self->input_ended = got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN);
        self->input_used += got > 0 ? (size_t)got : 0;
    }
}

static void add_message(chat_t *self, const char *role, const char *content, const char *call_id)
{
    json_t *text = json_string(content);
    json_t *message;

    if (!text) /* no UTF-8 */
        text = json_string("?");
    message = json_pack("{s:s, s:o}", "role", role, "content", text);
    if (call_id)
        json_object_set_new(message, "tool_call_id", json_string(call_id));
    json_array_append_new(self->messages, message);
}

/* Who calls a tool waits for what it gives; here a person says it. */
static line_t read_results(chat_t *self)
{
    char prompt[160], *text;
    line_t line = LINE_READ;

    for (uint32_t i = 0; i < self->call_count && line == LINE_READ; i++) {
        snprintf(prompt, sizeof(prompt), "result of call %u: ", i + 1);
        line = read_line(self, prompt, &text);
        if (line != LINE_READ)
            break;
        add_message(self, "tool", text, self->calls[i].id);
        free(text);
    }
    return line;
}

/* ---- the conversation ------------------------------------------------------------------------ */

/* A message and all that follows from it. What gets no answer is forgotten. */
static line_t converse(chat_t *self, const char *text)
{
    size_t before = json_array_size(self->messages);
    line_t line = LINE_READ;
    bool whole;

    add_message(self, "user", text, NULL);
    while ((whole = answer(self)) && self->call_count > 0)
        if ((line = read_results(self)) != LINE_READ)
            break;
    if (!whole || line != LINE_READ)
        while (json_array_size(self->messages) > before)
            json_array_remove(self->messages, json_array_size(self->messages) - 1);
    return line;
}

static void run(chat_t *self)
{
    char *text;
    line_t line;

    if (self->terminal)
        printf("%s at http://%s:%s%s. Ctrl-C stops an answer, Ctrl-D ends.\n",
               self->endpoint.model, self->endpoint.url.host, self->endpoint.url.port,
               self->endpoint.url.base);
    while ((line = read_line(self, "> ", &text)) != LINE_NONE) {
        if (line == LINE_DROPPED)
            continue;
        if (text[strspn(text, " \t\r")])
            line = converse(self, text);
        free(text);
        if (line == LINE_NONE)
            break;
    }
    if (self->terminal)
        putchar('\n');
}

/* ---- the command ----------------------------------------------------------------------------- */

static status_t read_tools(const char *path, json_t **tools)
{
    json_error_t error;
    json_t *root = json_load_file(path, 0, &error), *list;

    if (!root)
        return FAIL(STATUS_BAD_FILE, "%s:%d: %s", path, error.line, error.text);
    list = json_is_array(root) ? root : json_object_get(root, "tools");
    if (!json_is_array(list)) {
        json_decref(root);
        return FAIL(STATUS_BAD_FILE, "%s: not an array of tools as the API takes it", path);
    }
    *tools = json_incref(list);
    json_decref(root);
    return STATUS_OK;
}

static int parse(int argc, char **argv, options_t *options)
{
    static const struct option long_options[] = {{"url", required_argument, NULL, 'u'},
                                                 {"tools", required_argument, NULL, 't'},
                                                 {"system", required_argument, NULL, 's'},
                                                 {"thinking", no_argument, NULL, 'k'},
                                                 {NULL, 0, NULL, 0}};
    int option;

    optind = 1;
    while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
        if (option == 'u')
            options->url = optarg;
        else if (option == 't')
            options->tools_file = optarg;
        else if (option == 's')
            options->system = optarg;
        else if (option == 'k')
            options->thinking = true;
        else
            return command_usage("chat", "a NAME or --url, not both");
    }
    if (optind < argc)
        options->name = argv[optind++];
    return optind < argc || (options->name && options->url)
               ? command_usage("chat", "a NAME or --url, not both")
               : EXIT_OK;
}

/* SIGINT comes only while something is waited for. */
static void catch_interrupts(chat_t *self)
{
    struct sigaction action = {.sa_handler = on_interrupt};
    sigset_t interrupt;

    sigemptyset(&interrupt);
    sigaddset(&interrupt, SIGINT);
    sigprocmask(SIG_BLOCK, &interrupt, &self->waiting);
    sigdelset(&self->waiting, SIGINT);
    sigaction(SIGINT, &action, NULL);
}

int command_chat(int argc, char **argv)
{
    static chat_t self;
    options_t options = {0};
    int code = parse(argc, argv, &options);
    status_t status;

    if (code != EXIT_OK)
        return code;
    if (options.tools_file && read_tools(options.tools_file, &self.tools) != STATUS_OK) {
        fprintf(stderr, "lockstep chat: %s\n", trail_text());
        return EXIT_BAD_FILE;
    }
    status = endpoint_find(options.name, options.url, &self.endpoint);
    if (status != STATUS_OK) {
        fprintf(stderr, "lockstep chat: %s\n", trail_text());
        json_decref(self.tools);
        return status == STATUS_INVALID || status == STATUS_UNSUPPORTED ? EXIT_USAGE
                                                                        : EXIT_NOT_RUNNING;
    }
    self.thinking = options.thinking;
    self.terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    self.messages = json_array();
    self.input = malloc(LINE_BYTES_MAX);
    if (self.input && self.messages) {
        if (options.system)
            add_message(&self, "system", options.system, NULL);
        catch_interrupts(&self);
        run(&self);
    }
    answer_reset(&self);
    json_decref(self.messages);
    json_decref(self.tools);
    free(self.input);
    return self.failed ? EXIT_FAILED : EXIT_OK;
}

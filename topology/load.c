/* load.c - topology_load: the steps in order, and the errors they share. */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "topology/internal.h"

void topology_errors_add(topology_errors_t *errors, topology_mark_t at, const char *format, ...)
{
    if (errors->count == TOPOLOGY_ERRORS_MAX) {
        errors->dropped++;
        return;
    }
    topology_error_t *error = &errors->items[errors->count++];
    error->at = at;
    va_list list;
    va_start(list, format);
    int length = vsnprintf(error->text, sizeof(error->text), format, list);
    va_end(list);
    ASSERT(length >= 0);
    for (char *c = error->text; *c; c++) /* what came out of a file stays one line of a terminal */
        if ((unsigned char)*c < 0x20 || *c == 0x7F)
            *c = '?';
}

static bool stands_before(topology_mark_t a, topology_mark_t b)
{
    return a.line < b.line || (a.line == b.line && a.column < b.column);
}

/* Insertion keeps the order of those that stand at one place. */
static void errors_sort(topology_errors_t *errors)
{
    for (uint32_t i = 1; i < errors->count; i++) {
        topology_error_t error = errors->items[i];
        uint32_t k = i;
        for (; k > 0 && stands_before(error.at, errors->items[k - 1].at); k--)
            errors->items[k] = errors->items[k - 1];
        errors->items[k] = error;
    }
}

void topology_errors_print(const topology_errors_t *errors, FILE *out)
{
    for (uint32_t i = 0; i < errors->count; i++) {
        const topology_error_t *error = &errors->items[i];
        if (error->at.line == 0)
            fprintf(out, "%s: %s\n", errors->file, error->text);
        else
            fprintf(out, "%s:%u:%u: %s\n", errors->file, error->at.line, error->at.column,
                    error->text);
    }
    if (errors->dropped > 0)
        fprintf(out, "%s: and %u more\n", errors->file, errors->dropped);
}

/* ---- what follows from the file's own name ---------------------------------------------------- */

/* "x/8-devices.yaml" -> "8-devices"; signs that no name has become '-'. */
static void derive_name(topology_t *topology)
{
    const char *slash = strrchr(topology->file, '/');
    const char *stem = slash ? slash + 1 : topology->file;
    size_t length = strcspn(stem, ".");
    size_t used = 0;
    for (size_t i = 0; i < length && used < DEPLOYMENT_NAME_BYTES_MAX - 1; i++) {
        char c = stem[i];
        bool fits = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (fits || used > 0)
            topology->name[used++] = fits || c == '_' ? c : '-';
    }
    if (used == 0)
        snprintf(topology->name, sizeof(topology->name), "lockstep");
}

static void derive_served_name(topology_t *topology)
{
    size_t end = strlen(topology->model);
    while (end > 1 && topology->model[end - 1] == '/')
        end--;
    size_t start = end;
    while (start > 0 && topology->model[start - 1] != '/')
        start--;
    size_t length = end - start;
    if (length == 0 || length >= sizeof(topology->served_name))
        length = (size_t)snprintf(topology->served_name, sizeof(topology->served_name), "model");
    else
        memcpy(topology->served_name, topology->model + start, length);
    topology->served_name[length] = '\0';
}

static void derive_names(topology_load_t *load)
{
    topology_t *topology = &load->topology;
    if (topology->name[0] == '\0')
        derive_name(topology);
    if (strlen(topology->name) >= DEPLOYMENT_NAME_BYTES_MAX)
        topology_errors_add(load->errors, places_find(load, topology->name, NULL),
                            "name: found '%.40s' of %zu bytes, at most %d are possible",
                            topology->name, strlen(topology->name), DEPLOYMENT_NAME_BYTES_MAX - 1);
    if (topology->served_name[0] == '\0')
        derive_served_name(topology);
    const char *slash = strrchr(topology->file, '/');
    int folder = slash ? (int)(slash - topology->file) + 1 : 0;
    if (topology->model[0] == '/')
        folder = 0;
    int length = snprintf(topology->model_path, sizeof(topology->model_path), "%.*s%s", folder,
                          topology->file, topology->model);
    if (length >= (int)sizeof(topology->model_path))
        topology_errors_add(load->errors, places_find(load, topology->model, NULL),
                            "model: the path from here has more than %d bytes", PATH_BYTES_MAX - 1);
}

/* ---- life ------------------------------------------------------------------------------------- */

static void load_steps(topology_load_t *load)
{
    void (*const steps[])(topology_load_t *) = {topology_parse_tree, derive_names,
                                                topology_validate, topology_place};
    for (size_t i = 0; i < COUNT_OF(steps) && load->errors->count == 0; i++)
        steps[i](load);
    if (load->errors->count > 0)
        return;
    topology_derive_actors(&load->topology);
    load->topology.version = topology_digest(&load->topology);
}

status_t topology_parse(const char *text, size_t bytes, const char *path, topology_t *topology,
                        topology_errors_t *errors)
{
    memset(errors, 0, sizeof(*errors));
    snprintf(errors->file, sizeof(errors->file), "%s", path);
    if (strlen(path) >= PATH_BYTES_MAX) {
        topology_errors_add(errors, (topology_mark_t){0, 0}, "a path of more than %d bytes",
                            PATH_BYTES_MAX - 1);
        return FAIL(STATUS_BAD_CONFIG, "the path of the topology file is too long");
    }
    topology_load_t *load = calloc(1, sizeof(*load));
    if (!load)
        return FAIL(STATUS_NO_MEMORY, "no memory to read a topology file");
    load->errors = errors;
    snprintf(load->topology.file, sizeof(load->topology.file), "%s", path);
    status_t status = yaml_read(text, bytes, &load->tree, errors);
    if (status == STATUS_OK)
        load_steps(load);
    bool good = errors->count == 0;
    if (good)
        *topology = load->topology;
    free(load);
    errors_sort(errors);
    if (status == STATUS_NO_MEMORY)
        return status;
    if (!good)
        return FAIL(STATUS_BAD_CONFIG, "%s: %s", path, errors->items[0].text);
    return STATUS_OK;
}

static status_t load_refuse(const char *path, const char *why, topology_errors_t *errors)
{
    memset(errors, 0, sizeof(*errors));
    snprintf(errors->file, sizeof(errors->file), "%s", path);
    topology_errors_add(errors, (topology_mark_t){0, 0}, "%s", why);
    return FAIL(STATUS_BAD_CONFIG, "%s: %s", path, why);
}

status_t topology_load(const char *path, topology_t *topology, topology_errors_t *errors)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return load_refuse(path, strerror(errno), errors);
    /* One byte more than a file may have shows that it has too many. */
    char *text = malloc(TOPOLOGY_BYTES_MAX + 1);
    if (!text) {
        fclose(file);
        return FAIL(STATUS_NO_MEMORY, "no memory to read a topology file");
    }
    errno = 0;
    size_t bytes = fread(text, 1, TOPOLOGY_BYTES_MAX + 1, file);
    int failed = ferror(file) ? errno : 0;
    fclose(file);
    status_t status = failed ? load_refuse(path, strerror(failed), errors)
                             : topology_parse(text, bytes, path, topology, errors);
    free(text);
    return status;
}

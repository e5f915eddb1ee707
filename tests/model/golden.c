#include "tests/model/golden.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <unistd.h>

/* Another golden folder need not have all parts (numbers, tokenizer, chat): what needs one that is
 * missing is skipped. */
static void golden_path(const char *name, char path[1024])
{
    const char *folder = getenv("LOCKSTEP_GOLDEN");
    if (folder != NULL) {
        snprintf(path, 1024, "%s/%.*s", folder, (int)strcspn(name, "/"), name);
        if (access(path, F_OK) != 0) {
            print_message("no %s\n", path);
            skip();
        }
    }
    snprintf(path, 1024, "%s/%s", folder == NULL ? "tests/golden" : folder, name);
}

char *golden_read(const char *name, size_t *length)
{
    char path[1024];
    golden_path(name, path);
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        fail_msg("%s cannot be read", path);
    fseek(file, 0, SEEK_END);
    size_t bytes = (size_t)ftell(file);
    rewind(file);
    char *text = malloc(bytes + 1);
    *length = fread(text, 1, bytes, file);
    fclose(file);
    text[*length] = '\0';
    return text;
}

json_t *golden_load(const char *name)
{
    char path[1024];
    golden_path(name, path);
    json_error_t error;
    json_t *root = json_load_file(path, JSON_ALLOW_NUL, &error);
    if (root == NULL)
        fail_msg("%s: line %d: %s", path, error.line, error.text);
    return root;
}

const char *golden_text(const json_t *object, const char *key, size_t *length)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_string(value))
        fail_msg("no text \"%s\" in a vector", key);
    *length = json_string_length(value);
    return json_string_value(value);
}

bool golden_line(FILE **file, const char *path, json_t **object)
{
    if (*file == NULL && (*file = fopen(path, "r")) == NULL)
        fail_msg("%s cannot be read", path);
    json_error_t error;
    *object = json_loadf(*file, JSON_ALLOW_NUL | JSON_DISABLE_EOF_CHECK, &error);
    if (*object != NULL)
        return true;
    if (!feof(*file))
        fail_msg("%s: line %d: %s", path, error.line, error.text);
    fclose(*file);
    *file = NULL;
    return false;
}

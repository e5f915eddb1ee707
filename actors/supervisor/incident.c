#include "actors/supervisor/incident.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/log.h"
#include "runtime/journal.h"
#include "runtime/show.h"

enum { NAME_BYTES = ACTOR_NAME_BYTES_MAX + 32, NUMBER_DIGITS = 6 };

/* "decode.0" */
static void actor_name(const incident_place_t *place, actor_id_t actor, char name[NAME_BYTES])
{
    snprintf(name, NAME_BYTES, "%s", roster_name(place->roster, actor));
    for (char *at = name; *at; at++)
        if (*at == '/')
            *at = '.';
}

/* "decode.0-3" */
static void life_name(const incident_place_t *place, actor_id_t actor, incarnation_t life,
                      char name[NAME_BYTES])
{
    size_t length;

    actor_name(place, actor, name);
    length = strlen(name);
    snprintf(name + length, NAME_BYTES - length, "-%u", life);
}

static bool join(char *path, const char *folder, const char *name)
{
    return snprintf(path, INCIDENT_PATH_BYTES, "%s/%s", folder, name) < INCIDENT_PATH_BYTES;
}

/* ---- folders --------------------------------------------------------------------------------- */

static int is_incident(const struct dirent *entry)
{
    return strspn(entry->d_name, "0123456789") == NUMBER_DIGITS &&
           entry->d_name[NUMBER_DIGITS] == '-';
}

/* A folder of one incident, with the files in it. */
static void remove_incident(const char *folder, const char *name)
{
    char path[INCIDENT_PATH_BYTES];
    DIR *directory = join(path, folder, name) ? opendir(path) : NULL;
    struct dirent *entry;

    while (directory && (entry = readdir(directory)) != NULL)
        if (entry->d_name[0] != '.')
            unlinkat(dirfd(directory), entry->d_name, 0);
    if (directory)
        closedir(directory);
    rmdir(path);
}

/* Room for one more; returns its number. */
static unsigned make_room(const char *folder)
{
    struct dirent **entries;
    int count = scandir(folder, &entries, is_incident, alphasort);
    unsigned number = 1;

    if (count < 0)
        return number;
    if (count > 0)
        number = (unsigned)strtoul(entries[count - 1]->d_name, NULL, 10) + 1;
    for (int i = 0; i < count; i++) {
        if (i + INCIDENTS_MAX <= count)
            remove_incident(folder, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    return number;
}

static bool make_folder(const incident_place_t *place, const char *life, char *path)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* two may not find the same number */
    char name[NAME_BYTES + NUMBER_DIGITS + 1];
    bool made;

    if (mkdir(place->folder, 0700) != 0 && errno != EEXIST)
        return false;
    (void)pthread_mutex_lock(&lock);
    snprintf(name, sizeof(name), "%0*u-%s", NUMBER_DIGITS, make_room(place->folder), life);
    made = join(path, place->folder, name) && mkdir(path, 0700) == 0;
    (void)pthread_mutex_unlock(&lock);
    return made;
}

/* ---- journals -------------------------------------------------------------------------------- */

static void copy_file(const char *from, const char *to)
{
    int source = open(from, O_RDONLY | O_CLOEXEC);
    int target = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    off_t at = 0;

    while (source >= 0 && target >= 0 && sendfile(target, source, &at, INT32_MAX) > 0)
        ;
    if (source >= 0)
        close(source);
    if (target >= 0)
        close(target);
    journal_trim(to);
}

/* Incidents may lie on another file system. */
static void move_file(const char *from, const char *to)
{
    if (rename(from, to) == 0) {
        journal_trim(to);
        return;
    }
    copy_file(from, to);
    unlink(from);
}

static void remove_file(const char *from, const char *to)
{
    (void)to;
    unlink(from);
}

/* Each journal of that life. */
static void each_journal(const incident_place_t *place, const char *life, const char *folder,
                         void (*act)(const char *from, const char *to))
{
    char from[INCIDENT_PATH_BYTES], to[INCIDENT_PATH_BYTES];
    DIR *directory = opendir(place->journals);
    size_t length = strlen(life);
    struct dirent *entry;

    while (directory && (entry = readdir(directory)) != NULL)
        if (strncmp(entry->d_name, life, length) == 0 && entry->d_name[length] == '-' &&
            join(from, place->journals, entry->d_name) && join(to, folder, entry->d_name))
            act(from, to);
    if (directory)
        closedir(directory);
}

/* ---- frames ---------------------------------------------------------------------------------- */

typedef struct {
    const incident_place_t *place;
    arena_t arena;
    FILE *out;
} lines_t;

static void write_line(void *context, const show_t *message)
{
    lines_t *lines = context;

    show_message(message, lines->place->table, lines->place->roster, false, &lines->arena,
                 lines->out);
    fputc('\n', lines->out);
}

static void write_frames(const incident_place_t *place, const char *folder, actor_id_t actor,
                         const ring_t *ring)
{
    char path[INCIDENT_PATH_BYTES], name[NAME_BYTES];
    uint8_t *memory = malloc(MESSAGE_ARENA_BYTES), *bytes = malloc(RING_RECORD_BYTES_MAX);
    lines_t lines = {.place = place};
    ring_reader_t reader;
    ring_record_t record;

    actor_name(place, actor, name);
    if (snprintf(path, sizeof(path), "%s/%s.frames", folder, name) < (int)sizeof(path))
        lines.out = fopen(path, "w");
    if (memory && bytes && lines.out) {
        arena_init(&lines.arena, memory, MESSAGE_ARENA_BYTES);
        ring_reader_begin(ring, true, &reader);
        while (ring_read(ring, &reader, &record, bytes))
            show_record(&record, bytes, actor, write_line, &lines);
    }
    if (lines.out)
        fclose(lines.out);
    free(memory);
    free(bytes);
}

/* ---- incidents ------------------------------------------------------------------------------- */

void incident_begin(const incident_place_t *place, actor_id_t actor, incarnation_t life,
                    incident_t *incident)
{
    char name[NAME_BYTES];

    incident_end(place, incident);
    if (!place->folder)
        return;
    *incident = (incident_t){.actor = actor, .life = life};
    life_name(place, actor, life, name);
    if (!make_folder(place, name, incident->path)) {
        LOG(WARN, "INCIDENT-LOST life=%s folder=%s: %s", name, place->folder, strerror(errno));
        incident->path[0] = '\0';
        each_journal(place, name, "", remove_file);
        return;
    }
    trail_reset();
    if (ring_open(place->shm_prefix, roster_name(place->roster, actor), &incident->ring) !=
        STATUS_OK)
        incident->ring = NULL; /* it ended before it had one */
}

bool incident_is_open(const incident_t *incident)
{
    return incident->path[0] != '\0';
}

void incident_end(const incident_place_t *place, incident_t *incident)
{
    char name[NAME_BYTES];

    if (incident->path[0]) {
        life_name(place, incident->actor, incident->life, name);
        each_journal(place, name, incident->path, move_file);
    }
    if (incident->ring)
        write_frames(place, incident->path, incident->actor, incident->ring);
    ring_close(incident->ring);
    if (incident->path[0])
        LOG(WARN, "INCIDENT-KEPT actor=%s folder=%s", roster_name(place->roster, incident->actor),
            incident->path);
    *incident = (incident_t){0};
}

static void copy_one(const incident_place_t *place, actor_id_t actor, incarnation_t life,
                     const char *folder)
{
    char name[NAME_BYTES];
    ring_t *ring = NULL;

    life_name(place, actor, life, name);
    each_journal(place, name, folder, copy_file);
    trail_reset();
    if (ring_open(place->shm_prefix, roster_name(place->roster, actor), &ring) != STATUS_OK)
        return;
    write_frames(place, folder, actor, ring);
    ring_close(ring);
}

void incident_copy(const incident_place_t *place, actor_id_t actor, const incarnation_t *lives)
{
    char name[NAME_BYTES], folder[INCIDENT_PATH_BYTES];

    if (!place->folder)
        return;
    life_name(place, actor, lives[actor], name);
    if (!make_folder(place, name, folder)) {
        LOG(WARN, "INCIDENT-LOST life=%s folder=%s: %s", name, place->folder, strerror(errno));
        return;
    }
    for (uint32_t i = 0; i < place->roster->count; i++)
        if (lives[i] != 0 && (i == actor || place->roster->actors[i].leader == actor))
            copy_one(place, (actor_id_t)i, lives[i], folder);
    LOG(WARN, "INCIDENT-KEPT actor=%s folder=%s", roster_name(place->roster, actor), folder);
}

void incident_none(const incident_place_t *place, actor_id_t actor, incarnation_t life)
{
    char name[NAME_BYTES];

    if (!place->folder || (place->keep && access(place->keep, F_OK) == 0))
        return;
    life_name(place, actor, life, name);
    each_journal(place, name, "", remove_file);
}

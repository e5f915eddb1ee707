#include "cli/rundir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base/random.h"

enum { FILE_BYTES = RUNDIR_PATH_BYTES + 32, DEPLOYMENTS_MAX = 16, FOLDERS_DEEP = 2 };
enum { LOOK_MS = 20, PATIENCE_MS = 5000 };

#define NAMES_LOCK "lock"

/* ---- names ----------------------------------------------------------------------------------- */

/* XDG_RUNTIME_DIR of another user (who became this one and kept the environment) is not ours to use. */
static bool is_foreign(const char *runtime)
{
    struct stat info;

    return stat(runtime, &info) == 0 && info.st_uid != getuid();
}

static status_t root_path(char *path)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    int length = runtime && runtime[0] && !is_foreign(runtime)
                     ? snprintf(path, RUNDIR_PATH_BYTES, "%s/lockstep", runtime)
                     : snprintf(path, RUNDIR_PATH_BYTES, "/tmp/lockstep-%u", (unsigned)getuid());

    return length < RUNDIR_PATH_BYTES
               ? STATUS_OK
               : FAIL(STATUS_TOO_LARGE, "XDG_RUNTIME_DIR is too long: %s", runtime);
}

static bool is_name(const char *name)
{
    size_t length =
        strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.");

    return length > 0 && length < DEPLOYMENT_NAME_BYTES_MAX && !name[length] && name[0] != '.' &&
           name[0] != '-';
}

/* Shared memory is the machine's, the directory may be anywhere: two of one name are two prefixes. */
static uint32_t digest_of(const char *path)
{
    uint64_t digest = getuid();

    for (; *path; path++)
        digest = random_mix(digest ^ (unsigned char)*path);
    return (uint32_t)digest;
}

status_t rundir_name(const char *name, rundir_t *rundir)
{
    char root[RUNDIR_PATH_BYTES];

    *rundir = (rundir_t){.lock = -1, .names = -1};
    if (!is_name(name))
        return FAIL(STATUS_INVALID,
                    "a deployment's name has up to 31 letters, digits, '-', '_', '.', and does not "
                    "begin with '-' or '.': not '%s'",
                    name);
    TRY(root_path(root));
    snprintf(rundir->name, sizeof(rundir->name), "%s", name);
    if (snprintf(rundir->path, sizeof(rundir->path), "%s/%s", root, name) >= RUNDIR_PATH_BYTES)
        return FAIL(STATUS_TOO_LARGE, "the path %s/%s is too long for the sockets in it", root,
                    name);
    snprintf(rundir->shm_prefix, sizeof(rundir->shm_prefix),
             "/lockstep-%08x:%s:", digest_of(rundir->path), name);
    return STATUS_OK;
}

void rundir_file(const rundir_t *rundir, const char *leaf, char *path)
{
    int length = snprintf(path, FILE_BYTES, "%s/%s", rundir->path, leaf);

    ASSERT(length < FILE_BYTES);
}

/* ---- what a run leaves ----------------------------------------------------------------------- */

static bool is_among(const char *name, const char *const *names)
{
    for (; names && *names; names++)
        if (strcmp(name, *names) == 0)
            return true;
    return false;
}

/* Files and folders in `folder`, which stays; not what `kept` names, up to a NULL. */
static void clear_folder(int folder, const char *const *kept, unsigned depth)
{
    DIR *directory = fdopendir(folder);
    struct dirent *entry;

    if (!directory) {
        close(folder);
        return;
    }
    while ((entry = readdir(directory)) != NULL) {
        int inner;

        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
            is_among(entry->d_name, kept) || unlinkat(folder, entry->d_name, 0) == 0 ||
            depth == 0)
            continue;
        inner = openat(folder, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (inner < 0)
            continue;
        clear_folder(inner, NULL, depth - 1);
        unlinkat(folder, entry->d_name, AT_REMOVEDIR);
    }
    closedir(directory);
}

static void clear_files(const rundir_t *rundir, bool keep)
{
    static const char *const lock[] = {"lock", NULL};
    static const char *const kept[] = {"lock",      RUNDIR_KEEP,    "log",
                                       "incidents", RUNDIR_JOURNAL, NULL};
    int folder = open(rundir->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (folder >= 0)
        clear_folder(folder, keep ? kept : lock, FOLDERS_DEEP);
}

static void clear_shared_memory(const rundir_t *rundir)
{
    DIR *directory = opendir("/dev/shm");
    const char *prefix = rundir->shm_prefix + 1;
    struct dirent *entry;

    while (directory && (entry = readdir(directory)) != NULL)
        if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0 &&
            strcmp(entry->d_name + strlen(prefix), NAMES_LOCK) != 0)
            unlinkat(dirfd(directory), entry->d_name, 0);
    if (directory)
        closedir(directory);
}

/* Epoch of the newest segment of a group; 0: there is none. Names end in the epoch, which grows. */
static unsigned long long newest_segment(const char *prefix)
{
    DIR *directory = opendir("/dev/shm");
    unsigned long long newest = 0, epoch;
    struct dirent *entry;

    while (directory && (entry = readdir(directory)) != NULL)
        if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0 &&
            (epoch = strtoull(entry->d_name + strlen(prefix), NULL, 16)) > newest)
            newest = epoch;
    if (directory)
        closedir(directory);
    return newest;
}

status_t rundir_segment(const rundir_t *rundir, uint16_t leader, char *name, size_t bytes)
{
    unsigned long long newest;
    char prefix[RUNDIR_PREFIX_BYTES + 32];

    snprintf(prefix, sizeof(prefix), "%sgroup-%u-", rundir->shm_prefix + 1, leader);
    newest = newest_segment(prefix);
    if (!newest)
        return FAIL(STATUS_NOT_FOUND, "no collectives of group %u", leader);
    snprintf(name, bytes, "/%s%llx", prefix, newest);
    return STATUS_OK;
}

/* The newest one stays: a group may be about to use it. */
void rundir_segments_sweep(const char *shm_prefix)
{
    DIR *directory = opendir("/dev/shm");
    size_t common = strlen(shm_prefix + 1);
    unsigned long long epoch;
    unsigned leader;
    struct dirent *entry;
    char prefix[RUNDIR_PREFIX_BYTES + 32];

    while (directory && (entry = readdir(directory)) != NULL) {
        if (strncmp(entry->d_name, shm_prefix + 1, common) != 0 ||
            sscanf(entry->d_name + common, "group-%u-%llx", &leader, &epoch) != 2)
            continue;
        snprintf(prefix, sizeof(prefix), "%sgroup-%u-", shm_prefix + 1, leader);
        if (epoch < newest_segment(prefix))
            unlinkat(dirfd(directory), entry->d_name, 0);
    }
    if (directory)
        closedir(directory);
}

/* Creates a directory that only this user may enter, or checks that an existing one is such. */
static status_t make_private(const char *path)
{
    struct stat info;

    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return FAIL(STATUS_IO, "cannot create %s: %s", path, strerror(errno));
    if (lstat(path, &info) != 0 || !S_ISDIR(info.st_mode) || info.st_uid != getuid() ||
        (info.st_mode & 077) != 0)
        return FAIL(STATUS_REFUSED, "%s is not a directory of this user's own with mode 0700",
                    path);
    return STATUS_OK;
}

/* ---- locks ----------------------------------------------------------------------------------- */

/* Asking takes nothing, so that who looks is in nobody's way. */
bool rundir_is_locked(int lock)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

    return fcntl(lock, F_OFD_GETLK, &whole) != 0 || whole.l_type != F_UNLCK;
}

static bool is_named(int lock, const char *path)
{
    struct stat mine, found;

    return fstat(lock, &mine) == 0 && stat(path, &found) == 0 && mine.st_ino == found.st_ino &&
           mine.st_dev == found.st_dev;
}

/* One that has lost its name since it was opened keeps nobody out. */
static status_t take_lock(const rundir_t *rundir, const char *path, int *lock)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int file = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

    if (file < 0)
        return FAIL(STATUS_IO, "cannot open %s: %s", path, strerror(errno));
    if (fcntl(file, F_OFD_SETLK, &whole) != 0 || !is_named(file, path)) {
        close(file);
        return FAIL(STATUS_BUSY, "a deployment named %s runs already", rundir->name);
    }
    *lock = file;
    return STATUS_OK;
}

static void names_path(const rundir_t *rundir, char *path)
{
    (void)snprintf(path, FILE_BYTES, "/dev/shm%s" NAMES_LOCK, rundir->shm_prefix);
}

static status_t take_directory(rundir_t *rundir)
{
    char root[RUNDIR_PATH_BYTES], path[FILE_BYTES];

    TRY(root_path(root));
    TRY(make_private(root));
    TRY(make_private(rundir->path));
    rundir_file(rundir, "lock", path);
    TRY(take_lock(rundir, path, &rundir->lock));
    return STATUS_OK;
}

/* The names first and last, so that no two are ever at one directory. */
status_t rundir_open(const char *name, rundir_t *rundir)
{
    char path[FILE_BYTES];
    status_t status;

    TRY(rundir_name(name, rundir));
    names_path(rundir, path);
    TRY(take_lock(rundir, path, &rundir->names));
    status = take_directory(rundir);
    if (status != STATUS_OK) {
        unlink(path);
        rundir_leave(rundir);
        return status;
    }
    clear_files(rundir, false);
    clear_shared_memory(rundir);
    return STATUS_OK;
}

bool rundir_is_there(const rundir_t *rundir)
{
    char path[FILE_BYTES];

    rundir_file(rundir, "lock", path);
    return is_named(rundir->lock, path);
}

void rundir_leave(rundir_t *rundir)
{
    if (rundir->lock >= 0)
        close(rundir->lock);
    if (rundir->names >= 0)
        close(rundir->names);
    rundir->lock = rundir->names = -1;
}

status_t rundir_journal_make(const rundir_t *rundir)
{
    char path[FILE_BYTES];

    rundir_file(rundir, RUNDIR_JOURNAL, path);
    return make_private(path);
}

/* Its holder ended in order and has left what was to be kept. */
static bool was_kept(const rundir_t *rundir)
{
    char path[FILE_BYTES];
    bool marked;

    rundir_file(rundir, RUNDIR_KEEP, path);
    marked = access(path, F_OK) == 0;
    rundir_file(rundir, "lock", path);
    return marked && access(path, F_OK) != 0;
}

/* Children that a supervisor had forked when it died hold its locks until they execute their program,
 * and then end. */
static bool open_after_death(const char *name, rundir_t *rundir)
{
    const struct timespec look = {0, LOOK_MS * 1000000L};
    status_t status;
    pid_t holder;

    for (int ms = 0; (status = rundir_open(name, rundir)) == STATUS_BUSY; ms += LOOK_MS) {
        holder = rundir_holder(rundir);
        if (ms > PATIENCE_MS || holder == 0 || kill(holder, 0) == 0 || errno != ESRCH)
            break;
        nanosleep(&look, NULL);
    }
    return status == STATUS_OK;
}

void rundir_remove(rundir_t *rundir)
{
    char name[NAME_BYTES_MAX], path[FILE_BYTES];

    memcpy(name, rundir->name, sizeof(name));
    if (rundir->lock < 0 && was_kept(rundir))
        return;
    if (rundir->lock < 0 && !open_after_death(name, rundir))
        return; /* a next one runs there */
    rundir_file(rundir, RUNDIR_KEEP, path);
    clear_files(rundir, access(path, F_OK) == 0);
    clear_shared_memory(rundir);
    rundir_file(rundir, "lock", path);
    unlink(path);
    rmdir(rundir->path);
    names_path(rundir, path);
    unlink(path);
    rundir_leave(rundir);
}

status_t rundir_keep(const rundir_t *rundir)
{
    char path[FILE_BYTES];
    int file;

    rundir_file(rundir, RUNDIR_KEEP, path);
    file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0)
        return FAIL(STATUS_IO, "cannot write %s: %s", path, strerror(errno));
    close(file);
    return STATUS_OK;
}

/* ---- who holds it ---------------------------------------------------------------------------- */

void rundir_pid_write(const rundir_t *rundir, pid_t pid)
{
    char text[32];
    int length = snprintf(text, sizeof(text), "%ld\n", (long)pid);

    ASSERT(rundir->lock >= 0);
    if (ftruncate(rundir->lock, 0) != 0 || pwrite(rundir->lock, text, (size_t)length, 0) != length)
        return; /* a full disk: `down` will not find it, a signal still ends it */
}

pid_t rundir_holder(const rundir_t *rundir)
{
    char path[FILE_BYTES], text[32] = "";
    pid_t pid = 0;
    int lock;

    rundir_file(rundir, "lock", path);
    lock = open(path, O_RDONLY | O_CLOEXEC);
    if (lock < 0)
        return 0;
    if (rundir_is_locked(lock) && read(lock, text, sizeof(text) - 1) > 0)
        pid = (pid_t)strtol(text, NULL, 10);
    close(lock);
    return pid;
}

bool rundir_is_left(const rundir_t *rundir)
{
    return access(rundir->path, F_OK) == 0 && rundir_holder(rundir) == 0;
}

static uint32_t list(char (*names)[NAME_BYTES_MAX], uint32_t max, bool left)
{
    char root[RUNDIR_PATH_BYTES];
    DIR *directory = root_path(root) == STATUS_OK ? opendir(root) : NULL;
    struct dirent *entry;
    uint32_t count = 0;

    while (directory && count < max && (entry = readdir(directory)) != NULL) {
        rundir_t rundir;

        if (is_name(entry->d_name) && rundir_name(entry->d_name, &rundir) == STATUS_OK &&
            (left ? rundir_is_left(&rundir) : rundir_holder(&rundir) != 0))
            memcpy(names[count++], rundir.name, NAME_BYTES_MAX);
    }
    if (directory)
        closedir(directory);
    return count;
}

uint32_t rundir_list(char (*names)[NAME_BYTES_MAX], uint32_t max)
{
    return list(names, max, false);
}

uint32_t rundir_list_left(char (*names)[NAME_BYTES_MAX], uint32_t max)
{
    return list(names, max, true);
}

enum { TEXT_BYTES = DEPLOYMENTS_MAX * NAME_BYTES_MAX };

/* " one two", or "" for none. */
static void join(char (*names)[NAME_BYTES_MAX], uint32_t count, char text[TEXT_BYTES])
{
    size_t used = 0;

    text[0] = '\0';
    for (uint32_t i = 0; i < count; i++) {
        size_t length = strlen(names[i]);

        text[used++] = ' ';
        memcpy(text + used, names[i], length + 1);
        used += length;
    }
}

status_t rundir_find(const char *name, rundir_t *rundir)
{
    char names[DEPLOYMENTS_MAX][NAME_BYTES_MAX], text[TEXT_BYTES];
    uint32_t count = rundir_list(names, DEPLOYMENTS_MAX);

    join(names, count, text);
    if (!name && count > 1)
        return FAIL(STATUS_NOT_FOUND, "several deployments run; name one of:%s", text);
    if (!name && count == 0) {
        count = rundir_list_left(names, DEPLOYMENTS_MAX);
        join(names, count, text);
        return count == 0 ? FAIL(STATUS_NOT_FOUND, "no deployment runs")
                          : FAIL(STATUS_NOT_FOUND,
                                 "no deployment runs, but earlier runs have left files and shared "
                                 "memory, which `lockstep down NAME` clears:%s",
                                 text);
    }
    TRY(rundir_name(name ? name : names[0], rundir));
    if (rundir_holder(rundir))
        return STATUS_OK;
    if (rundir_is_left(rundir))
        return FAIL(STATUS_NOT_FOUND,
                    "%s does not run, but an earlier run has left files in %s and shared memory; "
                    "`lockstep down %s` clears them",
                    name, rundir->path, name);
    return FAIL(STATUS_NOT_FOUND, "no deployment named %s runs; there is:%s", name,
                count ? text : " none");
}

/* ---- what stands in it ----------------------------------------------------------------------- */

status_t rundir_deployment_write(const rundir_t *rundir, const deployment_t *deployment)
{
    char path[FILE_BYTES];
    FILE *file;
    bool whole;

    rundir_file(rundir, "topology", path);
    file = fopen(path, "w");
    whole = file && fwrite(deployment, sizeof(*deployment), 1, file) == 1;
    if (file && fclose(file) != 0)
        whole = false;
    return whole ? STATUS_OK : FAIL(STATUS_IO, "cannot write %s: %s", path, strerror(errno));
}

status_t rundir_deployment_read(const rundir_t *rundir, deployment_t **out)
{
    char path[FILE_BYTES];
    deployment_t *deployment = malloc(sizeof(*deployment));
    FILE *file;
    bool whole;

    rundir_file(rundir, "topology", path);
    file = fopen(path, "r");
    whole = deployment && file && fread(deployment, sizeof(*deployment), 1, file) == 1;
    if (file)
        fclose(file);
    if (!whole) {
        free(deployment);
        return FAIL(STATUS_BAD_FILE, "%s is not what this build of lockstep writes", path);
    }
    *out = deployment;
    return STATUS_OK;
}

/* Line `which` of the file that a gateway writes when it listens. */
static uint16_t read_port(const rundir_t *rundir, uint16_t gateway, unsigned which)
{
    char leaf[32], path[FILE_BYTES];
    unsigned ports[2] = {0, 0};
    FILE *file;
    int count;

    snprintf(leaf, sizeof(leaf), "gateway-%u", gateway);
    rundir_file(rundir, leaf, path);
    file = fopen(path, "r");
    if (!file)
        return 0;
    count = fscanf(file, "%u %u", &ports[0], &ports[1]);
    fclose(file);
    return count == 2 && ports[which] <= UINT16_MAX ? (uint16_t)ports[which] : 0;
}

uint16_t rundir_port(const rundir_t *rundir, uint16_t gateway)
{
    return read_port(rundir, gateway, 0);
}

uint16_t rundir_admin_port(const rundir_t *rundir, uint16_t gateway)
{
    return read_port(rundir, gateway, 1);
}

void rundir_print(const rundir_t *rundir, const topology_t *topology, FILE *out)
{
    const char *incidents = topology->incidents;

    fprintf(out, "%s: files in %s: log, %s%s%s\n", rundir->name, rundir->path,
            topology->journal_bytes ? "journal/, " : "", incidents,
            topology->journal_bytes ? "" : "/ (no journal: `up --journal` keeps one)");
}

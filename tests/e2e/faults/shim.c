/* A layer between a program and the C library that fails one call of the program. It is loaded with LD_PRELOAD.
 *
 * FAULT_FOLDER  calls about files below this folder are counted (an absolute path)
 * FAULT_KIND    what fails, and therefore which calls are counted; see `kinds`
 * FAULT_AT      the number of the call that fails, from 1 on; 0 fails none and only counts
 * FAULT_LASTS   if it is 1, every later call of the kind fails too, as on a disk that stays full
 * FAULT_LOG     a file outside of the folder, to which each counted call is written: its number, its name, its path
 * FAULT_LEAST   for the kinds `storage` and `memory`: requests of fewer bytes are not counted
 * FAULT_RANK    for the kinds of messages: the first word of the environment variable FULGURITE_RANK that is meant
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { OPEN = 1, CREATE = 2, READ = 4, WRITE = 8, SYNC = 16, RENAME = 32, UNLINK = 64, STAT = 128, LIST = 256,
       MKDIR = 512, MAP = 1024, TRUNCATE = 2048, MEMORY = 4096, MESSAGE = 8192, HEAP = 16384,
       ALL = 4095 };
/* What happens at the call, beside an errno that it returns. */
enum { ERRNO, SHORT, KILL, STOP, SLOW, KEEP };

static const struct kind { const char *name; int action, errnum, calls; } kinds[] = {
    {"full", ERRNO, ENOSPC, CREATE | WRITE | SYNC | RENAME | MKDIR | TRUNCATE},
    {"denied", ERRNO, EACCES, OPEN | CREATE | RENAME | UNLINK | STAT | LIST | MKDIR | MAP | TRUNCATE},
    {"broken", ERRNO, EIO, OPEN | CREATE | READ | WRITE | SYNC | RENAME | UNLINK | STAT | LIST | MKDIR | TRUNCATE},
    {"unmapped", ERRNO, ENOMEM, MAP},
    {"interrupted", ERRNO, EINTR, OPEN | CREATE | READ | WRITE | SYNC},
    {"short", SHORT, 0, READ | WRITE},
    {"kill", KILL, 0, ALL},
    {"keep", KEEP, 0, UNLINK},
    {"storage", ERRNO, ENOMEM, MEMORY},
    {"memory", ERRNO, ENOMEM, MEMORY | HEAP},
    {"message-kill", KILL, 0, MESSAGE},
    {"message-stop", STOP, 0, MESSAGE},
    {"message-slow", SLOW, 0, MESSAGE},
};

enum { FDS = 4096, LISTS = 64 };
static const struct kind *kind;
static char folder[PATH_MAX], *paths[FDS];
static DIR *lists[LISTS];
static size_t folder_length, least;
static long at, calls;
static int lasts, log_fd = -1, ours;

__attribute__((constructor)) static void begin(void) {
    const char *name = getenv("FAULT_KIND"), *to = getenv("FAULT_LOG"), *rank = getenv("FAULT_RANK");
    const char *self = getenv("FULGURITE_RANK");
    for (size_t i = 0; name && i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(kinds[i].name, name)) kind = &kinds[i];
    if (!kind) return;
    const char *number = getenv("FAULT_AT"), *stays = getenv("FAULT_LASTS"), *bytes = getenv("FAULT_LEAST");
    at = number ? atol(number) : 0;
    lasts = stays && !strcmp(stays, "1");
    least = bytes ? (size_t)atol(bytes) : 1;
    const char *where = getenv("FAULT_FOLDER");
    if (where) snprintf(folder, sizeof folder, "%s", where);
    folder_length = strlen(folder);
    if (kind->calls == MESSAGE) {
        size_t length = rank ? strlen(rank) : 0;
        if (!length || !self || strncmp(self, rank, length) || self[length] != ' ') { kind = NULL; return; }
    }
    if (to) {
        long fd = syscall(SYS_openat, AT_FDCWD, to, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
        /* a high number, so that those of the program are as always */
        log_fd = (int)syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 900);
        syscall(SYS_close, fd);
    }
    ours = 1;
}

/* The absolute path, if it is below the folder. */
static const char *below(int dir, const char *path, char *room) {
    if (!ours || !path || !folder_length) return NULL;
    if (path[0] != '/') {
        char here[PATH_MAX];
        if (dir != AT_FDCWD || syscall(SYS_getcwd, here, sizeof here) < 0) return NULL;
        if (snprintf(room, PATH_MAX, "%s/%s", here, path) >= PATH_MAX) return NULL;
    } else if (snprintf(room, PATH_MAX, "%s", path) >= PATH_MAX) return NULL;
    int inside = !strncmp(room, folder, folder_length) && (room[folder_length] == '/' || !room[folder_length]);
    return inside ? room : NULL;
}

static const char *of_fd(int fd) { return fd >= 0 && fd < FDS ? paths[fd] : NULL; }

/* Counts a call. Gives 1 if it is to fail; what kills or stops the process happens here. */
static int fails(int call, const char *name, const char *path) {
    if (!ours || !path || !(kind->calls & call)) return 0;
    long number = __atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST);
    int now = at > 0 && (number == at || (lasts && number > at));
    if (log_fd >= 0) {
        char line[PATH_MAX + 64];
        int length = snprintf(line, sizeof line, "%ld %s %s%s\n", number, name, path, now ? " !" : "");
        syscall(SYS_write, log_fd, line, length);
    }
    if (kind->action == KEEP) return 1;
    if (!now) return 0;
    struct timespec pause = {0, 300000000};
    switch (kind->action) {
    case KILL: syscall(SYS_kill, getpid(), SIGKILL); for (;;) ;
    case STOP: syscall(SYS_kill, getpid(), SIGSTOP); return 0;
    case SLOW: nanosleep(&pause, NULL); return 0;
    default: errno = kind->errnum; return 1;
    }
}

#define REAL(result, name, ...) \
    static result (*real)(__VA_ARGS__); \
    if (!real) real = (result (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

static int opened(int dir, const char *path, int flags, mode_t mode, const char *name) {
    char room[PATH_MAX];
    const char *inside = below(dir, path, room);
    if (fails(flags & (O_CREAT | O_TRUNC) ? CREATE : OPEN, name, inside)) return -1;
    int fd = (int)syscall(SYS_openat, dir, path, flags | O_LARGEFILE, mode);
    if (fd >= 0 && fd < FDS) {
        free(paths[fd]);
        paths[fd] = inside ? strdup(inside) : NULL;
    }
    return fd;
}

#define MODE(flags, last) \
    mode_t mode = 0; \
    if ((flags) & (O_CREAT | O_TMPFILE)) { va_list list; va_start(list, last); mode = va_arg(list, mode_t); va_end(list); }
int open(const char *path, int flags, ...) { MODE(flags, flags) return opened(AT_FDCWD, path, flags, mode, "open"); }
int open64(const char *path, int flags, ...) { MODE(flags, flags) return opened(AT_FDCWD, path, flags, mode, "open"); }
int openat(int dir, const char *path, int flags, ...) { MODE(flags, flags) return opened(dir, path, flags, mode, "open"); }
int openat64(int dir, const char *path, int flags, ...) { MODE(flags, flags) return opened(dir, path, flags, mode, "open"); }

int close(int fd) {
    if (fd == log_fd && fd >= 0) return 0;
    if (fd >= 0 && fd < FDS && paths[fd]) { free(paths[fd]); paths[fd] = NULL; }
    return (int)syscall(SYS_close, fd);
}

/* The file descriptor as a path, or as a message if it is a socket and messages are counted. */
static void message(int fd) {
    struct stat s;
    if (ours && kind->calls == MESSAGE && !of_fd(fd) && !syscall(SYS_fstat, fd, &s) && S_ISSOCK(s.st_mode))
        fails(MESSAGE, "message", "socket");
}

/* Half of what was asked for, if a short call is injected here. */
static size_t length(int call, const char *name, int fd, size_t n, int *failed) {
    *failed = fails(call, name, of_fd(fd));
    if (*failed && kind->action == SHORT && n > 1) { *failed = 0; return (n + 1) / 2; }
    if (*failed && kind->action == SHORT) *failed = 0;
    return n;
}

ssize_t write(int fd, const void *data, size_t n) {
    int failed;
    message(fd);
    /* a process that dies in a write leaves a part of it */
    if (ours && kind->action == KILL && (kind->calls & WRITE) && at == calls + 1 && of_fd(fd) && n > 1) syscall(SYS_write, fd, data, n / 2);
    n = length(WRITE, "write", fd, n, &failed);
    return failed ? -1 : syscall(SYS_write, fd, data, n);
}
ssize_t pwrite64(int fd, const void *data, size_t n, off64_t from) {
    int failed;
    n = length(WRITE, "write", fd, n, &failed);
    return failed ? -1 : syscall(SYS_pwrite64, fd, data, n, from);
}
ssize_t writev(int fd, const struct iovec *parts, int count) {
    int failed;
    message(fd);
    length(WRITE, "write", fd, 1, &failed);
    return failed ? -1 : syscall(SYS_writev, fd, parts, count);
}
ssize_t send(int fd, const void *data, size_t n, int flags) {
    message(fd);
    return syscall(SYS_sendto, fd, data, n, flags, NULL, 0);
}
ssize_t read(int fd, void *data, size_t n) {
    int failed;
    n = length(READ, "read", fd, n, &failed);
    return failed ? -1 : syscall(SYS_read, fd, data, n);
}
ssize_t pread64(int fd, void *data, size_t n, off64_t from) {
    int failed;
    n = length(READ, "read", fd, n, &failed);
    return failed ? -1 : syscall(SYS_pread64, fd, data, n, from);
}

int fsync(int fd) { return fails(SYNC, "sync", of_fd(fd)) ? -1 : (int)syscall(SYS_fsync, fd); }
int fdatasync(int fd) { return fails(SYNC, "sync", of_fd(fd)) ? -1 : (int)syscall(SYS_fdatasync, fd); }
int ftruncate64(int fd, off64_t n) { return fails(TRUNCATE, "truncate", of_fd(fd)) ? -1 : (int)syscall(SYS_ftruncate, fd, n); }

int rename(const char *from, const char *to) {
    char room[PATH_MAX];
    if (fails(RENAME, "rename", below(AT_FDCWD, to, room))) return -1;
    return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}
int unlink(const char *path) {
    char room[PATH_MAX];
    if (fails(UNLINK, "unlink", below(AT_FDCWD, path, room))) return kind->action == KEEP ? 0 : -1;
    return (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}
int mkdir(const char *path, mode_t mode) {
    char room[PATH_MAX];
    if (fails(MKDIR, "mkdir", below(AT_FDCWD, path, room))) return -1;
    return (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}
int statx(int dir, const char *path, int flags, unsigned mask, struct statx *out) {
    char room[PATH_MAX];
    /* Rust asks with no path whether the system has this call; gcc takes the path for one that is never null */
    const char *volatile given = path;
    const char *inside = given && given[0] ? below(dir, given, room) : given ? of_fd(dir) : NULL;
    return fails(STAT, "stat", inside) ? -1 : (int)syscall(SYS_statx, dir, path, flags, mask, out);
}

DIR *opendir(const char *path) {
    REAL(DIR *, "opendir", const char *);
    char room[PATH_MAX];
    const char *inside = below(AT_FDCWD, path, room);
    if (fails(LIST, "opendir", inside)) return NULL;
    DIR *list = real(path);
    for (int i = 0; inside && list && i < LISTS; i++) if (!lists[i]) { lists[i] = list; break; }
    return list;
}
struct dirent64 *readdir64(DIR *list) {
    REAL(struct dirent64 *, "readdir64", DIR *);
    for (int i = 0; i < LISTS; i++)
        if (lists[i] == list && fails(LIST, "readdir", folder)) return NULL;
    return real(list);
}
int closedir(DIR *list) {
    REAL(int, "closedir", DIR *);
    for (int i = 0; i < LISTS; i++) if (lists[i] == list) lists[i] = NULL;
    return real(list);
}

static void *mapped(void *to, size_t n, int rights, int flags, int fd, off64_t from) {
    if (fd >= 0 && fails(MAP, "mmap", of_fd(fd))) return MAP_FAILED;
    if (fd < 0 && n >= least && fails(MEMORY, "mmap", "memory")) return MAP_FAILED;
    return (void *)syscall(SYS_mmap, to, n, rights, flags, fd, from);
}
void *mmap(void *to, size_t n, int rights, int flags, int fd, off_t from) { return mapped(to, n, rights, flags, fd, from); }
void *mmap64(void *to, size_t n, int rights, int flags, int fd, off64_t from) { return mapped(to, n, rights, flags, fd, from); }

void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t), *__libc_memalign(size_t, size_t);
static int no_memory(size_t n, const char *name) { return ours && n >= least && fails(HEAP, name, "memory"); }
void *malloc(size_t n) { return no_memory(n, "malloc") ? NULL : __libc_malloc(n); }
void *calloc(size_t n, size_t each) { return no_memory(n * each, "calloc") ? NULL : __libc_calloc(n, each); }
void *realloc(void *old, size_t n) { return no_memory(n, "realloc") ? NULL : __libc_realloc(old, n); }
void *memalign(size_t to, size_t n) { return no_memory(n, "memalign") ? NULL : __libc_memalign(to, n); }
void *aligned_alloc(size_t to, size_t n) { return memalign(to, n); }
int posix_memalign(void **out, size_t to, size_t n) {
    if (no_memory(n, "memalign")) return ENOMEM;
    *out = __libc_memalign(to, n);
    return *out ? 0 : ENOMEM;
}

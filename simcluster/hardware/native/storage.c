/* Makes a volume slow, full, late or faulty for the processes of a container: preloaded, between program and libc.
 *
 * A file belongs to a volume when it lies on the volume's file system (st_dev), so relative paths, links and inherited
 * descriptors need no bookkeeping. Programs linked statically, memory maps and stdio's own reads pass unhindered.
 * Settings: the file named by SIMCLUSTER_VOLUMES, a line a volume, key=value separated by tabs; read again on change.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define VOLUMES 16
#define DESCRIPTORS 4096
#define PATH_BYTES 512
#define RECHECK_NS 50000000LL

/* Shared by all containers that have the volume: one file, mapped. */
struct shared {
    _Atomic int64_t due_ns[2]; /* when the bytes granted so far would have passed at the set rate: read, write */
    _Atomic uint64_t written;  /* files closed after writing */
};

struct volume {
    char mount[PATH_BYTES], control[PATH_BYTES], node[128];
    dev_t device;
    double bytes_per_s[2], burst_bytes, hide_s, full_after_bytes;
    unsigned long lose_every, flip_every;
    int stale, no_rename, no_lock, local_lock, local_create, full, apart;
    _Atomic uint64_t process_written, large_reads; /* by this process: a limit and faults of its node alone */
    int shared_apart;
    struct shared *shared;
};

static struct volume volumes[VOLUMES];
static int count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct timespec read_at;
static int64_t checked_ns;
/* By descriptor: 0 unknown, 1 of no volume, 2 + index of its volume; and whether it was written to. */
static unsigned char known[DESCRIPTORS], dirty[DESCRIPTORS];
/* By descriptor: 1 + that of the file of its node alone on which its locks really are, 0 none. */
static int locked_beside[DESCRIPTORS];

#define REAL(name, type, ...) \
    static type (*real)(__VA_ARGS__); \
    if (!real) real = (type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

static int64_t now_ns(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static int real_fstat(int fd, struct stat *st) {
    REAL("fstat", int, int, struct stat *);
    return real(fd, st);
}
static int real_stat(const char *path, struct stat *st) {
    REAL("stat", int, const char *, struct stat *);
    return real(path, st);
}
static int real_open(const char *path, int flags, mode_t mode) {
    REAL("open", int, const char *, int, ...);
    return real(path, flags, mode);
}
static ssize_t real_read(int fd, void *data, size_t size) {
    REAL("read", ssize_t, int, void *, size_t);
    return real(fd, data, size);
}
static int real_close(int fd) {
    REAL("close", int, int);
    return real(fd);
}

static const char *field(const char *line, const char *key, char *out, size_t room) {
    size_t length = strlen(key), n = 0;
    out[0] = 0;
    while (line && *line) {
        if (strncmp(line, key, length) == 0 && line[length] == '=') {
            for (line += length + 1; *line && *line != '\t' && n + 1 < room; line++) out[n++] = *line;
            out[n] = 0;
            return out;
        }
        line = strchr(line, '\t');
        if (line) line++;
    }
    return out;
}

static double number(const char *line, const char *key) {
    char text[64];
    return strtod(field(line, key, text, sizeof text), NULL);
}

static void map_shared(struct volume *v) {
    char path[PATH_BYTES + 160];
    int fd;
    if (v->shared && v->shared_apart == v->apart) return;
    if (v->apart)
        snprintf(path, sizeof path, "%s/shared-%s", v->control, v->node);
    else
        snprintf(path, sizeof path, "%s/shared", v->control);
    fd = real_open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0) return;
    if (ftruncate(fd, sizeof *v->shared) == 0) {
        void *at = mmap(NULL, sizeof *v->shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (at != MAP_FAILED) v->shared = at, v->shared_apart = v->apart;
    }
    real_close(fd);
}

static void read_line(const char *line, struct volume *v) {
    struct stat st;
    field(line, "mount", v->mount, sizeof v->mount);
    field(line, "control", v->control, sizeof v->control);
    field(line, "node", v->node, sizeof v->node);
    v->bytes_per_s[0] = number(line, "read_bps");
    v->bytes_per_s[1] = number(line, "write_bps");
    v->burst_bytes = number(line, "burst_bytes");
    v->hide_s = number(line, "hide_s");
    v->lose_every = (unsigned long)number(line, "lose_every");
    v->stale = number(line, "stale") != 0;
    v->no_rename = number(line, "no_rename") != 0;
    v->no_lock = number(line, "no_lock") != 0;
    v->local_lock = number(line, "local_lock") != 0;
    v->local_create = number(line, "local_create") != 0;
    v->full = number(line, "full") != 0;
    v->full_after_bytes = number(line, "full_after_bytes");
    v->flip_every = (unsigned long)number(line, "flip_every");
    v->apart = number(line, "apart") != 0;
    v->device = real_stat(v->mount, &st) == 0 ? st.st_dev : 0;
    map_shared(v);
}

static void refresh(void) {
    int64_t now = now_ns(CLOCK_MONOTONIC);
    const char *path = getenv("SIMCLUSTER_VOLUMES");
    static char text[VOLUMES * 1024];
    struct stat st;
    ssize_t size;
    char *line, *rest = text;
    int fd, found = 0;
    if (!path || (checked_ns && now - checked_ns < RECHECK_NS)) return;
    pthread_mutex_lock(&lock);
    checked_ns = now;
    if (real_stat(path, &st) == 0 && memcmp(&st.st_mtim, &read_at, sizeof read_at) != 0) {
        fd = real_open(path, O_RDONLY | O_CLOEXEC, 0);
        size = fd < 0 ? -1 : real_read(fd, text, sizeof text - 1);
        if (fd >= 0) real_close(fd);
        if (size > 0) {
            text[size] = 0;
            read_at = st.st_mtim;
            while (found < VOLUMES && (line = strsep(&rest, "\n")) != NULL)
                if (*line) read_line(line, &volumes[found++]);
            count = found;
        }
    }
    pthread_mutex_unlock(&lock);
}

static struct volume *of_device(dev_t device) {
    int i;
    refresh();
    for (i = 0; i < count; i++)
        if (volumes[i].device == device && device) return &volumes[i];
    return NULL;
}

static struct volume *of_fd(int fd) {
    struct stat st;
    struct volume *v;
    int saved = errno;
    if (fd < 0) return NULL;
    refresh();
    if (fd < DESCRIPTORS && known[fd]) return known[fd] == 1 ? NULL : &volumes[known[fd] - 2];
    v = real_fstat(fd, &st) == 0 ? of_device(st.st_dev) : NULL;
    if (fd < DESCRIPTORS) known[fd] = (unsigned char)(v ? 2 + (v - volumes) : 1);
    errno = saved;
    return v;
}

static void forget(int fd) {
    if (fd < 0 || fd >= DESCRIPTORS) return;
    known[fd] = dirty[fd] = 0;
    if (locked_beside[fd]) real_close(locked_beside[fd] - 1);
    locked_beside[fd] = 0;
}

static int fail(int code) {
    errno = code;
    return -1;
}

static void pass(struct volume *v, int writing, double bytes) {
    double rate = v->bytes_per_s[writing];
    int64_t now = now_ns(CLOCK_MONOTONIC), before, after, floor;
    struct timespec wait;
    if (rate <= 0 || bytes <= 0 || !v->shared) return;
    before = atomic_load(&v->shared->due_ns[writing]);
    do {
        floor = now - (int64_t)(v->burst_bytes / rate * 1e9); /* credit saved up while idle */
        after = (before > floor ? before : floor) + (int64_t)(bytes / rate * 1e9);
    } while (!atomic_compare_exchange_weak(&v->shared->due_ns[writing], &before, after));
    if (after > now) {
        wait.tv_sec = (after - now) / 1000000000LL;
        wait.tv_nsec = (after - now) % 1000000000LL;
        nanosleep(&wait, NULL);
    }
}

static void owner_path(struct volume *v, ino_t inode, char *out, size_t room) {
    snprintf(out, room, "%s/owner-%llu", v->control, (unsigned long long)inode);
}

static void own(struct volume *v, ino_t inode) {
    char path[PATH_BYTES + 48];
    int saved = errno;
    if (v->hide_s > 0) {
        owner_path(v, inode, path, sizeof path);
        unlink(path);
        if (symlink(v->node, path) != 0) errno = saved;
    }
    errno = saved;
}

/* Whether this node takes the file to be one that it has made; with O_CREAT, from now on it does. */
static int made_here(struct volume *v, ino_t inode, int flags) {
    char path[PATH_BYTES + 192];
    int fd;
    snprintf(path, sizeof path, "%s/made-%s-%llu", v->control, v->node, (unsigned long long)inode);
    fd = real_open(path, O_RDONLY | O_CLOEXEC | flags, 0666);
    if (fd >= 0) real_close(fd);
    return fd >= 0;
}

/* A file that another node has written a moment ago is not there yet. */
static int hidden(const struct stat *st) {
    char path[PATH_BYTES + 48], owner[128];
    struct volume *v = of_device(st->st_dev);
    ssize_t length;
    int saved = errno, result = 0;
    double age;
    if (!v || v->hide_s <= 0 || !S_ISREG(st->st_mode)) return 0;
    age = (double)(now_ns(CLOCK_REALTIME) - (st->st_mtim.tv_sec * 1000000000LL + st->st_mtim.tv_nsec)) / 1e9;
    if (age < v->hide_s) {
        owner_path(v, st->st_ino, path, sizeof path);
        length = readlink(path, owner, sizeof owner - 1);
        owner[length > 0 ? length : 0] = 0;
        /* Where only this node is late, the others leave no mark: what is not ours is theirs. */
        result = length > 0 ? strcmp(owner, v->node) != 0 : v->apart;
    }
    errno = saved;
    return result;
}

static void maybe_lose(int fd, struct volume *v) {
    char link[64], path[PATH_BYTES];
    ssize_t length;
    if (!v || fd >= DESCRIPTORS || !dirty[fd] || !v->lose_every || !v->shared) return;
    dirty[fd] = 0;
    if ((atomic_fetch_add(&v->shared->written, 1) + 1) % v->lose_every != 0) return;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    length = readlink(link, path, sizeof path - 1);
    if (length > 0) {
        path[length] = 0;
        unlink(path);
    }
}

__attribute__((destructor)) static void at_exit(void) {
    int fd;
    for (fd = 0; fd < DESCRIPTORS; fd++)
        if (dirty[fd] && known[fd] > 1) maybe_lose(fd, &volumes[known[fd] - 2]);
}

/* What has just been opened: refuse it after all, or remember it. */
static int opened(int fd, int flags, int existed, const char *path, int dirfd) {
    struct stat st;
    struct volume *v;
    if (fd < 0) return fd;
    forget(fd);
    v = of_fd(fd);
    if (!v || real_fstat(fd, &st) != 0) return fd;
    if (v->stale) return real_close(fd), forget(fd), fail(ESTALE);
    if ((flags & O_CREAT) && !existed) {
        if (v->full) return real_close(fd), forget(fd), unlinkat(dirfd, path, 0), fail(ENOSPC);
        own(v, st.st_ino);
        if (v->local_create) made_here(v, st.st_ino, O_CREAT);
    } else if (hidden(&st)) {
        return real_close(fd), forget(fd), fail(ENOENT);
    }
    if ((flags & (O_WRONLY | O_RDWR)) && (flags & (O_CREAT | O_TRUNC)) && fd < DESCRIPTORS) dirty[fd] = 1;
    return fd;
}

static int exists(int dirfd, const char *path, int flags) {
    int saved = errno, there;
    REAL("faccessat", int, int, const char *, int, int);
    if (!(flags & O_CREAT)) return 1;
    there = real(dirfd, path, F_OK, 0) == 0;
    errno = saved;
    return there;
}

/* Whether a file is new is decided by this node alone: one that another node has made is opened as if it were not there. */
static int creating(int dirfd, const char *path, int flags) {
    struct stat st;
    struct volume *v;
    int saved = errno;
    REAL("fstatat", int, int, const char *, struct stat *, int);
    if ((flags & (O_CREAT | O_EXCL)) != (O_CREAT | O_EXCL)) return flags;
    if (real(dirfd, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode)) {
        v = of_device(st.st_dev);
        if (v && v->local_create && !made_here(v, st.st_ino, 0)) {
            made_here(v, st.st_ino, O_CREAT);
            flags &= ~O_EXCL;
        }
    }
    errno = saved;
    return flags;
}

#define MODE(flags)                                  \
    mode_t mode = 0;                                 \
    if ((flags) & (O_CREAT | __O_TMPFILE)) {         \
        va_list arguments;                           \
        va_start(arguments, flags);                  \
        mode = (mode_t)va_arg(arguments, int);       \
        va_end(arguments);                           \
    }

int open(const char *path, int flags, ...) {
    MODE(flags)
    int existed = exists(AT_FDCWD, path, flags);
    return opened(real_open(path, creating(AT_FDCWD, path, flags), mode), flags, existed, path, AT_FDCWD);
}
int open64(const char *path, int flags, ...) {
    MODE(flags)
    int existed = exists(AT_FDCWD, path, flags);
    flags = creating(AT_FDCWD, path, flags);
    return opened(real_open(path, flags | O_LARGEFILE, mode), flags, existed, path, AT_FDCWD);
}
static int open_at(int dirfd, const char *path, int flags, mode_t mode) {
    REAL("openat", int, int, const char *, int, ...);
    int existed = exists(dirfd, path, flags);
    return opened(real(dirfd, path, creating(dirfd, path, flags), mode), flags, existed, path, dirfd);
}
int openat(int dirfd, const char *path, int flags, ...) {
    MODE(flags)
    return open_at(dirfd, path, flags, mode);
}
int openat64(int dirfd, const char *path, int flags, ...) {
    MODE(flags)
    return open_at(dirfd, path, flags | O_LARGEFILE, mode);
}
int creat(const char *path, mode_t mode) { return open(path, O_CREAT | O_WRONLY | O_TRUNC, mode); }
int creat64(const char *path, mode_t mode) { return open(path, O_CREAT | O_WRONLY | O_TRUNC, mode); }

static FILE *stream(FILE *file, const char *mode, int existed, const char *path) {
    int flags = strchr(mode, 'r') ? O_RDONLY : O_WRONLY | O_CREAT | O_TRUNC;
    if (opened(fileno(file), flags, existed, path, AT_FDCWD) < 0) {
        int code = errno;
        fclose(file); /* frees the stream; its descriptor is closed already */
        errno = code;
        return NULL;
    }
    return file;
}
FILE *fopen(const char *path, const char *mode) {
    REAL("fopen", FILE *, const char *, const char *);
    int existed = exists(AT_FDCWD, path, O_CREAT);
    FILE *file = real(path, mode);
    return file && of_fd(fileno(file)) ? stream(file, mode, existed, path) : file;
}
FILE *fopen64(const char *path, const char *mode) { return fopen(path, mode); }
int fclose(FILE *file) {
    REAL("fclose", int, FILE *);
    int fd = fileno(file);
    if (fd >= 0 && fd < DESCRIPTORS && dirty[fd]) maybe_lose(fd, of_fd(fd));
    forget(fd);
    return real(file);
}

int close(int fd) {
    int saved = errno;
    if (fd >= 0 && fd < DESCRIPTORS && dirty[fd]) maybe_lose(fd, of_fd(fd));
    forget(fd);
    errno = saved;
    return real_close(fd);
}
/* A redirection: `to` is closed, and stands for the file from now on (a shell closes `from` at once). */
static void redirect(int from, int to) {
    if (to < 0 || to >= DESCRIPTORS) return;
    if (dirty[to]) maybe_lose(to, of_fd(to));
    forget(to);
    if (from >= 0 && from < DESCRIPTORS && dirty[from]) {
        dirty[to] = 1;
        dirty[from] = 0;
    }
}
int dup2(int from, int to) {
    REAL("dup2", int, int, int);
    if (from != to) redirect(from, to);
    return real(from, to);
}
int dup3(int from, int to, int flags) {
    REAL("dup3", int, int, int, int);
    redirect(from, to);
    return real(from, to, flags);
}

#define LARGE_READ 32768
#define READING(call)                               \
    struct volume *v = of_fd(fd);                   \
    ssize_t done;                                   \
    if (v && v->stale) return fail(ESTALE);         \
    done = call;                                    \
    if (v) pass(v, 0, (double)done);                \
    return done

/* Silent damage on the way: what lies on the volume stays right. */
static ssize_t maybe_flip(int fd, void *data, ssize_t done) {
    struct volume *v = of_fd(fd);
    if (v && v->flip_every && done >= LARGE_READ && (atomic_fetch_add(&v->large_reads, 1) + 1) % v->flip_every == 0)
        ((unsigned char *)data)[done / 2] ^= 1;
    return done;
}

static int refuse_write(int fd, struct volume *v, double bytes) {
    if (v->stale) return ESTALE;
    if (v->full) return ENOSPC;
    if (v->full_after_bytes > 0 && (double)atomic_load(&v->process_written) + bytes > v->full_after_bytes) return ENOSPC;
    atomic_fetch_add(&v->process_written, (uint64_t)bytes);
    if (fd < DESCRIPTORS) dirty[fd] = 1;
    return 0;
}

#define WRITING(call, bytes)                                 \
    struct volume *v = of_fd(fd);                            \
    ssize_t done;                                            \
    int code = v ? refuse_write(fd, v, (double)(bytes)) : 0; \
    if (code) return fail(code);                             \
    done = call;                                             \
    if (v) pass(v, 1, (double)done);                         \
    return done

ssize_t read(int fd, void *data, size_t size) { READING(maybe_flip(fd, data, real_read(fd, data, size))); }
ssize_t pread(int fd, void *data, size_t size, off_t at) {
    REAL("pread", ssize_t, int, void *, size_t, off_t);
    READING(maybe_flip(fd, data, real(fd, data, size, at)));
}
ssize_t pread64(int fd, void *data, size_t size, off64_t at) {
    REAL("pread64", ssize_t, int, void *, size_t, off64_t);
    READING(maybe_flip(fd, data, real(fd, data, size, at)));
}
ssize_t readv(int fd, const struct iovec *parts, int n) {
    REAL("readv", ssize_t, int, const struct iovec *, int);
    READING(real(fd, parts, n));
}
ssize_t write(int fd, const void *data, size_t size) {
    REAL("write", ssize_t, int, const void *, size_t);
    WRITING(real(fd, data, size), size);
}
ssize_t pwrite(int fd, const void *data, size_t size, off_t at) {
    REAL("pwrite", ssize_t, int, const void *, size_t, off_t);
    WRITING(real(fd, data, size, at), size);
}
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
    REAL("pwrite64", ssize_t, int, const void *, size_t, off64_t);
    WRITING(real(fd, data, size, at), size);
}
ssize_t writev(int fd, const struct iovec *parts, int n) {
    REAL("writev", ssize_t, int, const struct iovec *, int);
    WRITING(real(fd, parts, n), 0);
}
/* Copies inside the kernel would pass unmeasured: say what makes programs read and write themselves. */
ssize_t sendfile(int out, int in, off_t *at, size_t size) {
    REAL("sendfile", ssize_t, int, int, off_t *, size_t);
    return of_fd(in) || of_fd(out) ? fail(EINVAL) : real(out, in, at, size);
}
ssize_t sendfile64(int out, int in, off64_t *at, size_t size) {
    REAL("sendfile64", ssize_t, int, int, off64_t *, size_t);
    return of_fd(in) || of_fd(out) ? fail(EINVAL) : real(out, in, at, size);
}
ssize_t copy_file_range(int in, off64_t *in_at, int out, off64_t *out_at, size_t size, unsigned int flags) {
    REAL("copy_file_range", ssize_t, int, off64_t *, int, off64_t *, size_t, unsigned int);
    return of_fd(in) || of_fd(out) ? fail(EXDEV) : real(in, in_at, out, out_at, size, flags);
}

static int sync_with(const char *name, int fd) {
    struct volume *v = of_fd(fd);
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    return v && v->stale ? fail(ESTALE) : real(fd);
}
int fsync(int fd) { return sync_with("fsync", fd); }
int fdatasync(int fd) { return sync_with("fdatasync", fd); }

static int no_rename(int dirfd, const char *path) {
    struct stat st;
    struct volume *v;
    REAL("fstatat", int, int, const char *, struct stat *, int);
    if (real(dirfd, path, &st, AT_SYMLINK_NOFOLLOW) != 0) return 0;
    v = of_device(st.st_dev);
    return v && v->no_rename;
}
int rename(const char *from, const char *to) {
    REAL("rename", int, const char *, const char *);
    return no_rename(AT_FDCWD, from) ? fail(ENOTSUP) : real(from, to);
}
int renameat(int from_fd, const char *from, int to_fd, const char *to) {
    REAL("renameat", int, int, const char *, int, const char *);
    return no_rename(from_fd, from) ? fail(ENOTSUP) : real(from_fd, from, to_fd, to);
}
int renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned int flags) {
    REAL("renameat2", int, int, const char *, int, const char *, unsigned int);
    return no_rename(from_fd, from) ? fail(ENOTSUP) : real(from_fd, from, to_fd, to, flags);
}

static int no_lock(int fd) {
    struct volume *v = of_fd(fd);
    return v && v->no_lock;
}
/* Where locks are: on the file, or beside it on a file of this node alone, of which no other node hears. */
static int locks_of(int fd) {
    char path[PATH_BYTES + 192];
    struct volume *v = of_fd(fd);
    struct stat st;
    int beside;
    if (!v || !v->local_lock || fd >= DESCRIPTORS) return fd;
    if (!locked_beside[fd]) {
        if (real_fstat(fd, &st) != 0) return fd;
        snprintf(path, sizeof path, "%s/locks-%s-%llu", v->control, v->node, (unsigned long long)st.st_ino);
        beside = real_open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (beside < 0) return fd;
        locked_beside[fd] = beside + 1;
    }
    return locked_beside[fd] - 1;
}
int flock(int fd, int operation) {
    REAL("flock", int, int, int);
    return no_lock(fd) ? fail(ENOLCK) : real(locks_of(fd), operation);
}
int lockf(int fd, int command, off_t size) {
    REAL("lockf", int, int, int, off_t);
    return no_lock(fd) ? fail(ENOLCK) : real(locks_of(fd), command, size);
}
static int control(const char *name, int fd, int command, void *argument) {
    int (*real)(int, int, ...) = (int (*)(int, int, ...))dlsym(RTLD_NEXT, name);
    int locks = command == F_SETLK || command == F_SETLKW || command == F_OFD_SETLK || command == F_OFD_SETLKW;
    if (locks && no_lock(fd)) return fail(ENOLCK);
    return real(locks ? locks_of(fd) : fd, command, argument);
}
int fcntl(int fd, int command, ...) {
    va_list arguments;
    void *argument;
    va_start(arguments, command);
    argument = va_arg(arguments, void *);
    va_end(arguments);
    return control("fcntl", fd, command, argument);
}
int fcntl64(int fd, int command, ...) {
    va_list arguments;
    void *argument;
    va_start(arguments, command);
    argument = va_arg(arguments, void *);
    va_end(arguments);
    return control("fcntl64", fd, command, argument);
}

static int judged(int result, const struct stat *st) {
    struct volume *v;
    if (result != 0) return result;
    if (hidden(st)) return fail(ENOENT);
    v = of_device(st->st_dev);
    return v && v->stale ? fail(ESTALE) : 0;
}
#define STAT(name, parameters, arguments, types)                             \
    int name parameters {                                                    \
        static int(*real) types;                                             \
        if (!real) real = (int(*) types)dlsym(RTLD_NEXT, #name);             \
        return judged(real arguments, (const struct stat *)st);              \
    }
STAT(stat, (const char *path, struct stat *st), (path, st), (const char *, struct stat *))
STAT(lstat, (const char *path, struct stat *st), (path, st), (const char *, struct stat *))
STAT(fstat, (int fd, struct stat *st), (fd, st), (int, struct stat *))
STAT(fstatat, (int fd, const char *path, struct stat *st, int flags), (fd, path, st, flags), (int, const char *, struct stat *, int))
#ifdef __x86_64__
STAT(stat64, (const char *path, struct stat64 *st), (path, st), (const char *, struct stat64 *))
STAT(lstat64, (const char *path, struct stat64 *st), (path, st), (const char *, struct stat64 *))
STAT(fstat64, (int fd, struct stat64 *st), (fd, st), (int, struct stat64 *))
STAT(fstatat64, (int fd, const char *path, struct stat64 *st, int flags), (fd, path, st, flags), (int, const char *, struct stat64 *, int))
#endif
int statx(int dirfd, const char *restrict path, int flags, unsigned int mask, struct statx *restrict out) {
    struct stat st;
    REAL("statx", int, int, const char *, int, unsigned int, struct statx *);
    int result = real(dirfd, path, flags, mask, out);
    if (result != 0) return result;
    return fstatat(dirfd, path, &st, flags & (AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)) == 0 ? 0 : -1;
}
int access(const char *path, int mode) {
    struct stat st;
    REAL("access", int, const char *, int);
    int result = real(path, mode);
    return result == 0 && fstatat(AT_FDCWD, path, &st, 0) != 0 ? -1 : result;
}
int mkdir(const char *path, mode_t mode) {
    struct stat st;
    struct volume *v;
    REAL("mkdir", int, const char *, mode_t);
    int result = real(path, mode);
    if (result != 0 || real_stat(path, &st) != 0) return result;
    v = of_device(st.st_dev);
    return v && v->full ? (rmdir(path), fail(ENOSPC)) : 0;
}

struct dirent *readdir(DIR *directory) {
    REAL("readdir", struct dirent *, DIR *);
    static int (*look)(int, const char *, struct stat *, int);
    struct dirent *entry;
    struct stat st;
    if (!look) look = (int (*)(int, const char *, struct stat *, int))dlsym(RTLD_NEXT, "fstatat");
    while ((entry = real(directory)) != NULL)
        if (!of_fd(dirfd(directory)) || look(dirfd(directory), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !hidden(&st))
            return entry;
    return NULL;
}
struct dirent64 *readdir64(DIR *directory) { return (struct dirent64 *)readdir(directory); }
int closedir(DIR *directory) {
    REAL("closedir", int, DIR *);
    forget(dirfd(directory));
    return real(directory);
}

/* Preloaded into containers on nodes with GPUs: klogctl(2) reads the simulated node's kernel log, not the host's. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { READ_ALL = 3, SIZE_BUFFER = 10 };

int klogctl(int type, char *out, int length) {
    const char *path = getenv("SIMCLUSTER_KERNEL_LOG");
    int file = open(path ? path : "/run/simcluster/kernel-log", O_RDONLY);
    struct stat stat;
    ssize_t got;
    if (file < 0 || fstat(file, &stat) != 0 || (type != READ_ALL && type != SIZE_BUFFER)) {
        if (file >= 0) close(file);
        errno = EPERM; /* as with kernel.dmesg_restrict=1 */
        return -1;
    }
    if (type == SIZE_BUFFER) {
        close(file);
        return (int)stat.st_size + 1;
    }
    /* The newest lines, as the kernel gives them. */
    got = pread(file, out, (size_t)length, stat.st_size > length ? stat.st_size - length : 0);
    close(file);
    return (int)got;
}

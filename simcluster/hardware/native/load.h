/* What a container's GPUs have done: one shared page that the CUDA stand-in writes and NVML's and the node read.
   A GPU's work is a row of intervals on the monotonic clock; the last one may still be going on. Knows no CUDA, no NVML. */
#ifndef SIMCLUSTER_LOAD_H
#define SIMCLUSTER_LOAD_H

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "state.h"

struct load { unsigned long long base_ns, from_ns, until_ns, xids, last_xid; };

static unsigned long long now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (unsigned long long)now.tv_sec * 1000000000ull + (unsigned long long)now.tv_nsec;
}

/* The page, or one of this process alone where the container has none. */
static struct load *loads(void) {
    static struct load own[MAX_GPUS], *page;
    static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&once);
    if (!page) {
        const char *path = getenv("SIMCLUSTER_GPU_LOAD");
        int file = open(path ? path : "/run/simcluster/gpu-load", O_RDWR);
        page = own;
        if (file >= 0) {
            void *shared = lseek(file, 0, SEEK_END) >= (off_t)sizeof own
                               ? mmap(NULL, sizeof own, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)
                               : MAP_FAILED;
            if (shared != MAP_FAILED) page = shared;
            close(file);
        }
    }
    pthread_mutex_unlock(&once);
    return page;
}

static void add_work(int slot, unsigned long long from, unsigned long long until) {
    struct load *load = &loads()[slot];
    if (from <= load->until_ns && load->until_ns != 0) {
        if (until > load->until_ns) load->until_ns = until;
        return;
    }
    load->base_ns += load->until_ns - load->from_ns;
    load->from_ns = from;
    load->until_ns = until;
}

/* Nanoseconds of work up to `now`. */
static unsigned long long worked_ns(int slot, unsigned long long now) {
    struct load load = loads()[slot];
    unsigned long long until = now < load.until_ns ? now : load.until_ns;
    return load.base_ns + (until > load.from_ns ? until - load.from_ns : 0);
}

static int works(int slot, unsigned long long now) {
    struct load load = loads()[slot];
    return load.from_ns <= now && load.until_ns + 200000000ull > now;
}

#endif

/* Reads the state file of a simulated node's GPUs; shared by the driver stand-ins. Knows no CUDA and no NVML. */
#ifndef SIMCLUSTER_STATE_H
#define SIMCLUSTER_STATE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_GPUS 64
#define TEXT 96

struct gpu {
    char uuid[TEXT], product[TEXT], pci[TEXT], serial[TEXT], mig[TEXT];
    unsigned long long memory_mib, used_mib;
    int compute_major, compute_minor;
    int utilization, temperature, sm_clock, mem_clock;
    double power_w, power_limit_w;
    unsigned long long ecc_corrected, ecc_uncorrected, throttle, energy_mj, remap_correctable, remap_uncorrectable;
    int max_sm_clock, pcie_gen, pcie_width, pcie_replays, remap_pending, remap_failed, lost, parent, index;
    char errors[TEXT];
    int context_error, launch_error, flip, hang;
    /* what the hardware can do now (MB and millions of multiply-adds' operations a second), and what ails it */
    double mflops, h2d, d2h, hbm, peer;
    int top_clock, throttle_cause, slowdown_c, bad_mib, foreign_percent, frozen, counters_of, xid_at_load, recovery;
    unsigned long long held_mib, sram_corrected, sram_uncorrected, no_peer, links_down;
    int retired_single, retired_double, links, link_mb, link_replays, link_recoveries, link_crc, fabric, fabric_status;
};

struct node {
    char driver[TEXT];
    int cuda, init_error, nvml_error, count, parents;
    struct gpu gpus[MAX_GPUS];
    struct gpu parent[MAX_GPUS]; /* the physical GPUs, where `gpus` are MIG instances */
};

static const char *field_of(const char *line, const char *key, char *out) {
    size_t length = strlen(key);
    const char *at = line;
    out[0] = 0;
    while ((at = strchr(at, '\t')) != NULL) {
        at++;
        if (strncmp(at, key, length) == 0 && at[length] == '=') {
            size_t n = 0;
            for (at += length + 1; *at && *at != '\t' && *at != '\n' && n + 1 < TEXT; at++) out[n++] = *at;
            out[n] = 0;
            return out;
        }
    }
    return out;
}

static double number_of(const char *line, const char *key) {
    char text[TEXT];
    return strtod(field_of(line, key, text), NULL);
}

static void read_gpu(const char *line, struct gpu *gpu) {
    char text[TEXT];
    field_of(line, "uuid", gpu->uuid);
    field_of(line, "product", gpu->product);
    field_of(line, "pci", gpu->pci);
    field_of(line, "serial", gpu->serial);
    field_of(line, "mig", gpu->mig);
    gpu->memory_mib = (unsigned long long)number_of(line, "memory");
    gpu->used_mib = (unsigned long long)number_of(line, "used");
    sscanf(field_of(line, "compute", text), "%d.%d", &gpu->compute_major, &gpu->compute_minor);
    gpu->utilization = (int)number_of(line, "utilization");
    gpu->temperature = (int)number_of(line, "temperature");
    gpu->power_w = number_of(line, "power");
    gpu->power_limit_w = number_of(line, "power_limit");
    gpu->sm_clock = (int)number_of(line, "sm_clock");
    gpu->mem_clock = (int)number_of(line, "mem_clock");
    gpu->ecc_corrected = (unsigned long long)number_of(line, "ecc_corrected");
    gpu->ecc_uncorrected = (unsigned long long)number_of(line, "ecc_uncorrected");
    gpu->context_error = (int)number_of(line, "context");
    gpu->launch_error = (int)number_of(line, "launch");
    gpu->flip = (int)number_of(line, "flip");
    gpu->hang = (int)number_of(line, "hang");
    field_of(line, "errors", gpu->errors);
    gpu->throttle = (unsigned long long)number_of(line, "throttle");
    gpu->energy_mj = (unsigned long long)number_of(line, "energy");
    gpu->remap_correctable = (unsigned long long)number_of(line, "remap_correctable");
    gpu->remap_uncorrectable = (unsigned long long)number_of(line, "remap_uncorrectable");
    gpu->remap_pending = (int)number_of(line, "remap_pending");
    gpu->remap_failed = (int)number_of(line, "remap_failed");
    gpu->max_sm_clock = (int)number_of(line, "max_sm_clock");
    gpu->pcie_gen = (int)number_of(line, "pcie_gen");
    gpu->pcie_width = (int)number_of(line, "pcie_width");
    gpu->pcie_replays = (int)number_of(line, "pcie_replays");
    gpu->lost = (int)number_of(line, "lost");
    gpu->mflops = number_of(line, "mflops");
    gpu->h2d = number_of(line, "h2d");
    gpu->d2h = number_of(line, "d2h");
    gpu->hbm = number_of(line, "hbm");
    gpu->peer = number_of(line, "peer");
    gpu->top_clock = (int)number_of(line, "top_clock");
    gpu->throttle_cause = (int)number_of(line, "throttle_cause");
    gpu->slowdown_c = (int)number_of(line, "slowdown_c");
    gpu->bad_mib = (int)number_of(line, "bad_mib");
    gpu->foreign_percent = (int)number_of(line, "foreign_percent");
    gpu->frozen = (int)number_of(line, "frozen");
    gpu->counters_of = (int)number_of(line, "counters_of");
    gpu->xid_at_load = (int)number_of(line, "xid_at_load");
    gpu->recovery = (int)number_of(line, "recovery");
    gpu->held_mib = (unsigned long long)number_of(line, "held");
    gpu->sram_corrected = (unsigned long long)number_of(line, "sram_corrected");
    gpu->sram_uncorrected = (unsigned long long)number_of(line, "sram_uncorrected");
    gpu->no_peer = (unsigned long long)number_of(line, "no_peer");
    gpu->links_down = (unsigned long long)number_of(line, "links_down");
    gpu->retired_single = (int)number_of(line, "retired_single");
    gpu->retired_double = (int)number_of(line, "retired_double");
    gpu->links = (int)number_of(line, "links");
    gpu->link_mb = (int)number_of(line, "link_mb");
    gpu->link_replays = (int)number_of(line, "link_replays");
    gpu->link_recoveries = (int)number_of(line, "link_recoveries");
    gpu->link_crc = (int)number_of(line, "link_crc");
    gpu->fabric = (int)number_of(line, "fabric");
    gpu->fabric_status = (int)number_of(line, "fabric_status");
    gpu->index = (int)number_of(line, "index");
    gpu->parent = field_of(line, "parent", text)[0] ? atoi(text) : -1;
}

/* 0 where there is no state, and then no GPU. */
static int read_node(struct node *read) {
    struct node fresh, *node = &fresh; /* threads look at `read` meanwhile: it must never be empty */
    const char *path = getenv("SIMCLUSTER_GPU_STATE");
    char line[4096];
    FILE *file = fopen(path ? path : "/run/simcluster/gpus", "r");
    memset(node, 0, sizeof *node);
    if (!file) {
        *read = fresh;
        return 0;
    }
    while (fgets(line, sizeof line, file)) {
        if (strncmp(line, "node\t", 5) == 0) {
            field_of(line, "driver", node->driver);
            node->cuda = (int)number_of(line, "cuda");
            node->init_error = (int)number_of(line, "init");
            node->nvml_error = (int)number_of(line, "nvml");
        } else if (strncmp(line, "gpu\t", 4) == 0 && node->count < MAX_GPUS) {
            read_gpu(line, &node->gpus[node->count++]);
        } else if (strncmp(line, "parent\t", 7) == 0 && node->parents < MAX_GPUS) {
            read_gpu(line, &node->parent[node->parents++]);
        }
    }
    fclose(file);
    *read = fresh;
    return 1;
}

#endif

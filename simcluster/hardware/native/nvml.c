/* Stand-in for NVML: names and codes of nvml.h, answers from the node's state file. */
#include <stddef.h>

#include "load.h"

typedef int nvmlReturn_t;
typedef struct gpu *nvmlDevice_t;
typedef struct { unsigned long long total, free, used; } nvmlMemory_t;
typedef struct { unsigned int gpu, memory; } nvmlUtilization_t;

enum { OK = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7, NOT_LOADED = 9, TIMEOUT = 10, LOST = 15, MISMATCH = 18, UNKNOWN = 999 };

static struct node node;
static int initialised;

nvmlReturn_t nvmlInit_v2(void) {
    if (!read_node(&node)) return NOT_LOADED;
    if (node.nvml_error) return node.nvml_error;
    initialised = 1;
    return OK;
}
nvmlReturn_t nvmlInit(void) { return nvmlInit_v2(); }
nvmlReturn_t nvmlInitWithFlags(unsigned int flags) { (void)flags; return nvmlInit_v2(); }

nvmlReturn_t nvmlShutdown(void) {
    if (!initialised) return UNINITIALIZED;
    initialised = 0;
    return OK;
}

const char *nvmlErrorString(nvmlReturn_t code) {
    switch (code) {
        case OK: return "Success";
        case UNINITIALIZED: return "Uninitialized";
        case INVALID_ARGUMENT: return "Invalid Argument";
        case NOT_SUPPORTED: return "Not Supported";
        case NOT_FOUND: return "Not Found";
        case TOO_SMALL: return "Insufficient Size";
        case NOT_LOADED: return "Driver Not Loaded";
        case TIMEOUT: return "Timeout";
        case LOST: return "GPU is lost";
        case MISMATCH: return "RM has detected an NVML/RM version mismatch.";
        default: return "Unknown Error";
    }
}

static nvmlReturn_t put(char *out, unsigned int length, const char *text) {
    if (!out) return INVALID_ARGUMENT;
    if (strlen(text) + 1 > length) return TOO_SMALL;
    strcpy(out, text);
    return OK;
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *out, unsigned int length) {
    return initialised ? put(out, length, node.driver) : UNINITIALIZED;
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version) {
    if (!initialised) return UNINITIALIZED;
    *version = node.cuda;
    return OK;
}
nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version) { return nvmlSystemGetCudaDriverVersion(version); }

/* NVML lists physical GPUs; MIG instances, where the container has such, are found through theirs. */
static struct gpu *physical(void) { return node.parents ? node.parent : node.gpus; }
static int physical_count(void) { return node.parents ? node.parents : node.count; }

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count) {
    if (!initialised) return UNINITIALIZED;
    *count = (unsigned int)physical_count();
    return OK;
}
nvmlReturn_t nvmlDeviceGetCount(unsigned int *count) { return nvmlDeviceGetCount_v2(count); }

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device) {
    if (!initialised) return UNINITIALIZED;
    if (index >= (unsigned int)physical_count()) return INVALID_ARGUMENT;
    *device = &physical()[index];
    return (*device)->lost ? LOST : OK;
}
nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *device) {
    return nvmlDeviceGetHandleByIndex_v2(index, device);
}

/* A GPU's place in the page of loads: the index of the physical GPU. */
static int place(nvmlDevice_t device) {
    return device >= node.parent && device < node.parent + MAX_GPUS ? (int)(device - node.parent) : (int)(device - node.gpus);
}

/* Values may change while a program runs: every question reads the state again. */
static nvmlReturn_t ask(nvmlDevice_t device) {
    if (!initialised) return UNINITIALIZED;
    if (device < node.gpus || device >= node.parent + MAX_GPUS) return INVALID_ARGUMENT;
    if (!read_node(&node)) return UNKNOWN;
    return device->lost ? LOST : OK;
}

/* The driver's failure to read one group of values. */
static int unreadable(nvmlDevice_t device, const char *group) { return strstr(device->errors, group) != NULL; }

#define ANSWER_OF(group, statement)                   \
    do {                                              \
        nvmlReturn_t bad = ask(device);               \
        if (bad) return bad;                          \
        if (unreadable(device, group)) return UNKNOWN; \
        statement;                                    \
        return OK;                                    \
    } while (0)
#define ANSWER(statement)               \
    do {                                \
        nvmlReturn_t bad = ask(device); \
        if (bad) return bad;            \
        statement;                      \
        return OK;                      \
    } while (0)

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index) { ANSWER(*index = (unsigned int)(device - physical())); }
nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *out, unsigned int n) { ANSWER(return put(out, n, device->product)); }
nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *out, unsigned int n) { ANSWER(return put(out, n, device->uuid)); }
nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t device, char *out, unsigned int n) { ANSWER(return put(out, n, device->serial)); }

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory) {
    ANSWER_OF("memory", memory->total = device->memory_mib << 20; memory->used = (device->used_mib + device->held_mib > device->memory_mib ? device->memory_mib : device->used_mib + device->held_mib) << 20;
           memory->free = memory->total - memory->used);
}
nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *rates) {
    if (strcmp(device->mig, "Enabled") == 0) return NOT_SUPPORTED;
    ANSWER_OF("utilization", rates->gpu = (unsigned int)device->utilization; rates->memory = 0);
}
nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, int sensor, unsigned int *celsius) {
    if (sensor != 0) return INVALID_ARGUMENT;
    ANSWER_OF("temperature", *celsius = (unsigned int)device->temperature);
}
nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned int *milliwatts) {
    ANSWER_OF("power", *milliwatts = (unsigned int)(device->power_w * 1000));
}
nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t device, unsigned int *milliwatts) {
    ANSWER(*milliwatts = (unsigned int)(device->power_limit_w * 1000));
}
nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, int kind, unsigned int *mhz) {
    if (kind < 0 || kind > 3) return INVALID_ARGUMENT;
    ANSWER_OF("clocks", *mhz = (unsigned int)(kind == 2 ? device->mem_clock
                                              : works(place(device), now_ns()) && device->top_clock ? device->top_clock
                                                                                                    : device->sm_clock));
}
nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, int kind, unsigned int *mhz) {
    if (kind < 0 || kind > 3) return INVALID_ARGUMENT;
    ANSWER(*mhz = (unsigned int)(kind == 2 ? device->mem_clock : device->max_sm_clock));
}
nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t device, unsigned long long *reasons) {
    ANSWER_OF("clocks", *reasons = works(place(device), now_ns()) ? (unsigned long long)device->throttle_cause : device->throttle);
}
nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device, unsigned long long *reasons) {
    return nvmlDeviceGetCurrentClocksEventReasons(device, reasons);
}
nvmlReturn_t nvmlDeviceGetPerformanceState(nvmlDevice_t device, int *state) { ANSWER_OF("clocks", *state = 0); }
nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device, unsigned long long *millijoules) {
    ANSWER_OF("power", *millijoules = device->energy_mj);
}
nvmlReturn_t nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t device, unsigned int *generation) {
    ANSWER(*generation = (unsigned int)device->pcie_gen);
}
nvmlReturn_t nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t device, unsigned int *width) {
    ANSWER(*width = (unsigned int)device->pcie_width);
}
nvmlReturn_t nvmlDeviceGetPcieReplayCounter(nvmlDevice_t device, unsigned int *count) {
    ANSWER(*count = (unsigned int)device->pcie_replays);
}
nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned int *correctable, unsigned int *uncorrectable,
                                       unsigned int *pending, unsigned int *failed) {
    ANSWER_OF("ecc", *correctable = (unsigned int)device->remap_correctable;
              *uncorrectable = (unsigned int)device->remap_uncorrectable;
              *pending = (unsigned int)device->remap_pending; *failed = (unsigned int)device->remap_failed);
}
nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending) {
    ANSWER_OF("ecc", *current = *pending = 1);
}
nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t device, unsigned int *mode) { ANSWER(*mode = 1); }
nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int *minor) {
    ANSWER(*minor = (unsigned int)(device - physical()));
}
nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor) {
    ANSWER(*major = device->compute_major; *minor = device->compute_minor);
}
nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, int kind, int counter, unsigned long long *count) {
    if (kind < 0 || kind > 1 || counter < 0 || counter > 1) return INVALID_ARGUMENT;
    ANSWER_OF("ecc", *count = kind == 0 ? device->ecc_corrected + device->sram_corrected
                                        : device->ecc_uncorrected + device->sram_uncorrected);
}
nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending) {
    if (strcmp(device->mig, "N/A") == 0) return NOT_SUPPORTED;
    ANSWER(*current = *pending = strcmp(device->mig, "Enabled") == 0);
}
nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int *count) {
    ANSWER(*count = strcmp(device->mig, "Enabled") == 0 ? 7 : 0);
}
nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index, nvmlDevice_t *instance) {
    nvmlReturn_t bad = ask(device);
    int i;
    if (bad) return bad;
    for (i = 0; i < node.count; i++)
        if (node.parents && node.gpus[i].parent == (int)(device - node.parent) && index-- == 0) {
            *instance = &node.gpus[i];
            return OK;
        }
    return NOT_FOUND;
}
static nvmlReturn_t find(const char *wanted, size_t offset, nvmlDevice_t *device) {
    int i;
    if (!initialised) return UNINITIALIZED;
    for (i = 0; i < physical_count(); i++)
        if (strcmp((const char *)&physical()[i] + offset, wanted) == 0) {
            *device = &physical()[i];
            return (*device)->lost ? LOST : OK;
        }
    return NOT_FOUND;
}
nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device) {
    return find(uuid, offsetof(struct gpu, uuid), device);
}
nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus, nvmlDevice_t *device) {
    return find(bus, offsetof(struct gpu, pci), device);
}

#include "nvml_health.h"
#include "nvml_watch.h"

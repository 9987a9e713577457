/* Stand-in for NVML: names and codes of nvml.h, answers from the node's state file. */
#include "state.h"

typedef int nvmlReturn_t;
typedef struct gpu *nvmlDevice_t;
typedef struct { unsigned long long total, free, used; } nvmlMemory_t;
typedef struct { unsigned int gpu, memory; } nvmlUtilization_t;

enum { OK = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7, NOT_LOADED = 9, UNKNOWN = 999 };

static struct node node;
static int initialised;

nvmlReturn_t nvmlInit_v2(void) {
    if (!read_node(&node)) return NOT_LOADED;
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

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count) {
    if (!initialised) return UNINITIALIZED;
    *count = (unsigned int)node.count;
    return OK;
}
nvmlReturn_t nvmlDeviceGetCount(unsigned int *count) { return nvmlDeviceGetCount_v2(count); }

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device) {
    if (!initialised) return UNINITIALIZED;
    if (index >= (unsigned int)node.count) return INVALID_ARGUMENT;
    *device = &node.gpus[index];
    return OK;
}
nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *device) {
    return nvmlDeviceGetHandleByIndex_v2(index, device);
}

/* Values may change while a program runs: every question reads the state again. */
static nvmlReturn_t ask(nvmlDevice_t device) {
    if (!initialised) return UNINITIALIZED;
    if (device < node.gpus || device >= node.gpus + MAX_GPUS) return INVALID_ARGUMENT;
    return read_node(&node) ? OK : UNKNOWN;
}

#define ANSWER(statement)               \
    do {                                \
        nvmlReturn_t bad = ask(device); \
        if (bad) return bad;            \
        statement;                      \
        return OK;                      \
    } while (0)

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index) { ANSWER(*index = (unsigned int)(device - node.gpus)); }
nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *out, unsigned int n) { ANSWER(return put(out, n, device->product)); }
nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *out, unsigned int n) { ANSWER(return put(out, n, device->uuid)); }
nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t device, char *out, unsigned int n) { ANSWER(return put(out, n, device->serial)); }

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory) {
    ANSWER(memory->total = device->memory_mib << 20; memory->used = device->used_mib << 20;
           memory->free = memory->total - memory->used);
}
nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *rates) {
    ANSWER(rates->gpu = (unsigned int)device->utilization; rates->memory = 0);
}
nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, int sensor, unsigned int *celsius) {
    if (sensor != 0) return INVALID_ARGUMENT;
    ANSWER(*celsius = (unsigned int)device->temperature);
}
nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned int *milliwatts) {
    ANSWER(*milliwatts = (unsigned int)(device->power_w * 1000));
}
nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t device, unsigned int *milliwatts) {
    ANSWER(*milliwatts = (unsigned int)(device->power_limit_w * 1000));
}
nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, int kind, unsigned int *mhz) {
    if (kind < 0 || kind > 3) return INVALID_ARGUMENT;
    ANSWER(*mhz = (unsigned int)(kind == 2 ? device->mem_clock : device->sm_clock));
}
nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, int kind, int counter, unsigned long long *count) {
    if (kind < 0 || kind > 1 || counter < 0 || counter > 1) return INVALID_ARGUMENT;
    ANSWER(*count = kind == 0 ? device->ecc_corrected : device->ecc_uncorrected);
}
nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending) {
    ANSWER(*current = *pending = strcmp(device->mig, "Enabled") == 0);
}

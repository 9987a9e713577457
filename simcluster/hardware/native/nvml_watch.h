/* The NVML stand-in's counters over time: GPM samples of SM activity, and critical XID events. */

typedef struct sample { unsigned long long at_ns, worked_ns; } *nvmlGpmSample_t;

typedef struct {
    unsigned int id;
    nvmlReturn_t result;
    double value;
    const char *names[3];
} nvmlGpmMetric_t;

typedef struct {
    unsigned int version, count;
    nvmlGpmSample_t first, second;
    nvmlGpmMetric_t metrics[];
} nvmlGpmMetricsGet_t;

typedef struct { unsigned int version, supported; } nvmlGpmSupport_t;

typedef struct { unsigned char registered[MAX_GPUS]; unsigned long long seen[MAX_GPUS]; } *nvmlEventSet_t;

typedef struct {
    nvmlDevice_t device;
    unsigned long long kind, data;
    unsigned int gpu_instance, compute_instance;
} nvmlEventData_t;

enum { GPM_SM_UTIL = 2, XID_EVENT = 0x8 };

nvmlReturn_t nvmlGpmQueryDeviceSupport(nvmlDevice_t device, nvmlGpmSupport_t *support) {
    ANSWER(support->supported = device->compute_major >= 9 && strcmp(device->mig, "Enabled") != 0);
}

nvmlReturn_t nvmlGpmSampleAlloc(nvmlGpmSample_t *sample) {
    *sample = calloc(1, sizeof **sample);
    return *sample ? OK : UNKNOWN;
}

nvmlReturn_t nvmlGpmSampleFree(nvmlGpmSample_t sample) {
    free(sample);
    return OK;
}

/* Somebody else's work, which no process of this container does, is a share of every moment. */
nvmlReturn_t nvmlGpmSampleGet(nvmlDevice_t device, nvmlGpmSample_t sample) {
    nvmlReturn_t bad = ask(device);
    int from = device->counters_of ? device->counters_of - 1 : place(device);
    if (bad) return bad;
    if (!sample) return INVALID_ARGUMENT;
    sample->at_ns = now_ns();
    sample->worked_ns = device->frozen ? 0 : worked_ns(from, sample->at_ns) + sample->at_ns / 100 * (unsigned int)device->foreign_percent;
    return OK;
}

nvmlReturn_t nvmlGpmMetricsGet(nvmlGpmMetricsGet_t *asked) {
    double passed, share;
    if (!asked || !asked->first || !asked->second) return INVALID_ARGUMENT;
    if (asked->version != 1) return 25; /* ARGUMENT_VERSION_MISMATCH */
    passed = (double)(asked->second->at_ns - asked->first->at_ns);
    share = passed > 0 ? (double)(asked->second->worked_ns - asked->first->worked_ns) / passed * 100.0 : 0.0;
    for (unsigned int i = 0; i < asked->count; i++) {
        asked->metrics[i].result = asked->metrics[i].id == GPM_SM_UTIL ? OK : NOT_SUPPORTED;
        asked->metrics[i].value = share > 100.0 ? 100.0 : share;
    }
    return OK;
}

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set) {
    if (!initialised) return UNINITIALIZED;
    *set = calloc(1, sizeof **set);
    return *set ? OK : UNKNOWN;
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set) {
    free(set);
    return OK;
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long kinds, nvmlEventSet_t set) {
    nvmlReturn_t bad = ask(device);
    if (bad) return bad;
    if (!set || kinds & ~(unsigned long long)XID_EVENT) return NOT_SUPPORTED;
    set->registered[place(device)] = 1;
    set->seen[place(device)] = loads()[place(device)].xids;
    return OK;
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *event, unsigned int timeout_ms) {
    unsigned long long until = now_ns() + timeout_ms * 1000000ull;
    struct timespec pause = {0, 5000000};
    if (!set || !event) return INVALID_ARGUMENT;
    for (;;) {
        for (int i = 0; i < physical_count(); i++)
            if (set->registered[i] && loads()[i].xids > set->seen[i]) {
                set->seen[i] = loads()[i].xids;
                memset(event, 0, sizeof *event);
                event->device = &physical()[i];
                event->kind = XID_EVENT;
                event->data = loads()[i].last_xid;
                return OK;
            }
        if (now_ns() >= until) return TIMEOUT;
        nanosleep(&pause, NULL);
    }
}

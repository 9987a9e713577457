/* The NVML stand-in's answers about health: memory errors by place, retired pages, PCI identity, NVLink, fabric. */

typedef struct {
    char bus_id_legacy[16];
    unsigned int domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
} nvmlPciInfo_t;

typedef struct {
    unsigned char cluster_uuid[16];
    nvmlReturn_t status;
    unsigned int clique_id;
    unsigned char state;
} nvmlGpuFabricInfo_t;

typedef struct {
    unsigned int field, scope;
    long long timestamp, latency_us;
    int value_type;
    nvmlReturn_t result;
    union { double d; unsigned int ui; unsigned long ul; unsigned long long ull; } value;
} nvmlFieldValue_t;

enum { VALUE_UNSIGNED_INT = 1, FIELD_MEMORY_TEMP = 82, FIELD_NVLINK_SPEED = 164, FIELD_RECOVERY_ACTION = 230 };

nvmlReturn_t nvmlDeviceGetVbiosVersion(nvmlDevice_t device, char *out, unsigned int n) {
    ANSWER(return put(out, n, "96.00.00.00.01"));
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci) {
    nvmlReturn_t bad = ask(device);
    if (bad) return bad;
    memset(pci, 0, sizeof *pci);
    sscanf(device->pci, "%x:%x:%x", &pci->domain, &pci->bus, &pci->device);
    snprintf(pci->bus_id, sizeof pci->bus_id, "%.31s", device->pci);
    snprintf(pci->bus_id_legacy, sizeof pci->bus_id_legacy, "%04X:%02X:%02X.0", pci->domain & 0xffff, pci->bus & 0xff,
             pci->device & 0xff);
    return OK;
}

nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device, int kind, unsigned int *celsius) {
    if (kind != 1) return NOT_SUPPORTED;
    ANSWER(*celsius = (unsigned int)device->slowdown_c);
}

nvmlReturn_t nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t device, int kind, int counter, int location,
                                             unsigned long long *count) {
    if (kind < 0 || kind > 1 || counter < 0 || counter > 1) return INVALID_ARGUMENT;
    if (location != 2 && location != 7) return NOT_SUPPORTED;
    ANSWER_OF("ecc", *count = location == 7 ? (kind == 0 ? device->sram_corrected : device->sram_uncorrected)
                                            : (kind == 0 ? device->ecc_corrected : device->ecc_uncorrected));
}

/* Products with row remapping retire no pages; this one does where it was told to. */
nvmlReturn_t nvmlDeviceGetRetiredPages(nvmlDevice_t device, int cause, unsigned int *count, unsigned long long *pages) {
    nvmlReturn_t bad = ask(device);
    unsigned int number;
    if (bad) return bad;
    if (cause < 0 || cause > 1 || !count) return INVALID_ARGUMENT;
    if (!device->retired_single && !device->retired_double) return NOT_SUPPORTED;
    number = (unsigned int)(cause == 0 ? device->retired_single : device->retired_double);
    bad = *count < number ? TOO_SMALL : OK;
    for (unsigned int i = 0; !bad && pages && i < number; i++) pages[i] = 0x1000ull * (i + 1);
    *count = number;
    return bad;
}

static nvmlReturn_t check_link(nvmlDevice_t device, unsigned int link) {
    nvmlReturn_t bad = ask(device);
    if (bad) return bad;
    if (device->links == 0) return NOT_SUPPORTED;
    return link >= (unsigned int)device->links ? INVALID_ARGUMENT : OK;
}

nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int link, unsigned int *up) {
    nvmlReturn_t bad = check_link(device, link);
    if (!bad) *up = !(device->links_down >> link & 1);
    return bad;
}

nvmlReturn_t nvmlDeviceGetNvLinkErrorCounter(nvmlDevice_t device, unsigned int link, int counter, unsigned long long *n) {
    nvmlReturn_t bad = check_link(device, link);
    int counts[] = {device->link_replays, device->link_recoveries, device->link_crc};
    if (bad) return bad;
    if (counter < 0 || counter > 2) return NOT_SUPPORTED;
    *n = link == 0 ? (unsigned long long)counts[counter] : 0;
    return OK;
}

nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t device, nvmlGpuFabricInfo_t *fabric) {
    nvmlReturn_t bad = ask(device);
    if (bad) return bad;
    memset(fabric, 0, sizeof *fabric);
    fabric->state = (unsigned char)device->fabric;
    fabric->status = device->fabric_status;
    return OK;
}

static nvmlReturn_t answer_field(nvmlDevice_t device, nvmlFieldValue_t *value) {
    value->value_type = VALUE_UNSIGNED_INT;
    switch (value->field) {
        case FIELD_MEMORY_TEMP: value->value.ui = (unsigned int)device->temperature; return OK;
        case FIELD_RECOVERY_ACTION: value->value.ui = (unsigned int)device->recovery; return OK;
        case FIELD_NVLINK_SPEED: {
            nvmlReturn_t bad = check_link(device, value->scope);
            value->value.ui = bad || device->links_down >> value->scope & 1 ? 0 : (unsigned int)device->link_mb;
            return bad;
        }
        default: return NOT_SUPPORTED;
    }
}

nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values) {
    nvmlReturn_t bad = ask(device);
    if (bad) return bad;
    for (int i = 0; i < count; i++) values[i].result = answer_field(device, &values[i]);
    return OK;
}

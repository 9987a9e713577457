/* Stand-in for the CUDA driver library: names and codes of the driver API (cuda.h), "device memory" is host memory.
   What it answers comes from the node's state file, so that calls can fail as they do on broken hardware. */
#include "state.h"

#include <pthread.h>
#include <stdint.h>
#include <unistd.h>

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct context { int device; int primary; } *CUcontext;
typedef struct { char bytes[16]; } CUuuid;

enum {
    SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_DEVICE = 101,
    INVALID_CONTEXT = 201
};

struct block { CUdeviceptr address; size_t size; int device; struct block *next; };

static struct node node;
static int initialised;
static struct block *blocks;
static size_t used[MAX_GPUS];
static struct context primary[MAX_GPUS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread CUcontext current;

static const struct { CUresult code; const char *name, *text; } errors[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {46, "CUDA_ERROR_DEVICE_UNAVAILABLE", "CUDA-capable device(s) is/are busy or unavailable"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {214, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {802, "CUDA_ERROR_SYSTEM_NOT_READY", "system not yet initialized"},
    {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "system has unsupported display driver / cuda driver combination"},
    {999, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

CUresult cuGetErrorName(CUresult code, const char **text) {
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].code == code) { *text = errors[i].name; return SUCCESS; }
    *text = NULL;
    return INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult code, const char **text) {
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].code == code) { *text = errors[i].text; return SUCCESS; }
    *text = NULL;
    return INVALID_VALUE;
}

CUresult cuInit(unsigned int flags) {
    if (flags != 0) return INVALID_VALUE;
    if (!read_node(&node)) return NO_DEVICE;
    if (node.init_error) return node.init_error;
    if (node.count == 0) return NO_DEVICE;
    initialised = 1;
    return SUCCESS;
}

CUresult cuDriverGetVersion(int *version) {
    struct node now;
    if (!version) return INVALID_VALUE;
    read_node(&now);
    *version = now.cuda;
    return SUCCESS;
}

static CUresult check_device(CUdevice device) {
    if (!initialised) return NOT_INITIALIZED;
    return device < 0 || device >= node.count ? INVALID_DEVICE : SUCCESS;
}

CUresult cuDeviceGetCount(int *count) {
    if (!initialised) return NOT_INITIALIZED;
    if (!count) return INVALID_VALUE;
    *count = node.count;
    return SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    CUresult bad = check_device(ordinal);
    if (bad) return bad;
    if (!device) return INVALID_VALUE;
    *device = ordinal;
    return SUCCESS;
}

CUresult cuDeviceGetName(char *name, int length, CUdevice device) {
    CUresult bad = check_device(device);
    if (bad) return bad;
    if (!name || length <= 0) return INVALID_VALUE;
    snprintf(name, (size_t)length, "%s", node.gpus[device].product);
    return SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device) {
    CUresult bad = check_device(device);
    const char *text;
    int n = 0;
    if (bad) return bad;
    if (!uuid) return INVALID_VALUE;
    memset(uuid, 0, sizeof *uuid);
    text = node.gpus[device].uuid;
    if (strncmp(text, "GPU-", 4) == 0) text += 4;
    for (; *text && n < 16; text++) {
        unsigned int byte;
        if (*text == '-') continue;
        if (sscanf(text, "%2x", &byte) != 1) break;
        uuid->bytes[n++] = (char)byte;
        text++;
    }
    return SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) { return cuDeviceGetUuid(uuid, device); }

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
    CUresult bad = check_device(device);
    if (bad) return bad;
    *bytes = (size_t)node.gpus[device].memory_mib << 20;
    return SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char *text, int length, CUdevice device) {
    CUresult bad = check_device(device);
    if (bad) return bad;
    snprintf(text, (size_t)length, "%s", node.gpus[device].pci);
    return SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device) {
    CUresult bad = check_device(device);
    unsigned int domain = 0, bus = 0, slot = 0;
    if (bad) return bad;
    if (!value) return INVALID_VALUE;
    sscanf(node.gpus[device].pci, "%x:%x:%x", &domain, &bus, &slot);
    switch (attribute) {
        case 1: *value = 1024; break;          /* MAX_THREADS_PER_BLOCK */
        case 10: *value = 32; break;           /* WARP_SIZE */
        case 13: *value = node.gpus[device].sm_clock * 1000; break; /* CLOCK_RATE, kHz */
        case 16: *value = 132; break;          /* MULTIPROCESSOR_COUNT */
        case 20: *value = 0; break;            /* COMPUTE_MODE: default */
        case 32: *value = 1; break;            /* ECC_ENABLED */
        case 33: *value = (int)bus; break;     /* PCI_BUS_ID */
        case 34: *value = (int)slot; break;    /* PCI_DEVICE_ID */
        case 50: *value = (int)domain; break;  /* PCI_DOMAIN_ID */
        case 75: *value = node.gpus[device].compute_major; break;
        case 76: *value = node.gpus[device].compute_minor; break;
        default: *value = 0;
    }
    return SUCCESS;
}

static CUresult open_context(CUdevice device) {
    CUresult bad = check_device(device);
    if (bad) return bad;
    read_node(&node);
    return node.gpus[device].context_error;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    CUresult bad = open_context(device);
    if (bad) return bad;
    primary[device].device = device;
    primary[device].primary = 1;
    *context = &primary[device];
    return SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
    CUresult bad = check_device(device);
    if (!bad && current == &primary[device]) current = NULL;
    return bad;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) { return cuDevicePrimaryCtxRelease(device); }

CUresult cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device) {
    CUresult bad = open_context(device);
    (void)flags;
    if (bad) return bad;
    *context = calloc(1, sizeof **context);
    if (!*context) return OUT_OF_MEMORY;
    (*context)->device = device;
    current = *context;
    return SUCCESS;
}

CUresult cuCtxDestroy_v2(CUcontext context) {
    if (!context || context->primary) return INVALID_CONTEXT;
    if (current == context) current = NULL;
    free(context);
    return SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context) { current = context; return initialised ? SUCCESS : NOT_INITIALIZED; }

CUresult cuCtxGetCurrent(CUcontext *context) { *context = current; return initialised ? SUCCESS : NOT_INITIALIZED; }

CUresult cuCtxGetDevice(CUdevice *device) {
    if (!current) return INVALID_CONTEXT;
    *device = current->device;
    return SUCCESS;
}

static CUresult check_context(void) {
    if (!initialised) return NOT_INITIALIZED;
    return current ? SUCCESS : INVALID_CONTEXT;
}

/* Work on the device is where a sick GPU shows; its state is read again, since it may fall sick at any time. */
static CUresult do_work(void) {
    CUresult bad = check_context();
    if (bad) return bad;
    read_node(&node);
    /* A kernel that never ends: the call waits for as long as the GPU is so sick. */
    while (current->device < node.count && node.gpus[current->device].hang) {
        usleep(100000);
        read_node(&node);
    }
    return current->device < node.count ? node.gpus[current->device].launch_error : 999;
}

CUresult cuCtxSynchronize(void) { return do_work(); }

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
    CUresult bad = check_context();
    if (bad) return bad;
    *total = (size_t)node.gpus[current->device].memory_mib << 20;
    *free_bytes = *total - used[current->device];
    return SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t size) {
    CUresult bad = check_context();
    struct block *block;
    void *memory;
    if (bad) return bad;
    if (!address || size == 0) return INVALID_VALUE;
    if (used[current->device] + size > (size_t)node.gpus[current->device].memory_mib << 20) return OUT_OF_MEMORY;
    block = malloc(sizeof *block);
    memory = malloc(size);
    if (!block || !memory) { free(block); free(memory); return OUT_OF_MEMORY; }
    *block = (struct block){(CUdeviceptr)(uintptr_t)memory, size, current->device, NULL};
    pthread_mutex_lock(&lock);
    used[block->device] += size;
    block->next = blocks;
    blocks = block;
    pthread_mutex_unlock(&lock);
    *address = block->address;
    return SUCCESS;
}

CUresult cuMemFree_v2(CUdeviceptr address) {
    CUresult result = INVALID_VALUE;
    if (!initialised) return NOT_INITIALIZED;
    pthread_mutex_lock(&lock);
    for (struct block **link = &blocks; *link; link = &(*link)->next) {
        if ((*link)->address == address) {
            struct block *gone = *link;
            *link = gone->next;
            used[gone->device] -= gone->size;
            free((void *)(uintptr_t)address);
            free(gone);
            result = SUCCESS;
            break;
        }
    }
    pthread_mutex_unlock(&lock);
    return result;
}

/* The device that holds all of [address, address + size), or -1. */
static int device_of(CUdeviceptr address, size_t size) {
    int device = -1;
    pthread_mutex_lock(&lock);
    for (struct block *block = blocks; block; block = block->next)
        if (address >= block->address && address + size <= block->address + block->size) device = block->device;
    pthread_mutex_unlock(&lock);
    return device;
}

static CUresult check_copy(CUdeviceptr address, size_t size, int *device) {
    CUresult bad = do_work();
    if (bad) return bad;
    *device = device_of(address, size);
    return *device < 0 ? INVALID_VALUE : SUCCESS;
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr target, const void *source, size_t size) {
    int device;
    CUresult bad = check_copy(target, size, &device);
    if (bad) return bad;
    memcpy((void *)(uintptr_t)target, source, size);
    return SUCCESS;
}

CUresult cuMemcpyDtoH_v2(void *target, CUdeviceptr source, size_t size) {
    int device;
    CUresult bad = check_copy(source, size, &device);
    if (bad) return bad;
    memcpy(target, (void *)(uintptr_t)source, size);
    /* A GPU that computes wrong: one flipped bit, high enough in a float to matter. */
    if (node.gpus[device].flip && size > 0) {
        size_t at = size >= 4 ? (size / 2 & ~(size_t)3) + 3 : size - 1;
        ((unsigned char *)target)[at < size ? at : size - 1] ^= 0x40;
    }
    return SUCCESS;
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr target, CUdeviceptr source, size_t size) {
    int device;
    CUresult bad = check_copy(source, size, &device);
    if (!bad) bad = check_copy(target, size, &device);
    if (bad) return bad;
    memmove((void *)(uintptr_t)target, (void *)(uintptr_t)source, size);
    return SUCCESS;
}

CUresult cuMemsetD8_v2(CUdeviceptr target, unsigned char value, size_t size) {
    int device;
    CUresult bad = check_copy(target, size, &device);
    if (bad) return bad;
    memset((void *)(uintptr_t)target, value, size);
    return SUCCESS;
}

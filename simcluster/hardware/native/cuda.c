/* Stand-in for the CUDA driver library: names and codes of the driver API (cuda.h), "device memory" is host memory.
   What it answers comes from the node's state file, so that calls can fail as they do on broken hardware. */
#include "load.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <unistd.h>

#include "memory.h"

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct context { int device; int primary; } *CUcontext;
typedef struct { char bytes[16]; } CUuuid;

enum {
    SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_DEVICE = 101,
    INVALID_CONTEXT = 201, PEER_UNSUPPORTED = 217,
    INVALID_PTX = 218, INVALID_HANDLE = 400, SYMBOL_NOT_FOUND = 500, ILLEGAL_ADDRESS = 700, NOT_SUPPORTED = 801
};

struct block { CUdeviceptr address; size_t size; int device; size_t offset; struct block *next; };

static struct node node;
static int initialised;
static struct block *blocks;
static size_t used[MAX_GPUS];
static unsigned long long enabled[MAX_GPUS]; /* peers that each device may reach */
static struct context primary[MAX_GPUS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread CUcontext current;

/* Only the devices that CUDA_VISIBLE_DEVICES names, in its order: ordinals, or UUIDs from their beginning. What names no
   device ends the list, as the real driver has it. NVML and nvidia-smi do not heed it. */
static int read_visible(struct node *read) {
    const char *wanted = getenv("CUDA_VISIBLE_DEVICES");
    struct gpu all[MAX_GPUS];
    struct node fresh, *seen = &fresh; /* threads look at `read` meanwhile: it must never be half done */
    int count, there = read_node(seen);
    if (!there || !wanted) {
        *read = fresh;
        return there;
    }
    memcpy(all, seen->gpus, sizeof all);
    count = seen->count;
    seen->count = 0;
    while (*wanted) {
        size_t length = strcspn(wanted, ",");
        int found = -1;
        for (int i = 0; i < count && found < 0; i++)
            if (length > 3 && strncmp(all[i].uuid, wanted, length) == 0) found = i;
        if (found < 0 && *wanted >= '0' && *wanted <= '9' && atoi(wanted) < count) found = atoi(wanted);
        if (found < 0 || seen->count >= MAX_GPUS) break;
        seen->gpus[seen->count++] = all[found];
        wanted += length + (wanted[length] == ',');
    }
    *read = fresh;
    return 1;
}

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
    {217, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", "peer access is not supported between these two devices"},
    {218, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {704, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access is already enabled"},
    {705, "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED", "peer access has not been enabled"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {802, "CUDA_ERROR_SYSTEM_NOT_READY", "system not yet initialized"},
    {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "system has unsupported display driver / cuda driver combination"},
    {804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE", "forward compatibility was attempted on non supported HW"},
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
    if (!read_visible(&node)) return NO_DEVICE;
    if (node.init_error) return node.init_error;
    if (node.count == 0) return NO_DEVICE;
    initialised = 1;
    return SUCCESS;
}

CUresult cuDriverGetVersion(int *version) {
    struct node now;
    if (!version) return INVALID_VALUE;
    read_visible(&now);
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
    read_visible(&node);
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
    read_visible(&node);
    /* A kernel that never ends: the call waits for as long as the GPU is so sick. */
    while (current->device < node.count && node.gpus[current->device].hang) {
        usleep(100000);
        read_visible(&node);
    }
    return current->device < node.count ? node.gpus[current->device].launch_error : 999;
}

/* What processes of somebody else hold of a device's memory. */
static size_t held(int device) { return (size_t)node.gpus[device].held_mib << 20; }

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
    CUresult bad = check_context();
    if (bad) return bad;
    *total = (size_t)node.gpus[current->device].memory_mib << 20;
    *free_bytes = *total - used[current->device] - held(current->device);
    return SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t size) {
    CUresult bad = check_context();
    struct block *block;
    void *memory;
    if (bad) return bad;
    if (!address || size == 0) return INVALID_VALUE;
    read_visible(&node);
    if (used[current->device] + held(current->device) + size > (size_t)node.gpus[current->device].memory_mib << 20)
        return OUT_OF_MEMORY;
    block = malloc(sizeof *block);
    memory = malloc(size);
    if (!block || !memory) { free(block); free(memory); return OUT_OF_MEMORY; }
    pthread_mutex_lock(&lock);
    *block = (struct block){(CUdeviceptr)(uintptr_t)memory, size, current->device, used[current->device], NULL};
    find_left_behind(node.gpus[block->device].uuid, block->offset, memory, size);
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
            leave_behind(node.gpus[gone->device].uuid, gone->offset, (void *)(uintptr_t)address, gone->size);
            free((void *)(uintptr_t)address);
            free(gone);
            result = SUCCESS;
            break;
        }
    }
    pthread_mutex_unlock(&lock);
    return result;
}

/* A process that ends gives its memory back as it is. */
__attribute__((destructor)) static void end(void) {
    for (struct block *block = blocks; block; block = block->next)
        leave_behind(node.gpus[block->device].uuid, block->offset, (void *)(uintptr_t)block->address, block->size);
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

#include "cuda_work.h"
#include "cuda_kernels.h"

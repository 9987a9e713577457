/* The CUDA stand-in's modules: it reads which entries a PTX text has, and knows the three kernels of the workloads by
   name. It runs no PTX: `fill32` and `verify32` are done by the host, `burn` takes the time of its multiply-adds. */

#define MAX_ENTRIES 16
typedef struct module { char names[MAX_ENTRIES][TEXT]; int count; } *CUmodule;
typedef char *CUfunction;

CUresult cuModuleLoadData(CUmodule *module, const void *image) {
    CUresult bad = check_context();
    const char *at = image;
    if (bad) return bad;
    if (!module || !image) return INVALID_VALUE;
    if (!strstr(at, ".version") || !strstr(at, ".target")) return INVALID_PTX;
    *module = calloc(1, sizeof **module);
    if (!*module) return OUT_OF_MEMORY;
    while ((at = strstr(at, ".entry ")) != NULL && (*module)->count < MAX_ENTRIES)
        if (sscanf(at += 7, "%95[A-Za-z0-9_]", (*module)->names[(*module)->count]) == 1) (*module)->count++;
    return SUCCESS;
}

CUresult cuModuleUnload(CUmodule module) {
    if (!module) return INVALID_HANDLE;
    free(module);
    return SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
    if (!module || !function || !name) return INVALID_VALUE;
    for (int i = 0; i < module->count; i++)
        if (strcmp(module->names[i], name) == 0) { *function = module->names[i]; return SUCCESS; }
    return SYMBOL_NOT_FOUND;
}

static uint32_t word_at(uint64_t index, uint32_t seed) {
    uint32_t x = (uint32_t)index + (uint32_t)(index >> 32) * 2654435761u + seed;
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    return x ^ x >> 16;
}

static CUresult fill32(void **parameters, int *device) {
    CUdeviceptr address = *(CUdeviceptr *)parameters[0];
    uint64_t words = *(uint64_t *)parameters[1];
    uint32_t seed = *(uint32_t *)parameters[2], *memory = (uint32_t *)(uintptr_t)address;
    if ((*device = device_of(address, words * 4)) < 0) return ILLEGAL_ADDRESS;
    for (uint64_t i = 0; i < words; i++) memory[i] = word_at(i, seed);
    /* A cell of the memory that does not keep what it is given. */
    uint64_t bad = ((uint64_t)node.gpus[*device].bad_mib << 20) / 4;
    if (bad && bad < words) memory[bad] ^= 0x10;
    occupy(stream_of(NULL), *device, INSIDE, (double)words * 4, node.gpus[*device].hbm * 1e6, now_ns());
    return SUCCESS;
}

static CUresult verify32(void **parameters, int *device) {
    CUdeviceptr address = *(CUdeviceptr *)parameters[0], count = *(CUdeviceptr *)parameters[3];
    uint64_t words = *(uint64_t *)parameters[1], wrong = 0;
    uint32_t seed = *(uint32_t *)parameters[2], *memory = (uint32_t *)(uintptr_t)address;
    if ((*device = device_of(address, words * 4)) < 0 || device_of(count, 8) < 0) return ILLEGAL_ADDRESS;
    for (uint64_t i = 0; i < words; i++) wrong += memory[i] != word_at(i, seed);
    *(uint64_t *)(uintptr_t)count += wrong;
    occupy(stream_of(NULL), *device, INSIDE, (double)words * 4, node.gpus[*device].hbm * 1e6, now_ns());
    return SUCCESS;
}

CUresult cuLaunchKernel(CUfunction function, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
                        unsigned int by, unsigned int bz, unsigned int shared, CUstream stream, void **parameters,
                        void **extra) {
    unsigned long long begun = now_ns();
    double threads = (double)gx * gy * gz * bx * by * bz;
    CUresult bad = do_work();
    int device;
    (void)shared, (void)extra;
    if (bad) return bad;
    if (!function || !parameters || threads < 1 || (double)bx * by * bz > 1024) return INVALID_VALUE;
    device = current->device;
    if (strcmp(function, "fill32") == 0) return fill32(parameters, &device);
    if (strcmp(function, "verify32") == 0) return verify32(parameters, &device);
    if (strcmp(function, "burn") != 0) return NOT_SUPPORTED;
    occupy(stream_of(stream), device, COMPUTE, 2.0 * threads * *(uint32_t *)parameters[1], node.gpus[device].mflops * 1e6,
           begun);
    if (node.gpus[device].xid_at_load && !loads()[slot_of(device)].xids) {
        loads()[slot_of(device)].last_xid = (unsigned long long)node.gpus[device].xid_at_load;
        loads()[slot_of(device)].xids = 1;
    }
    return SUCCESS;
}

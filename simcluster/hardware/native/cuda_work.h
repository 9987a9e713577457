/* The CUDA stand-in's work: streams, events, copies and peers, each as fast as the hardware's state allows and no faster.
   Data is moved at once by the host; the *time* is the hardware's: an engine is busy until its work would be done. */

enum engine { COMPUTE, TO_DEVICE, TO_HOST, INSIDE, TO_PEER, ENGINES };
typedef struct stream { unsigned long long end; int device; } *CUstream;
typedef struct event { unsigned long long at; int device, recorded; } *CUevent;

static unsigned long long engines[MAX_GPUS][ENGINES];
static struct stream default_streams[MAX_GPUS];

static void wait_until(unsigned long long ns) {
    struct timespec until = {(time_t)(ns / 1000000000ull), (long)(ns % 1000000000ull)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) {}
}

/* A device's number among the container's physical GPUs, whatever order or part of them CUDA_VISIBLE_DEVICES asks for. */
static int slot_of(int device) { return node.gpus[device].parent >= 0 ? node.gpus[device].parent : node.gpus[device].index; }

static CUstream stream_of(CUstream stream) { return stream ? stream : &default_streams[current->device]; }

/* Occupies an engine of `device` for `amount` / `rate` seconds from `begun` on, after what it and the stream do already. */
static void occupy(CUstream stream, int device, enum engine engine, double amount, double rate, unsigned long long begun) {
    unsigned long long start = begun, *busy = &engines[device][engine];
    if (stream->end > start) start = stream->end;
    if (*busy > start) start = *busy;
    stream->end = *busy = start + (rate > 0 ? (unsigned long long)(amount / rate * 1e9) : 0);
    if (engine == COMPUTE || engine == INSIDE) add_work(slot_of(device), start, stream->end);
}

CUresult cuStreamCreate(CUstream *stream, unsigned int flags) {
    CUresult bad = check_context();
    (void)flags;
    if (bad) return bad;
    if (!stream) return INVALID_VALUE;
    *stream = calloc(1, sizeof **stream);
    if (!*stream) return OUT_OF_MEMORY;
    (*stream)->device = current->device;
    return SUCCESS;
}

CUresult cuStreamDestroy_v2(CUstream stream) {
    if (!stream) return INVALID_HANDLE;
    free(stream);
    return SUCCESS;
}

CUresult cuStreamSynchronize(CUstream stream) {
    CUresult bad = check_context();
    if (bad) return bad;
    wait_until(stream_of(stream)->end);
    return do_work();
}

CUresult cuCtxSynchronize(void) {
    CUresult bad = check_context();
    if (bad) return bad;
    for (int engine = 0; engine < ENGINES; engine++) wait_until(engines[current->device][engine]);
    return do_work();
}

CUresult cuEventCreate(CUevent *event, unsigned int flags) {
    CUresult bad = check_context();
    (void)flags;
    if (bad) return bad;
    if (!event) return INVALID_VALUE;
    *event = calloc(1, sizeof **event);
    return *event ? SUCCESS : OUT_OF_MEMORY;
}

CUresult cuEventDestroy_v2(CUevent event) {
    if (!event) return INVALID_HANDLE;
    free(event);
    return SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
    CUresult bad = check_context();
    unsigned long long now = now_ns();
    if (bad) return bad;
    if (!event) return INVALID_HANDLE;
    event->at = stream_of(stream)->end > now ? stream_of(stream)->end : now;
    event->recorded = 1;
    return SUCCESS;
}

CUresult cuEventSynchronize(CUevent event) {
    if (!event) return INVALID_HANDLE;
    wait_until(event->at);
    return do_work();
}

CUresult cuEventElapsedTime(float *ms, CUevent from, CUevent until) {
    if (!ms || !from || !until || !from->recorded || !until->recorded) return INVALID_HANDLE;
    *ms = (float)(((double)until->at - (double)from->at) / 1e6);
    return SUCCESS;
}

CUresult cuMemHostAlloc(void **memory, size_t size, unsigned int flags) {
    CUresult bad = check_context();
    (void)flags;
    if (bad) return bad;
    if (!memory || size == 0) return INVALID_VALUE;
    return posix_memalign(memory, 4096, size) ? OUT_OF_MEMORY : SUCCESS;
}

CUresult cuMemAllocHost_v2(void **memory, size_t size) { return cuMemHostAlloc(memory, size, 0); }

CUresult cuMemFreeHost(void *memory) {
    if (!initialised) return NOT_INITIALIZED;
    free(memory);
    return SUCCESS;
}

static CUresult check_copy(CUdeviceptr address, size_t size, int *device) {
    CUresult bad = do_work();
    if (bad) return bad;
    *device = device_of(address, size);
    return *device < 0 ? INVALID_VALUE : SUCCESS;
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr target, const void *source, size_t size, CUstream stream) {
    unsigned long long begun = now_ns();
    int device;
    CUresult bad = check_copy(target, size, &device);
    if (bad) return bad;
    memcpy((void *)(uintptr_t)target, source, size);
    occupy(stream_of(stream), device, TO_DEVICE, (double)size, node.gpus[device].h2d * 1e6, begun);
    return SUCCESS;
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr target, const void *source, size_t size) {
    CUresult bad = cuMemcpyHtoDAsync_v2(target, source, size, NULL);
    return bad ? bad : cuStreamSynchronize(NULL);
}

CUresult cuMemcpyDtoHAsync_v2(void *target, CUdeviceptr source, size_t size, CUstream stream) {
    unsigned long long begun = now_ns();
    int device;
    CUresult bad = check_copy(source, size, &device);
    if (bad) return bad;
    memcpy(target, (void *)(uintptr_t)source, size);
    /* A GPU that computes wrong: one flipped bit, high enough in a float to matter. */
    if (node.gpus[device].flip && size > 0) {
        size_t at = size >= 4 ? (size / 2 & ~(size_t)3) + 3 : size - 1;
        ((unsigned char *)target)[at < size ? at : size - 1] ^= 0x40;
    }
    occupy(stream_of(stream), device, TO_HOST, (double)size, node.gpus[device].d2h * 1e6, begun);
    return SUCCESS;
}

CUresult cuMemcpyDtoH_v2(void *target, CUdeviceptr source, size_t size) {
    CUresult bad = cuMemcpyDtoHAsync_v2(target, source, size, NULL);
    return bad ? bad : cuStreamSynchronize(NULL);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr target, CUdeviceptr source, size_t size, CUstream stream) {
    unsigned long long begun = now_ns();
    int device;
    CUresult bad = check_copy(source, size, &device);
    if (!bad) bad = check_copy(target, size, &device);
    if (bad) return bad;
    memmove((void *)(uintptr_t)target, (void *)(uintptr_t)source, size);
    /* Each byte is read and written. */
    occupy(stream_of(stream), device, INSIDE, 2.0 * (double)size, node.gpus[device].hbm * 1e6, begun);
    return SUCCESS;
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr target, CUdeviceptr source, size_t size) {
    CUresult bad = cuMemcpyDtoDAsync_v2(target, source, size, NULL);
    return bad ? bad : cuStreamSynchronize(NULL);
}

CUresult cuMemsetD8_v2(CUdeviceptr target, unsigned char value, size_t size) {
    unsigned long long begun = now_ns();
    int device;
    CUresult bad = check_copy(target, size, &device);
    if (bad) return bad;
    memset((void *)(uintptr_t)target, value, size);
    occupy(stream_of(NULL), device, INSIDE, (double)size, node.gpus[device].hbm * 1e6, begun);
    return cuStreamSynchronize(NULL);
}

static int peers(int one, int other) {
    int first = slot_of(one), second = slot_of(other);
    return one != other && !(node.gpus[one].no_peer >> second & 1) && !(node.gpus[other].no_peer >> first & 1);
}

CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer) {
    CUresult bad = check_device(device);
    if (!bad) bad = check_device(peer);
    if (bad) return bad;
    if (!can) return INVALID_VALUE;
    read_visible(&node);
    *can = peers(device, peer);
    return SUCCESS;
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags) {
    CUresult bad = check_context();
    if (bad) return bad;
    if (!peer || flags != 0) return INVALID_VALUE;
    read_visible(&node);
    if (!peers(current->device, peer->device)) return PEER_UNSUPPORTED;
    if (enabled[current->device] >> peer->device & 1) return 704;
    enabled[current->device] |= 1ull << peer->device;
    return SUCCESS;
}

CUresult cuCtxDisablePeerAccess(CUcontext peer) {
    CUresult bad = check_context();
    if (bad) return bad;
    if (!peer || !(enabled[current->device] >> peer->device & 1)) return 705;
    enabled[current->device] &= ~(1ull << peer->device);
    return SUCCESS;
}

/* Without access to the peer the driver takes the way through the host, at the slower of both links. */
CUresult cuMemcpyPeerAsync(CUdeviceptr target, CUcontext to, CUdeviceptr source, CUcontext from, size_t size,
                           CUstream stream) {
    unsigned long long begun = now_ns();
    int into, out_of;
    double rate;
    CUresult bad = check_copy(source, size, &out_of);
    if (!bad) bad = check_copy(target, size, &into);
    if (bad) return bad;
    if (!to || !from || to->device != into || from->device != out_of) return INVALID_VALUE;
    memmove((void *)(uintptr_t)target, (void *)(uintptr_t)source, size);
    if (peers(into, out_of))
        rate = node.gpus[into].peer < node.gpus[out_of].peer ? node.gpus[into].peer : node.gpus[out_of].peer;
    else
        rate = (node.gpus[out_of].d2h < node.gpus[into].h2d ? node.gpus[out_of].d2h : node.gpus[into].h2d) / 2;
    occupy(stream_of(stream), into, TO_PEER, (double)size, rate * 1e6, begun);
    return SUCCESS;
}

/* Stand-in for libibverbs: devices, ports and the objects of a connection, as the container's own sysfs tree and
 * /dev (or $SIMCLUSTER_DEV) have them. Moves no data: work requests fail.
 * Pinned memory counts against RLIMIT_MEMLOCK, as the kernel counts it, unless the container has CAP_IPC_LOCK, which
 * the simulator tells by SIMCLUSTER_IPC_LOCK since every simulated process has all capabilities in its namespace. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "verbs_sysfs.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ibv_device *known[MAX_DEVICES]; /* never freed: callers may keep a device beyond its list */
static size_t pinned_pages;
static uint32_t made_objects;

static int fail(int code) { errno = code; return code; }
static void *refuse(int code) { errno = code; return NULL; }

/* Counts pages as the kernel does for each process. 0, or ENOMEM beyond the limit. */
static int pin(size_t pages) {
    struct rlimit limit;
    int code = 0;
    pthread_mutex_lock(&lock);
    getrlimit(RLIMIT_MEMLOCK, &limit);
    if (!getenv("SIMCLUSTER_IPC_LOCK") && limit.rlim_cur != RLIM_INFINITY &&
        pinned_pages + pages > limit.rlim_cur / (size_t)sysconf(_SC_PAGESIZE))
        code = ENOMEM;
    else
        pinned_pages += pages;
    pthread_mutex_unlock(&lock);
    return code;
}

static void unpin(size_t pages) { pthread_mutex_lock(&lock); pinned_pages -= pages; pthread_mutex_unlock(&lock); }
static size_t pages_for(size_t bytes) { size_t page = (size_t)sysconf(_SC_PAGESIZE); return bytes / page + (bytes % page != 0); }
static uint32_t next_handle(void) { return __sync_add_and_fetch(&made_objects, 1); }

static const char *device_file(const struct ibv_device *device, char *out) {
    const char *root = getenv("SIMCLUSTER_DEV");
    snprintf(out, PATH, "%.150s/infiniband/%.63s", root ? root : "/dev", device->dev_name);
    return out;
}

/* NULL where there is no memory, or no device file: such devices are not listed. */
static struct ibv_device *device_of(const char *name) {
    char root[PATH];
    int at = 0;
    for (; at < MAX_DEVICES && known[at]; at++)
        if (strcmp(known[at]->name, name) == 0) break;
    if (at == MAX_DEVICES || (!known[at] && !(known[at] = calloc(1, sizeof **known)))) return NULL;
    struct ibv_device *device = known[at];
    const char *number = name + strlen(name); /* the simulator numbers device files as it numbers names */
    while (number > name && number[-1] >= '0' && number[-1] <= '9') number--;
    device->node_type = 1;
    snprintf(device->name, NAME, "%.63s", name);
    snprintf(device->dev_name, NAME, "uverbs%.20s", *number ? number : "0");
    snprintf(device->ibdev_path, PATH, "%.180s/%.63s", class_path(root), name);
    snprintf(device->dev_path, PATH, "%.180s_verbs/%.63s", root, device->dev_name);
    return access(device_file(device, root), F_OK) == 0 ? device : NULL;
}

static int visible(const struct dirent *entry) { return entry->d_name[0] != '.'; }

struct ibv_device **ibv_get_device_list(int *number) {
    char path[PATH];
    struct dirent **entries;
    struct ibv_device **list;
    int found = scandir(class_path(path), &entries, visible, versionsort), kept = 0;
    if (number) *number = 0;
    if (found < 0) return refuse(ENOSYS); /* what the real library says where there is no RDMA in the kernel */
    list = calloc((size_t)found + 1, sizeof *list);
    pthread_mutex_lock(&lock);
    for (int at = 0; at < found; at++) {
        if (list && (list[kept] = device_of(entries[at]->d_name)) != NULL) kept++;
        free(entries[at]);
    }
    pthread_mutex_unlock(&lock);
    free(entries);
    if (list && number) *number = kept;
    return list ? list : refuse(ENOMEM);
}

void ibv_free_device_list(struct ibv_device **list) { free(list); }
const char *ibv_get_device_name(struct ibv_device *device) { return device->name; }
uint64_t ibv_get_device_guid(struct ibv_device *device) { return guid_of(device, "node_guid"); }

static int poll_nothing(struct ibv_cq *cq, int entries, void *out) { (void)cq; (void)entries; (void)out; return 0; }
static int notify_nothing(struct ibv_cq *cq, int solicited) { (void)cq; (void)solicited; return 0; }
static int post_nothing(struct ibv_qp *qp, void *request, void **bad) { (void)qp; *bad = request; return EOPNOTSUPP; }

struct ibv_context *ibv_open_device(struct ibv_device *device) {
    char path[PATH];
    struct ibv_context *context;
    if (!device || access(device->ibdev_path, F_OK) != 0) return refuse(ENODEV);
    if (!(context = calloc(1, sizeof *context))) return refuse(ENOMEM);
    context->cmd_fd = open(device_file(device, path), O_RDONLY | O_CLOEXEC);
    if (context->cmd_fd < 0) {
        free(context);
        return NULL;
    }
    context->device = device;
    context->async_fd = -1;
    context->num_comp_vectors = (int)sysconf(_SC_NPROCESSORS_ONLN);
    context->ops[OP_POLL_CQ] = poll_nothing;
    context->ops[OP_NOTIFY_CQ] = notify_nothing;
    context->ops[OP_POST_SEND] = context->ops[OP_POST_RECV] = post_nothing;
    pthread_mutex_init(&context->mutex, NULL);
    return context;
}

int ibv_close_device(struct ibv_context *context) {
    close(context->cmd_fd);
    free(context);
    return 0;
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *out) {
    const struct ibv_device *device = context->device;
    char text[TEXT];
    if (access(device->ibdev_path, F_OK) != 0) return fail(ENODEV);
    memset(out, 0, sizeof *out);
    snprintf(out->fw_ver, sizeof out->fw_ver, "%.63s", text_of(device, "fw_ver", text));
    out->node_guid = guid_of(device, "node_guid");
    out->sys_image_guid = guid_of(device, "sys_image_guid");
    out->max_mr_size = UINT64_MAX;
    out->page_size_cap = ~(uint64_t)0xfff;
    out->vendor_id = (uint32_t)strtoul(text_of(device, "device/vendor", text), NULL, 0);
    out->vendor_part_id = (uint32_t)strtoul(text_of(device, "device/device", text), NULL, 0);
    out->hw_ver = (uint32_t)strtoul(text_of(device, "hw_rev", text), NULL, 0);
    out->max_qp = MAX_QP;
    out->max_qp_wr = MAX_QP_WR;
    out->max_sge = out->max_sge_rd = MAX_SGE;
    out->max_cq = out->max_mr = out->max_mw = 1 << 24;
    out->max_cqe = MAX_CQE;
    out->max_pd = out->max_srq = 1 << 23;
    out->max_qp_rd_atom = out->max_qp_init_rd_atom = 16;
    out->max_res_rd_atom = MAX_QP * 16;
    out->atomic_cap = 1;
    out->max_ah = INT32_MAX;
    out->max_srq_wr = MAX_QP_WR - 1;
    out->max_srq_sge = 31;
    out->max_pkeys = (uint16_t)table_length(device, 1, "pkeys");
    out->local_ca_ack_delay = 16;
    out->phys_port_cnt = (uint8_t)entries_of(device, "ports");
    return 0;
}

/* Width and speed as the port's rate file says them: "400 Gb/sec (4X NDR)". Beyond NDR 8 bits have no value. */
static void read_rate(const char *text, struct ibv_port_attr *out) {
    static const struct { double lane; uint8_t code; } speeds[] = {
        {100, 128}, {50, 64}, {25, 32}, {14, 16}, {10, 4}, {5, 2}, {0, 1}};
    const char *width = strchr(text, '(');
    int lanes = width ? atoi(width + 1) : 4, at = 0;
    out->active_width = lanes == 1 ? 1 : lanes == 2 ? 16 : lanes == 8 ? 4 : lanes == 12 ? 8 : 2;
    while (strtod(text, NULL) / (lanes > 0 ? lanes : 4) < speeds[at].lane) at++;
    out->active_speed = speeds[at].code;
}

static int has_port(const struct ibv_context *context, int port) {
    return port >= 1 && port <= entries_of(context->device, "ports");
}

static int is_ethernet(const struct ibv_context *context, int port) {
    char text[TEXT];
    return strcmp(port_text(context->device, port, "link_layer", text), "Ethernet") == 0;
}

int ibv_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *out) {
    const struct ibv_device *device = context->device;
    char text[TEXT];
    if (access(device->ibdev_path, F_OK) != 0) return fail(ENODEV);
    if (!has_port(context, port)) return fail(EINVAL);
    memset(out, 0, sizeof *out);
    int mtu = atoi(text_of(device, "active_mtu", text)), ethernet = is_ethernet(context, port);
    out->state = (int)port_number(device, port, "state");
    out->max_mtu = out->active_mtu = 5;
    for (int code = 1; code <= 5; code++)
        if (mtu == 128 << code) out->active_mtu = code;
    out->gid_tbl_len = table_length(device, port, "gids");
    out->port_cap_flags = (uint32_t)port_number(device, port, "cap_mask");
    out->max_msg_sz = 1u << 30;
    out->pkey_tbl_len = (uint16_t)table_length(device, port, "pkeys");
    out->lid = (uint16_t)port_number(device, port, "lid");
    out->sm_lid = (uint16_t)port_number(device, port, "sm_lid");
    out->lmc = (uint8_t)port_number(device, port, "lid_mask_count");
    out->sm_sl = (uint8_t)port_number(device, port, "sm_sl");
    out->max_vl_num = ethernet ? 0 : 4;
    out->subnet_timeout = ethernet ? 0 : 18;
    out->phys_state = (uint8_t)port_number(device, port, "phys_state");
    out->link_layer = ethernet ? 2 : 1;
    out->flags = (uint8_t)ethernet; /* an Ethernet port needs a global route */
    read_rate(port_text(device, port, "rate", text), out);
    return 0;
}

int ibv_query_gid(struct ibv_context *context, uint8_t port, int index, uint8_t *out) {
    char name[NAME], text[TEXT];
    snprintf(name, sizeof name, "gids/%d", index);
    return bytes_of(port_text(context->device, port, name, text), out, 8) ? (errno = EINVAL, -1) : 0;
}

int ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, uint16_t *out) {
    char name[NAME], text[TEXT];
    snprintf(name, sizeof name, "pkeys/%d", index);
    if (!*port_text(context->device, port, name, text)) return errno = EINVAL, -1;
    *out = htons((uint16_t)strtoul(text, NULL, 16));
    return 0;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context) {
    struct ibv_pd *pd = calloc(1, sizeof *pd);
    if (!pd) return refuse(ENOMEM);
    pd->context = context;
    pd->handle = next_handle();
    return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd) {
    if (pd->users) return fail(EBUSY);
    free(pd);
    return 0;
}

/* Registering touches every page, so it fails where there is none. */
static int is_mapped(uintptr_t start, size_t pages) {
    unsigned char resident[4096];
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t done = 0; done < pages; done += sizeof resident) {
        size_t step = pages - done < sizeof resident ? pages - done : sizeof resident;
        if (mincore((void *)(start + done * page), step * page, resident) != 0) return 0;
    }
    return 1;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *address, size_t length, int access) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), skipped = (uintptr_t)address % page;
    struct ibv_mr *mr;
    int writes_from_afar = access & (REMOTE_WRITE | REMOTE_ATOMIC);
    if (!length || length > SIZE_MAX - page || (uintptr_t)address > SIZE_MAX - page - length) return refuse(EINVAL);
    if (writes_from_afar && !(access & LOCAL_WRITE)) return refuse(EINVAL);
    if (!(mr = calloc(1, sizeof *mr)) || pin(mr->pages = pages_for(length + skipped))) {
        free(mr);
        return refuse(ENOMEM);
    }
    if (!is_mapped((uintptr_t)address - skipped, mr->pages)) {
        unpin(mr->pages);
        free(mr);
        return refuse(EFAULT);
    }
    mr->context = pd->context;
    mr->pd = pd;
    mr->addr = address;
    mr->length = length;
    mr->handle = next_handle();
    mr->lkey = mr->rkey = mr->handle << 8;
    __sync_add_and_fetch(&pd->users, 1);
    return mr;
}

int ibv_dereg_mr(struct ibv_mr *mr) {
    unpin(mr->pages);
    __sync_sub_and_fetch(&mr->pd->users, 1);
    free(mr);
    return 0;
}

/* Queues are rings of entries whose number is a power of two; the driver pins them, too. */
static size_t ring(uint32_t entries) {
    size_t size = 1;
    while (size < entries) size *= 2;
    return size;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context, void *channel, int vector) {
    struct ibv_cq *cq;
    if (cqe < 1 || cqe > MAX_CQE || vector < 0 || vector >= context->num_comp_vectors) return refuse(EINVAL);
    if (!(cq = calloc(1, sizeof *cq)) || pin(cq->pages = pages_for(ring((uint32_t)cqe + 1) * 64))) {
        free(cq);
        return refuse(ENOMEM);
    }
    cq->context = context;
    cq->channel = channel;
    cq->cq_context = cq_context;
    cq->handle = next_handle();
    cq->cqe = (int)ring((uint32_t)cqe + 1) - 1;
    pthread_mutex_init(&cq->mutex, NULL);
    pthread_cond_init(&cq->cond, NULL);
    return cq;
}

int ibv_destroy_cq(struct ibv_cq *cq) {
    if (cq->users) return fail(EBUSY);
    unpin(cq->pages);
    free(cq);
    return 0;
}

static void use(struct ibv_qp *qp, int by) {
    __sync_add_and_fetch(&qp->pd->users, by);
    __sync_add_and_fetch(&qp->send_cq->users, by);
    __sync_add_and_fetch(&qp->recv_cq->users, by);
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *wanted) {
    const struct ibv_qp_cap *cap = &wanted->cap;
    struct ibv_qp *qp;
    if (wanted->qp_type != RC && wanted->qp_type != UC && wanted->qp_type != UD) return refuse(EOPNOTSUPP);
    if (!wanted->send_cq || !wanted->recv_cq) return refuse(EINVAL);
    if (cap->max_send_wr > MAX_QP_WR || cap->max_recv_wr > MAX_QP_WR) return refuse(EINVAL);
    if (cap->max_send_sge > MAX_SGE || cap->max_recv_sge > MAX_SGE || cap->max_inline_data > 1024) return refuse(EINVAL);
    if (!(qp = calloc(1, sizeof *qp))) return refuse(ENOMEM);
    qp->pages = pages_for(ring(cap->max_send_wr) * (64 + 16 * cap->max_send_sge) +
                          ring(cap->max_recv_wr) * 16 * (1 + cap->max_recv_sge));
    if (pin(qp->pages)) {
        free(qp);
        return refuse(ENOMEM);
    }
    qp->context = pd->context;
    qp->qp_context = wanted->qp_context;
    qp->pd = pd;
    qp->send_cq = wanted->send_cq;
    qp->recv_cq = wanted->recv_cq;
    qp->srq = wanted->srq;
    qp->handle = next_handle();
    qp->qp_num = 0x40 + qp->handle;
    qp->qp_type = wanted->qp_type;
    qp->made = *wanted;
    pthread_mutex_init(&qp->mutex, NULL);
    pthread_cond_init(&qp->cond, NULL);
    use(qp, 1);
    return qp;
}

/* What a step to the next state must name, as the InfiniBand specification's table has it; -1 for no such step. */
static int required(int type, int from, int to) {
    if (to == RESET || to == ERR) return STATE;
    if (from == to) return from == INIT || from == RTS ? 0 : -1;
    if (from == RESET && to == INIT) return STATE | PKEY | PORT | (type == UD ? QKEY : ACCESS);
    if (from == INIT && to == RTR)
        return STATE | (type == UD ? 0 : AV | MTU | DEST_QPN | RQ_PSN) | (type == RC ? DEST_RD_ATOMIC | RNR_TIMER : 0);
    if (from == RTR && to == RTS) return STATE | SQ_PSN | (type == RC ? TIMEOUT | RETRY | RNR_RETRY | RD_ATOMIC : 0);
    return -1;
}

static int is_sound(const struct ibv_qp *qp, const struct ibv_qp_attr *attr, int mask) {
    const struct ibv_device *device = qp->context->device;
    if ((mask & PORT) && !has_port(qp->context, attr->port_num)) return 0;
    if ((mask & PKEY) && attr->pkey_index >= table_length(device, 1, "pkeys")) return 0;
    if ((mask & MTU) && (attr->path_mtu < 1 || attr->path_mtu > 5)) return 0;
    if (!(mask & AV)) return 1;
    if (!attr->ah_attr.is_global) return !is_ethernet(qp->context, qp->port);
    return attr->ah_attr.grh.sgid_index < table_length(device, qp->port, "gids");
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask) {
    int to = mask & STATE ? attr->qp_state : qp->state, needed = required(qp->qp_type, qp->state, to);
    if (needed < 0 || (mask & needed) != needed || !is_sound(qp, attr, mask)) return fail(EINVAL);
    if (mask & PORT) qp->port = attr->port_num;
    qp->state = to;
    return 0;
}

int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *made) {
    (void)mask;
    memset(attr, 0, sizeof *attr);
    attr->qp_state = attr->cur_qp_state = qp->state;
    attr->cap = qp->made.cap;
    attr->port_num = (uint8_t)qp->port;
    *made = qp->made;
    return 0;
}

int ibv_destroy_qp(struct ibv_qp *qp) {
    use(qp, -1);
    unpin(qp->pages);
    free(qp);
    return 0;
}

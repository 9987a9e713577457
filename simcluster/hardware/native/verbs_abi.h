/* The parts of infiniband/verbs.h that callers of libibverbs see in memory: names, values and layouts are its own.
 * Fields after the last public one of an object that the library itself makes are the stand-in's. */
#ifndef SIMCLUSTER_VERBS_ABI_H
#define SIMCLUSTER_VERBS_ABI_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

enum { NAME = 64, PATH = 256, TEXT = 128, MAX_DEVICES = 64, OPS = 32 };
enum { OP_POLL_CQ = 11, OP_NOTIFY_CQ = 12, OP_POST_SEND = 25, OP_POST_RECV = 26 };
enum { MAX_QP = 131072, MAX_QP_WR = 32768, MAX_SGE = 30, MAX_CQE = 4194303 };
enum { RESET, INIT, RTR, RTS, SQD, SQE, ERR };
enum { LOCAL_WRITE = 1, REMOTE_WRITE = 2, REMOTE_ATOMIC = 8 };
enum { RC = 2, UC = 3, UD = 4 };
enum {
    STATE = 1 << 0, ACCESS = 1 << 3, PKEY = 1 << 4, PORT = 1 << 5, QKEY = 1 << 6, AV = 1 << 7, MTU = 1 << 8,
    TIMEOUT = 1 << 9, RETRY = 1 << 10, RNR_RETRY = 1 << 11, RQ_PSN = 1 << 12, RD_ATOMIC = 1 << 13, RNR_TIMER = 1 << 15,
    SQ_PSN = 1 << 16, DEST_RD_ATOMIC = 1 << 17, DEST_QPN = 1 << 20
};

struct ibv_device {
    void *unused[2];
    int node_type, transport_type;
    char name[NAME], dev_name[NAME], dev_path[PATH], ibdev_path[PATH];
};

struct ibv_context {
    struct ibv_device *device;
    void *ops[OPS];
    int cmd_fd, async_fd, num_comp_vectors;
    pthread_mutex_t mutex;
    void *abi_compat;
};

struct ibv_device_attr {
    char fw_ver[64];
    uint64_t node_guid, sys_image_guid, max_mr_size, page_size_cap;
    uint32_t vendor_id, vendor_part_id, hw_ver;
    int max_qp, max_qp_wr;
    unsigned int device_cap_flags;
    int max_sge, max_sge_rd, max_cq, max_cqe, max_mr, max_pd, max_qp_rd_atom, max_ee_rd_atom, max_res_rd_atom;
    int max_qp_init_rd_atom, max_ee_init_rd_atom, atomic_cap, max_ee, max_rdd, max_mw, max_raw_ipv6_qp, max_raw_ethy_qp;
    int max_mcast_grp, max_mcast_qp_attach, max_total_mcast_qp_attach, max_ah, max_fmr, max_map_per_fmr;
    int max_srq, max_srq_wr, max_srq_sge;
    uint16_t max_pkeys;
    uint8_t local_ca_ack_delay, phys_port_cnt;
};

/* Up to `flags`: the exported call never writes the fields that newer headers have after it. */
struct ibv_port_attr {
    int state, max_mtu, active_mtu, gid_tbl_len;
    uint32_t port_cap_flags, max_msg_sz, bad_pkey_cntr, qkey_viol_cntr;
    uint16_t pkey_tbl_len, lid, sm_lid;
    uint8_t lmc, max_vl_num, sm_sl, subnet_timeout, init_type_reply, active_width, active_speed, phys_state;
    uint8_t link_layer, flags;
};

struct ibv_pd { struct ibv_context *context; uint32_t handle; int users; };

struct ibv_mr {
    struct ibv_context *context;
    struct ibv_pd *pd;
    void *addr;
    size_t length;
    uint32_t handle, lkey, rkey;
    size_t pages;
};

struct ibv_cq {
    struct ibv_context *context;
    void *channel, *cq_context;
    uint32_t handle;
    int cqe;
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    uint32_t comp_events_completed, async_events_completed;
    size_t pages;
    int users;
};

struct ibv_qp_cap { uint32_t max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_data; };

struct ibv_qp_init_attr {
    void *qp_context;
    struct ibv_cq *send_cq, *recv_cq;
    void *srq;
    struct ibv_qp_cap cap;
    int qp_type, sq_sig_all;
};

struct ibv_ah_attr {
    struct {
        uint64_t dgid[2];
        uint32_t flow_label;
        uint8_t sgid_index, hop_limit, traffic_class;
    } grh;
    uint16_t dlid;
    uint8_t sl, src_path_bits, static_rate, is_global, port_num;
};

struct ibv_qp_attr {
    int qp_state, cur_qp_state, path_mtu, path_mig_state;
    uint32_t qkey, rq_psn, sq_psn, dest_qp_num;
    unsigned int qp_access_flags;
    struct ibv_qp_cap cap;
    struct ibv_ah_attr ah_attr, alt_ah_attr;
    uint16_t pkey_index, alt_pkey_index;
    uint8_t en_sqd_async_notify, sq_draining, max_rd_atomic, max_dest_rd_atomic, min_rnr_timer, port_num, timeout;
    uint8_t retry_cnt, rnr_retry, alt_port_num, alt_timeout;
};

struct ibv_qp {
    struct ibv_context *context;
    void *qp_context;
    struct ibv_pd *pd;
    struct ibv_cq *send_cq, *recv_cq;
    void *srq;
    uint32_t handle, qp_num;
    int state, qp_type;
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    uint32_t events_completed;
    struct ibv_qp_init_attr made;
    size_t pages;
    int port;
};

/* What callers count on: sizes and places of a 64-bit verbs.h. */
_Static_assert(sizeof(struct ibv_device_attr) == 232 && sizeof(struct ibv_port_attr) == 48, "layout");
_Static_assert(sizeof(struct ibv_ah_attr) == 32 && offsetof(struct ibv_qp_attr, port_num) == 129, "layout");
_Static_assert(offsetof(struct ibv_qp, qp_num) == 52 && offsetof(struct ibv_mr, lkey) == 36, "layout");

#endif

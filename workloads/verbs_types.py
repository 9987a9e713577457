"""The parts of libibverbs' interface that workloads use: layouts and constants of infiniband/verbs.h (rdma-core)."""

from __future__ import annotations

import ctypes

LIBRARY = "libibverbs.so.1"
LOCAL_WRITE, REMOTE_WRITE, REMOTE_READ = 1, 2, 4
RELIABLE, DATAGRAM = 2, 4
"""IBV_QPT_RC and IBV_QPT_UD; EFA has no reliable connections."""

MTU_BYTES = {1: 256, 2: 512, 3: 1024, 4: 2048, 5: 4096}


class PortAttr(ctypes.Structure):
    """struct ibv_port_attr, up to `flags`: what the exported ibv_query_port fills in."""

    _fields_ = [
        ("state", ctypes.c_int),
        ("max_mtu", ctypes.c_int),
        ("active_mtu", ctypes.c_int),
        ("gid_tbl_len", ctypes.c_int),
        ("port_cap_flags", ctypes.c_uint32),
        ("max_msg_sz", ctypes.c_uint32),
        ("bad_pkey_cntr", ctypes.c_uint32),
        ("qkey_viol_cntr", ctypes.c_uint32),
        ("pkey_tbl_len", ctypes.c_uint16),
        ("lid", ctypes.c_uint16),
        ("sm_lid", ctypes.c_uint16),
        ("lmc", ctypes.c_uint8),
        ("max_vl_num", ctypes.c_uint8),
        ("sm_sl", ctypes.c_uint8),
        ("subnet_timeout", ctypes.c_uint8),
        ("init_type_reply", ctypes.c_uint8),
        ("active_width", ctypes.c_uint8),
        ("active_speed", ctypes.c_uint8),
        ("phys_state", ctypes.c_uint8),
        ("link_layer", ctypes.c_uint8),
        ("flags", ctypes.c_uint8),
        # Newer libraries may write beyond; nobody reads it.
        ("spare", ctypes.c_uint8 * 64),
    ]


class QpInitAttr(ctypes.Structure):
    """struct ibv_qp_init_attr."""

    _fields_ = [
        ("qp_context", ctypes.c_void_p),
        ("send_cq", ctypes.c_void_p),
        ("recv_cq", ctypes.c_void_p),
        ("srq", ctypes.c_void_p),
        ("max_send_wr", ctypes.c_uint32),
        ("max_recv_wr", ctypes.c_uint32),
        ("max_send_sge", ctypes.c_uint32),
        ("max_recv_sge", ctypes.c_uint32),
        ("max_inline_data", ctypes.c_uint32),
        ("qp_type", ctypes.c_int),
        ("sq_sig_all", ctypes.c_int),
    ]


POINTER_CALLS = {
    "ibv_get_device_list": [ctypes.POINTER(ctypes.c_int)],
    "ibv_open_device": [ctypes.c_void_p],
    "ibv_alloc_pd": [ctypes.c_void_p],
    "ibv_reg_mr": [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int],
    "ibv_create_cq": [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int],
    "ibv_create_qp": [ctypes.c_void_p, ctypes.POINTER(QpInitAttr)],
}
NUMBER_CALLS = {
    "ibv_query_port": [ctypes.c_void_p, ctypes.c_uint8, ctypes.POINTER(PortAttr)],
    "ibv_destroy_qp": [ctypes.c_void_p],
    "ibv_destroy_cq": [ctypes.c_void_p],
    "ibv_dereg_mr": [ctypes.c_void_p],
    "ibv_dealloc_pd": [ctypes.c_void_p],
    "ibv_close_device": [ctypes.c_void_p],
}

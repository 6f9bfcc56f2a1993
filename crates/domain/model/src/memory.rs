//! Socket memory (`SK_MEMINFO`), from diag messages, BPF walks or `/proc/net`.
//! The columns of `sockets`, filters, `check` and the `ss` drop-in use it.

use sockeye_wire::inet_diag::{MemoryInfo, SkMemInfo};

/// Memory use and limits of a socket, and its drops (`ss -m`).
///
/// Source: `sock_diag_put_meminfo()`, `SK_MEMINFO_*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Memory {
    /// Allocated for received data (`sk_rmem_alloc`)
    pub rmem_alloc_bytes: Option<u32>,
    /// Limit of received data (`sk_rcvbuf`)
    pub rcvbuf_bytes: Option<u32>,
    /// Passed to the lower layers (`sk_wmem_alloc`)
    pub wmem_alloc_bytes: Option<u32>,
    /// Limit of data to send (`sk_sndbuf`)
    pub sndbuf_bytes: Option<u32>,
    /// Reserved ahead (`sk_forward_alloc`)
    pub fwd_alloc_bytes: Option<u32>,
    /// Queued to be sent or acknowledged (`sk_wmem_queued`)
    pub wmem_queued_bytes: Option<u32>,
    /// Options, filters and the like (`sk_omem_alloc`)
    pub optmem_bytes: Option<u32>,
    /// Queued while the socket was locked (`sk_backlog.len`)
    pub backlog_bytes: Option<u32>,
    /// Packets dropped because a buffer was full (`sk_drops`)
    pub drops: Option<u32>,
}

impl From<SkMemInfo<'_>> for Memory {
    fn from(info: SkMemInfo<'_>) -> Self {
        Self {
            rmem_alloc_bytes: info.value(0),
            rcvbuf_bytes: info.value(1),
            wmem_alloc_bytes: info.value(2),
            sndbuf_bytes: info.value(3),
            fwd_alloc_bytes: info.value(4),
            wmem_queued_bytes: info.value(5),
            optmem_bytes: info.value(6),
            backlog_bytes: info.value(7),
            drops: info.value(8),
        }
    }
}

impl From<MemoryInfo> for Memory {
    /// Converts the older four numbers of kernels before 3.6.
    fn from(info: MemoryInfo) -> Self {
        Self {
            rmem_alloc_bytes: Some(info.rmem),
            wmem_alloc_bytes: Some(info.tmem),
            fwd_alloc_bytes: Some(info.fmem),
            wmem_queued_bytes: Some(info.wmem),
            ..Self::default()
        }
    }
}

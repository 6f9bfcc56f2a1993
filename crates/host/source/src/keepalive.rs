//! The sysctls that apply to sockets without settings of their own. The `keepalive` command reads them in the
//! network namespace of each target.

use std::fs::read_to_string;

/// The keepalive defaults of a network namespace: `net.ipv4.tcp_keepalive_*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeepaliveSettings {
    /// `tcp_keepalive_time`, in seconds
    pub time_s: u32,
    /// `tcp_keepalive_intvl`, in seconds
    pub interval_s: u32,
    /// `tcp_keepalive_probes`
    pub probes: u32,
}

impl KeepaliveSettings {
    /// Reads the settings of the calling thread's network namespace; `None` if they cannot be read.
    #[must_use]
    pub fn read() -> Option<Self> {
        let read = |name| {
            let text = read_to_string(format!("/proc/sys/net/ipv4/tcp_keepalive_{name}")).ok()?;
            text.trim().parse().ok()
        };
        Some(Self {
            time_s: read("time")?,
            interval_s: read("intvl")?,
            probes: read("probes")?,
        })
    }
}

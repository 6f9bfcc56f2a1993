//! Reads sysctls of a namespace (`somaxconn`, `tcp_rmem`, `ip_local_port_range`, keepalive ...) into
//! `Settings`, for `reader.rs`, in groups: the caller chooses which matter. It changes none.

use crate::proc_folder::{open_folder, read_setting};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use sockeye_model::Settings;
use sockeye_wire::proc_sys::{count_listed, numbers};
use std::ffi::CStr;

/// Groups of settings to read, by what they are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Groups {
    /// TCP sockets that listen
    pub(super) listeners: bool,
    /// TCP connections
    pub(super) connections: bool,
    /// TIME_WAIT sockets
    pub(super) time_wait: bool,
    /// Sockets with an ephemeral port
    pub(super) ports: bool,
}

impl Groups {
    pub(super) const ALL: Self = Self {
        listeners: true,
        connections: true,
        time_wait: true,
        ports: true,
    };
}

/// Reads the settings of the calling thread's network namespace, below `/proc/sys/net`.
pub(super) fn read(net: BorrowedFd<'_>, groups: Groups, buffer: &mut Vec<u8>) -> Settings {
    let mut settings = Settings::default();
    // Each namespace has its own folders, but all have the same name: the kernel searches them linearly, so each folder is
    // opened only once.
    if groups.listeners
        && let Ok(core) = open_folder(net, c"core")
    {
        settings.somaxconn = number(&core, c"somaxconn", buffer);
    }
    let Ok(ipv4) = open_folder(net, c"ipv4") else {
        return settings;
    };
    if groups.listeners {
        settings.syn_backlog_max = number(&ipv4, c"tcp_max_syn_backlog", buffer);
        settings.syncookies = number(&ipv4, c"tcp_syncookies", buffer);
    }
    if groups.connections {
        settings.tcp_rmem_bytes = several(&ipv4, c"tcp_rmem", buffer);
        settings.tcp_wmem_bytes = several(&ipv4, c"tcp_wmem", buffer);
        settings.window_scaling = number(&ipv4, c"tcp_window_scaling", buffer);
        settings.fin_timeout_s = number(&ipv4, c"tcp_fin_timeout", buffer);
        settings.keepalive_time_s = number(&ipv4, c"tcp_keepalive_time", buffer);
        settings.keepalive_interval_s = number(&ipv4, c"tcp_keepalive_intvl", buffer);
        settings.keepalive_probes = number(&ipv4, c"tcp_keepalive_probes", buffer);
        settings.mtu_probing = number(&ipv4, c"tcp_mtu_probing", buffer);
    }
    if groups.time_wait {
        settings.time_wait_max = number(&ipv4, c"tcp_max_tw_buckets", buffer);
    }
    if groups.ports {
        ports(&ipv4, &mut settings, buffer);
    }
    settings
}

fn ports(ipv4: &OwnedFd, settings: &mut Settings, buffer: &mut Vec<u8>) {
    let Some([first, last]) = several(ipv4, c"ip_local_port_range", buffer) else {
        return;
    };
    let (Ok(first), Ok(last)) = (first.try_into(), last.try_into()) else {
        return;
    };
    settings.ephemeral_ports = Some((first, last));
    let listed = read_setting(ipv4.as_fd(), c"ip_local_reserved_ports", buffer);
    settings.reserved_ports = listed.ok().and_then(|list| count_listed(list, first, last));
}

fn number<T: TryFrom<u64>>(folder: &OwnedFd, name: &CStr, buffer: &mut Vec<u8>) -> Option<T> {
    let [number] = several(folder, name, buffer)?;
    number.try_into().ok()
}

fn several<const N: usize>(folder: &OwnedFd, name: &CStr, buffer: &mut Vec<u8>) -> Option<[u64; N]> {
    numbers(read_setting(folder.as_fd(), name, buffer).ok()?)
}

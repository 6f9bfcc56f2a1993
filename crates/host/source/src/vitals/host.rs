//! Vitals of the whole host: softnet counters of each processor, memory and orphans of TCP, memory of UDP,
//! socket buffer limits, neighbour tables, uptime. `check` and the stream benchmark in `load` read them.

use super::folder::Folder;
use crate::proc_folder::{open_folder, read, read_setting};
use rustix::fd::AsFd;
use rustix::fs::{AtFlags, CWD, statat};
use rustix::io::Errno;
use sockeye_model::{Fill, HostVitals, MemoryUse, Softnet};
use sockeye_wire::proc_net::{SockstatLine, SoftnetLine};
use sockeye_wire::proc_sys::numbers;
use std::ffi::CStr;

/// Reads the vitals that all namespaces share. The limits of memory and orphans exist only in the initial network
/// namespace. Open files are read by [`open_files`](super::open_files).
#[must_use]
pub fn host() -> HostVitals {
    let mut host = HostVitals::default();
    let mut buffer = Vec::new();
    let (mut tcp_pages, mut udp_pages, mut orphans) = (None, None, None);
    if let Ok(task) = open_folder(CWD, c"/proc/thread-self") {
        if let Ok(text) = read(task.as_fd(), c"net/softnet_stat", &mut buffer) {
            let lines = text.split(|&byte| byte == b'\n').filter_map(SoftnetLine::parse);
            host.processors = lines
                .zip(0..)
                .map(|(line, place)| Softnet::from_wire(&line, place))
                .collect();
        }
        if let Ok(text) = read(task.as_fd(), c"net/sockstat", &mut buffer) {
            for line in SockstatLine::all(text) {
                match line.title {
                    b"TCP" => (tcp_pages, orphans) = (line.value(b"mem"), line.value(b"orphan")),
                    b"UDP" => udp_pages = line.value(b"mem"),
                    _ => {}
                }
            }
        }
    }
    let mut setting = Settings {
        folder: Folder::open(),
        buffer: Vec::new(),
    };
    host.tcp_memory = memory(tcp_pages, setting.several(c"ipv4/tcp_mem"));
    host.udp_memory = memory(udp_pages, setting.several(c"ipv4/udp_mem"));
    host.orphans = fill(orphans, setting.one(c"ipv4/tcp_max_orphans"));
    host.rmem_max_bytes = setting.one(c"core/rmem_max");
    host.wmem_max_bytes = setting.one(c"core/wmem_max");
    host.neighbours = super::neighbours::tables(&mut buffer);
    let uptime = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    host.uptime_s = u64::try_from(uptime.tv_sec).ok();
    host
}

/// Returns whether this is another network namespace than the initial one: settings of TCP exist here, but not those of
/// the host's memory (`net/ipv4/sysctl_net_ipv4.c`, `ipv4_table`).
#[must_use]
pub fn lacks_host_settings() -> bool {
    let Ok(sysctls) = open_folder(CWD, c"/proc/sys/net/ipv4") else {
        return false;
    };
    let exists = |name: &CStr| statat(&sysctls, name, AtFlags::empty()).map(|_| ());
    exists(c"tcp_syncookies").is_ok() && exists(c"tcp_mem") == Err(Errno::NOENT)
}

struct Settings {
    folder: Folder,
    buffer: Vec<u8>,
}

impl Settings {
    fn several<const N: usize>(&mut self, path: &CStr) -> Option<[u64; N]> {
        let net = self.folder.visit()?;
        numbers(read_setting(net, path, &mut self.buffer).ok()?)
    }

    fn one(&mut self, path: &CStr) -> Option<u64> {
        self.several(path).map(|[number]| number)
    }
}

fn fill(used: Option<u64>, max: Option<u64>) -> Option<Fill> {
    Some(Fill {
        used: used?,
        max: max?,
    })
}

/// Converts a memory use and its limits from pages, the unit of the kernel.
fn memory(used: Option<u64>, limits: Option<[u64; 3]>) -> Option<MemoryUse> {
    let page = u64::try_from(sockeye_sys::page_bytes()).ok()?;
    Some(MemoryUse {
        used_bytes: used?.saturating_mul(page),
        limits_bytes: limits?.map(|limit| limit.saturating_mul(page)),
    })
}

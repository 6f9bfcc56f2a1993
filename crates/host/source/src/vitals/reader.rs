//! Reads the vitals of one namespace after the other, for `vitals::namespace` and `vitals::namespaces`. It
//! must stay on the thread that opened it, and skips settings that cannot matter, because each file read
//! costs time.

use super::counters::Names;
use super::folder::Folder;
use super::{counters, devices, neighbours, settings};
use crate::proc_folder::{open_folder, read, read_setting};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::CWD;
use rustix::io::Errno;
use sockeye_model::{Counter, Counters, Device, Fill, Neighbours, Settings, Usage, Vitals};
use sockeye_wire::proc_net::SockstatLine;
use sockeye_wire::proc_sys::numbers;

/// Reads the vitals of the namespaces that its thread enters, one after the other. It must stay on that thread.
#[derive(Debug)]
pub(super) struct Reader {
    /// `/proc/thread-self/net`, which follows the namespace of the thread.
    net: OwnedFd,
    settings: Folder,
    buffer: Vec<u8>,
    names: Names,
    ethtool: devices::Ethtool,
    /// Whether to count neighbours.
    neighbours: bool,
}

impl Reader {
    pub(super) fn open() -> Result<Self, Errno> {
        let mut buffer = Vec::new();
        Ok(Self {
            neighbours: neighbours::are_crowded(&mut buffer),
            net: open_folder(CWD, c"/proc/thread-self/net")?,
            settings: Folder::open(),
            buffer,
            names: Names::new(),
            ethtool: devices::Ethtool::default(),
        })
    }

    /// Reads all vitals of the namespace that the thread is in.
    pub(super) fn read(&mut self) -> Vitals {
        let mut vitals = Vitals {
            // First, since our own sockets would be counted.
            usage: self.usage(),
            ..Vitals::default()
        };
        vitals.counters = self.counters();
        // With thousands of namespaces each file that is read matters.
        let plan = ReadPlan::of(&vitals);
        if plan != ReadPlan::default()
            && let Some(folder) = self.settings.visit()
        {
            if plan.settings != settings::Groups::default() {
                vitals.settings = settings::read(folder, plan.settings, &mut self.buffer);
            }
            if plan.conntrack {
                vitals.conntrack = conntrack(folder, &mut self.buffer);
            }
        }
        vitals.devices = devices::read(&mut self.ethtool, &mut self.buffer);
        if self.neighbours {
            vitals.neighbours = self.count_neighbours(&vitals.devices);
        }
        vitals
    }

    /// Reads the counters alone.
    pub(super) fn counters(&mut self) -> Counters {
        read_counters(self.net.as_fd(), &self.names, &mut self.buffer)
    }

    /// Reads all settings, whether or not they matter for the sockets there.
    pub(super) fn settings(&mut self) -> Settings {
        let folder = self.settings.visit();
        folder.map_or_else(Settings::default, |folder| {
            settings::read(folder, settings::Groups::ALL, &mut self.buffer)
        })
    }

    fn count_neighbours(&mut self, devices: &[Device]) -> Option<Neighbours> {
        let loopback = devices.iter().find(|device| device.is_loopback)?;
        neighbours::count(loopback.index, &mut self.buffer)
    }

    fn usage(&mut self) -> Usage {
        let mut usage = Usage::default();
        let add = |sum: &mut Option<u64>, more: Option<u64>| {
            if let Some(more) = more {
                *sum = Some(sum.unwrap_or_default() + more);
            }
        };
        // Without IPv6 there is no second file.
        for file in [c"sockstat", c"sockstat6"] {
            let Ok(text) = read(self.net.as_fd(), file, &mut self.buffer) else {
                continue;
            };
            for line in SockstatLine::all(text) {
                match line.title {
                    b"TCP" => {
                        add(&mut usage.tcp, line.value(b"inuse"));
                        usage.time_wait = line.value(b"tw");
                    }
                    b"TCP6" => add(&mut usage.tcp, line.value(b"inuse")),
                    b"UDP" | b"UDP6" => add(&mut usage.udp, line.value(b"inuse")),
                    _ => {}
                }
            }
        }
        usage
    }
}

/// Reads the counters in a folder `net`.
pub(super) fn read_counters(net: BorrowedFd<'_>, names: &Names, buffer: &mut Vec<u8>) -> Counters {
    let mut values = Counters::default();
    for (file, take) in counters::FILES {
        if let Ok(text) = read(net, file, buffer) {
            take(names, text, &mut values);
        }
    }
    values
}

/// What is worth reading in a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct ReadPlan {
    settings: settings::Groups,
    conntrack: bool,
}

impl ReadPlan {
    /// Decides by the counters. An unknown counter is a reason to read, too.
    fn of(vitals: &Vitals) -> Self {
        let counted = |all: &[Counter]| {
            let mut values = all.iter().map(|&counter| vitals.counters.value(counter));
            values.any(|value| value != Some(0))
        };
        let Usage { tcp, time_wait, udp } = vitals.usage;
        let has_tcp = tcp != Some(0) || time_wait != Some(0);
        // Without any open all sockets listen.
        let has_connections = has_tcp && counted(&[Counter::TcpActiveOpens, Counter::TcpPassiveOpens]);
        Self {
            settings: settings::Groups {
                listeners: has_tcp,
                connections: has_connections,
                time_wait: time_wait != Some(0),
                ports: has_connections || udp != Some(0),
            },
            conntrack: counted(&[Counter::IpInReceives, Counter::IpOutRequests])
                || vitals
                    .counters
                    .value(Counter::Ip6InReceives)
                    .is_some_and(|count| count != 0),
        }
    }
}

/// Reads the use of the connection tracking table; `None` if the kernel tracks no connection of this namespace.
fn conntrack(settings: BorrowedFd<'_>, buffer: &mut Vec<u8>) -> Option<Fill> {
    let folder = open_folder(settings, c"netfilter").ok()?;
    let [used] = numbers(read_setting(folder.as_fd(), c"nf_conntrack_count", buffer).ok()?)?;
    if used == 0 {
        return None;
    }
    let [max] = numbers(read_setting(folder.as_fd(), c"nf_conntrack_max", buffer).ok()?)?;
    Some(Fill { used, max })
}

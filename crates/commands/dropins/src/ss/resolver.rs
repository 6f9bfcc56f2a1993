//! Names for numbers, and numbers for names, as `ss` resolves them.

use super::options::SsOptions;
use crate::output::{SsLevel, SsNames};
use sockeye_console::notes;
use sockeye_filter::Resolve;
use sockeye_model::iproute2::NETLINK_PROTOCOLS;
use sockeye_model::{CgroupId, Comm, InterfaceIndex, Names, NetnsInode, Port, Protocol, Uid};
use sockeye_source::ephemeral_ports;
use sockeye_source::names::{Interfaces, NameKinds, SystemNames, resolve};
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

/// Resolves names. Each kind is read at its first use, in the network namespace of the thread that uses it.
#[derive(Debug)]
pub(super) struct Resolver {
    names: SystemNames,
    /// Whether ports have names: without `-n`.
    services: bool,
    /// Whether ports are looked up for any protocol: ss does so if neither TCP, UDP nor RAW is selected.
    any_transport: bool,
    ephemeral: OnceCell<RangeInclusive<u16>>,
    interfaces: OnceCell<Interfaces>,
    netlink: OnceCell<BTreeMap<u8, String>>,
    level: SsLevel,
    process_names: std::cell::RefCell<BTreeMap<u32, Option<Comm>>>,
}

impl Resolver {
    pub(super) fn new(options: &SsOptions) -> Self {
        use super::tables::Table::{Raw, Tcp, Udp};
        let kinds = NameKinds {
            services: !options.numeric,
            hosts: options.resolve,
            cgroups: true,
            ..NameKinds::NONE
        };
        Self {
            names: SystemNames::new(kinds),
            services: !options.numeric,
            any_transport: !options.selection.has_any(&[Tcp, Udp, Raw]),
            ephemeral: OnceCell::new(),
            interfaces: OnceCell::new(),
            netlink: OnceCell::new(),
            level: options.level,
            process_names: std::cell::RefCell::default(),
        }
    }

    /// Resolves the names of these hosts, and notes those that did not arrive in time.
    pub(super) fn resolve_hosts(&self, ips: impl IntoIterator<Item = IpAddr>) {
        self.names
            .prefetch_hosts(ips.into_iter().map(|ip| ip.to_canonical()));
        let counts = self.names.wait_for_hosts(Instant::now() + LOOKUP_TIMEOUT);
        let late = counts.pending + counts.skipped;
        if late > 0 {
            notes::say(&format!(
                "sockeye ss: {late} host names did not come in {LOOKUP_TIMEOUT:?} and stay numbers; without -r none is asked for\n"
            ));
        }
    }

    fn interfaces(&self) -> &Interfaces {
        self.interfaces.get_or_init(Interfaces::snapshot)
    }

    /// Ports that the kernel chooses. They get no names: entries of /etc/services in this range are accidental.
    fn ephemeral(&self) -> &RangeInclusive<u16> {
        self.ephemeral
            .get_or_init(|| ephemeral_ports().unwrap_or(1024..=4999))
    }
}

impl Names for Resolver {
    fn interface(&self, index: InterfaceIndex, _: Option<NetnsInode>) -> Option<&str> {
        self.interfaces().name(index)
    }

    fn service(&self, protocol: Protocol, port: Port) -> Option<&str> {
        if !self.services {
            return None;
        }
        let services = self.names.services();
        match protocol {
            Protocol::Raw => services.name(protocol, port),
            _ if self.ephemeral().contains(&port.0) => None,
            Protocol::Mptcp if self.any_transport => {
                let of_tcp = services.name(Protocol::Tcp, port);
                of_tcp.or_else(|| services.name(Protocol::Udp, port))
            }
            _ => services.name(protocol, port),
        }
    }

    fn host(&self, ip: IpAddr) -> Option<&str> {
        self.names.host(ip.to_canonical())
    }

    fn cgroup(&self, id: CgroupId) -> Option<&str> {
        self.names.cgroup(id)
    }
}

impl SsNames for Resolver {
    fn netlink_protocol(&self, protocol: u8) -> Option<&str> {
        let known = self.netlink.get_or_init(|| netlink_protocols(self.level));
        known.get(&protocol).map(String::as_str)
    }

    fn process(&self, pid: u32) -> Option<Comm> {
        let mut names = self.process_names.borrow_mut();
        *names.entry(pid).or_insert_with(|| {
            let comm = fs::read(format!("/proc/{pid}/comm")).ok()?;
            Some(Comm::new(comm.strip_suffix(b"\n").unwrap_or(&comm)))
        })
    }
}

impl Resolve for Resolver {
    fn service(&self, name: &str) -> Option<u16> {
        self.names.services().port(name, None).map(|port| port.0)
    }

    fn service_of(&self, protocol: Protocol, name: &str) -> Option<u16> {
        self.names
            .services()
            .port(name, Some(protocol))
            .map(|port| port.0)
    }

    fn host(&self, name: &str) -> Vec<IpAddr> {
        resolve(name, Instant::now() + LOOKUP_TIMEOUT).unwrap_or_default()
    }

    fn interface(&self, name: &str) -> Option<InterfaceIndex> {
        self.interfaces().index(name)
    }

    /// Looks up the path as it is; if it does not exist, below the cgroup mount.
    fn cgroup(&self, path: &str) -> Option<CgroupId> {
        let Ok(folder) = fs::metadata(path) else {
            return self.names.cgroups().id(path);
        };
        let is_cgroup = rustix::fs::statfs(path).is_ok_and(|found| found.f_type == CGROUP2_SUPER_MAGIC);
        // No socket belongs to a path that is not a cgroup.
        Some(CgroupId(if is_cgroup { folder.ino() } else { u64::MAX }))
    }

    fn user(&self, name: &str) -> Option<Uid> {
        self.names.users().uid(name)
    }

    fn netns(&self, _: &str) -> Vec<NetnsInode> {
        Vec::new() // ss's filters cannot select namespaces
    }

    fn ephemeral_ports(&self) -> RangeInclusive<u16> {
        self.ephemeral().clone()
    }
}

/// Returns iproute2's names of netlink protocols, with additions and changes of its file.
fn netlink_protocols(level: SsLevel) -> BTreeMap<u8, String> {
    let mut known: BTreeMap<u8, String> = BTreeMap::new();
    for (number, name) in NETLINK_PROTOCOLS {
        known.entry(*number).or_insert_with(|| (*name).to_owned());
    }
    let file = match fs::read_to_string(NL_PROTOS) {
        Err(error) if error.kind() == ErrorKind::NotFound && level >= SsLevel::V6_15 => {
            fs::read_to_string(NL_PROTOS_DEFAULT)
        }
        read => read,
    };
    for line in file.unwrap_or_default().lines() {
        let mut words = line.split_ascii_whitespace();
        let number = words.next().and_then(|word| match word.strip_prefix("0x") {
            Some(digits) => u8::from_str_radix(digits, 16).ok(),
            None => word.parse().ok(),
        });
        if let (Some(number), Some(name)) = (number, words.next()) {
            known.insert(number, name.to_owned());
        }
    }
    known
}

const CGROUP2_SUPER_MAGIC: rustix::fs::FsWord = 0x6367_7270;
const NL_PROTOS: &str = "/etc/iproute2/nl_protos";
/// Where it is since 6.6, unless the administrator has one.
const NL_PROTOS_DEFAULT: &str = "/usr/share/iproute2/nl_protos";
/// How long to wait for the names of hosts.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(10);

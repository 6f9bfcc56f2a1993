//! Names, in both directions: for what is printed, and for what was typed in a filter.

use crate::args::Common;
use crate::places::{Namespace, NetnsAccess, Places};
use sockeye_console::notes::say;
use sockeye_console::usage::Usage;
use sockeye_filter::Resolve;
use sockeye_model::{CgroupId, InterfaceIndex, Losses, Names, NetnsInode, Port, Protocol, Uid};
use sockeye_source::names::{Interfaces, NameKinds, ResolveError, SystemNames, own_namespace, resolve};
use sockeye_source::{BpfEngine, Choice, ephemeral_ports, within};
use std::cell::Cell;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::{Duration, Instant};

/// The places that are looked into, and the names that things have there.
#[derive(Debug)]
pub struct Lookup {
    /// The namespaces to look into.
    pub places: Places,
    /// What was lost while the places were sought.
    pub found_losses: Losses,
    /// The BPF engine.
    pub engine: BpfEngine,
    /// Source that the user chose.
    pub choice: Choice,
    names: SystemNames,
    patience: Duration,
}

impl Lookup {
    /// Finds the places. With `-n`, services and users stay numbers; hosts have names if `hosts`.
    /// Interfaces, cgroups and namespaces always do: their numbers say little, and their names are read only
    /// when one turns up. With `wants_netns` sockets say where they are also where it is but one place.
    pub fn new(common: &Common, hosts: bool, wants_netns: bool) -> anyhow::Result<Self> {
        let mut found_losses = Losses::default();
        // Whoever asks for namespaces needs sockets that say where they are, also here.
        let own = wants_netns.then_some("/proc/self/ns/net");
        let wanted = NameKinds {
            services: !common.numeric,
            users: !common.numeric,
            hosts,
            ..NameKinds::ALL
        };
        let names = SystemNames::new(wanted);
        let engine = engine(&common.btf)?;
        let choice = Choice::from(common.source);
        let by_bpf = matches!(choice, Choice::Auto | Choice::Bpf).then_some(&engine);
        let places = Places::find(common.netns.as_deref().or(own), &names, by_bpf, &mut found_losses)?;
        Ok(Self {
            engine,
            choice,
            places,
            found_losses,
            names,
            patience: common.names_timeout,
        })
    }

    /// The meaning of names in a filter for sockets of this place.
    pub const fn inside<'a>(&'a self, netns: Option<&'a Namespace>) -> Inside<'a> {
        Inside {
            lookup: self,
            netns,
            looked_around: Cell::new(false),
        }
    }

    /// Looks for the names of these hosts, for no longer than the user has patience, and says how many
    /// did not come in time.
    pub fn hosts(&self, ips: impl IntoIterator<Item = IpAddr>) {
        self.names.prefetch_hosts(ips);
        let counts = self.names.wait_for_hosts(Instant::now() + self.patience);
        let late = counts.pending + counts.skipped;
        if late > 0 {
            let all = counts.named + counts.nameless + counts.failed + late;
            say(&format!(
                "sockeye: {late} of {all} host names did not come in {:?}; -n asks for none, --names-timeout waits longer\n",
                self.patience
            ));
        }
    }

    /// How a command gets into a network namespace; `None`: nobody knows.
    pub fn access_to(&self, netns: NetnsInode) -> Option<NetnsAccess> {
        if own_namespace() == Some(netns) {
            return Some(NetnsAccess::Here);
        }
        let named = self.names.namespaces().name(netns);
        named
            .map(|name| NetnsAccess::Named(name.to_owned()))
            .or_else(|| self.names.first_processes().of(netns).map(NetnsAccess::Process))
    }

    /// Learns the interfaces of another place when the first of them is to be named.
    fn learn_interfaces(&self, netns: NetnsInode) {
        if let Some(namespace) = self.places.with_inode(netns) {
            // Without the right to enter they stay numbers.
            let interfaces = self
                .run_in(namespace, Interfaces::snapshot)
                .unwrap_or_else(|| Interfaces::from_pairs([]));
            self.names.add_interfaces(netns, interfaces);
        }
    }

    /// Runs `act` in one of the places; `None` if that cannot be entered.
    pub fn run_in<T: Send>(&self, namespace: &Namespace, act: impl FnOnce() -> T + Send) -> Option<T> {
        self.places
            .open(namespace, |place| within(place, act).ok())
            .ok()?
    }
}

/// An engine that reads the kernel's types from this file. What programs read in the kernel is decided by that file: one
/// that is not the kernel's own must not be chosen by whoever merely may run us with our capabilities.
pub fn engine(btf: &Path) -> anyhow::Result<BpfEngine> {
    if btf != Path::new(BpfEngine::TYPES) && !rustix::process::geteuid().is_root() {
        let text = "sockeye: --btf: only root may name another file than the kernel's own\n";
        return Err(Usage(text.to_owned()).into());
    }
    Ok(BpfEngine::with_types(btf.to_owned()))
}

impl Names for Lookup {
    fn interface(&self, index: InterfaceIndex, netns: Option<NetnsInode>) -> Option<&str> {
        if let Some(netns) = netns
            && !self.names.knows_interfaces_of(netns)
        {
            self.learn_interfaces(netns);
        }
        self.names.interface(index, netns)
    }

    fn service(&self, protocol: Protocol, port: Port) -> Option<&str> {
        self.names.service(protocol, port)
    }

    fn host(&self, ip: IpAddr) -> Option<&str> {
        self.names.host(ip)
    }

    fn user(&self, uid: Uid) -> Option<&str> {
        self.names.user(uid)
    }

    fn cgroup(&self, id: CgroupId) -> Option<&str> {
        self.names.cgroup(id)
    }

    fn netns(&self, inode: NetnsInode) -> Option<&str> {
        self.names.netns(inode)
    }
}

/// What names in a filter mean in one place.
#[derive(Debug)]
pub struct Inside<'a> {
    lookup: &'a Lookup,
    netns: Option<&'a Namespace>,
    looked_around: Cell<bool>,
}

impl Inside<'_> {
    /// Whether something was asked that is one thing here and another elsewhere.
    pub const fn looked_around(&self) -> bool {
        self.looked_around.get()
    }

    fn run<T: Send>(&self, act: impl FnOnce() -> T + Send) -> Option<T> {
        self.looked_around.set(true);
        match self.netns {
            None => Some(act()),
            Some(namespace) => self.lookup.run_in(namespace, act),
        }
    }
}

impl Resolve for Inside<'_> {
    fn service(&self, name: &str) -> Option<u16> {
        self.lookup.names.services().port(name, None).map(|port| port.0)
    }

    fn host(&self, name: &str) -> Vec<IpAddr> {
        // Whoever typed a name wants it looked up, however long it takes, within reason.
        resolve(name, Instant::now() + Duration::from_secs(5)).unwrap_or_else(|error| {
            if matches!(error, ResolveError::TimedOut) {
                say(&format!("sockeye: the resolver does not answer for {name:?}\n"));
            }
            Vec::new()
        })
    }

    fn interface(&self, name: &str) -> Option<InterfaceIndex> {
        self.looked_around.set(true);
        match self.netns {
            None => self.lookup.names.interfaces().index(name),
            Some(_) => self.run(Interfaces::snapshot)?.index(name),
        }
    }

    fn cgroup(&self, path: &str) -> Option<CgroupId> {
        self.lookup.names.cgroups().id(path)
    }

    fn user(&self, name: &str) -> Option<Uid> {
        self.lookup.names.users().uid(name)
    }

    fn netns(&self, name: &str) -> Vec<NetnsInode> {
        self.lookup.names.netns_matching(name).to_vec()
    }

    fn ephemeral_ports(&self) -> RangeInclusive<u16> {
        // What cannot be read is the kernel's own default.
        self.run(ephemeral_ports).flatten().unwrap_or(32768..=60999)
    }
}

//! The context of a query: namespaces, sources, and names for output and filters.

use crate::args::ListingArgs;
use crate::namespaces::{Namespace, NetnsAccess, NetnsSelection};
use crate::past::{Past, namespaces_named};
use anyhow::Context as _;
use sockeye_console::notes::say;
use sockeye_console::usage::UsageError;
use sockeye_filter::Resolve;
use sockeye_model::{
    CgroupId, InterfaceIndex, Losses, Names, NetnsInode, Pid, Port, Protocol, Uid, WorkloadId, WorkloadKind,
};
use sockeye_output::listing::find_column;
use sockeye_output::socket::Sockets;
use sockeye_source::names::{Interfaces, NameKinds, ResolveError, SystemNames, resolve};
use sockeye_source::own_namespace;
use sockeye_source::{BpfEngine, Choice, ephemeral_ports, within};
use sockeye_sys::proc_mount;
use std::cell::Cell;
use std::collections::HashMap;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Selected namespaces, the sources that read them, and names.
#[derive(Debug)]
pub struct QueryContext {
    /// The namespaces to list.
    pub namespaces: NetnsSelection,
    /// What was lost in the search for namespaces.
    pub discovery_losses: Losses,
    /// The BPF engine.
    pub engine: Arc<BpfEngine>,
    /// Source that the user chose.
    pub choice: Choice,
    /// Whether the listing has a column with a name; for the hint if a filter has it as a word.
    pub is_column: fn(&str) -> bool,
    /// The recorded moment that is listed; `None`: now.
    pub(crate) past: Option<Past>,
    /// What `--netns` names in recorded moments.
    pub(crate) netns_of_past: Option<String>,
    /// Why there is no such namespace now.
    pub(crate) netns_error: Option<anyhow::Error>,
    names: SystemNames,
    names_timeout: Duration,
}

impl QueryContext {
    /// Finds the namespaces. With `-n`, services and users stay numbers; hosts get names if `hosts`.
    /// Interfaces, cgroups and namespaces always get names: their numbers say little, and names are read only when
    /// needed. With `needs_netns`, sockets carry their namespace also in a listing of our own.
    pub fn new(common: &ListingArgs, hosts: bool, needs_netns: bool) -> anyhow::Result<Self> {
        Self::for_time(common, hosts, needs_netns, false)
    }

    /// As [`Self::new`], for recorded moments if `of_past`: the namespace that `--netns` names is looked for in them.
    pub fn for_time(
        common: &ListingArgs,
        hosts: bool,
        needs_netns: bool,
        of_past: bool,
    ) -> anyhow::Result<Self> {
        let engine = Arc::new(bpf_engine(&common.btf)?);
        Self::with_engine(common, engine, hosts, needs_netns, of_past)
    }

    /// Finds all namespaces again, for those that were made meanwhile; `None` if not all are selected, or if they cannot be found again.
    #[must_use]
    pub fn renewed(&self, common: &ListingArgs) -> Option<Self> {
        let can_be = self.namespaces.are_many() && self.past.is_none() && proc_mount::problem().is_none();
        let found = can_be.then(|| Self::with_engine(common, Arc::clone(&self.engine), false, true, false));
        found?.ok()
    }

    fn with_engine(
        common: &ListingArgs,
        engine: Arc<BpfEngine>,
        hosts: bool,
        needs_netns: bool,
        of_past: bool,
    ) -> anyhow::Result<Self> {
        let mut discovery_losses = Losses::default();
        let kinds = NameKinds {
            services: !common.numeric,
            users: !common.numeric,
            hosts,
            ..NameKinds::ALL
        };
        let names = SystemNames::new(kinds);
        let choice = Choice::from(common.source);
        let by_bpf = matches!(choice, Choice::Auto | Choice::Bpf).then_some(&*engine);
        let netns_of_past = common.netns.clone().filter(|text| of_past && text != "all");
        let mut netns_error = None;
        let namespaces = match common.netns.as_deref() {
            // Our own namespace, if it is selected, is recorded in each socket.
            None if needs_netns => NetnsSelection::own()?,
            netns => match NetnsSelection::find(netns, &names, by_bpf, &mut discovery_losses) {
                Err(error) if netns_of_past.is_some() => {
                    netns_error = Some(error);
                    NetnsSelection::gone()
                }
                found => found?,
            },
        };
        Ok(Self {
            engine,
            choice,
            namespaces,
            discovery_losses,
            is_column: |name| find_column::<Sockets>(name).is_ok(),
            past: None,
            netns_of_past,
            netns_error,
            names,
            names_timeout: common.names_timeout,
        })
    }

    /// Uses the BPF engine of another context of the same options: its programs are loaded once, and what they write is in memory once.
    pub fn share_engine_of(&mut self, other: &Self) {
        self.engine = Arc::clone(&other.engine);
    }

    /// Returns the resolver of names in a filter for sockets of a namespace; `None`: our own.
    pub const fn resolver<'a>(&'a self, netns: Option<&'a Namespace>) -> NetnsResolver<'a> {
        let recorded = match &self.past {
            Some(past) => past.moment.netns_names.as_ref(),
            None => None,
        };
        NetnsResolver {
            context: self,
            netns,
            recorded,
            depends_on_netns: Cell::new(false),
        }
    }

    /// Returns the resolver of names in a filter for sockets that were recorded when network namespaces had these names; `None`: they
    /// have those of now.
    #[must_use]
    pub const fn resolver_of_time<'a>(
        &'a self,
        netns_names: Option<&'a HashMap<NetnsInode, String>>,
    ) -> NetnsResolver<'a> {
        NetnsResolver {
            recorded: netns_names,
            ..self.resolver(None)
        }
    }

    /// Resolves the names of hosts within `--names-timeout`, and notes on stderr how many did not come in time.
    pub fn hosts(&self, ips: impl IntoIterator<Item = IpAddr>) {
        self.names.prefetch_hosts(ips);
        let counts = self.names.wait_for_hosts(Instant::now() + self.names_timeout);
        let late = counts.pending + counts.skipped;
        if late > 0 {
            let all = counts.named + counts.nameless + counts.failed + late;
            say(&format!(
                "sockeye: {late} of {all} host names did not come in {:?}; -n asks for none, --names-timeout waits longer\n",
                self.names_timeout
            ));
        }
    }

    /// Returns the names of this host.
    pub(crate) const fn names(&self) -> &SystemNames {
        &self.names
    }

    /// Returns whether the names of some cgroups are unknown because there are too many.
    pub(crate) fn cgroups_are_incomplete(&self) -> bool {
        self.names.cgroups_are_incomplete()
    }

    /// Returns the name of what a cgroup belongs to; `None` if it is of no such kind.
    pub fn workload_of_cgroup(&self, cgroup: CgroupId, kind: WorkloadKind) -> Option<&str> {
        let of = self.names.cgroup_workloads(cgroup).filter(|of| !of.is_vague())?;
        self.names.workload(self.names.workloads().id(of, kind)?)
    }

    /// Returns what a process belongs to; `None` if it is of no such kind, has ended or may not be read.
    pub fn workload_of_process(&self, pid: Pid, kind: WorkloadKind) -> Option<WorkloadId> {
        let workloads = self.names.workloads();
        workloads.id(workloads.of_process(pid).ok()?, kind)
    }

    /// Returns how a command can be run in a network namespace; `None` if unknown.
    pub fn access_to(&self, netns: NetnsInode) -> Option<NetnsAccess> {
        if own_namespace() == Some(netns) {
            return Some(NetnsAccess::Here);
        }
        let named = self.names.namespaces().name(netns);
        named
            .map(|name| NetnsAccess::Named(name.to_owned()))
            .or_else(|| self.names.first_processes().of(netns).map(NetnsAccess::Process))
    }

    /// Reads the interface names of another namespace.
    fn load_interfaces(&self, netns: NetnsInode) {
        if let Some(namespace) = self.namespaces.with_inode(netns) {
            // Without the right to enter, interfaces stay numbers.
            let interfaces = self
                .run_in(namespace, Interfaces::snapshot)
                .unwrap_or_else(|| Interfaces::from_pairs([]));
            self.names.add_interfaces(netns, interfaces);
        }
    }

    /// Runs `act` in a namespace.
    ///
    /// # Errors
    /// If it cannot be entered: why, and what would help.
    pub fn enter<T: Send>(&self, namespace: &Namespace, act: impl FnOnce() -> T + Send) -> anyhow::Result<T> {
        let entered = self.namespaces.open(namespace, |netns| within(netns, act));
        Ok(entered.context("open the network namespace")??)
    }

    /// Runs `act` in a namespace; `None` if it cannot be entered.
    pub fn run_in<T: Send>(&self, namespace: &Namespace, act: impl FnOnce() -> T + Send) -> Option<T> {
        self.namespaces
            .open(namespace, |netns| within(netns, act).ok())
            .ok()?
    }
}

/// Returns an engine that reads the kernel's types from `btf`. That file decides what programs read in the kernel: only
/// root may name another than the kernel's own, since a user may run us with more capabilities than he has.
pub fn bpf_engine(btf: &Path) -> anyhow::Result<BpfEngine> {
    if btf != Path::new(BpfEngine::TYPES) && !rustix::process::geteuid().is_root() {
        let text = "sockeye: --btf: only root may name another file than the kernel's own\n";
        return Err(UsageError(text.to_owned()).into());
    }
    let engine = BpfEngine::with_types(btf.to_owned());
    // For tests: what older kernels get.
    let is_old = std::env::var_os("SOCKEYE_BPF").is_some_and(|kernel| kernel == "5.10");
    Ok(if is_old { engine.without_cast() } else { engine })
}

impl Names for QueryContext {
    fn interface(&self, index: InterfaceIndex, netns: Option<NetnsInode>) -> Option<&str> {
        if let Some(netns) = netns
            && !self.names.knows_interfaces_of(netns)
        {
            self.load_interfaces(netns);
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
        // The one that has the inode now may be another one.
        let recorded = self
            .past
            .as_ref()
            .and_then(|past| past.moment.netns_names.as_ref());
        match recorded {
            Some(names) => names.get(&inode).map(String::as_str),
            None => self.names.netns(inode),
        }
    }

    fn workload(&self, id: WorkloadId) -> Option<&str> {
        self.names.workload(id)
    }
}

/// Resolves names in a filter, in one namespace.
#[derive(Debug)]
pub struct NetnsResolver<'a> {
    context: &'a QueryContext,
    netns: Option<&'a Namespace>,
    /// Names that network namespaces had when the sockets were recorded.
    recorded: Option<&'a HashMap<NetnsInode, String>>,
    depends_on_netns: Cell<bool>,
}

impl NetnsResolver<'_> {
    /// Returns whether a name was resolved that differs between namespaces.
    pub const fn depends_on_netns(&self) -> bool {
        self.depends_on_netns.get()
    }

    fn run<T: Send>(&self, act: impl FnOnce() -> T + Send) -> Option<T> {
        self.depends_on_netns.set(true);
        match self.netns {
            None => Some(act()),
            Some(namespace) => self.context.run_in(namespace, act),
        }
    }
}

impl Resolve for NetnsResolver<'_> {
    fn service(&self, name: &str) -> Option<u16> {
        self.context.names.services().port(name, None).map(|port| port.0)
    }

    fn host(&self, name: &str) -> Vec<IpAddr> {
        // The filter needs it: wait longer than for names in output.
        resolve(name, Instant::now() + Duration::from_secs(5)).unwrap_or_else(|error| {
            if matches!(error, ResolveError::TimedOut) {
                say(&format!("sockeye: the resolver does not answer for {name:?}\n"));
            }
            Vec::new()
        })
    }

    fn interface(&self, name: &str) -> Option<InterfaceIndex> {
        self.depends_on_netns.set(true);
        match self.netns {
            None => self.context.names.interfaces().index(name),
            Some(_) => self.run(Interfaces::snapshot)?.index(name),
        }
    }

    fn cgroup(&self, path: &str) -> Option<CgroupId> {
        self.context.names.cgroups().id(path)
    }

    fn user(&self, name: &str) -> Option<Uid> {
        self.context.names.users().uid(name)
    }

    fn netns(&self, name: &str) -> Vec<NetnsInode> {
        match self.recorded.and_then(|names| namespaces_named(name, names)) {
            Some(found) => found.into_iter().collect(),
            None => self.context.names.netns_matching(name).to_vec(),
        }
    }

    fn is_column(&self, name: &str) -> bool {
        (self.context.is_column)(name)
    }

    fn ephemeral_ports(&self) -> RangeInclusive<u16> {
        // The kernel's default, if it cannot be read.
        self.run(ephemeral_ports).flatten().unwrap_or(32768..=60999)
    }
}

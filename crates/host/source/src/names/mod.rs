//! Names for numbers, and numbers for names: services, users, interfaces, cgroups, network namespaces, hosts.
//!
//! Each kind of name is read at its first use, and not at all if [`NameKinds`] does not include it.
//! A missing source such as `/etc/services` is no error: numbers are printed then.
//!
//! What it deliberately does not do: use the name service switch (LDAP users, for example, have no name
//! here), trust a resolver (host names are checked character by character), or wait for a host name longer
//! than the deadline of [`SystemNames::wait_for_hosts`].

mod append_only_map;
mod cgroup_mount;
mod cgroups;
mod command_line;
mod container_names;
mod daemon;
mod docker;
mod first_processes;
/// Body of the fuzz target `container_names`.
#[cfg(any(test, fuzzing))]
#[path = "../../../../../fuzz/names_body.rs"]
pub mod fuzz_body;
mod hosts;
mod interfaces;
mod namespaces;
mod netns_name;
mod process_container;
mod process_group;
mod services;
mod users;
mod workloads;

pub use cgroup_mount::CgroupMount;
pub use cgroups::Cgroups;
pub use command_line::command_line;
pub use first_processes::{FirstProcesses, SeenCgroup, SeenProcess};
use hosts::Hosts;
pub use hosts::{HostCounts, ResolveError, resolve};
pub use interfaces::Interfaces;
pub use namespaces::{NamedNamespace, Namespaces};
pub use process_container::{ProcessContainer, process_container};
pub use process_group::process_group;
pub use services::Services;
pub use users::Users;
pub use workloads::{CgroupWorkloads, NoWorkload, WorkloadNames};

use crate::process_netns::own_namespace;
use append_only_map::AppendOnlyMap;
use netns_name::{Finder, NetnsName};
use sockeye_model::{CgroupId, InterfaceIndex, Names, NetnsInode, Port, Protocol, Uid, WorkloadId};
use std::net::IpAddr;
use std::sync::OnceLock;
use std::time::Instant;

/// The kinds of numbers to show by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)] // the names say it all
pub struct NameKinds {
    pub services: bool,
    pub users: bool,
    pub interfaces: bool,
    pub cgroups: bool,
    pub namespaces: bool,
    pub hosts: bool,
}

impl NameKinds {
    /// None: everything is numeric.
    pub const NONE: Self = Self {
        services: false,
        users: false,
        interfaces: false,
        cgroups: false,
        namespaces: false,
        hosts: false,
    };

    /// All, including host names from a resolver.
    pub const ALL: Self = Self {
        services: true,
        users: true,
        interfaces: true,
        cgroups: true,
        namespaces: true,
        hosts: true,
    };
}

/// The names that this host knows.
///
/// ```
/// use sockeye_model::{Names, Port, Protocol};
/// use sockeye_source::names::{SystemNames, NameKinds};
///
/// let numeric = SystemNames::new(NameKinds::NONE); // reads nothing, now or later
/// assert_eq!(numeric.service(Protocol::Tcp, Port(22)), None);
/// ```
#[derive(Debug, Default)]
pub struct SystemNames {
    kinds: NameKinds,
    services: OnceLock<Services>,
    users: OnceLock<Users>,
    interfaces: OnceLock<Interfaces>,
    interfaces_elsewhere: AppendOnlyMap<NetnsInode, Interfaces>,
    own_netns: OnceLock<Option<NetnsInode>>,
    cgroups: OnceLock<Cgroups>,
    namespaces: OnceLock<Namespaces>,
    first: OnceLock<FirstProcesses>,
    netns_finder: OnceLock<Finder>,
    netns_names: AppendOnlyMap<NetnsInode, NetnsName>,
    netns_by_text: AppendOnlyMap<Box<str>, Vec<NetnsInode>>,
    workloads: OnceLock<WorkloadNames>,
    hosts: OnceLock<Hosts>,
}

impl SystemNames {
    /// Creates it for these kinds of names; nothing is read yet.
    #[must_use]
    pub fn new(kinds: NameKinds) -> Self {
        Self {
            kinds,
            ..Self::default()
        }
    }

    /// Adds the interfaces of another network namespace, read by a thread inside it ([`Interfaces::snapshot`]). The first
    /// call for a namespace wins.
    pub fn add_interfaces(&self, netns: NetnsInode, interfaces: Interfaces) {
        self.interfaces_elsewhere.insert(netns, interfaces);
    }

    /// Whether the interfaces of this namespace are known, or it is our own.
    pub fn knows_interfaces_of(&self, netns: NetnsInode) -> bool {
        self.is_own(netns) || self.interfaces_elsewhere.get(&netns).is_some()
    }

    fn is_own(&self, netns: NetnsInode) -> bool {
        *self.own_netns.get_or_init(own_namespace) == Some(netns)
    }

    /// Starts to look up the names of these addresses, without waiting. Does nothing if host names are not
    /// enabled.
    pub fn prefetch_hosts(&self, ips: impl IntoIterator<Item = IpAddr>) {
        if self.kinds.hosts {
            self.hosts().prefetch(ips);
        }
    }

    /// Waits until all requested host names are there, at most until the deadline. Returns zeros if none was requested.
    pub fn wait_for_hosts(&self, deadline: Instant) -> HostCounts {
        self.hosts
            .get()
            .map(|hosts| hosts.wait(deadline))
            .unwrap_or_default()
    }

    /// Returns the services, even if their names are not shown: a filter may use one.
    pub fn services(&self) -> &Services {
        self.services.get_or_init(Services::read)
    }

    /// Returns the users, even if their names are not shown.
    pub fn users(&self) -> &Users {
        self.users.get_or_init(Users::read)
    }

    /// Returns the interfaces of our own namespace, even if their names are not shown. The first call must come from a
    /// thread in that namespace.
    pub fn interfaces(&self) -> &Interfaces {
        self.interfaces.get_or_init(Interfaces::snapshot)
    }

    /// Returns the cgroups, even if their names are not shown.
    pub fn cgroups(&self) -> &Cgroups {
        self.cgroups.get_or_init(Cgroups::read)
    }

    /// Returns the names of workloads, even if names are not shown.
    pub fn workloads(&self) -> &WorkloadNames {
        self.workloads.get_or_init(WorkloadNames::default)
    }

    /// Returns whether some workloads have no names because there are too many.
    pub fn workloads_are_incomplete(&self) -> bool {
        self.workloads.get().is_some_and(WorkloadNames::are_full)
    }

    /// Returns what the cgroup of a socket says of its workload; `None` if its path is unknown.
    pub fn cgroup_workloads(&self, id: CgroupId) -> Option<&CgroupWorkloads> {
        self.workloads().of_cgroup(id, || self.cgroups().path(id))
    }

    /// Returns what a cgroup with this path says of its workload: one that is younger than the cgroups that were read.
    pub fn cgroup_workloads_at(&self, id: CgroupId, path: &str) -> Option<&CgroupWorkloads> {
        self.workloads().of_cgroup(id, || Some(path))
    }

    /// Returns whether the cgroups were read, and some are missing because there are too many.
    pub fn cgroups_are_incomplete(&self) -> bool {
        self.cgroups.get().is_some_and(Cgroups::is_incomplete)
    }

    /// Returns the named network namespaces, even if their names are not shown.
    pub fn namespaces(&self) -> &Namespaces {
        self.namespaces.get_or_init(Namespaces::read)
    }

    /// Sets the first process of each network namespace, so that `/proc` is not scanned for it. Has no effect after the
    /// first name of a namespace was looked up.
    pub fn set_first_processes(&self, first: FirstProcesses) {
        // An earlier result is as good.
        let _ = self.first.set(first);
    }

    /// Returns the first process of each network namespace, from a scan of `/proc` unless they were set.
    pub fn first_processes(&self) -> &FirstProcesses {
        let look = || FirstProcesses::scan().unwrap_or_default();
        self.first.get_or_init(look)
    }

    /// Returns the label of a network namespace, even if such names are not shown: the name that a user gave it
    /// (`ip netns`), else that of its container, of its first process (`1234/nginx`), or its inode
    /// (`net:[4026532000]`). Our own has the given name, or none.
    pub(crate) fn netns_name(&self, netns: NetnsInode) -> Option<&str> {
        let given = self.namespaces().chosen_name(netns);
        if given.is_some() {
            return given;
        }
        if self.is_own(netns) {
            return self.namespaces().name(netns);
        }
        Some(&self.found_name(netns).text)
    }

    /// Returns the network namespaces that `text` names: by label, by the full id of their container, or by at least its
    /// first twelve digits. Several may have one label.
    pub fn netns_matching(&self, text: &str) -> &[NetnsInode] {
        if let Some(known) = self.netns_by_text.get(text) {
            return known;
        }
        self.netns_by_text
            .get_or_insert_with(text.into(), || self.find_matching(text))
    }

    /// Returns the container of a network namespace: its name if it is readable, or its short id; `None` if there is none.
    pub(crate) fn container_in(&self, netns: NetnsInode) -> Option<&str> {
        self.found_name(netns).container_text()
    }

    fn find_matching(&self, text: &str) -> Vec<NetnsInode> {
        let named = self.namespaces().named(text).map(|named| named.inode);
        let inode = text
            .strip_prefix("net:[")
            .and_then(|rest| rest.strip_suffix(']')?.parse().ok());
        let mut meant: Vec<NetnsInode> = named.into_iter().chain(inode.map(NetnsInode)).collect();
        // A namespace with a given name has no other label.
        let nameless = self
            .first_processes()
            .iter()
            .map(|(netns, _)| netns)
            .filter(|netns| self.namespaces().chosen_name(*netns).is_none() && !self.is_own(*netns));
        meant.extend(nameless.filter(|netns| self.found_name(*netns).matches_text(text)));
        meant.sort_unstable();
        meant.dedup();
        meant
    }

    fn found_name(&self, netns: NetnsInode) -> &NetnsName {
        self.netns_names.get_or_insert_with(netns, || {
            let finder = self.netns_finder.get_or_init(Finder::new);
            finder.find(netns, self.first_processes(), self.namespaces(), || {
                self.cgroups()
            })
        })
    }

    fn hosts(&self) -> &Hosts {
        self.hosts.get_or_init(Hosts::default)
    }
}

impl Names for SystemNames {
    fn interface(&self, index: InterfaceIndex, netns: Option<NetnsInode>) -> Option<&str> {
        if !self.kinds.interfaces {
            return None;
        }
        let elsewhere = netns.and_then(|netns| self.interfaces_elsewhere.get(&netns));
        if let Some(interfaces) = elsewhere {
            return interfaces.name(index);
        }
        let is_own = netns.is_none_or(|netns| self.is_own(netns));
        is_own.then(|| self.interfaces().name(index)).flatten()
    }

    fn service(&self, protocol: Protocol, port: Port) -> Option<&str> {
        self.kinds
            .services
            .then(|| self.services().name(protocol, port))?
    }

    fn host(&self, ip: IpAddr) -> Option<&str> {
        self.hosts.get()?.host(ip)
    }

    fn user(&self, uid: Uid) -> Option<&str> {
        self.kinds.users.then(|| self.users().name(uid))?
    }

    fn cgroup(&self, id: CgroupId) -> Option<&str> {
        self.kinds.cgroups.then(|| self.cgroups().path(id))?
    }

    fn netns(&self, inode: NetnsInode) -> Option<&str> {
        self.kinds.namespaces.then(|| self.netns_name(inode))?
    }

    fn workload(&self, id: WorkloadId) -> Option<&str> {
        self.workloads.get()?.name(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_enabled_kinds_are_read() {
        let names = SystemNames::new(NameKinds {
            users: true,
            ..NameKinds::NONE
        });
        names.prefetch_hosts([IpAddr::from([127, 0, 0, 1])]);
        assert_eq!(names.host([127, 0, 0, 1].into()), None);
        assert_eq!(names.service(Protocol::Tcp, Port(22)), None);
        assert_eq!(names.interface(InterfaceIndex(1), None), None);
        assert_eq!(names.cgroup(CgroupId(1)), None);
        assert_eq!(names.netns(NetnsInode(1)), None);
        assert_eq!(names.user(Uid(0)), Some("root"));
        assert!(names.users.get().is_some());
        assert!(names.services.get().is_none() && names.interfaces.get().is_none());
        assert!(names.cgroups.get().is_none() && names.namespaces.get().is_none());
        assert!(names.first.get().is_none());
        assert!(names.hosts.get().is_none());
    }

    #[test]
    fn namespaces_are_found_by_label() {
        let names = SystemNames::new(NameKinds::ALL);
        let own = own_namespace().expect("proc is mounted");
        let id = "9ec39b91f3d70e1beff50a308f77067065ea6be0d91a3378375056cd4422cf3d";
        let docker = format!("/docker/{id}");
        let no_process = sockeye_model::Pid(u32::MAX);
        let mut first = FirstProcesses::default();
        for (netns, cgroup) in [
            (1, &*docker),
            (2, "/lxc/web"),
            (3, "/lxc.payload.web"),
            (4, "/"),
            (own.0, &docker),
        ] {
            first.record(&SeenProcess {
                comm: Some(b"nginx"),
                cgroup: Some(SeenCgroup::Path(cgroup.as_bytes())),
                ..SeenProcess::of(NetnsInode(netns), no_process)
            });
        }
        names.set_first_processes(first);
        names.set_first_processes(FirstProcesses::default()); // too late
        let labels = [1, 2, 3, 4, 5].map(|netns| names.netns(NetnsInode(netns)).unwrap().to_owned());
        assert_eq!(labels, [&id[..12], "web", "web", "4294967295/nginx", "net:[5]"]);
        let inodes = |text: &str| {
            names
                .netns_matching(text)
                .iter()
                .map(|netns| netns.0)
                .collect::<Vec<_>>()
        };
        for (text, expected) in [
            ("web", &[2, 3][..]),
            (id, &[1]),
            (&id[..12], &[1]),
            (&id[..13], &[1]),
            (&id[..11], &[]),
            ("4294967295/nginx", &[4]),
            ("net:[5]", &[5]),
            ("net:[]", &[]),
            ("nginx", &[]),
            ("", &[]),
        ] {
            assert_eq!(inodes(text), expected, "{text}");
            assert_eq!(inodes(text), expected, "{text}, again");
        }
        // Our own has no label from its processes.
        assert_eq!(names.netns(own), names.namespaces().name(own));
    }

    #[test]
    fn interfaces_are_looked_up_in_their_namespace() {
        let names = SystemNames::new(NameKinds::ALL);
        let own = own_namespace().expect("proc is mounted");
        let other = NetnsInode(own.0 ^ 1);
        assert_eq!(names.interface(InterfaceIndex(1), None), Some("lo"));
        assert_eq!(names.interface(InterfaceIndex(1), Some(own)), Some("lo"));
        assert_eq!(names.interface(InterfaceIndex(1), Some(other)), None);
        names.add_interfaces(
            other,
            Interfaces::from_pairs([(InterfaceIndex(1), "uplink".to_owned())]),
        );
        assert_eq!(names.interface(InterfaceIndex(1), Some(other)), Some("uplink"));
        assert_eq!(names.interface(InterfaceIndex(2), Some(other)), None);
        assert_eq!(names.interface(InterfaceIndex(1), Some(own)), Some("lo"));
    }
}

//! Names, in both directions: for what is printed, and for what was typed in a filter.

use crate::notes;
use crate::places::Places;
use sockeye_filter::Resolve;
use sockeye_model::{CgroupId, InterfaceIndex, NetnsInode, Uid};
use sockeye_source::names::{Interfaces, SystemNames, Wanted, resolve};
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// The names this listing may use.
#[derive(Debug)]
pub(crate) struct Lookup {
    pub(crate) names: SystemNames,
    patience: Duration,
}

impl Lookup {
    /// With `numeric`, services and users stay numbers; names of hosts are looked up if `hosts`. Interfaces, cgroups and namespaces always have
    /// their names: the numbers say little, and they are read only when one turns up.
    pub(crate) fn new(numeric: bool, hosts: bool, patience: Duration) -> Self {
        let wanted = Wanted {
            services: !numeric,
            users: !numeric,
            hosts,
            ..Wanted::ALL
        };
        Self {
            names: SystemNames::new(wanted),
            patience,
        }
    }

    /// Learns the names of the interfaces in `places`, since their indices mean nothing elsewhere.
    pub(crate) fn visit(&self, places: &Places) {
        for place in places.iter().into_iter().flatten() {
            if let Ok(interfaces) = sockeye_source::within(place, Interfaces::snapshot) {
                self.names.add_interfaces(place.inode, interfaces);
            }
        }
    }

    /// Looks for the names of these hosts, for no longer than the user has patience, and says how many
    /// did not come in time.
    pub(crate) fn hosts(&self, ips: impl IntoIterator<Item = IpAddr>) {
        self.names.prefetch_hosts(ips);
        let counts = self.names.wait_for_hosts(Instant::now() + self.patience);
        if counts.pending > 0 {
            let all = counts.named + counts.nameless + counts.failed + counts.pending;
            notes::say(&format!(
                "sockeye: {} of {all} host names did not come in {:?}; -n asks for none, --names-timeout waits longer\n",
                counts.pending, self.patience
            ));
        }
    }
}

impl Resolve for Lookup {
    fn service(&self, name: &str) -> Option<u16> {
        self.names.services().port(name, None).map(|port| port.0)
    }

    fn host(&self, name: &str) -> Vec<IpAddr> {
        // Whoever typed a name wants it looked up, however long it takes, within reason.
        resolve(name, Instant::now() + Duration::from_secs(5)).unwrap_or_default()
    }

    fn interface(&self, name: &str) -> Option<InterfaceIndex> {
        self.names.interfaces().index(name)
    }

    fn cgroup(&self, path: &str) -> Option<CgroupId> {
        self.names.cgroups().id(path)
    }

    fn user(&self, name: &str) -> Option<Uid> {
        self.names.users().uid(name)
    }

    fn netns(&self, name: &str) -> Option<NetnsInode> {
        self.names
            .namespaces()
            .named(name)
            .map(|namespace| namespace.inode)
    }

    fn ephemeral_ports(&self) -> std::ops::RangeInclusive<u16> {
        let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
        let mut ports = text.split_ascii_whitespace().filter_map(|port| port.parse().ok());
        match (ports.next(), ports.next()) {
            (Some(low), Some(high)) => low..=high,
            // The kernel's own default.
            _ => 32768..=60999,
        }
    }
}

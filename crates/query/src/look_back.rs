//! `--at`: which moment is listed instead of now.

use crate::args::PastArgs;
use crate::context::QueryContext;
use crate::namespaces::NetnsSelection;
use crate::past::{Past, moment_at, name_store, namespaces_named, open_store};
use crate::replay;
use crate::when;
use anyhow::bail;
use sockeye_console::envelope;
use sockeye_console::notes::say;
use sockeye_model::{
    CgroupId, InterfaceIndex, Names, NetnsInode, Place, Port, Protocol, ProtocolSet, Uid, WorkloadId,
};
use sockeye_output::{Envelope, Origin};
use sockeye_source::own_namespace;
use sockeye_store::{Moment, StoreReader};
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

impl QueryContext {
    /// Lists a recorded moment instead of now, if the flags ask for it, and notes which.
    ///
    /// # Errors
    /// If the time cannot be understood, or nothing is recorded of it.
    pub fn look_back(&mut self, args: &PastArgs) -> anyhow::Result<()> {
        let Some(at) = &args.at else {
            return Ok(());
        };
        let store = args.store.as_deref();
        let moment = name_store(store, moment_at(&open_store(store)?, at, "--at"))?;
        say(&format!(
            "sockeye: this is what was recorded at {}\n",
            when::local(moment.at_ms)
        ));
        self.set_moment(moment);
        self.check_netns()?;
        self.note_elsewhere();
        Ok(())
    }

    /// Checks that the recorded moment has the network namespace that `--netns` names.
    ///
    /// # Errors
    /// If it has not, or if its names are not recorded and there is none now either.
    pub fn check_netns(&mut self) -> anyhow::Result<()> {
        let (Some(past), Some(text)) = (&self.past, &self.netns_of_past) else {
            return Ok(());
        };
        match (&past.selected, &past.moment.netns_names) {
            (Some(selected), Some(names)) if selected.is_empty() => {
                let mut names: Vec<&str> = names.values().map(String::as_str).collect();
                names.sort_unstable();
                names.dedup();
                let left_out = names.len().saturating_sub(NAMES_SHOWN);
                names.truncate(NAMES_SHOWN);
                let more = if left_out > 0 { ", ..." } else { "" };
                let there = if names.is_empty() {
                    "none with a name is".to_owned()
                } else {
                    format!("there are {}{more}", names.join(", "))
                };
                bail!(
                    "no network namespace {text:?} is recorded at {}: {there}",
                    when::local(past.moment.at_ms)
                )
            }
            (None, _) => self.netns_error.take().map_or(Ok(()), Err),
            _ => Ok(()),
        }
    }

    /// Notes if the recorded moment has sockets, but none in the selected network namespaces: it may be that of another one, or of
    /// another host.
    pub fn note_elsewhere(&self) {
        if let Some(count) = self.recorded_elsewhere() {
            say(&format!(
                "sockeye: no recorded socket is in {}, {count} in others: -N all lists them\n",
                if matches!(self.namespaces, NetnsSelection::Here) {
                    "this network namespace"
                } else {
                    "the selected network namespace"
                },
            ));
        }
    }

    /// Returns the number of sockets of the recorded moment if all of them are in network namespaces that are not selected.
    #[must_use]
    pub fn recorded_elsewhere(&self) -> Option<u64> {
        self.past.as_ref()?.elsewhere(self)
    }

    /// Returns the network namespaces that are selected in a time of a store, in milliseconds since 1970: those that had the name then.
    /// `None`: all.
    ///
    /// # Errors
    /// If the store is damaged.
    pub fn selected_within(
        &self,
        store: &StoreReader,
        times_ms: (u64, u64),
    ) -> anyhow::Result<Option<HashSet<NetnsInode>>> {
        if self.namespaces.are_many() {
            return Ok(None);
        }
        if let Some(text) = &self.netns_of_past {
            let names = store.netns_names_within(times_ms)?;
            let each = names
                .iter()
                .flat_map(|(netns, names)| names.iter().map(move |name| (netns, name)));
            // A recorder before this kind of data noted no names.
            if let Some(found) = namespaces_named(text, each).filter(|_| !names.is_empty()) {
                return Ok(Some(found));
            }
        }
        let live = self.namespaces.iter().filter_map(|netns| match netns {
            Some(netns) => Some(netns.inode()),
            None => own_namespace(),
        });
        Ok(Some(live.collect()))
    }

    /// Returns those of the protocols that are not recorded, if a recorded moment is listed.
    #[must_use]
    pub fn unrecorded(&self, protocols: ProtocolSet) -> ProtocolSet {
        match self.past {
            Some(_) => replay::unrecorded(protocols),
            None => ProtocolSet::EMPTY,
        }
    }

    /// Lists this moment instead of now.
    pub fn set_moment(&mut self, moment: Moment) {
        let known = self.past.as_ref().map(|past| past.envelope.origin);
        let is_same =
            |origin: &&'static Origin| origin.host == moment.host && origin.boot_id == moment.boot_id;
        let origin = known.filter(is_same).unwrap_or_else(|| {
            // Once for each boot that is listed.
            Box::leak(Box::new(Origin {
                host: moment.host.clone(),
                boot_id: moment.boot_id.clone(),
                version: envelope::now().origin.version,
            }))
        });
        let time_us = moment.at_ms * 1000;
        let named = self.netns_of_past.as_deref();
        self.past = Some(Past {
            envelope: Envelope { time_us, origin },
            selected: named
                .zip(moment.netns_names.as_ref())
                .and_then(|(text, names)| namespaces_named(text, names)),
            moment,
        });
    }

    /// Returns the envelope of a sample that is read now: of now, or of the recorded moment.
    #[must_use]
    pub fn envelope(&self) -> Envelope {
        self.past
            .as_ref()
            .map_or_else(envelope::now, |past| past.envelope)
    }

    /// Whether the recorded moment that is listed has all connections that ended since the sample before.
    #[must_use]
    pub(crate) fn knows_recorded_ends(&self) -> bool {
        self.past.as_ref().is_some_and(|past| past.moment.has_ends)
    }

    /// Whether a recorded moment is listed.
    #[must_use]
    pub const fn looks_back(&self) -> bool {
        self.past.is_some()
    }
}

/// The names of this host, but those that network namespaces had at a recorded time.
#[derive(Debug, Clone, Copy)]
pub struct NamesOfTime<'a> {
    /// The names of now.
    pub context: &'a QueryContext,
    /// The recorded ones; `None`: network namespaces have the names of now, too.
    pub netns_names: Option<&'a HashMap<NetnsInode, String>>,
}

impl Names for NamesOfTime<'_> {
    fn interface(&self, index: InterfaceIndex, netns: Option<NetnsInode>) -> Option<&str> {
        self.context.interface(index, netns)
    }

    fn service(&self, protocol: Protocol, port: Port) -> Option<&str> {
        self.context.service(protocol, port)
    }

    fn host(&self, ip: IpAddr) -> Option<&str> {
        self.context.host(ip)
    }

    fn place(&self, ip: IpAddr) -> Option<Place> {
        self.context.place(ip)
    }

    fn user(&self, uid: Uid) -> Option<&str> {
        self.context.user(uid)
    }

    fn cgroup(&self, id: CgroupId) -> Option<&str> {
        self.context.cgroup(id)
    }

    fn netns(&self, inode: NetnsInode) -> Option<&str> {
        match self.netns_names {
            Some(names) => names.get(&inode).map(String::as_str),
            None => self.context.netns(inode),
        }
    }

    fn workload(&self, id: WorkloadId) -> Option<&str> {
        self.context.workload(id)
    }
}

/// Names of network namespaces in a message.
const NAMES_SHOWN: usize = 10;

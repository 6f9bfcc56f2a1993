//! The sockets of a recorded moment, as a pass over the kernel's would list them.

use crate::context::QueryContext;
use crate::listing::QueryOptions;
use crate::past::Past;
use crate::workloads::SocketWorkloads;
use sockeye_history::Identity;
use sockeye_model::{
    Family, Losses, Owner, ProtocolSet, Socket, WorkloadId, WorkloadKind, WorkloadSource, Workloads,
};
use sockeye_source::{ProtocolSource, SourceKind, own_namespace};

impl Past {
    /// Returns the sockets that a query selects without its filter, each with what it was recorded by.
    pub(crate) fn sockets<'a>(
        &'a self,
        options: &'a QueryOptions,
        context: &'a QueryContext,
    ) -> impl Iterator<Item = (&'a Identity, Socket)> {
        let is_here = context.namespaces.iter().any(|netns| netns.is_none());
        let is_selected = in_selection(context);
        let all = self.moment.sockets.sockets().filter(move |(identity, values)| {
            // They are counted, and are no sockets.
            values.failures().is_none()
                && is_selected(identity)
                && options.protocols.contains(identity.protocol)
        });
        let all = all.map(move |(identity, values)| {
            let mut socket = identity.socket();
            values.write(&mut socket, self.moment.at_ms);
            if is_here {
                socket.netns = None;
            }
            (identity, socket)
        });
        all.filter(|(_, socket)| {
            let is_of_family = match socket.family {
                Family::Inet => options.families.v4,
                Family::Inet6 => options.families.v6,
                _ => true,
            };
            is_of_family && options.states.contains(socket.state)
        })
    }

    /// Returns the number of sockets if all of them are in network namespaces that are not selected; `None` without any.
    pub(crate) fn elsewhere(&self, context: &QueryContext) -> Option<u64> {
        let is_selected = in_selection(context);
        let mut count = 0;
        for (identity, values) in self.moment.sockets.sockets() {
            if is_selected(identity) {
                return None;
            }
            count += u64::from(values.failures().is_none());
        }
        Some(count).filter(|count| *count > 0)
    }

    /// Returns the workloads of a recorded socket.
    pub(crate) fn workloads<'a>(
        &self,
        identity: &'a Identity,
        live: &'a SocketWorkloads<'a>,
    ) -> RecordedWorkloads<'a> {
        RecordedWorkloads { identity, live }
    }

    /// Returns what was lost when the sample was taken.
    pub(crate) const fn losses(&self) -> Losses {
        self.moment.losses
    }

    /// Returns the sources of these protocols: the store has those of the internet families.
    pub(crate) fn sources(&self, protocols: ProtocolSet) -> Vec<ProtocolSource> {
        let names = ProtocolSet::NAMES
            .iter()
            .filter(|(name, _)| PROTOCOLS.contains(name));
        names
            .filter(|(_, of_name)| !protocols.retain(|one| of_name.contains(one)).is_empty())
            .map(|(name, _)| ProtocolSource {
                what: name,
                optional: true,
                source: Some(SourceKind::Store),
                not_used: Vec::new(),
                ended_early: None,
            })
            .collect()
    }
}

/// Returns a test of whether a recorded socket is in a selected network namespace.
fn in_selection(context: &QueryContext) -> impl Fn(&Identity) -> bool + '_ {
    let selection = &context.namespaces;
    let is_here = selection.iter().any(|netns| netns.is_none());
    let here = own_namespace();
    let selected = context.past.as_ref().and_then(|past| past.selected.as_ref());
    move |identity| match identity.netns {
        Some(netns) if let Some(selected) = selected => selected.contains(&netns),
        Some(netns) if is_here => here.is_none_or(|here| here == netns),
        Some(netns) => selection.are_many() || selection.with_inode(netns).is_some(),
        None => true,
    }
}

/// Returns those of the protocols that are not recorded.
pub(crate) fn unrecorded(protocols: ProtocolSet) -> ProtocolSet {
    let of_name = |name: &&str| ProtocolSet::from_name(name);
    let recorded = PROTOCOLS.iter().filter_map(of_name);
    recorded.fold(protocols, |left, recorded| {
        left.retain(|one| !recorded.contains(one))
    })
}

/// The workloads of a recorded socket.
#[derive(Debug)]
pub(crate) struct RecordedWorkloads<'a> {
    identity: &'a Identity,
    live: &'a SocketWorkloads<'a>,
}

impl Workloads for RecordedWorkloads<'_> {
    fn visit(
        &self,
        kind: WorkloadKind,
        _: &Socket,
        _: Option<&[Owner]>,
        visit: &mut dyn FnMut(WorkloadId),
    ) -> Option<WorkloadSource> {
        let name = self
            .identity
            .workload(kind)
            .filter(|_| self.live.kinds.contains(&kind))?;
        visit(self.live.context.names().workloads().recorded(kind, name)?);
        self.identity.workloads.known_by
    }

    fn names(&self, id: WorkloadId, visit: &mut dyn FnMut(&str)) {
        self.live.names(id, visit);
    }
}

/// Names of the protocols that are recorded.
const PROTOCOLS: [&str; 5] = ["tcp", "mptcp", "udp", "udplite", "raw"];

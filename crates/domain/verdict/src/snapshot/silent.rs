//! Connections with unacknowledged data: the way to their peers, the firewall of this host, and what else explains them.

use super::Snapshot;
use crate::firewall::{self, Direction, Stopped};
use crate::sending::{self, Cause};
use crate::socket_counters::SocketCounters;
use crate::symptom::Symptom;
use crate::{Rule, Severity};
use sockeye_model::{
    Counter, Device, Entry, Firewall, NetnsInode, NextHop, PathQuery, Route, SendPath, Socket, Vitals,
};
use std::collections::{BTreeSet, HashMap, HashSet};

impl Snapshot<'_> {
    /// Returns the ways that should be looked up, for connections whose data or probes are not acknowledged.
    #[must_use]
    pub fn paths_to_look_up(&self) -> Vec<PathQuery> {
        let stuck = self.silent.iter().filter(|(socket, _)| {
            let info = socket.tcp_info.as_ref();
            info.is_some_and(|info| sending::is_stuck(socket, info) || sending::is_connecting(socket, info))
        });
        let mut known = HashSet::new();
        let queries = stuck.filter_map(|(socket, _)| sending::query(socket));
        queries
            .filter(|query| known.insert(*query))
            .take(PATHS_MAX)
            .collect()
    }

    /// Adds the ways that were looked up.
    pub fn send_paths(&mut self, paths: Vec<SendPath>) {
        self.send_faults.add_paths(paths);
        if let Some((baseline, _)) = self.earlier {
            self.send_faults.confirm_by(&baseline.unanswered);
        }
    }

    /// Returns the ways that should be looked up again with the second look: connections are attempted through a next hop
    /// that does not answer, but some did not have the time yet.
    #[must_use]
    pub fn paths_to_confirm(&self) -> Vec<PathQuery> {
        let connecting = self.silent.iter().filter(|(socket, _)| {
            let info = socket.tcp_info.as_ref();
            info.is_some_and(|info| sending::is_connecting(socket, info))
        });
        let connecting: HashSet<_> = connecting
            .filter_map(|(socket, _)| sending::query(socket))
            .collect();
        let unanswered = self.send_faults.unanswered();
        unanswered.filter(|query| connecting.contains(query)).collect()
    }

    /// Adds these ways as the second look found them.
    pub fn confirm_paths(&mut self, paths: &[SendPath]) {
        self.send_faults.confirm(paths);
    }

    /// Returns the network namespaces whose packet filter rules would be evidence: packets of connections disappear there.
    /// With several samples also those with listeners, as what a rule dropped in between shows that clients try.
    #[must_use]
    pub fn firewalls_in_question(&self) -> BTreeSet<Option<NetnsInode>> {
        let stuck = self.silent.iter().filter(|(socket, _)| {
            let info = socket.tcp_info.as_ref();
            info.is_some_and(|info| sending::is_stuck(socket, info))
        });
        let suspected = stuck
            .map(|(socket, _)| socket.netns)
            .chain(self.firewalls.suspected());
        let unanswered = self.send_faults.unanswered().map(|query| query.netns);
        let namespaces = self.namespaces.iter().map(|vitals| vitals.netns);
        let dropping = namespaces.filter(|netns| self.drops_output(*netns));
        let has_samples = self.samples.is_some();
        let listening = self.firewalls.listening().filter(|_| has_samples);
        let all = suspected.chain(unanswered).chain(dropping).chain(listening);
        all.take(FIREWALLS_MAX).collect()
    }

    /// Notes that the packet filter rules of a network namespace could not be read.
    pub fn firewall_unreadable(&mut self, netns: Option<NetnsInode>) {
        self.firewalls_unreadable.insert(netns);
    }

    /// Whether many packets were dropped on their way out, since the earlier sample if there is one.
    pub(super) fn drops_output(&self, netns: Option<NetnsInode>) -> bool {
        let Some(now) = self.namespaces.iter().find(|vitals| vitals.netns == netns) else {
            return false;
        };
        let before = self
            .earlier
            .and_then(|(baseline, _)| baseline.namespaces.get(&netns));
        let since = |counter: Counter| {
            let before = before.and_then(|before| before.counters.value(counter));
            let now = now.counters.value(counter)?;
            Some(now.saturating_sub(before.unwrap_or(0)))
        };
        let of_each = [
            [Counter::IpOutDiscards, Counter::IpOutRequests],
            [Counter::Ip6OutDiscards, Counter::Ip6OutRequests],
        ];
        of_each.into_iter().any(|[dropped, sent]| {
            let (dropped, sent) = (since(dropped).unwrap_or(0), since(sent).unwrap_or(0));
            dropped > 0 && dropped.saturating_mul(DROPPED_FACTOR) >= sent
        })
    }

    /// Adds the packet filter rules of a network namespace.
    pub fn firewall(&mut self, netns: Option<NetnsInode>, firewall: Firewall) {
        self.firewalls.add_rules(netns, firewall);
    }

    pub(super) fn judge_silent(&mut self) {
        let silent = std::mem::take(&mut self.silent);
        let by_netns: HashMap<_, _> = self
            .namespaces
            .iter()
            .map(|vitals| (vitals.netns, vitals))
            .collect();
        // 1. This host cannot send: whatever else these connections show follows from it.
        let mut others = Vec::new();
        for (socket, owner) in silent {
            let Some(info) = &socket.tcp_info else { continue };
            let vitals = by_netns.get(&socket.netns).copied();
            let cause = self.send_faults.cause(&socket, info, vitals);
            // What its namespace was is unknown, and the kernel ends it by itself.
            if socket.inode.is_none() && socket.netns.is_some() && vitals.is_none() {
                let change = self.change_since_earlier(&socket);
                if cause.is_some() || self.judge(&socket, info, change).is_some() {
                    let tries = socket.timer.map(|timer| timer.retransmits);
                    let symptom = Symptom::new(Rule::PeerSilent, 0)
                        .fact("tries", tries.unwrap_or(0))
                        .meaning(ABANDONED);
                    let entry = Entry::with_owners(&socket, None);
                    self.symptom_groups.add(&entry, &symptom.with(Severity::Info));
                }
                continue;
            }
            let Some(cause) = cause else {
                others.push((socket, owner));
                continue;
            };
            if let Cause::Unanswered(_, hop) | Cause::PeerUnanswered(_, hop) = cause {
                let path = self.send_faults.path(&socket);
                if let Some(drop) = self.firewalls.stops_discovery(&socket, hop, path, vitals) {
                    self.firewalls
                        .add(&socket, owner.as_ref(), drop, Stopped::Discovery);
                    continue;
                }
            }
            if matches!(cause, Cause::Dropped | Cause::Unknown) {
                if self.own_queues.holds(&socket) {
                    continue;
                }
                let path = self.send_faults.path(&socket);
                if let Some(drop) = self.firewalls.stops(&socket, Direction::Outgoing, path, vitals) {
                    self.firewalls.add(&socket, owner.as_ref(), drop, Stopped::Sent);
                    continue;
                }
                let out = Direction::Outgoing;
                if let Some(drop) = self.firewalls.perhaps_stops(&socket, out, path, vitals, None) {
                    self.firewalls
                        .add(&socket, owner.as_ref(), drop, Stopped::PerhapsSent);
                    continue;
                }
            }
            let stalled_ms = self
                .check_of(&socket, info, SocketCounters::default())
                .unsent_ms();
            self.send_faults.add(&socket, owner.as_ref(), cause, stalled_ms);
        }
        // 2. The others.
        for (socket, owner) in others {
            let Some(info) = &socket.tcp_info else { continue };
            let change = self.change_since_earlier(&socket);
            let Some(mut symptom) = self.judge(&socket, info, change) else {
                continue;
            };
            // For a fault on this host its cause is reported, not the effect on the other end.
            let vitals = by_netns.get(&socket.netns).copied();
            if let Some((drop, stopped)) = self.firewall_cause(&socket, &symptom, vitals) {
                self.firewalls.add(&socket, owner.as_ref(), drop, stopped);
                continue;
            }
            if let Some(cause) = self.reverse_path(&socket, symptom.rule, vitals) {
                let stalled_ms = self.check_of(&socket, info, change).unsent_ms();
                self.send_faults.add(&socket, owner.as_ref(), cause, stalled_ms);
                continue;
            }
            if symptom.rule == Rule::PeerSilent {
                let next_hop = self.send_faults.path(&socket).and_then(|path| path.next_hop);
                if symptom.facts.value("untried_pmtu_bytes").is_some() {
                    symptom = symptom.meaning(SILENT_OR_BLACK_HOLE);
                } else if next_hop == Some(NextHop::Permanent) {
                    symptom = symptom.meaning(SILENT_OR_WRONG_NEIGHBOUR);
                } else if vitals.is_some_and(may_discard_answers) {
                    symptom = symptom.meaning(SILENT_OR_FILTERED);
                }
            }
            let is_reported = self.send_faults.explains(&socket, &symptom, vitals)
                || self.own_queues.explains(&socket, symptom.rule)
                || match symptom.rule {
                    Rule::ZeroWindow => self.unread.contains(&(socket.local, socket.peer)),
                    Rule::ConnectUnanswered => self.listeners.is_full_at(&socket.peer),
                    _ => false,
                };
            if !is_reported {
                let entry = Entry::with_owners(&socket, Some(owner.as_slice()));
                self.symptom_groups.add(&entry, &symptom);
            }
        }
    }

    /// Returns the device over which answers come in that are discarded; `None` if not exactly one is in question.
    fn reverse_path(&self, socket: &Socket, symptom: Rule, vitals: Option<&Vitals>) -> Option<Cause> {
        if !matches!(
            symptom,
            Rule::PeerSilent | Rule::SendStuck | Rule::ConnectUnanswered
        ) {
            return None;
        }
        let (baseline, _) = self.earlier?;
        let (now, before) = (vitals?, baseline.namespaces.get(&socket.netns)?);
        let discarded = |vitals: &Vitals| vitals.counters.value(Counter::IpReversePathFilter);
        if discarded(now)? <= discarded(before)? {
            return None;
        }
        let Route::Via { device: route, .. } = self.send_faults.path(socket)?.route else {
            return None;
        };
        let received = |device: &Device| device.traffic.map(|traffic| traffic.rx_packets);
        let mut others = now.devices.iter().filter(|device| {
            let earlier = before
                .devices
                .iter()
                .find(|earlier| earlier.index == device.index);
            device.index != route
                && !device.is_loopback
                && earlier.is_some_and(|earlier| received(device) > received(earlier))
        });
        let device = others.next()?;
        others
            .next()
            .is_none()
            .then_some(Cause::ReversePath(device.index))
    }

    /// Returns the firewall rule that explains why nothing comes back from the peer.
    fn firewall_cause(
        &self,
        socket: &Socket,
        symptom: &Symptom,
        vitals: Option<&Vitals>,
    ) -> Option<(firewall::Drop, Stopped)> {
        if !matches!(
            symptom.rule,
            Rule::PeerSilent
                | Rule::SendStuck
                | Rule::ConnectUnanswered
                | Rule::KeepaliveUnanswered
                | Rule::MtuBlackHole
        ) {
            return None;
        }
        let stops = |direction, path| self.firewalls.stops(socket, direction, path, vitals);
        let sent = || {
            Some((
                stops(Direction::Outgoing, self.send_faults.path(socket))?,
                Stopped::Sent,
            ))
        };
        let received = || {
            Some((
                stops(Direction::Incoming, self.send_faults.path(socket))?,
                Stopped::Received,
            ))
        };
        // Many hosts drop ICMP: it is a cause only where full-sized segments disappear.
        let is_full_size =
            symptom.rule == Rule::MtuBlackHole || symptom.facts.value("untried_pmtu_bytes").is_some();
        let icmp = || {
            let drop = self.firewalls.stops_icmp(socket, vitals).filter(|_| is_full_size);
            Some((drop?, Stopped::Icmp))
        };
        // Without a second look at its counter a rule that compares what is not known proves nothing.
        let perhaps = || {
            let (baseline, _) = self.earlier?;
            let path = self.send_faults.path(socket);
            let stops = |direction| {
                let earlier = Some(&baseline.firewall_drops);
                self.firewalls
                    .perhaps_stops(socket, direction, path, vitals, earlier)
            };
            let sent = stops(Direction::Outgoing).map(|drop| (drop, Stopped::PerhapsSent));
            sent.or_else(|| Some((stops(Direction::Incoming)?, Stopped::PerhapsReceived)))
        };
        sent().or_else(received).or_else(icmp).or_else(perhaps)
    }
}

/// Whether reverse path filtering has discarded packets, and there are several devices over which answers may come.
fn may_discard_answers(vitals: &Vitals) -> bool {
    let discarded = vitals.counters.value(Counter::IpReversePathFilter);
    let others = vitals
        .devices
        .iter()
        .filter(|device| !device.is_loopback && device.is_up);
    discarded > Some(0) && others.count() > 1
}

const SILENT_OR_BLACK_HOLE: &str = "What was sent is sent again and again and not acknowledged. It is a segment of full size: the peer or the path to it is gone, or a smaller MTU on the path drops it.";
const ABANDONED: &str = "Connections without a process try to deliver what they still have to send. Their network namespace could not be looked at: it may be that of a container that was deleted. The kernel ends them by itself.";
const SILENT_OR_FILTERED: &str = "What was sent is sent again and again and not acknowledged: the peer or the path to it is gone, or rp_filter discards answers that come in over another device. A longer --watch shows which.";
const SILENT_OR_WRONG_NEIGHBOUR: &str = "What was sent is sent again and again and not acknowledged: the peer or the path to it is gone, or the link address of the next hop is wrong, for its neighbour entry is permanent and was never asked for.";

/// If a hundredth of what was to be sent was dropped, the rules may say why.
const DROPPED_FACTOR: u64 = 100;
/// Network namespaces whose packet filter rules are read.
const FIREWALLS_MAX: usize = 64;
/// Ways that are looked up.
const PATHS_MAX: usize = 256;

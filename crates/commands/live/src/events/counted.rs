//! What the kernel's own counters have, and no event has shown.
//!
//! A kernel can leave programs out without a count of that. So the counters of each network namespace are read at the begin and at the end, and
//! compared with the events in between. A difference is what is missing at least:
//!
//! | counters | events |
//! |---|---|
//! | `ActiveOpens`, `PassiveOpens` | opens and failed opens of TCP, and handshakes that go on at the end |
//! | `EstabResets` | closes of connections that our end had not closed |
//! | `RetransSegs`, without `TCPRetransFail` | retransmitted segments |
//! | `ListenOverflows` | accept overflows |
//! | `TCPReqQFullDrop`, `TCPReqQFullDoCookies` | syn overflows |
//!
//! Nothing is claimed of namespaces that were made meanwhile, since what they counted before they were found is not known, and of RSTs: most
//! are for no socket.

use super::args::EventsArgs;
use super::kinds;
use foldhash::HashMap;
use sockeye_model::{
    ConnectionEvent, ConnectionEventKind, Counter, Counters, NetnsInode, Protocol, ProtocolSet, State,
    StateSet,
};
use sockeye_query::context::QueryContext;
use sockeye_query::netns_counters::netns_counters;
use sockeye_source::{Choice, Detail, Ends, Families, NetnsScope, Query, list};
use sockeye_tracepoints::{Accounting, ConnectionOptions};
use sockeye_wire::connections::kind;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::thread::JoinHandle;
use std::time::Duration;

/// How many events of each kind were seen in a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Seen {
    handshakes: u64,
    closes: u64,
    segments: u64,
    accept_overflows: u64,
    syn_overflows: u64,
}

/// What was seen in each namespace.
#[derive(Debug, Default)]
pub(crate) struct SeenByNetns(HashMap<NetnsInode, Seen>);

impl SeenByNetns {
    /// Counts an event, selected or not.
    pub(crate) fn add(&mut self, event: &ConnectionEvent) {
        let socket = &event.socket;
        let Some(netns) = socket.netns.filter(|_| socket.protocol == Protocol::Tcp) else {
            return;
        };
        let (what, count): (fn(&mut Seen) -> &mut u64, u64) = match event.kind {
            ConnectionEventKind::Open | ConnectionEventKind::Fail => (|seen| &mut seen.handshakes, 1),
            ConnectionEventKind::Close
                if matches!(event.old_state, State::Established | State::CloseWait) =>
            {
                (|seen| &mut seen.closes, 1)
            }
            ConnectionEventKind::Retransmit => (
                |seen| &mut seen.segments,
                event.details.retransmitted_segs.unwrap_or(1).into(),
            ),
            ConnectionEventKind::AcceptOverflow => (|seen| &mut seen.accept_overflows, 1),
            ConnectionEventKind::SynOverflow => (|seen| &mut seen.syn_overflows, 1),
            _ => return,
        };
        *what(self.0.entry(netns).or_default()) += count;
    }
}

/// How many events of each kind of records are missing at least.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Unseen {
    opens: u64,
    closes: u64,
    retransmissions: u64,
    accept_overflows: u64,
    syn_overflows: u64,
}

impl Unseen {
    pub(crate) fn any(&self) -> bool {
        *self != Self::default()
    }

    /// Adds them to the counts of a watch that has ended. Where events were lost or left out, or the kernel has counted what it did not
    /// show, that may be the same ones.
    pub(crate) fn add_to(&self, counts: &mut Accounting) {
        if counts.missed + counts.unknown > 0 {
            return;
        }
        let is_complete = |of: &[u32]| {
            let mut all = of.iter().map(|kind| counts.kinds[*kind as usize]);
            all.all(|kind| kind.lost + kind.left_out == 0)
        };
        let opens = if is_complete(&[kind::OPENED, kind::FAILED]) {
            self.opens
        } else {
            0
        };
        let rest = [
            (kind::CLOSED, self.closes),
            (kind::RETRANSMITTED, self.retransmissions),
            (kind::ACCEPT_OVERFLOWS, self.accept_overflows),
            (kind::SYN_OVERFLOWS, self.syn_overflows),
        ]
        .map(|(kind, unseen)| (kind, if is_complete(&[kind]) { unseen } else { 0 }));
        for (kind, unseen) in rest.into_iter().chain([(kind::OPENED, opens)]) {
            let counted = &mut counts.kinds[kind as usize].unseen;
            *counted = unseen.max(*counted);
        }
    }
}

/// The counters at the begin of a watch.
#[derive(Debug)]
pub(crate) struct CountedBefore {
    reader: JoinHandle<Option<BTreeMap<NetnsInode, Counters>>>,
    netns: String,
    compared: Compared,
}

/// What can be compared: kinds that are watched.
#[derive(Debug, Clone, Copy)]
struct Compared {
    opens: bool,
    closes: bool,
    retransmissions: bool,
    accept_overflows: bool,
    syn_overflows: bool,
}

impl CountedBefore {
    /// Reads the counters soon, on another thread, once the programs are attached; `None` where they have more than the programs are to show.
    pub(crate) fn begin(
        args: &EventsArgs,
        options: &ConnectionOptions,
        missing: impl Fn(&str) -> bool,
    ) -> Option<Self> {
        let protocols = kinds::protocols(args);
        if options.ends != Ends::ANYWHERE || args.ipv4 || args.ipv6 || !(protocols.tcp || protocols.mptcp) {
            return None;
        }
        let watches = |kind: u32| options.kinds.contains(&kind);
        let sees_overflows = !missing("cgroup_skb/ingress");
        let compared = Compared {
            opens: watches(kind::OPENED) && watches(kind::FAILED),
            closes: watches(kind::CLOSED),
            retransmissions: watches(kind::RETRANSMITTED)
                && !missing("tcp_retransmit_skb")
                && !missing("tcp_retransmit_synack"),
            accept_overflows: watches(kind::ACCEPT_OVERFLOWS) && sees_overflows,
            syn_overflows: watches(kind::SYN_OVERFLOWS) && sees_overflows,
        };
        let netns = args.netns.clone().unwrap_or_else(|| "all".to_owned());
        let selected = netns.clone();
        let reader = std::thread::Builder::new()
            .name("counters".to_owned())
            .spawn(move || {
                // The first events are shown before.
                std::thread::sleep(LATER);
                netns_counters(&selected)
            });
        Some(Self {
            reader: reader.ok()?,
            netns,
            compared,
        })
    }

    /// Reads the counters again; `None` if those of the begin are not there.
    pub(crate) fn again(self) -> Option<CountedBetween> {
        if !self.reader.is_finished() {
            return None;
        }
        let before = self.reader.join().ok().flatten()?;
        let after = netns_counters(&self.netns)?;
        Some(CountedBetween {
            before,
            after,
            compared: self.compared,
        })
    }
}

/// The counters of two times.
#[derive(Debug)]
pub(crate) struct CountedBetween {
    before: BTreeMap<NetnsInode, Counters>,
    after: BTreeMap<NetnsInode, Counters>,
    compared: Compared,
}

impl CountedBetween {
    /// Returns how many namespaces are compared.
    pub(crate) fn namespaces(&self) -> usize {
        let is_known = |netns: &&NetnsInode| self.before.contains_key(netns);
        self.after.keys().filter(is_known).count()
    }

    /// Returns what is missing at least among the events that were seen between the two times. `pending`: handshakes that go on in a namespace.
    pub(crate) fn unseen(&self, seen: &SeenByNetns, pending: impl Fn(NetnsInode) -> u64) -> Unseen {
        let mut all = Unseen::default();
        for (netns, after) in &self.after {
            let Some(before) = self.before.get(netns) else {
                continue;
            };
            let moved = |counter| {
                let (before, after) = before.value(counter).zip(after.value(counter))?;
                after.checked_sub(before)
            };
            let seen = seen.0.get(netns).copied().unwrap_or_default();
            let missing = |is_compared: bool, counted: Option<u64>, seen: u64| {
                let counted = counted.filter(|_| is_compared).unwrap_or(0);
                counted.saturating_sub(seen)
            };
            let sum = |one, other| Some(moved(one)? + moved(other)?);
            let opened = sum(Counter::TcpActiveOpens, Counter::TcpPassiveOpens);
            let opens = missing(self.compared.opens, opened, seen.handshakes);
            if opens > 0 {
                all.opens += opens.saturating_sub(pending(*netns));
            }
            all.closes += missing(self.compared.closes, moved(Counter::TcpEstabResets), seen.closes);
            let sent = moved(Counter::TcpRetransSegs)
                .zip(moved(Counter::TcpRetransFail))
                .map(|(all, failed)| all.saturating_sub(failed));
            all.retransmissions += missing(self.compared.retransmissions, sent, seen.segments);
            all.accept_overflows += missing(
                self.compared.accept_overflows,
                moved(Counter::ListenOverflows),
                seen.accept_overflows,
            );
            let requests = sum(Counter::TcpReqQFullDrop, Counter::TcpReqQFullDoCookies);
            all.syn_overflows += missing(self.compared.syn_overflows, requests, seen.syn_overflows);
        }
        all
    }
}

/// Returns how many handshakes go on in each namespace; `None` if that cannot be listed.
pub(crate) fn handshakes(context: &QueryContext) -> Option<HashMap<NetnsInode, u64>> {
    let query = Query {
        protocols: ProtocolSet::of(&[Protocol::Tcp]),
        families: Families::BOTH,
        states: StateSet::EMPTY.with(State::SynSent).with(State::SynRecv),
        detail: Detail::INODE,
        program: &[],
        ends: Ends::ANYWHERE,
        choice: Choice::Auto,
        scope: NetnsScope::All,
        quiet: None,
        announce: None,
    };
    let mut all: HashMap<NetnsInode, u64> = HashMap::default();
    list(&context.engine, &query, &mut |socket, _| {
        if let Some(netns) = socket.netns {
            *all.entry(netns).or_default() += 1;
        }
        ControlFlow::Continue(())
    })
    .ok()?;
    Some(all)
}

/// When the counters of the begin are read.
const LATER: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_model::Socket;

    const NETNS: NetnsInode = NetnsInode(5);
    const ALL: Compared = Compared {
        opens: true,
        closes: true,
        retransmissions: true,
        accept_overflows: true,
        syn_overflows: true,
    };

    fn counters(values: &[(Counter, u64)]) -> BTreeMap<NetnsInode, Counters> {
        let mut all = Counters::default();
        for counter in [
            Counter::TcpActiveOpens,
            Counter::TcpPassiveOpens,
            Counter::TcpEstabResets,
            Counter::TcpRetransSegs,
            Counter::TcpRetransFail,
            Counter::ListenOverflows,
            Counter::TcpReqQFullDrop,
            Counter::TcpReqQFullDoCookies,
        ] {
            all.set(counter, 10);
        }
        for (counter, value) in values {
            all.set(*counter, 10 + value);
        }
        BTreeMap::from([(NETNS, all)])
    }

    fn seen(events: &[(ConnectionEventKind, State)]) -> SeenByNetns {
        let mut seen = SeenByNetns::default();
        for (kind, old_state) in events {
            let mut socket = Socket::new(Protocol::Tcp, State::Close);
            socket.netns = Some(NETNS);
            let mut event = ConnectionEvent::new(*kind, 1, socket);
            event.old_state = *old_state;
            seen.add(&event);
        }
        seen
    }

    #[track_caller]
    fn check(
        moved: &[(Counter, u64)],
        events: &[(ConnectionEventKind, State)],
        pending: u64,
        expected: Unseen,
    ) {
        let between = CountedBetween {
            before: counters(&[]),
            after: counters(moved),
            compared: ALL,
        };
        assert_eq!(between.unseen(&seen(events), |_| pending), expected);
    }

    #[test]
    fn what_counters_have_more_is_unseen() {
        use ConnectionEventKind::{AcceptOverflow, Close, Fail, Open, Retransmit, SynOverflow};
        let moved = [
            (Counter::TcpActiveOpens, 3),
            (Counter::TcpPassiveOpens, 2),
            (Counter::TcpEstabResets, 2),
            (Counter::TcpRetransSegs, 4),
            (Counter::TcpRetransFail, 1),
            (Counter::ListenOverflows, 2),
            (Counter::TcpReqQFullDrop, 1),
            (Counter::TcpReqQFullDoCookies, 1),
        ];
        let events = [
            (Open, State::SynSent),
            (Fail, State::SynSent),
            (Open, State::SynRecv),
            (Close, State::Established),
            (Close, State::LastAck),
            (Retransmit, State::Established),
            (AcceptOverflow, State::Listen),
            (SynOverflow, State::Listen),
        ];
        let expected = Unseen {
            opens: 2,
            closes: 1,
            retransmissions: 2,
            accept_overflows: 1,
            syn_overflows: 1,
        };
        check(&moved, &events, 0, expected);
        check(&moved, &events, 1, Unseen { opens: 1, ..expected });
        check(&moved, &events, 9, Unseen { opens: 0, ..expected });
    }

    #[test]
    fn more_events_than_counted_hide_nothing_of_other_kinds() {
        let events = [(ConnectionEventKind::Open, State::SynSent); 9];
        let expected = Unseen {
            closes: 1,
            ..Unseen::default()
        };
        check(
            &[(Counter::TcpActiveOpens, 3), (Counter::TcpEstabResets, 1)],
            &events,
            0,
            expected,
        );
    }

    #[test]
    fn namespaces_made_meanwhile_and_counters_that_begin_again_are_not_compared() {
        let between = CountedBetween {
            before: BTreeMap::new(),
            after: counters(&[(Counter::TcpActiveOpens, 5)]),
            compared: ALL,
        };
        assert!(!between.unseen(&seen(&[]), |_| 0).any());
        let between = CountedBetween {
            before: counters(&[(Counter::TcpEstabResets, 5)]),
            after: counters(&[]),
            compared: ALL,
        };
        assert!(!between.unseen(&seen(&[]), |_| 0).any());
    }

    #[test]
    fn lost_events_are_not_counted_twice() {
        let unseen = Unseen {
            opens: 2,
            closes: 3,
            ..Unseen::default()
        };
        let mut counts = Accounting::default();
        counts.kinds[kind::FAILED as usize].lost = 1;
        counts.kinds[kind::CLOSED as usize].unseen = 1;
        unseen.add_to(&mut counts);
        assert_eq!(counts.kinds[kind::OPENED as usize].unseen, 0);
        assert_eq!(counts.kinds[kind::CLOSED as usize].unseen, 3);
        counts.missed = 1;
        counts.kinds[kind::CLOSED as usize].unseen = 0;
        unseen.add_to(&mut counts);
        assert_eq!(counts.kinds[kind::CLOSED as usize].unseen, 0);
    }
}

//! What the kernel's own counters have, and no event has shown.
//!
//! A kernel can leave programs out without a count of that. So the counters of each network namespace are read at the begin and at the end, and
//! compared with the events in between. A difference is what is missing at least: [`COMPARISONS`].
//!
//! Nothing is claimed of namespaces that were made meanwhile, since what they counted before they were found is not known.

use super::args::EventsArgs;
use super::at_least::RECORDS;
use super::kinds;
use foldhash::HashMap;
use sockeye_model::{
    ConnectionEvent, ConnectionEventKind, Counter, Counters, NetnsInode, Protocol, ProtocolSet,
    Retransmission, Side, State, StateSet,
};
use sockeye_query::context::QueryContext;
use sockeye_query::netns_counters::netns_counters;
use sockeye_source::{Choice, Detail, Ends, Families, NetnsScope, Query, list};
use sockeye_tracepoints::{Accounting, ConnectionOptions, CountedAside, KINDS, KindCounts};
use sockeye_wire::connections::kind;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::thread::JoinHandle;
use std::time::Duration;

/// How many events that counters count, too, were seen in a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Seen {
    handshakes: u64,
    /// Closes of connections that our end had not closed.
    closes: u64,
    /// Closes of connections that our end had closed, and the peer had not.
    half_closed: u64,
    segments: u64,
    syns: u64,
    accept_overflows: u64,
    syn_overflows: u64,
    resets: u64,
    undos: u64,
    /// Zero windows of our end, and their ends.
    zero_windows: u64,
    windows_opened: u64,
    /// What programs counted without an event.
    aside: CountedAside,
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
        let is_ours = event.details.window_of == Some(Side::Local);
        let (what, count): (fn(&mut Seen) -> &mut u64, u64) = match event.kind {
            ConnectionEventKind::Open | ConnectionEventKind::Fail => (|seen| &mut seen.handshakes, 1),
            ConnectionEventKind::Close => match event.old_state {
                State::Established | State::CloseWait => (|seen| &mut seen.closes, 1),
                State::FinWait2 => (|seen| &mut seen.half_closed, 1),
                _ => return,
            },
            ConnectionEventKind::Retransmit => {
                let segments = event.details.retransmitted_segs.unwrap_or(1).into();
                if event.retransmission == Some(Retransmission::Syn) {
                    self.0.entry(netns).or_default().syns += segments;
                }
                (|seen| &mut seen.segments, segments)
            }
            ConnectionEventKind::AcceptOverflow => (|seen| &mut seen.accept_overflows, 1),
            ConnectionEventKind::SynOverflow => (|seen| &mut seen.syn_overflows, 1),
            ConnectionEventKind::ResetSent => (|seen| &mut seen.resets, 1),
            ConnectionEventKind::Undo => (|seen| &mut seen.undos, 1),
            ConnectionEventKind::ZeroWindow if is_ours => (|seen| &mut seen.zero_windows, 1),
            ConnectionEventKind::WindowOpen if is_ours => (|seen| &mut seen.windows_opened, 1),
            _ => return,
        };
        *what(self.0.entry(netns).or_default()) += count;
    }

    /// Takes what programs have counted since the begin without an event, by the inode of the namespace.
    pub(crate) fn set_aside(&mut self, counted: BTreeMap<u32, CountedAside>) {
        for (netns, counted) in counted {
            self.0.entry(NetnsInode(netns)).or_default().aside = counted;
        }
    }
}

/// A kind of records, and counters that count some of its events.
struct Comparison {
    record: u32,
    /// The tracepoints without which such events cannot be seen.
    needs: &'static [&'static str],
    /// How many events there were at least; `None` if this kernel lacks a counter.
    counted: fn(&dyn Fn(Counter) -> Option<u64>) -> Option<u64>,
    seen: fn(&Seen) -> u64,
}

/// What is compared. Of a kind with several counters the largest difference counts.
const COMPARISONS: [Comparison; 13] = [
    // Handshakes that go on at the end are counted, too: see `Unseen`.
    Comparison {
        record: kind::OPENED,
        needs: &[],
        counted: |moved| Some(moved(Counter::TcpActiveOpens)? + moved(Counter::TcpPassiveOpens)?),
        seen: |seen| seen.handshakes,
    },
    Comparison {
        record: kind::CLOSED,
        needs: &[],
        counted: |moved| moved(Counter::TcpEstabResets),
        seen: |seen| seen.closes,
    },
    // net/ipv4/tcp.c, __tcp_close(): by TCP_LINGER2
    Comparison {
        record: kind::CLOSED,
        needs: &[],
        counted: |moved| moved(Counter::TcpAbortOnLinger),
        seen: |seen| seen.half_closed,
    },
    Comparison {
        record: kind::RETRANSMITTED,
        needs: &["tcp_retransmit_skb", "tcp_retransmit_synack"],
        counted: |moved| without_failed(moved, Counter::TcpRetransSegs),
        seen: |seen| seen.segments,
    },
    Comparison {
        record: kind::RETRANSMITTED,
        needs: &["tcp_retransmit_skb", "tcp_retransmit_synack"],
        counted: |moved| without_failed(moved, Counter::TcpSynRetrans),
        seen: |seen| seen.syns,
    },
    Comparison {
        record: kind::ACCEPT_OVERFLOWS,
        needs: &[OVERFLOWS],
        counted: |moved| moved(Counter::ListenOverflows),
        seen: |seen| seen.accept_overflows,
    },
    // A request that was to get a cookie can find the accept queue full: net/ipv4/tcp_input.c, tcp_conn_request()
    Comparison {
        record: kind::SYN_OVERFLOWS,
        needs: &[OVERFLOWS],
        counted: |moved| {
            let cookies =
                moved(Counter::TcpReqQFullDoCookies)?.saturating_sub(moved(Counter::ListenOverflows)?);
            Some(moved(Counter::TcpReqQFullDrop)? + cookies)
        },
        seen: |seen| seen.syn_overflows,
    },
    // All that are sent; those of no connection have no event, and are counted aside.
    Comparison {
        record: kind::RESET_SENT,
        needs: &[ALL_RESETS],
        counted: |moved| moved(Counter::TcpOutRsts),
        seen: |seen| seen.resets + seen.aside.resets,
    },
    // Those that a close sends, less those that found no memory.
    Comparison {
        record: kind::RESET_SENT,
        needs: &[],
        counted: |moved| {
            let sent = moved(Counter::TcpAbortOnClose)? + moved(Counter::TcpAbortOnLinger)?;
            Some(sent.saturating_sub(moved(Counter::TcpAbortFailed)?))
        },
        seen: |seen| seen.resets,
    },
    // net/ipv4/tcp_input.c: what tcp_undo_cwnd_reduction() is called for
    Comparison {
        record: kind::UNDONE,
        needs: &["tcp_cong_state_set"],
        counted: |moved| {
            let of_loss = moved(Counter::TcpFullUndo)? + moved(Counter::TcpLossUndo)?;
            Some(of_loss + moved(Counter::TcpPartialUndo)? + moved(Counter::TcpDsackUndo)?)
        },
        seen: |seen| seen.undos,
    },
    // net/ipv4/tcp_output.c: tcp_select_window(). Those of peers no counter has.
    Comparison {
        record: kind::WINDOW_IS_ZERO,
        needs: &["net_dev_queue"],
        counted: |moved| moved(Counter::TcpToZeroWindowAdv),
        seen: |seen| seen.zero_windows,
    },
    // Also of those that were zero before the watch
    Comparison {
        record: kind::WINDOW_IS_OPEN,
        needs: &["net_dev_queue"],
        counted: |moved| moved(Counter::TcpFromZeroWindowAdv),
        seen: |seen| seen.windows_opened,
    },
    // net/ipv4/udp.c: __udp_queue_rcv_skb()
    Comparison {
        record: kind::UDP_FAILED,
        needs: &["udp_fail_queue_rcv_skb"],
        counted: |moved| {
            let of_v4 = moved(Counter::UdpRcvbufErrors)? + moved(Counter::UdpMemErrors).unwrap_or(0);
            let of_v6 = [Counter::Udp6RcvbufErrors, Counter::Udp6MemErrors]
                .map(|counter| moved(counter).unwrap_or(0));
            Some(of_v4 + of_v6[0] + of_v6[1])
        },
        seen: |seen| seen.aside.not_queued,
    },
];

/// How many were sent: the counter also counts those that could not be.
fn without_failed(moved: &dyn Fn(Counter) -> Option<u64>, counter: Counter) -> Option<u64> {
    Some(moved(counter)?.saturating_sub(moved(Counter::TcpRetransFail)?))
}

const OVERFLOWS: &str = "cgroup_skb/ingress";
/// The tracepoint with RSTs of no socket, which not each kernel reports.
pub(crate) const ALL_RESETS: &str = "tcp_send_reset without a socket";

/// How many events of each kind of records are missing at least.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unseen([u64; KINDS]);

impl Default for Unseen {
    fn default() -> Self {
        Self([0; KINDS])
    }
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
        let is_complete = |kind: &KindCounts| kind.lost + kind.left_out == 0;
        // Which of both it was the counter does not say.
        let are_opens_complete = is_complete(&counts.kinds[kind::FAILED as usize]);
        for (record, (kind, unseen)) in counts.kinds.iter_mut().zip(self.0).enumerate() {
            if is_complete(kind) && (are_opens_complete || record != kind::OPENED as usize) {
                kind.unseen = unseen.max(kind.unseen);
            }
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

/// What can be compared: for each of [`COMPARISONS`], whether its kind is watched and seen.
type Compared = [bool; COMPARISONS.len()];

impl CountedBefore {
    /// Reads the counters soon, on another thread, once the programs are attached; `None` where they have more than the programs are to show.
    pub(crate) fn begin(
        args: &EventsArgs,
        options: &ConnectionOptions,
        missing: impl Fn(&str) -> bool,
    ) -> Option<Self> {
        if options.ends != Ends::ANYWHERE || args.ipv4 || args.ipv6 {
            return None;
        }
        let protocols = kinds::protocols(args);
        let has_tcp = protocols.tcp || protocols.mptcp;
        let is_watched = |record: u32| {
            let mut records = RECORDS.iter().filter(|(kind, ..)| *kind == record);
            let is_shown = records.any(|(.., event)| args.shows(*event));
            is_shown && options.kinds.contains(&record)
        };
        let compared = COMPARISONS.map(|comparison| {
            let is_of_udp = comparison.record == kind::UDP_FAILED;
            is_watched(comparison.record)
                && (comparison.record != kind::OPENED || is_watched(kind::FAILED))
                && (if is_of_udp { protocols.udp } else { has_tcp })
                && !comparison.needs.iter().any(|event| missing(event))
        });
        if !compared.contains(&true) {
            return None;
        }
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

    /// Whether some events of a kind of records are compared with a counter. Failed opens are, with opens.
    pub(crate) fn has(&self, record: u32) -> bool {
        let record = if record == kind::FAILED {
            kind::OPENED
        } else {
            record
        };
        let mut all = COMPARISONS.iter().zip(self.compared);
        all.any(|(comparison, is_compared)| is_compared && comparison.record == record)
            && self.namespaces() > 0
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
            let mut here = Unseen::default();
            for (comparison, is_compared) in COMPARISONS.iter().zip(self.compared) {
                let counted = (comparison.counted)(&moved).filter(|_| is_compared);
                let missing = counted.unwrap_or(0).saturating_sub((comparison.seen)(&seen));
                let of_kind = &mut here.0[comparison.record as usize];
                *of_kind = missing.max(*of_kind);
            }
            let opens = &mut here.0[kind::OPENED as usize];
            if *opens > 0 {
                *opens = opens.saturating_sub(pending(*netns));
            }
            for (all, here) in all.0.iter_mut().zip(here.0) {
                *all += here;
            }
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
    const ALL: Compared = [true; COMPARISONS.len()];

    fn counters(values: &[(Counter, u64)]) -> BTreeMap<NetnsInode, Counters> {
        let mut all = Counters::default();
        for counter in Counter::ALL {
            all.set(*counter, 10);
        }
        for (counter, value) in values {
            all.set(*counter, 10 + value);
        }
        BTreeMap::from([(NETNS, all)])
    }

    fn event(kind: ConnectionEventKind, old_state: State) -> ConnectionEvent {
        let mut socket = Socket::new(Protocol::Tcp, State::Close);
        socket.netns = Some(NETNS);
        let mut event = ConnectionEvent::new(kind, 1, socket);
        event.old_state = old_state;
        event
    }

    fn seen(events: &[(ConnectionEventKind, State)]) -> SeenByNetns {
        let mut seen = SeenByNetns::default();
        for (kind, old_state) in events {
            seen.add(&event(*kind, *old_state));
        }
        seen
    }

    fn unseen(of: &[(u32, u64)]) -> Unseen {
        let mut all = Unseen::default();
        for (record, count) in of {
            all.0[*record as usize] = *count;
        }
        all
    }

    fn moved(values: &[(Counter, u64)]) -> CountedBetween {
        CountedBetween {
            before: counters(&[]),
            after: counters(values),
            compared: ALL,
        }
    }

    #[track_caller]
    fn check(
        values: &[(Counter, u64)],
        events: &[(ConnectionEventKind, State)],
        pending: u64,
        expected: &[(u32, u64)],
    ) {
        let found = moved(values).unseen(&seen(events), |_| pending);
        assert_eq!(found, unseen(expected));
    }

    #[test]
    fn what_counters_have_more_is_unseen() {
        use ConnectionEventKind::{AcceptOverflow, Close, Fail, Open, Retransmit, SynOverflow};
        let values = [
            (Counter::TcpActiveOpens, 3),
            (Counter::TcpPassiveOpens, 2),
            (Counter::TcpEstabResets, 2),
            (Counter::TcpRetransSegs, 4),
            (Counter::TcpRetransFail, 1),
            (Counter::ListenOverflows, 2),
            (Counter::TcpReqQFullDrop, 1),
            (Counter::TcpReqQFullDoCookies, 3),
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
        let others = [
            (kind::CLOSED, 1),
            (kind::RETRANSMITTED, 2),
            (kind::ACCEPT_OVERFLOWS, 1),
            (kind::SYN_OVERFLOWS, 1),
        ];
        for (pending, opens) in [(0, 2), (1, 1), (9, 0)] {
            let expected = [&others[..], &[(kind::OPENED, opens)]].concat();
            check(&values, &events, pending, &expected);
        }
    }

    #[test]
    fn each_kind_that_a_counter_counts_is_compared() {
        for (counter, record) in [
            (Counter::TcpOutRsts, kind::RESET_SENT),
            (Counter::TcpAbortOnClose, kind::RESET_SENT),
            (Counter::TcpFullUndo, kind::UNDONE),
            (Counter::TcpPartialUndo, kind::UNDONE),
            (Counter::TcpDsackUndo, kind::UNDONE),
            (Counter::TcpLossUndo, kind::UNDONE),
            (Counter::TcpToZeroWindowAdv, kind::WINDOW_IS_ZERO),
            (Counter::TcpFromZeroWindowAdv, kind::WINDOW_IS_OPEN),
            (Counter::UdpRcvbufErrors, kind::UDP_FAILED),
            (Counter::UdpMemErrors, kind::UDP_FAILED),
            (Counter::Udp6RcvbufErrors, kind::UDP_FAILED),
            (Counter::Udp6MemErrors, kind::UDP_FAILED),
        ] {
            check(&[(counter, 3)], &[], 0, &[(record, 3)]);
        }
        let values = [(Counter::TcpRetransSegs, 2), (Counter::TcpSynRetrans, 2)];
        let data = [(ConnectionEventKind::Retransmit, State::Established); 2];
        check(&values, &data, 0, &[(kind::RETRANSMITTED, 2)]);
        let values = [(Counter::TcpAbortOnLinger, 2)];
        let closed = [(ConnectionEventKind::Close, State::FinWait2)];
        check(&values, &closed, 0, &[(kind::CLOSED, 1), (kind::RESET_SENT, 2)]);
    }

    #[test]
    fn what_is_counted_aside_is_seen() {
        let mut seen = seen(&[(ConnectionEventKind::ResetSent, State::Established)]);
        let aside = CountedAside {
            resets: 2,
            not_queued: 4,
        };
        seen.set_aside(BTreeMap::from([(NETNS.0, aside)]));
        let between = moved(&[(Counter::TcpOutRsts, 4), (Counter::UdpRcvbufErrors, 4)]);
        assert_eq!(between.unseen(&seen, |_| 0), unseen(&[(kind::RESET_SENT, 1)]));
    }

    #[test]
    fn window_of_a_peer_is_none_that_a_counter_has() {
        let mut seen = SeenByNetns::default();
        for (side, expected) in [(Side::Peer, 1), (Side::Local, 0)] {
            let mut zero = event(ConnectionEventKind::ZeroWindow, State::Established);
            zero.details.window_of = Some(side);
            seen.add(&zero);
            let found = moved(&[(Counter::TcpToZeroWindowAdv, 1)]).unseen(&seen, |_| 0);
            assert_eq!(found, unseen(&[(kind::WINDOW_IS_ZERO, expected)]));
        }
    }

    #[test]
    fn more_events_than_counted_hide_nothing_of_other_kinds() {
        let events = [(ConnectionEventKind::Open, State::SynSent); 9];
        check(
            &[(Counter::TcpActiveOpens, 3), (Counter::TcpEstabResets, 1)],
            &events,
            0,
            &[(kind::CLOSED, 1)],
        );
    }

    #[test]
    fn kinds_without_a_counter_are_known() {
        let between = moved(&[]);
        for (record, is_compared) in [
            (kind::FAILED, true),
            (kind::UNDONE, true),
            (kind::RESET_RECEIVED, false),
            (kind::UDP_USED, false),
        ] {
            assert_eq!(between.has(record), is_compared, "{record}");
        }
        let nothing = CountedBetween {
            before: BTreeMap::new(),
            ..between
        };
        assert!(!nothing.has(kind::UNDONE));
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
        let unseen = unseen(&[(kind::OPENED, 2), (kind::CLOSED, 3)]);
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

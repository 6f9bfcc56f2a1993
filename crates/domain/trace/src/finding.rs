//! What is to be said about a connection: what slowed it down, or that it is healthy.
//!
//! Findings follow from the figures of a [`Connection`] alone. Each has the time that it cost, so that the worst comes
//! first; what cost hardly anything is minor. A connection without other than minor findings is healthy. It is mostly idle if
//! no end wanted to send for half of its time.

mod figures;
mod kind;

use crate::{Completeness, Connection, Direction, Ending, EventKind, Flag, Limit, Side, Turn};
pub use kind::FindingKind;
use sockeye_wire::packet::IcmpKind;

/// A statement about a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Finding {
    /// What it is
    pub kind: FindingKind,
    /// Direction of the data that is concerned
    pub direction: Direction,
    /// Time that it cost, as far as known, in nanoseconds
    pub cost_ns: u64,
    /// Whether it cost hardly anything, or is no fault
    pub is_minor: bool,
}

/// Returns what is to be said about a connection, the most important first; never nothing.
#[must_use]
pub fn findings(connection: &Connection) -> Vec<Finding> {
    let mut found = Findings {
        connection,
        all: Vec::new(),
    };
    found.before_the_handshake();
    let is_established = !matches!(connection.ending, Ending::Refused | Ending::Unanswered);
    let is_whole = connection.forward.packets > 0 && connection.backward.packets > 0;
    if is_established && is_whole {
        // Times that run backwards again and again show nothing about programs and delays.
        let packets = connection
            .forward
            .packets
            .saturating_add(connection.backward.packets);
        let is_timed = connection.times_backwards.saturating_mul(BACKWARD_EVERY) <= packets;
        if is_timed {
            found.programs();
            found.delays();
        }
        for direction in [Direction::Forward, Direction::Backward] {
            found.losses(direction);
            found.path_mtu(direction);
            found.other_segments(direction);
            if is_timed {
                found.small_writes(direction);
            }
        }
        found.limits();
    }
    found.end();
    found.finish()
}

struct Findings<'a> {
    connection: &'a Connection,
    all: Vec<Finding>,
}

impl Findings<'_> {
    fn add(&mut self, kind: FindingKind, direction: Direction, cost_ns: u64) {
        self.all.push(Finding {
            kind,
            direction,
            cost_ns,
            is_minor: false,
        });
    }

    fn add_minor(&mut self, kind: FindingKind, direction: Direction, cost_ns: u64) {
        self.all.push(Finding {
            kind,
            direction,
            cost_ns,
            is_minor: true,
        });
    }

    /// Time in which any end had something to send, in nanoseconds.
    fn busy_ns(&self) -> u64 {
        let times = &self.connection.exchanges.times;
        let idle_ns = self
            .connection
            .client_idle_ns()
            .saturating_add(times.of(Turn::AfterLast));
        self.connection.duration_ns().saturating_sub(idle_ns).max(1)
    }

    /// Whether this time is hardly noticed.
    fn is_cheap(&self, cost_ns: u64) -> bool {
        cost_ns <= self.busy_ns() / 20 || cost_ns <= self.connection.duration_ns() / 50
    }

    /// Whether this direction's data goes to an end that vanished.
    fn goes_nowhere(&self, direction: Direction) -> bool {
        match self.connection.ending {
            Ending::ClientVanished => direction == Direction::Backward,
            Ending::ServerVanished => direction == Direction::Forward,
            _ => false,
        }
    }

    fn before_the_handshake(&mut self) {
        let connection = self.connection;
        let forward = Direction::Forward;
        if let Some(lookup) = &connection.lookup
            && lookup.took_ns >= LOOKUP_NS
        {
            self.add(FindingKind::NameLookupSlow, forward, lookup.took_ns);
        }
        let waited_ns = connection.exchanges.times.of(Turn::Setup);
        if let Some(report) = connection.undelivered() {
            let kind = match report.kind {
                IcmpKind::Prohibited => FindingKind::IcmpProhibited,
                IcmpKind::TimeExceeded => FindingKind::IcmpTimeExceeded,
                _ => FindingKind::IcmpUnreachable,
            };
            let cost_ns = if connection.is_delivered_after(report) {
                let shares = &connection.side(report.direction).shares;
                waited_ns.saturating_add(shares.of(Limit::Timeout))
            } else {
                connection.duration_ns()
            };
            self.add(kind, report.direction, cost_ns.max(1));
        } else if connection.ending == Ending::Unanswered {
            self.add(FindingKind::Unanswered, forward, connection.duration_ns().max(1));
        }
        let is_one_way = connection.forward.packets == 0 || connection.backward.packets == 0;
        match connection.ending {
            Ending::Refused => self.add(FindingKind::Refused, forward, waited_ns),
            Ending::Unanswered => {}
            _ if is_one_way => self.add(FindingKind::OneDirection, forward, 0),
            _ if (connection.syns > 1 || connection.syn_acks > 1) && !connection.is_syn_needless => {
                if waited_ns >= SYN_TIMEOUT_NS {
                    self.add(FindingKind::SynLost, forward, waited_ns);
                } else {
                    self.add_minor(FindingKind::SynLost, forward, waited_ns);
                }
            }
            _ => {
                let round_trip_ns = connection.round_trip_ns();
                if waited_ns >= SETUP_NS && waited_ns >= round_trip_ns.saturating_mul(SETUP_ROUND_TRIPS) {
                    self.add(
                        FindingKind::SetupSlow,
                        forward,
                        waited_ns.saturating_sub(round_trip_ns),
                    );
                }
            }
        }
    }

    /// Whose program took the time.
    fn programs(&mut self) {
        let connection = self.connection;
        let (exchanges, total_ns) = (&connection.exchanges, connection.duration_ns().max(1));
        let times = &exchanges.times;
        // Delays of the path that only one direction shows are not the program's.
        let varies_ns = |side: &Side| {
            let one_way = &side.variation.one_way;
            if one_way.count >= SAMPLES_MIN {
                one_way.p90_ns
            } else {
                0
            }
        };
        let path_ns = varies_ns(&connection.forward).max(varies_ns(&connection.backward));
        let long_ns = SLOW_NS.max(connection.round_trip_ns()).max(path_ns);
        let mut server_ns = 0;
        let pauses = &exchanges.server_pauses;
        // A server that sends on its own now and then sends no answers.
        let is_pushing = pauses.count > FEW_PAUSES.max(2 * exchanges.server.count)
            && 2 * pauses.p50_ns >= exchanges.server.max_ns;
        if exchanges.server.max_ns >= long_ns && !is_pushing {
            server_ns += exchanges.slow_answers_ns;
        }
        if exchanges.server.count > 0
            && exchanges.server.p50_ns >= (SLOW_NS / 2).max(connection.round_trip_ns())
            && times.of(Turn::ServerWorks) >= total_ns / 4
        {
            server_ns = server_ns.max(times.of(Turn::ServerWorks));
        }
        // Shorter answers than those that a person notices, but they are what the time was spent on.
        let works_ns = times.of(Turn::ServerWorks);
        if exchanges.server.count > FEW_PAUSES
            && exchanges.server.p50_ns >= SHORT_NS.max(5 * connection.round_trip_ns())
            && works_ns >= SLOW_NS.max(total_ns / 2)
            && !is_pushing
        {
            server_ns = server_ns.max(works_ns);
        }
        server_ns += exchanges.unanswered_ns.unwrap_or(0);
        if exchanges.is_server_first && times.of(Turn::BeforeFirst) >= long_ns {
            server_ns += times.of(Turn::BeforeFirst);
        }
        let is_interrupted = pauses.count <= FEW_PAUSES && exchanges.interruption_max_ns >= long_ns;
        if is_interrupted && exchanges.server.count > 0 {
            server_ns += exchanges.interrupted_ns;
        }
        if server_ns > 0 {
            let is_usual = exchanges.slow_answers.saturating_mul(2) >= exchanges.server.count;
            if server_ns >= total_ns / 10 || is_usual && server_ns >= total_ns / 50 {
                self.add(FindingKind::ServerSlow, Direction::Backward, server_ns);
            } else {
                self.add_minor(FindingKind::ServerSlow, Direction::Backward, server_ns);
            }
        }
        let idle_ns = connection.client_idle_ns();
        if idle_ns >= total_ns / 10 * 3 && idle_ns >= IDLE_NS_MIN {
            self.add_minor(FindingKind::ClientIdle, Direction::Forward, idle_ns);
        }
        for (direction, pauses, turn) in [
            (Direction::Forward, &exchanges.client_pauses, Turn::ClientPauses),
            (Direction::Backward, &exchanges.server_pauses, Turn::ServerPauses),
        ] {
            let side = connection.side(direction);
            let is_steady =
                pauses.count > FEW_PAUSES && pauses.p50_ns < PACED_NS && side.bytes >= PACED_BYTES;
            let is_in_pieces = pauses.count > 1
                && pauses.p50_ns < 10 * PACED_NS
                && side.bytes / (pauses.count + 1) >= PACED_BYTES / 4;
            let is_slow_server = direction == Direction::Backward && server_ns > 0;
            if (is_steady || is_in_pieces) && !is_slow_server && times.of(turn) >= total_ns / 10 * 4 {
                self.add(FindingKind::SenderPaced, direction, times.of(turn));
                continue;
            }
            // Pauses below a round trip show as time with nothing to send while its turn lasts.
            let sends_ns = times
                .of(if direction == Direction::Forward {
                    Turn::ClientSends
                } else {
                    Turn::ServerSends
                })
                .saturating_add(times.of(turn));
            let without_ns = side
                .shares
                .of(Limit::Application)
                .saturating_sub(total_ns.saturating_sub(sends_ns));
            let is_one_way = side.bytes >= PACED_BYTES && sends_ns >= total_ns / 2;
            let has_waited_for_window = side.bound.window_ns >= total_ns / 10;
            if is_one_way
                && !is_slow_server
                && !has_waited_for_window
                && without_ns >= total_ns / 10 * 4
                && without_ns >= IDLE_NS_MIN
            {
                self.add(FindingKind::SenderPaced, direction, without_ns);
            }
        }
    }

    fn losses(&mut self, direction: Direction) {
        let connection = self.connection;
        let side = connection.side(direction);
        let timeouts = connection.data_timeouts(direction);
        let (shares, judgements) = (&side.shares, &side.judgements);
        let recovery_ns = shares
            .of(Limit::FastRecovery)
            .saturating_add(shares.of(Limit::Timeout));
        let is_cheap = self.is_cheap(recovery_ns);
        let is_explained =
            self.only_too_big(direction) || self.goes_nowhere(direction) && judgements.lost <= FEW_LOSSES;
        let is_unreachable = connection
            .undelivered()
            .is_some_and(|report| report.direction == direction && judgements.lost <= report.count);
        if judgements.lost > 0 && !is_explained && !is_unreachable && !self.is_bloated(direction) {
            let is_rare = judgements.lost.saturating_mul(RARE_LOSS) <= side.packets;
            let held_ns = if is_rare {
                0
            } else {
                shares.of(Limit::CongestionWindow)
            };
            let cost_ns = recovery_ns.saturating_add(held_ns);
            let behind = judgements.lost.saturating_sub(judgements.lost_before);
            let is_minor = is_cheap && (is_rare || recovery_ns <= connection.duration_ns() / 50);
            let mut kinds = Vec::new();
            if side.verdict.queue_segs.is_some() {
                kinds.push(FindingKind::QueueOverflow);
            } else if behind.saturating_mul(10) > judgements.lost {
                kinds.push(FindingKind::PathLoss);
            }
            if judgements.lost_before.saturating_mul(10) > judgements.lost
                && kinds.first() != Some(&FindingKind::QueueOverflow)
            {
                kinds.push(FindingKind::LossBeforeCapture);
            }
            for kind in kinds {
                self.all.push(Finding {
                    kind,
                    direction,
                    cost_ns,
                    is_minor,
                });
            }
        }
        let has_vanished = matches!(connection.ending, Ending::ClientVanished | Ending::ServerVanished);
        if timeouts > 0 && !has_vanished {
            let cost_ns = shares.of(Limit::Timeout);
            self.all.push(Finding {
                kind: FindingKind::RetransmissionTimeouts,
                direction,
                cost_ns,
                is_minor: self.is_cheap(cost_ns),
            });
        }
    }

    /// Whether a long queue on the path of this direction is known: what is lost, it drops.
    fn is_bloated(&self, direction: Direction) -> bool {
        self.all
            .iter()
            .any(|finding| finding.kind == FindingKind::Bufferbloat && finding.direction == direction)
    }

    /// Whether the sender of this direction is known to write with pauses.
    fn is_paced(&self, direction: Direction) -> bool {
        self.all
            .iter()
            .any(|finding| finding.kind == FindingKind::SenderPaced && finding.direction == direction)
    }

    /// Whether all that was lost was too big for the path, as ICMP reported.
    fn only_too_big(&self, direction: Direction) -> bool {
        let connection = self.connection;
        let Some(report) = connection.too_big(direction) else {
            return false;
        };
        let from_client = direction == Direction::Forward;
        let near_ns = TOO_BIG_NS.max(2 * connection.round_trip_ns());
        connection
            .events
            .iter()
            .filter(|event| event.kind == EventKind::Lost && event.from_client == from_client)
            .all(|event| event.time_ns.abs_diff(report.time_ns) <= near_ns)
    }

    /// Segments that came late, twice or without need.
    fn other_segments(&mut self, direction: Direction) {
        let side = self.connection.side(direction);
        let (judgements, shares) = (&side.judgements, &side.shares);
        let recovery_ns = shares
            .of(Limit::FastRecovery)
            .saturating_add(shares.of(Limit::Timeout));
        let cost_ns = if judgements.lost == 0 { recovery_ns } else { 0 };
        let is_minor = self.is_cheap(cost_ns);
        for (kind, count, is_fault) in [
            (FindingKind::Reordering, judgements.reordered, true),
            (FindingKind::SpuriousRetransmissions, judgements.spurious, true),
            (FindingKind::UnclearRetransmissions, judgements.unclear, true),
            (FindingKind::Duplicates, judgements.duplicated_by_network, false),
            (
                FindingKind::CapturedTwice,
                judgements.duplicated_by_capture,
                false,
            ),
            (
                FindingKind::MissingInCapture,
                judgements.missing_in_capture,
                false,
            ),
        ] {
            if count > 0 {
                let cost_ns = if is_fault { cost_ns } else { 0 };
                self.all.push(Finding {
                    kind,
                    direction,
                    cost_ns,
                    is_minor: is_minor || !is_fault,
                });
            }
        }
    }

    fn path_mtu(&mut self, direction: Direction) {
        let side = self.connection.side(direction);
        let evidence = &side.path_mtu;
        let is_stuck = evidence.stuck_times >= STUCK_TIMES
            && evidence.stuck_bytes >= LARGE_BYTES
            && evidence.stuck_bytes > evidence.delivered_bytes;
        let cost_ns = side.shares.of(Limit::Timeout);
        match self.connection.too_big(direction) {
            Some(_) if !is_stuck || evidence.is_delivered => {
                self.add_minor(FindingKind::PmtuDiscovery, direction, 0);
            }
            None if !is_stuck => {}
            _ => self.add(FindingKind::PmtuBlackHole, direction, cost_ns.max(1)),
        }
    }

    fn small_writes(&mut self, direction: Direction) {
        let writes = self.connection.side(direction).small_writes;
        if writes.count >= SMALL_WRITES_MIN && writes.waited_ns >= self.busy_ns() / 10 {
            self.add(FindingKind::NagleDelayedAck, direction, writes.waited_ns);
        }
    }

    /// What limited the main direction while it had data to send.
    fn limits(&mut self) {
        let connection = self.connection;
        let direction = connection.main_direction();
        let side = connection.side(direction);
        let peer = connection.side(match direction {
            Direction::Forward => Direction::Backward,
            Direction::Backward => Direction::Forward,
        });
        let shares = &side.shares;
        let idle_ns = shares
            .of(Limit::Application)
            .saturating_add(shares.of(Limit::Setup));
        let busy_ns = shares.total().saturating_sub(idle_ns);
        let matters = |limit: Limit| {
            let ns = shares.of(limit);
            let is_most = side.verdict.limit == Some(limit);
            let is_part = ns >= busy_ns / 3 && ns >= LIMIT_NS_MIN && ns >= connection.round_trip_ns() * 2;
            ns > 0 && (is_most || is_part)
        };
        let has_losses = side.judgements.lost > 0 || side.judgements.timeouts > 0;
        // Whole round trips that ended at a limit show it although pacing or a reader hides it for moments.
        let bound = side.bound_limit();
        let bound_ns = |limit: Limit| bound.filter(|(bound, _)| *bound == limit).map(|(_, ns)| ns);
        let mut is_explained = false;
        if matters(Limit::ReceiverWindow) || bound_ns(Limit::ReceiverWindow).is_some() {
            is_explained = true;
            let has_closed = peer.flags[Flag::ZeroWindow as usize] > 0;
            let kind = if side.small_windows >= SMALL_WINDOWS_MIN && side.small_windows * 4 >= peer.packets {
                FindingKind::SillyWindow
            } else if has_closed
                || side.bound.is_window_uneven && connection.negotiated.window_scaling.is_some()
            {
                FindingKind::SlowReader
            } else {
                FindingKind::ReceiverWindow
            };
            let cost_ns = shares.of(Limit::ReceiverWindow);
            self.add(
                kind,
                direction,
                bound_ns(Limit::ReceiverWindow).unwrap_or(0).max(cost_ns).max(1),
            );
        }
        if matters(Limit::SendBuffer) || bound_ns(Limit::SendBuffer).is_some() {
            is_explained = true;
            let cost_ns = shares.of(Limit::SendBuffer);
            let bound_ns = bound_ns(Limit::SendBuffer).unwrap_or(0);
            self.add(FindingKind::SendBuffer, direction, cost_ns.max(bound_ns).max(1));
        }
        let times = &connection.exchanges.times;
        let sends_ns = match direction {
            // Both send at once: there are no turns.
            _ if connection.carries_both() => connection.duration_ns(),
            Direction::Forward => times.of(Turn::ClientSends),
            Direction::Backward => times.of(Turn::ServerSends),
        };
        if matters(Limit::CongestionWindow)
            && !has_losses
            && !is_explained
            && !self.is_bloated(direction)
            && !self.is_paced(direction)
            && side.bytes >= MUCH_DATA
            && sends_ns >= connection.duration_ns() / 2
        {
            self.add_minor(
                FindingKind::PathLimited,
                direction,
                shares.of(Limit::CongestionWindow).max(1),
            );
        }
    }

    /// How delays vary.
    fn delays(&mut self) {
        let connection = self.connection;
        let mut is_bloated = false;
        for direction in [Direction::Forward, Direction::Backward] {
            let side = connection.side(direction);
            let (rtt, variation) = (&side.rtt, &side.variation);
            let long_ns = connection.duration_ns();
            if side.bytes < MUCH_DATA || long_ns < BLOAT_LASTS_NS {
                continue;
            }
            let is_much = |base_ns: u64, p50_ns: u64, p90_ns: u64| {
                p50_ns >= BLOAT_P50_NS.max(base_ns) || p90_ns >= BLOAT_NS.max(base_ns)
            };
            let grows = rtt.count >= SAMPLES_MIN
                && is_much(
                    rtt.min_ns,
                    rtt.p50_ns.saturating_sub(rtt.min_ns),
                    rtt.p90_ns.saturating_sub(rtt.min_ns),
                )
                && variation.flight_correlation_percent >= Some(CORRELATED_PERCENT);
            // Behind the queue, the delay grows and shrinks slowly.
            let one_way = &variation.one_way;
            let fills = one_way.count >= SAMPLES_MIN
                && is_much(connection.round_trip_ns(), one_way.p50_ns, one_way.p90_ns)
                && variation.one_way_step_ns <= one_way.p90_ns / 25
                && variation.one_way_correlation_percent >= Some(ONE_WAY_CORRELATED_PERCENT);
            let is_counted = side.verdict.queue_segs.is_some();
            if (grows || fills) && !is_counted {
                is_bloated = true;
                let shares = &side.shares;
                let waited_ns = [Limit::CongestionWindow, Limit::FastRecovery, Limit::Timeout]
                    .into_iter()
                    .fold(0_u64, |sum, limit| sum.saturating_add(shares.of(limit)));
                self.add(FindingKind::Bufferbloat, direction, waited_ns.max(1));
            }
        }
        if is_bloated {
            return;
        }
        let varies = |direction: &Direction| {
            let variation = &connection.side(*direction).variation;
            let one_way = &variation.one_way;
            // A few bytes fill no queue.
            let is_small = connection.side(*direction).bytes < MUCH_DATA;
            let is_rough = variation.one_way_step_ns >= one_way.p90_ns / 6;
            one_way.count >= SAMPLES_MIN
                && (is_rough && one_way.p90_ns >= JITTER_NS.max(connection.round_trip_ns())
                    || is_small && one_way.p90_ns >= (2 * JITTER_NS).max(connection.round_trip_ns() / 2))
        };
        let worst = [Direction::Forward, Direction::Backward]
            .into_iter()
            .filter(varies)
            .max_by_key(|direction| connection.side(*direction).variation.one_way.p90_ns);
        if let Some(direction) = worst {
            let one_way = &connection.side(direction).variation.one_way;
            let turns = u64::from(connection.turns).max(1);
            let usual_ns = one_way.p50_ns.max(one_way.p90_ns / 10);
            self.add(FindingKind::Jitter, direction, usual_ns.saturating_mul(turns));
        }
    }

    fn end(&mut self) {
        let connection = self.connection;
        if connection.times_backwards > 0 {
            self.add_minor(FindingKind::BackwardTimes, Direction::Forward, 0);
        }
        let vanished = |end: Direction| {
            let waits = match end {
                Direction::Forward => Direction::Backward,
                Direction::Backward => Direction::Forward,
            };
            connection.side(waits).shares.of(Limit::Timeout).max(1)
        };
        if connection.forward.packets == 0 || connection.backward.packets == 0 {
            return;
        }
        let has_hole = self
            .all
            .iter()
            .any(|finding| finding.kind == FindingKind::PmtuBlackHole);
        match connection.ending {
            Ending::ClientVanished if !has_hole => {
                self.add(
                    FindingKind::PeerVanished,
                    Direction::Forward,
                    vanished(Direction::Forward),
                );
            }
            Ending::ServerVanished if !has_hole => {
                self.add(
                    FindingKind::PeerVanished,
                    Direction::Backward,
                    vanished(Direction::Backward),
                );
            }
            Ending::ResetByClient | Ending::ResetByServer => {
                let direction = if connection.ending == Ending::ResetByClient {
                    Direction::Forward
                } else {
                    Direction::Backward
                };
                if connection.idle_before_reset_ns.is_some() {
                    self.add(FindingKind::ResetAfterIdle, direction, connection.duration_ns());
                } else if connection.ending == Ending::ResetByServer
                    && connection.completeness.0 & Completeness::FIN == 0
                {
                    self.add(FindingKind::Reset, direction, 0);
                } else {
                    // Clients abort connections that they need no more; after a FIN, data that comes late is reset.
                    self.add_minor(FindingKind::Reset, direction, 0);
                }
            }
            _ => {}
        }
    }

    fn finish(mut self) -> Vec<Finding> {
        self.all
            .sort_by_key(|finding| (finding.is_minor, std::cmp::Reverse(finding.cost_ns)));
        let has_fault = self.all.iter().any(|finding| !finding.is_minor);
        if has_fault {
            return self.all;
        }
        let connection = self.connection;
        let times = &connection.exchanges.times;
        let idle_ns = connection
            .client_idle_ns()
            .saturating_add(times.of(Turn::AfterLast))
            .saturating_add(times.of(Turn::ClientPauses))
            .saturating_add(times.of(Turn::ServerPauses));
        let is_idle = idle_ns > connection.duration_ns() / 2 && idle_ns >= IDLE_NS_MIN;
        // A reset is no end of a healthy connection, whatever came before it.
        if self.all.iter().any(|finding| finding.kind == FindingKind::Reset) {
            self.all.sort_by_key(|finding| finding.kind != FindingKind::Reset);
            return self.all;
        }
        let healthy = Finding {
            kind: if is_idle {
                FindingKind::HealthyIdle
            } else {
                FindingKind::Healthy
            },
            direction: connection.main_direction(),
            cost_ns: 0,
            is_minor: true,
        };
        self.all.insert(0, healthy);
        self.all
    }
}

/// A lookup that takes less is no reason for a slow start.
const LOOKUP_NS: u64 = 300_000_000;

/// A setup that takes so long, and so many round trips, is slow.
const SETUP_NS: u64 = 250_000_000;
const SETUP_ROUND_TRIPS: u64 = 4;

/// A client sends another SYN after a second; some after half of it.
const SYN_TIMEOUT_NS: u64 = 400_000_000;

/// A person notices a wait of this length.
const SLOW_NS: u64 = crate::Exchanges::SLOW_NS;

/// Many answers of this length are noticed together.
const SHORT_NS: u64 = 80_000_000;

/// Pauses up to this number are interruptions, more are the sender's way of writing.
const FEW_PAUSES: u64 = 3;

/// A sender that writes with shorter pauses than this, and this much, has more to send.
const PACED_NS: u64 = 1_000_000_000;
const PACED_BYTES: u64 = 64_000;

/// Shorter times are no idleness.
const IDLE_NS_MIN: u64 = 100_000_000;

/// Bytes that are more than requests.
const MUCH_DATA: u64 = 100_000;

/// One timestamp in so many that runs backwards is a jump of the clock.
const BACKWARD_EVERY: u64 = 20;

/// Retransmissions to an end that vanished look like losses.
const FEW_LOSSES: u64 = 10;

/// One loss in so many segments is rare.
const RARE_LOSS: u64 = 1_000;

/// Retransmissions of the same segment that show that it does not pass.
const STUCK_TIMES: u32 = 3;

/// Segments that may be too large for a path.
const LARGE_BYTES: u32 = 1_000;

/// Small writes that are a habit of the program.
const SMALL_WRITES_MIN: u64 = 3;

/// Small windows that are a habit of the receiver.
const SMALL_WINDOWS_MIN: u64 = 20;

/// A limit that takes less is not noticed.
const LIMIT_NS_MIN: u64 = 10_000_000;

/// Segments that are sent again within this time of an ICMP error answer it.
const TOO_BIG_NS: u64 = 50_000_000;

/// Measured delays that are enough to judge their variation.
const SAMPLES_MIN: u64 = 20;

/// Delays above the shortest that disturb interactive programs, if a queue causes them, and if anything else does.
const BLOAT_NS: u64 = 50_000_000;
const BLOAT_P50_NS: u64 = 25_000_000;
const JITTER_NS: u64 = 20_000_000;

/// The beginning of each transfer fills queues for a moment.
const BLOAT_LASTS_NS: u64 = 1_000_000_000;

/// Correlation that shows a cause.
const CORRELATED_PERCENT: i8 = 70;

/// Far from the sender, the data in flight is known for the time before the delay.
const ONE_WAY_CORRELATED_PERCENT: i8 = 20;

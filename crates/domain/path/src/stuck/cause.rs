//! What data wait for that stand still.

use super::fold::Observed;
use crate::hop::{Direction, HopKind};
use sockeye_model::{Protocol, Queues, Socket, State, TimerKind};
use sockeye_verdict::{has_open_window, unsent_for_ms};

/// What data wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StuckCause {
    /// Data is in the receive queue, and its program does not read.
    Unread,
    /// Segments have arrived, and one before them has not.
    MissingSegment,
    /// Connections are in the accept queue, and their program does not accept.
    NotAccepted,
    /// The window of the peer is closed: the program there does not read.
    PeerWindow,
    /// Data is in a queue of this host below the socket.
    HostQueue,
    /// Data was sent and is not acknowledged.
    Unanswered,
    /// Nothing is under way, though the peer would take more.
    NotSent,
    /// The rate that is allowed is so low.
    Pacing,
    /// An attempt to connect is not answered.
    Connecting,
    /// The answer to an attempt to connect is not acknowledged.
    HalfOpen,
    /// A datagram is not complete, or is in a queue of this host.
    UnsentDatagram,
}

impl StuckCause {
    /// Returns its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unread => "unread",
            Self::MissingSegment => "missing-segment",
            Self::NotAccepted => "not-accepted",
            Self::PeerWindow => "peer-window",
            Self::HostQueue => "host-queue",
            Self::Unanswered => "unanswered",
            Self::NotSent => "not-sent",
            Self::Pacing => "pacing",
            Self::Connecting => "connecting",
            Self::HalfOpen => "half-open",
            Self::UnsentDatagram => "unsent-datagram",
        }
    }

    /// Returns in which part of the way the data wait.
    #[must_use]
    pub const fn hop(self) -> (Direction, HopKind) {
        match self {
            Self::Unread => (Direction::In, HopKind::Socket),
            Self::MissingSegment => (Direction::In, HopKind::Stack),
            Self::NotAccepted | Self::HalfOpen => (Direction::In, HopKind::Accept),
            Self::PeerWindow
            | Self::Unanswered
            | Self::NotSent
            | Self::Pacing
            | Self::Connecting
            | Self::UnsentDatagram => (Direction::Out, HopKind::Send),
            Self::HostQueue => (Direction::Out, HopKind::Qdisc),
        }
    }

    /// Whether the way to the peer says something about it.
    #[must_use]
    pub const fn is_about_the_way(self) -> bool {
        matches!(
            self,
            Self::Unanswered
                | Self::NotSent
                | Self::HostQueue
                | Self::Connecting
                | Self::HalfOpen
                | Self::MissingSegment
                | Self::UnsentDatagram
        )
    }

    /// Returns what the data of a socket wait for, and for how long at least; nothing if they move, or do not wait for long.
    #[must_use]
    pub fn of(socket: &Socket, observed: &Observed) -> Vec<(Self, u64)> {
        let receiving = receiving(socket, observed);
        let sending = sending(socket, observed);
        let found = receiving.into_iter().chain(sending);
        found.filter(|(_, ns)| *ns >= STUCK_NS_MIN).collect()
    }
}

/// Returns a time in nanoseconds.
fn from_ms(ms: impl Into<u64>) -> u64 {
    ms.into().saturating_mul(1_000_000)
}

fn receiving(socket: &Socket, observed: &Observed) -> Option<(StuckCause, u64)> {
    if let Queues::Accept { .. } = socket.queues {
        let ns = observed.unread_ns?;
        return Some((StuckCause::NotAccepted, ns));
    }
    let last = || Some(from_ms(socket.tcp_info.as_ref()?.last_data_recv_ms?));
    if let Some(ns) = observed.unread_ns.filter(|ns| *ns >= OBSERVED_NS_MIN) {
        // All of it has been there since the last data came in.
        return Some((StuckCause::Unread, last().map_or(ns, |last| last.max(ns))));
    }
    let ns = observed.missing_ns.filter(|ns| *ns >= OBSERVED_NS_MIN)?;
    Some((StuckCause::MissingSegment, ns))
}

fn sending(socket: &Socket, observed: &Observed) -> Option<(StuckCause, u64)> {
    let observed_ns = observed.unsent_ns?;
    if socket.protocol != Protocol::Tcp {
        let is_seen = observed_ns >= OBSERVED_NS_MIN;
        return is_seen.then_some((StuckCause::UnsentDatagram, observed_ns));
    }
    let ns = unsent_for_ms(socket).map_or(observed_ns, |ms| from_ms(ms).max(observed_ns));
    let timer = socket.timer;
    let tries = timer.map_or(0, |timer| timer.retransmits);
    match socket.state {
        State::SynSent => return Some((StuckCause::Connecting, ns)),
        State::SynRecv | State::NewSynRecv => return (tries > 0).then_some((StuckCause::HalfOpen, ns)),
        _ => {}
    }
    if observed_ns < OBSERVED_NS_MIN {
        return None;
    }
    let info = socket.tcp_info.as_ref()?;
    let is_probing = timer.is_some_and(|timer| timer.kind == TimerKind::ZeroWindowProbe);
    if info.snd_wnd_bytes == Some(0) {
        return Some((StuckCause::PeerWindow, ns));
    }
    if info.unacked_segs == Some(0) || is_probing {
        let cause = match has_open_window(socket, info) {
            Some(false) => StuckCause::PeerWindow,
            // Before Linux 5.18 the window is not reported: what runs is the timer of its probes.
            None if is_probing && tries > 0 => StuckCause::PeerWindow,
            _ if is_paced(socket) => StuckCause::Pacing,
            _ => StuckCause::NotSent,
        };
        return Some((cause, ns));
    }
    let is_below = observed.lower_ns.is_some_and(|ns| ns >= OBSERVED_NS_MIN);
    // What a queue of this host has thrown away is below no more.
    if is_below {
        return Some((StuckCause::HostQueue, ns));
    }
    Some((StuckCause::Unanswered, ns))
}

/// Whether the rate that is allowed sends a segment less than once a second.
fn is_paced(socket: &Socket) -> bool {
    let info = socket.tcp_info.as_ref();
    let rate = info.and_then(|info| info.pacing_rate_bytes_per_s);
    let segment = info.and_then(|info| info.snd_mss_bytes);
    rate.zip(segment)
        .is_some_and(|(rate, segment)| rate < u64::from(segment))
}

/// Data that wait for less are on their way.
const STUCK_NS_MIN: u64 = 1_000_000_000;
/// What was looked at for less may have moved right after the look.
const OBSERVED_NS_MIN: u64 = 500_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_model::{TcpInfo, Timer};

    const SECOND: u64 = 1_000_000_000;

    fn socket(state: State, info: TcpInfo) -> Socket {
        let mut socket = Socket::new(Protocol::Tcp, state);
        socket.queues = Queues::Data {
            receive_bytes: 0,
            send_bytes: 5000,
        };
        socket.tcp_info = Some(info);
        socket
    }

    fn unsent() -> Observed {
        Observed {
            unsent_ns: Some(2 * SECOND),
            ..Observed::default()
        }
    }

    fn timer(kind: TimerKind, retransmits: u32) -> Option<Timer> {
        Some(Timer {
            kind,
            expires_ms: 100,
            retransmits,
        })
    }

    #[track_caller]
    fn check(socket: &Socket, observed: &Observed, expected: &[(StuckCause, u64)]) {
        assert_eq!(StuckCause::of(socket, observed), expected);
    }

    #[test]
    fn window_distinguishes_the_peer_from_this_host() {
        let info = |window| TcpInfo {
            unacked_segs: Some(0),
            notsent_bytes: Some(5000),
            snd_mss_bytes: Some(1448),
            snd_wnd_bytes: window,
            ..TcpInfo::default()
        };
        for (window, cause) in [
            (Some(0), StuckCause::PeerWindow),
            (Some(100), StuckCause::PeerWindow),
            (Some(9000), StuckCause::NotSent),
            (None, StuckCause::PeerWindow),
        ] {
            let mut socket = socket(State::Established, info(window));
            socket.timer = timer(TimerKind::ZeroWindowProbe, 3);
            check(&socket, &unsent(), &[(cause, 2 * SECOND)]);
        }
    }

    #[test]
    fn what_is_in_lower_queues_is_on_this_host() {
        let in_flight = socket(
            State::Established,
            TcpInfo {
                unacked_segs: Some(3),
                snd_wnd_bytes: Some(9000),
                ..TcpInfo::default()
            },
        );
        check(&in_flight, &unsent(), &[(StuckCause::Unanswered, 2 * SECOND)]);
        let lower = Observed {
            lower_ns: Some(2 * SECOND),
            ..unsent()
        };
        check(&in_flight, &lower, &[(StuckCause::HostQueue, 2 * SECOND)]);
    }

    #[test]
    fn low_rate_is_named() {
        let info = TcpInfo {
            unacked_segs: Some(0),
            notsent_bytes: Some(5000),
            snd_mss_bytes: Some(1448),
            snd_wnd_bytes: Some(9000),
            pacing_rate_bytes_per_s: Some(500),
            ..TcpInfo::default()
        };
        check(
            &socket(State::Established, info),
            &unsent(),
            &[(StuckCause::Pacing, 2 * SECOND)],
        );
    }

    /// The receive queue has been there since the last data, and was seen not to be read.
    #[test]
    fn time_of_the_last_data_counts() {
        let info = TcpInfo {
            last_data_recv_ms: Some(60_000),
            ..TcpInfo::default()
        };
        let socket = socket(State::Established, info);
        let unread = |ns| Observed {
            unread_ns: Some(ns),
            ..Observed::default()
        };
        check(&socket, &unread(SECOND / 2), &[(StuckCause::Unread, 60 * SECOND)]);
        // A single look does not show whether it is read slowly.
        check(&socket, &unread(0), &[]);
    }

    #[test]
    fn both_directions_can_stand_still() {
        let info = TcpInfo {
            unacked_segs: Some(0),
            snd_wnd_bytes: Some(0),
            ..TcpInfo::default()
        };
        let observed = Observed {
            unread_ns: Some(3 * SECOND),
            ..unsent()
        };
        let found = [
            (StuckCause::Unread, 3 * SECOND),
            (StuckCause::PeerWindow, 2 * SECOND),
        ];
        check(&socket(State::Established, info), &observed, &found);
    }

    #[test]
    fn half_open_connection_is_stuck_when_its_answer_is_repeated() {
        let mut socket = socket(State::NewSynRecv, TcpInfo::default());
        check(&socket, &unsent(), &[]);
        socket.timer = timer(TimerKind::Retransmission, 1);
        check(&socket, &unsent(), &[(StuckCause::HalfOpen, 2 * SECOND)]);
    }

    #[test]
    fn what_waits_for_less_than_a_second_is_on_its_way() {
        let info = TcpInfo {
            unacked_segs: Some(3),
            ..TcpInfo::default()
        };
        let observed = Observed {
            unsent_ns: Some(SECOND - 1),
            ..Observed::default()
        };
        check(&socket(State::Established, info), &observed, &[]);
    }
}

//! Sockets of which one look is only a suspicion: connections that wait to be accepted, half-closed connections,
//! and congestion windows at their floor. A second look at the same sockets proves it or clears them.

use crate::{Limit, Limits};
use foldhash::fast::FixedState;
use sockeye_model::{
    Cookie, Endpoint, Entry, Inode, NetnsInode, Process, Queues, Socket, State, TcpInfo, Uid,
};
use std::collections::HashMap;
use std::time::Duration;

/// The suspicious sockets of one look at a host.
#[derive(Debug, Default)]
pub struct Suspects {
    all: HashMap<SocketKey, Sighting, FixedState>,
    /// Half-closed connections that are old enough to be a leak if they do not drain.
    settled: u64,
    /// Suspicious sockets that did not fit.
    pub(crate) left_out: u64,
}

/// What identifies a connection while it exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SocketKey {
    pub(crate) netns: Option<NetnsInode>,
    pub(crate) local: Endpoint,
    pub(crate) peer: Endpoint,
}

impl SocketKey {
    pub(crate) const fn of(socket: &Socket) -> Self {
        Self {
            netns: socket.netns,
            local: socket.local,
            peer: socket.peer,
        }
    }
}

/// A suspicious socket as one look saw it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sighting {
    pub(crate) suspicion: Suspicion,
    pub(crate) state: State,
    /// Time since it last changed: since it was established for a connection that is not accepted yet, since anything
    /// was sent or received for a half-closed one.
    pub(crate) age_ms: u64,
    pub(crate) recvq_bytes: Option<u64>,
    pub(crate) owner: Option<Process>,
    pub(crate) inode: Option<Inode>,
    pub(crate) uid: Option<Uid>,
    cookie: Option<Cookie>,
    sent_bytes: Option<u64>,
    received_bytes: Option<u64>,
}

/// A suspicious socket, and which of two looks saw it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QueueLook<'a> {
    pub(crate) key: &'a SocketKey,
    pub(crate) sighting: &'a Sighting,
    pub(crate) presence: Presence,
    /// Its age at the time of the look that is judged; less is certain of one that is gone
    pub(crate) age_ms: u64,
}

/// In which of two looks a socket was suspicious.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    /// There was only one look.
    Once,
    /// In both
    Both,
    /// In the earlier one only
    Gone,
    /// In the later one only
    New,
}

/// What a socket is suspected of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Suspicion {
    /// The program does not accept it.
    NotAccepted,
    /// One end has closed and the other does not.
    HalfClosed(Outstanding),
    /// Its congestion window is at the floor.
    AtFloor,
    /// It has sent as much as the peer's window allows, and has more.
    WindowFull,
}

/// What the open end of a half-closed connection may still have to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outstanding {
    /// All that was received was answered, or nothing was received.
    Nothing,
    /// A request was received and not answered: a handler may be working.
    Answer,
    /// Data was received that the program has not read: it may wait for its turn.
    Read,
}

impl Suspects {
    /// Keeps the socket if one look at it is a suspicion.
    pub fn socket(&mut self, entry: &Entry<'_>, limits: &Limits) {
        let socket = entry.socket;
        let Some(info) = &socket.tcp_info else { return };
        let Some((suspicion, age_ms)) = suspicion(socket, info, limits) else {
            return;
        };
        let key = SocketKey::of(socket);
        if self.all.len() >= SUSPECTS_MAX && !self.all.contains_key(&key) {
            self.left_out += 1;
            return;
        }
        let sighting = Sighting {
            suspicion,
            state: socket.state,
            age_ms,
            recvq_bytes: receive_queue(socket),
            owner: entry
                .owners
                .and_then(|owners| owners.first())
                .map(|owner| owner.process),
            inode: socket.inode,
            uid: socket.uid,
            cookie: socket.cookie,
            sent_bytes: info.bytes_sent,
            received_bytes: info.bytes_received,
        };
        if matches!(suspicion, Suspicion::HalfClosed(_)) && age_ms + SEEN_BEFORE_MS >= HALF_CLOSED_SETTLED_MS
        {
            self.settled += 1;
        }
        self.all.insert(key, sighting);
    }

    /// Whether a second look can prove anything. A few half-closed connections are judged by their age.
    pub(crate) fn need_second_look(&self, limits: &Limits) -> bool {
        let many = limits
            .of(Limit::CloseWaitCount)
            .min(limits.of(Limit::FinWait2Count));
        let is_half_closed = |sighting: &Sighting| matches!(sighting.suspicion, Suspicion::HalfClosed(_));
        self.settled >= many.max(1) || self.all.values().any(|sighting| !is_half_closed(sighting))
    }

    pub(crate) fn of(&self, key: &SocketKey) -> Option<&Sighting> {
        self.all.get(key)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&SocketKey, &Sighting)> {
        self.all.iter()
    }

    /// Whether the socket of an earlier or later look is here, too, unchanged.
    pub(crate) fn has_unchanged(&self, key: &SocketKey, sighting: &Sighting, apart: Duration) -> bool {
        self.all
            .get(key)
            .is_some_and(|other| sighting.is_unchanged_in(other, apart))
    }
}

impl Sighting {
    fn is_unchanged_in(&self, other: &Self, apart: Duration) -> bool {
        let is_same_socket = match (self.cookie, other.cookie) {
            (Some(one), Some(two)) => one == two,
            // The addresses may belong to a new connection: that one is younger than the time between the looks.
            _ => {
                let apart_ms = u64::try_from(apart.as_millis()).unwrap_or(u64::MAX);
                matches!(self.suspicion, Suspicion::AtFloor | Suspicion::WindowFull)
                    || self.age_ms.max(other.age_ms) >= apart_ms.saturating_sub(MARGIN_MS)
            }
        };
        is_same_socket
            && self.suspicion == other.suspicion
            && match self.suspicion {
                // It receives until it is accepted, or sends: that is no sign of a change.
                Suspicion::NotAccepted | Suspicion::AtFloor | Suspicion::WindowFull => true,
                Suspicion::HalfClosed(_) => self.traffic() == other.traffic(),
            }
    }
}

impl Sighting {
    /// What must not differ between two looks at a socket that nothing happens to.
    fn traffic(&self) -> impl PartialEq + use<> {
        (self.state, self.sent_bytes, self.received_bytes, self.recvq_bytes)
    }
}

/// What one look at a connection raises as a suspicion, and for how long it may have been so.
fn suspicion(socket: &Socket, info: &TcpInfo, limits: &Limits) -> Option<(Suspicion, u64)> {
    let has_no_file = socket.inode.is_none();
    match socket.state {
        // Only a connection that waits to be accepted is open without a file. Nothing was sent on it, so the kernel
        // counts the time since it was established.
        State::Established | State::CloseWait if has_no_file => {
            let age = u64::from(info.last_data_sent_ms?);
            let least = ACCEPT_SETTLED_MS.min(limits.of(Limit::AcceptQueueAge));
            (age >= least).then_some((Suspicion::NotAccepted, age))
        }
        State::CloseWait | State::FinWait2 if !has_no_file => {
            // Without a process the kernel itself ends FIN_WAIT2, after net.ipv4.tcp_fin_timeout.
            let age = quiet_ms(info)?;
            let [oldest, _, _] = closing_ages(socket.state, limits);
            let suspicion = Suspicion::HalfClosed(outstanding(socket, info));
            (age >= SEEN_BEFORE_MS.min(oldest)).then_some((suspicion, age))
        }
        State::Established if is_at_floor(info, limits) => Some((Suspicion::AtFloor, 0)),
        State::Established if is_window_full(socket, info, limits) => Some((Suspicion::WindowFull, 0)),
        _ => None,
    }
}

/// Ages in milliseconds from which on half-closed connections are a leak: one of them with nothing outstanding, one of
/// them with something outstanding, and many of them with an answer outstanding.
pub(crate) const fn closing_ages(state: State, limits: &Limits) -> [u64; 3] {
    let one = match state {
        State::CloseWait => limits.of(Limit::CloseWaitAge),
        _ => limits.of(Limit::FinWait2Age),
    };
    [one, one.saturating_mul(OUTSTANDING_FACTOR), one / 3]
}

/// Time since data or an acknowledgement was last received, and data last sent.
fn quiet_ms(info: &TcpInfo) -> Option<u64> {
    let received = info.last_ack_recv_ms?;
    let times = [info.last_data_sent_ms, info.last_data_recv_ms];
    let least = times.into_iter().flatten().fold(received, u32::min);
    Some(u64::from(least))
}

fn outstanding(socket: &Socket, info: &TcpInfo) -> Outstanding {
    let (Some(sent), Some(received)) = (info.last_data_sent_ms, info.last_data_recv_ms) else {
        return Outstanding::Nothing;
    };
    // Within the same millisecond the order is unknown: then there was an answer, if both sides have sent.
    if socket.state == State::FinWait2 {
        // We sent last, and the peer may be working on an answer. Our SYN and FIN count as acknowledged.
        let has_sent = info.bytes_acked.is_some_and(|bytes| bytes > FIN_AND_SYN);
        let is_last = sent < received || info.bytes_received == Some(0);
        return if has_sent && is_last {
            Outstanding::Answer
        } else {
            Outstanding::Nothing
        };
    }
    // The FIN of the peer counts as one byte.
    if receive_queue(socket).is_some_and(|bytes| bytes > 1) {
        return Outstanding::Read;
    }
    // A client asks: what it received is the answer.
    let ports = [socket.local.port(), socket.peer.port()].map(|port| port.map_or(0, |port| port.0));
    if ports[0] >= EPHEMERAL_FIRST && ports[1] < EPHEMERAL_FIRST {
        return Outstanding::Nothing;
    }
    let has_received = info.bytes_received.is_some_and(|bytes| bytes > 1);
    let is_last = received < sent || info.bytes_sent == Some(0);
    if has_received && is_last {
        Outstanding::Answer
    } else {
        Outstanding::Nothing
    }
}

/// Whether the congestion window is at its floor while data waits.
pub(crate) fn is_at_floor(info: &TcpInfo, limits: &Limits) -> bool {
    let (Some(cwnd), Some(waiting)) = (info.snd_cwnd_segs, info.notsent_bytes) else {
        return false;
    };
    let in_flight = u64::from(info.unacked_segs.unwrap_or(0));
    waiting > 0 && u64::from(cwnd) <= limits.of(Limit::CwndFloorSegments) && in_flight >= u64::from(cwnd)
}

/// Whether the peer's window holds a slow transfer over a path of some length: there is no room for another segment, though
/// the congestion window has some, and data waits.
pub(crate) fn is_window_full(socket: &Socket, info: &TcpInfo, limits: &Limits) -> bool {
    let full = || {
        let Queues::Data { send_bytes, .. } = socket.queues else {
            return None;
        };
        let waiting = info.notsent_bytes.filter(|bytes| *bytes > 0)?;
        let (window, mss) = (info.snd_wnd_bytes?, info.snd_mss_bytes?);
        let in_flight = u64::from(send_bytes.saturating_sub(waiting));
        let has_room = info.snd_cwnd_segs? > info.unacked_segs?;
        let is_slow = info.delivery_rate_bytes_per_s? < limits.of(Limit::ReceiverLimitedRate);
        let is_far = info.min_rtt_us? >= FAR_US;
        // Segments that are lost and not sent again are no longer on their way.
        let is_lossy = info.lost_segs.is_none_or(|lost| lost > 0);
        Some(
            window > 0
                && in_flight + u64::from(mss) > u64::from(window)
                && has_room
                && is_slow
                && is_far
                && !is_lossy,
        )
    };
    full() == Some(true)
}

fn receive_queue(socket: &Socket) -> Option<u64> {
    match socket.queues {
        Queues::Data { receive_bytes, .. } => Some(receive_bytes.into()),
        Queues::Accept { .. } | Queues::Unknown => None,
    }
}

/// Connections that wait for less are on their way to `accept()`.
const ACCEPT_SETTLED_MS: u64 = 1_000;
/// Half-closed connections that are quiet for less are in regular transition.
pub(crate) const HALF_CLOSED_SETTLED_MS: u64 = 5_000;
/// They are remembered earlier, so that the next look shows whether they moved.
const SEEN_BEFORE_MS: u64 = 1_000;
/// A handler may work for so many times the age of a leak.
const OUTSTANDING_FACTOR: u64 = 5;
/// The first port of `net.ipv4.ip_local_port_range` by default.
pub(crate) const EPHEMERAL_FIRST: u16 = 32_768;
/// On a shorter path a small window does not slow a transfer down much.
const FAR_US: u32 = 5_000;
/// Sequence numbers that SYN and FIN take.
const FIN_AND_SYN: u64 = 2;
/// Kernel clocks count in jiffies of at most 10 ms, and a look takes some time.
const MARGIN_MS: u64 = 50;
/// Suspicious sockets that are kept.
const SUSPECTS_MAX: usize = 100_000;

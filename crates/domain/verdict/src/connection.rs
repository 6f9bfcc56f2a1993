//! Rules about one TCP connection: is the peer alive, does data get through, what limits the rate.

use crate::recent_peers::RecentPeers;
use crate::sending::has_open_window;
use crate::share::permille;
use crate::socket_counters::SocketCounters;
use crate::suspects::is_at_floor;
use crate::symptom::Symptom;
use crate::{Limit, Limits, Rule, Severity};
use sockeye_model::{Queues, Socket, State, TcpInfo, TimerKind};

/// Returns for how long a connection has tried to send what waits in its send buffer, by its timer, in milliseconds; `None` if
/// unknown, and if no timer of retransmissions or probes runs.
#[must_use]
pub fn unsent_for_ms(socket: &Socket) -> Option<u64> {
    let check = ConnectionCheck {
        socket,
        info: socket.tcp_info.as_ref()?,
        limits: &Limits::default(),
        change: SocketCounters::default(),
        elapsed_us: None,
        recent_peers: &RecentPeers::default(),
    };
    check.unsent_ms()
}

/// A connection with everything its rules need.
pub(crate) struct ConnectionCheck<'a> {
    pub(crate) socket: &'a Socket,
    pub(crate) info: &'a TcpInfo,
    pub(crate) limits: &'a Limits,
    /// Change of the counters since the earlier sample, or over the whole life of the socket.
    pub(crate) change: SocketCounters,
    /// Time since the earlier sample; `None` if there is none.
    pub(crate) elapsed_us: Option<u64>,
    /// Peers that any connection recently received something from.
    pub(crate) recent_peers: &'a RecentPeers,
}

impl ConnectionCheck<'_> {
    /// Returns the first rule that explains why no data gets through. Earlier rules are causes of later ones.
    pub(crate) fn stall(&self) -> Option<Symptom> {
        self.connecting()
            .or_else(|| self.retransmitting())
            .or_else(|| self.zero_window())
            .or_else(|| self.keepalive_unanswered())
            .or_else(|| self.send_stuck())
            .or_else(|| self.no_keepalive())
    }

    /// Returns the first rule that explains why the connection is slow.
    pub(crate) fn slowness(&self) -> Option<Symptom> {
        if !matches!(self.socket.state, State::Established | State::CloseWait) {
            return None;
        }
        self.losses()
            .or_else(|| self.floors())
            .or_else(|| self.nagle())
            .or_else(|| self.limits())
            .or_else(|| self.receive_buffer())
            .or_else(|| self.application_limited())
            .or_else(|| self.rtt_inflation())
    }

    /// Returns what of a recorded connection explains why it is slow.
    pub(crate) fn slowness_by_record(&self) -> Option<Symptom> {
        let is_open = matches!(self.socket.state, State::Established | State::CloseWait);
        is_open.then(|| self.limits()).flatten()
    }

    fn connecting(&self) -> Option<Symptom> {
        let tries = self.retransmits(TimerKind::Retransmission)?;
        let applies =
            self.socket.state == State::SynSent && tries >= self.limits.of(Limit::ConnectRetransmissions);
        applies.then(|| Symptom::new(Rule::ConnectUnanswered, tries).fact("retransmissions", tries))
    }

    fn retransmitting(&self) -> Option<Symptom> {
        let tries = self.retransmits(TimerKind::Retransmission)?;
        if self.socket.state == State::SynSent {
            return None;
        }
        let stalled_ms = self.stalled_ms(tries);
        let symptom = |rule| {
            Symptom::new(rule, tries)
                .fact("retransmissions", tries)
                .fact("stalled_ms", stalled_ms)
                .fact("sendq_bytes", self.send_queue())
                .fact("last_ack_recv_ms", self.info.last_ack_recv_ms)
        };
        if tries >= self.limits.of(Limit::MtuRetransmissions)
            && stalled_ms.is_some_and(|ms| self.received_within(ms))
            && self.sends_full_size()
        {
            return Some(symptom(Rule::MtuBlackHole).fact("snd_mss_bytes", self.info.snd_mss_bytes));
        }
        if tries < self.limits.of(Limit::PeerSilentRetransmissions) {
            return None;
        }
        let mut symptom = symptom(Rule::PeerSilent);
        if self.sends_full_size() && self.sends_several() && self.carried_only_short_segments() {
            symptom = symptom.fact("untried_pmtu_bytes", self.info.pmtu_bytes.unwrap_or(0));
        }
        // The kernel ends a connection that no descriptor refers to.
        if self.socket.inode.is_none() {
            symptom = symptom.with(Severity::Notice);
        }
        Some(symptom)
    }

    /// Time for which this host has tried to send what it has to send; `None` if unknown.
    pub(crate) fn unsent_ms(&self) -> Option<u64> {
        match self.retransmits(TimerKind::Retransmission) {
            Some(tries) => self.stalled_ms(tries),
            None => self
                .retransmits(TimerKind::ZeroWindowProbe)
                .and_then(|_| self.probing_ms()),
        }
    }

    /// Time for which the segment at the head of the queue has been sent without an acknowledgement.
    fn stalled_ms(&self, tries: u64) -> Option<u64> {
        let rto_ms = u64::from(self.info.rto_us?) / 1000;
        let backoff = u32::from(self.info.backoff?);
        let doublings = backoff.min(30).min(tries as u32);
        let first_ms = (rto_ms >> doublings).max(1);
        // Since Linux 6.7 the kernel reports the time since the first timeout, here of the only series so far.
        if let (Some(1), Some(since_first_ms)) = (self.info.total_rto_recoveries, self.info.total_rto_time_ms)
        {
            return Some(u64::from(since_first_ms) + first_ms);
        }
        // An ICMP message takes the last doubling back (RFC 6069), and a send that fails on this host does not
        // double: the pauses are not known.
        if u64::from(backoff) < tries {
            return None;
        }
        // The timeouts that passed, each twice as long as the one before, and the elapsed part of the current one.
        let passed_ms = first_ms.saturating_mul((1 << doublings) - 1);
        let left_ms = self.socket.timer.map_or(0, |timer| u64::from(timer.expires_ms));
        Some(passed_ms.saturating_add(rto_ms.saturating_sub(left_ms)))
    }

    /// Whether this peer sent anything during that time, on this connection or on another.
    fn received_within(&self, stalled_ms: u64) -> bool {
        let received_ms = [self.info.last_ack_recv_ms, self.info.last_data_recv_ms];
        // Packets that were in flight when the segment was sent do not count: subtract one round trip and a
        // margin.
        let margin_ms = self.info.rtt_us.map_or(0, |rtt| u64::from(rtt) / 1000) + MARGIN_MS;
        let since_ms = stalled_ms.saturating_sub(margin_ms);
        received_ms
            .into_iter()
            .flatten()
            .any(|ms| u64::from(ms) < since_ms)
            || (self.peer_is_alive(since_ms) && !self.carried_full_size())
    }

    /// Whether the peer acknowledges later segments (SACK) or sends on other connections.
    fn peer_is_alive(&self, since_ms: u64) -> bool {
        self.info.sacked_segs.is_some_and(|sacked| sacked > 0)
            || self.recent_peers.within(self.socket, since_ms)
    }

    /// Whether full-sized segments got through before. If so, their size is not the fault now: a middlebox
    /// forgot the connection or the peer is gone, and its SACKs are old.
    fn carried_full_size(&self) -> bool {
        let (Some(bytes), Some(segments), Some(mss)) = (
            self.info.bytes_acked,
            self.info.delivered_segs,
            self.info.snd_mss_bytes,
        ) else {
            return false;
        };
        bytes / u64::from(segments.max(1)) >= u64::from(mss) / 4 * 3
    }

    /// Whether something was acknowledged, but no segment of full size.
    fn carried_only_short_segments(&self) -> bool {
        self.info.delivered_segs.is_some() && !self.carried_full_size()
    }

    /// Whether the retransmitted segment is probably full-sized, and larger than what every path carries.
    fn sends_full_size(&self) -> bool {
        let mss = u64::from(self.info.snd_mss_bytes.unwrap_or(0));
        let Some(queued) = self.send_queue() else {
            return false;
        };
        let segments = u64::from(self.info.unacked_segs.unwrap_or(0));
        let is_full = match (self.info.notsent_bytes, segments) {
            // What is not sent yet says nothing about what was.
            (Some(waiting), 1..) => {
                let in_flight = queued.saturating_sub(waiting.into());
                let is_acknowledged_later = self.info.sacked_segs.is_some_and(|sacked| sacked > 0);
                in_flight / segments >= mss / 4 * 3
                    // Of many, or of those that came and those that did not, only the last is short.
                    || ((segments >= 4 || is_acknowledged_later) && in_flight > (segments - 1) * mss)
            }
            _ => queued >= mss,
        };
        mss > SMALLEST_MSS && is_full
    }

    /// Whether enough segments are in flight to be a bulk transfer: one that is full may have been filled while it waited.
    fn sends_several(&self) -> bool {
        self.info
            .unacked_segs
            .is_none_or(|segments| segments >= SEVERAL_SEGS)
    }

    fn zero_window(&self) -> Option<Symptom> {
        let probes = self.retransmits(TimerKind::ZeroWindowProbe)?;
        let sendq = self.send_queue().filter(|bytes| *bytes > 0)?;
        let idle = u64::from(self.info.last_data_sent_ms?);
        // Data written a moment ago has not waited since the last transmission.
        let stalled = match self.probing_ms() {
            Some(probing) if self.info.backoff < Some(BACKED_OFF) => idle.min(probing),
            _ => idle,
        };
        // The timer alone is no closed window: it also runs when this host cannot send. Without the window in
        // tcp_info, a peer that answers the probes is evidence.
        let is_closed = match has_open_window(self.socket, self.info) {
            Some(is_open) => !is_open,
            None => self
                .info
                .last_ack_recv_ms
                .is_some_and(|ms| u64::from(ms) < stalled),
        };
        let applies = is_closed && stalled >= self.limits.of(Limit::ZeroWindowFor);
        applies.then(|| {
            Symptom::new(Rule::ZeroWindow, stalled)
                .fact("stalled_ms", stalled)
                .fact("sendq_bytes", sendq)
                .fact("snd_wnd_bytes", self.info.snd_wnd_bytes)
                .fact("unanswered_probes", probes)
        })
    }

    /// Time for which a closed window has been probed: the pauses that passed, each twice as long as the one
    /// before, and the elapsed part of the current one.
    fn probing_ms(&self) -> Option<u64> {
        let first_ms = u64::from(self.info.rto_us?) / 1000;
        let doublings = u32::from(self.info.backoff?).min(30);
        let pause_after = |doublings: u32| first_ms.saturating_mul(1 << doublings).min(RTO_MAX_MS);
        let passed_ms: u64 = (0..doublings).map(pause_after).sum();
        let left_ms = self.socket.timer.map_or(0, |timer| u64::from(timer.expires_ms));
        // A probe that this host itself drops is tried again without doubling (`TCP_RESOURCE_PROBE_INTERVAL`).
        let tries = self.socket.timer.map_or(0, |timer| timer.retransmits);
        if tries > doublings {
            let failed_ms = u64::from(tries - doublings).saturating_mul(LOCAL_RETRY_MS);
            return Some(passed_ms.saturating_add(failed_ms));
        }
        let pause_ms = pause_after(doublings);
        Some(passed_ms.saturating_add(pause_ms.saturating_sub(left_ms)))
    }

    fn keepalive_unanswered(&self) -> Option<Symptom> {
        let probes = self.retransmits(TimerKind::Keepalive)?;
        // The kernel uses the keepalive timer for FIN_WAIT2, too.
        let applies =
            self.socket.inode.is_some() && probes >= self.limits.of(Limit::KeepaliveUnansweredProbes);
        applies.then(|| {
            Symptom::new(Rule::KeepaliveUnanswered, probes)
                .fact("unanswered_probes", probes)
                .fact("idle_ms", self.idle_ms())
        })
    }

    fn send_stuck(&self) -> Option<Symptom> {
        let unacked = self.info.unacked_segs.filter(|segments| *segments > 0)?;
        let silent = u64::from(self.info.last_ack_recv_ms?);
        // A peer that was silent before the data was sent has nothing to answer for that time.
        let owing = match self.retransmits(TimerKind::Retransmission) {
            Some(tries) => self.stalled_ms(tries),
            None => self.info.last_data_sent_ms.map(u64::from),
        };
        let stalled = owing.map_or(silent, |owing| owing.min(silent));
        let applies = stalled >= self.limits.of(Limit::SendStuckFor) && self.socket.state != State::SynSent;
        applies.then(|| {
            Symptom::new(Rule::SendStuck, stalled)
                .fact("stalled_ms", stalled)
                .fact("last_ack_recv_ms", silent)
                .fact("sendq_bytes", self.send_queue())
                .fact("unacked_segs", unacked)
        })
    }

    /// Nothing is in flight: would a dead peer be noticed?
    fn no_keepalive(&self) -> Option<Symptom> {
        if self.socket.state != State::Established {
            return None;
        }
        match self.socket.timer {
            None => {
                let idle = self.idle_ms()?;
                let applies = idle >= self.limits.of(Limit::NoKeepaliveIdle);
                let severity = if self.is_local() {
                    Severity::Notice
                } else {
                    Severity::Warning
                };
                applies.then(|| {
                    Symptom::new(Rule::NoKeepalive, idle)
                        .fact("idle_ms", idle)
                        .with(severity)
                })
            }
            Some(timer) if timer.kind == TimerKind::Keepalive && !self.is_local() => {
                // The kernel restarts the timer with the full time after each sign of life: what is left is a
                // lower bound of the setting.
                let left = u64::from(timer.expires_ms);
                let applies = left > self.limits.of(Limit::KeepaliveLateAfter);
                applies.then(|| {
                    Symptom::new(Rule::KeepaliveLate, left)
                        .fact("next_probe_ms", left)
                        .fact("idle_ms", self.idle_ms())
                })
            }
            Some(_) => None,
        }
    }

    fn losses(&self) -> Option<Symptom> {
        // Kernels before 4.6 do not count what was sent.
        self.info.data_segs_out?;
        let change = &self.change;
        let retransmitted = u64::from(change.retransmitted_segs);
        let share = permille(retransmitted, change.sent_segs.into());
        if share >= self.limits.of(Limit::SpuriousRatio)
            && u64::from(change.needless_segs) >= self.limits.of(Limit::SpuriousCount)
            && permille(change.needless_segs.into(), retransmitted) >= self.limits.of(Limit::SpuriousShare)
        {
            return Some(
                Symptom::new(Rule::SpuriousRetransmissions, change.needless_segs.into())
                    .fact("needless_segs", change.needless_segs)
                    .fact("retransmitted_segs", retransmitted)
                    .fact("sent_segs", change.sent_segs),
            );
        }
        if retransmitted >= self.limits.of(Limit::RetransmissionsCount)
            && share >= self.limits.of(Limit::RetransmissionsShare)
        {
            return Some(
                Symptom::new(Rule::Retransmissions, share)
                    .fact("share_permille", share)
                    .fact("retransmitted_segs", retransmitted)
                    .fact("sent_segs", change.sent_segs)
                    .fact("rtt_us", self.info.rtt_us)
                    .fact("snd_cwnd_segs", self.info.snd_cwnd_segs),
            );
        }
        let seen = u64::from(change.reorderings);
        let ratio = permille(seen, change.sent_segs.into());
        let applies = seen >= self.limits.of(Limit::ReorderingEvents)
            && ratio >= self.limits.of(Limit::ReorderingRatio);
        applies.then(|| {
            Symptom::new(Rule::Reordering, seen)
                .fact("reorderings", seen)
                .fact("reordering_segs", self.info.reordering_segs)
                .fact("sent_segs", change.sent_segs)
        })
    }

    fn floors(&self) -> Option<Symptom> {
        // Only a connection with unsent data is limited by them.
        let waiting = self.info.notsent_bytes.filter(|bytes| *bytes > 0)?;
        let cwnd = u64::from(self.info.snd_cwnd_segs?);
        let in_flight = u64::from(self.info.unacked_segs.unwrap_or(0));
        let busy_ms = self.change.busy_us / 1000;
        // A timeout reduces the window to one segment until the next acknowledgement; that is no floor.
        let times_out = self
            .retransmits(TimerKind::Retransmission)
            .is_some_and(|tries| tries > 0);
        if is_at_floor(self.info, self.limits) && !times_out && busy_ms >= self.busy_for(Limit::CwndFloorBusy)
        {
            return Some(
                Symptom::new(Rule::CwndFloor, u64::MAX - cwnd)
                    .fact("snd_cwnd_segs", cwnd)
                    .fact("notsent_bytes", waiting)
                    .fact("rtt_us", self.info.rtt_us)
                    .fact("retransmitted_segs", self.change.retransmitted_segs),
            );
        }
        let pacing = self.info.pacing_rate_bytes_per_s?;
        let applies = pacing > 0 && pacing <= self.limits.of(Limit::PacingFloorRate) && in_flight < cwnd;
        applies.then(|| {
            Symptom::new(Rule::PacingFloor, u64::MAX - pacing)
                .fact("pacing_rate_bytes_per_s", pacing)
                .fact(
                    "max_pacing_rate_bytes_per_s",
                    self.info.max_pacing_rate_bytes_per_s,
                )
                .fact("notsent_bytes", waiting)
        })
    }

    /// Time for which a connection must have been busy. Between two samples that are less apart it must have been so
    /// for three quarters of that time.
    pub(crate) fn busy_for(&self, limit: Limit) -> u64 {
        let least = self.limits.of(limit);
        match self.elapsed_us {
            Some(elapsed_us) => least.min(elapsed_us / 1000 * 3 / 4),
            None => least,
        }
    }

    fn limits(&self) -> Option<Symptom> {
        let change = &self.change;
        let rate = self.info.delivery_rate_bytes_per_s;
        let judge = |rule, part_us, [share, busy, below]: [Limit; 3]| {
            let shared = permille(part_us, change.busy_us);
            let applies = shared >= self.limits.of(share)
                && change.busy_us / 1000 >= self.busy_for(busy)
                && rate.is_some_and(|rate| rate < self.limits.of(below));
            applies.then(|| {
                Symptom::new(rule, shared)
                    .fact("share_permille", shared)
                    .fact("busy_us", change.busy_us)
                    .fact("delivery_rate_bytes_per_s", rate)
                    .fact("snd_wnd_bytes", self.info.snd_wnd_bytes)
                    .fact(
                        "sndbuf_bytes",
                        self.socket.memory.and_then(|memory| memory.sndbuf_bytes),
                    )
                    .fact("rtt_us", self.info.rtt_us)
            })
        };
        judge(
            Rule::ReceiverLimited,
            change.receiver_limited_us,
            [
                Limit::ReceiverLimitedShare,
                Limit::ReceiverLimitedBusy,
                Limit::ReceiverLimitedRate,
            ],
        )
        .or_else(|| {
            judge(
                Rule::SendBufferLimited,
                change.send_buffer_limited_us,
                [
                    Limit::SendBufferLimitedShare,
                    Limit::SendBufferLimitedBusy,
                    Limit::SendBufferLimitedRate,
                ],
            )
        })
        .map(|symptom| match symptom.rule {
            Rule::ReceiverLimited if self.has_no_scaling() => symptom.meaning(NO_SCALING),
            _ => symptom,
        })
    }

    /// Whether the peer's window cannot be larger than 64 KiB, and is nearly so.
    fn has_no_scaling(&self) -> bool {
        self.info
            .options
            .is_some_and(|options| options & TCPI_OPT_WSCALE == 0)
            && self.info.snd_wnd_bytes.is_none_or(|window| window >= 1 << 15)
    }

    /// Needs two samples: each small write of the program waits for a delayed acknowledgement.
    fn nagle(&self) -> Option<Symptom> {
        let elapsed_us = self.elapsed_us?;
        let segments = u64::from(self.change.sent_segs);
        let mss = u64::from(self.info.snd_mss_bytes?);
        let least_rtt = u64::from(self.info.min_rtt_us?);
        if self.change.held_back == 0 || segments < self.limits.of(Limit::NagleSegments).max(1) {
            return None;
        }
        let wait_us = self.change.busy_us / segments;
        let mean_bytes = self.change.sent_bytes / segments;
        let applies = mean_bytes < mss / 2
            && self.change.busy_us >= elapsed_us / 2
            && self.change.retransmitted_segs == 0
            && wait_us >= self.limits.of(Limit::NagleWait) * 1000
            // On a longer path acknowledgements take that long anyway.
            && wait_us >= least_rtt.saturating_mul(2);
        applies.then(|| {
            Symptom::new(Rule::NagleDelayedAck, wait_us)
                .fact("sent_segs", segments)
                .fact("mean_segment_bytes", mean_bytes)
                .fact("mean_wait_us", wait_us)
                .fact("rtt_us", self.info.rtt_us)
                .fact("min_rtt_us", least_rtt)
        })
    }

    /// Needs two samples: what comes in is a window for each round trip, however fast the program reads.
    fn receive_buffer(&self) -> Option<Symptom> {
        let elapsed_us = self.elapsed_us.filter(|us| *us > 0)?;
        let window = u64::from(self.info.rcv_wnd_bytes?);
        let buffer = self.socket.memory.and_then(|memory| memory.rcvbuf_bytes);
        // The receiver's own measurement of the round trip; without data sent, rtt_us is that of the handshake.
        let rtt_us = u64::from(self.info.min_rtt_us.or(self.info.rcv_rtt_us)?);
        let received = self.change.received_bytes;
        let in_flight = u128::from(received) * u128::from(rtt_us) / u128::from(elapsed_us);
        let allowed = u128::from(window) * u128::from(self.limits.of(Limit::ReceiveBufferShare)) / 1000;
        let unread = match self.socket.queues {
            Queues::Data { receive_bytes, .. } => u64::from(receive_bytes),
            _ => 0,
        };
        let applies = window > 0
            && window <= self.limits.of(Limit::ReceiveBufferBytes)
            && received >= window.saturating_mul(WINDOWS_MIN)
            && rtt_us >= FAR_US
            && in_flight >= allowed
            && unread < window;
        applies.then(|| {
            Symptom::new(Rule::ReceiveBuffer, u64::MAX - window)
                .fact("rcv_wnd_bytes", window)
                .fact("rcvbuf_bytes", buffer)
                .fact("received_bytes", received)
                .fact("rtt_us", rtt_us)
        })
    }

    /// Needs two samples: the kernel does not report the age of a connection.
    fn application_limited(&self) -> Option<Symptom> {
        let elapsed_us = self.elapsed_us?;
        let resting_us = elapsed_us.saturating_sub(self.change.busy_us);
        let share = permille(resting_us, elapsed_us);
        let applies = share >= self.limits.of(Limit::ApplicationLimitedShare)
            && self.change.sent_bytes >= self.limits.of(Limit::ApplicationLimitedBytes);
        applies.then(|| {
            Symptom::new(Rule::ApplicationLimited, share)
                .fact("share_permille", share)
                .fact("sent_bytes", self.change.sent_bytes)
        })
    }

    fn rtt_inflation(&self) -> Option<Symptom> {
        let (now, least) = (u64::from(self.info.rtt_us?), u64::from(self.info.min_rtt_us?));
        let is_fresh = self.info.last_ack_recv_ms.is_some_and(|ms| ms < FRESH_MS);
        let applies = is_fresh
            && now >= least.saturating_mul(self.limits.of(Limit::RttRatio))
            && now.saturating_sub(least) / 1000 >= self.limits.of(Limit::RttMore);
        applies.then(|| {
            Symptom::new(Rule::RttInflation, now)
                .fact("rtt_us", now)
                .fact("min_rtt_us", least)
                .fact("unacked_segs", self.info.unacked_segs)
        })
    }

    /// Retransmissions or probes so far; `None` if another timer is running.
    fn retransmits(&self, kind: TimerKind) -> Option<u64> {
        let timer = self.socket.timer.filter(|timer| timer.kind == kind)?;
        Some(timer.retransmits.into())
    }

    fn send_queue(&self) -> Option<u64> {
        match self.socket.queues {
            Queues::Data { send_bytes, .. } => Some(send_bytes.into()),
            Queues::Accept { .. } | Queues::Unknown => None,
        }
    }

    fn idle_ms(&self) -> Option<u64> {
        // With only one of the two times known, the other may be later.
        let both = self.info.last_data_sent_ms.zip(self.info.last_data_recv_ms);
        both.and_then(|_| self.socket.idle_ms()).map(u64::from)
    }

    /// Whether both ends are on this host: no middlebox is between them, and a dead peer is noticed unless it
    /// hangs.
    fn is_local(&self) -> bool {
        match (self.socket.local.ip(), self.socket.peer.ip()) {
            (Some(local), Some(peer)) => local == peer || peer.to_canonical().is_loopback(),
            _ => false,
        }
    }
}

/// A window that no scale makes larger.
const NO_SCALING: &str = "The connection has no window scaling, so the peer's receive window is 64 KiB at most, which holds the transfer back: net.ipv4.tcp_window_scaling is off here or at the peer, or a middlebox removes the option.";
/// `TCPI_OPT_WSCALE`
const TCPI_OPT_WSCALE: u8 = 4;
/// A transfer that filled so many windows is no burst.
const WINDOWS_MIN: u64 = 10;
/// On a shorter path a small window does not slow a transfer down much.
const FAR_US: u64 = 2_000;
/// Every IPv4 host accepts 576 bytes and every IPv6 link 1280; even with a tunnel or two around them every
/// path carries segments of this size.
const SMALLEST_MSS: u64 = 536;
/// The longest pause between two probes (`TCP_RTO_MAX`, the default of `net.ipv4.tcp_rto_max_ms`).
const RTO_MAX_MS: u64 = 120_000;
const SEVERAL_SEGS: u32 = 3;
/// `TCP_RESOURCE_PROBE_INTERVAL`
const LOCAL_RETRY_MS: u64 = 500;
/// Kernel clocks count in jiffies of at most 10 ms.
const MARGIN_MS: u64 = 30;
/// From this backoff on, the pauses may have reached their maximum of two minutes and do not double any more.
const BACKED_OFF: u8 = 9;
/// A round-trip time is current if something was acknowledged within this time.
const FRESH_MS: u32 = 10_000;

//! One TCP connection: whether its peer is there, whether it gets on, and what holds it back.

use crate::course::Change;
use crate::finding::Facts;
use crate::snapshot::Alive;
use crate::{Limit, Limits, Rule, Severity};
use sockeye_model::{Queues, Socket, State, TcpInfo, TimerKind};

/// What is wrong with a socket.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Symptom {
    pub(crate) rule: Rule,
    pub(crate) severity: Severity,
    /// Of several sockets the one with the most is the worst.
    pub(crate) weight: u64,
    pub(crate) facts: Facts,
}

impl Symptom {
    pub(crate) fn new(rule: Rule, weight: u64, facts: &[(&'static str, Option<u64>)]) -> Self {
        Self {
            rule,
            severity: rule.severity(),
            weight,
            facts: Facts::new(facts),
        }
    }

    pub(crate) const fn with(mut self, severity: Severity) -> Self {
        self.severity = severity;
        self
    }
}

/// A connection, and what it is judged by.
pub(crate) struct Patient<'a> {
    pub(crate) socket: &'a Socket,
    pub(crate) info: &'a TcpInfo,
    pub(crate) limits: &'a Limits,
    /// What changed since the sample before, or in its whole life.
    pub(crate) change: Change,
    /// Whether other connections hear of the same peer.
    pub(crate) alive: &'a Alive,
}

impl Patient<'_> {
    /// The one thing that says most about whether data gets through. Of several the first is the cause of the others.
    pub(crate) fn progress(&self) -> Option<Symptom> {
        self.connecting()
            .or_else(|| self.retransmitting())
            .or_else(|| self.zero_window())
            .or_else(|| self.probing())
            .or_else(|| self.stuck())
            .or_else(|| self.silent_peer_unnoticed())
    }

    /// The one thing that says most about why it is slow.
    pub(crate) fn pace(&self) -> Option<Symptom> {
        if !matches!(self.socket.state, State::Established | State::CloseWait) {
            return None;
        }
        self.losses()
            .or_else(|| self.floors())
            .or_else(|| self.limits())
            .or_else(|| self.inflation())
    }

    fn connecting(&self) -> Option<Symptom> {
        let tries = self.retransmits(TimerKind::Retransmission)?;
        let is_it =
            self.socket.state == State::SynSent && tries >= self.limits.of(Limit::ConnectRetransmissions);
        is_it.then(|| {
            Symptom::new(
                Rule::ConnectUnanswered,
                tries,
                &[("retransmissions", Some(tries))],
            )
        })
    }

    fn retransmitting(&self) -> Option<Symptom> {
        let tries = self.retransmits(TimerKind::Retransmission)?;
        let facts = |stalled_ms| {
            [
                ("retransmissions", Some(tries)),
                ("stalled_ms", stalled_ms),
                ("sendq_bytes", self.send_queue()),
                ("last_ack_recv_ms", self.info.last_ack_recv_ms.map(u64::from)),
                ("snd_mss_bytes", self.info.snd_mss_bytes.map(u64::from)),
            ]
        };
        if self.socket.state == State::SynSent {
            return None;
        }
        let stalled_ms = self.stalled_ms(tries);
        if tries >= self.limits.of(Limit::MtuRetransmissions)
            && stalled_ms.is_some_and(|ms| self.was_heard_within(ms))
            && self.sends_full_size()
        {
            return Some(Symptom::new(Rule::MtuBlackHole, tries, &facts(stalled_ms)));
        }
        // What no program holds any more the kernel itself ends.
        let severity = if self.socket.inode.is_some() {
            Rule::PeerSilent.severity()
        } else {
            Severity::Notice
        };
        (tries >= self.limits.of(Limit::PeerSilentRetransmissions)).then(|| {
            let mut symptom = Symptom::new(Rule::PeerSilent, tries, &facts(stalled_ms)[..4]);
            if self.sends_full_size() && self.carried_only_short_ones() {
                symptom
                    .facts
                    .push("untried_pmtu_bytes", self.info.pmtu_bytes.unwrap_or(0).into());
            }
            symptom.with(severity)
        })
    }

    /// How long the segment at the head of the queue has been sent in vain: the timeouts that passed, each twice as
    /// long as the one before, and what has passed of this one.
    fn stalled_ms(&self, tries: u64) -> Option<u64> {
        let rto_ms = u64::from(self.info.rto_us?) / 1000;
        let doublings = u32::from(self.info.backoff?).min(30).min(tries as u32);
        let first_ms = (rto_ms >> doublings).max(1);
        let passed_ms = first_ms.saturating_mul((1 << doublings) - 1);
        let left_ms = self.socket.timer.map_or(0, |timer| u64::from(timer.expires_ms));
        Some(passed_ms.saturating_add(rto_ms.saturating_sub(left_ms)))
    }

    /// Whether the peer gave a sign of life since then, here or to another connection.
    fn was_heard_within(&self, stalled_ms: u64) -> bool {
        let heard = [self.info.last_ack_recv_ms, self.info.last_data_recv_ms];
        // What was under way when the segment was sent is no sign: a round trip, and some air.
        let margin_ms = self.info.rtt_us.map_or(0, |rtt| u64::from(rtt) / 1000) + MARGIN_MS;
        let since_ms = stalled_ms.saturating_sub(margin_ms);
        heard.into_iter().flatten().any(|ms| u64::from(ms) < since_ms)
            || (self.is_heard_of(since_ms) && !self.carried_full_size())
    }

    /// Whether the peer reports what came after the missing segment, or says something to others.
    fn is_heard_of(&self, since_ms: u64) -> bool {
        self.info.sacked_segs.is_some_and(|sacked| sacked > 0) || self.alive.within(self.socket, since_ms)
    }

    /// Whether segments as long as may be got through before. Then it is not their size if they no longer do: somebody
    /// on the way has forgotten the connection, or the peer has vanished, and what it reports is from before.
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

    /// Whether something was acknowledged, but nothing of full size.
    fn carried_only_short_ones(&self) -> bool {
        self.info.delivered_segs.is_some_and(|segments| segments > 1) && !self.carried_full_size()
    }

    /// Whether what is sent in vain is likely to be as long as a segment may be, and no shorter than every path takes.
    fn sends_full_size(&self) -> bool {
        let mss = u64::from(self.info.snd_mss_bytes.unwrap_or(0));
        mss > SMALLEST_MSS && self.send_queue().is_some_and(|queued| queued >= mss)
    }

    fn zero_window(&self) -> Option<Symptom> {
        let probes = self.retransmits(TimerKind::ZeroWindowProbe)?;
        let idle = u64::from(self.info.last_data_sent_ms?);
        let sendq = self.send_queue().filter(|bytes| *bytes > 0)?;
        // What was written a moment ago did not wait since the last that was sent.
        let stalled = match self.probing_ms() {
            Some(probing) if self.info.backoff < Some(BACKED_OFF) => idle.min(probing),
            _ => idle,
        };
        let is_it = stalled >= self.limits.of(Limit::ZeroWindowFor);
        is_it.then(|| {
            Symptom::new(
                Rule::ZeroWindow,
                stalled,
                &[
                    ("stalled_ms", Some(stalled)),
                    ("sendq_bytes", Some(sendq)),
                    ("snd_wnd_bytes", self.info.snd_wnd_bytes.map(u64::from)),
                    ("unanswered_probes", Some(probes)),
                ],
            )
        })
    }

    /// How long a closed window has been probed: the pauses that passed, each twice as long as the one before, and what
    /// has passed of this one.
    fn probing_ms(&self) -> Option<u64> {
        let first_ms = u64::from(self.info.rto_us?) / 1000;
        let doublings = u32::from(self.info.backoff?).min(30);
        let passed_ms = first_ms.saturating_mul((1 << doublings) - 1);
        let left_ms = self.socket.timer.map_or(0, |timer| u64::from(timer.expires_ms));
        let pause_ms = first_ms.saturating_mul(1 << doublings);
        Some(passed_ms.saturating_add(pause_ms.saturating_sub(left_ms)))
    }

    fn probing(&self) -> Option<Symptom> {
        let probes = self.retransmits(TimerKind::Keepalive)?;
        // The timer of FIN_WAIT2 has the same name.
        let is_it = self.socket.inode.is_some() && probes >= self.limits.of(Limit::KeepaliveUnansweredProbes);
        is_it.then(|| {
            Symptom::new(
                Rule::KeepaliveUnanswered,
                probes,
                &[("unanswered_probes", Some(probes)), ("idle_ms", self.idle_ms())],
            )
        })
    }

    fn stuck(&self) -> Option<Symptom> {
        let unacked = self.info.unacked_segs.filter(|segments| *segments > 0)?;
        let silent = u64::from(self.info.last_ack_recv_ms?);
        // Who was silent before anything was sent to him owes nothing.
        let owing = match self.retransmits(TimerKind::Retransmission) {
            Some(tries) => self.stalled_ms(tries),
            None => self.info.last_data_sent_ms.map(u64::from),
        };
        let stalled = owing.map_or(silent, |owing| owing.min(silent));
        let is_it = stalled >= self.limits.of(Limit::SendStuckFor) && self.socket.state != State::SynSent;
        is_it.then(|| {
            Symptom::new(
                Rule::SendStuck,
                stalled,
                &[
                    ("stalled_ms", Some(stalled)),
                    ("last_ack_recv_ms", Some(silent)),
                    ("sendq_bytes", self.send_queue()),
                    ("unacked_segs", Some(unacked.into())),
                ],
            )
        })
    }

    /// Nothing is under way: would anybody notice that the peer is gone?
    fn silent_peer_unnoticed(&self) -> Option<Symptom> {
        if self.socket.state != State::Established {
            return None;
        }
        match self.socket.timer {
            None => {
                let idle = self.idle_ms()?;
                let is_it = idle >= self.limits.of(Limit::NoKeepaliveIdle);
                let severity = if self.is_local() {
                    Severity::Notice
                } else {
                    Severity::Warning
                };
                is_it
                    .then(|| Symptom::new(Rule::NoKeepalive, idle, &[("idle_ms", Some(idle))]).with(severity))
            }
            Some(timer) if timer.kind == TimerKind::Keepalive && !self.is_local() => {
                // The kernel winds the timer up to the whole time after each sign of life: what is left of it is the
                // least that was set.
                let left = u64::from(timer.expires_ms);
                let is_it = left > self.limits.of(Limit::KeepaliveLateAfter);
                is_it.then(|| {
                    Symptom::new(
                        Rule::KeepaliveLate,
                        left,
                        &[("next_probe_ms", Some(left)), ("idle_ms", self.idle_ms())],
                    )
                })
            }
            Some(_) => None,
        }
    }

    fn losses(&self) -> Option<Symptom> {
        let change = &self.change;
        let retransmitted = u64::from(change.retransmitted_segs);
        let share = permille(retransmitted, change.sent_segs.into());
        if share >= self.limits.of(Limit::SpuriousRatio)
            && u64::from(change.needless_segs) >= self.limits.of(Limit::SpuriousCount)
            && permille(change.needless_segs.into(), retransmitted) >= self.limits.of(Limit::SpuriousShare)
        {
            return Some(Symptom::new(
                Rule::SpuriousRetransmissions,
                change.needless_segs.into(),
                &[
                    ("needless_segs", Some(change.needless_segs.into())),
                    ("retransmitted_segs", Some(retransmitted)),
                    ("sent_segs", Some(change.sent_segs.into())),
                ],
            ));
        }
        if retransmitted >= self.limits.of(Limit::RetransmissionsCount)
            && share >= self.limits.of(Limit::RetransmissionsShare)
        {
            return Some(Symptom::new(
                Rule::Retransmissions,
                share,
                &[
                    ("share_permille", Some(share)),
                    ("retransmitted_segs", Some(retransmitted)),
                    ("sent_segs", Some(change.sent_segs.into())),
                    ("rtt_us", self.info.rtt_us.map(u64::from)),
                    ("snd_cwnd_segs", self.info.snd_cwnd_segs.map(u64::from)),
                ],
            ));
        }
        let seen = u64::from(change.reorderings);
        let ratio = permille(seen, change.sent_segs.into());
        let is_it = seen >= self.limits.of(Limit::ReorderingEvents)
            && ratio >= self.limits.of(Limit::ReorderingRatio);
        is_it.then(|| {
            Symptom::new(
                Rule::Reordering,
                seen,
                &[
                    ("reorderings", Some(seen)),
                    ("reordering_segs", self.info.reordering_segs.map(u64::from)),
                    ("sent_segs", Some(change.sent_segs.into())),
                ],
            )
        })
    }

    fn floors(&self) -> Option<Symptom> {
        // Only who has something to send is held back by them.
        let waiting = self.info.notsent_bytes.filter(|bytes| *bytes > 0)?;
        let cwnd = u64::from(self.info.snd_cwnd_segs?);
        let in_flight = u64::from(self.info.unacked_segs.unwrap_or(0));
        let busy_ms = self.change.busy_us / 1000;
        // A timeout takes the window down to one segment until the next acknowledgement; that is no floor.
        let times_out = self
            .retransmits(TimerKind::Retransmission)
            .is_some_and(|tries| tries > 0);
        if cwnd <= self.limits.of(Limit::CwndFloorSegments)
            && !times_out
            && !self.is_down_for_a_moment(cwnd)
            && in_flight >= cwnd
            && busy_ms >= self.limits.of(Limit::CwndFloorBusy)
        {
            return Some(Symptom::new(
                Rule::CwndFloor,
                u64::MAX - cwnd,
                &[
                    ("snd_cwnd_segs", Some(cwnd)),
                    ("notsent_bytes", Some(waiting.into())),
                    ("rtt_us", self.info.rtt_us.map(u64::from)),
                    ("retransmitted_segs", Some(self.change.retransmitted_segs.into())),
                ],
            ));
        }
        let pacing = self.info.pacing_rate_bytes_per_s?;
        let is_it = pacing > 0 && pacing <= self.limits.of(Limit::PacingFloorRate) && in_flight < cwnd;
        is_it.then(|| {
            Symptom::new(
                Rule::PacingFloor,
                u64::MAX - pacing,
                &[
                    ("pacing_rate_bytes_per_s", Some(pacing)),
                    (
                        "max_pacing_rate_bytes_per_s",
                        self.info.max_pacing_rate_bytes_per_s,
                    ),
                    ("notsent_bytes", Some(waiting.into())),
                ],
            )
        })
    }

    /// BBR goes down to four segments for a moment every ten seconds, to see how short the path is, and knows that it
    /// carries more: so does its rate.
    fn is_down_for_a_moment(&self, cwnd: u64) -> bool {
        let (Some(rate), Some(rtt), Some(mss)) = (
            self.info.pacing_rate_bytes_per_s,
            self.info.min_rtt_us,
            self.info.snd_mss_bytes,
        ) else {
            return false;
        };
        // Two windows each round trip are what others pace by, too.
        let carries = u128::from(rate) * u128::from(rtt) / 1_000_000;
        carries > u128::from(cwnd) * u128::from(mss) * 4
    }

    fn limits(&self) -> Option<Symptom> {
        let change = &self.change;
        let rate = self.info.delivery_rate_bytes_per_s;
        let judge = |rule, part_us, [share, busy, below]: [Limit; 3]| {
            let shared = permille(part_us, change.busy_us);
            let is_it = shared >= self.limits.of(share)
                && change.busy_us / 1000 >= self.limits.of(busy)
                && rate.is_some_and(|rate| rate < self.limits.of(below));
            is_it.then(|| {
                Symptom::new(
                    rule,
                    shared,
                    &[
                        ("share_permille", Some(shared)),
                        ("busy_us", Some(change.busy_us)),
                        ("delivery_rate_bytes_per_s", rate),
                        ("snd_wnd_bytes", self.info.snd_wnd_bytes.map(u64::from)),
                        (
                            "sndbuf_bytes",
                            self.socket
                                .memory
                                .and_then(|memory| memory.sndbuf_bytes)
                                .map(u64::from),
                        ),
                        ("rtt_us", self.info.rtt_us.map(u64::from)),
                    ],
                )
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
        .or_else(|| self.nothing_to_send())
    }

    /// Only between two samples: how long a connection has been there nobody tells.
    fn nothing_to_send(&self) -> Option<Symptom> {
        let elapsed_us = self.change.elapsed_us?;
        let resting_us = elapsed_us.saturating_sub(self.change.busy_us);
        let share = permille(resting_us, elapsed_us);
        let is_it = share >= self.limits.of(Limit::ApplicationLimitedShare)
            && self.change.sent_bytes >= self.limits.of(Limit::ApplicationLimitedBytes);
        is_it.then(|| {
            Symptom::new(
                Rule::ApplicationLimited,
                share,
                &[
                    ("share_permille", Some(share)),
                    ("sent_bytes", Some(self.change.sent_bytes)),
                ],
            )
        })
    }

    fn inflation(&self) -> Option<Symptom> {
        let (now, least) = (u64::from(self.info.rtt_us?), u64::from(self.info.min_rtt_us?));
        let is_fresh = self.info.last_ack_recv_ms.is_some_and(|ms| ms < FRESH_MS);
        let is_it = is_fresh
            && now >= least.saturating_mul(self.limits.of(Limit::RttRatio))
            && now.saturating_sub(least) / 1000 >= self.limits.of(Limit::RttMore);
        is_it.then(|| {
            Symptom::new(
                Rule::RttInflation,
                now,
                &[
                    ("rtt_us", Some(now)),
                    ("min_rtt_us", Some(least)),
                    ("unacked_segs", self.info.unacked_segs.map(u64::from)),
                ],
            )
        })
    }

    /// Retransmissions or probes so far, if this is the timer that runs.
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
        // Of one alone nobody knows whether the other was later.
        let both = self.info.last_data_sent_ms.zip(self.info.last_data_recv_ms);
        both.and_then(|_| self.socket.idle_ms()).map(u64::from)
    }

    /// Whether both ends are on this host: no middlebox forgets it, and no peer is gone unnoticed unless it hangs.
    fn is_local(&self) -> bool {
        match (self.socket.local.ip(), self.socket.peer.ip()) {
            (Some(local), Some(peer)) => local == peer || peer.to_canonical().is_loopback(),
            _ => false,
        }
    }
}

/// How many thousandths of `whole` `part` is; of nothing nothing.
pub(crate) fn permille(part: u64, whole: u64) -> u64 {
    let thousandths = u128::from(part) * 1000 / u128::from(whole).max(1);
    u64::try_from(thousandths).unwrap_or(u64::MAX)
}

/// Every IPv4 host takes 576 bytes and every IPv6 link 1280; with a tunnel or two around them no path takes less than
/// this, and smaller segments are not what is lost.
const SMALLEST_MSS: u64 = 536;
/// Clocks of the kernel count in jiffies, of 10 ms at the most.
const MARGIN_MS: u64 = 30;
/// From here on the kernel's pauses between probes may be as long as they get, two minutes, and count no more.
const BACKED_OFF: u8 = 9;
/// A round trip time is of now if something was acknowledged since then.
const FRESH_MS: u32 = 10_000;

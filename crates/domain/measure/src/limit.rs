//! What limited a transfer, and what to do about it.
//!
//! The sender's TCP reports its busy time, and the parts of it limited by the peer's window or the send
//! buffer (`tcpi_busy_time`, `rwnd_limited`, `sndbuf_limited`); the rest is due to congestion control.
//! Samples of its state divide that rest: recovery after losses, a timeout, a full congestion window, or
//! space in both windows with data to send, which then waits for pacing (BBR always paces, and no share of
//! `tcp_info` counts that). When no data was waiting, the writing program was too slow.
//!
//! No share shows that a processor was the limit: a receiver that cannot read faster looks like a small
//! window or a slow path. So a thread that worked nine tenths of the time is reported first, and the shares
//! after it.

use crate::transfer::{DeviceWork, End, Sender, Side, StreamTransfer, Transfer};
use crate::{Sentence, TypedCommand};

/// What a sender was waiting for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Limit {
    /// No data to send
    Application,
    /// The receiver's window was full
    ReceiverWindow,
    /// The send buffer was full of unacknowledged data
    SendBuffer,
    /// The congestion window was full: the path's capacity as the sender knows it
    CongestionWindow,
    /// Both windows had space, but the sender paced
    Pace,
    /// Recovery after duplicate acknowledgements
    FastRecovery,
    /// After a retransmission timeout
    Timeout,
}

impl Limit {
    /// All limits.
    pub const ALL: [Self; 7] = [
        Self::Application,
        Self::ReceiverWindow,
        Self::SendBuffer,
        Self::CongestionWindow,
        Self::Pace,
        Self::FastRecovery,
        Self::Timeout,
    ];

    /// Name in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Application => "application",
            Self::ReceiverWindow => "receiver_window",
            Self::SendBuffer => "send_buffer",
            Self::CongestionWindow => "congestion_window",
            Self::Pace => "pacing",
            Self::FastRecovery => "fast_recovery",
            Self::Timeout => "timeout",
        }
    }

    /// Name for people.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Application => "application",
            Self::ReceiverWindow => "receiver window",
            Self::SendBuffer => "send buffer",
            Self::CongestionWindow => "congestion window",
            Self::Pace => "pacing",
            Self::FastRecovery => "recovery",
            Self::Timeout => "timeout",
        }
    }
}

/// Time of one direction by limit, summed over all streams, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LimitShares([u64; Limit::ALL.len()]);

impl LimitShares {
    /// The shares from the senders' TCP; `None` without data, or before Linux 4.10.
    #[must_use]
    pub fn of<'a>(senders: impl IntoIterator<Item = &'a Sender>) -> Option<Self> {
        let mut shares = Self::default();
        for sender in senders {
            shares.add(sender)?;
        }
        (shares.total() > 0).then_some(shares)
    }

    /// Time spent waiting for this limit, in microseconds.
    #[must_use]
    pub const fn us(&self, limit: Limit) -> u64 {
        self.0[limit as usize]
    }

    /// The same, in thousandths of the total.
    #[must_use]
    pub fn permille(&self, limit: Limit) -> f64 {
        self.us(limit) as f64 * 1000.0 / self.total().max(1) as f64
    }

    /// Total time in microseconds.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().fold(0, |sum, part| sum.saturating_add(*part))
    }

    /// Limits with any time, the longest first.
    #[must_use]
    pub fn ranked(&self) -> Vec<Limit> {
        let mut list: Vec<Limit> = Limit::ALL
            .into_iter()
            .filter(|&limit| self.us(limit) > 0)
            .collect();
        list.sort_by_key(|&limit| std::cmp::Reverse(self.us(limit)));
        list
    }

    fn add(&mut self, sender: &Sender) -> Option<()> {
        let elapsed = sender.elapsed_us?;
        let busy = sender.busy_us?.min(elapsed);
        let window = sender.rwnd_limited_us?.min(busy);
        let buffer = sender.sndbuf_limited_us?.min(busy - window);
        self.put(Limit::Application, elapsed - busy);
        self.put(Limit::ReceiverWindow, window);
        self.put(Limit::SendBuffer, buffer);
        // The kernel divides no further: divide the rest by the samples.
        let rest = busy - window - buffer;
        let seen = [
            (Limit::Timeout, sender.samples_loss),
            (Limit::FastRecovery, sender.samples_recovery),
            (Limit::CongestionWindow, sender.samples_cwnd_full),
            (Limit::Pace, sender.samples_paced),
            (Limit::SendBuffer, sender.samples_buffer_full),
            (Limit::Application, sender.samples_idle),
        ];
        let all: u64 = seen.iter().map(|(_, samples)| samples.unwrap_or(0)).sum();
        if all == 0 {
            self.put(Limit::CongestionWindow, rest);
            return Some(());
        }
        let mut left = rest;
        for (limit, samples) in seen {
            let part = u128::from(rest) * u128::from(samples.unwrap_or(0)) / u128::from(all);
            let part = u64::try_from(part).unwrap_or(0).min(left);
            self.put(limit, part);
            left -= part;
        }
        self.put(Limit::CongestionWindow, left);
        Some(())
    }

    fn put(&mut self, limit: Limit, us: u64) {
        let place = &mut self.0[limit as usize];
        *place = place.saturating_add(us);
    }
}

/// Requested settings, as far as they limit.
#[derive(Debug, Clone, Copy, Default)]
pub struct RequestedLimits<'a> {
    /// The other end, as typed
    pub host: &'a str,
    /// Bytes per second of each stream
    pub rate: Option<u64>,
    /// Fixed size of socket buffers
    pub window: Option<u64>,
    /// UDP instead of TCP
    pub is_udp: bool,
    /// Bytes per write or per datagram
    pub length: Option<u64>,
    /// The typed command, which remedies repeat
    pub again: Option<&'a TypedCommand>,
}

/// What limited the transfer in this direction, the most important first.
#[must_use]
pub fn what_limited(transfer: &Transfer, is_sent: bool, asked: RequestedLimits<'_>) -> Vec<Sentence> {
    let lanes: Vec<&StreamTransfer> = transfer.lanes(is_sent).collect();
    let none = End::default();
    let theirs = transfer.theirs.as_ref().unwrap_or(&none);
    let (sender, receiver) = if is_sent {
        (&transfer.ours, theirs)
    } else {
        (theirs, &transfer.ours)
    };
    let judge = LimitAnalysis {
        shares: LimitShares::of(lanes.iter().filter_map(|lane| lane.sender.as_ref())),
        lanes,
        sender: NamedEnd::new(sender, is_sent),
        receiver: NamedEnd::new(receiver, !is_sent),
        is_sent,
        asked,
    };
    judge.sentences()
}

/// One end with its name in messages.
#[derive(Clone, Copy)]
struct NamedEnd<'a> {
    end: &'a End,
    /// `here`, `at the other end`
    at: &'static str,
    is_ours: bool,
}

impl<'a> NamedEnd<'a> {
    const fn new(end: &'a End, is_ours: bool) -> Self {
        let at = if is_ours { "here" } else { "at the other end" };
        Self { end, at, is_ours }
    }
}

struct LimitAnalysis<'a> {
    lanes: Vec<&'a StreamTransfer>,
    shares: Option<LimitShares>,
    sender: NamedEnd<'a>,
    receiver: NamedEnd<'a>,
    is_sent: bool,
    asked: RequestedLimits<'a>,
}

impl LimitAnalysis<'_> {
    fn sentences(&self) -> Vec<Sentence> {
        let mut list = Vec::new();
        list.extend(self.rate_reached());
        if list.is_empty() {
            list.extend(self.tester_limited());
        }
        list.extend(self.drops());
        if self.asked.is_udp {
            list.extend(self.datagrams());
        }
        if let Some(sentence) = self.too_short() {
            list.push(sentence);
            return list;
        }
        if let Some(shares) = &self.shares {
            for limit in shares.ranked() {
                let permille = shares.permille(limit);
                // A sender with a fixed rate waits on request, which is reported already.
                let is_reported = self.asked.rate.is_some()
                    && matches!(limit, Limit::Pace | Limit::Application | Limit::SendBuffer)
                    && list.iter().any(|sentence| sentence.code == "rate-reached");
                if permille >= SHARE_SHOWN_PERMILLE && !is_reported {
                    list.push(self.share(limit, permille));
                }
            }
        }
        let is_explained = |sentence: &Sentence| ["tester-limited", "rate-reached"].contains(&sentence.code);
        if !list.iter().any(is_explained) {
            list.extend(self.busy_host());
        }
        list
    }

    /// Shares of a short time mean nothing.
    fn too_short(&self) -> Option<Sentence> {
        let carried = self.lanes.iter().filter_map(|lane| lane.carried_us()).max();
        let us = carried.filter(|&us| us < TOO_SHORT_US)?;
        let text = format!(
            "It was over after {}: too short to show what limited it.",
            time(us)
        );
        let mut sentence = sentence("too-short", text);
        if self.asked.again.is_some_and(|it| it.has("-n")) {
            self.add_rerun(&mut sentence, |it| it.without("-n"), "for ten seconds");
        }
        Some(sentence)
    }

    /// The requested rate was reached.
    fn rate_reached(&self) -> Option<Sentence> {
        let rate = self.asked.rate? as f64 * self.lanes.len() as f64;
        let sent: f64 = self.lanes.iter().filter_map(|lane| sent_bytes_per_s(lane)).sum();
        (rate > 0.0 && sent >= rate * 0.95).then(|| {
            let mut sentence = sentence(
                "rate-reached",
                format!("It was limited by the requested rate (-b): {}.", bits(rate)),
            );
            self.add_rerun(&mut sentence, |it| it.with("-b", 0), "as fast as it gets");
            sentence
        })
    }

    /// A thread, or all processors, were saturated.
    fn tester_limited(&self) -> Option<Sentence> {
        let of_sender = self.busiest(|lane| lane.sent.as_ref());
        let of_receiver = self.busiest(|lane| lane.received.as_ref());
        let (busiest, place, act) = if of_sender >= of_receiver {
            (of_sender, self.sender, "sends")
        } else {
            (of_receiver, self.receiver, "receives")
        };
        if let Some((needed, had)) = busiest.filter(|&(needed, _)| needed >= BUSY_PERMILLE) {
            let waited = needed.saturating_sub(had);
            let others = if waited >= WAITED_PERMILLE {
                format!(
                    ", and waited for one for {}: others used it",
                    percent(waited as f64)
                )
            } else {
                String::new()
            };
            let mut sentence = sentence(
                "tester-limited",
                format!(
                    "The tester itself was the limit: the thread that {act} {} had a processor for {} of the time{others}.",
                    place.at,
                    percent(had as f64)
                ),
            );
            if !others.is_empty() {
                sentence.remedy(format!("top    # {}: what else runs?", place.at));
            }
            let more = place.end.work.processors.is_some_and(|count| count > 1);
            if more && self.lanes.len() == 1 {
                self.add_rerun(&mut sentence, |it| it.with("-P", 2), "a thread for each stream");
            }
            self.longer_writes(&mut sentence, "fewer system calls for the same bytes");
            let copies = self.asked.again.is_some_and(|it| !it.has("--skip-rx-copy"));
            if act == "receives" && !self.asked.is_udp && copies {
                let why = "what is received is not copied";
                self.add_rerun(&mut sentence, |it| it.with_flag("--skip-rx-copy"), why);
            }
            return Some(sentence);
        }
        None
    }

    /// The busiest thread: thousandths of its time in which it needed a processor, and in which it had one.
    fn busiest(&self, side: impl Fn(&StreamTransfer) -> Option<&Side>) -> Option<(u64, u64)> {
        let share = |lane: &&StreamTransfer| {
            let side = side(lane)?;
            let worked = side.cpu_user_us?.saturating_add(side.cpu_system_us?);
            let needed = worked.saturating_add(side.cpu_waited_us.unwrap_or(0));
            let wall = side.cpu_wall_us.filter(|&us| us >= SHORTEST_US)?;
            Some((
                needed.saturating_mul(1000) / wall,
                worked.saturating_mul(1000) / wall,
            ))
        };
        self.lanes.iter().filter_map(share).max()
    }

    /// Other programs may have slowed the transfer down, without proof.
    fn busy_host(&self) -> Option<Sentence> {
        for place in [self.sender, self.receiver] {
            let idle = place.end.work.host_idle_permille;
            if let Some(idle) = idle.filter(|&idle| idle <= IDLE_PERMILLE) {
                let mut sentence = sentence(
                    "host-busy",
                    format!(
                        "The processors of the host {} rested {} of the time: other work may have slowed it down.",
                        place.at,
                        percent(idle as f64)
                    ),
                );
                sentence.remedy(format!("top    # {}: what else runs?", place.at));
                return Some(sentence);
            }
        }
        for place in [self.sender, self.receiver] {
            let work = &place.end.work;
            if work
                .busiest_processor_permille
                .is_some_and(|share| share >= SATURATED_PERMILLE)
                && work.processors.is_some_and(|count| count > 1)
            {
                let mut sentence = sentence(
                    "processor-busy",
                    format!(
                        "One processor {} worked all the time, on packets or for others: that may have slowed it down.",
                        place.at
                    ),
                );
                sentence.remedy(format!(
                    "mpstat -P ALL 1    # {}: which, and is it soft interrupts? (-A keeps away from it)",
                    place.at
                ));
                return Some(sentence);
            }
        }
        None
    }

    /// Drops by the hosts themselves.
    fn drops(&self) -> Vec<Sentence> {
        let mut list = Vec::new();
        for device in &self.sender.end.devices {
            list.extend(queue_drops(device, self.sender));
        }
        // On the same host both ends report the same devices.
        let is_reported = |device: &DeviceWork| {
            let same = |other: &&DeviceWork| other.name == device.name && other.queue == device.queue;
            let twin = self.sender.end.devices.iter().find(same);
            twin.is_some_and(|twin| drops_of(twin) == drops_of(device))
        };
        for device in &self.receiver.end.devices {
            if !is_reported(device) {
                list.extend(queue_drops(device, self.receiver));
            }
        }
        let softnet = |place: NamedEnd<'_>| place.end.work.softnet_dropped.filter(|&drops| drops > 0);
        for place in [self.sender, self.receiver] {
            if let Some(drops) = softnet(place)
                && list
                    .iter()
                    .all(|sentence: &Sentence| sentence.code != "backlog-drops")
            {
                let mut sentence = sentence(
                    "backlog-drops",
                    format!(
                        "{drops} packets were dropped {}, for a processor's backlog was full.",
                        place.at
                    ),
                );
                sentence.remedy(format!(
                    "sysctl -w net.core.netdev_max_backlog=10000    # {}",
                    place.at
                ));
                list.push(sentence);
            }
        }
        if let Some(drops) = self
            .receiver
            .end
            .work
            .receive_queue_drops
            .filter(|&drops| drops > 0)
            && !self.asked.is_udp
        {
            let at = self.receiver.at;
            let mut sentence = sentence(
                "receive-drops",
                format!(
                    "{drops} segments that arrived were dropped {at}, because the receive buffer was full."
                ),
            );
            sentence.remedy(format!(
                "nstat -az TcpExtTCPRcvQDrop TcpExtTCPBacklogDrop TcpExtRcvPruned    # {at}"
            ));
            list.push(sentence);
        }
        list
    }

    /// Where datagrams were lost.
    fn datagrams(&self) -> Option<Sentence> {
        let sum = |of: fn(&crate::Datagrams) -> Option<u64>| {
            let all = self.lanes.iter().filter_map(|lane| of(lane.datagrams.as_ref()?));
            all.reduce(u64::saturating_add)
        };
        let (lost, sent) = (sum(|it| it.lost)?, sum(|it| it.sent)?);
        if lost == 0 {
            return None;
        }
        let share = percent(lost as f64 * 1000.0 / sent.max(1) as f64);
        let at = self.receiver.at;
        if let Some(drops) = self
            .receiver
            .end
            .work
            .udp_receive_drops
            .filter(|&drops| drops >= lost / 2 && drops > 0)
        {
            let mut sentence = sentence(
                "receive-buffer-drops",
                format!(
                    "{lost} of {sent} datagrams were lost ({share}), {drops} of them {at}: the receive buffer was full."
                ),
            );
            let why = "a longer buffer, as far as net.core.rmem_max lets it";
            self.add_rerun(&mut sentence, |it| it.with("-w", "4M"), why);
            if let Some(most) = self.receiver.end.work.rmem_max_bytes {
                sentence.remedy(format!(
                    "sysctl -w net.core.rmem_max={}    # {at}",
                    most.saturating_mul(4)
                ));
            }
            return Some(sentence);
        }
        let mut sentence = sentence(
            "datagrams-lost",
            format!("{lost} of {sent} datagrams were lost ({share}) on the way."),
        );
        let arrived = self.lanes.iter().filter_map(|lane| {
            let side = lane.received.as_ref()?;
            let elapsed = side.elapsed_us.filter(|&us| us > 0)?;
            Some(side.bytes? as f64 * 8e6 / elapsed as f64)
        });
        // A little less than the rate that arrived, of the slowest stream.
        if let Some(rate) = arrived.reduce(f64::min).filter(|&rate| rate >= 2000.0) {
            let kbit = (rate * 0.95 / 1000.0) as u64;
            self.add_rerun(
                &mut sentence,
                |it| it.with("-b", format!("{kbit}k")),
                "does nothing get lost then?",
            );
        }
        self.add_traceroute(&mut sentence);
        Some(sentence)
    }

    fn share(&self, limit: Limit, permille: f64) -> Sentence {
        let share = percent(permille);
        let senders = || self.lanes.iter().filter_map(|lane| lane.sender.as_ref());
        let most = |of: fn(&Sender) -> Option<u64>| senders().filter_map(of).max();
        let sum = |of: fn(&Sender) -> Option<u64>| senders().filter_map(of).reduce(u64::saturating_add);
        let rtt = most(|it| it.rtt_us);
        let (from, to) = (self.sender.at, self.receiver.at);
        match limit {
            Limit::Application => {
                let mut sentence = sentence(
                    "application-limited",
                    format!(
                        "{share} of the time nothing was there to be sent: the program {from} did not write fast enough."
                    ),
                );
                self.longer_writes(&mut sentence, "more with each write");
                if self.lanes.len() == 1 {
                    self.add_rerun(&mut sentence, |it| it.with("-P", 2), "a thread for each stream");
                }
                sentence
            }
            Limit::ReceiverWindow => self.receiver_window(&share, most(|it| it.window_bytes), rtt),
            Limit::SendBuffer => {
                let buffer = most(|it| it.sndbuf_bytes);
                let mut sentence = sentence(
                    "send-buffer-limited",
                    format!(
                        "{share} of the time the send buffer {from} was full ({}): what is in it waits for acknowledgements{}.",
                        or_unknown(buffer, bytes),
                        rtt.map_or(String::new(), |us| format!(", which take {}", time(us)))
                    ),
                );
                if self.asked.window.is_some() {
                    self.add_rerun(&mut sentence, |it| it.without("-w"), "the kernel sizes it then");
                    if let Some(most) = self.sender.end.work.wmem_max_bytes {
                        sentence.remedy(format!(
                            "sysctl -w net.core.wmem_max={}    # {from}: no -w gets more than this",
                            most.saturating_mul(4)
                        ));
                    }
                } else if let Some(most) = self.sender.end.work.tcp_wmem_max_bytes {
                    sentence.remedy(format!(
                        "sysctl -w net.ipv4.tcp_wmem='4096 65536 {}'    # {from}",
                        most.saturating_mul(4).max(BUFFER_LEAST)
                    ));
                }
                if self.lanes.len() == 1 {
                    self.add_rerun(
                        &mut sentence,
                        |it| it.with("-P", 4),
                        "each stream has a buffer of its own",
                    );
                }
                sentence
            }
            Limit::CongestionWindow => self.congestion(&share, rtt, most(|it| it.min_rtt_us)),
            Limit::Pace => {
                let name = self.sender.end.congestion.as_deref().unwrap_or("unknown");
                let pace: Option<u64> = sum(|it| it.pacing_bytes_per_s);
                let mut sentence = sentence(
                    "pacing-limited",
                    format!(
                        "{share} of the time there was room in both windows, but the sender kept its pace ({}, congestion \
                         control {name}): as fast as it takes the path to be.",
                        or_unknown(pace, |rate| bits(rate as f64))
                    ),
                );
                let other = if name == "cubic" { "reno" } else { "cubic" };
                self.add_rerun(
                    &mut sentence,
                    |it| it.with("-C", other),
                    "does another one find more?",
                );
                self.add_traceroute(&mut sentence);
                sentence
            }
            Limit::FastRecovery | Limit::Timeout => {
                let (again, all) = (
                    sum(|it| it.retransmitted_segs).unwrap_or(0),
                    sum(|it| it.data_segs).unwrap_or(0),
                );
                let (code, what) = if limit == Limit::Timeout {
                    ("timeout-limited", "it waited for retransmission timeouts")
                } else {
                    ("recovery-limited", "it recovered from losses")
                };
                let mut sentence = sentence(
                    code,
                    format!(
                        "{share} of the time {what}: {again} of {all} segments were sent again ({}).",
                        percent(again as f64 * 1000.0 / all.max(1) as f64)
                    ),
                );
                let device = self.device(self.sender);
                sentence.remedy(format!(
                    "tc -s qdisc show dev {device}    # {from}: does its queue drop?"
                ));
                // Without a report of the other end it is unknown.
                let device = self.device(self.receiver);
                if device != UNNAMED {
                    sentence.remedy(format!("ip -s link show dev {device}    # {to}: does it?"));
                }
                self.add_traceroute(&mut sentence);
                sentence
            }
        }
    }

    fn receiver_window(&self, share: &str, window: Option<u64>, rtt: Option<u64>) -> Sentence {
        let to = self.receiver.at;
        let bound = window.zip(rtt).filter(|&(_, us)| us > 0).map(|(bytes, us)| {
            let rate = bytes as f64 * 1e6 / us as f64;
            format!(
                ": {} each round trip of {} are {} for a stream",
                self::bytes(bytes),
                time(us),
                bits(rate)
            )
        });
        let mut sentence = sentence(
            "receiver-limited",
            format!(
                "{share} of the time the receiver's window was full{}.",
                bound.unwrap_or_default()
            ),
        );
        if self.asked.window.is_some() {
            self.add_rerun(&mut sentence, |it| it.without("-w"), "the kernel sizes it then");
            if let Some(most) = self.receiver.end.work.rmem_max_bytes {
                sentence.remedy(format!(
                    "sysctl -w net.core.rmem_max={}    # {to}: no -w gets more than this",
                    most.saturating_mul(4)
                ));
            }
        } else {
            let most = self.receiver.end.work.tcp_rmem_max_bytes;
            let wider = most.unwrap_or(0).saturating_mul(4).max(BUFFER_LEAST);
            sentence.remedy(format!(
                "sysctl -w net.ipv4.tcp_rmem='4096 131072 {wider}'    # {to}"
            ));
        }
        if self.lanes.len() == 1 {
            self.add_rerun(
                &mut sentence,
                |it| it.with("-P", 4),
                "each stream has a window of its own",
            );
        }
        sentence
    }

    fn congestion(&self, share: &str, rtt: Option<u64>, least: Option<u64>) -> Sentence {
        let senders = || self.lanes.iter().filter_map(|lane| lane.sender.as_ref());
        let cwnd = senders().filter_map(|it| it.cwnd_segs).max();
        let mss = senders().filter_map(|it| it.mss_bytes).max();
        let name = self.sender.end.congestion.as_deref().unwrap_or("unknown");
        let mut text = format!("{share} of the time the congestion window was full ({name}");
        if let (Some(cwnd), Some(mss)) = (cwnd, mss) {
            text.push_str(&format!(", {cwnd} segments of {mss} bytes"));
        }
        if let Some(rtt) = rtt {
            text.push_str(&format!(", round trip {}", time(rtt)));
        }
        text.push_str("): the path carries no more, as far as the sender knows.");
        let waits = rtt
            .zip(least)
            .filter(|&(rtt, least)| rtt >= least.saturating_mul(5) && rtt - least >= 5000);
        if let Some((rtt, least)) = waits {
            text.push_str(&format!(
                " Packets wait in a queue on the way: the round trip is {} instead of {}.",
                time(rtt),
                time(least)
            ));
        }
        let mut sentence = sentence("congestion-limited", text);
        sentence.remedy(format!(
            "tc -s qdisc show dev {}    # {}: is it shaped here?",
            self.device(self.sender),
            self.sender.at
        ));
        self.add_traceroute(&mut sentence);
        if self.lanes.len() == 1 {
            let why = "do several get more? Then it was not the path's rate";
            self.add_rerun(&mut sentence, |it| it.with("-P", 4), why);
        }
        sentence
    }

    /// Adds the same command with a change as a remedy.
    fn add_rerun(&self, sentence: &mut Sentence, change: impl FnOnce(&TypedCommand) -> String, why: &str) {
        if let Some(again) = self.asked.again {
            sentence.remedy(format!("{}    # {why}", change(again)));
        }
    }

    /// A datagram longer than a packet would be fragmented: no remedy.
    fn longer_writes(&self, sentence: &mut Sentence, why: &str) {
        if !self.asked.is_udp && self.asked.length.is_none_or(|bytes| bytes < LONG_WRITE) {
            self.add_rerun(sentence, |it| it.with("-l", "1Mi"), why);
        }
    }

    fn add_traceroute(&self, sentence: &mut Sentence) {
        // Brackets are only needed with a port.
        let host = self.asked.host.trim_start_matches('[').trim_end_matches(']');
        sentence.remedy(TypedCommand::new("tracepath -n", host).without(""));
    }

    /// The device that carried most.
    fn device(&self, place: NamedEnd<'_>) -> String {
        let is_sender = place.is_ours == self.is_sent;
        let first = place.end.devices.iter().max_by_key(|device| {
            if is_sender {
                device.numbers.tx_bytes
            } else {
                device.numbers.rx_bytes
            }
        });
        first.map_or_else(|| UNNAMED.to_owned(), |device| device_word(&device.name))
    }
}

/// Quotes a device name for a command.
fn device_word(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:@".contains(c);
    if !name.is_empty() && name.chars().all(is_plain) {
        name.to_owned()
    } else {
        UNNAMED.to_owned()
    }
}

fn drops_of(device: &DeviceWork) -> [Option<u64>; 4] {
    let numbers = &device.numbers;
    [
        numbers.queue_dropped,
        numbers.tx_dropped,
        numbers.rx_dropped,
        numbers.rx_missed,
    ]
}

fn queue_drops(device: &DeviceWork, place: NamedEnd<'_>) -> Option<Sentence> {
    let [queue, tx, rx, missed] = drops_of(device).map(|drops| drops.unwrap_or(0));
    if queue + tx + rx + missed == 0 {
        return None;
    }
    let name = &device.name;
    let mut parts = Vec::new();
    if queue > 0 {
        let kind = device.queue.as_deref().unwrap_or("its queue");
        parts.push(format!("{queue} by its queue ({kind})"));
    }
    // Many devices also count drops of their queue.
    if tx > 0 && tx != queue {
        parts.push(format!("{tx} by the device when sending"));
    }
    if rx > 0 {
        parts.push(format!("{rx} when receiving"));
    }
    if missed > 0 {
        parts.push(format!("{missed} for its ring was full"));
    }
    if parts.is_empty() {
        parts.push(format!("{tx} when sending"));
    }
    let mut sentence = sentence(
        "device-drops",
        format!(
            "{name} {} dropped packets meanwhile: {}.",
            place.at,
            parts.join(", ")
        ),
    );
    let shell = device_word(name);
    if queue > 0 || tx > 0 {
        sentence.remedy(format!(
            "tc -s qdisc show dev {shell}    # {}: which queue drops",
            place.at
        ));
        if let Some(packets) = device
            .numbers
            .queue_packets
            .filter(|&packets| packets < LONG_QUEUE)
        {
            sentence.remedy(format!(
                "ip link set dev {shell} txqueuelen {LONG_QUEUE}    # {}: it holds {packets} packets",
                place.at
            ));
        }
    }
    if rx > 0 || missed > 0 {
        sentence.remedy(format!("ip -s -s link show dev {shell}    # {}", place.at));
    }
    if missed > 0 {
        sentence.remedy(format!(
            "ethtool -g {shell}    # {}: how long its ring may be",
            place.at
        ));
    }
    Some(sentence)
}

fn sent_bytes_per_s(lane: &StreamTransfer) -> Option<f64> {
    let side = lane.sent.as_ref().or(lane.received.as_ref())?;
    let elapsed = side.elapsed_us.filter(|&us| us > 0)?;
    Some(side.bytes? as f64 * 1e6 / elapsed as f64)
}

fn sentence(code: &'static str, text: String) -> Sentence {
    Sentence {
        code,
        text,
        ..Sentence::default()
    }
}

fn or_unknown(value: Option<u64>, show: impl Fn(u64) -> String) -> String {
    value.map_or_else(|| "unknown".to_owned(), show)
}

fn percent(permille: f64) -> String {
    if permille < 10.0 && permille > 0.0 {
        format!("{:.2} %", permille / 10.0)
    } else {
        format!("{:.0} %", permille / 10.0)
    }
}

fn bits(bytes_per_s: f64) -> String {
    let mut rate = bytes_per_s * 8.0;
    for unit in ["bit/s", "kbit/s", "Mbit/s"] {
        if rate < 1000.0 {
            return format!("{rate:.0} {unit}");
        }
        rate /= 1000.0;
    }
    format!("{rate:.1} Gbit/s")
}

fn bytes(count: u64) -> String {
    match count {
        0..10_240 => format!("{count} bytes"),
        10_240..10_485_760 => format!("{} KiB", count >> 10),
        _ => format!("{} MiB", count >> 20),
    }
}

fn time(us: u64) -> String {
    match us {
        0..1000 => format!("{us} us"),
        1000..1_000_000 => format!("{:.1} ms", us as f64 / 1e3),
        _ => format!("{:.1} s", us as f64 / 1e6),
    }
}

/// Smaller shares are not reported.
const SHARE_SHOWN_PERMILLE: f64 = 100.0;
/// A thread that is busier than this is the limit.
const BUSY_PERMILLE: u64 = 900;
/// A host with less idle processor time than this.
const IDLE_PERMILLE: u64 = 30;
const SATURATED_PERMILLE: u64 = 970;
/// From here on, waiting for a processor is reported.
const WAITED_PERMILLE: u64 = 100;
/// Least maximum that makes sense for an automatically sized buffer.
const BUFFER_LEAST: u64 = 16 << 20;
/// The time of slow start and of the first interrupts.
const TOO_SHORT_US: u64 = 10_000;
/// Below a tenth of a second, processor times are too coarse.
const SHORTEST_US: u64 = 100_000;
/// Replaces a device name that is unknown or not valid in a command.
const UNNAMED: &str = "DEVICE";
const LONG_WRITE: u64 = 1 << 20;
const LONG_QUEUE: u64 = 1000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::{Datagrams, DeviceNumbers, Work};

    /// Ten seconds, all of them busy, sampled a hundred times.
    fn sender() -> Sender {
        Sender {
            elapsed_us: Some(10_000_000),
            busy_us: Some(10_000_000),
            rwnd_limited_us: Some(0),
            sndbuf_limited_us: Some(0),
            samples: Some(100),
            ..Sender::default()
        }
    }

    fn side(cpu_permille: u64) -> Option<Side> {
        Some(Side {
            bytes: Some(1_000_000),
            elapsed_us: Some(1_000_000),
            cpu_user_us: Some(0),
            cpu_system_us: Some(cpu_permille * 1000),
            cpu_wall_us: Some(1_000_000),
            ..Side::default()
        })
    }

    fn transfer(sender: Sender) -> Transfer {
        Transfer {
            lanes: vec![StreamTransfer {
                is_sent: true,
                sent: side(100),
                received: side(100),
                sender: Some(sender),
                ..StreamTransfer::default()
            }],
            theirs: Some(End::default()),
            ..Transfer::default()
        }
    }

    fn codes(transfer: &Transfer, asked: RequestedLimits<'_>) -> Vec<&'static str> {
        let list = what_limited(transfer, true, asked);
        list.iter().map(|sentence| sentence.code).collect()
    }

    fn first(sender: Sender) -> Vec<&'static str> {
        codes(&transfer(sender), RequestedLimits::default())
    }

    #[test]
    fn shares_follow_tcp_info() {
        let shares = LimitShares::of([&Sender {
            busy_us: Some(8_000_000),
            rwnd_limited_us: Some(5_000_000),
            sndbuf_limited_us: Some(1_000_000),
            samples_cwnd_full: Some(3),
            samples_recovery: Some(1),
            ..sender()
        }]);
        let shares = shares.unwrap();
        assert_eq!(shares.total(), 10_000_000);
        assert_eq!(shares.us(Limit::Application), 2_000_000);
        assert_eq!(shares.us(Limit::ReceiverWindow), 5_000_000);
        assert_eq!(shares.us(Limit::SendBuffer), 1_000_000);
        assert_eq!(shares.us(Limit::CongestionWindow), 1_500_000);
        assert_eq!(shares.us(Limit::FastRecovery), 500_000);
        assert_eq!(shares.ranked()[0], Limit::ReceiverWindow);
        assert_eq!(shares.permille(Limit::SendBuffer), 100.0);
    }

    #[test]
    fn impossible_numbers_are_bounded() {
        let strange = Sender {
            busy_us: Some(u64::MAX),
            rwnd_limited_us: Some(u64::MAX),
            sndbuf_limited_us: Some(u64::MAX),
            samples_paced: Some(u64::MAX / 2),
            samples_idle: Some(7),
            ..sender()
        };
        let shares = LimitShares::of([&strange, &strange]).unwrap();
        assert_eq!(shares.total(), 20_000_000);
        assert_eq!(LimitShares::of([&Sender::default()]), None);
        assert_eq!(LimitShares::of([]), None);
    }

    #[test]
    fn each_limit_has_a_sentence() {
        let all = Some(100);
        let third = Some(9_000_000);
        assert_eq!(
            first(Sender {
                rwnd_limited_us: third,
                ..sender()
            }),
            ["receiver-limited", "congestion-limited"]
        );
        assert_eq!(
            first(Sender {
                sndbuf_limited_us: third,
                ..sender()
            })[0],
            "send-buffer-limited"
        );
        assert_eq!(
            first(Sender {
                busy_us: Some(0),
                ..sender()
            }),
            ["application-limited"]
        );
        assert_eq!(
            first(Sender {
                samples_paced: all,
                ..sender()
            }),
            ["pacing-limited"]
        );
        assert_eq!(
            first(Sender {
                samples_recovery: all,
                ..sender()
            }),
            ["recovery-limited"]
        );
        assert_eq!(
            first(Sender {
                samples_loss: all,
                ..sender()
            }),
            ["timeout-limited"]
        );
        assert_eq!(
            first(Sender {
                samples_buffer_full: all,
                ..sender()
            }),
            ["send-buffer-limited"]
        );
        assert_eq!(
            first(Sender {
                samples_cwnd_full: all,
                ..sender()
            }),
            ["congestion-limited"]
        );
    }

    #[test]
    fn busy_thread_is_the_limit() {
        let mut busy = transfer(Sender {
            samples_paced: Some(1),
            ..sender()
        });
        busy.lanes[0].received = side(950);
        let again = TypedCommand::new("sockeye bench stream", "b").option("-t", Some(2));
        let asked = RequestedLimits {
            again: Some(&again),
            ..RequestedLimits::default()
        };
        let list = what_limited(&busy, true, asked);
        assert_eq!(list[0].code, "tester-limited");
        assert!(
            list[0].text.contains("receives at the other end"),
            "{}",
            list[0].text
        );
        assert!(
            list[0]
                .remedies
                .iter()
                .any(|it| it.starts_with("sockeye bench stream b -t 2 --skip-rx-copy "))
        );
        // With -R the other end sends.
        busy.lanes[0].is_sent = false;
        busy.lanes[0].sent = side(990);
        let list = what_limited(&busy, false, RequestedLimits::default());
        assert!(
            list[0].text.contains("sends at the other end"),
            "{}",
            list[0].text
        );
        busy.lanes[0].sent = side(100);
        busy.lanes[0].received = side(100);
        // Waiting for a processor counts as needing one.
        if let Some(side) = &mut busy.lanes[0].received {
            side.cpu_waited_us = Some(850_000);
        }
        let list = what_limited(&busy, false, RequestedLimits::default());
        let text = &list[0].text;
        assert!(text.contains("receives here had a processor for 10 %"), "{text}");
        assert!(text.contains("waited for one for 85 %"), "{text}");
        // Other processor load alone is no reason.
        busy.lanes[0].received = side(100);
        busy.ours.work.host_idle_permille = Some(0);
        let list = what_limited(&busy, false, RequestedLimits::default());
        let codes: Vec<_> = list.iter().map(|it| it.code).collect();
        assert_eq!(codes, ["pacing-limited", "host-busy"]);
    }

    #[test]
    fn dropping_queue_is_named() {
        let mut lossy = transfer(Sender {
            samples_recovery: Some(1),
            retransmitted_segs: Some(30),
            data_segs: Some(1000),
            ..sender()
        });
        lossy.ours.devices.push(DeviceWork {
            name: "tun0".to_owned(),
            queue: Some("pfifo_fast".to_owned()),
            numbers: DeviceNumbers {
                queue_dropped: Some(30),
                tx_dropped: Some(30),
                queue_packets: Some(3),
                tx_bytes: Some(7),
                ..DeviceNumbers::default()
            },
        });
        let list = what_limited(&lossy, true, RequestedLimits::default());
        assert_eq!(list[0].code, "device-drops");
        assert_eq!(
            list[0].text,
            "tun0 here dropped packets meanwhile: 30 by its queue (pfifo_fast)."
        );
        assert!(list[0].remedies[1].starts_with("ip link set dev tun0 txqueuelen 1000 "));
        assert!(
            list[1].text.contains("30 of 1000 segments were sent again (3 %)"),
            "{}",
            list[1].text
        );
        assert!(list[1].remedies[0].starts_with("tc -s qdisc show dev tun0 "));
        // Both ends on one host report it once.
        let twin = lossy.ours.clone();
        lossy.theirs = Some(twin);
        assert_eq!(
            codes(&lossy, RequestedLimits::default()),
            ["device-drops", "recovery-limited"]
        );
        lossy.ours.devices[0].name = "x; rm -rf /".to_owned();
        let list = what_limited(&lossy, true, RequestedLimits::default());
        assert!(
            list.iter()
                .flat_map(|it| &it.remedies)
                .all(|it| !it.contains("rm -rf"))
        );
    }

    #[test]
    fn requested_rate_is_no_fault() {
        let asked = RequestedLimits {
            rate: Some(1_000_000),
            ..RequestedLimits::default()
        };
        let paced = transfer(Sender {
            samples_paced: Some(1),
            ..sender()
        });
        assert_eq!(codes(&paced, asked), ["rate-reached"]);
        let faster = RequestedLimits {
            rate: Some(2_000_000),
            ..asked
        };
        assert_eq!(codes(&paced, faster), ["pacing-limited"]);
    }

    #[test]
    fn lost_datagrams_are_located() {
        let asked = RequestedLimits {
            is_udp: true,
            ..RequestedLimits::default()
        };
        let mut lossy = transfer(Sender::default());
        lossy.lanes[0].sender = None;
        lossy.lanes[0].datagrams = Some(Datagrams {
            sent: Some(1000),
            received: Some(900),
            lost: Some(100),
            ..Datagrams::default()
        });
        assert_eq!(codes(&lossy, asked), ["datagrams-lost"]);
        lossy.theirs = Some(End {
            work: Work {
                udp_receive_drops: Some(100),
                rmem_max_bytes: Some(212_992),
                ..Work::default()
            },
            ..End::default()
        });
        let list = what_limited(&lossy, true, asked);
        assert_eq!(list[0].code, "receive-buffer-drops");
        assert!(list[0].remedies[0].contains("rmem_max=851968"));
        lossy.lanes[0].datagrams = None;
        assert_eq!(codes(&lossy, asked), [""; 0]);
    }
}

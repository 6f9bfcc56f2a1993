//! What held a transfer back, and what to do about it.
//!
//! TCP at the sender tells how long it was busy, and how long the peer's window or the send buffer held it meanwhile
//! (`tcpi_busy_time`, `rwnd_limited`, `sndbuf_limited`); the rest of the busy time is the congestion control's. What that
//! did is known from looks at it now and then: in recovery after losses, after a timeout, with a full congestion window,
//! or with room in both windows and something to send, which then waits for its pace (BBR paces always, and no share of
//! `tcp_info` counts that). Where nothing waited to be sent, whoever writes was too slow.
//!
//! No share tells that a processor was the limit: a receiver that cannot read faster looks like a small window, or like a
//! slow path. So whoever's thread worked nine tenths of the time comes first, and whatever the shares say comes after it.

use crate::transfer::{DeviceWork, End, Lane, Sender, Side, Transfer};
use crate::{Again, Sentence};

/// What a moment was spent waiting for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Limit {
    /// Nothing was there to be sent
    Application,
    /// The receiver's window was full
    ReceiverWindow,
    /// The sender's buffer was full of what was not acknowledged
    SendBuffer,
    /// The congestion window was full: the path, as the sender knows it
    CongestionWindow,
    /// There was room, but the sender keeps a pace
    Pace,
    /// Recovery after duplicate acknowledgements
    FastRecovery,
    /// After a retransmission timeout
    Timeout,
}

impl Limit {
    /// Each of them.
    pub const ALL: [Self; 7] = [
        Self::Application,
        Self::ReceiverWindow,
        Self::SendBuffer,
        Self::CongestionWindow,
        Self::Pace,
        Self::FastRecovery,
        Self::Timeout,
    ];

    /// Its name in JSON.
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

    /// What a person calls it.
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

/// How the time of one direction was spent, of all its streams together, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LimitShares([u64; Limit::ALL.len()]);

impl LimitShares {
    /// Of what the senders' TCP told; none if there was nothing, or the kernel is too old (before 4.10).
    #[must_use]
    pub fn of<'a>(senders: impl IntoIterator<Item = &'a Sender>) -> Option<Self> {
        let mut shares = Self::default();
        for sender in senders {
            shares.add(sender)?;
        }
        (shares.total() > 0).then_some(shares)
    }

    /// How long it waited for this.
    #[must_use]
    pub const fn us(&self, limit: Limit) -> u64 {
        self.0[limit as usize]
    }

    /// That as a share, in thousandths.
    #[must_use]
    pub fn permille(&self, limit: Limit) -> f64 {
        self.us(limit) as f64 * 1000.0 / self.total().max(1) as f64
    }

    /// How long all of it took.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().fold(0, |sum, part| sum.saturating_add(*part))
    }

    /// Those that took any time, the longest first.
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
        // The kernel counts no further. What it did in the rest is as what was seen of it.
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

/// What was asked for, as far as it limits.
#[derive(Debug, Clone, Copy, Default)]
pub struct Asked<'a> {
    /// The other end, as it was typed
    pub host: &'a str,
    /// Bytes a second of each stream
    pub rate: Option<u64>,
    /// Buffers of a fixed length
    pub window: Option<u64>,
    /// UDP instead of TCP
    pub is_udp: bool,
    /// Bytes of one write or of one datagram
    pub length: Option<u64>,
    /// The command that asked; remedies repeat it
    pub again: Option<&'a Again>,
}

/// What limited the bytes that went this way, the most important first.
#[must_use]
pub fn what_limited(transfer: &Transfer, is_sent: bool, asked: Asked<'_>) -> Vec<Sentence> {
    let lanes: Vec<&Lane> = transfer.lanes(is_sent).collect();
    let none = End::default();
    let theirs = transfer.theirs.as_ref().unwrap_or(&none);
    let (sender, receiver) = if is_sent {
        (&transfer.ours, theirs)
    } else {
        (theirs, &transfer.ours)
    };
    let judge = Judge {
        shares: LimitShares::of(lanes.iter().filter_map(|lane| lane.sender.as_ref())),
        lanes,
        sender: Place::new(sender, is_sent),
        receiver: Place::new(receiver, !is_sent),
        is_sent,
        asked,
    };
    judge.sentences()
}

/// One end, and what it is called.
#[derive(Clone, Copy)]
struct Place<'a> {
    end: &'a End,
    /// `here`, `at the other end`
    at: &'static str,
    is_ours: bool,
}

impl<'a> Place<'a> {
    const fn new(end: &'a End, is_ours: bool) -> Self {
        let at = if is_ours { "here" } else { "at the other end" };
        Self { end, at, is_ours }
    }
}

struct Judge<'a> {
    lanes: Vec<&'a Lane>,
    shares: Option<LimitShares>,
    sender: Place<'a>,
    receiver: Place<'a>,
    is_sent: bool,
    asked: Asked<'a>,
}

impl Judge<'_> {
    fn sentences(&self) -> Vec<Sentence> {
        let mut list = Vec::new();
        list.extend(self.rate_reached());
        if list.is_empty() {
            list.extend(self.tester());
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
                // A paced sender waits because it was told to, which has been said.
                let is_said = self.asked.rate.is_some()
                    && matches!(limit, Limit::Pace | Limit::Application | Limit::SendBuffer)
                    && list.iter().any(|sentence| sentence.code == "rate-reached");
                if permille >= WORTH_SAYING_PERMILLE && !is_said {
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

    /// Shares of a moment say nothing.
    fn too_short(&self) -> Option<Sentence> {
        let carried = self.lanes.iter().filter_map(|lane| lane.carried_us()).max();
        let us = carried.filter(|&us| us < MOMENT_US)?;
        let text = format!(
            "It was over after {}: too short to say what limited it.",
            time(us)
        );
        let mut sentence = said("too-short", text);
        if self.asked.again.is_some_and(|it| it.has("-n")) {
            self.again(&mut sentence, |it| it.without("-n"), "for ten seconds");
        }
        Some(sentence)
    }

    /// It was asked for no more than this.
    fn rate_reached(&self) -> Option<Sentence> {
        let rate = self.asked.rate? as f64 * self.lanes.len() as f64;
        let sent: f64 = self.lanes.iter().filter_map(|lane| sent_bytes_per_s(lane)).sum();
        (rate > 0.0 && sent >= rate * 0.95).then(|| {
            let mut sentence = said(
                "rate-reached",
                format!("It was limited by what was asked for (-b): {}.", bits(rate)),
            );
            self.again(&mut sentence, |it| it.with("-b", 0), "as fast as it gets");
            sentence
        })
    }

    /// A thread, or all processors, had no time left.
    fn tester(&self) -> Option<Sentence> {
        let of_sender = self.busiest(|lane| lane.sent.as_ref());
        let of_receiver = self.busiest(|lane| lane.received.as_ref());
        let (busiest, place, act) = if of_sender >= of_receiver {
            (of_sender, self.sender, "sends")
        } else {
            (of_receiver, self.receiver, "receives")
        };
        if let Some((wanted, had)) = busiest.filter(|&(wanted, _)| wanted >= BUSY_PERMILLE) {
            let waited = wanted.saturating_sub(had);
            let others = if waited >= WAITED_PERMILLE {
                format!(
                    ", and waited for one for {}: others had it",
                    percent(waited as f64)
                )
            } else {
                String::new()
            };
            let mut sentence = said(
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
                self.again(&mut sentence, |it| it.with("-P", 2), "a thread for each stream");
            }
            self.longer_writes(&mut sentence, "fewer system calls for the same bytes");
            let copies = self.asked.again.is_some_and(|it| !it.has("--skip-rx-copy"));
            if act == "receives" && !self.asked.is_udp && copies {
                let why = "what is received is not copied";
                self.again(&mut sentence, |it| it.with_flag("--skip-rx-copy"), why);
            }
            return Some(sentence);
        }
        None
    }

    /// What share of its time the busiest thread wanted a processor, and had one; in thousandths.
    fn busiest(&self, side: impl Fn(&Lane) -> Option<&Side>) -> Option<(u64, u64)> {
        let share = |lane: &&Lane| {
            let side = side(lane)?;
            let worked = side.cpu_user_us?.saturating_add(side.cpu_system_us?);
            let wanted = worked.saturating_add(side.cpu_waited_us.unwrap_or(0));
            let wall = side.cpu_wall_us.filter(|&us| us >= SHORTEST_US)?;
            Some((
                wanted.saturating_mul(1000) / wall,
                worked.saturating_mul(1000) / wall,
            ))
        };
        self.lanes.iter().filter_map(share).max()
    }

    /// Others may have slowed it down, though nothing says that they did.
    fn busy_host(&self) -> Option<Sentence> {
        for place in [self.sender, self.receiver] {
            let idle = place.end.work.host_idle_permille;
            if let Some(idle) = idle.filter(|&idle| idle <= IDLE_PERMILLE) {
                let mut sentence = said(
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
                let mut sentence = said(
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

    /// What the hosts themselves threw away.
    fn drops(&self) -> Vec<Sentence> {
        let mut list = Vec::new();
        for device in &self.sender.end.devices {
            list.extend(queue_drops(device, self.sender));
        }
        // On one and the same host both ends tell of the same devices.
        let is_told = |device: &DeviceWork| {
            let same = |other: &&DeviceWork| other.name == device.name && other.queue == device.queue;
            let twin = self.sender.end.devices.iter().find(same);
            twin.is_some_and(|twin| drops_of(twin) == drops_of(device))
        };
        for device in &self.receiver.end.devices {
            if !is_told(device) {
                list.extend(queue_drops(device, self.receiver));
            }
        }
        let softnet = |place: Place<'_>| place.end.work.softnet_dropped.filter(|&drops| drops > 0);
        for place in [self.sender, self.receiver] {
            if let Some(drops) = softnet(place)
                && list
                    .iter()
                    .all(|sentence: &Sentence| sentence.code != "backlog-drops")
            {
                let mut sentence = said(
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
            let mut sentence = said(
                "receive-drops",
                format!(
                    "{drops} segments that arrived were thrown away {at}, for the receive buffer had no room."
                ),
            );
            sentence.remedy(format!(
                "nstat -az TcpExtTCPRcvQDrop TcpExtTCPBacklogDrop TcpExtRcvPruned    # {at}"
            ));
            list.push(sentence);
        }
        list
    }

    /// Where datagrams went.
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
            let mut sentence = said(
                "receive-buffer-drops",
                format!(
                    "{lost} of {sent} datagrams were lost ({share}), {drops} of them {at}: the receive buffer was full."
                ),
            );
            let why = "a longer buffer, as far as net.core.rmem_max lets it";
            self.again(&mut sentence, |it| it.with("-w", "4M"), why);
            if let Some(most) = self.receiver.end.work.rmem_max_bytes {
                sentence.remedy(format!(
                    "sysctl -w net.core.rmem_max={}    # {at}",
                    most.saturating_mul(4)
                ));
            }
            return Some(sentence);
        }
        let mut sentence = said(
            "datagrams-lost",
            format!("{lost} of {sent} datagrams were lost ({share}) on the way."),
        );
        let arrived = self.lanes.iter().filter_map(|lane| {
            let side = lane.received.as_ref()?;
            let elapsed = side.elapsed_us.filter(|&us| us > 0)?;
            Some(side.bytes? as f64 * 8e6 / elapsed as f64)
        });
        // A little less than what got through, of the stream that got least.
        if let Some(rate) = arrived.reduce(f64::min).filter(|&rate| rate >= 2000.0) {
            let kbit = (rate * 0.95 / 1000.0) as u64;
            self.again(
                &mut sentence,
                |it| it.with("-b", format!("{kbit}k")),
                "does nothing get lost then?",
            );
        }
        self.trace(&mut sentence);
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
                let mut sentence = said(
                    "application-limited",
                    format!(
                        "{share} of the time nothing was there to be sent: the program {from} did not write fast enough."
                    ),
                );
                self.longer_writes(&mut sentence, "more with each write");
                if self.lanes.len() == 1 {
                    self.again(&mut sentence, |it| it.with("-P", 2), "a thread for each stream");
                }
                sentence
            }
            Limit::ReceiverWindow => self.receiver_window(&share, most(|it| it.window_bytes), rtt),
            Limit::SendBuffer => {
                let buffer = most(|it| it.sndbuf_bytes);
                let mut sentence = said(
                    "send-buffer-limited",
                    format!(
                        "{share} of the time the send buffer {from} was full ({}): what is in it waits for acknowledgements{}.",
                        told(buffer, bytes),
                        rtt.map_or(String::new(), |us| format!(", which take {}", time(us)))
                    ),
                );
                if self.asked.window.is_some() {
                    self.again(&mut sentence, |it| it.without("-w"), "the kernel sizes it then");
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
                    self.again(
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
                let mut sentence = said(
                    "pacing-limited",
                    format!(
                        "{share} of the time there was room in both windows, but the sender kept its pace ({}, congestion \
                         control {name}): as fast as it takes the path to be.",
                        told(pace, |rate| bits(rate as f64))
                    ),
                );
                let other = if name == "cubic" { "reno" } else { "cubic" };
                self.again(
                    &mut sentence,
                    |it| it.with("-C", other),
                    "does another one find more?",
                );
                self.trace(&mut sentence);
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
                let mut sentence = said(
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
                // Without a word from the other end it is not known.
                let device = self.device(self.receiver);
                if device != UNNAMED {
                    sentence.remedy(format!("ip -s link show dev {device}    # {to}: does it?"));
                }
                self.trace(&mut sentence);
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
        let mut sentence = said(
            "receiver-limited",
            format!(
                "{share} of the time the receiver's window was full{}.",
                bound.unwrap_or_default()
            ),
        );
        if self.asked.window.is_some() {
            self.again(&mut sentence, |it| it.without("-w"), "the kernel sizes it then");
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
            self.again(
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
        let mut sentence = said("congestion-limited", text);
        sentence.remedy(format!(
            "tc -s qdisc show dev {}    # {}: is it shaped here?",
            self.device(self.sender),
            self.sender.at
        ));
        self.trace(&mut sentence);
        if self.lanes.len() == 1 {
            let why = "do several get more? Then it was not the path's rate";
            self.again(&mut sentence, |it| it.with("-P", 4), why);
        }
        sentence
    }

    /// The same once more, with a change.
    fn again(&self, sentence: &mut Sentence, change: impl FnOnce(&Again) -> String, why: &str) {
        if let Some(again) = self.asked.again {
            sentence.remedy(format!("{}    # {why}", change(again)));
        }
    }

    /// A datagram longer than a packet would be cut into fragments: that is no remedy.
    fn longer_writes(&self, sentence: &mut Sentence, why: &str) {
        if !self.asked.is_udp && self.asked.length.is_none_or(|bytes| bytes < LONG_WRITE) {
            self.again(sentence, |it| it.with("-l", "1Mi"), why);
        }
    }

    fn trace(&self, sentence: &mut Sentence) {
        // Brackets are for ports.
        let host = self.asked.host.trim_start_matches('[').trim_end_matches(']');
        sentence.remedy(Again::new("tracepath -n", host).without(""));
    }

    /// The device that carried most.
    fn device(&self, place: Place<'_>) -> String {
        let is_sender = place.is_ours == self.is_sent;
        let first = place.end.devices.iter().max_by_key(|device| {
            if is_sender {
                device.numbers.tx_bytes
            } else {
                device.numbers.rx_bytes
            }
        });
        first.map_or_else(|| UNNAMED.to_owned(), |device| harmless(&device.name))
    }
}

/// Names of devices stand in commands that are to be typed.
fn harmless(name: &str) -> String {
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

fn queue_drops(device: &DeviceWork, place: Place<'_>) -> Option<Sentence> {
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
    // What the queue drops many devices count as theirs, too.
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
    let mut sentence = said(
        "device-drops",
        format!(
            "{name} {} dropped packets meanwhile: {}.",
            place.at,
            parts.join(", ")
        ),
    );
    let shell = harmless(name);
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

fn sent_bytes_per_s(lane: &Lane) -> Option<f64> {
    let side = lane.sent.as_ref().or(lane.received.as_ref())?;
    let elapsed = side.elapsed_us.filter(|&us| us > 0)?;
    Some(side.bytes? as f64 * 1e6 / elapsed as f64)
}

fn said(code: &'static str, text: String) -> Sentence {
    Sentence {
        code,
        text,
        ..Sentence::default()
    }
}

fn told(value: Option<u64>, show: impl Fn(u64) -> String) -> String {
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

/// From here on a share is told.
const WORTH_SAYING_PERMILLE: f64 = 100.0;
/// A thread with less rest than this is the limit.
const BUSY_PERMILLE: u64 = 900;
/// A host whose processors rest no more than this.
const IDLE_PERMILLE: u64 = 30;
const SATURATED_PERMILLE: u64 = 970;
/// From here on it is said that a thread waited for a processor.
const WAITED_PERMILLE: u64 = 100;
/// Less at most makes no sense for a buffer that sizes itself.
const BUFFER_LEAST: u64 = 16 << 20;
/// What slow start and the first interrupts take.
const MOMENT_US: u64 = 10_000;
/// In less than a tenth of a second processor time is too coarse.
const SHORTEST_US: u64 = 100_000;
/// What devices have by default.
/// Stands for a device whose name is not known, or would be no word.
const UNNAMED: &str = "DEVICE";
const LONG_WRITE: u64 = 1 << 20;
const LONG_QUEUE: u64 = 1000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::{Datagrams, DeviceNumbers, Work};

    /// Ten seconds, all of them busy, looked at a hundred times.
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
            lanes: vec![Lane {
                is_sent: true,
                sent: side(100),
                received: side(100),
                sender: Some(sender),
                ..Lane::default()
            }],
            theirs: Some(End::default()),
            ..Transfer::default()
        }
    }

    fn codes(transfer: &Transfer, asked: Asked<'_>) -> Vec<&'static str> {
        let list = what_limited(transfer, true, asked);
        list.iter().map(|sentence| sentence.code).collect()
    }

    fn first(sender: Sender) -> Vec<&'static str> {
        codes(&transfer(sender), Asked::default())
    }

    #[test]
    fn shares_of_what_the_kernel_counts() {
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
    fn each_limit_has_its_sentence() {
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
    fn who_works_all_the_time_is_the_limit() {
        let mut busy = transfer(Sender {
            samples_paced: Some(1),
            ..sender()
        });
        busy.lanes[0].received = side(950);
        let again = Again::new("sockeye bench stream", "b").option("-t", Some(2));
        let asked = Asked {
            again: Some(&again),
            ..Asked::default()
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
        // With -R it is the other end that sends.
        busy.lanes[0].is_sent = false;
        busy.lanes[0].sent = side(990);
        let list = what_limited(&busy, false, Asked::default());
        assert!(
            list[0].text.contains("sends at the other end"),
            "{}",
            list[0].text
        );
        busy.lanes[0].sent = side(100);
        busy.lanes[0].received = side(100);
        // Who waits for a processor wants one as well.
        if let Some(side) = &mut busy.lanes[0].received {
            side.cpu_waited_us = Some(850_000);
        }
        let list = what_limited(&busy, false, Asked::default());
        let text = &list[0].text;
        assert!(text.contains("receives here had a processor for 10 %"), "{text}");
        assert!(text.contains("waited for one for 85 %"), "{text}");
        // That others work is not yet a reason.
        busy.lanes[0].received = side(100);
        busy.ours.work.host_idle_permille = Some(0);
        let list = what_limited(&busy, false, Asked::default());
        let codes: Vec<_> = list.iter().map(|it| it.code).collect();
        assert_eq!(codes, ["pacing-limited", "host-busy"]);
    }

    #[test]
    fn queues_that_drop_are_named() {
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
        let list = what_limited(&lossy, true, Asked::default());
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
        // Both ends on one host tell of it once.
        let twin = lossy.ours.clone();
        lossy.theirs = Some(twin);
        assert_eq!(
            codes(&lossy, Asked::default()),
            ["device-drops", "recovery-limited"]
        );
        lossy.ours.devices[0].name = "x; rm -rf /".to_owned();
        let list = what_limited(&lossy, true, Asked::default());
        assert!(
            list.iter()
                .flat_map(|it| &it.remedies)
                .all(|it| !it.contains("rm -rf"))
        );
    }

    #[test]
    fn what_was_asked_for_is_no_fault() {
        let asked = Asked {
            rate: Some(1_000_000),
            ..Asked::default()
        };
        let paced = transfer(Sender {
            samples_paced: Some(1),
            ..sender()
        });
        assert_eq!(codes(&paced, asked), ["rate-reached"]);
        let faster = Asked {
            rate: Some(2_000_000),
            ..asked
        };
        assert_eq!(codes(&paced, faster), ["pacing-limited"]);
    }

    #[test]
    fn datagrams_are_lost_somewhere() {
        let asked = Asked {
            is_udp: true,
            ..Asked::default()
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

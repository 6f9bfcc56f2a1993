//! What the numbers say, in words.

use crate::command::{InNamespace, device_name, typed};
use crate::drops::{is_full_buffer, share_of};
use crate::hop::{Device, HopKind};
use crate::part::Part;
use crate::report::{Hop, PathReport, Qdisc, Reader};
use crate::stuck::ABANDONED;
use crate::unsent::Unsent;
use sockeye_measure::{Histogram, Sentence, TypedCommand, duration};
use sockeye_model::{counted, counted_were};
use sockeye_wire::path::SendLimit;
use std::collections::BTreeMap;

impl PathReport {
    /// Returns which connections stand still; then, where most of the time is spent, and where packets are dropped. Commands say that they are for another network
    /// namespace.
    #[must_use]
    pub fn sentences(&self) -> Vec<Sentence> {
        self.sentences_with(&|_, _| None)
    }

    /// The same, with commands as they are typed here.
    #[must_use]
    pub fn sentences_with(&self, in_namespace: InNamespace<'_>) -> Vec<Sentence> {
        let longest = self.hops.iter().max_by_key(|hop| self.share_ppm(hop));
        let longest = longest.filter(|hop| hop.total_ns > 0).and_then(|hop| {
            let percent = (self.share_ppm(hop)? + 5_000) / 10_000;
            let text = format!(
                "{percent} % of the time on this host is spent {}{}{}.",
                place(hop),
                self.whose(hop),
                self.why_unsent(hop)
            );
            let remedy = self.slow_queue(hop).map(|device| queue_of(&device, in_namespace));
            Some(Sentence::new("longest-hop", text).with(remedy))
        });
        // What takes as long as half of the way comes before it: a first request waits in the receive queue, too, until its connection is
        // accepted.
        let is_longer = |hop: &&Hop| hop.total_ns >= self.way_ns() / 2;
        let late = self.hops.iter().filter(is_longer).filter_map(accepts_late);
        let longest: Vec<_> = self
            .waiting(in_namespace)
            .chain(self.programs())
            .chain(late)
            .chain(longest)
            .collect();
        let is_drop = |hop: &&Hop| hop.dropped() > 0 && hop.key.kind != HopKind::Accept;
        let dropping = self.hops.iter().filter(is_drop);
        let drops: Vec<_> = dropping
            .clone()
            .flat_map(|hop| {
                hop.places
                    .sentences(hop.offered(), in_namespace)
                    .chain(self.drops(hop, in_namespace))
            })
            .collect();
        // Where hardly a packet passes, times are of no interest, unless that is so of a few packets only.
        let mut blocked = dropping.filter(|hop| hop.dropped() * 10 >= hop.offered() * 9);
        let is_blocked = blocked.any(|hop| hop.dropped() * 4 >= self.followed());
        let (first, then) = if is_blocked {
            (drops, longest.into_iter().collect())
        } else {
            (longest.into_iter().collect(), drops)
        };
        // What the kernel ends by itself is of less interest than where time goes.
        let (abandoned, stuck): (Vec<_>, Vec<_>) = self
            .stuck_sentences(in_namespace)
            .into_iter()
            .partition(|sentence| sentence.code == ABANDONED);
        stuck
            .into_iter()
            .chain(first)
            .chain(then)
            .chain(self.unknown_of_tunnel())
            .chain(self.hops.iter().filter_map(accept_queue_is_full))
            .chain(
                self.hops
                    .iter()
                    .filter(|hop| !is_longer(hop))
                    .filter_map(accepts_late),
            )
            .chain(abandoned)
            .collect()
    }

    /// Says where most of the packets wait that have not ended, if hardly any has come further.
    fn waiting(&self, in_namespace: InNamespace<'_>) -> impl Iterator<Item = Sentence> {
        let is_standing = |hop: &&Hop| {
            let is_way = hop.part.is_none() && hop.key.kind == HopKind::Forward;
            is_way && hop.queued_now * 4 >= self.followed() && hop.queued_now >= hop.packets
        };
        self.hops.iter().filter(is_standing).map(move |hop| {
            let waiting = hop.queued_now;
            let text = format!(
                "{waiting} of {} {} {}, at the end: for a neighbour that does not answer, or in a queue of the packet filter (NFQUEUE).",
                counted(self.followed(), "packet"),
                if waiting == 1 { "waits" } else { "wait" },
                place(hop)
            );
            let neighbours = hop.key.device.map(|device| typed(&device, "ip neigh", in_namespace));
            Sentence::new("waiting", text).with(neighbours)
        })
    }

    /// Returns the time of all packets on their way.
    fn way_ns(&self) -> u64 {
        let is_way = |hop: &&Hop| hop.key.kind != HopKind::Program && hop.part.is_none();
        let times = self.hops.iter().filter(is_way).map(|hop| hop.total_ns);
        times.fold(0, u64::saturating_add)
    }

    /// Names the programs that take longer from reading to writing than all packets on their way.
    fn programs(&self) -> impl Iterator<Item = Sentence> {
        let programs = self.hops.iter().filter(|hop| hop.key.kind == HopKind::Program);
        programs.filter_map(|hop| {
            let median = hop.delays.percentile(Histogram::P50)?;
            // It reads what comes from the other side.
            let is_read = |other: &&Hop| {
                other.key.kind == HopKind::Socket && other.key.direction != hop.key.direction
            };
            let reader = self.hops.iter().find(is_read).and_then(|hop| hop.readers.first());
            let program = reader.map_or_else(|| "a program".to_owned(), |reader| format!("the program ({})", name(reader)));
            let text = format!(
                "More time than on all the way passes in {program}, from reading a packet to writing the next one: {} (median, hop 'program' in \
                 direction '{}'). That is no queue, and in no share.",
                duration(median),
                hop.key.direction.name()
            );
            (hop.total_ns > self.way_ns()).then(|| Sentence::new("program", text))
        })
    }

    /// Says which program reads what waits in a hop, and how fast; empty if none is known.
    fn whose(&self, hop: &Hop) -> String {
        // A tun device's qdisc is read by the same program as the queue after it.
        let of_device = |other: &&Hop| {
            hop.key.kind == HopKind::Qdisc
                && other.key.kind == HopKind::Tunnel
                && other.key.device == hop.key.device
        };
        let reading = self.hops.iter().find(of_device).unwrap_or(hop);
        let Some(reader) = reading.readers.first() else {
            return String::new();
        };
        let (name, more) = (name(reader), reading.readers.len() - 1);
        let others = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        let pace_ns = reader.pace_ns();
        if let Some(ns) = pause_of(reading, reader, pace_ns) {
            return format!(
                ", whose program ({name}){others} read nothing for up to {}",
                duration(ns)
            );
        }
        match pace_ns {
            // A reading of a stream can take many packets, or a part of one.
            Some(ns) if hop.key.kind == HopKind::Socket => {
                format!(", whose program ({name}){others} reads every {}", duration(ns))
            }
            Some(ns) => format!(
                ", whose program ({name}){others} reads {} per packet",
                duration(ns)
            ),
            None => format!(", whose program is {name}{others}"),
        }
    }

    /// What most of the data in a send buffer waits for; `None` for other hops, and if that is not known.
    fn unsent(&self, hop: &Hop) -> Option<&Unsent> {
        let is_of = |unsent: &&Unsent| unsent.direction == hop.key.direction;
        self.unsent
            .iter()
            .find(is_of)
            .filter(|_| hop.key.kind == HopKind::Send)
    }

    /// Says why data waits in a send buffer; empty if that is not known.
    pub(crate) fn why_unsent(&self, hop: &Hop) -> String {
        let Some(unsent) = self.unsent(hop) else {
            return String::new();
        };
        let limit = match unsent.limit {
            SendLimit::PeerWindow => {
                let is_peer = |other: &&Hop| {
                    other.key.kind == HopKind::Socket && other.key.direction == hop.key.direction
                };
                let peer = self.hops.iter().find(is_peer);
                return match peer {
                    Some(peer) => format!(
                        ": the receive window of the peer is full{}",
                        self.why_full(peer, unsent)
                    ),
                    None => ": the receive window of the peer is full".to_owned(),
                };
            }
            SendLimit::Rate => return ": its program limits the rate (SO_MAX_PACING_RATE)".to_owned(),
            SendLimit::CongestionWindow => "the congestion window is full",
            SendLimit::Pacing => "the congestion control paces the data",
        };
        let (here, round_trip) = (duration(unsent.here_ns), duration(unsent.round_trip_ns));
        let standing = unsent
            .hop
            .and_then(|key| self.hops.iter().find(|hop| hop.key == key));
        let Some(standing) = standing else {
            return format!(
                ": {limit}, and {}{}",
                self.in_flight(unsent),
                smaller_by_drops(unsent)
            );
        };
        let whose = match (standing.key.kind, self.whose(standing)) {
            (HopKind::Qdisc | HopKind::Ring, whose) if whose.is_empty() => {
                ", whose rate is the bottleneck".to_owned()
            }
            (_, whose) => whose,
        };
        format!(
            ": {limit}, and of {} in flight {} are {} ({here} of a round trip of {round_trip}){whose}",
            bytes(unsent.unacked_bytes),
            bytes(unsent.bytes_in_hop),
            place(standing)
        )
    }

    /// Says where that is which was sent and is not acknowledged, and is not in one hop of this host.
    fn in_flight(&self, unsent: &Unsent) -> String {
        let (here, round_trip) = (duration(unsent.here_ns), duration(unsent.round_trip_ns));
        if unsent.here_ns * 2 > unsent.round_trip_ns {
            let longest = unsent
                .longest
                .and_then(|key| self.hops.iter().find(|hop| hop.key == key));
            let longest = longest.map_or_else(String::new, |hop| {
                format!(", the longest time {}{}", place(hop), self.whose(hop))
            });
            return format!("of a round trip of {round_trip} packets spend {here} on this host{longest}");
        }
        if unsent.is_peer_here {
            return format!(
                "the peer is on this host, where packets spend {here} of a round trip of {round_trip}: the rest is \
                 what no row has, such as programs of tunnels, acknowledgements on their way back, and waiting until what was lost is sent again"
            );
        }
        format!(
            "what is in flight is not in a queue of this host, but in the network or at the peer: \
             of a round trip of {round_trip} packets spend {here} here"
        )
    }

    /// Says why the receive window of a peer on this host is full: its program reads slowly, or its buffer is small.
    fn why_full(&self, peer: &Hop, unsent: &Unsent) -> String {
        let mean_ns = peer.total_ns / peer.packets.max(1);
        let median = peer.delays.percentile(Histogram::P50);
        match (peer.readers.first(), median) {
            // As many bytes as fit are acknowledged in each round trip: what is read in less time is not what the window waits for.
            (Some(reader), Some(median_ns)) if mean_ns * 2 < unsent.round_trip_ns => format!(
                ", although its program ({}) reads within {} (median) what arrives: its receive buffer is small for a round trip of {} \
                 (SO_RCVBUF, net.ipv4.tcp_rmem)",
                name(reader),
                duration(median_ns),
                duration(unsent.round_trip_ns)
            ),
            _ => self.whose(peer),
        }
    }

    /// Returns the device in whose qdisc or ring the time is: that of a hop, or of what a send buffer waits for.
    fn slow_queue(&self, hop: &Hop) -> Option<Device> {
        let key = match self.unsent(hop) {
            Some(unsent) => unsent.hop?,
            None if hop.total_ns / hop.packets.max(1) >= LONG_QUEUE_NS => hop.key,
            None => return None,
        };
        key.device
            .filter(|_| matches!(key.kind, HopKind::Qdisc | HopKind::Ring))
    }

    /// Says what a program of a tunnel does, as far as that is not known.
    fn unknown_of_tunnel(&self) -> Option<Sentence> {
        let tunnels = self.hops.iter().filter(|hop| hop.key.kind == HopKind::Tunnel);
        let mut read = tunnels.filter_map(|hop| Some((hop.key.device?, hop.readers.first()?)));
        let (device, reader) = read.next()?;
        let text = format!(
            "How long the program of {} ({}) works on a packet, from reading it to writing it elsewhere, is not known, and in no row: the shares are without it.",
            device_name(&device),
            name(reader)
        );
        Some(Sentence::new("tunnel-program", text))
    }

    /// Says where packets are dropped, and what would help; `None` if more is known of all of them.
    fn drops(&self, hop: &Hop, in_namespace: InNamespace<'_>) -> Option<Sentence> {
        let unplaced = hop.unplaced();
        let dropped: u64 = unplaced.values().sum();
        let reasons: Vec<_> = unplaced.into_keys().filter(|reason| !reason.is_empty()).collect();
        let reasons = match &reasons[..] {
            [] => String::new(),
            reasons => format!(" ({})", reasons.join(", ")),
        };
        let mut text = format!(
            "{} {}{}{}{reasons}",
            share_of(dropped, hop.offered()),
            place(hop),
            dropping_class(hop),
            self.whose(hop)
        );
        let device = hop.key.device.filter(|_| hop.key.kind == HopKind::Tunnel);
        if device.is_some() || hop.key.kind == HopKind::Qdisc {
            let waiting = counted_were(hop.longest_queue(), "packet");
            text.push_str(&format!("; at most {waiting} in it at once"));
        }
        if matches!(hop.key.kind, HopKind::Socket | HopKind::Stack)
            && hop.drops.keys().any(|reason| is_full_buffer(reason))
        {
            text.push_str(
                ": its buffer is full. Let the program read faster, or give the socket a larger one (SO_RCVBUF, net.core.rmem_max)",
            );
        }
        text.push('.');
        let remedy = device.filter(|_| hop.queued_max < LONG_QUEUE).map(|device| {
            let longer =
                TypedCommand::new("ip link set dev", &device_name(&device)).with("txqueuelen", LONG_QUEUE);
            typed(&device, &longer, in_namespace)
        });
        let queue = hop.key.device.filter(|_| hop.key.kind == HopKind::Qdisc);
        let remedy = remedy.or_else(|| queue.map(|device| queue_of(&device, in_namespace)));
        (dropped > 0).then(|| Sentence::new("drops", text).with(remedy))
    }
}

impl Hop {
    /// Returns how many packets were there at once, as the packets or the kernel say.
    fn longest_queue(&self) -> u64 {
        match self.qdisc {
            Some(Qdisc::Packets(packets)) => self.queued_max.max(packets.into()),
            _ => self.queued_max,
        }
    }

    /// Returns the number of packets that came to where this hop drops.
    fn offered(&self) -> u64 {
        let (dropped, passed) = (self.dropped(), self.dropped() + self.packets);
        self.places.all.unwrap_or(passed).max(dropped)
    }

    /// Returns the reasons of drops of which nothing more is known than the hop, with how often.
    fn unplaced(&self) -> BTreeMap<&str, u64> {
        let drops = self.drops.iter().map(|(reason, count)| {
            let unplaced = count.saturating_sub(self.places.with_reason(reason));
            (reason.as_str(), unplaced)
        });
        drops.filter(|(_, count)| *count > 0).collect()
    }
}

/// Names the class of a queue that has dropped more than half of what all classes have; empty if none is known to.
fn dropping_class(hop: &Hop) -> String {
    let Some(class) = hop.dropping_class else {
        return String::new();
    };
    format!(", in its class {:x}:{:x}", class >> 16, class & 0xffff)
}

/// Says that drops on this host make the congestion window smaller; empty if there are none.
fn smaller_by_drops(unsent: &Unsent) -> String {
    match unsent.dropped {
        0 => String::new(),
        dropped => format!(
            "; what this host drops of these connections ({}) makes the window smaller",
            counted(dropped, "packet")
        ),
    }
}

/// Returns the longest time that data waited in a hop and its program read nothing, if that is where the time in the hop comes from, and not a
/// pace that is always the same.
fn pause_of(hop: &Hop, reader: &Reader, pace_ns: Option<u64>) -> Option<u64> {
    let (pause_ns, max_ns) = (reader.pause_ns, hop.delays.max()?);
    let median_ns = hop.delays.percentile(Histogram::P50)?;
    let is_unusual = pause_ns >= LONG_PAUSE_NS && pause_ns / PAUSE_OF_PACES >= pace_ns.unwrap_or(0);
    // Few packets waited most of the time, or most packets waited for that.
    let of_few = hop.delays.mean()? >= 2.0 * median_ns as f64;
    let of_most = pause_ns / 4 <= median_ns && median_ns <= pause_ns;
    (is_unusual && pause_ns >= max_ns / 2 && (of_few || of_most)).then_some(pause_ns)
}

/// Returns the command that shows the queues of a device, with their rates, backlogs and drops.
fn queue_of(device: &Device, in_namespace: InNamespace<'_>) -> String {
    let command = TypedCommand::new("tc -s qdisc show dev", &device_name(device)).without("");
    typed(device, &command, in_namespace)
}

/// Says that an accept queue was full: what the kernel turns away then is no packet of a connection, and in no row.
fn accept_queue_is_full(hop: &Hop) -> Option<Sentence> {
    let Some(Part::Listener {
        local,
        limit: Some(limit),
        ..
    }) = hop.part
    else {
        return None;
    };
    // The kernel lets one more than the backlog wait (`sk_acceptq_is_full`).
    if hop.waiting.is_some() {
        // What is said of it has that.
        return None;
    }
    let text = format!(
        "The accept queue of {local} was full ({} of {limit}): the kernel turns new connections away meanwhile, which no row counts. \
         `sockeye events --kinds accept-overflow,syn-overflow` shows whose.",
        hop.queued_max
    );
    (hop.queued_max > u64::from(limit)).then(|| Sentence::new("accept-queue-full", text))
}

/// Says how long connections wait until they are accepted, if that is long.
fn accepts_late(hop: &Hop) -> Option<Sentence> {
    let Some(Part::Listener { local, .. }) = hop.part else {
        return None;
    };
    let median = hop.delays.percentile(Histogram::P50);
    let median = median.filter(|ns| *ns >= LATE_ACCEPT_NS)?;
    let program = hop
        .readers
        .first()
        .map_or_else(String::new, |reader| format!(" ({})", name(reader)));
    let text = format!(
        "Connections to {local} wait {} (median) in its accept queue until its program{program} accepts them: what the first request waits there is in 'socket', too.",
        duration(median)
    );
    Some(Sentence::new("accept-queue", text))
}

/// Says where a hop is.
fn place(hop: &Hop) -> String {
    let device = hop.key.device.as_ref();
    let device = device.map_or_else(|| "an unknown device".to_owned(), device_name);
    match hop.key.kind {
        HopKind::Program => "in the program, from reading to writing".to_owned(),
        HopKind::Send => "in the send buffer".to_owned(),
        HopKind::Output => {
            "in the network layer (routing, netfilter's hooks output and postrouting), before the queue of a device".to_owned()
        }
        HopKind::Qdisc => format!("in the qdisc of {device}"),
        HopKind::Class => format!("in a class of the qdisc of {device}"),
        HopKind::Ring => format!("in the ring of {device}, until it has sent"),
        HopKind::Tunnel => format!("in the queue of {device}"),
        HopKind::Device => format!("in the driver of {device}"),
        HopKind::Upper => format!("in {device}, on the way to the device below"),
        HopKind::Backlog => format!("in the softirq backlog of {device}"),
        HopKind::Handover => format!("from {device} to the device above"),
        HopKind::Prerouting => {
            format!("from {device} until its route is looked up (netfilter's prerouting hook)")
        }
        HopKind::Forward => {
            format!("on the way from {device} to the next device (netfilter's hooks forward and postrouting)")
        }
        HopKind::Input => format!("from {device} to TCP (netfilter's input hook)"),
        HopKind::Stack => format!("from {device} to the socket (packet filter, transport)"),
        HopKind::Order => {
            "in TCP, which has the packets and misses bytes before them: these were lost, or are later than what was sent after them".to_owned()
        }
        HopKind::Socket => "in the receive queue of the socket".to_owned(),
        HopKind::Accept => "in the accept queue of a listener".to_owned(),
    }
}

/// A time without reading that is named: a shorter one may be one of the scheduler; and how many times as long as its pace it is.
const LONG_PAUSE_NS: u64 = 10_000_000;
const PAUSE_OF_PACES: u64 = 5;

/// A program that does nothing else accepts within microseconds.
const LATE_ACCEPT_NS: u64 = 1_000_000;

/// A mean time in a qdisc or ring of which the sentence says how to look at it.
const LONG_QUEUE_NS: u64 = 1_000_000;

/// A queue of a tunnel that holds the bursts of fast TCP.
const LONG_QUEUE: u64 = 1000;

/// Returns a number of bytes for people, in few digits: `40.9 KB`.
pub(crate) fn bytes(number: u64) -> String {
    match number {
        1 => "1 byte".to_owned(),
        0..1_000 => format!("{number} bytes"),
        1_000..1_000_000 => format!("{:.1} KB", number as f64 / 1e3),
        _ => format!("{:.1} MB", number as f64 / 1e6),
    }
}

fn name(reader: &Reader) -> String {
    let comm = String::from_utf8_lossy(reader.comm.as_bytes()).into_owned();
    match reader.pid {
        Some(pid) => format!("{comm}, {pid}"),
        None => format!("{comm}, in another pid namespace"),
    }
}

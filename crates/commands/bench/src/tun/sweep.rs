//! The tunnel that is built to be measured.

use super::words::{bits, count, times};
use super::{CarrierArg, Mode, Offload, TunArgs};
use crate::telling::noise_since;
use anyhow::anyhow;
use sockeye_console::progress::Progress;
use sockeye_load::tun::{Effort, Failure, Passage, Tunnel, pass};
use sockeye_measure::{
    Chart, Column, Line, Partial, QueuePoint, Repeats, Report, Scale, Table, Unit, Value, recommend_queue,
};
use sockeye_sys::interrupts::Interrupts;
use std::collections::BTreeMap;
use std::fs;
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::Duration;

pub(super) fn run(args: &TunArgs) -> anyhow::Result<ExitCode> {
    let plan = Plan::of(args);
    let chart = args.telling.prepare()?;
    let interrupts = Interrupts::catch().ok();
    let noise = sockeye_load::noise();
    let mut points: Vec<Point> = plan.points().map(Point::new).collect();
    let partial = plan.measure(&mut points, interrupts.as_ref())?;
    let mut report = plan.report(&points);
    report.noise = Some(noise_since(noise));
    report.partial = partial;
    args.telling.deliver(&report, chart)
}

/// What is to be measured.
struct Plan {
    is_tap: bool,
    carrier: CarrierArg,
    lengths: Vec<u32>,
    offloads: Vec<bool>,
    counts: Vec<usize>,
    streams: Option<usize>,
    duration: Duration,
    congestion: String,
    repeats: usize,
}

/// One way through, and all that was measured of it.
struct Point {
    way: Way,
    rates: Repeats,
    passages: Vec<Passage>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Way {
    /// None: the veth pair alone.
    tunnel: Option<Setting>,
    streams: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Setting {
    offload: bool,
    queues: usize,
    length: u32,
}

impl Plan {
    fn of(args: &TunArgs) -> Self {
        let mut counts = args.multi_queue.clone();
        if counts.is_empty() {
            counts.push(1);
            if std::thread::available_parallelism().is_ok_and(|processors| processors.get() > 1) {
                counts.push(2);
            }
        }
        counts.sort_unstable();
        counts.dedup();
        let mut lengths = args.queues.clone();
        lengths.sort_unstable();
        lengths.dedup();
        Self {
            is_tap: args.tap || args.mode == Mode::Tap,
            carrier: args.carrier,
            lengths,
            offloads: match args.offload {
                Offload::On => vec![true],
                Offload::Off => vec![false],
                Offload::Both => vec![false, true],
            },
            counts,
            streams: args.streams,
            duration: args.time,
            congestion: args.congestion.clone().unwrap_or_else(usual_congestion),
            repeats: args.repeats,
        }
    }

    /// The veth pair alone for each number of connections, then the tunnels, in the order in which they are told.
    fn points(&self) -> impl Iterator<Item = Way> + '_ {
        let bare = self.stream_counts().into_iter().map(|streams| Way {
            tunnel: None,
            streams,
        });
        let tunnels = self.offloads.iter().flat_map(move |&offload| {
            self.counts.iter().flat_map(move |&queues| {
                self.lengths.iter().map(move |&length| Way {
                    tunnel: Some(Setting {
                        offload,
                        queues,
                        length,
                    }),
                    streams: self.streams_of(queues),
                })
            })
        });
        bare.chain(tunnels)
    }

    fn streams_of(&self, queues: usize) -> usize {
        self.streams.unwrap_or(queues)
    }

    fn stream_counts(&self) -> Vec<usize> {
        let mut all: Vec<usize> = self
            .counts
            .iter()
            .map(|&queues| self.streams_of(queues))
            .collect();
        all.dedup();
        all
    }

    /// Where to go in turn, by the points' places: length by length, so that what the machine does meanwhile hits all
    /// kinds alike, and the veth pair before the first and again before the middle.
    fn rounds(&self, points: &[Point]) -> Vec<usize> {
        let middle = self.lengths.len() / 2;
        let mut order = Vec::new();
        for (nth, length) in self.lengths.iter().enumerate() {
            let is_due = |point: &Point| match point.way.tunnel {
                None => nth == 0 || nth == middle,
                Some(setting) => setting.length == *length,
            };
            order.extend((0..points.len()).filter(|&place| is_due(&points[place])));
        }
        order.repeat(self.repeats)
    }

    fn measure(
        &self,
        points: &mut [Point],
        interrupts: Option<&Interrupts>,
    ) -> anyhow::Result<Option<Partial>> {
        let order = self.rounds(points);
        let mut progress = Progress::new("ways through measured", order.len());
        for (nth, place) in order.iter().enumerate() {
            let point = &mut points[*place];
            let effort = Effort {
                duration: self.duration,
                streams: point.way.streams,
                congestion: Some(self.congestion.clone()),
            };
            progress.reach(nth);
            let passed = pass(
                self.tunnel(point.way).as_ref(),
                &effort,
                interrupts.map(AsFd::as_fd),
            );
            let is_first = nth == 0;
            match passed {
                Ok(passage) => {
                    let is_cut_short = passage.is_cut_short;
                    // A glimpse says nothing.
                    if !is_cut_short || passage.elapsed * 2 > self.duration {
                        point.take(passage);
                    }
                    if is_cut_short {
                        return Ok(Some(Partial {
                            code: "interrupted",
                            text: format!("interrupted after {nth} of {} measurements", order.len()),
                        }));
                    }
                }
                Err(failure) if is_first => return Err(explained(&failure)),
                Err(failure) => {
                    return Ok(Some(Partial {
                        code: "failed",
                        text: format!(
                            "failed after {nth} of {} measurements: {}",
                            order.len(),
                            explained(&failure)
                        ),
                    }));
                }
            }
        }
        Ok(None)
    }

    fn tunnel(&self, way: Way) -> Option<Tunnel> {
        way.tunnel.map(|setting| Tunnel {
            is_tap: self.is_tap,
            carrier: self.carrier.into(),
            offload: setting.offload,
            queues: setting.queues,
            queue_packets: setting.length,
        })
    }

    fn report(&self, points: &[Point]) -> Report {
        let mut report = Report::new("tun");
        let device = if self.is_tap { "tap" } else { "tun" };
        report.setting("mode", "a tunnel over", Unit::Text, device.into());
        let carrier = match self.carrier {
            CarrierArg::Direct => "direct",
            CarrierArg::Udp => "udp",
        };
        report.setting("carrier", "carried", Unit::Text, carrier.into());
        report.setting("congestion", "", Unit::Text, self.congestion.as_str().into());
        report.setting(
            "point_s",
            "each for",
            Unit::Seconds,
            Value::Real(self.duration.as_secs_f64()),
        );
        report.setting("repeats", "times", Unit::Count, Value::Whole(self.repeats as u64));
        let measured: Vec<&Point> = points.iter().filter(|point| !point.rates.is_empty()).collect();
        report.tables.push(self.table(&measured));
        self.say_what_it_is(&mut report);
        self.say_offload(&mut report, &measured);
        self.say_lengths(&mut report, &measured);
        say_drops(&mut report, &measured);
        say_counts(&mut report, &measured);
        report.charts.extend(self.chart(&measured));
        report
    }

    fn table(&self, points: &[&Point]) -> Table {
        let columns = vec![
            Column::new("path", "path", Unit::Text),
            Column::new("offload", "offload", Unit::Text),
            Column::new("queues", "queues", Unit::Count),
            Column::new("length", "queue_packets", Unit::Number),
            Column::new("streams", "streams", Unit::Count),
            Column::new("throughput", "bytes_per_s", Unit::BitsPerSecond),
            Column::new("+-", "spread_permille", Unit::Permille),
            Column::new("of bare", "of_bare_permille", Unit::Permille),
            Column::new("drops", "drops", Unit::Count),
            Column::new("lost", "drops_permille", Unit::Permille),
            Column::new("reason", "drop_reason", Unit::Text),
            Column::new("resent", "retransmissions", Unit::Count),
            Column::hidden("device_drops", Unit::Count),
            Column::hidden("qdisc_drops", Unit::Count),
            Column::hidden("carrier_drops", Unit::Count),
            Column::hidden("drop_reasons", Unit::Text),
            Column::hidden("device_packets", Unit::Count),
            Column::hidden("packet_bytes", Unit::Bytes),
            Column::hidden("device_bytes_per_s", Unit::BitsPerSecond),
            Column::hidden("min_bytes_per_s", Unit::BitsPerSecond),
            Column::hidden("max_bytes_per_s", Unit::BitsPerSecond),
            Column::hidden("repeats", Unit::Count),
        ];
        let mut table = Table::new("points", columns);
        for point in points {
            let setting = point.way.tunnel;
            let bare = bare(points, point.way.streams).filter(|_| setting.is_some());
            let share = bare
                .zip(point.rates.median())
                .map(|(bare, rate)| rate / bare * 1000.0);
            let range = point.rates.range();
            let name = if self.is_tap { "tap" } else { "tun" };
            table.row(vec![
                setting.map_or("veth", |_| name).into(),
                setting.map_or(Value::Absent, |setting| {
                    if setting.offload { "on" } else { "off" }.into()
                }),
                setting.map(|setting| setting.queues as u64).into(),
                setting.map(|setting| u64::from(setting.length)).into(),
                Value::Whole(point.way.streams as u64),
                point.rates.median().into(),
                point.rates.spread_permille().into(),
                share.into(),
                Value::Whole(point.sum(drops)),
                Value::Real(point.lost_permille()),
                point.reason().map_or(Value::Absent, Value::from),
                point.retransmissions().into(),
                Value::Whole(point.sum(|passage| passage.device_drops)),
                Value::Whole(point.sum(|passage| passage.qdisc_drops)),
                Value::Whole(point.sum(|passage| passage.carrier_drops)),
                point.reasons().map_or(Value::Absent, Value::Text),
                Value::Whole(point.sum(|passage| passage.device_packets)),
                point.packet_bytes().into(),
                point.rate_by(|passage| passage.device_bytes).median().into(),
                range.map(|(low, _)| low).into(),
                range.map(|(_, high)| high).into(),
                Value::Whole(point.rates.len() as u64),
            ]);
        }
        table
    }

    fn say_what_it_is(&self, report: &mut Report) {
        let device = if self.is_tap { "TAP" } else { "TUN" };
        let text = match self.carrier {
            CarrierArg::Direct => format!(
                "The tunnel is one program that reads packets from the {device} device of one namespace and writes them to \
                 that of the other; veth is the same pair of namespaces without it."
            ),
            CarrierArg::Udp => format!(
                "The tunnel is a program at each end that carries packets between its {device} device and UDP over the veth \
                 pair, with offload a packet of up to 64 KiB as a run of datagrams (UDP_SEGMENT, UDP_GRO), unencrypted; \
                 veth is the pair without it."
            ),
        };
        report.say("path", text);
    }

    fn say_offload(&self, report: &mut Report, points: &[&Point]) {
        let best = |offload: bool| {
            let fitting = points.iter().filter(|point| {
                let setting = point.way.tunnel;
                setting.is_some_and(|setting| setting.offload == offload && setting.queues == self.counts[0])
            });
            fitting.max_by(|one, other| one.rate().total_cmp(&other.rate()))
        };
        let Some(with) = best(true) else { return };
        let mut text = String::new();
        if let Some(without) = best(false).filter(|point| point.rate() > 0.0) {
            text = format!(
                "With offload {} as much gets through as without: {} against {}",
                times(with.rate() / without.rate()),
                bits(with.rate()),
                bits(without.rate()),
            );
        }
        if let Some(bare) = bare(points, with.way.streams) {
            let share = with.rate() / bare * 100.0;
            text.push_str(&if text.is_empty() {
                format!(
                    "With offload {} get through, {share:.0} % of what the veth pair does",
                    bits(with.rate())
                )
            } else {
                format!(
                    ", which is {share:.0} % of what the veth pair does ({})",
                    bits(bare)
                )
            });
        }
        if text.is_empty() {
            return;
        }
        text.push_str(". A program gets it by IFF_VNET_HDR and TUNSETOFFLOAD.");
        report.say("offload", text);
    }

    fn say_lengths(&self, report: &mut Report, points: &[&Point]) {
        if self.lengths.len() < 2 {
            return;
        }
        let mut all: BTreeMap<(bool, usize), Vec<&Point>> = BTreeMap::new();
        for point in points {
            if let Some(setting) = point.way.tunnel {
                all.entry((setting.offload, setting.queues))
                    .or_default()
                    .push(point);
            }
        }
        for (&(offload, queues), points) in &all {
            let curve: Vec<QueuePoint> = points.iter().filter_map(|point| point.of_queue()).collect();
            let Some(advice) = recommend_queue(&curve) else {
                continue;
            };
            // What several queues want is in the figures; one sentence for each kind of program is enough.
            if queues != self.counts[0] {
                continue;
            }
            let chosen = points.iter().find(|point| {
                point
                    .way
                    .tunnel
                    .is_some_and(|setting| setting.length == advice.packets)
            });
            let advice = match chosen.and_then(|point| point.packet_bytes()) {
                Some(bytes) => advice.with_packets_of(bytes),
                None => advice,
            };
            let (kind, key) = if offload {
                ("With", "recommended_offload_packets")
            } else {
                ("Without", "recommended_packets")
            };
            report.settings.push(sockeye_measure::Setting {
                column: Column::hidden(key, Unit::Number),
                value: Value::Whole(advice.packets.into()),
            });
            let mut text = format!(
                "{kind} offload, recommended: a queue of {} packets. It lets {} through",
                advice.packets,
                bits(advice.bytes_per_s)
            );
            let shortest = self.lengths[0];
            if shortest < advice.packets {
                text.push_str(&format!(", {} what one of {shortest} does", times(advice.gain)));
            }
            if let Some(us) = advice.full_us {
                text.push_str(&format!("; full, it holds a packet up for {:.1} ms", us / 1000.0));
            }
            text.push_str(if advice.still_drops {
                ". It still drops: the reader is the limit, not the queue."
            } else {
                "."
            });
            if self.repeats < 2 {
                text.push_str(
                    " Each length was measured once only: --repeats 3 tells noise from differences.",
                );
            }
            report.say("queue-length", text).remedy(format!(
                "ip link set dev {} txqueuelen {}   # on the tunnel's own device",
                if self.is_tap { "tap0" } else { "tun0" },
                advice.packets
            ));
        }
        self.say_queues(report, &all);
    }

    fn say_queues(&self, report: &mut Report, all: &BTreeMap<(bool, usize), Vec<&Point>>) {
        let best = |offload: bool, queues: usize| {
            let points = all.get(&(offload, queues))?;
            points
                .iter()
                .copied()
                .max_by(|one, other| one.rate().total_cmp(&other.rate()))
        };
        let offload = self.offloads.contains(&true);
        let told: Vec<String> = self
            .counts
            .iter()
            .filter_map(|&queues| {
                let point = best(offload, queues)?;
                Some(format!(
                    "{} with {} {}",
                    count(queues as u64, "queue"),
                    count(point.way.streams as u64, "connection"),
                    bits(point.rate())
                ))
            })
            .collect();
        if told.len() > 1 {
            report.say(
                "queues",
                format!(
                    "At best, {} offload: {}. A connection uses one queue only.",
                    if offload { "with" } else { "without" },
                    told.join(", ")
                ),
            );
        }
    }

    fn chart(&self, points: &[&Point]) -> Option<Chart> {
        let mut lines: Vec<Line> = Vec::new();
        for point in points {
            let rate = point.rate();
            match point.way.tunnel {
                None => lines.push(Line {
                    name: format!("veth, {}", count(point.way.streams as u64, "stream")),
                    points: self
                        .lengths
                        .iter()
                        .map(|&length| (f64::from(length), rate))
                        .collect(),
                }),
                Some(setting) => {
                    let name = format!(
                        "{} offload, {}",
                        if setting.offload { "with" } else { "without" },
                        count(setting.queues as u64, "queue")
                    );
                    let place = (f64::from(setting.length), rate);
                    match lines.iter_mut().find(|line| line.name == name) {
                        Some(line) => line.points.push(place),
                        None => lines.push(Line {
                            name,
                            points: vec![place],
                        }),
                    }
                }
            }
        }
        (!lines.is_empty()).then(|| Chart {
            title: "What gets through a tunnel, by the length of its queue".to_owned(),
            x: ("queue, packets", Unit::Count),
            y: ("throughput", Unit::BitsPerSecond),
            x_scale: Scale::Logarithmic,
            y_scale: Scale::Logarithmic,
            lines,
            marks: Vec::new(),
        })
    }
}

impl Point {
    fn new(way: Way) -> Self {
        Self {
            way,
            rates: Repeats::default(),
            passages: Vec::new(),
        }
    }

    fn take(&mut self, passage: Passage) {
        self.rates
            .push(passage.bytes as f64 / passage.elapsed.as_secs_f64().max(1e-9));
        self.passages.push(passage);
    }

    fn rate(&self) -> f64 {
        self.rates.median().unwrap_or(0.0)
    }

    fn rate_by(&self, bytes: fn(&Passage) -> u64) -> Repeats {
        let passages = self.passages.iter();
        passages
            .map(|passage| bytes(passage) as f64 / passage.elapsed.as_secs_f64().max(1e-9))
            .collect()
    }

    fn sum(&self, of: fn(&Passage) -> u64) -> u64 {
        self.passages.iter().map(of).sum()
    }

    fn lost_permille(&self) -> f64 {
        let (lost, sent) = (self.sum(drops), self.sum(|passage| passage.device_packets));
        lost as f64 / (lost + sent).max(1) as f64 * 1000.0
    }

    fn retransmissions(&self) -> Option<u64> {
        self.passages.iter().map(|passage| passage.retransmissions).sum()
    }

    /// The mean packet at the receivers' device.
    fn packet_bytes(&self) -> Option<f64> {
        let packets = self.sum(|passage| passage.device_packets);
        (packets > 0).then(|| self.sum(|passage| passage.device_bytes) as f64 / packets as f64)
    }

    fn of_queue(&self) -> Option<QueuePoint> {
        Some(QueuePoint {
            packets: self.way.tunnel?.length,
            bytes_per_s: self.rates.median()?,
            sent: self.sum(|passage| passage.device_packets) as f64,
            dropped: self.sum(drops) as f64,
        })
    }

    /// Why most packets were dropped, in the kernel's words; where it has none, which counter counted them.
    fn reason(&self) -> Option<&'static str> {
        let most = [
            (self.sum(|passage| passage.device_drops), "device"),
            (self.sum(|passage| passage.qdisc_drops), "qdisc"),
            (self.sum(|passage| passage.carrier_drops), "carrier"),
        ];
        let (drops, counter) = most.into_iter().max_by_key(|(drops, _)| *drops)?;
        if drops == 0 {
            return None;
        }
        let all = self.reason_counts();
        let told = all.iter().max_by_key(|(_, count)| **count).map(|(name, _)| *name);
        Some(told.unwrap_or(counter))
    }

    fn reasons(&self) -> Option<String> {
        let all = self.reason_counts();
        let words: Vec<String> = all
            .iter()
            .map(|(name, count)| format!("{name}={count}"))
            .collect();
        (!words.is_empty()).then(|| words.join(" "))
    }

    fn reason_counts(&self) -> BTreeMap<&'static str, u64> {
        let mut all = BTreeMap::new();
        for (name, count) in self
            .passages
            .iter()
            .filter_map(|passage| passage.reasons.as_ref())
            .flatten()
        {
            *all.entry(*name).or_default() += count;
        }
        all
    }
}

/// What the veth pair alone lets through with so many connections.
fn bare(points: &[&Point], streams: usize) -> Option<f64> {
    let mut bare = points.iter().filter(|point| point.way.tunnel.is_none());
    bare.find(|point| point.way.streams == streams)?.rates.median()
}

fn drops(passage: &Passage) -> u64 {
    passage.device_drops + passage.qdisc_drops + passage.carrier_drops
}

fn say_drops(report: &mut Report, points: &[&Point]) {
    let of = |of: fn(&Passage) -> u64| -> u64 { points.iter().map(|point| point.sum(of)).sum() };
    let parts = [
        (
            of(|passage| passage.device_drops),
            "at the full queue of the device (tx_dropped)",
        ),
        (of(|passage| passage.qdisc_drops), "by its queueing discipline"),
        (
            of(|passage| passage.carrier_drops),
            "between the ends of the tunnel",
        ),
    ];
    let told: Vec<String> = parts
        .iter()
        .filter(|(drops, _)| *drops > 0)
        .map(|(drops, place)| format!("{drops} {place}"))
        .collect();
    if told.is_empty() {
        return;
    }
    let mut reasons: BTreeMap<&'static str, u64> = BTreeMap::new();
    for point in points {
        for (name, count) in point.reason_counts() {
            *reasons.entry(name).or_default() += count;
        }
    }
    let most = reasons.iter().max_by_key(|(_, count)| **count);
    let why = match most {
        Some((&name @ "FULL_RING", _)) => format!(
            " The kernel's reason is {name}: the ring between the device and its reader, txqueuelen long, was full."
        ),
        Some((name, _)) => format!(" The kernel's reason is {name}: `sockeye explain {name}`."),
        None => String::new(),
    };
    report.say("drops", format!("Dropped: {}.{why}", told.join(", ")));
}

/// Whether an independent count says the same.
fn say_counts(report: &mut Report, points: &[&Point]) {
    let read: u64 = points
        .iter()
        .map(|point| point.sum(|passage| passage.bytes))
        .sum();
    let device: u64 = points
        .iter()
        .map(|point| point.sum(|passage| passage.device_bytes))
        .sum();
    if read == 0 {
        return;
    }
    let more = (device as f64 / read as f64 - 1.0) * 100.0;
    let text = if (-2.0..=25.0).contains(&more) {
        format!(
            "The receivers' devices count {more:.1} % more bytes than were read: headers, and what was sent again."
        )
    } else {
        format!(
            "The receivers' devices count {device} bytes where {read} were read: do not trust these figures."
        )
    };
    report.say("counted", text);
}

fn explained(failure: &Failure) -> anyhow::Error {
    match failure.remedy() {
        Some(remedy) => anyhow!("bench tun: {failure}; {remedy}"),
        None => anyhow!("bench tun: {failure}"),
    }
}

/// The usual one of Linux, where there is one: what a queue's losses do depends on it.
fn usual_congestion() -> String {
    let folder = "/proc/sys/net/ipv4";
    let read = |name: &str| fs::read_to_string(format!("{folder}/{name}")).unwrap_or_default();
    let available = read("tcp_available_congestion_control");
    if available.split_ascii_whitespace().any(|name| name == "cubic") {
        return "cubic".to_owned();
    }
    let own = read("tcp_congestion_control");
    if own.trim().is_empty() {
        "cubic".to_owned()
    } else {
        own.trim().to_owned()
    }
}

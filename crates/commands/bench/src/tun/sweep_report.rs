//! The report of a sweep over queue lengths.

use super::args::CarrierArg;
use super::sweep::{Plan, Point, drops};
use crate::output::figures::{bits, times};
use sockeye_load::tun::Measurement;
use sockeye_measure::{Chart, Column, Line, QueuePoint, Report, Scale, Table, Unit, Value, recommend_queue};
use sockeye_model::counted;
use std::collections::BTreeMap;

impl Plan {
    pub(super) fn report(&self, points: &[Point]) -> Report {
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
            let setting = point.path.tunnel;
            let bare = bare(points, point.path.streams).filter(|_| setting.is_some());
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
                Value::Whole(point.path.streams as u64),
                point.rates.median().into(),
                point.rates.spread_permille().into(),
                share.into(),
                Value::Whole(point.sum(drops)),
                Value::Real(point.lost_permille()),
                point.reason().map_or(Value::Absent, Value::from),
                point.retransmissions().into(),
                Value::Whole(point.sum(|measurement| measurement.device_drops)),
                Value::Whole(point.sum(|measurement| measurement.qdisc_drops)),
                Value::Whole(point.sum(|measurement| measurement.carrier_drops)),
                point.reasons().map_or(Value::Absent, Value::Text),
                Value::Whole(point.sum(|measurement| measurement.device_packets)),
                point.packet_bytes().into(),
                point
                    .rate_by(|measurement| measurement.device_bytes)
                    .median()
                    .into(),
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
                let setting = point.path.tunnel;
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
        if let Some(bare) = bare(points, with.path.streams) {
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
            if let Some(setting) = point.path.tunnel {
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
            // The table has the figures of several queues; one sentence per kind of program is enough.
            if queues != self.counts[0] {
                continue;
            }
            let chosen = points.iter().find(|point| {
                point
                    .path
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
                    " Each length was measured once only: --repeats 3 separates noise from differences.",
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
        let parts: Vec<String> = self
            .counts
            .iter()
            .filter_map(|&queues| {
                let point = best(offload, queues)?;
                Some(format!(
                    "{} with {} {}",
                    counted(queues, "queue"),
                    counted(point.path.streams, "connection"),
                    bits(point.rate())
                ))
            })
            .collect();
        if parts.len() > 1 {
            report.say(
                "queues",
                format!(
                    "At best, {} offload: {}. A connection uses one queue only.",
                    if offload { "with" } else { "without" },
                    parts.join(", ")
                ),
            );
        }
    }

    fn chart(&self, points: &[&Point]) -> Option<Chart> {
        let mut lines: Vec<Line> = Vec::new();
        for point in points {
            let rate = point.rate();
            match point.path.tunnel {
                None => lines.push(Line {
                    name: format!("veth, {}", counted(point.path.streams, "stream")),
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
                        counted(setting.queues, "queue")
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
            title: "Throughput of a tunnel, by the length of its queue".to_owned(),
            x: ("queue, packets", Unit::Count),
            y: ("throughput", Unit::BitsPerSecond),
            x_scale: Scale::Logarithmic,
            y_scale: Scale::Logarithmic,
            lines,
            marks: Vec::new(),
        })
    }
}

/// Returns the throughput of the veth pair alone with this many connections.
fn bare(points: &[&Point], streams: usize) -> Option<f64> {
    let mut bare = points.iter().filter(|point| point.path.tunnel.is_none());
    bare.find(|point| point.path.streams == streams)?.rates.median()
}

fn say_drops(report: &mut Report, points: &[&Point]) {
    let of = |of: fn(&Measurement) -> u64| -> u64 { points.iter().map(|point| point.sum(of)).sum() };
    let parts = [
        (
            of(|measurement| measurement.device_drops),
            "at the full queue of the device (tx_dropped)",
        ),
        (
            of(|measurement| measurement.qdisc_drops),
            "by its queueing discipline",
        ),
        (
            of(|measurement| measurement.carrier_drops),
            "between the ends of the tunnel",
        ),
    ];
    let dropped: Vec<String> = parts
        .iter()
        .filter(|(drops, _)| *drops > 0)
        .map(|(drops, place)| format!("{drops} {place}"))
        .collect();
    if dropped.is_empty() {
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
    report.say("drops", format!("Dropped: {}.{why}", dropped.join(", ")));
}

/// Compares the figures with the counters of the devices.
fn say_counts(report: &mut Report, points: &[&Point]) {
    let read: u64 = points
        .iter()
        .map(|point| point.sum(|measurement| measurement.bytes))
        .sum();
    let device: u64 = points
        .iter()
        .map(|point| point.sum(|measurement| measurement.device_bytes))
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

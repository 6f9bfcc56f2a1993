//! Measures tunnels with queues of several lengths.

use super::args::{CarrierArg, Mode, Offload, TunArgs};
use crate::output_args::noise_since;
use anyhow::anyhow;
use sockeye_console::progress::Progress;
use sockeye_load::tun::{Failure, LoadOptions, Measurement, Tunnel, measure_tunnel};
use sockeye_measure::{Partial, QueuePoint, Repeats};
use sockeye_sys::interrupts::Interrupts;
use std::collections::BTreeMap;
use std::fs;
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::Duration;

pub(super) fn run(args: &TunArgs) -> anyhow::Result<ExitCode> {
    let plan = Plan::of(args);
    let chart = args.output.prepare()?;
    let interrupts = Interrupts::catch().ok();
    let noise = sockeye_load::noise();
    let mut points: Vec<Point> = plan.points().map(Point::new).collect();
    let partial = plan.measure(&mut points, interrupts.as_ref())?;
    let mut report = plan.report(&points);
    report.noise = Some(noise_since(noise));
    report.partial = partial;
    args.output.deliver(&report, chart)
}

/// Parameters of a sweep.
pub(super) struct Plan {
    pub(super) is_tap: bool,
    pub(super) carrier: CarrierArg,
    pub(super) lengths: Vec<u32>,
    pub(super) offloads: Vec<bool>,
    pub(super) counts: Vec<usize>,
    pub(super) streams: Option<usize>,
    pub(super) duration: Duration,
    pub(super) congestion: String,
    pub(super) repeats: usize,
}

/// A path and its measurements.
pub(super) struct Point {
    pub(super) path: Path,
    pub(super) rates: Repeats,
    pub(super) measurements: Vec<Measurement>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Path {
    /// `None`: the veth pair alone.
    pub(super) tunnel: Option<Setting>,
    pub(super) streams: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Setting {
    pub(super) offload: bool,
    pub(super) queues: usize,
    pub(super) length: u32,
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
            streams: args.parallel,
            duration: args.duration,
            congestion: args.congestion.clone().unwrap_or_else(usual_congestion),
            repeats: args.repeats,
        }
    }

    /// The veth pair alone for each number of connections, then the tunnels, in the order of the report.
    fn points(&self) -> impl Iterator<Item = Path> + '_ {
        let bare = self.stream_counts().into_iter().map(|streams| Path {
            tunnel: None,
            streams,
        });
        let tunnels = self.offloads.iter().flat_map(move |&offload| {
            self.counts.iter().flat_map(move |&queues| {
                self.lengths.iter().map(move |&length| Path {
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

    /// Returns the order of measurements, as indexes of the points: by length, so that a disturbance affects all kinds
    /// alike, with the veth pair before the first and again before the middle length.
    fn rounds(&self, points: &[Point]) -> Vec<usize> {
        let middle = self.lengths.len() / 2;
        let mut order = Vec::new();
        for (nth, length) in self.lengths.iter().enumerate() {
            let is_due = |point: &Point| match point.path.tunnel {
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
        let mut progress = Progress::new("paths measured", order.len());
        for (nth, place) in order.iter().enumerate() {
            let point = &mut points[*place];
            let options = LoadOptions {
                duration: self.duration,
                streams: point.path.streams,
                congestion: Some(self.congestion.clone()),
            };
            progress.reach(nth);
            let passed = measure_tunnel(
                self.tunnel(point.path).as_ref(),
                &options,
                interrupts.map(AsFd::as_fd),
            );
            let is_first = nth == 0;
            match passed {
                Ok(measurement) => {
                    let is_cut_short = measurement.is_cut_short;
                    // A short measurement is meaningless.
                    if !is_cut_short || measurement.elapsed * 2 > self.duration {
                        point.take(measurement);
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

    fn tunnel(&self, path: Path) -> Option<Tunnel> {
        path.tunnel.map(|setting| Tunnel {
            is_tap: self.is_tap,
            carrier: self.carrier.into(),
            offload: setting.offload,
            queues: setting.queues,
            queue_packets: setting.length,
        })
    }
}

impl Point {
    pub(super) fn new(path: Path) -> Self {
        Self {
            path,
            rates: Repeats::default(),
            measurements: Vec::new(),
        }
    }

    pub(super) fn take(&mut self, measurement: Measurement) {
        self.rates
            .push(measurement.bytes as f64 / measurement.elapsed.as_secs_f64().max(1e-9));
        self.measurements.push(measurement);
    }

    pub(super) fn rate(&self) -> f64 {
        self.rates.median().unwrap_or(0.0)
    }

    pub(super) fn rate_by(&self, bytes: fn(&Measurement) -> u64) -> Repeats {
        let measurements = self.measurements.iter();
        measurements
            .map(|measurement| bytes(measurement) as f64 / measurement.elapsed.as_secs_f64().max(1e-9))
            .collect()
    }

    pub(super) fn sum(&self, of: fn(&Measurement) -> u64) -> u64 {
        self.measurements.iter().map(of).sum()
    }

    pub(super) fn lost_permille(&self) -> f64 {
        let (lost, sent) = (
            self.sum(drops),
            self.sum(|measurement| measurement.device_packets),
        );
        lost as f64 / (lost + sent).max(1) as f64 * 1000.0
    }

    pub(super) fn retransmissions(&self) -> Option<u64> {
        self.measurements
            .iter()
            .map(|measurement| measurement.retransmissions)
            .sum()
    }

    /// Returns the mean packet size at the receivers' device, in bytes.
    pub(super) fn packet_bytes(&self) -> Option<f64> {
        let packets = self.sum(|measurement| measurement.device_packets);
        (packets > 0).then(|| self.sum(|measurement| measurement.device_bytes) as f64 / packets as f64)
    }

    pub(super) fn of_queue(&self) -> Option<QueuePoint> {
        Some(QueuePoint {
            packets: self.path.tunnel?.length,
            bytes_per_s: self.rates.median()?,
            sent: self.sum(|measurement| measurement.device_packets) as f64,
            dropped: self.sum(drops) as f64,
        })
    }

    /// Returns the kernel's most frequent drop reason; without reasons, the counter with most drops.
    pub(super) fn reason(&self) -> Option<&'static str> {
        let most = [
            (self.sum(|measurement| measurement.device_drops), "device"),
            (self.sum(|measurement| measurement.qdisc_drops), "qdisc"),
            (self.sum(|measurement| measurement.carrier_drops), "carrier"),
        ];
        let (drops, counter) = most.into_iter().max_by_key(|(drops, _)| *drops)?;
        if drops == 0 {
            return None;
        }
        let all = self.reason_counts();
        let most = all.iter().max_by_key(|(_, count)| **count).map(|(name, _)| *name);
        Some(most.unwrap_or(counter))
    }

    pub(super) fn reasons(&self) -> Option<String> {
        let all = self.reason_counts();
        let words: Vec<String> = all
            .iter()
            .map(|(name, count)| format!("{name}={count}"))
            .collect();
        (!words.is_empty()).then(|| words.join(" "))
    }

    pub(super) fn reason_counts(&self) -> BTreeMap<&'static str, u64> {
        let mut all = BTreeMap::new();
        for (name, count) in self
            .measurements
            .iter()
            .filter_map(|measurement| measurement.reasons.as_ref())
            .flatten()
        {
            *all.entry(*name).or_default() += count;
        }
        all
    }
}

pub(super) fn drops(measurement: &Measurement) -> u64 {
    measurement.device_drops + measurement.qdisc_drops + measurement.carrier_drops
}

fn explained(failure: &Failure) -> anyhow::Error {
    match failure.remedy() {
        Some(remedy) => anyhow!("bench tun: {failure}; {remedy}"),
        None => anyhow!("bench tun: {failure}"),
    }
}

/// Returns cubic if available, since the effect of losses depends on the congestion control; else the host's default.
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

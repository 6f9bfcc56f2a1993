//! `bench stream` compared with iperf3: throughput, and processor time per byte.
//!
//! Over loopback and over a veth pair, with one stream and with four, in alternating order. Rates are those
//! of the receiver, and the device's counters must agree; processor time is that of whole processes, as
//! accounted by the kernel.

use crate::entry::Program;
use crate::network::{Bound, FAR_ADDRESS, HostPair, NEAR_DEVICE, Rows, number_after, row, verdict_against};
use crate::programs::on_path;
use crate::run::Installed;
use crate::statistics::{median, ratio, scatter};
use anyhow::{Context, Result, ensure};
use std::path::PathBuf;
use std::time::Duration;

/// The length of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Duration in seconds
    Seconds(usize),
    /// Size in MiB, for a test run
    Mebibytes(usize),
}

/// Transfers with all programs, over each path, for some rounds.
pub fn interleaved(
    installed: &Installed,
    hosts: &HostPair,
    extent: Extent,
    rounds: usize,
    progress: &mut dyn FnMut(&str),
) -> Rows {
    let paths = [installed.path(Program::Sockeye), on_path(IPERF3)];
    let mut series: Vec<Series> = Vec::new();
    for over_veth in [false, true] {
        for streams in [1, 4] {
            for (tool, path) in [Tool::Ours, Tool::Iperf3].into_iter().zip(&paths) {
                series.push(Series {
                    tool,
                    path: path.clone(),
                    over_veth,
                    streams,
                    runs: Vec::new(),
                    repeated: 0,
                    failure: None,
                });
            }
        }
    }
    for round in 0..rounds {
        progress(&format!("round {} of {rounds}", round + 1));
        let count = series.len();
        for turn in 0..count {
            let turn = if round % 2 == 0 { turn } else { count - 1 - turn };
            series[turn].run(hosts, extent);
        }
    }
    let mut table = Rows::default();
    table.notes.push(format!(
        "Congestion control: {}; {MESSAGE} a write.",
        std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control")
            .unwrap_or_default()
            .trim()
    ));
    for pair in series.chunks(2) {
        let [ours, theirs] = pair else { continue };
        table.rows.push(ours.row(Some(theirs), extent));
        table.rows.push(theirs.row(None, extent));
        table
            .notes
            .extend([ours, theirs].into_iter().filter_map(Series::note));
    }
    table
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tool {
    Ours,
    Iperf3,
}

/// One program on one path.
#[derive(Debug)]
struct Series {
    tool: Tool,
    path: Option<PathBuf>,
    over_veth: bool,
    streams: usize,
    runs: Vec<Run>,
    /// Failed transfers that were repeated
    repeated: usize,
    /// Why it is not run any more
    failure: Option<String>,
}

#[derive(Clone, Copy, Debug)]
struct Run {
    bytes_per_s: u64,
    /// Processor time per MiB of sender and receiver
    sender_ns: u64,
    receiver_ns: u64,
    cpu_ns: u64,
}

impl Series {
    fn run(&mut self, hosts: &HostPair, extent: Extent) {
        let Some(path) = self.path.clone().filter(|_| self.failure.is_none()) else {
            return;
        };
        let mut transfer = self.transfer(hosts, &path, extent);
        if transfer.is_err() && self.tool == Tool::Iperf3 {
            // With several streams it sometimes hangs at its end, which does not affect the other rounds.
            self.repeated += 1;
            transfer = self.transfer(hosts, &path, extent);
        }
        match transfer {
            Ok(run) => self.runs.push(run),
            Err(error) => {
                self.runs.clear();
                self.failure = Some(format!("FAILED: {error:#}"));
            }
        }
    }

    fn transfer(&self, hosts: &HostPair, path: &std::path::Path, extent: Extent) -> Result<Run> {
        let port = PORT.to_string();
        let (namespace, device) = if self.over_veth {
            (&hosts.far, NEAR_DEVICE)
        } else {
            (&hosts.near, "lo")
        };
        let server: &[&str] = match self.tool {
            Tool::Ours => &["bench", "serve", "-p", &port],
            Tool::Iperf3 => &["-s", "-p", &port],
        };
        let client = self.arguments(extent);
        let client: Vec<&str> = client.iter().map(String::as_str).collect();
        let before = hosts.near.sent_bytes(device)?;
        let timeout = match extent {
            Extent::Seconds(seconds) => Duration::from_secs(seconds as u64 + 10),
            Extent::Mebibytes(_) => Duration::from_secs(15),
        };
        let (sender, receiver) =
            hosts.run_client_server(path, (namespace, server, PORT), &client, timeout)?;
        let sent = hosts.near.sent_bytes(device)? - before;
        let (bytes, seconds) = self.received(&sender.text).context("its output has no bytes")?;
        // Headers, retransmissions and packets in flight add to the bytes; fewer are impossible.
        ensure!(
            bytes <= sent && sent <= bytes + bytes / 10 + SLACK,
            "it says {bytes} bytes, but {device} has sent {sent}"
        );
        let each = |cpu_ns: u64| (u128::from(cpu_ns) * (1 << 20) / u128::from(bytes.max(1))) as u64;
        Ok(Run {
            bytes_per_s: (bytes as f64 / seconds) as u64,
            sender_ns: each(sender.cpu_ns),
            receiver_ns: each(receiver.cpu_ns),
            cpu_ns: sender.cpu_ns + receiver.cpu_ns,
        })
    }

    /// Bytes and seconds of the receiver.
    fn received(&self, text: &str) -> Option<(u64, f64)> {
        let of = |from, key| number_after(text, from, key);
        let (bytes, seconds) = match self.tool {
            Tool::Ours => (
                of("\"summary\"", "\"received_bytes\"")?,
                of("\"summary\"", "\"elapsed_us\"")? / 1e6,
            ),
            Tool::Iperf3 => (
                of("\"sum_received\"", "\"bytes\"")?,
                of("\"sum_received\"", "\"seconds\"")?,
            ),
        };
        (bytes > 0.0 && seconds > 0.0).then_some((bytes as u64, seconds))
    }

    fn arguments(&self, extent: Extent) -> Vec<String> {
        let host = if self.over_veth { FAR_ADDRESS } else { "127.0.0.1" };
        let head: &[&str] = match self.tool {
            Tool::Ours => &["bench", "stream", host, "--json"],
            Tool::Iperf3 => &["-c", host, "-J"],
        };
        let (option, amount) = match extent {
            Extent::Seconds(seconds) => ("-t", seconds.to_string()),
            Extent::Mebibytes(many) => ("-n", (many << 20).to_string()),
        };
        let (port, streams) = (PORT.to_string(), self.streams.to_string());
        let tail = ["-p", &port, "-P", &streams, "-l", MESSAGE, option, &amount];
        head.iter().chain(&tail).map(|&word| word.to_owned()).collect()
    }

    fn median(&self, of: impl Fn(&Run) -> u64) -> Option<u64> {
        median(&self.runs.iter().map(of).collect::<Vec<_>>())
    }

    fn row(&self, peer: Option<&Self>, extent: Extent) -> crate::judgement::Row {
        let (program, what) = match self.tool {
            Tool::Ours => (Program::Sockeye.name(), "bench stream"),
            Tool::Iperf3 => (IPERF3, IPERF3),
        };
        let command = format!("{program} {}", self.arguments(extent).join(" "));
        let verdicts = peer.map(|peer| {
            let compared = |of: fn(&Run) -> u64| ratio(self.median(of)?, peer.median(of)?);
            let cost = |what: &str, found| verdict_against(what, found, IPERF3, Bound::AtMost(1.0));
            vec![
                verdict_against(
                    "throughput",
                    compared(|run| run.bytes_per_s),
                    IPERF3,
                    Bound::AtLeast(1.0),
                ),
                cost(
                    "processor time of a byte, both ends",
                    compared(|run| run.sender_ns + run.receiver_ns),
                ),
                cost("of the sender", compared(|run| run.sender_ns)),
                cost("of the receiver", compared(|run| run.receiver_ns)),
            ]
        });
        crate::judgement::Row {
            runs: self.runs.len(),
            cpu_ns: self.median(|run| run.cpu_ns),
            absence: match self.path {
                Some(_) => self.failure.clone(),
                None => Some("not installed".to_owned()),
            },
            verdicts: verdicts.unwrap_or_default(),
            ..row(format!("{what}, {}", self.place()), command)
        }
    }

    fn place(&self) -> String {
        let path = if self.over_veth { "veth" } else { "lo" };
        match self.streams {
            1 => format!("{path}, 1 stream"),
            many => format!("{path}, {many} streams"),
        }
    }

    fn note(&self) -> Option<String> {
        let rates: Vec<u64> = self.runs.iter().map(|run| run.bytes_per_s).collect();
        let scatter = scatter(&rates).map_or_else(String::new, |s| format!(" ±{:.0} %", s * 100.0));
        let repeated = match self.repeated {
            0 => String::new(),
            many => format!("; {many} of its transfers failed and were repeated"),
        };
        let per_kib = |of: fn(&Run) -> u64| self.median(of).map(|ns| ns as f64 / 1024.0);
        Some(format!(
            "{}, {}: {:.1} Gbit/s{scatter}; processor time of a KiB: sender {:.0} ns, receiver {:.0} ns{repeated}",
            if self.tool == Tool::Ours {
                "bench stream"
            } else {
                IPERF3
            },
            self.place(),
            median(&rates)? as f64 * 8e-9,
            per_kib(|run| run.sender_ns)?,
            per_kib(|run| run.receiver_ns)?,
        ))
    }
}

const IPERF3: &str = "iperf3";
const MESSAGE: &str = "128K";
const PORT: u16 = 5218;
/// Bytes that a device may carry in addition.
const SLACK: u64 = 64 << 20;

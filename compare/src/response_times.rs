//! `bench rr` compared with sockperf's ping-pong: response times over loopback.

use crate::entry::Program;
use crate::judgement::Row;
use crate::network::{Bound, HostPair, Rows, number_after, row, verdict_against};
use crate::programs::on_path;
use crate::run::Installed;
use crate::statistics::{median, ratio};
use anyhow::{Context, Result};
use std::path::PathBuf;
use std::time::Duration;

/// Measures both programs in alternating order for `rounds` rounds.
pub fn interleaved(
    installed: &Installed,
    hosts: &HostPair,
    seconds: usize,
    rounds: usize,
    progress: &mut dyn FnMut(&str),
) -> Rows {
    let mut all = [Program::Sockeye, Program::Peer(SOCKPERF)].map(|program| Series {
        program,
        path: match program {
            Program::Peer(name) => on_path(name),
            ours => installed.path(ours),
        },
        runs: Vec::new(),
        failure: None,
    });
    for round in 0..rounds {
        progress(&format!("round {} of {rounds}", round + 1));
        for turn in 0..all.len() {
            let turn = if round % 2 == 0 {
                turn
            } else {
                all.len() - 1 - turn
            };
            // A new port each time: sockperf does not take a port with lingering connections.
            let port = PORTS + (2 * round + turn) as u16 % PORTS_MANY;
            all[turn].run(hosts, seconds, port);
        }
    }
    let [ours, theirs] = &all;
    Rows {
        rows: vec![ours.row(Some(theirs), seconds), theirs.row(None, seconds)],
        notes: all.iter().filter_map(Series::note).collect(),
    }
}

#[derive(Debug)]
struct Series {
    program: Program,
    path: Option<PathBuf>,
    runs: Vec<Run>,
    /// Why it is not run any more
    failure: Option<String>,
}

#[derive(Clone, Copy, Debug)]
struct Run {
    p50_ns: u64,
    p99_ns: u64,
    cpu_ns: u64,
}

impl Series {
    fn is_ours(&self) -> bool {
        self.program == Program::Sockeye
    }

    fn run(&mut self, hosts: &HostPair, seconds: usize, port: u16) {
        if self.failure.is_some() {
            return;
        }
        match self.run_client_server(hosts, seconds, port) {
            Ok(run) => self.runs.extend(run),
            Err(error) => {
                self.runs.clear();
                self.failure = Some(format!("FAILED: {error:#}"));
            }
        }
    }

    /// One run; `None`: the program is not installed.
    fn run_client_server(&self, hosts: &HostPair, seconds: usize, port: u16) -> Result<Option<Run>> {
        let Some(path) = &self.path else { return Ok(None) };
        let server = if self.is_ours() {
            format!("bench serve -p {port}")
        } else {
            format!("server --tcp -i 127.0.0.1 -p {port}")
        };
        let server: Vec<&str> = server.split(' ').collect();
        let client = format!("{} -p {port}", self.arguments(seconds));
        let client: Vec<&str> = client.split(' ').collect();
        let timeout = Duration::from_secs(seconds as u64 + 20);
        let (client, server) =
            hosts.run_client_server(path, (&hosts.near, &server, port), &client, timeout)?;
        let ns = |ours, theirs| {
            if self.is_ours() {
                number_after(&client.text, "\"answers\"", ours)
            } else {
                number_after(&client.text, "", theirs).map(|us| us * 1000.0)
            }
        };
        let p50 = ns("\"p50_ns\"", "percentile 50.000").context("its output has no median")?;
        let p99 = ns("\"p99_ns\"", "percentile 99.000").context("its output has no percentile 99")?;
        Ok(Some(Run {
            p50_ns: p50 as u64,
            p99_ns: p99 as u64,
            cpu_ns: client.cpu_ns + server.cpu_ns,
        }))
    }

    fn arguments(&self, seconds: usize) -> String {
        if self.is_ours() {
            format!("bench rr 127.0.0.1 -d {seconds} --request 14 --response 14 --json")
        } else {
            format!("ping-pong --tcp --full-rtt --mps=max -i 127.0.0.1 -t {seconds} -m 14")
        }
    }

    fn median(&self, of: impl Fn(&Run) -> u64) -> Option<u64> {
        median(&self.runs.iter().map(of).collect::<Vec<_>>())
    }

    fn row(&self, peer: Option<&Self>, seconds: usize) -> Row {
        let verdicts = peer.map(|peer| {
            let compared = |of: fn(&Run) -> u64| ratio(self.median(of)?, peer.median(of)?);
            vec![
                verdict_against("median", compared(|run| run.p50_ns), SOCKPERF, Bound::AtMost(1.0)),
                verdict_against(
                    "99 of 100 within",
                    compared(|run| run.p99_ns),
                    SOCKPERF,
                    Bound::AtMost(1.0),
                ),
            ]
        });
        let name = self.program.name();
        let what = if self.is_ours() { "bench rr" } else { name };
        Row {
            runs: self.runs.len(),
            cpu_ns: self.median(|run| run.cpu_ns),
            absence: match self.path {
                Some(_) => self.failure.clone(),
                None => Some("not installed".to_owned()),
            },
            verdicts: verdicts.unwrap_or_default(),
            ..row(what.to_owned(), format!("{name} {}", self.arguments(seconds)))
        }
    }

    fn note(&self) -> Option<String> {
        Some(format!(
            "{}: median {:.2} us, 99 of 100 within {:.2} us",
            if self.is_ours() { "bench rr" } else { SOCKPERF },
            self.median(|run| run.p50_ns)? as f64 / 1e3,
            self.median(|run| run.p99_ns)? as f64 / 1e3,
        ))
    }
}

const SOCKPERF: &str = "sockperf";
const PORTS: u16 = 5300;
const PORTS_MANY: u16 = 1000;

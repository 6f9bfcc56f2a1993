//! Network measurements compared with peers: transfers, response times, tunnels.
//!
//! Everything runs in two new network namespaces, connected by a veth pair.

use crate::judgement::{Finding, Row, Verdict};
use crate::programs::on_path;
use crate::wrapped_program::{Namespace, ProgramOutput, WrappedProgram};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The content of a table.
#[derive(Debug, Default)]
pub struct Rows {
    /// For the report
    pub rows: Vec<Row>,
    /// Notes above it
    pub notes: Vec<String>,
}

/// Two hosts, each a network namespace; a veth pair connects them.
#[derive(Debug)]
pub struct HostPair {
    /// The client's namespace
    pub near: Namespace,
    /// The server's namespace, over the veth pair
    pub far: Namespace,
    bench_compare: PathBuf,
}

/// The device of the near host.
pub const NEAR_DEVICE: &str = "veth-near";
/// The address of the far host.
pub const FAR_ADDRESS: &str = "10.198.18.2";

impl HostPair {
    /// Creates both. `bench_compare` is the wrapper program.
    pub fn new(bench_compare: &Path) -> Result<Self> {
        Ok(Self {
            near: Namespace::new(bench_compare)?,
            far: Namespace::new(bench_compare)?,
            bench_compare: bench_compare.to_owned(),
        })
    }

    /// Connects them.
    pub fn join(&self) -> Result<()> {
        let ip = on_path("ip").context("ip is not installed")?;
        let far = self.far.pid().to_string();
        let add = "link add veth-near type veth peer name veth-far netns";
        let add: Vec<&str> = add.split(' ').chain([far.as_str()]).collect();
        let run = |namespace, arguments: &[&str]| {
            self.start(namespace, IP_TIMEOUT, &ip, arguments)?
                .wait()
                .map(drop)
        };
        run(&self.near, &add)?;
        for (namespace, line) in [
            (&self.near, "addr add 10.198.18.1/30 dev veth-near"),
            (&self.near, "link set veth-near up"),
            (&self.far, "addr add 10.198.18.2/30 dev veth-far"),
            (&self.far, "link set veth-far up"),
        ] {
            run(namespace, &line.split(' ').collect::<Vec<_>>())?;
        }
        Ok(())
    }

    /// Starts a program.
    pub fn start(
        &self,
        namespace: &Namespace,
        timeout: Duration,
        program: &Path,
        arguments: &[&str],
    ) -> Result<WrappedProgram> {
        WrappedProgram::start(&self.bench_compare, namespace, timeout, program, arguments)
    }

    /// Runs a client with a server, which is started before and ended after it; returns the results of client
    /// and server.
    pub fn run_client_server(
        &self,
        program: &Path,
        server: (&Namespace, &[&str], u16),
        client: &[&str],
        timeout: Duration,
    ) -> Result<(ProgramOutput, ProgramOutput)> {
        let (namespace, arguments, port) = server;
        let server = self
            .start(namespace, timeout + IP_TIMEOUT, program, arguments)?
            .listens(namespace, port)?;
        let client = self.start(&self.near, timeout, program, client)?.wait()?;
        Ok((client, server.end()?))
    }
}

/// A row without figures.
pub(crate) fn row(name: String, command: String) -> Row {
    Row {
        name,
        command,
        runs: 0,
        wall_ns: None,
        wall_scatter: None,
        cpu_ns: None,
        peak_bytes: None,
        lines: None,
        to_floor: None,
        absence: None,
        verdicts: Vec::new(),
    }
}

/// A multiple of `of`, compared with its bound.
pub(crate) fn verdict_against(what: &str, found: Option<f64>, of: &str, bound: Bound) -> Verdict {
    let target = match bound {
        Bound::AtLeast(least) => format!("{what} >= {least:.2} x {of}"),
        Bound::AtMost(most) => format!("{what} <= {most:.2} x {of}"),
    };
    Verdict {
        target,
        figure: found.map(|found| format!("{found:.3} x {of}")),
        finding: match (found, bound) {
            (None, _) => Finding::NotJudged(format!("no figures for {of}")),
            (Some(found), Bound::AtLeast(least)) => Finding::from(found >= least),
            (Some(found), Bound::AtMost(most)) => Finding::from(found <= most),
        },
    }
}

/// A bound of a target.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

/// The number after `key` behind `from`, in JSON and other formats: `"bytes": 12`, `percentile 50.000 =
/// 1.5`.
pub(crate) fn number_after(text: &str, from: &str, key: &str) -> Option<f64> {
    let text = &text[text.find(from)? + from.len()..];
    let text = &text[text.find(key)? + key.len()..];
    let text = text.trim_start_matches([' ', '\t', ':', '=', '"']);
    let end = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | 'e' | '+' | '-')));
    text[..end.unwrap_or(text.len())].parse().ok()
}

const IP_TIMEOUT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_after_keys_are_parsed() {
        let iperf3 = "\"sum_sent\": {\n\"bytes\":\t1\n}, \"sum_received\":\t{\n\t\"bytes\":\t12,\n\t\"seconds\":\t1.5e+00\n}";
        assert_eq!(number_after(iperf3, "\"sum_received\"", "\"bytes\""), Some(12.0));
        assert_eq!(number_after(iperf3, "\"sum_received\"", "\"seconds\""), Some(1.5));
        let sockperf = "---> percentile 50.000 =   13.820\n";
        assert_eq!(number_after(sockperf, "", "percentile 50.000"), Some(13.82));
        assert_eq!(number_after(sockperf, "", "percentile 99.000"), None);
        assert_eq!(number_after("x: y", "", "x"), None);
    }

    #[test]
    fn bounds_are_inclusive() {
        let finding = |found, bound| verdict_against("rate", found, "iperf3", bound).finding;
        assert_eq!(finding(Some(1.0), Bound::AtLeast(1.0)), Finding::Met);
        assert_eq!(finding(Some(0.999), Bound::AtLeast(1.0)), Finding::Missed);
        assert_eq!(finding(Some(1.0), Bound::AtMost(1.0)), Finding::Met);
        assert_eq!(finding(Some(1.001), Bound::AtMost(1.0)), Finding::Missed);
        assert!(matches!(finding(None, Bound::AtMost(1.0)), Finding::NotJudged(_)));
    }
}

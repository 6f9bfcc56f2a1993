//! A host full of sockets: distributes the load to holders, starts and stops them.

use crate::holder::{DESCRIPTORS_RESERVED, descriptor_limit};
use crate::namespaces;
use anyhow::{Context, Result, bail, ensure};
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Sockets of the default load, counting both ends of each connection.
pub const SOCKETS_DEFAULT: usize = 79_200;

/// Least number of processes that share the load, as on the host for which the targets were set.
pub const HOLDERS_MIN: usize = 4;

/// Connections per holder, as even as possible, within the limit of descriptors per process.
pub fn shares(sockets: usize, descriptor_limit: u64) -> Result<Vec<usize>> {
    let connections = sockets.div_ceil(2);
    let room =
        usize::try_from(descriptor_limit.saturating_sub(DESCRIPTORS_RESERVED) / 2).unwrap_or(usize::MAX);
    ensure!(
        room > 0,
        "at most {descriptor_limit} open files a process (ulimit -Hn): too few to hold connections"
    );
    let holders = connections.div_ceil(room).max(HOLDERS_MIN);
    Ok((0..holders)
        .map(|number| connections / holders + usize::from(number < connections % holders))
        .collect())
}

/// Processes that hold connections. Dropping it ends them all.
#[derive(Debug)]
pub struct Load {
    processes: Vec<Process>,
    sockets: usize,
}

impl Load {
    /// Starts `program --hold NUMBER CONNECTIONS` for each holder, or with `distinct_clients` `program --hold-clients NUMBER
    /// CONNECTIONS FIRST`, and returns when all connections are open.
    pub fn start_holders(program: &Path, sockets: usize, distinct_clients: bool) -> Result<Self> {
        let shares = shares(sockets, descriptor_limit()?)?;
        let mut first = 0;
        let commands = shares.iter().enumerate().map(|(number, connections)| {
            let command = if distinct_clients {
                "--hold-clients"
            } else {
                "--hold"
            };
            let mut arguments = vec![command.to_owned(), number.to_string(), connections.to_string()];
            if distinct_clients {
                arguments.push(first.to_string());
            }
            first += connections;
            arguments.into_iter().map(OsString::from).collect()
        });
        Self::start(program, commands)
    }

    /// Starts a `bench-load` and returns when all its connections are open, each from a client's address of its own if
    /// `distinct_clients`.
    pub fn start_program(program: &Path, sockets: usize, distinct_clients: bool) -> Result<Self> {
        let mut arguments = vec!["--sockets".into(), sockets.to_string().into()];
        arguments.extend(distinct_clients.then(|| "--distinct-clients".into()));
        Self::start(program, std::iter::once(arguments))
    }

    /// Starts `program --hold-namespaces FIRST COUNT SETS IDLERS` for each holder, and returns when all
    /// namespaces exist, with names that the caller sees: see [`Names`](namespaces::Names).
    pub fn start_namespaces(program: &Path, namespaces: usize, sets: usize, idlers: usize) -> Result<Self> {
        let shares = namespaces::shares(namespaces, sets, idlers, HOLDERS_MIN);
        let commands = shares.iter().map(|share| {
            let numbers = [share.first, share.namespaces, share.sets, share.idlers]
                .map(|number| number.to_string().into());
            std::iter::once("--hold-namespaces".into())
                .chain(numbers)
                .collect()
        });
        Self::start(program, commands)
    }

    fn start(program: &Path, commands: impl Iterator<Item = Vec<OsString>>) -> Result<Self> {
        let mut load = Self {
            processes: Vec::new(),
            sockets: 0,
        };
        let mut response_times = Vec::new();
        for arguments in commands {
            let (process, stdout) = Process::start(program, &arguments)?;
            load.processes.push(process);
            response_times.push(stdout);
        }
        for stdout in response_times {
            load.sockets += ready_sockets(stdout)?;
        }
        Ok(load)
    }

    /// Number of sockets, both ends of each connection; listeners count only in named namespaces.
    pub fn sockets(&self) -> usize {
        self.sockets
    }

    /// Number of its processes.
    pub fn processes(&self) -> usize {
        self.processes.len()
    }

    /// Ends the processes and waits for them; an error if one failed before.
    pub fn stop(mut self) -> Result<()> {
        for process in &mut self.processes {
            process.stdin = None;
        }
        for process in &mut self.processes {
            let status = process.child.wait().context("waiting for a holder")?;
            ensure!(
                status.success(),
                "a process of the load had ended early: {status}"
            );
        }
        Ok(())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        // Signal all first, then wait: they end at the same time. After `stop` there is none left.
        for process in &mut self.processes {
            process.stdin = None;
        }
        for process in &mut self.processes {
            let _ = process.child.wait();
        }
    }
}

#[derive(Debug)]
struct Process {
    child: Child,
    /// The process runs as long as this end of the pipe is open.
    stdin: Option<ChildStdin>,
}

impl Process {
    fn start(program: &Path, arguments: &[OsString]) -> Result<(Self, ChildStdout)> {
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {}", program.display()))?;
        let stdin = child.stdin.take();
        let stdout = child
            .stdout
            .take()
            .context("a child started with a pipe has one")?;
        Ok((Self { child, stdin }, stdout))
    }
}

fn ready_sockets(stdout: ChildStdout) -> Result<usize> {
    let mut line = String::new();
    // Bounded, because the program may print anything.
    BufReader::new(stdout.take(1024))
        .read_line(&mut line)
        .context("waiting for the load")?;
    match parse_ready(&line) {
        Some(sockets) => Ok(sockets),
        None if line.is_empty() => bail!("a process of the load ended before its connections stood"),
        None => bail!("expected `ready N` from the load, got {line:?}"),
    }
}

fn parse_ready(line: &str) -> Option<usize> {
    let mut words = line.split_whitespace();
    (words.next()? == "ready")
        .then(|| words.next()?.parse().ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_load_fits_four_processes_of_twenty_thousand_descriptors() {
        assert_eq!(shares(SOCKETS_DEFAULT, 20_000).expect("fits"), vec![9_900; 4]);
    }

    #[test]
    fn a_bigger_load_takes_more_holders() {
        let shares = shares(100_800, 20_000).expect("fits");
        assert_eq!(shares.len(), 6);
        assert_eq!(shares.iter().sum::<usize>(), 50_400);
    }

    #[test]
    fn an_odd_number_of_sockets_is_rounded_up() {
        assert_eq!(shares(7, 1024).expect("fits"), vec![1, 1, 1, 1]);
        assert_eq!(shares(9, 1024).expect("fits"), vec![2, 1, 1, 1]);
        assert_eq!(shares(0, 1024).expect("fits"), vec![0; 4]);
    }

    #[test]
    fn no_holder_exceeds_its_descriptors() {
        assert!(
            shares(79_200, 1024)
                .expect("fits")
                .iter()
                .all(|share| 2 * share + 100 <= 1024)
        );
        assert!(shares(10, 100).is_err());
    }

    #[test]
    fn ready_line_has_the_number_of_sockets() {
        assert_eq!(parse_ready("ready 200 sockets\n"), Some(200));
        assert_eq!(parse_ready("ready 50\n"), Some(50));
        assert_eq!(parse_ready("ready\n"), None);
        assert_eq!(parse_ready("already 3\n"), None);
        assert_eq!(parse_ready(""), None);
    }
}

//! The other end of benchmarks: a server, the link to it, and what its devices counted.

use super::command;
use sockeye_lab::{Lab, Link, Namespace, Skip};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Stdio};

/// `bench serve` somewhere, ended when dropped.
pub(crate) struct Serving {
    pub(crate) child: Child,
    pub(crate) stdout: BufReader<ChildStdout>,
    pub(crate) port: u16,
}

impl Serving {
    pub(crate) fn new(place: Option<&Namespace>, words: &str) -> Self {
        let mut command = command();
        command.args(["bench", "serve"]).args(words.split_whitespace());
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut spawn = || command.spawn().expect("the server starts");
        let mut child = match place {
            Some(place) => place.run(spawn),
            None => spawn(),
        };
        let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        stdout
            .read_line(&mut line)
            .expect("the server says where it listens");
        let port = line.trim().rsplit(':').next().and_then(|port| port.parse().ok());
        Self {
            child,
            stdout,
            port: port.unwrap_or_else(|| panic!("{line:?} names no port")),
        }
    }

    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// All that it said until its end.
    pub(crate) fn rest(&mut self) -> String {
        let mut text = String::new();
        self.stdout.read_to_string(&mut text).expect("text");
        text
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Two namespaces with a link, and a server in one of them.
pub(crate) fn apart(purpose: &str) -> Result<(Lab, Namespace, Namespace, Link, Serving), Skip> {
    let lab = Lab::new(purpose)?;
    let (client, server) = (lab.namespace("client"), lab.namespace("server"));
    let link = lab.link(&client, &server);
    let serving = Serving::new(Some(&server), "");
    Ok((lab, client, server, link, serving))
}

/// Bytes that a device received.
pub(crate) fn rx_bytes(place: &Namespace, device: &str) -> u64 {
    let text = place.proc_net("dev");
    let line = text
        .lines()
        .find_map(|line| line.trim().strip_prefix(&format!("{device}:")));
    let word = line.and_then(|line| line.split_whitespace().next());
    word.and_then(|word| word.parse().ok())
        .expect("the device's counters")
}

//! A running exporter, and what it answers.

use crate::fixtures::binary::command;
use crate::fixtures::http::Answer;
use sockeye_lab::{Namespace, wait_within};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Stdio};
use std::time::Duration;

/// `sockeye export prometheus` in a namespace; ended when dropped.
pub(super) struct Exporter {
    child: Child,
    namespace: Namespace,
    /// Where it listens.
    pub(super) address: SocketAddr,
}

/// Values by name and labels, as they are written: `name{label="value"}`.
#[derive(Debug)]
pub(super) struct Scrape(BTreeMap<String, f64>);

impl Exporter {
    /// Starts it on a free port, and waits until it listens.
    pub(super) fn start(namespace: &Namespace, words: &[&str]) -> Self {
        let mut exporter = command();
        exporter
            .args([
                "export",
                "prometheus",
                "--listen",
                "127.0.0.1:0",
                "--sample-interval",
                "0.5",
                "-n",
            ])
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = namespace.run(|| exporter.spawn().expect("the program starts"));
        let mut lines = BufReader::new(child.stderr.take().expect("a pipe"));
        let address = loop {
            let mut line = String::new();
            let read = lines.read_line(&mut line).expect("a line");
            assert!(read > 0, "it ended");
            if let Some((_, url)) = line.split_once("http://") {
                let (address, _) = url.split_once('/').expect("a path");
                break address.parse().expect("an address");
            }
        };
        Self {
            child,
            namespace: namespace.clone(),
            address,
        }
    }

    /// Sends bytes, and returns the answer until the connection ends.
    pub(super) fn send(&self, request: &str) -> Answer {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).expect("the server reads");
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).expect("an answer");
        Answer::parse(&String::from_utf8_lossy(&bytes))
    }

    pub(super) fn connect(&self) -> TcpStream {
        let stream = self.namespace.run(|| TcpStream::connect(self.address));
        let stream = stream.expect("the exporter listens");
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .expect("a timeout");
        stream
    }

    pub(super) fn get(&self, path: &str, headers: &str) -> Answer {
        self.send(&format!(
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n"
        ))
    }

    /// Returns the metrics.
    pub(super) fn scrape(&self) -> Scrape {
        let answer = self.get("/metrics", "");
        assert_eq!(answer.status, 200, "{answer:?}");
        Scrape::parse(&answer.body)
    }

    /// Waits until the metrics are so.
    #[track_caller]
    pub(super) fn wait(&self, what: &str, condition: impl Fn(&Scrape) -> bool) -> Scrape {
        let mut last = None;
        wait_within(Duration::from_secs(40), what, || {
            let scrape = self.scrape();
            let holds = condition(&scrape);
            last = Some(scrape);
            holds.then_some(())
        });
        last.expect("a scrape")
    }

    /// Ends it as ^C does, and returns its exit status.
    pub(super) fn end(mut self) -> Option<i32> {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it runs");
        self.child.wait().expect("it ends").code()
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Scrape {
    /// Parses the text format.
    pub(super) fn parse(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let values = lines.map(|line| {
            let (name, value) = line.rsplit_once(' ').expect("a value");
            (name.to_owned(), value.parse().expect("a number"))
        });
        Self(values.collect())
    }

    /// Returns a value; `None`: it is absent.
    pub(super) fn value(&self, name: &str) -> Option<f64> {
        self.0.get(name).copied()
    }

    /// Returns the names with labels that begin so.
    pub(super) fn names(&self, begin: &str) -> Vec<&str> {
        self.0
            .keys()
            .map(String::as_str)
            .filter(|name| name.starts_with(begin))
            .collect()
    }

    /// Asserts values.
    #[track_caller]
    pub(super) fn check(&self, expected: &[(&str, f64)]) {
        for (name, value) in expected {
            assert_eq!(self.value(name), Some(*value), "{name}\n{self:#?}");
        }
    }
}

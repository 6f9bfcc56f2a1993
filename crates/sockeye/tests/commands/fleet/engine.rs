//! ClickHouse in a process of Python, and what is asked of it directly.

use crate::fixtures::binary::run;
use crate::fixtures::http::Answer;
use sockeye_lab::{Namespace, Skip, program};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const SERVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/commands/fleet/clickhouse.py");

/// A running server; killed when dropped.
pub(super) struct Engine {
    child: Child,
    python: PathBuf,
    folder: PathBuf,
    pub(super) port: u16,
    /// Address that it listens on.
    ip: Ipv4Addr,
}

impl Engine {
    /// Starts it with its data in a folder.
    pub(super) fn start(folder: &Path) -> Result<Self, Skip> {
        Self::start_at(folder, Ipv4Addr::LOCALHOST, 0, None)
    }

    /// The same in a namespace, at its address and this port.
    pub(super) fn start_in(
        folder: &Path,
        namespace: &Namespace,
        ip: Ipv4Addr,
        port: u16,
    ) -> Result<Self, Skip> {
        Self::start_at(folder, ip, port, Some(namespace))
    }

    fn start_at(folder: &Path, ip: Ipv4Addr, port: u16, within: Option<&Namespace>) -> Result<Self, Skip> {
        let python = program("python3")?;
        let check = "import importlib.util, sys; sys.exit(importlib.util.find_spec('chdb') is None)";
        if run(Command::new(&python).args(["-c", check])).code != Some(0) {
            return Err(Skip::new("python3 has no chdb (scripts/peers)"));
        }
        let folder = folder.join("clickhouse");
        std::fs::create_dir_all(&folder).expect("a folder");
        let (child, port) = match within {
            None => spawn(&python, &folder, ip, port),
            Some(namespace) => namespace.run(|| spawn(&python, &folder, ip, port)),
        };
        Ok(Self {
            child,
            python,
            folder,
            port,
            ip,
        })
    }

    /// Kills it.
    pub(super) fn kill(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }

    /// Starts it again on its port, with its data.
    pub(super) fn restart(&mut self) {
        self.kill();
        (self.child, self.port) = spawn(&self.python, &self.folder, self.ip, self.port);
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}:{}", self.ip, self.port)
    }

    /// Lets requests fail: `unavailable=2`.
    pub(super) fn fail(&self, what: &str) {
        assert_eq!(self.send("POST", &format!("/control?{what}"), "").status, 200);
    }

    /// Returns the number of inserts so far.
    pub(super) fn inserts(&self) -> u64 {
        let answer = self.send("GET", "/control", "");
        answer.body.parse().expect("a number")
    }

    /// Returns the answer to a statement, with its columns between tabs.
    #[track_caller]
    pub(super) fn query(&self, statement: &str) -> String {
        let answer = self.send("POST", "/?database=sockeye", statement);
        assert_eq!(answer.status, 200, "{statement}: {}", answer.body);
        answer.body.trim_end().to_owned()
    }

    /// Executes a statement that names its database.
    #[track_caller]
    pub(super) fn execute(&self, statement: &str) {
        let answer = self.send("POST", "/", statement);
        assert_eq!(answer.status, 200, "{statement}: {}", answer.body);
    }

    fn send(&self, method: &str, path: &str, body: &str) -> Answer {
        let mut stream = TcpStream::connect((self.ip, self.port)).expect("it listens");
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .expect("a timeout");
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("an answer");
        Answer::parse(&text)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.kill();
    }
}

fn spawn(python: &Path, folder: &Path, ip: Ipv4Addr, port: u16) -> (Child, u16) {
    let mut child = Command::new(python)
        .arg(SERVER)
        .arg(folder)
        .arg(port.to_string())
        .arg(ip.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 starts");
    let mut line = String::new();
    let stdout = child.stdout.take().expect("a pipe");
    BufReader::new(stdout).read_line(&mut line).expect("a line");
    (child, line.trim().parse().expect("a port"))
}

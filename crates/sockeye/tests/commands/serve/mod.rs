//! `serve`: the server from outside, and its page in a browser.

mod access;
mod browser;
mod data;
mod limits;
mod page;
mod recorded;
mod tls;

pub(super) use browser::Browser;

use crate::fixtures::binary::command;
use crate::fixtures::http::Answer;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ChildStdout, Stdio};
use std::time::Duration;

/// A running server.
pub(super) struct Server {
    child: Child,
    lines: BufReader<ChildStdout>,
    /// The URL that works once.
    pub(super) url: String,
    address: SocketAddr,
}

impl Server {
    /// Starts it on a free port.
    pub(super) fn start(words: &[&str]) -> Self {
        let mut child = command()
            .args(["serve", "--listen", "127.0.0.1:0", "--sample-interval", "0.5"])
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe"));
        let url = line(&mut lines);
        let (_, rest) = url.split_once("://").expect("a URL");
        let (host, _) = rest.split_once('/').expect("a path");
        let address = host.parse().expect("an address");
        Self {
            child,
            lines,
            url,
            address,
        }
    }

    /// Uses the one-time URL, and returns the cookie.
    pub(super) fn log_in(&self) -> String {
        let (_, token) = self.url.split_once("?token=").expect("a token");
        let answer = self.get(&format!("/?token={token}"), "");
        assert_eq!(answer.status, 303, "{answer:?}");
        let cookie = answer.header("set-cookie").expect("a cookie");
        cookie.split(';').next().expect("a value").to_owned()
    }

    /// Sends a GET with further header lines, each with its line end.
    pub(super) fn get(&self, path: &str, headers: &str) -> Answer {
        self.send(&format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{headers}\r\n",
            self.address
        ))
    }

    pub(super) fn json(&self, path: &str, cookie: &str) -> Value {
        let answer = self.get(path, &format!("Cookie: {cookie}\r\n"));
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        serde_json::from_str(&answer.body).expect("JSON")
    }

    /// Sends bytes, and returns the answer until the connection ends.
    fn send(&self, request: &str) -> Answer {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).expect("the server reads");
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).expect("an answer");
        Answer::parse(&String::from_utf8_lossy(&bytes))
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("the server listens");
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .expect("a timeout");
        stream
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn line(lines: &mut impl BufRead) -> String {
    let mut line = String::new();
    lines.read_line(&mut line).expect("a line");
    line.trim_end().to_owned()
}

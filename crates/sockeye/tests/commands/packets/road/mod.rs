//! Transfers over a middlebox, captured, and what `sockeye analyze`, tshark and the kernel say of them.

use rustix::net::sockopt;
use serde_json::Value;
use sockeye_lab::{
    Impairment, Lab, Middlebox, Namespace, PathCounters, Skip, Toward, program, wait_until,
    wait_until_steady, wait_within,
};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// A middlebox between two namespaces.
pub(crate) struct Road {
    // In this order: the middlebox goes before its namespaces.
    middlebox: Middlebox,
    pub(crate) client: Namespace,
    pub(crate) server: Namespace,
    /// Where servers listen
    pub(crate) address: IpAddr,
    captures: AtomicU32,
    pub(crate) lab: Lab,
}

/// What is sent, from client to server, and how.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) bytes: usize,
    pub(crate) congestion: &'static str,
    pub(crate) send_buffer: Option<usize>,
    pub(crate) receive_buffer: Option<usize>,
    /// So many bytes, then a pause, and again
    pub(crate) write: Option<(usize, Duration)>,
    pub(crate) read: Option<(usize, Duration)>,
    /// Before anything is read
    pub(crate) stall: Duration,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            bytes: 3_000_000,
            congestion: "cubic",
            send_buffer: None,
            receive_buffer: None,
            write: None,
            read: None,
            stall: Duration::ZERO,
        }
    }
}

/// What the sender's kernel measured.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Kernel {
    pub(crate) busy_ms: f64,
    pub(crate) rwnd_limited_ms: f64,
    pub(crate) sndbuf_limited_ms: f64,
}

/// Runs a test once more, and once more again, if it fails: a machine that others use as well may hold a transfer up for longer
/// than anything that was done to it, and how a transfer goes is chance as well. What is wrong fails three times.
#[allow(dead_code, reason = "each test uses some of these")]
pub(crate) fn steadily(test: impl Fn()) {
    for attempt in 1..TRIES {
        match std::panic::catch_unwind(std::panic::AssertUnwindSafe(&test)) {
            Ok(()) => return,
            Err(_) => println!("attempt {attempt} of {TRIES} failed; trying again"),
        }
    }
    test();
}

const TRIES: usize = 3;

impl Road {
    pub(crate) fn new(purpose: &str, seed: u64) -> Result<Self, Skip> {
        let lab = Lab::new(purpose)?;
        let (client, server) = (lab.namespace("client"), lab.namespace("server"));
        for namespace in [&client, &server] {
            // Nothing is to be known of earlier transfers.
            namespace.sysctl("ipv4/tcp_no_metrics_save", "1");
        }
        let middlebox = lab.middlebox(&client, &server, seed);
        Ok(Self {
            address: middlebox.net_path().server_ip(),
            middlebox,
            client,
            server,
            captures: AtomicU32::new(0),
            lab,
        })
    }

    /// The same, over IPv6.
    #[allow(dead_code, reason = "each test uses some of these")]
    pub(crate) fn over6(purpose: &str, seed: u64) -> Result<Self, Skip> {
        let road = Self::new(purpose, seed)?;
        Ok(Self {
            address: road.middlebox.net_path6().server_ip(),
            ..road
        })
    }

    pub(crate) fn set(&self, toward: Toward, impairment: Impairment) {
        self.middlebox.set(toward, impairment);
    }

    pub(crate) fn set_both(&self, impairment: Impairment) {
        self.middlebox.set_both(impairment);
    }

    pub(crate) fn path_counters(&self, toward: Toward) -> PathCounters {
        self.middlebox.path_counters(toward)
    }

    /// What passes at this end, from now on.
    pub(crate) fn capture(&self, end: Toward) -> Result<Capture<'_>, Skip> {
        // All of TCP's header: of segments whose options are cut off tshark says nothing.
        let snaplen = if self.address.is_ipv6() { 140 } else { 100 };
        match end {
            Toward::Client => self.capture_on(&self.client, "tun0c", snaplen),
            Toward::Server => self.capture_on(&self.server, "tun0s", snaplen),
        }
    }

    /// So many bytes of each packet on this device.
    pub(crate) fn capture_on(
        &self,
        namespace: &Namespace,
        device: &str,
        snaplen: u32,
    ) -> Result<Capture<'_>, Skip> {
        let tcpdump = program("tcpdump")?;
        let number = self.captures.fetch_add(1, Ordering::Relaxed);
        let file = self.lab.directory().join(format!("{number}.pcap"));
        let mut command = namespace.command(
            tcpdump.to_str().unwrap(),
            &[
                "-i",
                device,
                "-s",
                &snaplen.to_string(),
                "-B",
                "65536",
                "--immediate-mode",
                "-U",
                "-Z",
                "root",
                "-w",
                file.to_str().unwrap(),
                "tcp",
            ],
        );
        let mut child = command
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("listening on") {
            line.clear();
            assert!(said.read_line(&mut line).unwrap() > 0, "tcpdump ended");
        }
        Ok(Capture {
            road: self,
            child,
            file: file.to_str().unwrap().to_owned(),
        })
    }

    /// A transfer, captured near its sender, and what is said of it.
    pub(crate) fn told(&self, plan: &Plan) -> Result<Told, Skip> {
        let before = self.path_counters(Toward::Server);
        let capture = self.capture(Toward::Client)?;
        let kernel = self.transfer(plan);
        let mut told = capture.finish();
        let after = self.path_counters(Toward::Server);
        told.fate_there = PathCounters {
            passed: after.passed - before.passed,
            lost: after.lost - before.lost,
            overflowed: after.overflowed - before.overflowed,
            late: after.late - before.late,
            twice: after.twice - before.twice,
            corrupted: after.corrupted - before.corrupted,
        };
        told.kernel = kernel;
        Ok(told)
    }

    pub(crate) fn listener(&self) -> (TcpListener, SocketAddr) {
        let listener = self.server.run(|| TcpListener::bind((self.address, 0)).unwrap());
        let address = listener.local_addr().unwrap();
        (listener, address)
    }

    pub(crate) fn connected(&self, plan: &Plan) -> (TcpStream, TcpStream) {
        let (listener, address) = self.listener();
        if let Some(bytes) = plan.receive_buffer {
            sockopt::set_socket_recv_buffer_size(&listener, bytes).unwrap();
        }
        let client = self.client.run(|| TcpStream::connect(address).unwrap());
        let (server, _) = listener.accept().unwrap();
        sockopt::set_tcp_congestion(&client, plan.congestion).unwrap();
        if let Some(bytes) = plan.send_buffer {
            sockopt::set_socket_send_buffer_size(&client, bytes).unwrap();
        }
        (client, server)
    }

    /// Sends all, waits until it has arrived and is acknowledged, and closes in good order.
    pub(crate) fn transfer(&self, plan: &Plan) -> Kernel {
        let (mut client, mut server) = self.connected(plan);
        let arrived = std::thread::scope(|scope| {
            scope.spawn(|| {
                let (piece, pause) = plan.write.unwrap_or((plan.bytes, Duration::ZERO));
                let data = vec![7; piece];
                let mut left = plan.bytes;
                while left > 0 {
                    let len = left.min(piece);
                    client.write_all(&data[..len]).unwrap();
                    left -= len;
                    if left > 0 {
                        std::thread::sleep(pause);
                    }
                }
            });
            // The plan says when who reads and writes: time is what is tested.
            std::thread::sleep(plan.stall);
            let (piece, pause) = plan.read.unwrap_or((1 << 16, Duration::ZERO));
            let mut buffer = vec![0; piece];
            let mut arrived = 0;
            while arrived < plan.bytes {
                arrived += server.read(&mut buffer).unwrap();
                if plan.read.is_some() {
                    std::thread::sleep(pause);
                }
            }
            arrived
        });
        assert_eq!(arrived, plan.bytes);
        let kernel = self.kernel(&client);
        client.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(server.read(&mut [0]).unwrap(), 0);
        drop(server);
        assert_eq!(client.read(&mut [0]).unwrap(), 0);
        kernel
    }

    /// When all is acknowledged.
    fn kernel(&self, client: &TcpStream) -> Kernel {
        let port = client.local_addr().unwrap().port();
        let filter = format!("sport = :{port}");
        let text = wait_within(Duration::from_secs(60), "acknowledgements of all data", || {
            let text = self.client.output("ss", &["-tinH", &filter]);
            (!text.contains("unacked:")).then_some(text)
        });
        let field = |name: &str| {
            let at = text.find(name)? + name.len();
            let end = text[at..].find("ms")?;
            text[at..at + end].parse().ok()
        };
        Kernel {
            busy_ms: field("busy:").unwrap_or(0.0),
            rwnd_limited_ms: field("rwnd_limited:").unwrap_or(0.0),
            sndbuf_limited_ms: field("sndbuf_limited:").unwrap_or(0.0),
        }
    }

    /// The congestion window of the only connection, now, in bytes.
    #[allow(dead_code, reason = "each test uses some of these")]
    pub(crate) fn congestion_window(&self) -> Option<u64> {
        let text = self.client.output("ss", &["-tinH", "state", "established"]);
        let field = |name: &str| {
            let rest = &text[text.find(name)? + name.len()..];
            let end = rest.find(|digit: char| !digit.is_ascii_digit())?;
            rest[..end].parse::<u64>().ok()
        };
        Some(field(" cwnd:")? * field(" mss:")?)
    }

    /// One asks, the other thinks and answers, so many times.
    pub(crate) fn take_turns(&self, times: usize, thinks: Duration) {
        let (mut client, mut server) = self.connected(&Plan::default());
        let (mut question, mut answer) = ([0; 300], [0; 5_000]);
        for _ in 0..times {
            client.write_all(&question).unwrap();
            server.read_exact(&mut question).unwrap();
            // Time is what is tested.
            std::thread::sleep(thinks);
            server.write_all(&answer).unwrap();
            client.read_exact(&mut answer).unwrap();
        }
    }

    /// Nothing listens.
    pub(crate) fn refused(&self) {
        let (listener, address) = self.listener();
        drop(listener);
        self.client.run(|| TcpStream::connect(address).unwrap_err());
    }

    /// The client closes with data unread.
    pub(crate) fn reset(&self) {
        let (client, mut server) = self.connected(&Plan::default());
        server.write_all(b"unread").unwrap();
        client.set_nonblocking(true).unwrap();
        wait_until("data to arrive", || client.peek(&mut [0]).is_ok());
        drop(client);
        let mut rest = [0; 64];
        while server.read(&mut rest).is_ok_and(|len| len > 0) {}
    }

    /// From one moment on all is lost.
    pub(crate) fn vanished(&self) {
        let (mut client, _server) = self.connected(&Plan::default());
        client.write_all(b"heard").unwrap();
        self.kernel(&client);
        let impairment = Impairment {
            loss_permille: 1000,
            ..Impairment::default()
        };
        self.set_both(impairment);
        client.write_all(b"not heard").unwrap();
        // Time is what is tested: it is sent again and again.
        std::thread::sleep(Duration::from_secs(5));
    }

    /// With all lost, somebody connects.
    pub(crate) fn unanswered(&self) {
        let (_listener, address) = self.listener();
        self.client
            .run(|| TcpStream::connect_timeout(&address, Duration::from_millis(2500)).unwrap_err());
    }
}

/// A capture that is being made.
pub(crate) struct Capture<'a> {
    road: &'a Road,
    child: Child,
    file: String,
}

impl Capture<'_> {
    /// Ends it when nothing more comes; gives the file.
    pub(crate) fn stop(mut self) -> String {
        let _ = self.road;
        let len = |file: &str| std::fs::metadata(file).map_or(0, |data| data.len());
        wait_until_steady("the capture's file", Duration::from_millis(300), || {
            len(&self.file)
        });
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        self.child.wait().unwrap();
        self.file.clone()
    }

    pub(crate) fn finish(self) -> Told {
        let file = self.stop();
        let json = json(&["analyze", &file, "--format", "json"]);
        Told {
            connection: json["connections"][0].clone(),
            file,
            fate_there: PathCounters::default(),
            kernel: Kernel::default(),
        }
    }
}

impl Drop for Capture<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What is said of the only connection of a capture, and what was done to it.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) connection: Value,
    pub(crate) file: String,
    /// Toward the server
    pub(crate) fate_there: PathCounters,
    pub(crate) kernel: Kernel,
}

impl Told {
    pub(crate) fn text(&self, key: &str) -> &str {
        self.connection[key].as_str().unwrap_or_default()
    }

    pub(crate) fn verdict(&self) -> &str {
        self.text("verdict")
    }

    pub(crate) fn number(&self, pointer: &str) -> u64 {
        self.connection
            .pointer(pointer)
            .and_then(Value::as_u64)
            .unwrap_or_else(|| panic!("no {pointer} in {self:?}"))
    }

    pub(crate) fn limit(&self) -> &str {
        self.connection["forward"]["verdict"]["limit"]
            .as_str()
            .unwrap_or_default()
    }

    pub(crate) fn opinion(&self, name: &str) -> u64 {
        self.number(&format!("/forward/opinions/{name}"))
    }

    pub(crate) fn has_event(&self, kind: &str) -> bool {
        let events = self.connection["events"].as_array().unwrap();
        events.iter().any(|event| event["kind"] == kind)
    }

    #[track_caller]
    pub(crate) fn says_nothing_of(&self, opinions: &[&str]) {
        for name in opinions {
            for side in ["forward", "backward"] {
                let count = self.number(&format!("/{side}/opinions/{name}"));
                assert_eq!(count, 0, "{name} {side}: {self:?}");
            }
        }
    }

    /// Within so many percent, or two.
    #[track_caller]
    pub(crate) fn counts(&self, name: &str, truth: u64, percent: u64) {
        let found = self.opinion(name);
        let off = (truth * percent / 100).max(2);
        assert!(
            found.abs_diff(truth) <= off,
            "{name}: {found}, but it was {truth}: {self:?}"
        );
    }

    /// Shares of time within 5 points of the sender's own.
    #[track_caller]
    pub(crate) fn agrees_with_kernel(&self) {
        let shares = &self.connection["forward"]["shares_ns"];
        let ms = |name: &str| shares[name].as_f64().unwrap_or(0.0) / 1e6;
        let total: f64 = shares
            .as_object()
            .unwrap()
            .values()
            .filter_map(Value::as_f64)
            .sum::<f64>()
            / 1e6;
        let kernel = self.kernel;
        let pairs = [
            ("receiver_window", ms("receiver_window"), kernel.rwnd_limited_ms),
            ("send_buffer", ms("send_buffer"), kernel.sndbuf_limited_ms),
            (
                "busy",
                self.number("/forward/busy_ns") as f64 / 1e6,
                kernel.busy_ms,
            ),
        ];
        let mut line = format!("{}:", self.file);
        for (name, ours, theirs) in pairs {
            line.push_str(&format!(
                " {name} {:.1}/{:.1}%",
                ours * 100.0 / total,
                theirs * 100.0 / total
            ));
        }
        eprintln!("{line} (ours/kernel's)");
        for (name, ours, theirs) in pairs {
            let apart = (ours - theirs).abs() * 100.0 / total;
            assert!(
                apart <= 5.0,
                "{name}: {ours:.0} ms, the kernel says {theirs:.0} ms of {total:.0}: {self:?}"
            );
        }
    }

    /// Frame by frame.
    #[track_caller]
    pub(crate) fn agrees_with_tshark(&self) {
        let Ok(tshark) = program("tshark") else {
            eprintln!("not compared with tshark, which is not installed");
            return;
        };
        let version = Command::new(&tshark).arg("--version").output().unwrap();
        let version = String::from_utf8_lossy(&version.stdout);
        let mut command = Command::new(&tshark);
        command.args([
            "-n",
            "-r",
            &self.file,
            "-Y",
            "tcp",
            "-T",
            "fields",
            "-e",
            "frame.number",
        ]);
        for flag in FLAGS {
            command.arg("-e").arg(format!("tcp.analysis.{flag}"));
        }
        let out = command.output().unwrap();
        let mut theirs: BTreeMap<u64, BTreeSet<String>> = BTreeMap::new();
        let mut frames = 0_u64;
        for line in String::from_utf8_lossy(&out.stdout).lines() {
            let mut fields = line.split('\t');
            let frame = fields.next().unwrap().parse().unwrap();
            frames += 1;
            let mut set: BTreeSet<String> = FLAGS
                .iter()
                .zip(fields)
                .filter(|(_, value)| !value.is_empty())
                .map(|(name, _)| (*name).to_owned())
                .collect();
            if set.contains("fast_retransmission") || set.contains("spurious_retransmission") {
                set.remove("retransmission");
            }
            if !set.is_empty() {
                theirs.insert(frame, set);
            }
        }
        let out = sockeye(&["analyze", &self.file, "--flags", "--format", "jsonl"]);
        let mut ours: BTreeMap<u64, BTreeSet<String>> = BTreeMap::new();
        for line in String::from_utf8_lossy(&out.stdout).lines() {
            let value: Value = serde_json::from_str(line).unwrap();
            let Some(frame) = value["frame"].as_u64() else {
                continue;
            };
            let flags = value["flags"].as_array().unwrap();
            let set = flags
                .iter()
                .map(|flag| flag.as_str().unwrap().to_owned())
                .collect();
            ours.insert(frame, set);
        }
        let all: BTreeSet<u64> = ours.keys().chain(theirs.keys()).copied().collect();
        let wrong: Vec<String> = all
            .into_iter()
            .filter(|frame| ours.get(frame) != theirs.get(frame))
            .map(|frame| {
                format!(
                    "{frame}: ours {:?}, tshark's {:?}",
                    ours.get(&frame),
                    theirs.get(&frame)
                )
            })
            .collect();
        eprintln!(
            "{}: {} frames, {} flagged, {} differ from {}",
            self.file,
            frames,
            theirs.len(),
            wrong.len(),
            version.lines().next().unwrap_or_default()
        );
        assert!(wrong.len() as u64 * 1000 <= frames, "{}", wrong.join("\n"));
    }
}

/// Tests run beside each other: whatever they print belongs to one of them.
pub(crate) fn sockeye(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sockeye"))
        .args(words)
        .output()
        .unwrap()
}

#[track_caller]
pub(crate) fn output(words: &[&str]) -> String {
    let out = sockeye(words);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

#[track_caller]
pub(crate) fn json(words: &[&str]) -> Value {
    let value: Value = serde_json::from_str(&output(words)).unwrap();
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let schema = jsonschema::JSONSchema::compile(&schema).unwrap();
    if let Err(errors) = schema.validate(&value) {
        let errors: Vec<_> = errors
            .map(|error| format!("{error} at {}", error.instance_path))
            .collect();
        panic!("{}", errors.join("\n"));
    }
    value
}

pub(crate) fn piped(words: &[&str], bytes: &[u8]) -> (Option<i32>, String, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_sockeye"))
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // It may have had enough before the end.
    let _ = stdin.write_all(bytes);
    drop(stdin);
    let out = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (out.status.code(), text(&out.stdout), text(&out.stderr))
}

const SCHEMA: &str = include_str!("../../../../../../docs/schema/analyze.schema.json");

const FLAGS: [&str; 15] = [
    "zero_window_probe",
    "zero_window",
    "lost_segment",
    "keep_alive",
    "window_update",
    "window_full",
    "keep_alive_ack",
    "zero_window_probe_ack",
    "duplicate_ack",
    "ack_lost_segment",
    "spurious_retransmission",
    "fast_retransmission",
    "out_of_order",
    "retransmission",
    "reused_ports",
];

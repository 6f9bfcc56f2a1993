//! A client and a server connected by a middlebox that impairs the path, transfers over it, and captures of them.

use super::analysis::Analysis;
use rustix::net::sockopt;
use sockeye_lab::{
    Impairment, Lab, Middlebox, Namespace, PathCounters, Skip, Toward, program, wait_until,
    wait_until_steady, wait_within,
};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

pub(crate) const MS: Duration = Duration::from_millis(1);

/// Two namespaces and the middlebox between them.
pub(crate) struct ImpairedPath {
    // Fields are dropped in this order: the middlebox before its namespaces.
    middlebox: Middlebox,
    pub(crate) client: Namespace,
    pub(crate) server: Namespace,
    /// Address on which servers listen.
    pub(crate) address: IpAddr,
    captures: AtomicU32,
    pub(crate) lab: Lab,
}

/// A transfer from client to server: its size, and when the programs write and read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TransferPlan {
    pub(crate) bytes: usize,
    pub(crate) congestion: &'static str,
    pub(crate) send_buffer: Option<usize>,
    pub(crate) receive_buffer: Option<usize>,
    /// Bytes of each write, and the pause after it.
    pub(crate) write: Option<(usize, Duration)>,
    /// Bytes of each read, and the pause after it.
    pub(crate) read: Option<(usize, Duration)>,
    /// Pause before the first read.
    pub(crate) stall: Duration,
}

impl TransferPlan {
    pub(crate) fn of(bytes: usize) -> Self {
        Self {
            bytes,
            ..Self::default()
        }
    }
}

impl Default for TransferPlan {
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

/// `busy`, `rwnd_limited` and `sndbuf_limited` of the sender's `tcp_info`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SenderTimes {
    pub(crate) busy_ms: f64,
    pub(crate) rwnd_limited_ms: f64,
    pub(crate) sndbuf_limited_ms: f64,
}

/// Runs a test up to three times until it passes. The load of the host can delay a transfer by more than the impairment does,
/// and losses are random. A defect fails each time.
pub(crate) fn with_retries(test: impl Fn()) {
    for attempt in 1..ATTEMPTS_MAX {
        match std::panic::catch_unwind(std::panic::AssertUnwindSafe(&test)) {
            Ok(()) => return,
            Err(_) => println!("attempt {attempt} of {ATTEMPTS_MAX} failed; trying again"),
        }
    }
    test();
}

const ATTEMPTS_MAX: usize = 3;

/// An impairment that only delays.
pub(crate) fn delay(ms: u32) -> Impairment {
    Impairment {
        delay: ms * MS,
        ..Impairment::default()
    }
}

impl ImpairedPath {
    pub(crate) fn new(purpose: &str, seed: u64) -> Result<Self, Skip> {
        let lab = Lab::new(purpose)?;
        let (client, server) = (lab.namespace("client"), lab.namespace("server"));
        for namespace in [&client, &server] {
            // TCP must not reuse the metrics of an earlier transfer.
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

    /// A path with an impairment in each direction: `forward` toward the server, `backward` toward the client.
    pub(crate) fn with(
        purpose: &str,
        seed: u64,
        forward: Impairment,
        backward: Impairment,
    ) -> Result<Self, Skip> {
        let path = Self::new(purpose, seed)?;
        path.set(Toward::Server, forward);
        path.set(Toward::Client, backward);
        Ok(path)
    }

    /// The same path with transfers over IPv6.
    pub(crate) fn over_ipv6(self) -> Self {
        Self {
            address: self.middlebox.net_path6().server_ip(),
            ..self
        }
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

    /// Starts a capture at this end of the path.
    pub(crate) fn capture(&self, end: Toward) -> Result<Capture<'_>, Skip> {
        // The whole TCP header: tshark does not analyze segments with truncated options.
        let snaplen = if self.address.is_ipv6() { 140 } else { 100 };
        match end {
            Toward::Client => self.capture_on(&self.client, "tun0c", snaplen),
            Toward::Server => self.capture_on(&self.server, "tun0s", snaplen),
        }
    }

    /// Starts a capture at each end of the path.
    pub(crate) fn capture_both_ends(&self) -> Result<(Capture<'_>, Capture<'_>), Skip> {
        Ok((self.capture(Toward::Client)?, self.capture(Toward::Server)?))
    }

    /// Starts a capture on this device, of the first `snaplen` bytes of each packet.
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
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("listening on") {
            line.clear();
            assert!(stderr.read_line(&mut line).unwrap() > 0, "tcpdump ended");
        }
        Ok(Capture {
            _path: self,
            child,
            file: file.to_str().unwrap().to_owned(),
        })
    }

    /// Runs a transfer and analyzes its capture at the client.
    pub(crate) fn analyze_transfer(&self, plan: &TransferPlan) -> Result<Analysis, Skip> {
        let before = self.path_counters(Toward::Server);
        let capture = self.capture(Toward::Client)?;
        let sender_times = self.transfer(plan);
        let analysis = capture.analyze();
        let after = self.path_counters(Toward::Server);
        let counters = PathCounters {
            passed: after.passed - before.passed,
            lost: after.lost - before.lost,
            overflowed: after.overflowed - before.overflowed,
            late: after.late - before.late,
            duplicated: after.duplicated - before.duplicated,
            corrupted: after.corrupted - before.corrupted,
        };
        Ok(Analysis {
            counters,
            sender_times,
            ..analysis
        })
    }

    pub(crate) fn listener(&self) -> (TcpListener, SocketAddr) {
        let listener = self.server.run(|| TcpListener::bind((self.address, 0)).unwrap());
        let address = listener.local_addr().unwrap();
        (listener, address)
    }

    /// Connects; returns the socket of the client and that of the server.
    pub(crate) fn connect(&self, plan: &TransferPlan) -> (TcpStream, TcpStream) {
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

    /// Sends all data, waits until it is read and acknowledged, and closes both ends without a reset.
    pub(crate) fn transfer(&self, plan: &TransferPlan) -> SenderTimes {
        let (mut client, mut server) = self.connect(plan);
        let received = std::thread::scope(|scope| {
            scope.spawn(|| {
                let (len_max, pause) = plan.write.unwrap_or((plan.bytes, Duration::ZERO));
                let data = vec![7; len_max];
                let mut left = plan.bytes;
                while left > 0 {
                    let len = left.min(len_max);
                    client.write_all(&data[..len]).unwrap();
                    left -= len;
                    if left > 0 {
                        std::thread::sleep(pause);
                    }
                }
            });
            // The pauses of the plan are what is tested.
            std::thread::sleep(plan.stall);
            let (len_max, pause) = plan.read.unwrap_or((1 << 16, Duration::ZERO));
            let mut buffer = vec![0; len_max];
            let mut received = 0;
            while received < plan.bytes {
                received += server.read(&mut buffer).unwrap();
                if plan.read.is_some() {
                    std::thread::sleep(pause);
                }
            }
            received
        });
        assert_eq!(received, plan.bytes);
        let sender_times = self.sender_times(&client);
        client.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(server.read(&mut [0]).unwrap(), 0);
        drop(server);
        assert_eq!(client.read(&mut [0]).unwrap(), 0);
        sender_times
    }

    /// Waits until all data is acknowledged, and reads the times of the sender's kernel.
    fn sender_times(&self, client: &TcpStream) -> SenderTimes {
        let port = client.local_addr().unwrap().port();
        let filter = format!("sport = :{port}");
        let text = wait_within(Duration::from_secs(60), "acknowledgements of all data", || {
            let text = self.client.output("ss", &["-tinH", &filter]);
            (!text.contains("unacked:")).then_some(text)
        });
        let field = |name: &str| {
            let start = text.find(name)? + name.len();
            let end = text[start..].find("ms")?;
            text[start..start + end].parse().ok()
        };
        SenderTimes {
            busy_ms: field("busy:").unwrap_or(0.0),
            rwnd_limited_ms: field("rwnd_limited:").unwrap_or(0.0),
            sndbuf_limited_ms: field("sndbuf_limited:").unwrap_or(0.0),
        }
    }

    /// The current congestion window, in bytes, of the only connection.
    pub(crate) fn congestion_window(&self) -> Option<u64> {
        let text = self.client.output("ss", &["-tinH", "state", "established"]);
        let field = |name: &str| {
            let rest = &text[text.find(name)? + name.len()..];
            let end = rest.find(|digit: char| !digit.is_ascii_digit())?;
            rest[..end].parse::<u64>().ok()
        };
        Some(field(" cwnd:")? * field(" mss:")?)
    }

    /// Sends requests one after another; the server waits before each response.
    pub(crate) fn requests_and_responses(&self, count: usize, server_delay: Duration) {
        let (mut client, mut server) = self.connect(&TransferPlan::default());
        let (mut request, mut response) = ([0; 300], [0; 5_000]);
        for _ in 0..count {
            client.write_all(&request).unwrap();
            server.read_exact(&mut request).unwrap();
            // The delay is what is tested.
            std::thread::sleep(server_delay);
            server.write_all(&response).unwrap();
            client.read_exact(&mut response).unwrap();
        }
    }

    /// Connects to a port on which no socket listens.
    pub(crate) fn connect_to_closed_port(&self) {
        let (listener, address) = self.listener();
        drop(listener);
        self.client.run(|| TcpStream::connect(address).unwrap_err());
    }

    /// Closes the client's socket while it has unread data, which sends a reset.
    pub(crate) fn close_with_unread_data(&self) {
        let (client, mut server) = self.connect(&TransferPlan::default());
        server.write_all(b"unread").unwrap();
        client.set_nonblocking(true).unwrap();
        wait_until("data to arrive", || client.peek(&mut [0]).is_ok());
        drop(client);
        let mut rest = [0; 64];
        while server.read(&mut rest).is_ok_and(|len| len > 0) {}
    }

    /// Sends data, then loses all packets while the client retransmits for 5 seconds.
    pub(crate) fn lose_all_packets_after_data(&self) {
        let (mut client, _server) = self.connect(&TransferPlan::default());
        client.write_all(b"received").unwrap();
        self.sender_times(&client);
        let impairment = Impairment {
            loss_permille: 1000,
            ..Impairment::default()
        };
        self.set_both(impairment);
        client.write_all(b"lost").unwrap();
        // The time of the retransmissions is what is tested.
        std::thread::sleep(Duration::from_secs(5));
    }

    /// Connects without an answer for `timeout`. All packets must be lost.
    pub(crate) fn connect_without_answer(&self, timeout: Duration) {
        let (_listener, address) = self.listener();
        self.client
            .run(|| TcpStream::connect_timeout(&address, timeout).unwrap_err());
    }
}

/// A running capture by tcpdump.
pub(crate) struct Capture<'a> {
    _path: &'a ImpairedPath,
    child: Child,
    file: String,
}

impl Capture<'_> {
    /// Ends the capture once its file no longer grows; returns the file.
    pub(crate) fn stop(mut self) -> String {
        wait_until_steady("the capture's file", Duration::from_millis(300), || {
            std::fs::metadata(&self.file).map_or(0, |metadata| metadata.len())
        });
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        self.child.wait().unwrap();
        self.file.clone()
    }

    /// Ends the capture and analyzes its file.
    pub(crate) fn analyze(self) -> Analysis {
        Analysis::of(&self.stop())
    }
}

impl Drop for Capture<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

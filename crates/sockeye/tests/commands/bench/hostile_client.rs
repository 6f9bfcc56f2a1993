//! A client of `bench serve` that can do what it should not. It is written from the description of the protocol
//! (`load::session`), and shares no code with it.

use hmac::{Hmac, KeyInit, Mac};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use serde_json::Value;
use sha2::Sha256;
use sockeye_lab::wait_until;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::Child;
use std::time::{Duration, Instant};

/// A control connection after the challenge.
pub(super) struct HostileClient {
    pub(super) control: TcpStream,
    pub(super) key: Vec<u8>,
    pub(super) challenge: Value,
    pub(super) token: Vec<u8>,
}

impl HostileClient {
    /// Sends a preamble, and reads the challenge.
    pub(super) fn greet(mut control: TcpStream, secret: &[u8]) -> Self {
        let nonce = [0x11; 16];
        control
            .set_read_timeout(Some(Duration::from_secs(5)))
            .expect("a timeout");
        control
            .write_all(&preamble(0, 0, &nonce, &[0; 12]))
            .expect("loopback works");
        let challenge = read_frame(&mut control).expect("a challenge");
        let server = unhex(challenge["challenge"].as_str().expect("a nonce"));
        Self {
            control,
            key: mac(secret, &[b"session", &[2], &nonce, &server]),
            challenge,
            token: Vec::new(),
        }
    }

    /// Sends a request with its proof.
    pub(super) fn request(&mut self, request: &str) {
        let proof = mac(&self.key, &[b"client", request.as_bytes()]);
        let mut bytes = proof;
        bytes.extend(u32::try_from(request.len()).unwrap().to_be_bytes());
        bytes.extend(request.as_bytes());
        // A server that has refused already may be gone.
        let _ = self.control.write_all(&bytes);
    }

    /// The next message; null if there is none.
    pub(super) fn answer(&mut self) -> Value {
        read_frame(&mut self.control).unwrap_or(Value::Null)
    }

    /// A test that the server has accepted.
    pub(super) fn accepted(address: SocketAddr, request: &str) -> Result<Self, Value> {
        let mut client = Self::greet(TcpStream::connect(address).expect("a connection"), b"");
        client.request(request);
        let answer = client.answer();
        match answer["ok"]["token"].as_str() {
            Some(token) => client.token = unhex(token),
            None => return Err(answer),
        }
        Ok(client)
    }

    /// A running test with these data connections. From an address of its own, if the server is at loopback.
    pub(super) fn running(
        from: Ipv4Addr,
        server: SocketAddr,
        request: &str,
        numbers: impl IntoIterator<Item = u16>,
    ) -> Result<(Self, Vec<TcpStream>), Value> {
        let mut client = Self::greet(connect_from(from, server), b"");
        client.request(request);
        let answer = client.answer();
        client.token = match answer["ok"]["token"].as_str() {
            Some(token) => unhex(token),
            None => return Err(answer),
        };
        let mut streams = Vec::new();
        for number in numbers {
            let mut stream = connect_from(from, server);
            let _ = stream.write_all(&client.data(1, number));
            streams.push(stream);
        }
        let ready = client.answer();
        if ready["ready"] != true {
            return Err(ready);
        }
        client.send(r#"{"go": true}"#);
        Ok((client, streams))
    }

    /// Sends a message. Returns whether the connection takes it.
    pub(super) fn send(&mut self, message: &str) -> bool {
        let len = u32::try_from(message.len()).unwrap().to_be_bytes();
        self.control
            .write_all(&[&len[..], message.as_bytes()].concat())
            .is_ok()
    }

    /// The preamble of a data connection, or a first datagram.
    pub(super) fn data(&self, role: u8, number: u16) -> Vec<u8> {
        let tag = mac(&self.key, &[b"data", &[role], &number.to_be_bytes(), &self.token]);
        preamble(role, number, &self.token, &tag[..12])
    }

    /// The answer to a welcome with this nonce.
    pub(super) fn confirmation(&self, number: u16, nonce: &[u8]) -> Vec<u8> {
        let tag = mac(
            &self.key,
            &[b"confirm", &number.to_be_bytes(), &self.token, nonce],
        );
        preamble(4, number, &self.token, &tag[..12])
    }
}

pub(super) fn preamble(role: u8, number: u16, token: &[u8], tag: &[u8]) -> Vec<u8> {
    let mut bytes = b"sockeye\n".to_vec();
    bytes.extend([2, role]);
    bytes.extend(number.to_be_bytes());
    bytes.extend(token);
    bytes.extend(tag);
    assert_eq!(bytes.len(), 40);
    bytes
}

pub(super) fn mac(key: &[u8], inputs: &[&[u8]]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    for input in inputs {
        mac.update(&(input.len() as u64).to_be_bytes());
        mac.update(input);
    }
    mac.finalize().into_bytes().to_vec()
}

pub(super) fn unhex(text: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("digits");
    (0..text.len()).step_by(2).map(digit).collect()
}

pub(super) fn read_frame(stream: &mut TcpStream) -> Option<Value> {
    let mut len = [0; 4];
    stream.read_exact(&mut len).ok()?;
    let mut text = vec![0; u32::from_be_bytes(len) as usize];
    stream.read_exact(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

/// Number of TCP connections of the server at this port, for a server in the namespace of the test.
pub(super) fn server_connections(port: u16) -> usize {
    let established = |(state, _): &(String, u64)| state == "01";
    server_sockets(port)
        .iter()
        .filter(|socket| established(socket))
        .count()
}

/// Waits until the server has accepted all connections and read all that it was sent.
#[track_caller]
pub(super) fn wait_until_read(port: u16) {
    wait_until("the server to read everything", || {
        let sockets = server_sockets(port);
        !sockets.is_empty() && sockets.iter().all(|(_, unread)| *unread == 0)
    });
}

/// State and Recv-Q of each IPv4 TCP socket at this local port: of a listener the connections that wait.
fn server_sockets(port: u16) -> Vec<(String, u64)> {
    let text = std::fs::read_to_string("/proc/thread-self/net/tcp").expect("the sockets");
    let socket = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let local = words.get(1)?.rsplit(':').next()?;
        let unread = words.get(4)?.rsplit(':').next()?;
        let is_at_port = u16::from_str_radix(local, 16) == Ok(port);
        is_at_port.then(|| {
            (
                words[3].to_owned(),
                u64::from_str_radix(unread, 16).expect("a number"),
            )
        })
    };
    text.lines().skip(1).filter_map(socket).collect()
}

/// Connects from this address, of which loopback has many.
pub(super) fn connect_from(from: Ipv4Addr, server: SocketAddr) -> TcpStream {
    let made = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    bind(&made, &SocketAddr::from((from, 0))).expect("an address of loopback");
    connect(&made, &server).expect("the server accepts");
    TcpStream::from(made)
}

/// The share of a core that a process uses for this long; on a busy machine, what it would be on an idle one.
pub(super) fn processor_share(child: &Child, time: Duration) -> f64 {
    let (before, busy_before) = (processor_time(child), busy_time());
    let ((), seconds) = timed(|| std::thread::sleep(time));
    let used = processor_time(child) - before;
    let processors = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    let others = ((busy_time() - busy_before - used) / seconds / processors).clamp(0.0, 1.0);
    used / seconds / (1.0 + SLOWDOWN * others)
}

/// By how much the same work takes longer while other programs use all processors: caches and, of two processors of one core, its
/// units are shared.
const SLOWDOWN: f64 = 0.6;

/// Time that all processors were busy so far, in seconds.
fn busy_time() -> f64 {
    let stat = std::fs::read_to_string("/proc/stat").expect("it can be read");
    let line = stat.lines().next().expect("the sum of all processors");
    let ticks: Vec<u64> = line
        .split_whitespace()
        .skip(1)
        .map(|word| word.parse().expect("a number"))
        .collect();
    // user, nice, system; irq, softirq
    (ticks[..3].iter().sum::<u64>() + ticks[5..7].iter().sum::<u64>()) as f64 / 100.0
}

/// Processor time of a process so far, in seconds.
pub(super) fn processor_time(child: &Child) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).expect("it lives");
    let after_name = stat.rsplit(')').next().expect("a name");
    let ticks: u64 = after_name
        .split_whitespace()
        .skip(11)
        .take(2)
        .map(|word| word.parse::<u64>().expect("a number"))
        .sum();
    ticks as f64 / 100.0
}

/// Threads of a process.
pub(super) fn threads(child: &Child) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).expect("it lives");
    let line = status.lines().find_map(|line| line.strip_prefix("Threads:"));
    line.and_then(|line| line.trim().parse().ok()).expect("a number")
}

/// The result, and how long it took, in seconds.
pub(super) fn timed<T>(act: impl FnOnce() -> T) -> (T, f64) {
    let begun = Instant::now();
    let result = act();
    (result, begun.elapsed().as_secs_f64())
}

//! The server's end of a test: a thread per connection, and their load.

use super::answer::{Answers, answer_connection, answer_datagrams, answer_once};
use super::run_state::Sizes;
use crate::affinity::{may_run_on, pin_thread};
use crate::session::limits::EXCHANGE_BYTES;
use crate::session::{DataSocket, Error, Kind, PEER_VALUE_MAX, PREAMBLE_LEN, Test, peer_text};
use crate::transport::Transport;
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout, set_tcp_nodelay};
use rustix::net::{Shutdown, shutdown};
use serde_json::{Value, json};
use sockeye_model::counted;
use std::io::Read;
use std::net::{IpAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Answers the requests of a test (`rr` or `crr`) until its client ends it, or is gone. `say` logs a line. Closes all that
/// it opened.
pub(crate) fn answer(mut test: Test<'_>, say: &dyn Fn(&str)) {
    let (client, kind) = (test.client, test.kind.name());
    match serve(&mut test, say) {
        Ok(line) => say(&format!("{client}: {kind}: {line}")),
        Err(error) => say(&format!("{client}: {kind}: {error}")),
    }
}

fn serve(test: &mut Test<'_>, say: &dyn Fn(&str)) -> Result<String, Error> {
    let request = match Request::parse(&test.parameters) {
        Ok(request) => request,
        Err(reason) => {
            test.refuse(&reason)?;
            return Ok(format!("refused: {reason}"));
        }
    };
    let wanted = test.parameters["time_us"].as_u64().map(Duration::from_micros);
    if wanted.is_some_and(|wanted| wanted > test.limits.time) {
        let error = Error::TooLong(test.limits.time);
        test.refuse(&error.to_string())?;
        return Ok(format!("refused: {error}"));
    }
    let request = Request {
        busy_poll: request.busy_poll && test.limits.busy_poll,
        ..request
    };
    if let Err(error) = test.reserve(usize::from(request.connections)) {
        test.refuse(&error.to_string())?;
        return Ok(format!("refused: {error}"));
    }
    say(&format!(
        "{}: {}: {} of {}",
        test.client,
        test.kind.name(),
        counted(request.connections, "connection"),
        request.transport.name().to_uppercase()
    ));
    let sums = match test.kind {
        Kind::Crr => serve_per_request(test, request),
        _ => serve_persistent(test, request),
    };
    let sums = match sums {
        Err(error @ (Error::TooLong(_) | Error::Flood)) => {
            let _ = test.refuse(&error.to_string());
            return Err(error);
        }
        other => other?,
    };
    test.channel.send(&sums)?;
    Ok(format!("{} requests answered", sums["answered"]))
}

/// Checked parameters of a client.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request {
    transport: Transport,
    sizes: Sizes,
    connections: u16,
    busy_poll: bool,
    /// Processor to pin the threads to.
    processor: Option<usize>,
}

impl Request {
    pub(crate) fn parse(parameters: &Value) -> Result<Self, String> {
        let number = |name: &str, most: u32| {
            let number = parameters[name]
                .as_u64()
                .and_then(|number| u32::try_from(number).ok());
            let number = number.filter(|number| (1..=most).contains(number));
            number.ok_or_else(|| format!("{name} has to be a number from 1 to {most}"))
        };
        let transport = match parameters["transport"].as_str() {
            Some("tcp") => Transport::Tcp,
            Some("udp") => Transport::Udp,
            _ => return Err("transport has to be tcp or udp".to_owned()),
        };
        let most = transport.size_max();
        let sizes = Sizes {
            request: number("request", most)?,
            response: number("response", most)?,
        };
        let least = transport.size_min();
        if sizes.request.min(sizes.response) < least {
            return Err(format!(
                "requests and answers have to have at least {least} bytes"
            ));
        }
        let processor = match &parameters["processor"] {
            Value::Null => None,
            number => {
                let number = number.as_u64().and_then(|number| usize::try_from(number).ok());
                let number = number.filter(|&number| may_run_on(number));
                Some(number.ok_or_else(|| {
                    let typed = peer_text(&parameters["processor"].to_string(), PEER_VALUE_MAX);
                    format!("no processor {typed} to stay on")
                })?)
            }
        };
        Ok(Self {
            processor,
            transport,
            sizes,
            connections: number("connections", CONNECTIONS_MAX)? as u16,
            busy_poll: parameters["busy_poll"] == json!(true),
        })
    }

    /// Asserts what every request promises that was accepted.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn check_limits(&self) {
        let sizes = self.transport.size_min()..=self.transport.size_max();
        assert!(sizes.contains(&self.sizes.request) && sizes.contains(&self.sizes.response));
        assert!((1..=CONNECTIONS_MAX).contains(&u32::from(self.connections)));
    }
}

fn serve_persistent(test: &mut Test<'_>, request: Request) -> Result<Value, Error> {
    test.accept(
        json!({"busy_poll": request.busy_poll}),
        usize::from(request.connections),
    )?;
    let mut sockets: Vec<OwnedFd> = Vec::new();
    let until = Instant::now() + DATA_TIMEOUT;
    while sockets.len() < usize::from(request.connections) {
        let (_, data) = test.data(until.saturating_duration_since(Instant::now()))?;
        sockets.push(match data {
            DataSocket::Tcp(stream) => {
                let socket = OwnedFd::from(stream);
                let failed = |errno| Error::System("set options of a connection", errno);
                set_tcp_nodelay(&socket, true).map_err(failed)?;
                // Remove the short timeout that the identification set.
                set_socket_timeout(&socket, Timeout::Recv, None).map_err(failed)?;
                socket
            }
            DataSocket::Udp(socket) => {
                let failed = |error: std::io::Error| {
                    Error::System(
                        "set options of a socket",
                        Errno::from_io_error(&error).unwrap_or(Errno::IO),
                    )
                };
                socket.set_read_timeout(None).map_err(failed)?;
                OwnedFd::from(socket)
            }
        });
    }
    test.begin()?;
    let is_over = AtomicBool::new(false);
    let answers: Vec<Answers> = sockets.iter().map(|_| Answers::default()).collect();
    let (ended, sums) = thread::scope(|scope| {
        let mut threads = Vec::new();
        for (socket, answers) in sockets.iter().zip(&answers) {
            let is_over = &is_over;
            let answer = move || {
                pin_thread(request.processor);
                match request.transport {
                    Transport::Tcp => {
                        answer_connection(socket.as_fd(), request.sizes, request.busy_poll, answers)
                    }
                    Transport::Udp => {
                        answer_datagrams(socket.as_fd(), request.sizes, request.busy_poll, is_over, answers)
                    }
                }
            };
            match thread::Builder::new()
                .name("answers".to_owned())
                .spawn_scoped(scope, answer)
            {
                Ok(thread) => threads.push(thread),
                Err(_) => break,
            }
        }
        let ended = if threads.len() == sockets.len() {
            test.channel
                .send(&json!({"ready": true}))
                .and_then(|()| until_over(test, request.sizes, &answers))
        } else {
            Err(Error::System("start a thread", Errno::AGAIN))
        };
        is_over.store(true, Ordering::Relaxed);
        for socket in &sockets {
            let _ = shutdown(socket, Shutdown::Both);
        }
        (ended, sum(threads, &answers))
    });
    ended.map(|()| sums)
}

/// Serves on a port for this test alone: each thread accepts for itself, and connections need not be identified first.
fn serve_per_request(test: &mut Test<'_>, request: Request) -> Result<Value, Error> {
    let failed = |error: std::io::Error| {
        Error::System(
            "listen on a port of the test's own",
            Errno::from_io_error(&error).unwrap_or(Errno::IO),
        )
    };
    // A link-local address keeps its scope.
    let mut own = test.local;
    own.set_port(0);
    let listener = TcpListener::bind(own).map_err(failed)?;
    let port = listener.local_addr().map_err(failed)?.port();
    test.begin()?;
    test.accept(json!({"port": port}), 0)?;
    let preambles: Vec<_> = (0..request.connections)
        .map(|number| test.preamble(number).emit())
        .collect();
    let client = test.client.ip();
    let answers: Vec<Answers> = preambles.iter().map(|_| Answers::default()).collect();
    let is_over = AtomicBool::new(false);
    let (ended, sums) = thread::scope(|scope| {
        let mut threads = Vec::new();
        for answers in &answers {
            let expected = Expected {
                client,
                preambles: &preambles,
                sizes: request.sizes,
            };
            let (listener, is_over) = (&listener, &is_over);
            let answer = move || {
                pin_thread(request.processor);
                accept_and_answer(listener, expected, is_over, answers)
            };
            match thread::Builder::new()
                .name("answers".to_owned())
                .spawn_scoped(scope, answer)
            {
                Ok(thread) => threads.push(thread),
                Err(_) => break,
            }
        }
        let ended = if threads.len() == usize::from(request.connections) {
            test.channel
                .send(&json!({"ready": true}))
                .and_then(|()| until_over(test, request.sizes, &answers))
        } else {
            Err(Error::System("start a thread", Errno::AGAIN))
        };
        is_over.store(true, Ordering::Relaxed);
        // Wakes up all threads that wait for a connection.
        let _ = shutdown(&listener, Shutdown::Both);
        (ended, sum(threads, &answers))
    });
    ended.map(|()| sums)
}

/// Connections that belong to a test with one request each.
#[derive(Debug, Clone, Copy)]
struct Expected<'a> {
    /// The client's address.
    client: IpAddr,
    /// What they begin with, by their number.
    preambles: &'a [[u8; PREAMBLE_LEN]],
    sizes: Sizes,
}

fn accept_and_answer(
    listener: &TcpListener,
    expected: Expected<'_>,
    is_over: &AtomicBool,
    answers: &Answers,
) -> Duration {
    let before = sockeye_sys::ProcessorTime::of_this_thread();
    while !is_over.load(Ordering::Relaxed) {
        let Ok((stream, from)) = listener.accept() else {
            // Out of descriptors, or the test is over.
            if !is_over.load(Ordering::Relaxed) {
                thread::sleep(RETRY_DELAY);
            }
            continue;
        };
        // Other hosts may find the port, and must not hold up a thread.
        if from.ip().to_canonical() != expected.client {
            continue;
        }
        let set = stream
            .set_write_timeout(Some(STALLED_AFTER))
            .and_then(|()| stream.set_nodelay(true));
        if set.is_ok() && begins_with(&stream, expected.preambles) {
            answer_once(stream.as_fd(), expected.sizes, answers);
        }
    }
    sockeye_sys::ProcessorTime::of_this_thread()
        .since(&before)
        .total()
}

/// Reads a preamble, and returns whether it is one of these. One by one, bytes do not extend the time for it.
fn begins_with(mut stream: &TcpStream, preambles: &[[u8; PREAMBLE_LEN]]) -> bool {
    let until = Instant::now() + STALLED_AFTER;
    let mut bytes = [0; PREAMBLE_LEN];
    let mut filled = 0;
    let mut left = STALLED_AFTER;
    while filled < bytes.len() {
        if left.is_zero() || stream.set_read_timeout(Some(left)).is_err() {
            return false;
        }
        match stream.read(&mut bytes[filled..]) {
            Ok(0) | Err(_) => return false,
            Ok(len) => filled += len,
        }
        if filled < bytes.len() {
            left = until.saturating_duration_since(Instant::now());
        }
    }
    // The request has its own time.
    if left < STALLED_AFTER && stream.set_read_timeout(Some(STALLED_AFTER)).is_err() {
        return false;
    }
    let number = usize::from(u16::from_be_bytes([bytes[10], bytes[11]]));
    preambles
        .get(number)
        .is_some_and(|preamble| is_same(preamble, &bytes))
}

/// Compares in a time that does not depend on where the difference is.
fn is_same(one: &[u8; PREAMBLE_LEN], other: &[u8; PREAMBLE_LEN]) -> bool {
    let difference = one
        .iter()
        .zip(other)
        .fold(0, |all, (one, other)| all | (one ^ other));
    std::hint::black_box(difference) == 0
}

/// Waits until the client ends the test. A client without heartbeats is gone.
fn until_over(test: &mut Test<'_>, sizes: Sizes, answers: &[Answers]) -> Result<(), Error> {
    let began = Instant::now();
    let mut last_message = began;
    let exchange = u64::from(sizes.request) + u64::from(sizes.response) + EXCHANGE_BYTES;
    loop {
        let answered: u64 = answers.iter().map(Answers::count).sum();
        test.progress(answered.saturating_mul(exchange));
        if began.elapsed() > test.limits.time + OVERTIME {
            return Err(Error::TooLong(test.limits.time));
        }
        test.stop.check()?;
        match test.channel.poll(TICK)? {
            Some(message) if message["end"] == json!(true) => return Ok(()),
            Some(_) => last_message = Instant::now(),
            None if last_message.elapsed() > SILENCE_MAX => {
                return Err(Error::Timeout("a heartbeat", SILENCE_MAX));
            }
            None => {}
        }
    }
}

fn sum(threads: Vec<thread::ScopedJoinHandle<'_, Duration>>, answers: &[Answers]) -> Value {
    let (mut cpu, mut busiest) = (Duration::ZERO, Duration::ZERO);
    for thread in threads {
        let Ok(one) = thread.join() else { continue };
        cpu += one;
        busiest = busiest.max(one);
    }
    let answered: u64 = answers.iter().map(Answers::count).sum();
    json!({
        "answered": answered,
        "cpu_ns": cpu.as_nanos() as u64,
        "busiest_ns": busiest.as_nanos() as u64,
    })
}

/// Most threads of one test.
pub(super) const CONNECTIONS_MAX: u32 = 1000;
const DATA_TIMEOUT: Duration = Duration::from_secs(10);
const STALLED_AFTER: Duration = Duration::from_secs(2);
const SILENCE_MAX: Duration = Duration::from_secs(20);
const TICK: Duration = Duration::from_millis(100);
/// Time for the end of a test that takes as long as is allowed.
const OVERTIME: Duration = Duration::from_secs(3);
const RETRY_DELAY: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_out_of_range_are_refused() {
        let good = json!({"transport": "udp", "request": 8, "response": 65507, "connections": 1000});
        let request = Request::parse(&good).unwrap();
        assert_eq!(
            (request.sizes.request, request.connections, request.busy_poll),
            (8, 1000, false)
        );
        for (key, value) in [
            ("transport", json!("sctp")),
            ("request", json!(7)),
            ("request", json!(-1)),
            ("response", json!(65508)),
            ("response", json!(1_u64 << 40)),
            ("connections", json!(0)),
            ("connections", json!(1001)),
            ("connections", json!("1")),
        ] {
            let mut bad = good.clone();
            bad[key] = value;
            assert!(Request::parse(&bad).is_err(), "{bad}");
        }
        assert!(Request::parse(&json!([])).is_err());
    }
}

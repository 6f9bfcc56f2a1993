//! The server's part of a test: as many threads as there are connections, and what they took.

use super::answering::{Answering, answer_connection, answer_datagrams, answer_once};
use super::course::{Sizes, Transport};
use super::pinned::{may_run_on, stay_on};
use crate::session::{Data, Kind, PREAMBLE_LEN, Preamble, Role, Test, Token, Trouble};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout, set_tcp_nodelay};
use rustix::net::{Shutdown, shutdown};
use serde_json::{Value, json};
use std::io::Read;
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Answers the requests of a test (`rr` or `crr`) until its client has no more, or is gone. `say` is told a line. What was
/// opened is closed in each case.
pub(crate) fn answer(mut test: Test<'_>, say: &dyn Fn(&str)) {
    let (client, kind) = (test.client, test.kind.name());
    match serve(&mut test, say) {
        Ok(line) => say(&format!("{client}: {kind}: {line}")),
        Err(trouble) => say(&format!("{client}: {kind}: {trouble}")),
    }
}

fn serve(test: &mut Test<'_>, say: &dyn Fn(&str)) -> Result<String, Trouble> {
    let wish = match Wish::parse(&test.parameters) {
        Ok(wish) => wish,
        Err(why) => {
            test.refuse(&why)?;
            return Ok(format!("refused: {why}"));
        }
    };
    say(&format!(
        "{}: {}: {} connection{} of {}",
        test.client,
        test.kind.name(),
        wish.connections,
        if wish.connections == 1 { "" } else { "s" },
        wish.transport.name().to_uppercase()
    ));
    let sums = match test.kind {
        Kind::Crr => serve_each(test, wish),
        _ => serve_lasting(test, wish),
    }?;
    test.channel.send(&sums)?;
    Ok(format!("{} requests answered", sums["answered"]))
}

/// What a client wants, within bounds.
#[derive(Debug, Clone, Copy)]
struct Wish {
    transport: Transport,
    sizes: Sizes,
    connections: u16,
    spins: bool,
    /// That threads are to stay on.
    processor: Option<usize>,
}

impl Wish {
    fn parse(parameters: &Value) -> Result<Self, String> {
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
                Some(number.ok_or_else(|| format!("no processor {} to stay on", parameters["processor"]))?)
            }
        };
        Ok(Self {
            processor,
            transport,
            sizes,
            connections: number("connections", CONNECTIONS_MAX)? as u16,
            spins: parameters["busy_poll"] == json!(true),
        })
    }
}

fn serve_lasting(test: &mut Test<'_>, wish: Wish) -> Result<Value, Trouble> {
    test.accept(json!({}))?;
    let mut sockets: Vec<OwnedFd> = Vec::new();
    while sockets.len() < usize::from(wish.connections) {
        let (_, data) = test.data(DATA_PATIENCE)?;
        sockets.push(match data {
            Data::Tcp(stream) => {
                let socket = OwnedFd::from(stream);
                let failed = |errno| Trouble::System("set options of a connection", errno);
                set_tcp_nodelay(&socket, true).map_err(failed)?;
                // Whoever found out who it is may have been in a hurry.
                set_socket_timeout(&socket, Timeout::Recv, None).map_err(failed)?;
                socket
            }
            Data::Udp(socket) => {
                let failed = |error: std::io::Error| {
                    Trouble::System(
                        "set options of a socket",
                        Errno::from_io_error(&error).unwrap_or(Errno::IO),
                    )
                };
                socket.set_read_timeout(None).map_err(failed)?;
                OwnedFd::from(socket)
            }
        });
    }
    let is_over = AtomicBool::new(false);
    let (ended, sums) = thread::scope(|scope| {
        let mut threads = Vec::new();
        for socket in &sockets {
            let is_over = &is_over;
            let answer = move || {
                stay_on(wish.processor);
                match wish.transport {
                    Transport::Tcp => answer_connection(socket.as_fd(), wish.sizes, wish.spins),
                    Transport::Udp => answer_datagrams(socket.as_fd(), wish.sizes, wish.spins, is_over),
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
                .and_then(|()| until_over(test))
        } else {
            Err(Trouble::System("start a thread", Errno::AGAIN))
        };
        is_over.store(true, Ordering::Relaxed);
        for socket in &sockets {
            let _ = shutdown(socket, Shutdown::Both);
        }
        (ended, sum(threads))
    });
    ended.map(|()| sums)
}

/// On a port of its own: there each thread accepts for itself, as servers do, and nobody has to find out first whose a
/// connection is.
fn serve_each(test: &mut Test<'_>, wish: Wish) -> Result<Value, Trouble> {
    let failed = |error: std::io::Error| {
        Trouble::System(
            "listen on a port of the test's own",
            Errno::from_io_error(&error).unwrap_or(Errno::IO),
        )
    };
    // With its device, if it is an address of a link.
    let mut own = test.local;
    own.set_port(0);
    let listener = TcpListener::bind(own).map_err(failed)?;
    let port = listener.local_addr().map_err(failed)?.port();
    test.accept(json!({"port": port}))?;
    let token = test.token();
    let is_over = AtomicBool::new(false);
    let (ended, sums) = thread::scope(|scope| {
        let mut threads = Vec::new();
        for _ in 0..wish.connections {
            let (listener, is_over) = (&listener, &is_over);
            let answer = move || {
                stay_on(wish.processor);
                accept_and_answer(listener, token, wish.sizes, is_over)
            };
            match thread::Builder::new()
                .name("answers".to_owned())
                .spawn_scoped(scope, answer)
            {
                Ok(thread) => threads.push(thread),
                Err(_) => break,
            }
        }
        let ended = if threads.len() == usize::from(wish.connections) {
            test.channel
                .send(&json!({"ready": true}))
                .and_then(|()| until_over(test))
        } else {
            Err(Trouble::System("start a thread", Errno::AGAIN))
        };
        is_over.store(true, Ordering::Relaxed);
        // All threads that wait for a connection wake up.
        let _ = shutdown(&listener, Shutdown::Both);
        (ended, sum(threads))
    });
    ended.map(|()| sums)
}

fn accept_and_answer(listener: &TcpListener, token: Token, sizes: Sizes, is_over: &AtomicBool) -> Answering {
    let mut all = Answering::default();
    let before = sockeye_sys::ProcessorTime::of_this_thread();
    while !is_over.load(Ordering::Relaxed) {
        let Ok((mut stream, _)) = listener.accept() else {
            // Out of descriptors, or it is over.
            if !is_over.load(Ordering::Relaxed) {
                thread::sleep(BREATH);
            }
            continue;
        };
        // Nobody holds up a thread for long; strangers may have found the port.
        let set = stream
            .set_read_timeout(Some(STALLED_AFTER))
            .and_then(|()| stream.set_write_timeout(Some(STALLED_AFTER)))
            .and_then(|()| stream.set_nodelay(true));
        let mut bytes = [0; PREAMBLE_LEN];
        if set.and_then(|()| stream.read_exact(&mut bytes)).is_err() {
            continue;
        }
        let preamble = Preamble::parse(&bytes);
        if preamble.is_some_and(|preamble| preamble.role == Role::Data && preamble.token == token) {
            all.answered += answer_once(stream.as_fd(), sizes).answered;
        }
    }
    all.cpu = sockeye_sys::ProcessorTime::of_this_thread()
        .since(&before)
        .total();
    all
}

/// Until the client says so. It says something every second, and is gone if it does not.
fn until_over(test: &mut Test<'_>) -> Result<(), Trouble> {
    let mut heard = Instant::now();
    loop {
        test.stop.check()?;
        match test.channel.poll(TICK)? {
            Some(message) if message["end"] == json!(true) => return Ok(()),
            Some(_) => heard = Instant::now(),
            None if heard.elapsed() > SILENCE_MAX => {
                return Err(Trouble::Silent("a sign of life", SILENCE_MAX));
            }
            None => {}
        }
    }
}

fn sum(threads: Vec<thread::ScopedJoinHandle<'_, Answering>>) -> Value {
    let (mut answered, mut cpu, mut busiest) = (0, Duration::ZERO, Duration::ZERO);
    for thread in threads {
        let Ok(one) = thread.join() else { continue };
        answered += one.answered;
        cpu += one.cpu;
        busiest = busiest.max(one.cpu);
    }
    json!({
        "answered": answered,
        "cpu_ns": cpu.as_nanos() as u64,
        "busiest_ns": busiest.as_nanos() as u64,
    })
}

/// As many threads as one test may have.
pub(super) const CONNECTIONS_MAX: u32 = 1000;
const DATA_PATIENCE: Duration = Duration::from_secs(10);
const STALLED_AFTER: Duration = Duration::from_secs(2);
const SILENCE_MAX: Duration = Duration::from_secs(20);
const TICK: Duration = Duration::from_millis(100);
const BREATH: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wishes_have_bounds() {
        let good = json!({"transport": "udp", "request": 8, "response": 65507, "connections": 1000});
        let wish = Wish::parse(&good).unwrap();
        assert_eq!(
            (wish.sizes.request, wish.connections, wish.spins),
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
            assert!(Wish::parse(&bad).is_err(), "{bad}");
        }
        assert!(Wish::parse(&json!([])).is_err());
    }
}

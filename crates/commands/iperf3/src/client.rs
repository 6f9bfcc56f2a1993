//! The client: requests the test, opens the streams, and decides when it ends.

use super::control::{Control, TIMEOUT};
use super::datagram::{HELLO, OLD_WELCOME, WELCOME};
use super::error::Error;
use super::message::{Direction, Parameters, Results, State};
use super::outcome::{Interval, Outcome, Setup};
use super::protocol::COOKIE_LEN;
use super::running_test::RunningTest;
use super::socket::{Woken, await_readable, buffers, canonical, dial, set_ip_options, timespec};
use super::stream::{Stream, StreamOptions};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use sockeye_load::Transport;
use sockeye_load::session::{Connector, Error as SessionError, Stop};
use sockeye_load::stream::HostSnapshot;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant, SystemTime};

/// Parameters of a measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Parameters of the test. A length of 0 is replaced by a default.
    pub parameters: Parameters,
    /// Time between samples.
    pub interval: Duration,
    /// Options of this end.
    pub options: StreamOptions,
}

/// Runs a test against the server at `connector`. Setting `stop` ends it early. `watch` is called with each finished interval.
///
/// # Errors
/// If no data flows. A later error is part of the outcome.
pub fn run(
    connector: &Connector,
    plan: &Plan,
    stop: &Stop,
    watch: &mut dyn FnMut(&Interval),
) -> Result<Outcome, Error> {
    plan.parameters.check().map_err(Error::Declined)?;
    let control = Control::new(connector.connect(stop)?, stop)?;
    let addresses = control.addresses()?;
    let cookie = cookie();
    control.send(cookie.as_bytes())?;
    control.send(&[0])?;
    let mss = sockeye_sys::tcp::max_segment(control.stream()).ok();
    let parameters = plan.parameters.clone().with_length(mss);
    control.expect(State::ParamExchange, "the request for parameters", TIMEOUT)?;
    control.send_json(&parameters.to_json())?;
    control.expect(State::CreateStreams, "the request for streams", TIMEOUT)?;
    let (began, host_before) = (SystemTime::now(), HostSnapshot::now());
    let started = start(plan, &parameters, &control, addresses.1, &cookie);
    let (mut run, buffers) = started.inspect_err(|error| {
        if error.is_interrupted() {
            let _ = control.send_state(State::ClientTerminate);
        }
    })?;
    let results = measure(&mut run, &parameters, &control, watch);
    let setup = Setup {
        parameters,
        is_client: true,
        host: (connector.host.clone(), connector.port),
        control: addresses,
        cookie,
        began,
        mss,
        buffers,
    };
    let mut outcome = run.finish(setup, results);
    outcome.host_work = Some(host_before.since(outcome.moved()));
    Ok(outcome)
}

fn start(
    plan: &Plan,
    parameters: &Parameters,
    control: &Control<'_>,
    address: SocketAddr,
    cookie: &str,
) -> Result<(RunningTest, (u64, u64)), Error> {
    // The streams that the client sends on come first: so the server knows the directions.
    let directions: &[bool] = match parameters.direction {
        Direction::ToServer => &[true],
        Direction::ToClient => &[false],
        Direction::Both => &[true, false],
    };
    let mut streams = Vec::new();
    for &sends in directions {
        for _ in 0..parameters.streams {
            let socket = make_stream(parameters, control.stop(), address, cookie).map_err(|error| {
                // A server that cannot create one reports that on the control connection.
                match control.receive_state("streams", Duration::ZERO) {
                    Err(reason @ (Error::Rejected(..) | Error::ServerTerminated)) => reason,
                    _ => error,
                }
            })?;
            let addresses = addresses(&socket)?;
            streams.push(Stream::new(stream_id(streams.len()), sends, socket, addresses));
        }
    }
    let buffers = streams.first().map_or((0, 0), |stream| buffers(&stream.socket));
    control.expect(State::TestStart, "the start", TIMEOUT)?;
    control.expect(State::TestRunning, "the start", TIMEOUT)?;
    let run = RunningTest::start(streams, parameters, plan.interval, true, plan.options)?;
    Ok((run, buffers))
}

fn make_stream(
    parameters: &Parameters,
    stop: &Stop,
    address: SocketAddr,
    cookie: &str,
) -> Result<OwnedFd, Error> {
    let socket = dial(parameters, address, stop, CONNECT_TIMEOUT)?;
    set_ip_options(&socket, parameters, address.is_ipv6());
    match parameters.protocol {
        Transport::Tcp => {
            let mut bytes = cookie.as_bytes().to_vec();
            bytes.push(0);
            match send(&socket, &bytes, SendFlags::NOSIGNAL) {
                Ok(len) if len == bytes.len() => {}
                Ok(_) => return Err(Error::Stream(Errno::AGAIN)),
                Err(errno) => return Err(Error::Stream(errno)),
            }
        }
        Transport::Udp => say_hello(&socket, stop, address)?,
    }
    Ok(socket)
}

/// Sends the first datagram, from which the server learns our address, and waits for the answer. Repeats it, since both
/// can be lost.
fn say_hello(socket: &OwnedFd, stop: &Stop, address: SocketAddr) -> Result<(), Error> {
    for _ in 0..HELLO_REPEATS {
        match send(socket, &HELLO, SendFlags::NOSIGNAL) {
            Ok(_) | Err(Errno::CONNREFUSED) => {}
            Err(errno) => return Err(Error::Stream(errno)),
        }
        let until = Instant::now() + HELLO_TIMEOUT;
        loop {
            match await_readable(socket, stop, until)? {
                Woken::Stopped => return Err(SessionError::Interrupted.into()),
                Woken::TimedOut => break,
                Woken::Readable => {}
            }
            let mut buffer = [0; 4];
            match recv(socket, &mut buffer, RecvFlags::DONTWAIT) {
                Ok((_, 4)) if is_welcome(buffer) => return Ok(()),
                // Data of a stream that overtook the answer.
                Ok(_) | Err(Errno::AGAIN | Errno::INTR) => {}
                Err(Errno::CONNREFUSED) => return Err(SessionError::Refused(address).into()),
                Err(errno) => return Err(Error::Stream(errno)),
            }
        }
    }
    Err(SessionError::ConnectTimeout(address, HELLO_TIMEOUT * HELLO_REPEATS).into())
}

fn is_welcome(bytes: [u8; 4]) -> bool {
    bytes == WELCOME || [u32::from_le_bytes(bytes), u32::from_be_bytes(bytes)].contains(&OLD_WELCOME)
}

fn measure(
    run: &mut RunningTest,
    parameters: &Parameters,
    control: &Control<'_>,
    watch: &mut dyn FnMut(&Interval),
) -> Result<Results, Error> {
    let ran = move_bytes(run, parameters, control, watch);
    run.end();
    if let Err(error) = ran {
        if matches!(
            error,
            Error::Transport(SessionError::Interrupted) | Error::Stream(_)
        ) {
            let _ = control.send_state(State::ClientTerminate);
        }
        return Err(error);
    }
    control.send_state(State::TestEnd)?;
    control.expect(State::ExchangeResults, "the request for results", END_TIMEOUT)?;
    control.send_json(&run.results(None).to_json())?;
    let theirs = control.receive_json("the server's results")?;
    let theirs =
        Results::from_json(&theirs).ok_or_else(|| Error::malformed("incomplete results".to_owned()))?;
    control.expect(State::DisplayResults, "the end", TIMEOUT)?;
    control.send_state(State::Done)?;
    Ok(theirs)
}

/// Runs until the end of the test.
fn move_bytes(
    run: &mut RunningTest,
    parameters: &Parameters,
    control: &Control<'_>,
    watch: &mut dyn FnMut(&Interval),
) -> Result<(), Error> {
    let (sends, receives) = (
        parameters.direction != Direction::ToClient,
        parameters.direction != Direction::ToServer,
    );
    let mut moved = (0, Instant::now());
    let mut states = 0;
    loop {
        run.sample_watches();
        if let Some(interval) = run.tick() {
            watch(interval);
        }
        if let Some(errno) = run.failure() {
            // A server that closes streams reports the reason on the control connection.
            return match control.receive_state("the reason", Duration::from_millis(200)) {
                Err(reason) if !matches!(reason, Error::Transport(SessionError::Timeout(..))) => Err(reason),
                _ => Err(Error::Stream(errno)),
            };
        }
        let now = Instant::now();
        if run.due().is_some_and(|due| now >= due) {
            return Ok(());
        }
        if !parameters.is_by_time()
            && (!sends || run.traffic.is_sent())
            && (!receives || run.has_received_all())
        {
            run.drain(DRAIN_TIMEOUT);
            return Ok(());
        }
        if run.moved() != moved.0 {
            moved = (run.moved(), now);
        }
        let quiet = now.saturating_duration_since(moved.1);
        // The last datagrams may be lost: silence is the end.
        if parameters.protocol == Transport::Udp
            && !parameters.is_by_time()
            && moved.0 > 0
            && quiet > LOST_TIMEOUT
        {
            return Ok(());
        }
        if quiet > QUIET_TIMEOUT {
            return Err(SessionError::Timeout("data", QUIET_TIMEOUT).into());
        }
        let until = run.next().min(now + POLL_INTERVAL);
        match wait(control, &run.traffic.event, until)? {
            Woken::Stopped => return Err(SessionError::Interrupted.into()),
            Woken::Readable => match control.receive_state("nothing", TIMEOUT)? {
                // No server repeats it.
                State::TestRunning if states < STATES_MAX => states += 1,
                state => {
                    return Err(Error::malformed(format!(
                        "it went to the state {state:?} in the middle of the test"
                    )));
                }
            },
            Woken::TimedOut => {}
        }
    }
}

/// Waits for the control connection (`Readable`) or for an event of the streams.
fn wait(control: &Control<'_>, event: &OwnedFd, until: Instant) -> Result<Woken, Error> {
    if control.stop().is_set() {
        return Ok(Woken::Stopped);
    }
    let left = until.saturating_duration_since(Instant::now());
    let mut polled = [
        PollFd::new(control.stream(), PollFlags::IN),
        PollFd::new(event, PollFlags::IN),
    ];
    match poll(&mut polled, Some(&timespec(left))) {
        Ok(0) | Err(Errno::INTR) => Ok(Woken::TimedOut),
        Ok(_) if !polled[0].revents().is_empty() => Ok(Woken::Readable),
        Ok(_) => {
            // The caller checks all streams after an event.
            let _ = rustix::io::read(event, &mut [0; 8][..]);
            Ok(Woken::TimedOut)
        }
        Err(errno) => Err(SessionError::System("poll", errno).into()),
    }
}

/// Returns the identifier of a stream: iperf3 counts 1, 3, 4, 5 and so on.
pub(super) fn stream_id(index: usize) -> u64 {
    if index == 0 { 1 } else { index as u64 + 2 }
}

pub(super) fn addresses(socket: &OwnedFd) -> Result<(SocketAddr, SocketAddr), Error> {
    let both = || {
        let local = SocketAddr::try_from(rustix::net::getsockname(socket)?);
        let remote = rustix::net::getpeername(socket)?.ok_or(Errno::NOTCONN)?;
        Ok((local?, SocketAddr::try_from(remote)?))
    };
    let (local, remote) = both().map_err(Error::system::<Errno>("ask for a stream's addresses"))?;
    Ok((canonical(local), canonical(remote)))
}

/// Generates an identifier of a test: 36 letters and digits.
fn cookie() -> String {
    let mut letters = String::with_capacity(COOKIE_LEN);
    while letters.len() < COOKIE_LEN - 1 {
        let mut bits = RandomState::new().build_hasher().finish();
        for _ in 0..12 {
            letters.push(char::from(LETTERS[(bits % 32) as usize]));
            bits /= 32;
        }
    }
    letters
}

/// Most messages during a test that change nothing.
const STATES_MAX: u32 = 16;
const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const HELLO_REPEATS: u32 = 3;
const HELLO_TIMEOUT: Duration = Duration::from_secs(3);
/// Long, since queues on the path can be long.
const END_TIMEOUT: Duration = Duration::from_secs(30);
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);
const LOST_TIMEOUT: Duration = Duration::from_secs(2);
/// As iperf3's --rcv-timeout.
const QUIET_TIMEOUT: Duration = Duration::from_secs(120);
/// Interval between two checks for the end.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookie_has_36_letters_and_stream_2_is_skipped() {
        let cookie = cookie();
        assert_eq!(cookie.len(), 36);
        assert!(cookie.bytes().all(|byte| LETTERS.contains(&byte)));
        assert_ne!(cookie, super::cookie());
        let ids: Vec<u64> = (0..4).map(stream_id).collect();
        assert_eq!(ids, [1, 3, 4, 5]);
    }

    #[test]
    fn answers_of_all_versions_are_recognized() {
        assert!(is_welcome(*b"6789"));
        assert!(is_welcome(OLD_WELCOME.to_le_bytes()));
        assert!(is_welcome(OLD_WELCOME.to_be_bytes()));
        assert!(!is_welcome(HELLO));
        assert!(!is_welcome([0; 4]));
    }
}

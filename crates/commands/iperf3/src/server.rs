//! The server: one test at a time; other clients are refused meanwhile.

use super::client::{addresses, stream_id};
use super::control::{Control, TIMEOUT};
use super::datagram::{HELLO, WELCOME};
use super::error::Error;
use super::message::{Direction, Parameters, Results, State};
use super::outcome::{Outcome, Setup};
use super::output::{request_line, result_lines, summary};
use super::places::{Cookie, Place, Places};
use super::protocol::COOKIE_LEN;
use super::refusal::Refusal;
use super::running_test::RunningTest;
use super::socket::{Woken, await_readable, buffers, canonical, make, set_ip_options, set_window};
use super::stream::{Stream, StreamOptions};
use rustix::io::Errno;
use rustix::net::sockopt;
use sockeye_load::Transport;
use sockeye_load::session::{Error as SessionError, Stop};
use sockeye_load::stream::SENT_LENGTH_MIN;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// A server for iperf3's clients, with one test at a time.
#[derive(Debug)]
pub struct Server {
    places: Places,
    /// Longest test.
    time_limit: Duration,
}

type Say<'a> = &'a (dyn Fn(&str) + Sync);

impl Server {
    /// Returns a server whose tests may take this long.
    #[must_use]
    pub fn new(time_limit: Duration) -> Self {
        Self {
            places: Places::default(),
            time_limit,
        }
    }

    /// Returns whether a test with this cookie expects streams.
    #[must_use]
    pub fn has_test(&self, cookie: &[u8]) -> bool {
        self.places.expects_stream(cookie)
    }

    /// Takes a connection as a stream of the test with this cookie. `number` counts connections in the order of their
    /// arrival.
    pub fn stream(&self, number: u64, cookie: &[u8], connection: TcpStream) {
        self.places.add_stream(number, cookie, connection);
    }

    /// Returns the local address of the test that expects this first datagram.
    #[must_use]
    pub fn expects_datagram(&self, bytes: &[u8], from: SocketAddr) -> Option<SocketAddr> {
        if bytes.len() != HELLO.len() {
            return None;
        }
        self.places.expects_datagrams(from)
    }

    /// Takes the socket of a UDP stream, connected to its client, and answers the first datagram with as many bytes.
    pub fn datagrams(&self, from: SocketAddr, socket: UdpSocket) {
        // The client repeats its datagram if this one is lost.
        let _ = socket.send(&WELCOME);
        self.places.add_datagrams(from, socket);
    }

    /// Informs a client that it had to authenticate itself.
    pub fn refuse(&self, connection: TcpStream) {
        let stop = Stop::default();
        if let Ok(control) = Control::new(connection, &stop) {
            let _ = control.send_refusal(Refusal::AUTHENTICATION, None);
        }
    }

    /// Runs the test of a new client, which is over when this returns. `say` logs a line per event. Returns whether this
    /// was a test.
    pub fn test(&self, cookie: &[u8], connection: TcpStream, stop: &Stop, say: Say<'_>) -> bool {
        let Ok(cookie) = Cookie::try_from(cookie) else {
            return false;
        };
        let copy = connection.try_clone();
        let control = Control::new(connection, stop);
        let (Ok(copy), Ok(control)) = (copy, control) else {
            return false;
        };
        let Ok((local, peer)) = control.addresses() else {
            return false;
        };
        let (local, peer) = (canonical(local), canonical(peer));
        let place = self.places.open(cookie, copy, (local, peer));
        if !place.becomes_free() {
            let _ = control.send_state(State::AccessDenied);
            say(&format!(
                "{peer}: another test is running, iperf3's client was refused"
            ));
            return false;
        }
        match try_test(&control, cookie, peer, &place, self.time_limit, say) {
            Ok(Some(outcome)) => {
                for line in result_lines(&outcome) {
                    say(&format!("{peer}: {line}"));
                }
                true
            }
            Ok(None) => false,
            Err(error) => {
                if error.is_interrupted() {
                    let _ = control.send_state(State::ServerTerminate);
                }
                say(&format!("{peer}: {error}"));
                // An invalid request is no test.
                matches!(error, Error::Declined(_))
            }
        }
    }
}

/// Runs a test; `None` if another one began first.
fn try_test(
    control: &Control<'_>,
    cookie: Cookie,
    peer: SocketAddr,
    place: &Place<'_>,
    time_limit: Duration,
    say: Say<'_>,
) -> Result<Option<Outcome>, Error> {
    control.send_state(State::ParamExchange)?;
    let parameters = Parameters::from_json(&control.receive_json("the client's parameters")?);
    let mss = sockeye_sys::tcp::max_segment(control.stream()).ok();
    let parameters = parameters.map(|parameters| parameters.with_length(mss));
    let parameters = match parameters {
        Ok(parameters) => parameters,
        Err(refusal) => return Err(refuse(control, refusal, None)),
    };
    let seconds = parameters.time_s.saturating_add(parameters.omit_s);
    if Duration::from_secs(seconds) > time_limit {
        return Err(refuse(control, Refusal::SERVER_DURATION, None));
    }
    check_window(control, &parameters)?;
    let count = stream_count(&parameters);
    let sockets = match parameters.protocol {
        Transport::Tcp => {
            let streams = place.expect_streams(count);
            say(&format!("{peer}: {}", request_line(&parameters)));
            control.send_state(State::CreateStreams)?;
            accept_streams(control, &streams, count)?
        }
        Transport::Udp => {
            let Some(datagrams) = place.expect_datagrams(count) else {
                return deny(control);
            };
            say(&format!("{peer}: {}", request_line(&parameters)));
            control.send_state(State::CreateStreams)?;
            accept_datagram_streams(control, &parameters, &datagrams, count)?
        }
    };
    if !place.begin() {
        return deny(control);
    }
    run(control, cookie, &parameters, sockets, place, time_limit).map(Some)
}

/// Informs the client that another test runs.
fn deny(control: &Control<'_>) -> Result<Option<Outcome>, Error> {
    control.send_state(State::AccessDenied)?;
    Ok(None)
}

fn run(
    control: &Control<'_>,
    cookie: Cookie,
    parameters: &Parameters,
    sockets: Vec<OwnedFd>,
    place: &Place<'_>,
    time_limit: Duration,
) -> Result<Outcome, Error> {
    let began = SystemTime::now();
    let mut streams = Vec::new();
    for (index, socket) in sockets.into_iter().enumerate() {
        let addresses = addresses(&socket)?;
        set_up(control, &socket, parameters, addresses.0.is_ipv6())?;
        // The client opens its sending streams first.
        let sends = match parameters.direction {
            Direction::ToServer => false,
            Direction::ToClient => true,
            Direction::Both => index >= parameters.streams as usize,
        };
        streams.push(Stream::new(stream_id(index), sends, socket, addresses));
    }
    let buffers = streams.first().map_or((0, 0), |stream| buffers(&stream.socket));
    control.send_state(State::TestStart)?;
    // The client decides when enough was sent. TCP delivers all bytes, so the number of sent bytes can be limited.
    let is_bounded = parameters.protocol == Transport::Tcp;
    let options = StreamOptions {
        processor: parameters
            .server_processor
            .and_then(|processor| usize::try_from(processor).ok()),
        skips_copy: false,
        // Short ones cost much, and a client that never reads nothing.
        write_min: SENT_LENGTH_MIN,
    };
    let mut run = RunningTest::start(streams, parameters, INTERVAL, is_bounded, options)?;
    control.send_state(State::TestRunning)?;
    let results = measure(&mut run, parameters, control, place, time_limit);
    let setup = Setup {
        parameters: parameters.clone(),
        is_client: false,
        host: (String::new(), 0),
        control: control.addresses()?,
        cookie: String::from_utf8_lossy(&cookie[..COOKIE_LEN - 1]).into_owned(),
        began,
        mss: None,
        buffers,
    };
    let outcome = run.finish(setup, results);
    if outcome.error.as_ref().is_some_and(Error::is_interrupted) {
        let _ = control.send_state(State::ServerTerminate);
    }
    Ok(outcome)
}

fn stream_count(parameters: &Parameters) -> usize {
    let directions = if parameters.direction == Direction::Both {
        2
    } else {
        1
    };
    parameters.streams as usize * directions
}

/// Sends a refusal to the client, and returns it as an error.
fn refuse(control: &Control<'_>, refusal: Refusal, errno: Option<Errno>) -> Error {
    match control.send_refusal(refusal, errno) {
        Ok(()) => Error::Declined(refusal),
        Err(error) => error,
    }
}

/// Checks the socket buffers before streams are created: later iperf3 does not expect a refusal.
fn check_window(control: &Control<'_>, parameters: &Parameters) -> Result<(), Error> {
    if parameters.window > 0 {
        let probe = make(parameters.protocol, false)?;
        set_window(&probe, parameters.window)
            .map_err(|errno| refuse(control, Refusal::WINDOW_NOT_SET, Some(errno)))?;
    }
    Ok(())
}

/// Waits for the TCP streams, which are identified by the cookie.
fn accept_streams(
    control: &Control<'_>,
    arrivals: &Receiver<(u64, TcpStream)>,
    count: usize,
) -> Result<Vec<OwnedFd>, Error> {
    let until = Instant::now() + STREAMS_TIMEOUT;
    let mut accepted = Vec::new();
    while accepted.len() < count {
        match arrivals.recv_timeout(POLL_INTERVAL) {
            Ok(stream) => accepted.push(stream),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(SessionError::Evicted.into()),
        }
        await_more(control, until)?;
    }
    accepted.sort_by_key(|(number, _)| *number);
    Ok(accepted
        .into_iter()
        .map(|(_, stream)| OwnedFd::from(stream))
        .collect())
}

/// Fails if waiting for more streams is useless.
fn await_more(control: &Control<'_>, until: Instant) -> Result<(), Error> {
    match await_readable(control.stream(), control.stop(), Instant::now())? {
        Woken::TimedOut if Instant::now() < until => Ok(()),
        Woken::TimedOut => Err(SessionError::Timeout("streams", STREAMS_TIMEOUT).into()),
        Woken::Stopped => Err(SessionError::Interrupted.into()),
        Woken::Readable => Err(match control.receive_state("streams", TIMEOUT) {
            Ok(state) => Error::malformed(format!(
                "it went to the state {state:?} while streams were expected"
            )),
            Err(error) => error,
        }),
    }
}

/// Waits for the UDP streams, each a socket that is connected to the client.
fn accept_datagram_streams(
    control: &Control<'_>,
    parameters: &Parameters,
    arrivals: &Receiver<UdpSocket>,
    count: usize,
) -> Result<Vec<OwnedFd>, Error> {
    let until = Instant::now() + STREAMS_TIMEOUT;
    let mut sockets = Vec::new();
    while sockets.len() < count {
        match arrivals.recv_timeout(POLL_INTERVAL) {
            Ok(socket) => {
                if parameters.window > 0 {
                    set_window(&socket, parameters.window)
                        .map_err(Error::system("set the socket buffers"))?;
                }
                sockets.push(OwnedFd::from(socket));
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(SessionError::Evicted.into()),
        }
        await_more(control, until)?;
    }
    Ok(sockets)
}

/// Sets the options that the client requested for a stream.
fn set_up(
    control: &Control<'_>,
    socket: &OwnedFd,
    parameters: &Parameters,
    is_v6: bool,
) -> Result<(), Error> {
    if parameters.protocol == Transport::Tcp {
        if parameters.window > 0 {
            let set = set_window(socket, parameters.window);
            set.map_err(|errno| refuse(control, Refusal::WINDOW_NOT_SET, Some(errno)))?;
        }
        if let Some(name) = &parameters.congestion {
            match sockopt::set_tcp_congestion(socket, name) {
                // The ends can have different ones; the results name the used one.
                Ok(()) | Err(Errno::NOENT) => {}
                Err(errno) => return Err(refuse(control, Refusal::CONGESTION, Some(errno))),
            }
        }
        let _ = sockopt::set_tcp_nodelay(socket, parameters.no_delay);
    }
    set_ip_options(socket, parameters, is_v6);
    Ok(())
}

fn measure(
    run: &mut RunningTest,
    parameters: &Parameters,
    control: &Control<'_>,
    place: &Place<'_>,
    time_limit: Duration,
) -> Result<Results, Error> {
    await_end(run, parameters, control, place, time_limit).inspect_err(|_| run.end())?;
    if !parameters.is_by_time()
        && parameters.protocol == Transport::Tcp
        && parameters.direction == Direction::ToServer
    {
        await_rest(run);
    }
    run.end();
    run.close_senders();
    place.has_moved_all();
    control.send_state(State::ExchangeResults)?;
    let theirs = control.receive_json("the client's results")?;
    let theirs =
        Results::from_json(&theirs).ok_or_else(|| Error::malformed("incomplete results".to_owned()))?;
    let output = parameters.server_output.then(|| summary(&run.intervals));
    control.send_json(&run.results(output).to_json())?;
    control.send_state(State::DisplayResults)?;
    // The client may send a state or close; both are fine.
    let _ = control.receive_state("the end", TIMEOUT);
    Ok(theirs)
}

/// Waits until the client ends the test.
fn await_end(
    run: &mut RunningTest,
    parameters: &Parameters,
    control: &Control<'_>,
    place: &Place<'_>,
    time_limit: Duration,
) -> Result<(), Error> {
    let began = Instant::now();
    let longest = run.due().map(|due| due + GRACE);
    let mut overdue = run.due().map(|due| due + LATE);
    let mut moved = (0, began);
    let mut states = 0;
    loop {
        run.tick();
        place.progress(run.moved());
        let now = Instant::now();
        if run.moved() != moved.0 {
            moved = (run.moved(), now);
        }
        if overdue.take_if(|overdue| now > *overdue).is_some() {
            run.end_sending();
            place.set_overdue();
        }
        if longest.is_some_and(|longest| now > longest)
            || now.saturating_duration_since(moved.1) > QUIET_TIMEOUT
        {
            return Err(
                SessionError::Timeout("the end of the test", now.saturating_duration_since(moved.1)).into(),
            );
        }
        if now > began + time_limit + REST_TIMEOUT {
            return Err(SessionError::TooLong(time_limit).into());
        }
        // After the requested time, only the client's message counts.
        let next = run
            .next()
            .max(now + Duration::from_millis(1))
            .min(now + PROGRESS_INTERVAL);
        match await_readable(control.stream(), control.stop(), next)? {
            Woken::TimedOut => {}
            Woken::Stopped => return Err(SessionError::Interrupted.into()),
            Woken::Readable => match control.receive_state("the end of the test", TIMEOUT)? {
                State::TestEnd => return Ok(()),
                // No client repeats them.
                State::TestStart | State::TestRunning if states < STATES_MAX => states += 1,
                state => {
                    return Err(Error::malformed(format!(
                        "it went to the state {state:?} in the middle of the test ({:?})",
                        parameters.direction
                    )));
                }
            },
        }
    }
}

/// Waits for data in flight: the client's end message arrives on another connection.
fn await_rest(run: &RunningTest) {
    let until = Instant::now() + REST_TIMEOUT;
    let mut last = (run.moved(), Instant::now());
    while !run.has_received_all() && Instant::now() < until && last.1.elapsed() < REST_QUIET {
        thread::sleep(Duration::from_millis(1));
        if run.moved() != last.0 {
            last = (run.moved(), Instant::now());
        }
    }
}

/// Most messages during a test that change nothing.
const STATES_MAX: u32 = 16;
const INTERVAL: Duration = Duration::from_secs(1);
const STREAMS_TIMEOUT: Duration = Duration::from_secs(30);
/// Interval between two looks at what has moved: a test that moves nothing makes room for others.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Time that iperf3 waits after the end: ten messages of 4 s.
const GRACE: Duration = Duration::from_secs(40);
/// How late the end of a client may come: its clock begins after ours, and what it says waits behind what it sends. After that its test is sent
/// nothing more, and makes room for the next one.
const LATE: Duration = Duration::from_secs(2);
const QUIET_TIMEOUT: Duration = Duration::from_secs(120);
const REST_TIMEOUT: Duration = Duration::from_secs(5);
const REST_QUIET: Duration = Duration::from_millis(100);

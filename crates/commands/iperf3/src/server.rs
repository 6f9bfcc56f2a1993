//! The server: one test at a time; other clients are refused meanwhile.

use super::client::{addresses, stream_id};
use super::control::{Control, TIMEOUT};
use super::datagram::WELCOME;
use super::error::Error;
use super::message::{Direction, Parameters, Results, State};
use super::outcome::{Outcome, Setup};
use super::output::{request_line, result_lines, summary};
use super::protocol::COOKIE_LEN;
use super::refusal::Refusal;
use super::running_test::RunningTest;
use super::socket::{Woken, await_readable, buffers, canonical, make, set_ip_options, set_window};
use super::stream::{Stream, StreamOptions};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, bind, connect, recvfrom, send, sockopt};
use sockeye_load::Transport;
use sockeye_load::session::{Error as SessionError, Stop};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// A server for iperf3's clients, with one test at a time.
#[derive(Debug, Default)]
pub struct Server {
    /// The running test.
    active: Mutex<Option<Active>>,
}

/// The cookie of a test, and the channel to pass its streams to.
type Active = (Cookie, SyncSender<(u64, TcpStream)>);
type Cookie = [u8; COOKIE_LEN];
type Say<'a> = &'a (dyn Fn(&str) + Sync);

impl Server {
    /// Handles a new connection: a stream of the running test, or a new test, which is over when this returns. `number` counts
    /// connections in the order of their arrival. `say` logs a line per event. Returns whether this was a test.
    pub fn receive(&self, number: u64, stream: TcpStream, stop: &Stop, say: Say<'_>) -> bool {
        let Ok(peer) = stream.peer_addr().map(canonical) else {
            return false;
        };
        let received = Control::new(stream, stop).and_then(|control| {
            let mut cookie = [0; COOKIE_LEN];
            control.receive(&mut cookie, "iperf3's cookie", TIMEOUT)?;
            Ok((control, cookie))
        });
        let (control, cookie) = match received {
            Ok(received) => received,
            // Port scanners and health checks are not logged.
            Err(Error::Transport(SessionError::Disconnected(_) | SessionError::Interrupted)) => return false,
            Err(error) => {
                say(&format!("{peer}: {error}"));
                return false;
            }
        };
        if let Some((known, streams)) = &*self.active()
            && *known == cookie
        {
            // Surplus streams are closed.
            let _ = streams.try_send((number, control.into_stream()));
            return false;
        }
        if !self.becomes_free() {
            let _ = control.send_state(State::AccessDenied);
            say(&format!(
                "{peer}: another test is running, iperf3's client was refused"
            ));
            return false;
        }
        self.test(&control, cookie, peer, say)
    }

    fn active(&self) -> MutexGuard<'_, Option<Active>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits a moment until no test is running, since a test ends a little later here than at its client. Returns whether
    /// there is none.
    fn becomes_free(&self) -> bool {
        let until = Instant::now() + BUSY_TIMEOUT;
        loop {
            let is_free = self.active().is_none();
            if is_free || Instant::now() >= until {
                return is_free;
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// Runs a test, and logs it.
    fn test(&self, control: &Control<'_>, cookie: Cookie, peer: SocketAddr, say: Say<'_>) -> bool {
        match self.try_test(control, cookie, peer, say) {
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

    /// Runs a test; `None` if another one began first.
    fn try_test(
        &self,
        control: &Control<'_>,
        cookie: Cookie,
        peer: SocketAddr,
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
        let (sender, streams) = sync_channel(2 * parameters.streams as usize);
        {
            let mut active = self.active();
            if active.is_some() {
                let _ = control.send_state(State::AccessDenied);
                return Ok(None);
            }
            *active = Some((cookie, sender));
        }
        let _guard = ActiveGuard(&self.active);
        say(&format!("{peer}: {}", request_line(&parameters)));
        run(control, cookie, &parameters, &streams).map(Some)
    }
}

fn run(
    control: &Control<'_>,
    cookie: Cookie,
    parameters: &Parameters,
    arrivals: &Receiver<(u64, TcpStream)>,
) -> Result<Outcome, Error> {
    let began = SystemTime::now();
    let count = stream_count(parameters);
    let sockets = match parameters.protocol {
        Transport::Tcp => {
            check_window(control, parameters)?;
            control.send_state(State::CreateStreams)?;
            accept_streams(control, arrivals, count)?
        }
        Transport::Udp => accept_datagram_streams(control, parameters, count)?,
    };
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
    };
    let mut run = RunningTest::start(streams, parameters, INTERVAL, is_bounded, options)?;
    control.send_state(State::TestRunning)?;
    let results = measure(&mut run, parameters, control);
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

/// Marks the server as free when dropped.
struct ActiveGuard<'a>(&'a Mutex<Option<Active>>);

impl Drop for ActiveGuard<'_> {
    fn drop(&mut self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

fn stream_count(parameters: &Parameters) -> usize {
    let directions = 1 + usize::from(parameters.direction == Direction::Both);
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
            Err(RecvTimeoutError::Disconnected) => return Err(SessionError::Disconnected(None).into()),
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

/// Waits for the first datagrams of the UDP streams. Each gets a socket on the same port. The next socket exists before the
/// answer to the client, which continues as soon as it has that.
fn accept_datagram_streams(
    control: &Control<'_>,
    parameters: &Parameters,
    count: usize,
) -> Result<Vec<OwnedFd>, Error> {
    let (local, peer) = control.addresses()?;
    let (local, peer) = (canonical(local), canonical(peer));
    let new_socket = || -> Result<OwnedFd, Errno> {
        let socket = make(Transport::Udp, local.is_ipv6()).map_err(|error| match error {
            SessionError::System(_, errno) => errno,
            _ => Errno::IO,
        })?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        if parameters.window > 0 {
            set_window(&socket, parameters.window)?;
        }
        bind(&socket, &local)?;
        Ok(socket)
    };
    check_window(control, parameters)?;
    let mut open = new_socket().map_err(|errno| refuse(control, Refusal::LISTEN, Some(errno)))?;
    control.send_state(State::CreateStreams)?;
    let until = Instant::now() + STREAMS_TIMEOUT;
    let mut sockets = Vec::new();
    while sockets.len() < count {
        await_more(control, until)?;
        if await_readable(&open, control.stop(), Instant::now() + POLL_INTERVAL)? != Woken::Readable {
            continue;
        }
        let mut buffer = [0; 8];
        let Ok((_, len, Some(from))) = recvfrom(&open, &mut buffer, RecvFlags::DONTWAIT) else {
            continue;
        };
        // Only from the address of the client, and only of the right length.
        let Ok(from) = SocketAddr::try_from(from) else {
            continue;
        };
        if from.ip() != peer.ip() || len != 4 {
            continue;
        }
        connect(&open, &from).map_err(Error::system("connect a stream"))?;
        // No further socket after the last one, so that datagrams of the next client do not get lost there.
        let next = if sockets.len() + 1 < count {
            Some(new_socket().map_err(Error::system("listen for the next stream"))?)
        } else {
            None
        };
        send(&open, &WELCOME, SendFlags::NOSIGNAL).map_err(Error::system("answer the first datagram"))?;
        match next {
            Some(next) => sockets.push(std::mem::replace(&mut open, next)),
            None => {
                sockets.push(open);
                return Ok(sockets);
            }
        }
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

fn measure(run: &mut RunningTest, parameters: &Parameters, control: &Control<'_>) -> Result<Results, Error> {
    await_end(run, parameters, control).inspect_err(|_| run.end())?;
    if !parameters.is_by_time()
        && parameters.protocol == Transport::Tcp
        && parameters.direction == Direction::ToServer
    {
        await_rest(run);
    }
    run.end();
    run.close_senders();
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
fn await_end(run: &mut RunningTest, parameters: &Parameters, control: &Control<'_>) -> Result<(), Error> {
    let longest = run.due().map(|due| due + GRACE);
    let mut moved = (0, Instant::now());
    loop {
        run.tick();
        let now = Instant::now();
        if run.moved() != moved.0 {
            moved = (run.moved(), now);
        }
        if longest.is_some_and(|longest| now > longest)
            || now.saturating_duration_since(moved.1) > QUIET_TIMEOUT
        {
            return Err(
                SessionError::Timeout("the end of the test", now.saturating_duration_since(moved.1)).into(),
            );
        }
        // After the requested time, only the client's message counts.
        let next = run
            .next()
            .max(now + Duration::from_millis(1))
            .min(now + Duration::from_secs(1));
        match await_readable(control.stream(), control.stop(), next)? {
            Woken::TimedOut => {}
            Woken::Stopped => return Err(SessionError::Interrupted.into()),
            Woken::Readable => match control.receive_state("the end of the test", TIMEOUT)? {
                State::TestEnd => return Ok(()),
                State::TestStart | State::TestRunning => {}
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

const INTERVAL: Duration = Duration::from_secs(1);
const STREAMS_TIMEOUT: Duration = Duration::from_secs(30);
const BUSY_TIMEOUT: Duration = Duration::from_millis(500);
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Time that iperf3 waits after the end: ten messages of 4 s.
const GRACE: Duration = Duration::from_secs(40);
const QUIET_TIMEOUT: Duration = Duration::from_secs(120);
const REST_TIMEOUT: Duration = Duration::from_secs(5);
const REST_QUIET: Duration = Duration::from_millis(100);

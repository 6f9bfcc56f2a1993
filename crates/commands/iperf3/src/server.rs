//! The server: one test at a time, whoever comes meanwhile is told so.

use super::client::{addresses, stream_id};
use super::control::{Control, PATIENCE};
use super::datagram::WELCOME;
use super::lane::{Lane, Manner};
use super::message::{Results, State, Wishes};
use super::outcome::{Outcome, StreamOutcome};
use super::refusal::Refusal;
use super::run::Run;
use super::sockets::{Woken, await_readable, buffers, make, plain, set_after, set_window};
use super::trouble::Trouble;
use super::{COOKIE_LEN, LENGTH, Protocol, Toward};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, bind, connect, recvfrom, send, sockopt};
use sockeye_load::session::Stop;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// Where iperf3's clients are received: one test at a time.
#[derive(Debug, Default)]
pub struct Desk {
    /// The test that is running.
    active: Mutex<Option<Active>>,
}

/// A test's cookie, and where its streams are wanted.
type Active = (Cookie, SyncSender<(u64, TcpStream)>);
type Cookie = [u8; COOKIE_LEN];
type Say<'a> = &'a (dyn Fn(&str) + Sync);

impl Desk {
    /// Takes a connection, of which nothing has been read, and finds out what it is: a stream of the test that is running,
    /// or a new test, which is over when this returns. `number` says in which order connections came. Says a line for
    /// whatever happens; true: this was a test.
    pub fn receive(&self, number: u64, stream: TcpStream, stop: &Stop, say: Say<'_>) -> bool {
        let Ok(peer) = stream.peer_addr().map(plain) else {
            return false;
        };
        let met = Control::new(stream, stop).and_then(|control| {
            let mut cookie = [0; COOKIE_LEN];
            control.receive(&mut cookie, "iperf3's cookie", PATIENCE)?;
            Ok((control, cookie))
        });
        let (control, cookie) = match met {
            Ok(met) => met,
            // Port scanners and health checks are nobody's business.
            Err(Trouble::Gone(_) | Trouble::Stopped) => return false,
            Err(trouble) => {
                say(&format!("{peer}: {trouble}"));
                return false;
            }
        };
        if let Some((known, streams)) = &*self.active()
            && *known == cookie
        {
            // Whoever sends too many loses them.
            let _ = streams.try_send((number, control.into_stream()));
            return false;
        }
        if !self.becomes_free() {
            let _ = control.send_state(State::AccessDenied);
            say(&format!(
                "{peer}: another test is running, iperf3's client was told so"
            ));
            return false;
        }
        self.test(&control, cookie, peer, say)
    }

    fn active(&self) -> MutexGuard<'_, Option<Active>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether no test is running. One that is over for its client needs a moment more here: whoever starts the next one at
    /// once is not sent away.
    fn becomes_free(&self) -> bool {
        let until = Instant::now() + BUSY_PATIENCE;
        loop {
            let is_free = self.active().is_none();
            if is_free || Instant::now() >= until {
                return is_free;
            }
            thread::sleep(TURN);
        }
    }

    /// One test, from its parameters to its end.
    fn test(&self, control: &Control<'_>, cookie: Cookie, peer: SocketAddr, say: Say<'_>) -> bool {
        match self.try_test(control, cookie, peer, say) {
            Ok(Some(outcome)) => {
                for line in ended(&outcome) {
                    say(&format!("{peer}: {line}"));
                }
                true
            }
            Ok(None) => false,
            Err(trouble) => {
                if matches!(trouble, Trouble::Stopped) {
                    let _ = control.send_state(State::ServerTerminate);
                }
                say(&format!("{peer}: {trouble}"));
                // Rubbish is no test.
                matches!(trouble, Trouble::Declined(_))
            }
        }
    }

    /// None: somebody else was faster.
    fn try_test(
        &self,
        control: &Control<'_>,
        cookie: Cookie,
        peer: SocketAddr,
        say: Say<'_>,
    ) -> Result<Option<Outcome>, Trouble> {
        control.send_state(State::ParamExchange)?;
        let wishes = Wishes::from_json(&control.receive_json("the client's parameters")?);
        let wishes = wishes.and_then(|wishes| with_length(wishes, control));
        let wishes = match wishes {
            Ok(wishes) => wishes,
            Err(refusal) => return Err(decline(control, refusal, None)),
        };
        let (sender, streams) = sync_channel(2 * wishes.streams as usize);
        {
            let mut active = self.active();
            if active.is_some() {
                let _ = control.send_state(State::AccessDenied);
                return Ok(None);
            }
            *active = Some((cookie, sender));
        }
        let _place = Place(&self.active);
        say(&format!("{peer}: {}", wished(&wishes)));
        run(control, cookie, &wishes, &streams).map(Some)
    }
}

fn run(
    control: &Control<'_>,
    cookie: Cookie,
    wishes: &Wishes,
    streams: &Receiver<(u64, TcpStream)>,
) -> Result<Outcome, Trouble> {
    let began = SystemTime::now();
    let count = streams_wanted(wishes);
    let sockets = match wishes.protocol {
        Protocol::Tcp => {
            check_window(control, wishes)?;
            control.send_state(State::CreateStreams)?;
            accept_streams(control, streams, count)?
        }
        Protocol::Udp => accept_greetings(control, wishes, count)?,
    };
    let mut lanes = Vec::new();
    for (index, socket) in sockets.into_iter().enumerate() {
        let addresses = addresses(&socket)?;
        set_up(control, &socket, wishes, addresses.0.is_ipv6())?;
        // The client made those first that it sends on.
        let sends = match wishes.toward {
            Toward::Server => false,
            Toward::Client => true,
            Toward::Both => index >= wishes.streams as usize,
        };
        lanes.push(Lane::new(stream_id(index), sends, socket, addresses));
    }
    let buffers = lanes.first().map_or((0, 0), |lane| buffers(&lane.socket));
    control.send_state(State::TestStart)?;
    // The client decides when enough was sent. Bytes that TCP carries all arrive: more than those need not be sent.
    let is_bounded = wishes.protocol == Protocol::Tcp;
    let manner = Manner {
        processor: wishes
            .server_processor
            .and_then(|processor| usize::try_from(processor).ok()),
        skips_copy: false,
    };
    let mut run = Run::start(lanes, wishes, INTERVAL, is_bounded, manner)?;
    control.send_state(State::TestRunning)?;
    let measured = measure(&mut run, wishes, control);
    let mut outcome = Outcome {
        wishes: wishes.clone(),
        is_client: false,
        host: (String::new(), 0),
        control: control.addresses()?,
        cookie: String::from_utf8_lossy(&cookie[..COOKIE_LEN - 1]).into_owned(),
        began,
        mss: None,
        buffers,
        intervals: Vec::new(),
        streams: Vec::new(),
        seconds: 0.0,
        processor: run.processor(),
        peer_processor: None,
        congestion: run.congestion(),
        peer_congestion: None,
        peer_tells_retransmits: false,
        surroundings: None,
        trouble: None,
    };
    (outcome.streams, outcome.intervals, outcome.seconds) = run.finish();
    match measured {
        Ok(theirs) => outcome.take(&theirs),
        Err(trouble) => {
            if matches!(trouble, Trouble::Stopped) {
                let _ = control.send_state(State::ServerTerminate);
            }
            outcome.trouble = Some(trouble);
        }
    }
    Ok(outcome)
}

/// A server is free again, whatever happened.
struct Place<'a>(&'a Mutex<Option<Active>>);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// What a client leaves to us.
fn with_length(mut wishes: Wishes, control: &Control<'_>) -> Result<Wishes, Refusal> {
    if wishes.length == 0 {
        wishes.length = match wishes.protocol {
            Protocol::Tcp => LENGTH,
            Protocol::Udp => sockeye_sys::tcp::max_segment(control.stream()).map_or(DATAGRAM, u64::from),
        };
    }
    wishes.check()?;
    Ok(wishes)
}

fn streams_wanted(wishes: &Wishes) -> usize {
    let directions = if wishes.toward == Toward::Both { 2 } else { 1 };
    wishes.streams as usize * directions
}

/// Says so to the client, and what it was to ourselves.
fn decline(control: &Control<'_>, refusal: Refusal, errno: Option<Errno>) -> Trouble {
    match control.send_refusal(refusal, errno) {
        Ok(()) => Trouble::Declined(refusal),
        Err(trouble) => trouble,
    }
}

/// Before streams are made: afterwards iperf3 would not understand.
fn check_window(control: &Control<'_>, wishes: &Wishes) -> Result<(), Trouble> {
    if wishes.window > 0 {
        let probe = make(wishes.protocol, false)?;
        set_window(&probe, wishes.window)
            .map_err(|errno| decline(control, Refusal::WINDOW_NOT_SET, Some(errno)))?;
    }
    Ok(())
}

/// Each brought the cookie.
fn accept_streams(
    control: &Control<'_>,
    streams: &Receiver<(u64, TcpStream)>,
    count: usize,
) -> Result<Vec<OwnedFd>, Trouble> {
    let until = Instant::now() + STREAMS_PATIENCE;
    let mut come = Vec::new();
    while come.len() < count {
        match streams.recv_timeout(TURN) {
            Ok(stream) => come.push(stream),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(Trouble::Gone(None)),
        }
        await_more(control, until)?;
    }
    come.sort_by_key(|(number, _)| *number);
    Ok(come
        .into_iter()
        .map(|(_, stream)| OwnedFd::from(stream))
        .collect())
}

/// Fails if there is no reason to wait for streams any more.
fn await_more(control: &Control<'_>, until: Instant) -> Result<(), Trouble> {
    match await_readable(control.stream(), control.stop(), Instant::now())? {
        Woken::Late if Instant::now() < until => Ok(()),
        Woken::Late => Err(Trouble::Silent("streams", STREAMS_PATIENCE)),
        Woken::Stopped => Err(Trouble::Stopped),
        Woken::Readable => Err(match control.receive_state("streams", PATIENCE) {
            Ok(state) => Trouble::Nonsense(format!(
                "it went to the state {state:?} while streams were expected"
            )),
            Err(trouble) => trouble,
        }),
    }
}

/// A UDP socket for each greeting, all of the same port: the next one is there before the answer, since the client greets
/// again as soon as it has that.
fn accept_greetings(control: &Control<'_>, wishes: &Wishes, count: usize) -> Result<Vec<OwnedFd>, Trouble> {
    let (local, peer) = control.addresses()?;
    let (local, peer) = (plain(local), plain(peer));
    let door = || -> Result<OwnedFd, Errno> {
        let socket = make(Protocol::Udp, local.is_ipv6()).map_err(|trouble| match trouble {
            Trouble::System(_, errno) => errno,
            _ => Errno::IO,
        })?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        if wishes.window > 0 {
            set_window(&socket, wishes.window)?;
        }
        bind(&socket, &local)?;
        Ok(socket)
    };
    check_window(control, wishes)?;
    let mut open = door().map_err(|errno| decline(control, Refusal::LISTEN, Some(errno)))?;
    control.send_state(State::CreateStreams)?;
    let until = Instant::now() + STREAMS_PATIENCE;
    let mut sockets = Vec::new();
    while sockets.len() < count {
        await_more(control, until)?;
        if await_readable(&open, control.stop(), Instant::now() + TURN)? != Woken::Readable {
            continue;
        }
        let mut room = [0; 8];
        let Ok((_, len, Some(from))) = recvfrom(&open, &mut room, RecvFlags::DONTWAIT) else {
            continue;
        };
        // Only from where the test comes from, and only what is as long as a greeting.
        let Ok(from) = SocketAddr::try_from(from) else {
            continue;
        };
        if from.ip() != peer.ip() || len != 4 {
            continue;
        }
        connect(&open, &from).map_err(|errno| Trouble::System("connect a stream", errno))?;
        // The last one leaves the port, so that the next client does not greet a door that nobody looks after.
        let next = if sockets.len() + 1 < count {
            Some(door().map_err(|errno| Trouble::System("listen for the next stream", errno))?)
        } else {
            None
        };
        send(&open, &WELCOME, SendFlags::NOSIGNAL)
            .map_err(|errno| Trouble::System("answer a greeting", errno))?;
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

/// What the client wished of a stream that it made.
fn set_up(control: &Control<'_>, socket: &OwnedFd, wishes: &Wishes, is_v6: bool) -> Result<(), Trouble> {
    if wishes.protocol == Protocol::Tcp {
        if wishes.window > 0 {
            let set = set_window(socket, wishes.window);
            set.map_err(|errno| decline(control, Refusal::WINDOW_NOT_SET, Some(errno)))?;
        }
        if let Some(name) = &wishes.congestion {
            match sockopt::set_tcp_congestion(socket, name) {
                // The ends need not have the same ones; results tell which was used.
                Ok(()) | Err(Errno::NOENT) => {}
                Err(errno) => return Err(decline(control, Refusal::CONGESTION, Some(errno))),
            }
        }
        let _ = sockopt::set_tcp_nodelay(socket, wishes.no_delay);
    }
    set_after(socket, wishes, is_v6);
    Ok(())
}

fn measure(run: &mut Run, wishes: &Wishes, control: &Control<'_>) -> Result<Results, Trouble> {
    await_end(run, wishes, control).inspect_err(|_| run.end())?;
    if !wishes.is_by_time() && wishes.protocol == Protocol::Tcp && wishes.toward == Toward::Server {
        await_rest(run);
    }
    run.end();
    run.hang_up();
    control.send_state(State::ExchangeResults)?;
    let theirs = control.receive_json("the client's results")?;
    let theirs = Results::from_json(&theirs)
        .ok_or_else(|| Trouble::Nonsense("results in which something is missing".to_owned()))?;
    let output = wishes.server_output.then(|| summary(run));
    control.send_json(&run.results(output).to_json())?;
    control.send_state(State::DisplayResults)?;
    // That it shows them is its own affair: whether it says so or closes.
    let _ = control.receive_state("the end", PATIENCE);
    Ok(theirs)
}

/// Until the client says that it is over.
fn await_end(run: &mut Run, wishes: &Wishes, control: &Control<'_>) -> Result<(), Trouble> {
    let longest = run.due().map(|due| due + GRACE);
    let mut moved = (0, Instant::now());
    loop {
        run.tick();
        let now = Instant::now();
        if run.moved() != moved.0 {
            moved = (run.moved(), now);
        }
        if longest.is_some_and(|longest| now > longest)
            || now.saturating_duration_since(moved.1) > QUIET_PATIENCE
        {
            return Err(Trouble::Silent(
                "the end of the test",
                now.saturating_duration_since(moved.1),
            ));
        }
        // After what it wished for, the client's word is all that is waited for.
        let next = run
            .next()
            .max(now + Duration::from_millis(1))
            .min(now + Duration::from_secs(1));
        match await_readable(control.stream(), control.stop(), next)? {
            Woken::Late => {}
            Woken::Stopped => return Err(Trouble::Stopped),
            Woken::Readable => match control.receive_state("the end of the test", PATIENCE)? {
                State::TestEnd => return Ok(()),
                State::TestStart | State::TestRunning => {}
                state => {
                    return Err(Trouble::Nonsense(format!(
                        "it went to the state {state:?} in the middle of the test ({:?})",
                        wishes.toward
                    )));
                }
            },
        }
    }
}

/// The client has sent all; what is on its way comes on other connections than the word that it is over.
fn await_rest(run: &Run) {
    let until = Instant::now() + REST_PATIENCE;
    let mut last = (run.moved(), Instant::now());
    while !run.has_received_all() && Instant::now() < until && last.1.elapsed() < REST_QUIET {
        thread::sleep(Duration::from_millis(1));
        if run.moved() != last.0 {
            last = (run.moved(), Instant::now());
        }
    }
}

/// What is asked for.
fn wished(wishes: &Wishes) -> String {
    let protocol = match wishes.protocol {
        Protocol::Tcp => "TCP",
        Protocol::Udp => "UDP",
    };
    let direction = match wishes.toward {
        Toward::Server => "receiving",
        Toward::Client => "sending",
        Toward::Both => "both directions",
    };
    let until = match (wishes.bytes, wishes.blocks, wishes.time_s) {
        (0, 0, 0) => "until the client ends it".to_owned(),
        (0, 0, seconds) => format!("{seconds} s"),
        (0, blocks, _) => format!("{blocks} blocks"),
        (bytes, ..) => format!("{bytes} bytes"),
    };
    let s = if wishes.streams == 1 { "" } else { "s" };
    let version = wishes.version.as_deref().unwrap_or("of unknown version");
    format!(
        "iperf3 client {version}: {protocol}, {direction}, {} stream{s}, {until}",
        wishes.streams
    )
}

/// What came of it, direction by direction.
fn ended(outcome: &Outcome) -> Vec<String> {
    let mut lines = Vec::new();
    for sends in outcome.directions() {
        let (word, bytes) = if sends {
            ("sent", outcome.sent(sends))
        } else {
            ("received", outcome.received(sends))
        };
        let bytes = bytes.unwrap_or(0);
        let rate = bytes as f64 * 8e-6 / outcome.seconds.max(1e-9);
        let mut line = format!(
            "{word} {bytes} bytes in {:.2} s, {rate:.1} Mbit/s",
            outcome.seconds
        );
        if outcome.wishes.protocol == Protocol::Udp && !sends {
            let sum = |of: &dyn Fn(&StreamOutcome) -> u64| -> u64 { outcome.streams_of(false).map(of).sum() };
            let (missing, highest) = (sum(&|stream| stream.missing), sum(&|stream| stream.packets));
            line.push_str(&format!(", {missing} of {highest} datagrams lost"));
        }
        lines.push(line);
    }
    if let Some(trouble) = &outcome.trouble {
        lines.push(format!("not to its end: {trouble}"));
    }
    lines
}

/// For clients that want to show what the server prints.
fn summary(run: &Run) -> String {
    let mut text = format!("sockeye {}\n", env!("CARGO_PKG_VERSION"));
    for interval in &run.intervals {
        for (sends, word) in [(true, "sent"), (false, "received")] {
            if interval.streams.iter().any(|stream| stream.sends == sends) {
                let bytes = interval.bytes(sends);
                let rate = bytes as f64 * 8e-6 / interval.seconds.max(1e-9);
                let (from, to) = (interval.start_s, interval.start_s + interval.seconds);
                text.push_str(&format!(
                    "{from:.2}-{to:.2} s: {word} {bytes} bytes, {rate:.1} Mbit/s\n"
                ));
            }
        }
    }
    text
}

const DATAGRAM: u64 = 1460;
const INTERVAL: Duration = Duration::from_secs(1);
const STREAMS_PATIENCE: Duration = Duration::from_secs(30);
const BUSY_PATIENCE: Duration = Duration::from_millis(500);
const TURN: Duration = Duration::from_millis(10);
/// What iperf3 waits after the time is over: ten messages of 4 s.
const GRACE: Duration = Duration::from_secs(40);
const QUIET_PATIENCE: Duration = Duration::from_secs(120);
const REST_PATIENCE: Duration = Duration::from_secs(5);
const REST_QUIET: Duration = Duration::from_millis(100);

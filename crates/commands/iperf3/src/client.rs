//! The client: it says what is tested, makes the streams, and decides when it is over.

use super::control::{Control, PATIENCE};
use super::datagram::{HELLO, OLD_WELCOME, WELCOME};
use super::lane::{Lane, Manner};
use super::message::{DATAGRAM_MIN, Results, State, Wishes};
use super::outcome::{Interval, Outcome};
use super::run::Run;
use super::sockets::{Woken, await_readable, buffers, dial, plain, resolve, set_after, set_before, timespec};
use super::trouble::Trouble;
use super::{COOKIE_LEN, LENGTH, Protocol, Toward};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use sockeye_load::session::{Reach, Stop};
use sockeye_load::stream::Surroundings;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant, SystemTime};

/// What is measured, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// What is tested. A length of 0 is chosen here.
    pub wishes: Wishes,
    /// How often a sample is taken.
    pub interval: Duration,
    /// How it is done at this end.
    pub manner: Manner,
}

/// Measures against the server at `reach`, until `stop` is set at the latest. `watch` sees each interval as it is over.
///
/// # Errors
/// When it did not get to the point where bytes move. What goes wrong later is told in the outcome.
pub fn run(
    reach: &Reach,
    plan: &Plan,
    stop: &Stop,
    watch: &mut dyn FnMut(&Interval),
) -> Result<Outcome, Trouble> {
    plan.wishes.check().map_err(Trouble::Declined)?;
    let (control, address) = dial_server(reach, stop)?;
    let cookie = cookie();
    control.send(cookie.as_bytes())?;
    control.send(&[0])?;
    let mss = sockeye_sys::tcp::max_segment(control.stream()).ok();
    let wishes = with_length(&plan.wishes, mss);
    control.expect(State::ParamExchange, "the request for parameters", PATIENCE)?;
    control.send_json(&wishes.to_json())?;
    control.expect(State::CreateStreams, "the request for streams", PATIENCE)?;
    let (began, surroundings) = (SystemTime::now(), Surroundings::now());
    let started = start(plan, &wishes, &control, address, &cookie);
    let (mut run, buffers) = started.inspect_err(|trouble| {
        if matches!(trouble, Trouble::Stopped) {
            let _ = control.send_state(State::ClientTerminate);
        }
    })?;
    let measured = measure(&mut run, &wishes, &control, watch);
    let mut outcome = Outcome {
        is_client: true,
        host: (reach.host.clone(), reach.port),
        control: control.addresses().unwrap_or((address, address)),
        cookie,
        began,
        mss,
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
        wishes,
    };
    (outcome.streams, outcome.intervals, outcome.seconds) = run.finish();
    outcome.surroundings = Some(surroundings.since(outcome.moved()));
    match measured {
        Ok(theirs) => outcome.take(&theirs),
        Err(trouble) => outcome.trouble = Some(trouble),
    }
    Ok(outcome)
}

/// The control connection, by the first address that answers.
fn dial_server<'a>(reach: &Reach, stop: &'a Stop) -> Result<(Control<'a>, SocketAddr), Trouble> {
    let mut last = None;
    for address in resolve(&reach.host, reach.port, reach.is_v6)? {
        match dial(Protocol::Tcp, address, stop, reach.patience, |_| Ok(())) {
            Ok(socket) => return Ok((Control::new(TcpStream::from(socket), stop)?, address)),
            Err(Trouble::Stopped) => return Err(Trouble::Stopped),
            Err(trouble) => last = Some(trouble),
        }
    }
    // There is at least one address.
    Err(last.unwrap_or(Trouble::Gone(None)))
}

/// 128 KiB over TCP; over UDP what goes into one packet on this way.
fn with_length(wishes: &Wishes, mss: Option<u32>) -> Wishes {
    let mut wishes = wishes.clone();
    if wishes.length == 0 {
        wishes.length = match (wishes.protocol, mss) {
            (Protocol::Tcp, _) => LENGTH,
            (Protocol::Udp, Some(mss)) => u64::from(mss).clamp(DATAGRAM_MIN, DATAGRAM_MAX),
            (Protocol::Udp, None) => DATAGRAM,
        };
    }
    wishes
}

fn start(
    plan: &Plan,
    wishes: &Wishes,
    control: &Control<'_>,
    address: SocketAddr,
    cookie: &str,
) -> Result<(Run, (u64, u64)), Trouble> {
    // Those that we send on come first: so the server knows which are which.
    let directions: &[bool] = match wishes.toward {
        Toward::Server => &[true],
        Toward::Client => &[false],
        Toward::Both => &[true, false],
    };
    let mut lanes = Vec::new();
    for &sends in directions {
        for _ in 0..wishes.streams {
            let socket = make_stream(wishes, control.stop(), address, cookie).map_err(|trouble| {
                // A server that cannot make one says so on the control connection.
                match control.receive_state("streams", Duration::ZERO) {
                    Err(said @ (Trouble::Rejected(..) | Trouble::ServerTerminated)) => said,
                    _ => trouble,
                }
            })?;
            let addresses = addresses(&socket)?;
            lanes.push(Lane::new(stream_id(lanes.len()), sends, socket, addresses));
        }
    }
    let buffers = lanes.first().map_or((0, 0), |lane| buffers(&lane.socket));
    control.expect(State::TestStart, "the start", PATIENCE)?;
    control.expect(State::TestRunning, "the start", PATIENCE)?;
    let run = Run::start(lanes, wishes, plan.interval, true, plan.manner)?;
    Ok((run, buffers))
}

fn make_stream(wishes: &Wishes, stop: &Stop, address: SocketAddr, cookie: &str) -> Result<OwnedFd, Trouble> {
    let set = |socket: &OwnedFd| set_before(socket, wishes);
    let socket = dial(wishes.protocol, address, stop, CONNECT_PATIENCE, set)?;
    set_after(&socket, wishes, address.is_ipv6());
    match wishes.protocol {
        Protocol::Tcp => {
            let mut bytes = cookie.as_bytes().to_vec();
            bytes.push(0);
            let sent = send(&socket, &bytes, SendFlags::NOSIGNAL);
            match sent {
                Ok(len) if len == bytes.len() => {}
                Ok(_) => return Err(Trouble::Stream(Errno::AGAIN)),
                Err(errno) => return Err(Trouble::Stream(errno)),
            }
        }
        Protocol::Udp => greet(&socket, stop, address)?,
    }
    Ok(socket)
}

/// Makes the server know our address. Greets again where nothing comes: either may have been lost.
fn greet(socket: &OwnedFd, stop: &Stop, address: SocketAddr) -> Result<(), Trouble> {
    for _ in 0..GREETINGS {
        match send(socket, &HELLO, SendFlags::NOSIGNAL) {
            Ok(_) | Err(Errno::CONNREFUSED) => {}
            Err(errno) => return Err(Trouble::Stream(errno)),
        }
        let until = Instant::now() + GREETING_PATIENCE;
        loop {
            match await_readable(socket, stop, until)? {
                Woken::Stopped => return Err(Trouble::Stopped),
                Woken::Late => break,
                Woken::Readable => {}
            }
            let mut room = [0; 4];
            match recv(socket, &mut room, RecvFlags::DONTWAIT) {
                Ok((_, 4)) if is_welcome(room) => return Ok(()),
                // Data of a stream that overtook it.
                Ok(_) | Err(Errno::AGAIN | Errno::INTR) => {}
                Err(Errno::CONNREFUSED) => return Err(Trouble::Refused(address)),
                Err(errno) => return Err(Trouble::Stream(errno)),
            }
        }
    }
    Err(Trouble::Unanswered(address, GREETING_PATIENCE * GREETINGS))
}

fn is_welcome(bytes: [u8; 4]) -> bool {
    bytes == WELCOME || [u32::from_le_bytes(bytes), u32::from_be_bytes(bytes)].contains(&OLD_WELCOME)
}

fn measure(
    run: &mut Run,
    wishes: &Wishes,
    control: &Control<'_>,
    watch: &mut dyn FnMut(&Interval),
) -> Result<Results, Trouble> {
    let ran = move_bytes(run, wishes, control, watch);
    run.end();
    if let Err(trouble) = ran {
        if matches!(trouble, Trouble::Stopped | Trouble::Stream(_)) {
            let _ = control.send_state(State::ClientTerminate);
        }
        return Err(trouble);
    }
    control.send_state(State::TestEnd)?;
    control.expect(State::ExchangeResults, "the request for results", END_PATIENCE)?;
    control.send_json(&run.results(None).to_json())?;
    let theirs = control.receive_json("the server's results")?;
    let theirs = Results::from_json(&theirs)
        .ok_or_else(|| Trouble::Nonsense("results in which something is missing".to_owned()))?;
    control.expect(State::DisplayResults, "the end", PATIENCE)?;
    control.send_state(State::Done)?;
    Ok(theirs)
}

/// Until it is over.
fn move_bytes(
    run: &mut Run,
    wishes: &Wishes,
    control: &Control<'_>,
    watch: &mut dyn FnMut(&Interval),
) -> Result<(), Trouble> {
    let (sends, receives) = (wishes.toward != Toward::Client, wishes.toward != Toward::Server);
    let mut moved = (0, Instant::now());
    loop {
        run.look();
        if let Some(interval) = run.tick() {
            watch(interval);
        }
        if let Some(errno) = run.failure() {
            // Whoever closes streams says why on the control connection.
            return match control.receive_state("the reason", Duration::from_millis(200)) {
                Err(said) if !matches!(said, Trouble::Silent(..)) => Err(said),
                _ => Err(Trouble::Stream(errno)),
            };
        }
        let now = Instant::now();
        if run.due().is_some_and(|due| now >= due) {
            return Ok(());
        }
        if !wishes.is_by_time() && (!sends || run.traffic.is_sent()) && (!receives || run.has_received_all())
        {
            run.drain(DRAIN_PATIENCE);
            return Ok(());
        }
        if run.moved() != moved.0 {
            moved = (run.moved(), now);
        }
        let quiet = now.saturating_duration_since(moved.1);
        // Of datagrams that were lost nobody knows that they were the last.
        if wishes.protocol == Protocol::Udp && !wishes.is_by_time() && moved.0 > 0 && quiet > LOST_PATIENCE {
            return Ok(());
        }
        if quiet > QUIET_PATIENCE {
            return Err(Trouble::Silent("data", QUIET_PATIENCE));
        }
        let until = run.next().min(now + TURN);
        match wait(control, &run.traffic.event, until)? {
            Woken::Stopped => return Err(Trouble::Stopped),
            Woken::Readable => match control.receive_state("nothing", PATIENCE)? {
                State::TestRunning => {}
                state => {
                    return Err(Trouble::Nonsense(format!(
                        "it went to the state {state:?} in the middle of the test"
                    )));
                }
            },
            Woken::Late => {}
        }
    }
}

/// Readable: the control connection.
fn wait(control: &Control<'_>, event: &OwnedFd, until: Instant) -> Result<Woken, Trouble> {
    if control.stop().is_set() {
        return Ok(Woken::Stopped);
    }
    let left = until.saturating_duration_since(Instant::now());
    let mut polled = [
        PollFd::new(control.stream(), PollFlags::IN),
        PollFd::new(event, PollFlags::IN),
    ];
    match poll(&mut polled, Some(&timespec(left))) {
        Ok(0) | Err(Errno::INTR) => Ok(Woken::Late),
        Ok(_) if !polled[0].revents().is_empty() => Ok(Woken::Readable),
        Ok(_) => {
            // It is rung once; who reads it looks at everything.
            let _ = rustix::io::read(event, &mut [0; 8][..]);
            Ok(Woken::Late)
        }
        Err(errno) => Err(Trouble::System("poll", errno)),
    }
}

/// iperf3 counts its streams 1, 3, 4, 5 and so on, and never will otherwise.
pub(super) fn stream_id(index: usize) -> u64 {
    if index == 0 { 1 } else { index as u64 + 2 }
}

pub(super) fn addresses(socket: &OwnedFd) -> Result<(SocketAddr, SocketAddr), Trouble> {
    let both = || {
        let local = SocketAddr::try_from(rustix::net::getsockname(socket)?);
        let remote = rustix::net::getpeername(socket)?.ok_or(Errno::NOTCONN)?;
        Ok((local?, SocketAddr::try_from(remote)?))
    };
    let (local, remote) =
        both().map_err(|errno: Errno| Trouble::System("ask for a stream's addresses", errno))?;
    Ok((plain(local), plain(remote)))
}

/// 36 letters and digits.
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

const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
/// What an Ethernet without tunnels carries.
const DATAGRAM: u64 = 1460;
const DATAGRAM_MAX: u64 = 65_507;
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);
const GREETINGS: u32 = 3;
const GREETING_PATIENCE: Duration = Duration::from_secs(3);
/// The queue on the way may be long.
const END_PATIENCE: Duration = Duration::from_secs(30);
const DRAIN_PATIENCE: Duration = Duration::from_secs(2);
const LOST_PATIENCE: Duration = Duration::from_secs(2);
/// As iperf3's --rcv-timeout.
const QUIET_PATIENCE: Duration = Duration::from_secs(120);
/// How often is looked whether all has come.
const TURN: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_and_numbers() {
        let cookie = cookie();
        assert_eq!(cookie.len(), 36);
        assert!(cookie.bytes().all(|byte| LETTERS.contains(&byte)));
        assert_ne!(cookie, super::cookie());
        let ids: Vec<u64> = (0..4).map(stream_id).collect();
        assert_eq!(ids, [1, 3, 4, 5]);
    }

    #[test]
    fn welcomes_of_all_kinds() {
        assert!(is_welcome(*b"6789"));
        assert!(is_welcome(OLD_WELCOME.to_le_bytes()));
        assert!(is_welcome(OLD_WELCOME.to_be_bytes()));
        assert!(!is_welcome(HELLO));
        assert!(!is_welcome([0; 4]));
    }
}

//! The client's part: a session, its connections, a thread for each, and somebody who watches them.

use super::closed::closed;
use super::connecting::{Approach, connecting};
use super::course::{Course, Sizes, Tally, Transport};
use super::open::open;
use super::pinned::{may_run_on, stay_on};
use super::whole::Failure;
use crate::session::{Kind, Preamble, Reach, Session, Stop, Trouble, own_address};
use rustix::io::Errno;
use rustix::net::sockopt::set_tcp_nodelay;
use rustix::net::{Shutdown, bind, shutdown};
use serde_json::{Value, json};
use sockeye_sys::tcp::set_bind_without_port;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// What is to be measured.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The server.
    pub reach: Reach,
    /// [`Kind::Rr`] or [`Kind::Crr`].
    pub kind: Kind,
    /// Of `rr`; `crr` is TCP.
    pub transport: Transport,
    /// How many bytes there and back.
    pub sizes: Sizes,
    /// At once.
    pub connections: usize,
    /// How long; none: until `count` is reached.
    pub length: Option<Duration>,
    /// Requests over all connections.
    pub count: Option<u64>,
    /// A second, over all connections; none: each when the one before is answered.
    pub rate: Option<f64>,
    /// Whether both ends look for bytes again and again, instead of asleep.
    pub spins: bool,
    /// The processor that our threads are kept on, and theirs; none: the kernel decides.
    pub processors: (Option<usize>, Option<usize>),
    /// Where connections come from.
    pub from: Option<IpAddr>,
}

/// What came of it.
#[derive(Debug)]
pub struct Outcome {
    /// Of all connections together.
    pub tally: Tally,
    /// From the beginning to the last answer.
    pub elapsed: Duration,
    /// Processor time of the thread that had most.
    pub busiest: Duration,
    /// The same of the server's end, if it could still tell.
    pub there: Option<There>,
    /// Ours, and the server's.
    pub addresses: (SocketAddr, SocketAddr),
    /// Why it ended early, if it did.
    pub ending: Option<Ending>,
}

/// What the server's end took.
#[derive(Debug, Clone, Copy, Default)]
pub struct There {
    /// Requests it answered.
    pub answered: u64,
    /// Processor time of its threads.
    pub cpu: Duration,
    /// Of the one that had most.
    pub busiest: Duration,
}

/// Why a run ended before its time.
#[derive(Debug)]
pub enum Ending {
    /// Somebody wanted it.
    Interrupted,
    /// A connection failed.
    Failed(Failure),
    /// The control connection did.
    Session(Trouble),
    /// No answer for so long.
    Unanswered(Duration),
}

/// Makes the connections, measures, and takes everything down again. `progress` gets the answers so far.
///
/// # Errors
/// When it could not begin. Whatever fails later is the [`Outcome::ending`].
pub fn run(plan: &Plan, stop: &Stop, progress: &mut dyn FnMut(u64)) -> Result<Outcome, Trouble> {
    let parameters = json!({
        "transport": plan.transport.name(),
        "request": plan.sizes.request,
        "response": plan.sizes.response,
        "connections": plan.connections,
        "busy_poll": plan.spins,
        "processor": plan.processors.1,
    });
    if plan.processors.0.is_some_and(|processor| !may_run_on(processor)) {
        return Err(Trouble::System("stay on this processor (-A)", Errno::INVAL));
    }
    let mut session = Session::open(&plan.reach, plan.kind, &parameters, stop)?;
    let lanes = Lanes::open(plan, &session)?;
    await_ready(&mut session, plan.reach.patience, stop)?;
    // Until all threads are there.
    let begun = Instant::now() + BREATH;
    let course = Arc::new(Course::new(
        begun,
        plan.connections,
        plan.length,
        plan.count,
        plan.rate,
        plan.spins,
    ));
    let tallies = match lanes.start(plan, &course, begun) {
        Ok(tallies) => tallies,
        Err(trouble) => {
            course.stop();
            lanes.shut();
            return Err(trouble);
        }
    };
    let mut watch = Watch {
        plan,
        course: &course,
        lanes: &lanes,
        tally: Tally::default(),
        busiest: Duration::ZERO,
        left: plan.connections,
        ending: None,
    };
    watch.until_over(&mut session, &tallies, stop, progress);
    let Watch {
        tally,
        busiest,
        ending,
        ..
    } = watch;
    let there = match ending {
        Some(Ending::Session(_)) => None,
        _ => take_leave(&mut session),
    };
    Ok(Outcome {
        elapsed: tally.elapsed,
        tally,
        busiest,
        there,
        addresses: (session.local, session.server),
        ending,
    })
}

/// What the threads work on.
enum Lanes {
    /// A socket for each.
    Lasting(Vec<Arc<OwnedFd>>),
    /// They make their own.
    Each(Vec<Approach>),
}

impl Lanes {
    fn open(plan: &Plan, session: &Session) -> Result<Self, Trouble> {
        let lanes = 0..plan.connections;
        if plan.kind == Kind::Crr {
            let port = session.answer["port"]
                .as_u64()
                .and_then(|port| u16::try_from(port).ok());
            let port = port.ok_or_else(|| Trouble::Nonsense("no port for connections".to_owned()))?;
            let mut server = session.server;
            server.set_port(port);
            let approaches = lanes.map(|lane| Approach {
                server,
                from: plan.from,
                preamble: Preamble::data(session.token(), lane as u16).emit().to_vec(),
            });
            return Ok(Self::Each(approaches.collect()));
        }
        let sockets = lanes.map(|lane| {
            let socket = match plan.transport {
                Transport::Tcp => OwnedFd::from(session.data(lane as u16, &|socket, address| {
                    set_tcp_nodelay(socket, true)
                        .map_err(|errno| Trouble::System("set TCP_NODELAY", errno))?;
                    let Some(from) = plan.from else { return Ok(()) };
                    let failed = |errno| Trouble::System("bind to the address of -B", errno);
                    set_bind_without_port(socket).map_err(failed)?;
                    bind(socket, &own_address(from, address)).map_err(failed)
                })?),
                Transport::Udp => OwnedFd::from(session.datagrams_from(lane as u16, plan.from)?),
            };
            Ok(Arc::new(socket))
        });
        Ok(Self::Lasting(sockets.collect::<Result<_, Trouble>>()?))
    }

    fn start(&self, plan: &Plan, course: &Arc<Course>, begun: Instant) -> Result<Receiver<Tally>, Trouble> {
        let (sender, tallies) = channel();
        for lane in 0..plan.connections {
            let work = self.work(lane, plan, course);
            let sender = sender.clone();
            let processor = plan.processors.0;
            let thread = move || {
                stay_on(processor);
                thread::sleep(begun.saturating_duration_since(Instant::now()));
                // Nobody takes it when the others have failed to start.
                let _ = sender.send(work());
            };
            thread::Builder::new()
                .name("asks".to_owned())
                .spawn(thread)
                .map_err(|error| {
                    Trouble::System(
                        "start a thread",
                        Errno::from_io_error(&error).unwrap_or(Errno::AGAIN),
                    )
                })?;
        }
        Ok(tallies)
    }

    fn work(&self, lane: usize, plan: &Plan, course: &Arc<Course>) -> Box<dyn FnOnce() -> Tally + Send> {
        let (course, sizes, transport) = (Arc::clone(course), plan.sizes, plan.transport);
        let has_rate = plan.rate.is_some();
        match self {
            Self::Each(approaches) => {
                let approach = approaches[lane].clone();
                Box::new(move || connecting(&approach, sizes, lane, &course))
            }
            Self::Lasting(sockets) => {
                let socket = Arc::clone(&sockets[lane]);
                Box::new(move || {
                    if has_rate {
                        open(socket.as_fd(), transport, sizes, lane, &course)
                    } else {
                        closed(socket.as_fd(), transport, sizes, lane, &course)
                    }
                })
            }
        }
    }

    /// Whoever waits for an answer wakes up.
    fn shut(&self) {
        if let Self::Lasting(sockets) = self {
            for socket in sockets {
                let _ = shutdown(socket, Shutdown::Both);
            }
        }
    }
}

/// While the threads are at work.
struct Watch<'a> {
    plan: &'a Plan,
    course: &'a Course,
    lanes: &'a Lanes,
    tally: Tally,
    busiest: Duration,
    /// Threads that have not ended.
    left: usize,
    ending: Option<Ending>,
}

impl Watch<'_> {
    fn until_over(
        &mut self,
        session: &mut Session,
        tallies: &Receiver<Tally>,
        stop: &Stop,
        progress: &mut dyn FnMut(u64),
    ) {
        let mut told = Instant::now();
        let (mut answered, mut answered_at) = (0, Instant::now());
        while self.left > 0 {
            if !self.collect(tallies) || self.left == 0 {
                break;
            }
            let now = self.course.answered();
            if now != answered {
                (answered, answered_at) = (now, Instant::now());
            }
            progress(answered);
            if self.ending.is_none() {
                self.look(stop, answered_at.elapsed());
            }
            // Its wait is ours as well.
            if matches!(self.ending, Some(Ending::Session(_))) {
                thread::sleep(TICK);
                continue;
            }
            let mut said = session.channel.poll(TICK).map(|_| ());
            if told.elapsed() >= SIGN_OF_LIFE {
                told = Instant::now();
                said = said.and_then(|()| session.channel.send(&json!({"answered": answered})));
            }
            if let Err(trouble) = said {
                // The threads saw it too, and first, but cannot say as much.
                if !matches!(self.ending, Some(Ending::Interrupted | Ending::Unanswered(_))) {
                    self.end(Ending::Session(trouble));
                }
            }
        }
    }

    /// What threads have handed over; false if there is none left to do so.
    fn collect(&mut self, tallies: &Receiver<Tally>) -> bool {
        loop {
            match tallies.try_recv() {
                Ok(tally) => {
                    self.left -= 1;
                    self.busiest = self.busiest.max(tally.cpu);
                    let failure = tally.failure;
                    self.tally.merge(tally);
                    if let Some(failure) = failure.filter(|_| self.ending.is_none()) {
                        self.end(Ending::Failed(failure));
                    }
                }
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    fn look(&mut self, stop: &Stop, silent: Duration) {
        let is_overdue = self.plan.length.is_some_and(|length| {
            // A second for what was under way, and one for whoever looks after it.
            Duration::from_nanos(self.course.now_ns()) > length + OVERDUE
        });
        if stop.is_set() {
            self.end(Ending::Interrupted);
        } else if silent > self.patience() || is_overdue {
            self.end(Ending::Unanswered(silent));
        }
    }

    /// Between two answers; where they are rare by schedule, longer.
    fn patience(&self) -> Duration {
        let interval = self.plan.rate.map_or(0.0, |rate| 1.0 / rate);
        self.plan.reach.patience + Duration::from_secs_f64(interval.min(1e6))
    }

    fn end(&mut self, ending: Ending) {
        self.ending = Some(ending);
        self.course.stop();
        self.lanes.shut();
    }
}

fn await_ready(session: &mut Session, patience: Duration, stop: &Stop) -> Result<(), Trouble> {
    let until = Instant::now() + patience;
    loop {
        stop.check()?;
        match session.channel.poll(TICK)? {
            Some(said) if said["ready"] == json!(true) => return Ok(()),
            Some(said) => return Err(Trouble::Nonsense(said.to_string())),
            None if Instant::now() >= until => {
                return Err(Trouble::Silent("its readiness", patience));
            }
            None => {}
        }
    }
}

/// What the server took; what it does not say in time is not known.
fn take_leave(session: &mut Session) -> Option<There> {
    session.channel.send(&json!({"end": true})).ok()?;
    let sums = session.channel.receive("what it took", LEAVE_PATIENCE).ok()?;
    let number = |value: &Value| value.as_u64();
    Some(There {
        answered: number(&sums["answered"])?,
        cpu: Duration::from_nanos(number(&sums["cpu_ns"])?),
        busiest: Duration::from_nanos(number(&sums["busiest_ns"])?),
    })
}

const BREATH: Duration = Duration::from_millis(5);
const TICK: Duration = Duration::from_millis(50);
const SIGN_OF_LIFE: Duration = Duration::from_secs(1);
const OVERDUE: Duration = Duration::from_secs(2);
const LEAVE_PATIENCE: Duration = Duration::from_secs(3);

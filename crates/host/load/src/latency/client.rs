//! The client's end: a session, its connections, a thread for each, and their monitor.

use super::closed_loop::closed_loop;
use super::connect_loop::{Target, connect_loop};
use super::exact_io::Failure;
use super::open_loop::open_loop;
use super::run_state::{RunState, Sizes, Tally};
use crate::affinity::{may_run_on, pin_thread};
use crate::session::{Connector, Error, Kind, Session, Stop, bind_to};
use crate::transport::Transport;
use rustix::io::Errno;
use rustix::net::sockopt::set_tcp_nodelay;
use rustix::net::{Shutdown, shutdown};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// A latency test.
#[derive(Debug, Clone)]
pub struct Plan {
    /// How to reach the server.
    pub connector: Connector,
    /// [`Kind::Rr`] or [`Kind::Crr`].
    pub kind: Kind,
    /// Transport of `rr`; `crr` uses TCP.
    pub transport: Transport,
    /// Bytes of requests and answers.
    pub sizes: Sizes,
    /// Number of connections at once.
    pub connections: usize,
    /// Length of the test; `None`: until `count` is reached.
    pub length: Option<Duration>,
    /// Number of requests over all connections; `None`: until `length` is over.
    pub count: Option<u64>,
    /// Requests per second over all connections; `None`: closed loop.
    pub rate: Option<f64>,
    /// Whether both ends poll without sleeping, the server if it allows that.
    pub busy_poll: bool,
    /// Processors to pin the local and the server's threads to.
    pub processors: (Option<usize>, Option<usize>),
}

/// Outcome of a run.
#[derive(Debug)]
pub struct Outcome {
    /// Sum over all connections.
    pub tally: Tally,
    /// From the start to the last answer.
    pub elapsed: Duration,
    /// Processor time of the busiest thread.
    pub busiest: Duration,
    /// Load of the server; `None` if it did not report it.
    pub there: Option<ServerLoad>,
    /// Local and server address.
    pub addresses: (SocketAddr, SocketAddr),
    /// Whether the server polled without sleeping.
    pub is_server_polling: bool,
    /// Why the run ended early; `None` if it did not.
    pub early_end: Option<EarlyEnd>,
}

/// Load of the server.
#[derive(Debug, Clone, Copy, Default)]
pub struct ServerLoad {
    /// Processor time of its threads.
    pub cpu: Duration,
    /// Processor time of its busiest thread.
    pub busiest: Duration,
}

/// Why a run ended early.
#[derive(Debug)]
pub enum EarlyEnd {
    /// The stop flag was set.
    Interrupted,
    /// A connection failed.
    Failed(Failure),
    /// The control connection failed.
    Session(Error),
    /// No answer for this long.
    Timeout(Duration),
}

/// Opens the connections, measures, and closes everything. `progress` gets the number of answers so far.
///
/// # Errors
/// If the run cannot begin. A later failure is the [`Outcome::early_end`].
pub fn run(plan: &Plan, stop: &Stop, progress: &mut dyn FnMut(u64)) -> Result<Outcome, Error> {
    let parameters = json!({
        "transport": plan.transport.name(),
        "request": plan.sizes.request,
        "response": plan.sizes.response,
        "connections": plan.connections,
        "busy_poll": plan.busy_poll,
        "processor": plan.processors.1,
        "time_us": plan.length.map(|length| length.as_micros() as u64),
    });
    if plan.processors.0.is_some_and(|processor| !may_run_on(processor)) {
        return Err(Error::System("stay on this processor (-A)", Errno::INVAL));
    }
    let mut session = Session::open(&plan.connector, plan.kind, &parameters, stop)?;
    let connections = Connections::open(plan, &session)?;
    session.await_ready()?;
    // Until all threads have started.
    let begun = Instant::now() + RETRY_DELAY;
    let run = Arc::new(RunState::new(
        begun,
        plan.connections,
        plan.length,
        plan.count,
        plan.rate,
        plan.busy_poll,
    ));
    let tallies = match connections.start(plan, &run, begun) {
        Ok(tallies) => tallies,
        Err(error) => {
            run.stop();
            connections.shut_down();
            return Err(error);
        }
    };
    let mut monitor = Monitor {
        plan,
        run: &run,
        connections: &connections,
        tally: Tally::default(),
        busiest: Duration::ZERO,
        left: plan.connections,
        early_end: None,
    };
    monitor.until_over(&mut session, &tallies, stop, progress);
    let Monitor {
        tally,
        busiest,
        early_end,
        ..
    } = monitor;
    let there = match early_end {
        Some(EarlyEnd::Session(_)) => None,
        _ => end_session(&mut session),
    };
    Ok(Outcome {
        elapsed: tally.elapsed,
        tally,
        busiest,
        there,
        is_server_polling: session.answer["busy_poll"] == json!(true),
        addresses: (session.local, session.server),
        early_end,
    })
}

/// The connections of the threads.
enum Connections {
    /// A socket for each thread.
    Persistent(Vec<Arc<OwnedFd>>),
    /// Each thread opens a connection per request.
    PerRequest(Vec<Target>),
}

impl Connections {
    fn open(plan: &Plan, session: &Session) -> Result<Self, Error> {
        let connections = 0..plan.connections;
        if plan.kind == Kind::Crr {
            let port = session.answer["port"]
                .as_u64()
                .and_then(|port| u16::try_from(port).ok());
            let port = port.ok_or_else(|| Error::Malformed("no port for connections".to_owned()))?;
            let mut server = session.server;
            server.set_port(port);
            let targets = connections.map(|index| Target {
                server,
                from: plan.connector.from,
                preamble: session.preamble(index as u16).emit().to_vec(),
            });
            return Ok(Self::PerRequest(targets.collect()));
        }
        let sockets = connections.map(|index| {
            let socket = match plan.transport {
                Transport::Tcp => OwnedFd::from(session.data(index as u16, &|socket, address| {
                    set_tcp_nodelay(socket, true).map_err(|errno| Error::System("set TCP_NODELAY", errno))?;
                    let Some(from) = plan.connector.from else {
                        return Ok(());
                    };
                    bind_to(socket, from, address)
                })?),
                Transport::Udp => OwnedFd::from(session.datagrams(index as u16)?),
            };
            Ok(Arc::new(socket))
        });
        Ok(Self::Persistent(sockets.collect::<Result<_, Error>>()?))
    }

    fn start(&self, plan: &Plan, run: &Arc<RunState>, begun: Instant) -> Result<Receiver<Tally>, Error> {
        let (sender, tallies) = channel();
        for index in 0..plan.connections {
            let work = self.work(index, plan, run);
            let sender = sender.clone();
            let processor = plan.processors.0;
            let thread = move || {
                pin_thread(processor);
                thread::sleep(begun.saturating_duration_since(Instant::now()));
                // The receiver is gone if other threads failed to start.
                let _ = sender.send(work());
            };
            thread::Builder::new()
                .name("requests".to_owned())
                .spawn(thread)
                .map_err(|error| {
                    Error::System(
                        "start a thread",
                        Errno::from_io_error(&error).unwrap_or(Errno::AGAIN),
                    )
                })?;
        }
        Ok(tallies)
    }

    fn work(&self, index: usize, plan: &Plan, run: &Arc<RunState>) -> Box<dyn FnOnce() -> Tally + Send> {
        let (run, sizes, transport) = (Arc::clone(run), plan.sizes, plan.transport);
        let has_rate = plan.rate.is_some();
        match self {
            Self::PerRequest(targets) => {
                let target = targets[index].clone();
                Box::new(move || connect_loop(&target, sizes, index, &run))
            }
            Self::Persistent(sockets) => {
                let socket = Arc::clone(&sockets[index]);
                Box::new(move || {
                    if has_rate {
                        open_loop(socket.as_fd(), transport, sizes, index, &run)
                    } else {
                        closed_loop(socket.as_fd(), transport, sizes, index, &run)
                    }
                })
            }
        }
    }

    /// Wakes up all threads that wait for an answer.
    fn shut_down(&self) {
        if let Self::Persistent(sockets) = self {
            for socket in sockets {
                let _ = shutdown(socket, Shutdown::Both);
            }
        }
    }
}

/// Watches the threads of a run.
struct Monitor<'a> {
    plan: &'a Plan,
    run: &'a RunState,
    connections: &'a Connections,
    tally: Tally,
    busiest: Duration,
    /// Threads that have not ended.
    left: usize,
    early_end: Option<EarlyEnd>,
}

impl Monitor<'_> {
    fn until_over(
        &mut self,
        session: &mut Session,
        tallies: &Receiver<Tally>,
        stop: &Stop,
        progress: &mut dyn FnMut(u64),
    ) {
        let mut last_heartbeat = Instant::now();
        let (mut answered, mut answered_at) = (0, Instant::now());
        while self.left > 0 {
            if !self.collect(tallies) || self.left == 0 {
                break;
            }
            let now = self.run.answered();
            if now != answered {
                (answered, answered_at) = (now, Instant::now());
            }
            progress(answered);
            if self.early_end.is_none() {
                self.check(stop, answered_at.elapsed());
            }
            // Without a session there is no poll to wait in.
            if matches!(self.early_end, Some(EarlyEnd::Session(_))) {
                thread::sleep(TICK);
                continue;
            }
            let mut message = session.channel.poll(TICK).and_then(|message| {
                let error = message.as_ref().and_then(|message| message["error"].as_str());
                error.map_or(Ok(()), |error| Err(Error::rejected(error)))
            });
            if last_heartbeat.elapsed() >= HEARTBEAT {
                last_heartbeat = Instant::now();
                message = message.and_then(|()| session.channel.send(&json!({"answered": answered})));
            }
            if let Err(error) = message {
                // The threads see the failure first, but this error is more precise.
                if !matches!(self.early_end, Some(EarlyEnd::Interrupted | EarlyEnd::Timeout(_))) {
                    self.end(EarlyEnd::Session(error));
                }
            }
        }
    }

    /// Collects the tallies of threads that have ended; false if no thread is left.
    fn collect(&mut self, tallies: &Receiver<Tally>) -> bool {
        loop {
            match tallies.try_recv() {
                Ok(tally) => {
                    self.left -= 1;
                    self.busiest = self.busiest.max(tally.cpu);
                    let failure = tally.failure;
                    self.tally.merge(tally);
                    if let Some(failure) = failure.filter(|_| self.early_end.is_none()) {
                        self.end(EarlyEnd::Failed(failure));
                    }
                }
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    fn check(&mut self, stop: &Stop, silent: Duration) {
        let is_overdue = self.plan.length.is_some_and(|length| {
            // A second for answers in flight, and one for the threads to notice.
            Duration::from_nanos(self.run.now_ns()) > length + OVERDUE
        });
        if stop.is_set() {
            self.end(EarlyEnd::Interrupted);
        } else if silent > self.timeout() || is_overdue {
            self.end(EarlyEnd::Timeout(silent));
        }
    }

    /// Returns the longest wait between two answers, which includes the interval of the open_loop.
    fn timeout(&self) -> Duration {
        let interval = self.plan.rate.map_or(0.0, |rate| 1.0 / rate);
        self.plan.connector.timeout + Duration::from_secs_f64(interval.min(1e6))
    }

    fn end(&mut self, early_end: EarlyEnd) {
        self.early_end = Some(early_end);
        self.run.stop();
        self.connections.shut_down();
    }
}

/// Ends the session, and returns the load of the server; `None` if it does not answer in time.
fn end_session(session: &mut Session) -> Option<ServerLoad> {
    session.channel.send(&json!({"end": true})).ok()?;
    let sums = session
        .channel
        .receive("the server's load", RESULT_TIMEOUT)
        .ok()?;
    let number = |value: &Value| value.as_u64();
    Some(ServerLoad {
        cpu: Duration::from_nanos(number(&sums["cpu_ns"])?),
        busiest: Duration::from_nanos(number(&sums["busiest_ns"])?),
    })
}

const RETRY_DELAY: Duration = Duration::from_millis(5);
const TICK: Duration = Duration::from_millis(50);
const HEARTBEAT: Duration = Duration::from_secs(1);
const OVERDUE: Duration = Duration::from_secs(2);
const RESULT_TIMEOUT: Duration = Duration::from_secs(3);

//! The client's end of a transfer.

use super::end_report;
use super::engine::{self, Command, EndReport, Snapshot, Stream, TICK};
use super::plan::Plan;
use super::progress::{Outcome, Progress};
use crate::session::{Connector, DataSocket, Error, Kind, PEER_MESSAGE_MAX, Session, Stop, peer_text};
use crate::transport::Transport;
use serde_json::{Value, json};
use sockeye_measure::{End, Partial, Side, StreamTransfer};
use std::time::{Duration, Instant};

/// Runs a transfer. A transfer that has begun has an outcome, maybe a partial one. `progress` is called for each interval.
///
/// # Errors
/// If it cannot begin.
pub fn run(
    connector: &Connector,
    plan: &Plan,
    stop: &Stop,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Outcome, Error> {
    engine::try_options(plan)?;
    let mut session = Session::open(connector, Kind::Stream, &plan.to_json(), stop)?;
    let streams = streams(&session, plan)?;
    session.await_ready()?;
    session.channel.send(&json!({"go": true}))?;
    let mut peer = Peer::new(&mut session);
    let report = engine::run(plan, &streams, &mut |snapshot| {
        if let Some(update) = &snapshot.progress {
            progress(update);
        }
        if stop.is_set() {
            peer.fail(Error::Interrupted, snapshot.elapsed);
        }
        peer.poll(snapshot)
    })?;
    // A server that still sends shall see that the connection is closed.
    drop(streams);
    peer.await_results();
    let Peer {
        streams,
        heartbeat,
        end,
        partial,
        ..
    } = peer;
    Ok(outcome(&session, report, streams, &heartbeat, end, partial))
}

/// Opens the streams. Numbers of received streams have the bit [`RECEIVED`] set.
fn streams(session: &Session, plan: &Plan) -> Result<Vec<Stream>, Error> {
    let mut streams = Vec::new();
    for (exists, is_sent) in [(plan.direction.sends(), true), (plan.direction.receives(), false)] {
        for number in (0..plan.streams).filter(|_| exists) {
            let number = if is_sent { number } else { number | RECEIVED };
            let data = match plan.transport {
                Transport::Tcp => {
                    let prepare = |socket: std::os::fd::BorrowedFd<'_>, _| engine::prepare(plan, socket);
                    DataSocket::Tcp(session.data(number, &prepare)?)
                }
                Transport::Udp => {
                    let socket = session.datagrams(number)?;
                    engine::prepare(plan, std::os::fd::AsFd::as_fd(&socket))?;
                    DataSocket::Udp(socket)
                }
            };
            streams.push(Stream {
                number,
                is_sent,
                data,
            });
        }
    }
    Ok(streams)
}

/// The server during the transfer.
struct Peer<'a> {
    session: &'a mut Session,
    last_message: Instant,
    last_heartbeat: Instant,
    is_disconnected: bool,
    is_done: bool,
    streams: Vec<StreamTransfer>,
    /// Its latest report per received stream: number, bytes, microseconds.
    heartbeat: Vec<(u16, u64, u64)>,
    end: Option<End>,
    partial: Option<Partial>,
}

impl<'a> Peer<'a> {
    fn new(session: &'a mut Session) -> Self {
        Self {
            session,
            last_message: Instant::now(),
            last_heartbeat: Instant::now(),
            is_disconnected: false,
            is_done: false,
            streams: Vec::new(),
            heartbeat: Vec::new(),
            end: None,
            partial: None,
        }
    }

    /// Reads a message for up to [`TICK`], and sends heartbeats.
    fn poll(&mut self, snapshot: &Snapshot<'_>) -> Command {
        if snapshot.is_done {
            return Command::Continue;
        }
        if self.is_disconnected {
            std::thread::sleep(TICK);
            return Command::Abort;
        }
        match self.session.channel.poll(TICK) {
            Ok(Some(message)) => self.handle(&message, snapshot.elapsed),
            Ok(None) if self.last_message.elapsed() >= SILENCE => {
                self.disconnect(Error::Timeout("a heartbeat", SILENCE), snapshot.elapsed);
            }
            Ok(None) => {}
            Err(error) => self.disconnect(error, snapshot.elapsed),
        }
        if !self.is_disconnected && self.last_heartbeat.elapsed() >= HEARTBEAT {
            self.last_heartbeat = Instant::now();
            if let Err(error) = self.session.channel.send(&json!({"heartbeat": true})) {
                self.disconnect(error, snapshot.elapsed);
            }
        }
        match (&self.partial, self.is_disconnected) {
            (_, true) => Command::Abort,
            (Some(_), false) => {
                // Both ends stop.
                if self.session.channel.send(&json!({"stop": true})).is_err() {
                    self.is_disconnected = true;
                }
                Command::Finish
            }
            (None, false) if self.is_done => Command::Finish,
            (None, false) => Command::Continue,
        }
    }

    fn handle(&mut self, message: &Value, elapsed: Duration) {
        self.last_message = Instant::now();
        if let (Some(error), true) = (message["error"].as_str(), message["end"].is_null()) {
            self.disconnect(Error::rejected(error), elapsed);
            return;
        }
        if let Some(heartbeat) = message["heartbeat"].as_array() {
            let row = |row: &Value| {
                let number = u16::try_from(row[0].as_u64()?).ok()?;
                Some((number, row[1].as_u64()?, row[2].as_u64()?))
            };
            self.heartbeat = heartbeat
                .iter()
                .take(STREAMS_REPORTED_MAX)
                .filter_map(row)
                .collect();
        }
        if message["done"] == json!(true) {
            self.is_done = true;
        }
        if self.streams.len() < STREAMS_REPORTED_MAX {
            self.streams.extend(end_report::streams(message));
        }
        if message["end"].is_object() {
            self.end = Some(end_report::end_of(&message["end"]));
            if let Some(error) = message["error"].as_str()
                && self.partial.is_none()
            {
                self.partial = Some(Partial {
                    code: "failed",
                    text: format!("the other end failed: {}", peer_text(error, PEER_MESSAGE_MAX)),
                });
            }
        }
    }

    fn disconnect(&mut self, error: Error, elapsed: Duration) {
        self.is_disconnected = true;
        self.fail(error, elapsed);
    }

    fn fail(&mut self, error: Error, elapsed: Duration) {
        if self.partial.is_none() {
            self.partial = Some(Partial {
                code: error.code(),
                text: format!("{error}, after {:.1} s", elapsed.as_secs_f64()),
            });
        }
    }

    /// Ends the transfer, and waits for the results of the server.
    fn await_results(&mut self) {
        if self.is_disconnected {
            return;
        }
        let began = Instant::now();
        if let Err(error) = self.session.channel.send(&json!({"stop": true})) {
            self.disconnect(error, Duration::ZERO);
        }
        while !self.is_disconnected && self.end.is_none() {
            match self.session.channel.poll(TICK) {
                // Also if it sends other messages without end.
                Ok(message) if began.elapsed() < RESULT_TIMEOUT => {
                    if let Some(message) = message {
                        self.handle(&message, began.elapsed());
                    }
                }
                Ok(_) => self.results_missing(&Error::Timeout("its results", RESULT_TIMEOUT)),
                Err(error) => self.results_missing(&error),
            }
        }
    }

    fn results_missing(&mut self, error: &Error) {
        self.is_disconnected = true;
        if self.partial.is_none() {
            self.partial = Some(Partial {
                code: error.code(),
                text: format!("the results of the other end are missing: {error}"),
            });
        }
    }
}

fn outcome(
    session: &Session,
    report: EndReport,
    theirs: Vec<StreamTransfer>,
    heartbeat: &[(u16, u64, u64)],
    end: Option<End>,
    partial: Option<Partial>,
) -> Outcome {
    let mut streams = report.streams;
    end_report::merge(&mut streams, theirs);
    for stream in &mut streams {
        let news = heartbeat.iter().find(|(number, ..)| *number == stream.number);
        if stream.is_sent
            && stream.received.is_none()
            && let Some(&(_, bytes, us)) = news
        {
            stream.received = Some(Side {
                bytes: Some(bytes),
                elapsed_us: Some(us).filter(|&us| us > 0),
                ..Side::default()
            });
        }
        stream.number &= !RECEIVED;
    }
    let partial = partial.or_else(|| {
        let error = report.error?;
        Some(Partial {
            code: error.code(),
            text: error.to_string(),
        })
    });
    Outcome {
        local: Some(session.local),
        peer: Some(session.server),
        streams,
        intervals: report.intervals,
        ours: report.end,
        theirs: end,
        partial,
    }
}

/// Bit of the numbers of streams from the server to the client.
pub(super) const RECEIVED: u16 = 0x8000;
/// Interval of heartbeats of each end.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(1);
/// A peer without heartbeats for this long is gone. Long, since the measured data can delay them.
pub(super) const SILENCE: Duration = Duration::from_secs(15);
/// Long enough for data in flight to arrive before the results.
const RESULT_TIMEOUT: Duration = Duration::from_secs(10);
const STREAMS_REPORTED_MAX: usize = 512;

//! The server's end of a transfer.

use super::client::{HEARTBEAT, RECEIVED, SILENCE};
use super::end_report;
use super::engine::{self, Command, Snapshot, Stream, TICK};
use super::plan::{Direction, Plan, Until};
use crate::session::{DataSocket, Error, Test};
use crate::transport::Transport;
use serde_json::json;
use sockeye_model::counted;
use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Runs the transfer that a client requested. `say` logs a line.
pub(crate) fn answer(mut test: Test<'_>, say: &dyn Fn(&str)) {
    let client = test.client;
    match serve(&mut test, say) {
        Ok(line) => say(&format!("{client}: {line}")),
        Err(error) => say(&format!("{client}: stream: {error}")),
    }
}

fn serve(test: &mut Test<'_>, say: &dyn Fn(&str)) -> Result<String, Error> {
    let plan = Plan::from_json(&test.parameters);
    let plan = plan.and_then(|plan| {
        plan.check_work()?;
        if plan.time() > test.limits.time {
            return Err(Error::TooLong(test.limits.time).to_string());
        }
        engine::try_options(&plan).map_err(|error| error.to_string())?;
        Ok(plan)
    });
    let plan = match plan {
        Ok(plan) => plan,
        Err(why) => {
            test.refuse(&why)?;
            return Ok(format!("stream: refused: {why}"));
        }
    };
    let count = stream_count(&plan);
    if let Err(error) = test.reserve(count) {
        test.refuse(&error.to_string())?;
        return Ok(format!("stream: refused: {error}"));
    }
    say(&format!("{}: {}", test.client, title(&plan)));
    test.accept(json!({}), count)?;
    let streams = match streams(test, &plan) {
        Ok(streams) => streams,
        Err(error) => {
            test.refuse(&error.to_string())?;
            return Err(error);
        }
    };
    test.channel.send(&json!({"ready": true}))?;
    let go = test.channel.receive("the start", TIMEOUT)?;
    if go["go"] != json!(true) {
        return Err(Error::Malformed("something else than that it begins".to_owned()));
    }
    test.begin()?;
    let mut monitor = ClientMonitor {
        test,
        last_message: Instant::now(),
        last_heartbeat: Instant::now(),
        is_stopped: false,
        is_done_sent: false,
        lost: None,
    };
    let report = engine::run(&plan, &streams, &mut |snapshot| monitor.poll(snapshot))?;
    let lost = monitor.lost.take();
    drop(streams);
    let bytes: u64 = report.end.work.bytes.unwrap_or(0);
    if let Some(error) = lost {
        if matches!(error, Error::TooLong(_) | Error::Flood) {
            let _ = test.refuse(&error.to_string());
        }
        return Err(error);
    }
    for message in end_report::messages(&report) {
        test.channel.send(&message)?;
    }
    // The client closes when it has received all.
    let until = Instant::now() + CLOSE_TIMEOUT;
    while Instant::now() < until
        && let Ok(Some(_)) = test.channel.poll(until.saturating_duration_since(Instant::now()))
    {}
    Ok(format!("stream: {bytes} bytes moved"))
}

fn title(plan: &Plan) -> String {
    let amount = match plan.until {
        Until::Time(time) => format!("{} s", time.as_secs_f64()),
        Until::Bytes(bytes) => format!("{bytes} bytes"),
    };
    format!(
        "stream: {} of {}, {amount}, we {}",
        counted(plan.streams, "stream"),
        plan.transport.name().to_uppercase(),
        match plan.direction {
            Direction::Both => "send and receive",
            direction => direction.name(),
        },
    )
}

/// Returns the number of streams in both directions, each of which is a thread.
fn stream_count(plan: &Plan) -> usize {
    let directions = usize::from(plan.direction.sends()) + usize::from(plan.direction.receives());
    usize::from(plan.streams) * directions
}

/// Accepts the streams of the plan.
fn streams(test: &Test<'_>, plan: &Plan) -> Result<Vec<Stream>, Error> {
    let mut found = BTreeMap::new();
    let until = Instant::now() + TIMEOUT;
    while found.len() < stream_count(plan) {
        let (number, data) = test.data(until.saturating_duration_since(Instant::now()))?;
        let is_sent = number & RECEIVED != 0;
        let is_planned = if is_sent {
            plan.direction.sends()
        } else {
            plan.direction.receives()
        };
        let fits = match &data {
            DataSocket::Tcp(_) => plan.transport == Transport::Tcp,
            DataSocket::Udp(_) => plan.transport == Transport::Udp,
        };
        if !is_planned || !fits || number & !RECEIVED >= plan.streams {
            return Err(Error::Malformed("a stream that was not announced".to_owned()));
        }
        match &data {
            DataSocket::Tcp(socket) => engine::prepare(plan, socket.as_fd())?,
            DataSocket::Udp(socket) => engine::prepare(plan, socket.as_fd())?,
        }
        found.insert(
            number,
            Stream {
                number,
                is_sent,
                data,
            },
        );
    }
    Ok(found.into_values().collect())
}

/// Exchanges messages with the client while bytes move.
struct ClientMonitor<'a, 'b> {
    test: &'a mut Test<'b>,
    last_message: Instant,
    last_heartbeat: Instant,
    is_stopped: bool,
    is_done_sent: bool,
    lost: Option<Error>,
}

impl ClientMonitor<'_, '_> {
    fn poll(&mut self, snapshot: &Snapshot<'_>) -> Command {
        if snapshot.is_done {
            return Command::Continue;
        }
        self.test.progress(snapshot.moved());
        if self.lost.is_some() {
            std::thread::sleep(TICK);
            return Command::Abort;
        }
        if let Err(error) = self.exchange(snapshot) {
            self.lost = Some(error);
            return Command::Abort;
        }
        if self.is_stopped || self.test.stop.is_set() {
            Command::Finish
        } else {
            Command::Continue
        }
    }

    fn exchange(&mut self, snapshot: &Snapshot<'_>) -> Result<(), Error> {
        let limit = self.test.limits.time;
        // A test that ends by time has its own end.
        if snapshot.elapsed > limit + OVERTIME {
            return Err(Error::TooLong(limit));
        }
        match self.test.channel.poll(TICK)? {
            Some(message) => {
                self.last_message = Instant::now();
                self.is_stopped |= message["stop"] == json!(true);
            }
            None if self.last_message.elapsed() >= SILENCE => {
                return Err(Error::Timeout("a heartbeat", SILENCE));
            }
            None => {}
        }
        if snapshot.has_sent && !self.is_done_sent && snapshot.received().next().is_none() {
            self.is_done_sent = true;
            self.test.channel.send(&json!({"done": true}))?;
        }
        if self.last_heartbeat.elapsed() >= HEARTBEAT {
            self.last_heartbeat = Instant::now();
            let heartbeat: Vec<_> = snapshot.received().collect();
            self.test.channel.send(&json!({"heartbeat": heartbeat}))?;
        }
        Ok(())
    }
}

/// Longest wait for each step of the client.
const TIMEOUT: Duration = Duration::from_secs(15);
/// Longest wait for the client to close: on a busy machine it receives the last data late.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(6);
/// Time for the end of a test that takes as long as is allowed.
const OVERTIME: Duration = Duration::from_secs(3);

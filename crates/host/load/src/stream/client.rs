//! The end that asks for a transfer.

use super::engine::{self, Seen, TICK, Track, View, Wish};
use super::plan::{Plan, Transport};
use super::{Outcome, Progress, told};
use crate::session::{Data, Kind, Reach, Session, Stop, Trouble};
use serde_json::{Value, json};
use sockeye_measure::{End, Partial, Side, StreamTransfer};
use std::time::{Duration, Instant};

/// Makes the transfer. Once it has begun it has a result, which may be a partial one. `tell` is told how far it has come.
///
/// # Errors
/// When it cannot begin.
pub fn run(
    reach: &Reach,
    plan: &Plan,
    stop: &Stop,
    tell: &mut dyn FnMut(&Progress),
) -> Result<Outcome, Trouble> {
    engine::try_options(plan)?;
    let mut session = Session::open(reach, Kind::Stream, &plan.to_json(), stop)?;
    let tracks = tracks(&session, plan)?;
    await_ready(&mut session, reach.patience, stop)?;
    session.channel.send(&json!({"go": true}))?;
    let mut peer = Peer::new(&mut session);
    let seen = engine::run(plan, &tracks, &mut |view| {
        if let Some(progress) = &view.progress {
            tell(progress);
        }
        if stop.is_set() {
            peer.fail(Trouble::Stopped, view.elapsed);
        }
        peer.attend(view)
    })?;
    // Who still sends is to see that nobody reads any more.
    drop(tracks);
    peer.conclude();
    let Peer {
        lanes,
        beat,
        end,
        partial,
        ..
    } = peer;
    Ok(outcome(&session, seen, lanes, &beat, end, partial))
}

/// The streams: those that we send have the numbers of the plan, those that we receive others.
fn tracks(session: &Session, plan: &Plan) -> Result<Vec<Track>, Trouble> {
    let mut tracks = Vec::new();
    for (is_wanted, is_sent) in [(plan.direction.sends(), true), (plan.direction.receives(), false)] {
        for number in (0..plan.streams).filter(|_| is_wanted) {
            let number = if is_sent { number } else { number | RECEIVED };
            let data = match plan.transport {
                Transport::Tcp => {
                    let prepare = |socket: std::os::fd::BorrowedFd<'_>, _| engine::prepare(plan, socket);
                    Data::Tcp(session.data(number, &prepare)?)
                }
                Transport::Udp => {
                    let socket = session.datagrams(number)?;
                    engine::prepare(plan, std::os::fd::AsFd::as_fd(&socket))?;
                    Data::Udp(socket)
                }
            };
            tracks.push(Track {
                number,
                is_sent,
                data,
            });
        }
    }
    Ok(tracks)
}

fn await_ready(session: &mut Session, patience: Duration, stop: &Stop) -> Result<(), Trouble> {
    let until = Instant::now() + patience;
    loop {
        stop.check()?;
        match session.channel.poll(TICK)? {
            Some(said) if said["ready"] == json!(true) => return Ok(()),
            Some(said) => {
                if let Some(error) = said["error"].as_str() {
                    return Err(Trouble::Rejected(error.to_owned()));
                }
            }
            None if Instant::now() >= until => {
                return Err(Trouble::Silent("that it is ready", patience));
            }
            None => {}
        }
    }
}

/// The other end while it lasts.
struct Peer<'a> {
    session: &'a mut Session,
    heard: Instant,
    beaten: Instant,
    is_gone: bool,
    is_done: bool,
    lanes: Vec<StreamTransfer>,
    /// Its latest news of what it received: numbers, bytes, microseconds
    beat: Vec<(u16, u64, u64)>,
    end: Option<End>,
    partial: Option<Partial>,
}

impl<'a> Peer<'a> {
    fn new(session: &'a mut Session) -> Self {
        Self {
            session,
            heard: Instant::now(),
            beaten: Instant::now(),
            is_gone: false,
            is_done: false,
            lanes: Vec::new(),
            beat: Vec::new(),
            end: None,
            partial: None,
        }
    }

    /// Listens for a moment, and says that we are there.
    fn attend(&mut self, view: &View<'_>) -> Wish {
        if view.is_done {
            return Wish::GoOn;
        }
        if self.is_gone {
            std::thread::sleep(TICK);
            return Wish::Abandon;
        }
        match self.session.channel.poll(TICK) {
            Ok(Some(said)) => self.hear(&said),
            Ok(None) if self.heard.elapsed() >= SILENCE => {
                self.lose(Trouble::Silent("a sign of life", SILENCE), view.elapsed);
            }
            Ok(None) => {}
            Err(trouble) => self.lose(trouble, view.elapsed),
        }
        if !self.is_gone && self.beaten.elapsed() >= BEAT {
            self.beaten = Instant::now();
            if let Err(trouble) = self.session.channel.send(&json!({"beat": true})) {
                self.lose(trouble, view.elapsed);
            }
        }
        match (&self.partial, self.is_gone) {
            (_, true) => Wish::Abandon,
            (Some(_), false) => {
                // Both ends stop.
                if self.session.channel.send(&json!({"stop": true})).is_err() {
                    self.is_gone = true;
                }
                Wish::WindUp
            }
            (None, false) if self.is_done => Wish::WindUp,
            (None, false) => Wish::GoOn,
        }
    }

    fn hear(&mut self, said: &Value) {
        self.heard = Instant::now();
        if let Some(beat) = said["beat"].as_array() {
            let row = |row: &Value| {
                let number = u16::try_from(row[0].as_u64()?).ok()?;
                Some((number, row[1].as_u64()?, row[2].as_u64()?))
            };
            self.beat = beat.iter().take(BEAT_MAX).filter_map(row).collect();
        }
        if said["done"] == json!(true) {
            self.is_done = true;
        }
        if self.lanes.len() < BEAT_MAX {
            self.lanes.extend(told::lanes(said));
        }
        if said["end"].is_object() {
            self.end = Some(told::end_of(&said["end"]));
            if let Some(trouble) = said["trouble"].as_str()
                && self.partial.is_none()
            {
                self.partial = Some(Partial {
                    code: "failed",
                    text: format!(
                        "the other end failed: {}",
                        trouble.chars().take(TEXT_MAX).collect::<String>()
                    ),
                });
            }
        }
    }

    fn lose(&mut self, trouble: Trouble, elapsed: Duration) {
        self.is_gone = true;
        self.fail(trouble, elapsed);
    }

    fn fail(&mut self, trouble: Trouble, elapsed: Duration) {
        if self.partial.is_none() {
            self.partial = Some(Partial {
                code: trouble.code(),
                text: format!("{trouble}, after {:.1} s", elapsed.as_secs_f64()),
            });
        }
    }

    /// Asks for what the other end saw.
    fn conclude(&mut self) {
        if self.is_gone {
            return;
        }
        let began = Instant::now();
        if let Err(trouble) = self.session.channel.send(&json!({"stop": true})) {
            self.lose(trouble, Duration::ZERO);
        }
        while !self.is_gone && self.end.is_none() {
            match self.session.channel.poll(TICK) {
                Ok(Some(said)) => self.hear(&said),
                Ok(None) if began.elapsed() < RESULT_PATIENCE => {}
                Ok(None) => self.unconcluded(&Trouble::Silent("its results", RESULT_PATIENCE)),
                Err(trouble) => self.unconcluded(&trouble),
            }
        }
    }

    fn unconcluded(&mut self, trouble: &Trouble) {
        self.is_gone = true;
        if self.partial.is_none() {
            self.partial = Some(Partial {
                code: trouble.code(),
                text: format!("what the other end saw is missing: {trouble}"),
            });
        }
    }
}

fn outcome(
    session: &Session,
    seen: Seen,
    theirs: Vec<StreamTransfer>,
    beat: &[(u16, u64, u64)],
    end: Option<End>,
    partial: Option<Partial>,
) -> Outcome {
    let mut lanes = seen.lanes;
    told::merge(&mut lanes, theirs);
    for lane in &mut lanes {
        let news = beat.iter().find(|(number, ..)| *number == lane.number);
        if lane.is_sent
            && lane.received.is_none()
            && let Some(&(_, bytes, us)) = news
        {
            lane.received = Some(Side {
                bytes: Some(bytes),
                elapsed_us: Some(us).filter(|&us| us > 0),
                ..Side::default()
            });
        }
        lane.number &= !RECEIVED;
    }
    let partial = partial.or_else(|| {
        let trouble = seen.trouble?;
        Some(Partial {
            code: trouble.code(),
            text: trouble.to_string(),
        })
    });
    Outcome {
        local: Some(session.local),
        peer: Some(session.server),
        lanes,
        intervals: seen.intervals,
        ours: seen.end,
        theirs: end,
        partial,
    }
}

/// Marks numbers of streams from the server to the client.
pub(super) const RECEIVED: u16 = 0x8000;
/// How often each end says that it is there.
pub(super) const BEAT: Duration = Duration::from_secs(1);
/// After how long without that it counts as gone: what is measured may well be in the way.
pub(super) const SILENCE: Duration = Duration::from_secs(15);
/// What is under way is waited for, and then it is told.
const RESULT_PATIENCE: Duration = Duration::from_secs(10);
const BEAT_MAX: usize = 512;
const TEXT_MAX: usize = 300;

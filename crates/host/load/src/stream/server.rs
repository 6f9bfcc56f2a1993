//! The end that was asked for a transfer.

use super::client::{BEAT, RECEIVED, SILENCE};
use super::engine::{self, TICK, Track, View, Wish};
use super::plan::{Plan, Transport, Until};
use super::told;
use crate::session::{Data, Test, Trouble};
use serde_json::json;
use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Does what a client asked for. `say` is told a line.
pub(crate) fn answer(mut test: Test<'_>, say: &dyn Fn(&str)) {
    let client = test.client;
    match serve(&mut test, say) {
        Ok(line) => say(&format!("{client}: {line}")),
        Err(trouble) => say(&format!("{client}: stream: {trouble}")),
    }
}

fn serve(test: &mut Test<'_>, say: &dyn Fn(&str)) -> Result<String, Trouble> {
    let plan = Plan::from_json(&test.parameters);
    let plan = plan.and_then(|plan| match engine::try_options(&plan) {
        Ok(()) => Ok(plan),
        Err(trouble) => Err(trouble.to_string()),
    });
    let plan = match plan {
        Ok(plan) => plan,
        Err(why) => {
            test.refuse(&why)?;
            return Ok(format!("stream: refused: {why}"));
        }
    };
    say(&format!("{}: {}", test.client, title(&plan)));
    test.accept(json!({}))?;
    let tracks = match tracks(test, &plan) {
        Ok(tracks) => tracks,
        Err(trouble) => {
            test.refuse(&trouble.to_string())?;
            return Err(trouble);
        }
    };
    test.channel.send(&json!({"ready": true}))?;
    let go = test.channel.receive("that it begins", PATIENCE)?;
    if go["go"] != json!(true) {
        return Err(Trouble::Nonsense("something else than that it begins".to_owned()));
    }
    let mut attendant = Attendant {
        test,
        heard: Instant::now(),
        beaten: Instant::now(),
        is_stopped: false,
        has_told: false,
        lost: None,
    };
    let seen = engine::run(&plan, &tracks, &mut |view| attendant.attend(view))?;
    let lost = attendant.lost.take();
    drop(tracks);
    let bytes: u64 = seen.end.work.bytes.unwrap_or(0);
    if let Some(trouble) = lost {
        return Err(trouble);
    }
    for message in told::messages(&seen) {
        test.channel.send(&message)?;
    }
    // The client closes when it has heard all of it.
    while let Ok(Some(_)) = test.channel.poll(PARTING) {}
    Ok(format!("stream: {bytes} bytes moved"))
}

fn title(plan: &Plan) -> String {
    let amount = match plan.until {
        Until::Time(time) => format!("{} s", time.as_secs_f64()),
        Until::Bytes(bytes) => format!("{bytes} bytes"),
    };
    format!(
        "stream: {} stream{} of {}, {amount}, we {}",
        plan.streams,
        if plan.streams == 1 { "" } else { "s" },
        plan.transport.name().to_uppercase(),
        match plan.direction {
            super::Direction::Both => "send and receive",
            direction => direction.name(),
        },
    )
}

/// The streams, as many as were announced.
fn tracks(test: &Test<'_>, plan: &Plan) -> Result<Vec<Track>, Trouble> {
    let mut found = BTreeMap::new();
    let ways = usize::from(plan.direction.sends()) + usize::from(plan.direction.receives());
    let until = Instant::now() + PATIENCE;
    while found.len() < usize::from(plan.streams) * ways {
        let (number, data) = test.data(until.saturating_duration_since(Instant::now()))?;
        let is_sent = number & RECEIVED != 0;
        let is_planned = if is_sent {
            plan.direction.sends()
        } else {
            plan.direction.receives()
        };
        let is_right = match &data {
            Data::Tcp(_) => plan.transport == Transport::Tcp,
            Data::Udp(_) => plan.transport == Transport::Udp,
        };
        if !is_planned || !is_right || number & !RECEIVED >= plan.streams {
            return Err(Trouble::Nonsense("a stream that was not announced".to_owned()));
        }
        match &data {
            Data::Tcp(socket) => engine::prepare(plan, socket.as_fd())?,
            Data::Udp(socket) => engine::prepare(plan, socket.as_fd())?,
        }
        found.insert(
            number,
            Track {
                number,
                is_sent,
                data,
            },
        );
    }
    Ok(found.into_values().collect())
}

/// Listens to the client while bytes move.
struct Attendant<'a, 'b> {
    test: &'a mut Test<'b>,
    heard: Instant,
    beaten: Instant,
    is_stopped: bool,
    has_told: bool,
    lost: Option<Trouble>,
}

impl Attendant<'_, '_> {
    fn attend(&mut self, view: &View<'_>) -> Wish {
        if view.is_done {
            return Wish::GoOn;
        }
        if self.lost.is_some() {
            std::thread::sleep(TICK);
            return Wish::Abandon;
        }
        if let Err(trouble) = self.exchange(view) {
            self.lost = Some(trouble);
            return Wish::Abandon;
        }
        if self.is_stopped || self.test.stop.is_set() {
            Wish::WindUp
        } else {
            Wish::GoOn
        }
    }

    fn exchange(&mut self, view: &View<'_>) -> Result<(), Trouble> {
        match self.test.channel.poll(TICK)? {
            Some(said) => {
                self.heard = Instant::now();
                self.is_stopped |= said["stop"] == json!(true);
            }
            None if self.heard.elapsed() >= SILENCE => {
                return Err(Trouble::Silent("a sign of life", SILENCE));
            }
            None => {}
        }
        if view.has_sent && !self.has_told && view.received().next().is_none() {
            self.has_told = true;
            self.test.channel.send(&json!({"done": true}))?;
        }
        if self.beaten.elapsed() >= BEAT {
            self.beaten = Instant::now();
            let beat: Vec<_> = view.received().collect();
            self.test.channel.send(&json!({"beat": beat}))?;
        }
        Ok(())
    }
}

/// How long a client may take for each of its steps.
const PATIENCE: Duration = Duration::from_secs(15);
const PARTING: Duration = Duration::from_secs(2);

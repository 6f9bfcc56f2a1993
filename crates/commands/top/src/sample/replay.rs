//! Samples of a store: the moments of recorded time, each with rates since the one before it.

use super::flows::FlowView;
use super::rows::{About, Rows};
use super::sink::{Sink, Totals};
use super::sockets::SocketView;
use super::{Out, Report, ScreenSink, context, last_of, require, taken_notes, words};
use crate::args::TopArgs;
use crate::state::Plan;
use crate::state::playback::Playback;
use crate::state::sample::Sample;
use crate::state::view::View;
use sockeye_console::notes::say;
use sockeye_output::listing::{Column, Record};
use sockeye_query::context::QueryContext;
use sockeye_query::listing::{Listing, ListingReport};
use sockeye_query::sampling::PreviousFlows;
use sockeye_query::{past, when};
use sockeye_store::{StoreReader, Toward};
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// A store that is played.
pub(crate) struct Replay {
    pub(crate) store: StoreReader,
    /// Time of the sample that is shown, in milliseconds since 1970.
    pub(crate) at_ms: u64,
    /// How many times faster than it was.
    pub(crate) speed: f64,
}

/// What was read of the moment before the one that is shown.
enum Before {
    Flows(Option<PreviousFlows>),
    Sockets(Box<SocketView<'static>>),
}

impl Replay {
    /// Reads moments until the screen is gone.
    pub(super) fn sample(mut self, args: &TopArgs, mut plan: Plan, plans: &Receiver<Plan>, out: &Out) {
        let mut followed = Playback::new();
        let first_ms = self.at_ms;
        let mut number = 0;
        loop {
            if let Some(asked) = plan.playback {
                let moved = self.follow(&followed, &asked);
                followed = asked;
                if let Err(error) = moved {
                    out.send(Report::Failed(format!("{error:#}")));
                }
            }
            match self.read(args, &plan) {
                Ok(mut sample) => {
                    number += 1;
                    sample.number = number;
                    sample.at = Duration::from_millis(self.at_ms.saturating_sub(first_ms));
                    (sample.view, sample.group_by) = (Some(plan.view), Some(plan.group_by));
                    sample.filter = plan.filter.as_str().into();
                    out.send(Report::Sample(Box::new(sample)));
                }
                Err(error) => out.send(Report::Failed(format!("{error:#}").trim().to_owned())),
            }
            match self.wait(plan, plans) {
                Some(next) => plan = next,
                None => return,
            }
        }
    }

    /// Waits until the next moment is due or something else is asked for; `None`: the screen is gone.
    fn wait(&mut self, plan: Plan, plans: &Receiver<Plan>) -> Option<Plan> {
        loop {
            let Some(playback) = plan.playback.filter(|playback| playback.is_playing) else {
                return plans.recv().ok().map(|next| last_of(next, plans));
            };
            let speed = self.speed * playback.faster();
            // A recorder may add samples behind the last one.
            let next_ms = self.store.next_sample(self.at_ms, Toward::Future).ok().flatten();
            let delay = next_ms.map_or(MORE_INTERVAL, |next_ms| delay(next_ms - self.at_ms, speed));
            match plans.recv_timeout(delay) {
                Ok(next) => return Some(last_of(next, plans)),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if let Some(next_ms) = next_ms {
                self.at_ms = next_ms;
                return Some(plan);
            }
        }
    }

    /// Goes where the keys since `followed` lead.
    fn follow(&mut self, followed: &Playback, asked: &Playback) -> anyhow::Result<()> {
        let minutes = asked.minutes - followed.minutes;
        if minutes != 0 {
            let there_ms = self.at_ms.saturating_add_signed(minutes * 60_000);
            let before_ms = self.store.next_sample(there_ms.saturating_add(1), Toward::Past)?;
            // Forward over a gap, which may be longer.
            let before_ms = before_ms.filter(|before_ms| minutes < 0 || *before_ms > self.at_ms);
            self.at_ms = match before_ms {
                Some(before_ms) => before_ms,
                None => self
                    .store
                    .next_sample(if minutes < 0 { there_ms } else { self.at_ms }, Toward::Future)?
                    .unwrap_or(self.at_ms),
            };
        }
        let samples = asked.samples - followed.samples;
        let toward = if samples < 0 { Toward::Past } else { Toward::Future };
        for _ in 0..samples.unsigned_abs() {
            let Some(there_ms) = self.store.next_sample(self.at_ms, toward)? else {
                break;
            };
            self.at_ms = there_ms;
        }
        Ok(())
    }

    /// Reads the moment that is shown.
    fn read(&self, args: &TopArgs, plan: &Plan) -> anyhow::Result<Sample> {
        let mut context = context(args, plan)?;
        let previous = past::previous(&self.store, self.at_ms)?;
        let mut before = None;
        if let Some(previous) = previous.as_ref().filter(|previous| previous.is_comparable()) {
            before = self.pass(args, plan, &mut context, previous.at_ms, None, &mut Unseen)?;
        }
        // Those of the moment before are of another time.
        taken_notes();
        let mut sink = ScreenSink::new(plan, None);
        self.pass(args, plan, &mut context, self.at_ms, before, &mut sink)?;
        let mut sample = sink.sample;
        sample.interval = plan.interval;
        sample.clock = when::local(self.at_ms).into();
        let mut notes = taken_notes();
        if let Some(gap) = previous.and_then(|previous| previous.gap) {
            sample.clock = format!("{} after a gap ({})", sample.clock, gap.reason.name()).into();
            let (from, to) = (when::local(gap.from_ms), when::local(gap.to_ms));
            notes = format!(
                "nothing is recorded from {from} to {to}: {}\n{notes}",
                gap.reason.name()
            );
        }
        if !is_recorded(plan.view) {
            sample.totals = format!("{} are not recorded", plan.view.name()).into();
        }
        sample.notes = notes.trim_end().into();
        Ok(sample)
    }

    /// Reads one moment after another one.
    fn pass(
        &self,
        args: &TopArgs,
        plan: &Plan,
        context: &mut QueryContext,
        at_ms: u64,
        before: Option<Before>,
        sink: &mut impl Sink,
    ) -> anyhow::Result<Option<Before>> {
        if !is_recorded(plan.view) {
            return Ok(None);
        }
        context.set_moment(past::moment(&self.store, at_ms)?);
        // It may come or be gone in other samples: the screen shows that there is nothing, and why.
        match context.check_netns() {
            Ok(()) => context.note_elsewhere(),
            Err(error) => say(&format!("sockeye: {error:#}\n")),
        }
        let mut listing = Listing::new(&args.common, &words(plan), None, context)?;
        require(&mut listing, plan);
        let mut report = listing.begin();
        let read = if matches!(plan.view, View::Sockets | View::Listeners) {
            let mut view = match before {
                Some(Before::Sockets(view)) => view,
                _ => Box::new(SocketView::new(&listing, plan, None)),
            };
            let mut rows = sink.begin(view.columns())?;
            let totals = view.take(&listing, listing.context, plan.watched, &mut rows, &mut report)?;
            sink.end(rows, totals, &report)?;
            Before::Sockets(view)
        } else {
            let previous = match before {
                Some(Before::Flows(previous)) => previous,
                _ => None,
            };
            let mut view = FlowView::new(&listing, plan, false).after(previous);
            let mut rows = sink.begin(view.columns())?;
            let totals = view.take(listing.context, &mut rows, &mut report)?;
            sink.end(rows, totals, &report)?;
            Before::Flows(view.into_previous())
        };
        listing.write_notes(&report, false);
        Ok(Some(read))
    }
}

/// Whether a store has what a view lists.
const fn is_recorded(view: View) -> bool {
    matches!(
        view,
        View::Flows | View::Sockets | View::Processes | View::Groups | View::Listeners
    )
}

/// Returns how long a sample is shown if the next one came so much later. A gap takes no longer than anything else may.
fn delay(apart_ms: u64, speed: f64) -> Duration {
    let seconds = apart_ms as f64 / 1000.0 / speed;
    Duration::from_secs_f64(seconds.clamp(DELAY_MIN.as_secs_f64(), DELAY_MAX.as_secs_f64()))
}

/// A moment that is read only for rates of the next one.
struct Unseen;

impl Sink for Unseen {
    type Rows<R: Record> = Self;

    fn begin<R: Record>(&mut self, _: Vec<&'static Column<R>>) -> io::Result<Self> {
        Ok(Self)
    }

    fn end<R: Record>(&mut self, _: Self, _: Totals, _: &ListingReport) -> io::Result<()> {
        Ok(())
    }
}

impl<R: Record> Rows<R> for Unseen {
    fn add(&mut self, _: &R::Row<'_>, _: &dyn Fn() -> About) -> io::Result<()> {
        Ok(())
    }
}

/// The shortest time that a sample is shown.
const DELAY_MIN: Duration = Duration::from_millis(50);
/// The longest.
const DELAY_MAX: Duration = Duration::from_secs(10);
/// Time until a sample is looked for behind the last one.
const MORE_INTERVAL: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delay_is_bounded_at_both_ends() {
        let ms = Duration::from_millis;
        assert_eq!(delay(10_000, 10.0), ms(1000));
        assert_eq!(delay(10_000, 10_000.0), DELAY_MIN);
        // A night without a recorder.
        assert_eq!(delay(8 * 3_600_000, 10.0), DELAY_MAX);
    }
}

//! Follows packets for a while.

use crate::args::PathArgs;
use crate::queues::QueueWatch;
use crate::selection::Selection;
use crate::stuck::StuckWatch;
use anyhow::Context as _;
use sockeye_console::notes::say;
use sockeye_drops::Reasons;
use sockeye_model::NetnsInode;
use sockeye_path::{AcceptFold, Direction, Ending, PathFold, PathReport};
use sockeye_query::listing::Listing;
use sockeye_source::Ends;
use sockeye_sys::interrupts::Interrupts;
use sockeye_tracepoints::{Accounting, PathOptions, PathWatch, Watch};
use sockeye_wire::drops::TCP;
use sockeye_wire::path::{Accepted, Counts, Journey, PathRecord, Point};
use std::io::IsTerminal as _;
use std::os::fd::AsFd as _;
use std::time::Instant;

/// What was seen.
pub(crate) struct Seen {
    pub(crate) report: PathReport,
    pub(crate) counts: Counts,
    pub(crate) accounting: Accounting,
    /// Records that could not be decoded.
    broken: u64,
    /// Journeys with more stamps than fit.
    pub(crate) truncated: u64,
    /// Packets that the kernel took for selected, and the filter does not select.
    pub(crate) not_selected: u64,
    /// Whether the time in accept queues is measured, if there is a listener.
    pub(crate) sees_accepts: bool,
    /// Accepted connections that are in no row.
    pub(crate) unlisted_accepts: u64,
    /// Packets that were received without a stamp.
    pub(crate) received_unseen: u64,
    pub(crate) elapsed_ns: u64,
    /// Whether a signal has ended it before its time.
    pub(crate) is_interrupted: bool,
}

impl Seen {
    /// Returns the number of journeys that did not come out of the ring whole.
    pub(crate) fn ring_lost(&self) -> u64 {
        self.accounting.total().lost + self.broken
    }
}

/// Follows packets until the time is over. `owned` lists the same sockets with their owners.
///
/// # Errors
/// When the programs do not run here.
pub(crate) fn follow(
    args: &PathArgs,
    listing: &Listing<'_>,
    owned: &Listing<'_>,
    reasons: Reasons,
    interrupts: &Interrupts,
) -> anyhow::Result<Seen> {
    let mut folding = Folding {
        selection: Selection::new(listing, args.netns == "all")?,
        reasons,
        fold: PathFold::new(args.sample),
        accepts: AcceptFold::default(),
        truncated: 0,
        not_selected: 0,
        received_unseen: 0,
        stuck: StuckWatch::begin(listing, owned)?,
        failed: None,
    };
    let ends = listing
        .targets
        .common_filter()
        .map_or(Ends::ANYWHERE, |resolved| resolved.ends);
    let mut queues = QueueWatch::begin(listing, ends.local);
    let options = PathOptions {
        ends,
        sample_every: args.sample,
        ring_bytes: args.common.ring,
        slots: args.slots,
        pid_namespace: sockeye_source::own_pid_namespace(),
        accepts: queues.has_listeners()?,
    };
    let mut watch = PathWatch::begin(&listing.context.engine, &options)
        .context("packets are followed by BPF programs in the kernel")?;
    folding.reasons.are_given = watch.has_reasons();
    for (event, error) in watch.missing() {
        if args.common.verbose {
            say(&format!("sockeye: path: no {event}: {error}\n"));
        }
    }
    if args.common.verbose || std::io::stderr().is_terminal() {
        say("sockeye: packets are followed; ^C ends and reports\n");
    }
    queues.start();
    let begin = Instant::now();
    let until = begin + args.duration;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || interrupts.caught().is_some() {
            break;
        }
        watch
            .wait(left.min(Watch::INTERVAL), &[interrupts.as_fd()])
            .context("wait for packets")?;
        watch.read(|record| folding.add(record));
        queues.look_in_time(folding.fold.devices())?;
        folding.stuck.look_in_time()?;
    }
    let elapsed = begin.elapsed();
    let end = watch
        .finish(|record| folding.add(record))
        .context("end watching")?;
    for journey in &end.unfinished {
        folding.add_journey(journey);
    }
    // Now the devices are known, too, from which no packet has come out.
    queues.look(folding.fold.devices())?;
    if let Some(error) = folding.failed {
        return Err(error);
    }
    let mut report = folding.fold.finish();
    report.add_queues(&queues.finish(), &folding.accepts);
    folding.stuck.finish(&mut report, watch.sees_accepts())?;
    Ok(Seen {
        report,
        sees_accepts: watch.sees_accepts(),
        unlisted_accepts: folding.accepts.unlisted(),
        received_unseen: folding.received_unseen,
        counts: end.counts,
        accounting: end.accounting,
        broken: end.broken,
        truncated: folding.truncated,
        not_selected: folding.not_selected,
        elapsed_ns: u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX),
        is_interrupted: elapsed < args.duration,
    })
}

struct Folding<'a> {
    selection: Selection<'a>,
    reasons: Reasons,
    fold: PathFold,
    accepts: AcceptFold,
    truncated: u64,
    not_selected: u64,
    received_unseen: u64,
    stuck: StuckWatch<'a>,
    failed: Option<anyhow::Error>,
}

impl Folding<'_> {
    fn add(&mut self, record: &PathRecord) {
        match record {
            PathRecord::Journey(journey) => self.add_journey(journey),
            PathRecord::Accepted(accepted) => self.add_accepted(accepted),
            PathRecord::Reading(reading) => self.fold.add_reading(reading),
        }
    }

    fn add_accepted(&mut self, accepted: &Accepted) {
        let Accepted {
            local, peer, netns, ..
        } = *accepted;
        let ends = [(Direction::In, local, peer, Some(NetnsInode(netns)))];
        match self.selection.direction_of_waiting(&ends) {
            Ok(Some(_)) => self.accepts.add(accepted),
            Ok(None) => {}
            Err(error) => {
                self.failed.get_or_insert(error);
            }
        }
    }

    fn add_journey(&mut self, journey: &Journey) {
        let direction = match self.selection.direction(journey) {
            Ok(Some(direction)) => direction,
            Ok(None) => {
                self.not_selected += 1;
                return;
            }
            Err(error) => {
                self.failed.get_or_insert(error);
                return;
            }
        };
        self.stuck.add_journey(journey);
        self.truncated += u64::from(journey.is_truncated);
        self.received_unseen += u64::from(is_received_unseen(journey));
        let reason = journey.reason.and_then(|reason| self.reasons.name(reason));
        let ending = match journey.end {
            None => Ending::Unfinished,
            Some(Point::Dropped) if self.is_drop(journey) || reason.as_deref() == Some(OTHER_HOST) => {
                Ending::Dropped(reason.as_deref().unwrap_or_default())
            }
            Some(Point::Divided) => Ending::Divided,
            Some(Point::Merged) => Ending::Merged,
            Some(Point::Consumed | Point::Lost) if is_reassembled(journey) => Ending::Reassembled,
            Some(Point::Lost) if is_merged(journey) => Ending::Merged,
            Some(Point::Lost | Point::Unknown(_)) => Ending::Lost,
            Some(_) => Ending::Complete,
        };
        self.fold.add(journey, direction, ending);
    }

    /// Whether a packet that was freed with a reason, or without one on older kernels, was dropped.
    fn is_drop(&self, journey: &Journey) -> bool {
        let class = journey.reason.and_then(|reason| self.reasons.class(reason));
        class != Some(sockeye_dictionary::DropClass::Normal)
    }
}

/// What a device receives and is for another one: the kernel frees it, as each host does that a switch floods. The way of a packet that was
/// selected ends there.
const OTHER_HOST: &str = "OTHERHOST";

/// Whether a packet was read by a program, or sent on, and no program has run where this host had received it before.
fn is_received_unseen(journey: &Journey) -> bool {
    let last = journey.stamps.last().map(|stamp| stamp.point);
    journey.end == Some(Point::Consumed) && last == Some(Point::Transmitted)
        || journey.stamps.iter().any(|stamp| stamp.point == Point::Unseen)
}

/// Whether a fragment that ended where this host has received it was reassembled with the others.
fn is_reassembled(journey: &Journey) -> bool {
    let last = journey.stamps.last().map(|stamp| stamp.point);
    journey.is_first_fragment && matches!(last, Some(Point::Received | Point::Routed))
}

/// Whether a packet that was freed without a trace was merged into another one: TCP does that with what it has received, and with nothing
/// else.
fn is_merged(journey: &Journey) -> bool {
    let last = journey.stamps.last().map(|stamp| stamp.point);
    journey.protocol == TCP
        && matches!(
            last,
            Some(Point::Received | Point::Routed | Point::Arrived | Point::Disordered | Point::Delivered)
        )
}

//! Reads the host, in a thread of its own: a plan in, samples out.

mod details;
mod devices;
mod drops;
mod findings;
mod flows;
mod host_names;
mod limit;
pub(crate) mod pacing;
mod places;
mod presence;
mod processes;
mod replay;
mod rows;
mod sink;
mod sockets;
mod source;

pub(crate) use places::Places;
pub(crate) use replay::Replay;
pub(crate) use rows::{About, Rows};
pub(crate) use sink::{Sink, Totals};
pub(crate) use source::{Source, require};

use crate::args::TopArgs;
use crate::state::Plan;
use crate::state::sample::Sample;
use crate::state::table::Order;
use crate::state::view::View;
use crate::tool::Outcome;
use host_names::HostNames;
use rows::TopRows;
use rustix::event::{EventfdFlags, eventfd};
use sockeye_console::notes;
use sockeye_model::GroupBy;
use sockeye_output::flow::{Flows, connections};
use sockeye_output::listing::{Column, Record, find_column};
use sockeye_output::socket::Sockets;
use sockeye_query::context::QueryContext;
use sockeye_query::listing::{Listing, ListingReport, tests_netns};
use sockeye_query::namespaces::Namespace;
use sockeye_sys::local_time::LocalTime;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::time::{Duration, Instant};

/// What the sampling thread says.
#[derive(Debug)]
pub(crate) enum Report {
    Sample(Box<Sample>),
    /// Nothing could be read as planned; it is tried again.
    Failed(String),
    /// A command that a key started has ended.
    Done(Outcome),
}

/// Where samples come from.
pub(crate) enum Origin {
    /// The host, now.
    Host,
    /// A store.
    Store(Replay),
}

/// The sampling thread, as the screen sees it.
#[derive(Debug)]
pub(crate) struct Sampling {
    plans: Sender<Plan>,
    pub(crate) reports: Receiver<Report>,
    /// Readable when there is a report.
    pub(crate) ready: Arc<OwnedFd>,
    /// Where further reports can be sent.
    pub(crate) out: Out,
}

impl Sampling {
    /// Starts the thread. It ends when this is dropped.
    pub(crate) fn begin(args: Arc<TopArgs>, plan: Plan, origin: Origin) -> io::Result<Self> {
        let ready = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let (plans, planned) = channel();
        let (sender, reports) = channel();
        let out = Out {
            sender,
            ready: Arc::clone(&ready),
        };
        let of_thread = out.clone();
        std::thread::Builder::new()
            .name("sampling".to_owned())
            .spawn(move || match origin {
                Origin::Host => sample(&args, plan, &planned, &of_thread),
                Origin::Store(replay) => replay.sample(&args, plan, &planned, &of_thread),
            })?;
        Ok(Self {
            plans,
            reports,
            ready,
            out,
        })
    }

    /// Changes what is sampled.
    pub(crate) fn plan(&self, plan: Plan) {
        // Only a thread that panicked has ended.
        let _ = self.plans.send(plan);
    }
}

/// Where reports go.
#[derive(Debug, Clone)]
pub(crate) struct Out {
    sender: Sender<Report>,
    ready: Arc<OwnedFd>,
}

impl Out {
    pub(crate) fn send(&self, report: Report) {
        if self.sender.send(report).is_ok() {
            // A full counter is readable too.
            let _ = rustix::io::write(&self.ready, &1_u64.to_ne_bytes());
        }
    }
}

/// Opens what all samples of a program share. Namespaces are known to sockets if the filter or the grouping needs them.
pub(crate) fn context(args: &TopArgs, plan: &Plan) -> anyhow::Result<QueryContext> {
    let needs_netns = plan.group_by == GroupBy::Netns || tests_netns(std::slice::from_ref(&plan.filter));
    let of_past = plan.playback.is_some();
    let mut context = QueryContext::for_time(&args.common, args.resolve, needs_netns, of_past)?;
    context.is_column = |name| find_column::<Flows>(name).is_ok() || find_column::<Sockets>(name).is_ok();
    Ok(context)
}

/// Takes samples until the screen is gone.
fn sample(args: &TopArgs, mut plan: Plan, plans: &Receiver<Plan>, out: &Out) {
    let mut lasting = Lasting {
        started: Instant::now(),
        number: 0,
        host_names: None,
    };
    loop {
        let sampled = context(args, &plan)
            .and_then(|context| sample_plan(args, &context, &mut lasting, &mut plan, plans, out));
        match sampled {
            Ok(End::OtherPlan) => continue,
            Ok(End::Gone) => return,
            Err(error) => out.send(Report::Failed(format!("{error:#}").trim().to_owned())),
        }
        // What has failed may be right the next time: a namespace has ended, descriptors were short for a moment.
        match plans.recv_timeout(plan.interval.max(RETRY_MIN)) {
            Ok(next) => plan = last_of(next, plans),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// What lasts from plan to plan.
struct Lasting {
    started: Instant,
    /// Number of the last sample; 0 before the first one.
    number: u64,
    /// `None` before the first plan.
    host_names: Option<HostNames>,
}

/// Why samples of a plan end.
enum End {
    OtherPlan,
    Gone,
}

/// Takes samples as long as the plan reads the same.
fn sample_plan(
    args: &TopArgs,
    context: &QueryContext,
    lasting: &mut Lasting,
    plan: &mut Plan,
    plans: &Receiver<Plan>,
    out: &Out,
) -> anyhow::Result<End> {
    let begin = || HostNames::begin(args.common.numeric, context);
    let host_names = lasting.host_names.get_or_insert_with(begin);
    let mut listing = Listing::new(&args.common, &words(plan), None, context)?;
    require(&mut listing, plan);
    let places = Places::open(&args.mmdb)?;
    let place_of = |ip| places.of(ip);
    let mut source = Source::new(&listing, plan, &places);
    let mut next_search = Instant::now() + SEARCH_INTERVAL;
    let mut sampled = pacing::cpu_time();
    loop {
        let (begun, cpu) = (Instant::now(), pacing::cpu_time());
        let between = cpu.saturating_sub(sampled);
        if context.namespaces.are_many() && begun >= next_search {
            next_search = begun + SEARCH_INTERVAL;
            if has_new_namespace(args, plan, context)? {
                return Ok(End::OtherPlan);
            }
        }
        let mut report = listing.begin();
        let mut sink = ScreenSink::new(plan, args.resolve.then_some(context));
        host_names.read();
        source.take(
            &listing,
            plan,
            &host_names.with(context, &place_of),
            &mut report,
            &mut sink,
        )?;
        listing.write_notes(&report, false);
        let mut sample = sink.sample;
        lasting.number += 1;
        sampled = pacing::cpu_time();
        let spent = pacing::cost(sampled.saturating_sub(cpu), between);
        sample.number = lasting.number;
        sample.at = begun.duration_since(lasting.started);
        (sample.view, sample.group_by) = (Some(plan.view), Some(plan.group_by));
        sample.filter = plan.filter.as_str().into();
        sample.clock = clock();
        sample.interval = pacing::interval(plan.interval, spent);
        sample.notes = taken_notes().into();
        let interval = sample.interval;
        out.send(Report::Sample(Box::new(sample)));
        // The first rates come soon.
        let interval = if lasting.number == 1 {
            interval.min(FIRST_INTERVAL).max(spent * 2)
        } else {
            interval
        };
        let mut until = begun + interval;
        // Sooner if a key asks for it, but not more often than is cheap.
        let soonest = until.min(begun + pacing::interval(Duration::ZERO, spent));
        loop {
            let next = match plans.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(next) => last_of(next, plans),
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => return Ok(End::Gone),
            };
            let is_same = reads_the_same(plan, &next);
            if asks_for_more(plan, &next) {
                until = soonest;
            }
            *plan = next;
            if !is_same {
                return Ok(End::OtherPlan);
            }
        }
    }
}

/// Whether there is a namespace that was not there when the samples began.
fn has_new_namespace(args: &TopArgs, plan: &Plan, known: &QueryContext) -> anyhow::Result<bool> {
    let now = context(args, plan)?;
    let mut found = now.namespaces.iter().flatten().map(Namespace::inode);
    Ok(found.any(|inode| known.namespaces.with_inode(inode).is_none()))
}

/// Returns what was noted since the last sample, as lines.
fn taken_notes() -> String {
    let notes = notes::take();
    let lines = notes
        .lines()
        .map(|line| line.strip_prefix("sockeye: ").unwrap_or(line));
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the newest of the plans that wait.
fn last_of(mut plan: Plan, plans: &Receiver<Plan>) -> Plan {
    loop {
        match plans.try_recv() {
            Ok(next) => plan = next,
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => return plan,
        }
    }
}

/// Whether the samples of a plan can go on with another one, so that its first one has rates.
fn reads_the_same(a: &Plan, b: &Plan) -> bool {
    a.view == b.view && a.filter == b.filter && (a.group_by == b.group_by || a.view != View::Groups)
}

/// Whether another plan asks for what the last sample does not have.
fn asks_for_more(last: &Plan, next: &Plan) -> bool {
    let watches_another = next.watched.is_some() && next.watched != last.watched;
    next.interval < last.interval || next.order != last.order || watches_another
}

/// Returns the words of the filter.
pub(crate) fn words(plan: &Plan) -> Vec<String> {
    Some(plan.filter.clone())
        .filter(|filter| !filter.is_empty())
        .into_iter()
        .collect()
}

/// Keeps a sample for the screen.
struct ScreenSink<'a> {
    order: Order,
    is_filtered: bool,
    /// Who looks up the names of hosts; `None` if they stay numbers.
    resolver: Option<&'a QueryContext>,
    sample: Sample,
}

impl<'a> ScreenSink<'a> {
    fn new(plan: &Plan, resolver: Option<&'a QueryContext>) -> Self {
        Self {
            order: plan.order,
            is_filtered: !plan.filter.is_empty(),
            resolver,
            sample: Sample::default(),
        }
    }
}

impl Sink for ScreenSink<'_> {
    type Rows<R: Record> = TopRows<R>;

    fn begin<R: Record>(&mut self, columns: Vec<&'static Column<R>>) -> io::Result<TopRows<R>> {
        Ok(TopRows::new(columns, self.order))
    }

    fn end<R: Record>(&mut self, rows: TopRows<R>, totals: Totals, _: &ListingReport) -> io::Result<()> {
        if let Some(resolver) = self.resolver {
            // The next sample has their names.
            resolver.hosts(rows.addresses());
        }
        let connections = totals
            .connections
            .map(|sums| connections::line(&sums, self.is_filtered));
        self.sample.table = rows.finish();
        self.sample.totals = connections.unwrap_or(totals.text).trim_end().into();
        self.sample.details = totals.details;
        Ok(())
    }
}

/// Returns the time of day.
pub(crate) fn clock() -> Box<str> {
    let LocalTime {
        hour, minute, second, ..
    } = LocalTime::now();
    format!("{hour:02}:{minute:02}:{second:02}").into()
}

/// Time between the first two samples, at most.
const FIRST_INTERVAL: Duration = Duration::from_millis(500);
/// Time between two searches for new namespaces.
const SEARCH_INTERVAL: Duration = Duration::from_secs(30);
/// Shortest time until what has failed is tried again.
const RETRY_MIN: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::table::SocketId;
    use sockeye_model::Cookie;

    #[derive(clap::Parser)]
    struct Program {
        #[command(flatten)]
        args: TopArgs,
    }

    fn plan() -> Plan {
        Plan {
            view: View::Sockets,
            group_by: GroupBy::Netns,
            filter: "dport = ".to_owned(),
            order: View::Sockets.order(),
            interval: Duration::from_millis(1),
            watched: None,
            playback: None,
        }
    }

    #[test]
    fn sample_comes_sooner_for_what_the_last_one_does_not_have() {
        let socket = |cookie| SocketId {
            netns: None,
            cookie: Cookie(cookie),
        };
        let watching = |cookie| Plan {
            watched: Some(socket(cookie)),
            ..plan()
        };
        assert!(asks_for_more(&plan(), &watching(1)));
        assert!(asks_for_more(&watching(2), &watching(1)));
        assert!(!asks_for_more(&watching(1), &watching(1)));
        assert!(!asks_for_more(&watching(1), &plan()));
        let by_owner = Plan {
            order: Order {
                column: "owners",
                descending: false,
            },
            ..plan()
        };
        assert!(asks_for_more(&plan(), &by_owner));
    }

    #[test]
    fn what_failed_is_tried_again() {
        let args = <Program as clap::Parser>::parse_from(["top"]).args;
        let sampling = Sampling::begin(Arc::new(args), plan(), Origin::Host).unwrap();
        for _ in 0..2 {
            let report = sampling.reports.recv_timeout(Duration::from_secs(60));
            assert!(matches!(report, Ok(Report::Failed(_))), "{report:?}");
        }
    }
}

//! Samples of flows, one after the other, with what changed from one to the next: rates by the counters of the connections that both
//! have, and by the kernel's events those of connections that opened or closed between them.

mod between;
mod ends;
mod opens;
mod recorded;
mod resets;
mod time;
mod watched;

pub use self::between::{Between, EndedCounts};
pub use self::ends::{EndedConnection, EndedConnections, EndedSince};
use self::opens::Opens;
pub use self::recorded::{RecordedFlows, recorded_flows};
pub use self::resets::{Reset, ResetCounter, ResetCounts};
pub use self::time::SampleTime;
use crate::listing::{EntryThreads, Listing, ListingReport, QueryOptions, Scope, TakeEntry};
use anyhow::Context;
use sockeye_filter::Resolve;
use sockeye_flow::{Ended, Fold, FoldedFlows, Listeners, Sample};
use sockeye_model::{ConnectionTotals, Direction, Entry, GroupBy, Protocol, ProtocolSet, State, StateSet};
use sockeye_output::Envelope;
use sockeye_source::owners::Owners;
use sockeye_source::{Detail, Families};
use std::ops::{ControlFlow, RangeInclusive};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What the samples have.
#[derive(Debug, Clone, Copy)]
pub struct SamplingOptions {
    /// By what connections are folded.
    pub group_by: GroupBy,
    /// The protocol of the connections.
    pub protocol: Protocol,
    /// States of the connections that are folded.
    pub states: StateSet,
    /// Whether `tcp_info` is summed up.
    pub totals: bool,
    /// Whether there is more than one sample: connections are followed from one to the next.
    pub rates: bool,
}

/// Takes one sample after the other.
#[derive(Debug)]
pub struct FlowSampler<'a> {
    listing: &'a Listing<'a>,
    options: SamplingOptions,
    between: Option<Between>,
    before: Option<PreviousFlows>,
}

/// What a sample is compared with.
#[derive(Debug)]
pub struct PreviousFlows {
    sample: Sample,
    /// When its connections were read.
    taken: SampleTime,
    /// Counters after it; `None` if unknown.
    opens: Option<Opens>,
}

/// What sees the sockets of a sample as they are read, since the flows do not have single sockets.
pub trait SampleVisitor {
    /// A listener, with its queues and owners; all come before the first connection.
    fn listener(&mut self, entry: &Entry<'_>);
    /// A connection that is folded, or that waits for the answer to its SYN.
    fn connection(&mut self, entry: &Entry<'_>, direction: Direction);
    /// A connection request that a listener has not accepted yet.
    fn request(&mut self, entry: &Entry<'_>);
}

/// One sample.
#[derive(Debug)]
pub struct FlowSample {
    /// The flows. Their rates are those since the sample before.
    pub flows: FoldedFlows,
    /// What became of all connections since the sample before; `None` in the first one, and if it is unknown.
    pub totals: Option<ConnectionTotals>,
    /// When the connections were read.
    pub taken: Instant,
    /// The same by the clock, for documents.
    pub envelope: Envelope,
    /// Whether it has a sample before it.
    pub has_rates: bool,
}

impl<'a> FlowSampler<'a> {
    /// Prepares the samples of a listing.
    #[must_use]
    pub const fn new(listing: &'a Listing<'a>, options: SamplingOptions) -> Self {
        Self {
            listing,
            options,
            between: None,
            before: None,
        }
    }

    /// Compares the next sample with one that another sampler took: a listing is of one recorded moment.
    #[must_use]
    pub fn after(mut self, previous: Option<PreviousFlows>) -> Self {
        self.before = previous;
        self
    }

    /// Returns what the next sample is compared with; `None` before the first one.
    #[must_use]
    pub fn into_previous(self) -> Option<PreviousFlows> {
        self.before
    }

    /// Begins to watch what happens between samples, which only TCP reports. `needs_owners`: also who owned what ended.
    ///
    /// # Errors
    /// Why it is not seen. Samples can be taken all the same, and [`FlowSample::totals`] says how many connections they miss.
    pub fn watch_between(&mut self, needs_owners: bool) -> Result<(), String> {
        if self.options.rates && self.options.protocol == Protocol::Tcp {
            self.between = Some(Between::begin(self.listing, needs_owners)?);
        }
        Ok(())
    }

    /// Takes a sample. Listeners are read first, since they decide the direction, then connections.
    ///
    /// # Errors
    /// If the sockets could not be listed, or the events not be read.
    pub fn sample(&mut self, report: &mut ListingReport) -> anyhow::Result<FlowSample> {
        self.take(report, None)
    }

    /// As [`Self::sample`], and shows each socket to `visitor`.
    ///
    /// # Errors
    /// As there.
    pub fn sample_visiting(
        &mut self,
        report: &mut ListingReport,
        visitor: &mut dyn SampleVisitor,
    ) -> anyhow::Result<FlowSample> {
        self.take(report, Some(visitor))
    }

    fn take(
        &mut self,
        report: &mut ListingReport,
        mut visitor: Option<&mut dyn SampleVisitor>,
    ) -> anyhow::Result<FlowSample> {
        let owners = self.listing.owners_before(&self.connections(None), report)?;
        let listeners = match &mut visitor {
            None => self.listeners(report, None, Detail::OPTIONS, &mut |_| {})?,
            Some(visitor) => {
                let detail = Detail::OPTIONS | Detail::QUEUES | Detail::INODE;
                self.listeners(report, owners.as_ref(), detail, &mut |entry| {
                    visitor.listener(entry);
                })?
            }
        };
        let before = self.before.take();
        // Read before this sample and after the last one: what they count lies between the two samples.
        let looks_back = self.listing.context.looks_back();
        let counts_opens = self.options.rates && self.options.protocol == Protocol::Tcp && !looks_back;
        let opens = before
            .as_ref()
            .filter(|_| counts_opens)
            .and_then(|_| Opens::read(self.listing));
        // The time to find owners must not count for rates.
        let (taken, envelope) = (
            SampleTime::now(self.listing.context),
            self.listing.context.envelope(),
        );
        let elapsed = before
            .as_ref()
            .map_or(Duration::ZERO, |before| taken.since(&before.taken));
        let mut fold =
            Fold::new(self.options.group_by, &listeners).with_ended_servers(self.ephemeral_ports());
        if self.options.totals {
            fold = fold.with_totals();
        }
        if self.options.rates {
            let before = before.as_ref();
            fold = fold.with_rates(before.map(|before| (&before.sample, elapsed)));
        }
        let mut connections = self.connections(owners.as_ref());
        if visitor.is_some() {
            connections.states = connections.states.or(HALF_OPEN);
        }
        let model = fold.for_thread().filter(|_| visitor.is_none());
        let threads = FoldThreads {
            model,
            states: self.options.states,
            folds: Mutex::default(),
        };
        self.listing.run_on_threads(
            &connections,
            owners.as_ref(),
            report,
            &mut |entry, matches| {
                if HALF_OPEN.contains(entry.socket.state) {
                    match visitor.as_mut().filter(|_| matches) {
                        Some(visitor) if entry.socket.state == State::SynSent => {
                            visitor.connection(entry, Direction::Active);
                        }
                        Some(visitor) => visitor.request(entry),
                        None => {}
                    }
                } else if matches && self.options.states.contains(entry.socket.state) {
                    fold.add(entry);
                    if let Some(visitor) = &mut visitor {
                        visitor.connection(entry, fold.direction(entry.socket));
                    }
                } else {
                    fold.skip(entry.socket);
                }
                ControlFlow::Continue(())
            },
            &threads,
        )?;
        let folds = threads.folds.into_inner().unwrap_or_else(PoisonError::into_inner);
        folds.into_iter().for_each(|other| fold.add_fold(other));
        let opens_after = counts_opens.then(|| Opens::read(self.listing)).flatten();
        let between = self.between.as_mut();
        let ended = between.map(|between| between.add_to(&mut fold, self.listing, owners.as_ref()));
        let ended = ended.transpose().context("read the counts of events")?;
        let are_recorded_exactly = looks_back && self.options.rates && self.add_recorded_ends(&mut fold)?;
        let folded = fold.finish();
        let mut flows = folded.flows;
        let totals = before.as_ref().and_then(|before| {
            let (begun, now, then) = (opens.as_ref()?, opens_after.as_ref()?, before.opens.as_ref()?);
            Some(now.since(begun, then, folded.opened, ended, elapsed))
        });
        let is_exact =
            are_recorded_exactly || ended.is_some_and(|ended| ended.lost == 0 && ended.undecided == 0);
        if !is_exact && totals.is_none_or(|totals| totals.unseen > 0) {
            forget_inexact_rates(&mut flows);
        }
        self.before = Some(PreviousFlows {
            sample: folded.sample,
            taken,
            opens: opens_after,
        });
        Ok(FlowSample {
            flows,
            totals,
            taken: taken.read(),
            envelope,
            has_rates: before.is_some(),
        })
    }

    /// Adds the connections that a recorded sample has as ended since the one before. Returns whether it has all of them.
    fn add_recorded_ends(&self, fold: &mut Fold<'_>) -> anyhow::Result<bool> {
        if self.options.protocol != Protocol::Tcp {
            return Ok(false);
        }
        let options = QueryOptions {
            states: StateSet::EMPTY.with(State::Close),
            ..self.connections(None)
        };
        // What was lost counts once.
        let mut report = self.listing.begin();
        let owners = self.listing.owners(&mut report)?;
        self.listing
            .run(&options, owners.as_ref(), &mut report, &mut |entry, matches| {
                let mut socket = entry.socket.clone();
                socket.state = State::Established;
                let direction = fold.direction(&socket);
                let ended = Ended {
                    matches,
                    opened: true,
                    direction: Some(direction),
                    // As live events are counted.
                    syn_bytes: u64::from(direction == Direction::Active),
                };
                fold.add_ended(
                    &Entry {
                        socket: &socket,
                        ..*entry
                    },
                    ended,
                );
                ControlFlow::Continue(())
            })?;
        Ok(self.listing.context.knows_recorded_ends())
    }

    /// Returns the local ports of clients: of one namespace those that it has now, of many the kernel's default.
    fn ephemeral_ports(&self) -> RangeInclusive<u16> {
        let context = self.listing.context;
        let mut all = context.namespaces.iter();
        match (all.next(), all.next()) {
            (Some(one), None) if !context.looks_back() => context.resolver(one).ephemeral_ports(),
            _ => 32_768..=60_999,
        }
    }

    /// Reads the listeners, and shows each one that the filter selects to `visit`.
    fn listeners(
        &self,
        report: &mut ListingReport,
        owners: Option<&Owners>,
        detail: Detail,
        visit: &mut dyn FnMut(&Entry<'_>),
    ) -> anyhow::Result<Listeners> {
        let mut listeners = Listeners::default();
        let state = match self.options.protocol {
            Protocol::Udp => State::Close,
            _ => State::Listen,
        };
        let options = QueryOptions {
            protocols: ProtocolSet::of(&[self.options.protocol]),
            families: Families::BOTH,
            states: StateSet::EMPTY.with(state),
            // The options show whether it accepts only IPv6.
            detail,
            scope: Scope::All,
        };
        self.listing
            .run(&options, owners, report, &mut |entry, matches| {
                listeners.add(entry.socket);
                if matches {
                    visit(entry);
                }
                ControlFlow::Continue(())
            })?;
        Ok(listeners)
    }

    fn connections(&self, owners: Option<&Owners>) -> QueryOptions {
        let SamplingOptions {
            group_by,
            protocol,
            states,
            totals,
            rates,
        } = self.options;
        QueryOptions {
            protocols: ProtocolSet::of(&[protocol]),
            families: self.listing.families(),
            // States and round trip times change between samples, and must not decide which connections are followed.
            states: if rates { StateSet::FLOWS } else { states },
            detail: Detail::INODE.when(owners.is_some())
                | (Detail::INODE | Detail::OPTIONS).when(matches!(group_by, GroupBy::Workload(_)))
                | Detail::USER.when(group_by == GroupBy::Uid)
                | Detail::COOKIE.when(rates)
                | Detail::TCP_INFO.when(totals || rates),
            scope: if rates { Scope::All } else { Scope::Matching },
        }
    }
}

/// Folds the connections of other threads, each in a fold of its own.
struct FoldThreads<'a> {
    /// `None` if one thread has to see all connections.
    model: Option<Fold<'a>>,
    states: StateSet,
    folds: Mutex<Vec<Fold<'a>>>,
}

impl EntryThreads for FoldThreads<'_> {
    fn may_begin(&self) -> bool {
        self.model.is_some()
    }

    fn on_thread(&self, read: &mut dyn FnMut(TakeEntry<'_>)) {
        let Some(mut fold) = self.model.as_ref().and_then(Fold::for_thread) else {
            return;
        };
        read(&mut |entry, matches| {
            let state = entry.socket.state;
            if matches && self.states.contains(state) && !HALF_OPEN.contains(state) {
                fold.add(entry);
            }
            ControlFlow::Continue(())
        });
        let mut folds = self.folds.lock().unwrap_or_else(PoisonError::into_inner);
        folds.push(fold);
    }
}

/// Connections without an answer yet, of both ends: they are in no flow.
const HALF_OPEN: StateSet = StateSet::EMPTY
    .with(State::SynSent)
    .with(State::SynRecv)
    .with(State::NewSynRecv);

/// Removes rates that would be wrong: which flows the connections belong to that no sample has is unknown, and without counters
/// whether there are any.
fn forget_inexact_rates(flows: &mut FoldedFlows) {
    for rates in flows.rates_mut() {
        (rates.opened_per_s, rates.closed_per_s) = (None, None);
        // A rate is at least that of the connections that were seen: 0 says nothing.
        for rate in [
            &mut rates.sent_bytes_per_s,
            &mut rates.received_bytes_per_s,
            &mut rates.retrans_segs_per_s,
        ] {
            *rate = rate.filter(|rate| *rate > 0.0);
        }
    }
}

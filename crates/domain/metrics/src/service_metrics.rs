//! What is known of one service.

use crate::{Counted, Histogram};
use sockeye_model::State;

/// A service in one sample.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ServiceSample {
    /// Connections by state, indexed by the state's number.
    pub states: [u64; 14],
    /// Its listeners; `None` for a service that is used from here.
    pub listeners: Option<ListenerQueues>,
    /// What happened since the sample before.
    pub counted: Counted,
    /// Round trip times of connections that were heard of since the sample before.
    pub rtt: Histogram,
}

/// The queues of the listeners of a service, added up.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ListenerQueues {
    /// Number of listeners.
    pub listeners: u64,
    /// Connections that wait for `accept`; `None` if unknown.
    pub waiting: Option<u64>,
    /// The most that may wait; `None` if unknown.
    pub backlog: Option<u64>,
    /// The largest share of its backlog that one of them uses; `None` if unknown.
    pub fullest: Option<f64>,
    /// Connection requests that are not established yet.
    pub requests: u64,
}

/// A service over all samples.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ServiceMetrics {
    /// The last sample.
    pub(crate) last: ServiceSample,
    /// Counts since the begin.
    pub(crate) counted: Counted,
    /// Round trip times since the begin.
    pub(crate) rtt: Histogram,
    /// Samples that did not have it, since one that had.
    pub(crate) samples_absent: u32,
}

impl ServiceSample {
    /// Returns the number of its connections.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.states.iter().sum()
    }

    /// Returns each state that connections can have, with their number.
    pub fn by_state(&self) -> impl Iterator<Item = (State, u64)> {
        CONNECTION_STATES
            .into_iter()
            .map(|state| (state, self.states[usize::from(state.number())]))
    }

    /// Adds another service of the same sample.
    pub fn add(&mut self, more: &Self) {
        for (count, more) in self.states.iter_mut().zip(more.states) {
            *count += more;
        }
        if let Some(more) = more.listeners {
            self.listeners.get_or_insert_default().add(more);
        }
        self.counted.add(&more.counted);
        self.rtt.add(&more.rtt);
    }
}

impl ListenerQueues {
    /// Returns the queue of one listener.
    #[must_use]
    pub fn of(waiting: Option<u32>, backlog: Option<u32>) -> Self {
        let share = |(waiting, backlog)| f64::from(waiting) / f64::from(std::cmp::max(backlog, 1_u32));
        Self {
            listeners: 1,
            waiting: waiting.map(u64::from),
            backlog: backlog.map(u64::from),
            fullest: waiting.zip(backlog).map(share),
            requests: 0,
        }
    }

    /// Adds those of other listeners.
    pub fn add(&mut self, more: Self) {
        let add = |sum: Option<u64>, more: Option<u64>| match (sum, more) {
            (Some(sum), Some(more)) => Some(sum + more),
            (sum, more) => sum.or(more),
        };
        self.listeners += more.listeners;
        self.waiting = add(self.waiting, more.waiting);
        self.backlog = add(self.backlog, more.backlog);
        self.fullest = match (self.fullest, more.fullest) {
            (Some(one), Some(other)) => Some(one.max(other)),
            (one, other) => one.or(other),
        };
        self.requests += more.requests;
    }
}

impl ServiceMetrics {
    /// Adds a sample; `None`: it does not have this service.
    pub(crate) fn add(&mut self, sample: Option<ServiceSample>) {
        self.samples_absent = if sample.is_some() {
            0
        } else {
            self.samples_absent.saturating_add(1)
        };
        let sample = sample.unwrap_or_default();
        self.counted.add(&sample.counted);
        self.rtt.add(&sample.rtt);
        self.last = sample;
    }
}

/// The states that a connection can have.
const CONNECTION_STATES: [State; 9] = [
    State::SynSent,
    State::SynRecv,
    State::Established,
    State::FinWait1,
    State::FinWait2,
    State::TimeWait,
    State::CloseWait,
    State::LastAck,
    State::Closing,
];

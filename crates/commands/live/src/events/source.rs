//! Where events come from: BPF programs at tracepoints, or the kernel's own reports of destroyed sockets with polling.

use super::by_diag::DiagWatch;
use clap::ValueEnum;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use sockeye_model::ConnectionEvent;
use sockeye_tracepoints::{Accounting, ConnectionWatch, CountedAside, Untracked};
use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// What `--source` selects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum EventSourceArg {
    /// The best that works
    Auto,
    /// Sockeye's BPF programs only
    Bpf,
    /// sock_diag only: closes as the kernel reports them, opens by polling
    Diag,
}

/// A source of events.
#[derive(Debug)]
pub(crate) enum EventSource<'a> {
    Bpf(Box<ConnectionWatch>),
    Diag(Box<DiagWatch<'a>>),
}

impl EventSource<'_> {
    /// Returns its name, as `doctor` and JSON have it.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Bpf(_) => "bpf",
            Self::Diag(_) => "sock_diag",
        }
    }

    /// Waits for events, until the time is over or one of `others` is readable. While there are none the first one ends it, after `idle` at most.
    pub(crate) fn wait(
        &self,
        timeout: Duration,
        idle: Duration,
        others: &[BorrowedFd<'_>],
    ) -> Result<(), Errno> {
        match self {
            Self::Bpf(watch) => watch.wait_for_first(timeout, idle, others),
            Self::Diag(_) => {
                let timeout = Timespec::try_from(timeout).map_err(|_| Errno::INVAL)?;
                let mut polled: Vec<_> = others.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
                match poll(&mut polled, Some(&timeout)) {
                    Ok(_) | Err(Errno::INTR) => Ok(()),
                    Err(errno) => Err(errno),
                }
            }
        }
    }

    /// Passes the events that are there to `take`, at most [`Self::BATCH_RECORDS`]. Returns whether there may be more.
    ///
    /// `take` is no `dyn`: its argument would be copied once more.
    #[inline]
    pub(crate) fn read(&mut self, mut take: impl FnMut(ConnectionEvent)) -> anyhow::Result<bool> {
        match self {
            Self::Bpf(watch) => {
                let taken = watch.read_some(Self::BATCH_RECORDS, |record| {
                    if let Some(event) = ConnectionEvent::from_wire(record) {
                        take(event);
                    }
                });
                Ok(taken == Self::BATCH_RECORDS)
            }
            Self::Diag(watch) => {
                watch.read(&mut take)?;
                Ok(false)
            }
        }
    }

    /// How many records are read at once. An event has 1.5 KB: those of two batches stay in the processor's cache.
    const BATCH_RECORDS: usize = 128;

    /// Returns the counts of events so far.
    pub(crate) fn accounting(&mut self) -> Result<Accounting, Errno> {
        match self {
            Self::Bpf(watch) => watch.accounting(),
            Self::Diag(watch) => Ok(watch.accounting()),
        }
    }

    /// Returns what found no space in the maps of the programs.
    pub(crate) fn untracked(&self) -> Result<Untracked, Errno> {
        match self {
            Self::Bpf(watch) => watch.untracked(),
            Self::Diag(_) => Ok(Untracked::default()),
        }
    }

    /// Returns what was counted without an event, by the inode of the network namespace.
    pub(crate) fn counted_aside(&self) -> Result<BTreeMap<u32, CountedAside>, Errno> {
        match self {
            Self::Bpf(watch) => watch.counted_aside(),
            Self::Diag(_) => Ok(BTreeMap::new()),
        }
    }

    /// Keeps to the budget of `--cpu`. Returns of how many connections one has events, if that changes. What is polled has no such bound.
    pub(crate) fn keep_to_budget(&mut self) -> Result<Option<u32>, Errno> {
        match self {
            Self::Bpf(watch) => watch.keep_to_budget(),
            Self::Diag(_) => Ok(None),
        }
    }

    /// Returns the largest number of connections since the last call of which one had events: 1 if each had.
    pub(crate) fn take_sampled_every(&mut self) -> u32 {
        match self {
            Self::Bpf(watch) => watch.take_sampled_every(),
            Self::Diag(_) => 1,
        }
    }

    /// Ends the watch, passes the last events to `take`, and returns the counts.
    pub(crate) fn finish(&mut self, take: &mut dyn FnMut(ConnectionEvent)) -> anyhow::Result<Accounting> {
        match self {
            Self::Bpf(watch) => Ok(watch.finish(|record| {
                if let Some(event) = ConnectionEvent::from_wire(record) {
                    take(event);
                }
            })?),
            Self::Diag(watch) => watch.finish(take),
        }
    }
}

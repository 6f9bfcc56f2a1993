//! Accounting of a direction's time by cause of waiting.
//!
//! See [`Shares`] for the definitions. Time is accounted when something ends the wait, because only that
//! shows its cause: the time before a timeout looks like any other wait for an acknowledgement.

use crate::{Limit, Shares};

/// Time of one direction by cause.
#[derive(Debug, Default)]
pub(crate) struct WaitTimes {
    spent: Shares,
    /// Time since the last progress, not accounted yet
    pending: Shares,
    /// Time in which it was unknown whether data was left to send; the next event decides
    open_ns: u64,
    /// The part of it since the last progress
    open_pending_ns: u64,
    /// The same with a full window, and the part of it since the last progress
    shut_ns: (u64, u64),
    /// Time in which a full segment was the last sent: a buffer or a window was full; the next event decides
    full_ns: u64,
    /// The part of it since the last progress
    full_pending_ns: u64,
    /// The same, until the size of the next burst is known
    doubtful_ns: u64,
    at_ns: u64,
}

/// Apparent cause of waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ApparentCause {
    /// This limit
    Like(Limit),
    /// All data is sent: no data, or no buffer for it
    Drained,
    /// All data is sent, and the window is full
    DrainedAndShut,
    /// The last segment was pushed and full: a full buffer, or the congestion window
    Pushed,
}

impl WaitTimes {
    pub(crate) fn new(begin_ns: u64) -> Self {
        Self {
            at_ns: begin_ns,
            ..Self::default()
        }
    }

    /// Accounts for the time until now with this cause; returns that time.
    pub(crate) fn pass(&mut self, now_ns: u64, looks: ApparentCause) -> u64 {
        let passed_ns = now_ns.saturating_sub(self.at_ns);
        self.at_ns = self.at_ns.max(now_ns);
        match looks {
            ApparentCause::Like(limit) => self.pending.0[limit as usize] += passed_ns,
            ApparentCause::Drained => self.open_pending_ns += passed_ns,
            ApparentCause::DrainedAndShut => self.shut_ns.1 += passed_ns,
            ApparentCause::Pushed => self.full_pending_ns += passed_ns,
        }
        passed_ns
    }

    /// Progress: the apparent causes were the real ones.
    pub(crate) fn progress(&mut self) {
        for (spent, pending) in self.spent.0.iter_mut().zip(&mut self.pending.0) {
            *spent += std::mem::take(pending);
        }
        self.open_ns += std::mem::take(&mut self.open_pending_ns);
        self.shut_ns.0 += std::mem::take(&mut self.shut_ns.1);
        self.full_ns += std::mem::take(&mut self.full_pending_ns);
    }

    /// Since the last progress, data was on its way to the capture while the sender looked idle; returns that
    /// time.
    pub(crate) fn was_in_transit(&mut self) -> u64 {
        let idle_ns = std::mem::take(&mut self.pending.0[Limit::Application as usize]);
        self.pending.0[Limit::CongestionWindow as usize] += idle_ns;
        idle_ns
    }

    /// A new maximum is in flight: no buffer was full before.
    pub(crate) fn grow(&mut self) {
        let not_so_ns = std::mem::take(&mut self.spent.0[Limit::SendBuffer as usize]);
        self.spent.0[Limit::CongestionWindow as usize] += not_so_ns + std::mem::take(&mut self.doubtful_ns);
    }

    /// More data came: gives the cause while the sender looked drained, and while it looked pushed.
    pub(crate) fn refill(&mut self, drained: Limit, pushed: Option<Limit>) {
        self.progress();
        self.spent.0[drained as usize] += std::mem::take(&mut self.open_ns);
        let shut = if drained == Limit::SendBuffer {
            Limit::ReceiverWindow
        } else {
            drained
        };
        self.spent.0[shut as usize] += std::mem::take(&mut self.shut_ns.0);
        let full_ns = std::mem::take(&mut self.full_ns);
        match pushed {
            Some(limit) => self.spent.0[limit as usize] += full_ns,
            None => self.doubtful_ns += full_ns,
        }
    }

    /// The size of the burst is known now.
    pub(crate) fn refilled(&mut self, limit: Limit) {
        self.spent.0[limit as usize] += std::mem::take(&mut self.doubtful_ns);
    }

    /// A timeout: it was the cause since the last progress. Returns how long the sender had looked idle.
    pub(crate) fn timeout(&mut self) -> u64 {
        let idle_ns = self.pending.of(Limit::Application);
        let setup_ns = self.pending.of(Limit::Setup);
        let open_ns = std::mem::take(&mut self.open_pending_ns)
            + std::mem::take(&mut self.full_pending_ns)
            + std::mem::take(&mut self.shut_ns.1);
        let waited_ns = self.pending.total() - setup_ns + open_ns;
        self.pending = Shares::default();
        self.spent.0[Limit::Setup as usize] += setup_ns;
        self.spent.0[Limit::Timeout as usize] += waited_ns;
        idle_ns
    }

    /// The total at the end. Without other signs of a full buffer, the cause was the congestion window.
    /// `is_queued`: the last data waited on the path for long, so its sender was not idle.
    pub(crate) fn finish(&mut self, has_full_buffer: bool, is_queued: bool) {
        let drained = if is_queued {
            Limit::CongestionWindow
        } else {
            Limit::Application
        };
        self.refill(drained, Some(Limit::CongestionWindow));
        self.refilled(Limit::CongestionWindow);
        if !has_full_buffer {
            let not_so_ns = std::mem::take(&mut self.spent.0[Limit::SendBuffer as usize]);
            self.spent.0[Limit::CongestionWindow as usize] += not_so_ns;
        }
    }

    /// Time accounted so far.
    pub(crate) fn spent(&self) -> Shares {
        self.spent
    }

    /// Time up to which is accounted.
    pub(crate) fn at_ns(&self) -> u64 {
        self.at_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeout_takes_the_wait_before_it() {
        let mut waits = WaitTimes::new(100);
        waits.pass(110, ApparentCause::Like(Limit::Setup));
        waits.progress();
        waits.pass(150, ApparentCause::Like(Limit::CongestionWindow));
        waits.progress();
        waits.pass(160, ApparentCause::Drained);
        waits.pass(190, ApparentCause::Like(Limit::CongestionWindow));
        waits.timeout();
        waits.pass(195, ApparentCause::Drained);
        waits.refill(Limit::SendBuffer, None);
        waits.pass(200, ApparentCause::Drained);
        waits.finish(true, false);
        let shares = waits.spent();
        assert_eq!(shares.0, [10, 5, 0, 5, 40, 0, 40]);
        assert_eq!(shares.total(), 100);
    }

    #[test]
    fn growth_excludes_a_full_buffer() {
        let after = |has_full_buffer| {
            let mut waits = WaitTimes::new(0);
            waits.pass(10, ApparentCause::Pushed);
            waits.refill(Limit::Application, None);
            waits.refilled(Limit::SendBuffer);
            waits.grow();
            waits.pass(30, ApparentCause::Pushed);
            waits.refill(Limit::Application, Some(Limit::SendBuffer));
            waits.pass(35, ApparentCause::Pushed);
            waits.finish(has_full_buffer, false);
            let shares = waits.spent();
            (shares.of(Limit::CongestionWindow), shares.of(Limit::SendBuffer))
        };
        assert_eq!(after(true), (15, 20));
        assert_eq!(after(false), (35, 0));
    }
}

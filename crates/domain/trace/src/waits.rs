//! What each moment of one direction was spent waiting for.
//!
//! See [`Shares`] for the definitions. A moment is put down when something ends it, since only that tells what it was
//! waiting for: the time before a timeout looks like any other wait for an acknowledgement.

use crate::{Limit, Shares};

/// How the time of one direction is spent.
#[derive(Debug)]
pub(crate) struct Waits {
    spent: Shares,
    /// Since anything last got on, not decided yet
    pending: Shares,
    /// Time in which it was open whether there was anything left to send; what follows decides
    open_ns: u64,
    /// The same, since anything last got on
    open_pending_ns: u64,
    /// The same, with a window that would not have let it out, and of that the part since anything last got on
    shut_ns: (u64, u64),
    /// Time in which all was sent and no little: for want of a buffer or of a window; what follows decides
    full_ns: u64,
    /// The same, since anything last got on
    full_pending_ns: u64,
    /// The same, until it is known how much came at once
    doubtful_ns: u64,
    at_ns: u64,
}

/// What a moment looks like while it lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Looks {
    /// It is that
    Like(Limit),
    /// All that there was is sent: for want of data, or of a buffer for it
    Drained,
    /// The same, but the window has no room either
    DrainedAndShut,
    /// What was sent last was pushed, but is a full segment: a buffer may be full, or the congestion window
    Pushed,
}

impl Waits {
    pub(crate) fn new(begin_ns: u64) -> Self {
        Self {
            spent: Shares::default(),
            pending: Shares::default(),
            open_ns: 0,
            open_pending_ns: 0,
            shut_ns: (0, 0),
            full_ns: 0,
            full_pending_ns: 0,
            doubtful_ns: 0,
            at_ns: begin_ns,
        }
    }

    /// Until now it looked like that; gives how long that was.
    pub(crate) fn pass(&mut self, now_ns: u64, looks: Looks) -> u64 {
        let passed_ns = now_ns.saturating_sub(self.at_ns);
        self.at_ns = self.at_ns.max(now_ns);
        match looks {
            Looks::Like(limit) => self.pending.0[limit as usize] += passed_ns,
            Looks::Drained => self.open_pending_ns += passed_ns,
            Looks::DrainedAndShut => self.shut_ns.1 += passed_ns,
            Looks::Pushed => self.full_pending_ns += passed_ns,
        }
        passed_ns
    }

    /// Something got on: it was what it looked like.
    pub(crate) fn progress(&mut self) {
        for (spent, pending) in self.spent.0.iter_mut().zip(&mut self.pending.0) {
            *spent += std::mem::take(pending);
        }
        self.open_ns += std::mem::take(&mut self.open_pending_ns);
        self.shut_ns.0 += std::mem::take(&mut self.shut_ns.1);
        self.full_ns += std::mem::take(&mut self.full_pending_ns);
    }

    /// Since anything last got on, data was on its way here while it looked idle; gives how long that was.
    pub(crate) fn was_on_its_way(&mut self) -> u64 {
        let idle_ns = std::mem::take(&mut self.pending.0[Limit::Application as usize]);
        self.pending.0[Limit::CongestionWindow as usize] += idle_ns;
        idle_ns
    }

    /// More is in flight than ever: no buffer was full before.
    pub(crate) fn grow(&mut self) {
        let not_so_ns = std::mem::take(&mut self.spent.0[Limit::SendBuffer as usize]);
        self.spent.0[Limit::CongestionWindow as usize] += not_so_ns + std::mem::take(&mut self.doubtful_ns);
    }

    /// More data came: this is what had kept it back while it looked drained, and while it looked pushed.
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

    /// How much came at once is known now.
    pub(crate) fn refilled(&mut self, limit: Limit) {
        self.spent.0[limit as usize] += std::mem::take(&mut self.doubtful_ns);
    }

    /// A timer ran out: since anything last got on, it waited for that. Gives how long it had looked idle.
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

    /// All of it, at the end. Without other signs of a full buffer, it was the congestion window.
    pub(crate) fn finish(&mut self, has_full_buffer: bool) {
        self.refill(Limit::Application, Some(Limit::CongestionWindow));
        self.refilled(Limit::CongestionWindow);
        if !has_full_buffer {
            let not_so_ns = std::mem::take(&mut self.spent.0[Limit::SendBuffer as usize]);
            self.spent.0[Limit::CongestionWindow as usize] += not_so_ns;
        }
    }

    /// What is put down so far.
    pub(crate) fn spent(&self) -> Shares {
        self.spent
    }

    /// The moment up to which it is known.
    pub(crate) fn at_ns(&self) -> u64 {
        self.at_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_claims_the_wait_before_it() {
        let mut waits = Waits::new(100);
        waits.pass(110, Looks::Like(Limit::Setup));
        waits.progress();
        waits.pass(150, Looks::Like(Limit::CongestionWindow));
        waits.progress();
        waits.pass(160, Looks::Drained);
        waits.pass(190, Looks::Like(Limit::CongestionWindow));
        waits.timeout();
        waits.pass(195, Looks::Drained);
        waits.refill(Limit::SendBuffer, None);
        waits.pass(200, Looks::Drained);
        waits.finish(true);
        let shares = waits.spent();
        assert_eq!(shares.0, [10, 5, 0, 5, 40, 0, 40]);
        assert_eq!(shares.total(), 100);
    }

    #[test]
    fn what_grows_was_not_full() {
        let after = |has_full_buffer| {
            let mut waits = Waits::new(0);
            waits.pass(10, Looks::Pushed);
            waits.refill(Limit::Application, None);
            waits.refilled(Limit::SendBuffer);
            waits.grow();
            waits.pass(30, Looks::Pushed);
            waits.refill(Limit::Application, Some(Limit::SendBuffer));
            waits.pass(35, Looks::Pushed);
            waits.finish(has_full_buffer);
            let shares = waits.spent();
            (shares.of(Limit::CongestionWindow), shares.of(Limit::SendBuffer))
        };
        assert_eq!(after(true), (15, 20));
        assert_eq!(after(false), (35, 0));
    }
}

//! The limits of a transfer, as shares of its time.
//!
//! The sender's TCP reports its busy time, and the parts of it limited by the peer's window or the send
//! buffer (`tcpi_busy_time`, `rwnd_limited`, `sndbuf_limited`); the rest is due to congestion control.
//! Samples of its state divide that rest: recovery after losses, a timeout, a full congestion window, or
//! space in both windows with data to send, which then waits for pacing (BBR always paces, and no share of
//! `tcp_info` counts that). When no data was waiting, the writing program was too slow.

use crate::transfer::Sender;

/// What a sender was waiting for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Limit {
    /// No data to send
    Application,
    /// The receiver's window was full
    ReceiverWindow,
    /// The send buffer was full of unacknowledged data
    SendBuffer,
    /// The congestion window was full: the path's capacity as the sender knows it
    CongestionWindow,
    /// Both windows had space, but the sender paced
    Pace,
    /// Recovery after duplicate acknowledgements
    FastRecovery,
    /// After a retransmission timeout
    Timeout,
}

impl Limit {
    /// All limits.
    pub const ALL: [Self; 7] = [
        Self::Application,
        Self::ReceiverWindow,
        Self::SendBuffer,
        Self::CongestionWindow,
        Self::Pace,
        Self::FastRecovery,
        Self::Timeout,
    ];

    /// Name in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Application => "application",
            Self::ReceiverWindow => "receiver_window",
            Self::SendBuffer => "send_buffer",
            Self::CongestionWindow => "congestion_window",
            Self::Pace => "pacing",
            Self::FastRecovery => "fast_recovery",
            Self::Timeout => "timeout",
        }
    }

    /// Name for people.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Application => "application",
            Self::ReceiverWindow => "receiver window",
            Self::SendBuffer => "send buffer",
            Self::CongestionWindow => "congestion window",
            Self::Pace => "pacing",
            Self::FastRecovery => "recovery",
            Self::Timeout => "timeout",
        }
    }
}

/// Time of one direction by limit, summed over all streams, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LimitShares([u64; Limit::ALL.len()]);

impl LimitShares {
    /// The shares from the senders' TCP; `None` without data, or before Linux 4.10.
    #[must_use]
    pub fn of<'a>(senders: impl IntoIterator<Item = &'a Sender>) -> Option<Self> {
        let mut shares = Self::default();
        for sender in senders {
            shares.add(sender)?;
        }
        (shares.total() > 0).then_some(shares)
    }

    /// Time spent waiting for this limit, in microseconds.
    #[must_use]
    pub const fn us(&self, limit: Limit) -> u64 {
        self.0[limit as usize]
    }

    /// The same, in thousandths of the total.
    #[must_use]
    pub fn permille(&self, limit: Limit) -> f64 {
        self.us(limit) as f64 * 1000.0 / self.total().max(1) as f64
    }

    /// Total time in microseconds.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().fold(0, |sum, part| sum.saturating_add(*part))
    }

    /// Limits with any time, the longest first.
    #[must_use]
    pub fn ranked(&self) -> Vec<Limit> {
        let mut list: Vec<Limit> = Limit::ALL
            .into_iter()
            .filter(|&limit| self.us(limit) > 0)
            .collect();
        list.sort_by_key(|&limit| std::cmp::Reverse(self.us(limit)));
        list
    }

    fn add(&mut self, sender: &Sender) -> Option<()> {
        let elapsed = sender.elapsed_us?;
        let busy = sender.busy_us?.min(elapsed);
        let window = sender.rwnd_limited_us?.min(busy);
        let buffer = sender.sndbuf_limited_us?.min(busy - window);
        self.put(Limit::Application, elapsed - busy);
        self.put(Limit::ReceiverWindow, window);
        self.put(Limit::SendBuffer, buffer);
        // The kernel divides no further: divide the rest by the samples.
        let rest = busy - window - buffer;
        let seen = [
            (Limit::Timeout, sender.samples_loss),
            (Limit::FastRecovery, sender.samples_recovery),
            (Limit::CongestionWindow, sender.samples_cwnd_full),
            (Limit::Pace, sender.samples_paced),
            (Limit::SendBuffer, sender.samples_buffer_full),
            (Limit::Application, sender.samples_idle),
        ];
        let all: u128 = seen
            .iter()
            .map(|(_, samples)| u128::from(samples.unwrap_or(0)))
            .sum();
        if all == 0 {
            self.put(Limit::CongestionWindow, rest);
            return Some(());
        }
        let mut left = rest;
        for (limit, samples) in seen {
            let part = u128::from(rest) * u128::from(samples.unwrap_or(0)) / all;
            let part = u64::try_from(part).unwrap_or(0).min(left);
            self.put(limit, part);
            left -= part;
        }
        self.put(Limit::CongestionWindow, left);
        Some(())
    }

    fn put(&mut self, limit: Limit, us: u64) {
        let share = &mut self.0[limit as usize];
        *share = share.saturating_add(us);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten seconds, all of them busy, sampled a hundred times.
    fn sender() -> Sender {
        Sender {
            elapsed_us: Some(10_000_000),
            busy_us: Some(10_000_000),
            rwnd_limited_us: Some(0),
            sndbuf_limited_us: Some(0),
            samples: Some(100),
            ..Sender::default()
        }
    }

    #[test]
    fn shares_follow_tcp_info() {
        let shares = LimitShares::of([&Sender {
            busy_us: Some(8_000_000),
            rwnd_limited_us: Some(5_000_000),
            sndbuf_limited_us: Some(1_000_000),
            samples_cwnd_full: Some(3),
            samples_recovery: Some(1),
            ..sender()
        }]);
        let shares = shares.unwrap();
        assert_eq!(shares.total(), 10_000_000);
        assert_eq!(shares.us(Limit::Application), 2_000_000);
        assert_eq!(shares.us(Limit::ReceiverWindow), 5_000_000);
        assert_eq!(shares.us(Limit::SendBuffer), 1_000_000);
        assert_eq!(shares.us(Limit::CongestionWindow), 1_500_000);
        assert_eq!(shares.us(Limit::FastRecovery), 500_000);
        assert_eq!(shares.ranked()[0], Limit::ReceiverWindow);
        assert_eq!(shares.permille(Limit::SendBuffer), 100.0);
    }

    #[test]
    fn impossible_numbers_are_bounded() {
        let strange = Sender {
            busy_us: Some(u64::MAX),
            rwnd_limited_us: Some(u64::MAX),
            sndbuf_limited_us: Some(u64::MAX),
            samples_paced: Some(u64::MAX / 2),
            samples_idle: Some(7),
            ..sender()
        };
        let shares = LimitShares::of([&strange, &strange]).unwrap();
        assert_eq!(shares.total(), 20_000_000);
        assert_eq!(LimitShares::of([&Sender::default()]), None);
        assert_eq!(LimitShares::of([]), None);
    }
}

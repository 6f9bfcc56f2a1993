//! Pacing: how a sender spaces its segments.
//!
//! Pacing shows where a segment is sent without a trigger: some time after the one before it, and after the
//! acknowledgement that opened the window. After each train, the pause lasts as long as its bytes take at the
//! observed rate; as in Linux, a late train shortens the pause after it, by half at most.

/// The pacing of one sender.
#[derive(Debug, Default)]
pub(super) struct Pacing {
    train_bytes: u32,
    /// Pause between trains per 1024 bytes, the last two observations
    kib_ns: [u32; 2],
    /// Number of observations
    times: u32,
    /// Delay of the last train relative to the pacing schedule
    late_ns: u64,
    /// Time that pacing would have delayed data while a window was full as well
    pub(super) shut_ns: u64,
}

impl Pacing {
    /// Records new data sent `after_ns` after the data before; `by_itself`: only pacing can have delayed it.
    pub(super) fn send(&mut self, after_ns: u64, bytes: u32, by_itself: bool) {
        if after_ns <= TRAIN_NS {
            self.train_bytes = self.train_bytes.saturating_add(bytes);
            return;
        }
        let late_ns = after_ns.saturating_sub(self.pace_ns());
        if by_itself && self.train_bytes > 0 {
            let full_ns = after_ns.saturating_add(after_ns.min(self.late_ns));
            let kib_ns = full_ns.saturating_mul(1024) / u64::from(self.train_bytes);
            let kib_ns = u32::try_from(kib_ns).unwrap_or(u32::MAX);
            self.kib_ns = [self.kib_ns[1], kib_ns];
            self.times = self.times.saturating_add(1);
        }
        self.late_ns = if by_itself { 0 } else { late_ns };
        self.train_bytes = bytes;
    }

    /// Size of the last burst.
    pub(super) fn train_bytes(&self) -> u64 {
        self.train_bytes.into()
    }

    /// Pause after the last train; 0 unless the sender is known to pace.
    pub(super) fn pace_ns(&self) -> u64 {
        if self.times < TIMES_MIN {
            return 0;
        }
        // A longer pause had another cause.
        let kib_ns = self.kib_ns[0].min(self.kib_ns[1]);
        let full_ns = u64::from(kib_ns) * u64::from(self.train_bytes) / 1024;
        full_ns - self.late_ns.min(full_ns / 2)
    }
}

/// Segments closer than this are one train.
const TRAIN_NS: u64 = 100_000;

/// With fewer observations it may be something else.
const TIMES_MIN: u32 = 2;

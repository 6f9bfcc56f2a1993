//! How a sender that paces spaces what it sends.
//!
//! It shows where a segment goes out by itself: some time after the one before it, and after the acknowledgement that made
//! room for it. Of every train, the pace that follows it takes as long as its bytes take at the rate seen there; as in
//! Linux, what a train was late shortens the pace after it, by half at most.

/// The pace of one sender.
#[derive(Debug, Default)]
pub(super) struct Paces {
    train_bytes: u32,
    /// From one train to the next, for each 1024 bytes, the last two times that it was seen
    kib_ns: [u32; 2],
    /// How often that was seen
    times: u32,
    /// How much later than its pace the train was sent
    late_ns: u64,
    /// How long it would have waited for its pace where a window was full as well
    pub(super) shut_ns: u64,
}

impl Paces {
    /// New data is sent so long after what was sent before it; `by_itself` if nothing but a pace can have held it.
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

    /// How much was sent at once last.
    pub(super) fn train_bytes(&self) -> u64 {
        self.train_bytes.into()
    }

    /// How long after its last train it sends the next, if it is known to pace.
    pub(super) fn pace_ns(&self) -> u64 {
        if self.times < TIMES_MIN {
            return 0;
        }
        // What was held by something else took longer.
        let kib_ns = self.kib_ns[0].min(self.kib_ns[1]);
        let full_ns = u64::from(kib_ns) * u64::from(self.train_bytes) / 1024;
        full_ns - self.late_ns.min(full_ns / 2)
    }
}

/// What is sent so soon after another is of one train.
const TRAIN_NS: u64 = 100_000;

/// Seen less often, it may be something else.
const TIMES_MIN: u32 = 2;

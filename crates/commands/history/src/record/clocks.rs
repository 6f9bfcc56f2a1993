//! The clocks at a sample.

use rustix::time::{ClockId, clock_gettime};
use sockeye_history::SampleClocks;
use sockeye_output::Envelope;

/// Reads the clocks; the envelope has the time and the boot.
pub(super) fn read(envelope: &Envelope) -> SampleClocks {
    SampleClocks {
        at_ms: envelope.time_us / 1000,
        monotonic_ms: milliseconds(ClockId::Monotonic),
        boottime_ms: milliseconds(ClockId::Boottime),
        boot_id: envelope.origin.boot_id.clone(),
    }
}

fn milliseconds(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1000 + time.tv_nsec as u64 / 1_000_000
}

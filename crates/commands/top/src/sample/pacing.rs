//! How often samples are taken: as often as asked, and seldom enough that they cost little.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Returns the interval for samples that take this much processor time each.
pub(crate) fn interval(asked: Duration, spent: Duration) -> Duration {
    asked.max(spent * SHARE)
}

/// Returns the processor time of this process.
pub(crate) fn cpu_time() -> Duration {
    clock_gettime(ClockId::ProcessCPUTime)
        .try_into()
        .unwrap_or_default()
}

/// Samples take one part in so many of a core: 5 %.
const SHARE: u32 = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costly_samples_are_taken_seldom() {
        let ms = Duration::from_millis;
        assert_eq!(interval(ms(2000), ms(10)), ms(2000));
        assert_eq!(interval(ms(2000), ms(110)), ms(2200));
        assert_eq!(interval(ms(250), ms(180)), ms(3600));
    }
}

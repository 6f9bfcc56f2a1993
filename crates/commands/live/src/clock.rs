//! From the monotonic clock of the kernel's records to the time of day.

use rustix::time::{ClockId, clock_gettime};
use sockeye_sys::local_time::LocalTime;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Converts the times of records; the time of day may be set meanwhile.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    /// Nanoseconds of the time of day at the zero of the monotonic clock.
    offset_ns: i64,
    /// The last second that was converted, and its local text.
    second: Option<(u64, String)>,
}

impl Clock {
    /// Compares the two clocks.
    pub(crate) fn set(&mut self) {
        let monotonic = clock_gettime(ClockId::Monotonic);
        let monotonic_ns = monotonic.tv_sec * 1_000_000_000 + monotonic.tv_nsec;
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // Until the year 2262. A division of 128 bits takes as long as a tenth of the rest of a row.
        self.offset_ns = i64::try_from(since_1970.as_nanos()).unwrap_or(i64::MAX) - monotonic_ns;
    }

    /// Returns microseconds since 1970.
    pub(crate) fn unix_us(&self, monotonic_ns: u64) -> u64 {
        monotonic_ns.saturating_add_signed(self.offset_ns) / 1000
    }

    /// Returns the local time of a moment in microseconds since 1970: `15:04:05.123456`.
    pub(crate) fn text(&mut self, unix_us: u64) -> String {
        let second = unix_us / 1_000_000;
        if self.second.as_ref().is_none_or(|(known, _)| *known != second) {
            let time = LocalTime::at(UNIX_EPOCH + Duration::from_secs(second));
            let text = format!("{:02}:{:02}:{:02}", time.hour, time.minute, time.second);
            self.second = Some((second, text));
        }
        let text = self.second.as_ref().map_or("", |(_, text)| text.as_str());
        format!("{text}.{:06}", unix_us % 1_000_000)
    }
}

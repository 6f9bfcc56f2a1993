//! Local time by the C library, which knows the time zone of the host (`TZ`, /etc/localtime).
#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::time::{SystemTime, UNIX_EPOCH};

/// A moment in the time zone of the host, to the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalTime {
    /// Year
    pub year: i32,
    /// Month, 1 to 12
    pub month: u8,
    /// Day of the month, 1 to 31
    pub day: u8,
    /// Hour, 0 to 23
    pub hour: u8,
    /// Minute, 0 to 59
    pub minute: u8,
    /// Second, 0 to 60 (a leap second)
    pub second: u8,
}

impl LocalTime {
    /// Returns the present time.
    #[must_use]
    pub fn now() -> Self {
        Self::at(SystemTime::now())
    }

    /// Returns the local time of a moment. A moment before 1970 or after the year 2,147,483,647 gives the start of 1970
    /// in UTC.
    #[must_use]
    pub fn at(moment: SystemTime) -> Self {
        let seconds = moment
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs());
        // Without the name of its type, which the libc crate deprecates for musl.
        let seconds = seconds.try_into().unwrap_or(0);
        let mut broken_down = MaybeUninit::<libc::tm>::uninit();
        // SAFETY: both pointers are to live values of the types that the call wants; it reads the first and writes the second.
        let result = unsafe { libc::localtime_r(&raw const seconds, broken_down.as_mut_ptr()) };
        if result.is_null() {
            return Self::EPOCH;
        }
        // SAFETY: the call succeeded, and so has written all of it.
        let tm = unsafe { broken_down.assume_init() };
        Self {
            year: tm.tm_year.saturating_add(1900),
            month: tm.tm_mon as u8 + 1,
            day: tm.tm_mday as u8,
            hour: tm.tm_hour as u8,
            minute: tm.tm_min as u8,
            second: tm.tm_sec as u8,
        }
    }

    const EPOCH: Self = Self {
        year: 1970,
        month: 1,
        day: 1,
        hour: 0,
        minute: 0,
        second: 0,
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::time::Duration;

    /// `date` is the peer: it reads the same time zone.
    #[test]
    fn local_time_equals_that_of_date() {
        for seconds in [0, 1_700_000_000, 1_720_000_000, 4_107_542_400_u64] {
            let time = LocalTime::at(UNIX_EPOCH + Duration::from_secs(seconds));
            let date = Command::new("date")
                .args(["-d", &format!("@{seconds}"), "+%Y-%m-%d %H:%M:%S"])
                .output()
                .unwrap();
            let LocalTime {
                year,
                month,
                day,
                hour,
                minute,
                second,
            } = time;
            let ours = format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}\n");
            assert_eq!(ours, String::from_utf8(date.stdout).unwrap());
        }
    }
}

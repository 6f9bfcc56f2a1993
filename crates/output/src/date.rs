//! Dates of the Gregorian calendar in UTC, as machine-readable output writes them.
//!
//! Time is an argument: seconds or microseconds since 1970-01-01 00:00:00 UTC. Local time, which needs the time zone of
//! the host, is `sockeye_sys::local_time`.

use std::fmt::Write as _;

/// A moment in UTC, to the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Date {
    /// Year, from 1970
    pub year: u64,
    /// Month, 1 to 12
    pub month: u8,
    /// Day of the month, 1 to 31
    pub day: u8,
    /// Day of the week, 0 to 6; 0 is Sunday
    pub weekday: u8,
    /// Hour, 0 to 23
    pub hour: u8,
    /// Minute, 0 to 59
    pub minute: u8,
    /// Second, 0 to 59
    pub second: u8,
}

impl Date {
    /// Returns the date of a number of seconds since 1970-01-01 00:00:00 UTC.
    #[must_use]
    pub fn from_unix_s(seconds: u64) -> Self {
        let (days, rest) = (seconds / 86_400, seconds % 86_400);
        // Years that begin in March end with the leap day: then a formula gives the lengths of months.
        let shifted = days + 719_468;
        let era = shifted / 146_097;
        let day_of_era = shifted % 146_097;
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = (month_from_march + 2) % 12 + 1;
        Self {
            year: era * 400 + year_of_era + u64::from(month < 3),
            month: month as u8,
            day: day as u8,
            // 1 January 1970 was a Thursday.
            weekday: ((days + 4) % 7) as u8,
            hour: (rest / 3600) as u8,
            minute: (rest / 60 % 60) as u8,
            second: (rest % 60) as u8,
        }
    }
}

/// Writes a time in microseconds since 1970 over one that [`push_rfc3339_us`] wrote.
pub(crate) fn replace_rfc3339_us(text: &mut [u8; RFC3339_BYTES], unix_us: u64) {
    let date = Date::from_unix_s(unix_us / 1_000_000);
    let mut put = |at: usize, digits: usize, mut number: u64| {
        for byte in text[at..at + digits].iter_mut().rev() {
            *byte = b'0' + (number % 10) as u8;
            number /= 10;
        }
    };
    put(0, 4, date.year);
    let places = [date.month, date.day, date.hour, date.minute, date.second];
    for (nth, number) in places.into_iter().enumerate() {
        put(5 + 3 * nth, 2, number.into());
    }
    replace_micros(text, unix_us);
}

/// Writes the microseconds of a time over those of another one in the same second.
pub(crate) fn replace_micros(text: &mut [u8; RFC3339_BYTES], unix_us: u64) {
    let mut rest = (unix_us % 1_000_000) as u32;
    for at in [24, 22, 20] {
        let two = (rest % 100) as u8;
        rest /= 100;
        text[at] = b'0' + two / 10;
        text[at + 1] = b'0' + two % 10;
    }
}

/// Length of `2026-11-22T15:16:23.000001Z`.
pub(crate) const RFC3339_BYTES: usize = 27;

/// Appends a time in microseconds since 1970 as RFC 3339 writes it, in UTC: `2026-11-22T15:16:23.000001Z`.
pub fn push_rfc3339_us(out: &mut String, unix_us: u64) {
    let Date {
        year,
        month,
        day,
        hour,
        minute,
        second,
        ..
    } = Date::from_unix_s(unix_us / 1_000_000);
    let micros = unix_us % 1_000_000;
    // Writing to a String does not fail.
    let _ = write!(
        out,
        "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(unix_us: u64, expected: &str) {
        let mut text = String::new();
        push_rfc3339_us(&mut text, unix_us);
        assert_eq!(text, expected);
        let mut replaced = *b"9999-99-99T99:99:99.999999Z";
        replace_rfc3339_us(&mut replaced, unix_us);
        assert_eq!(replaced, expected.as_bytes());
    }

    #[test]
    fn dates_around_leap_days_are_right() {
        check(0, "1970-01-01T00:00:00.000000Z");
        check(951_782_399_999_999, "2000-02-28T23:59:59.999999Z");
        check(951_782_400_000_000, "2000-02-29T00:00:00.000000Z");
        check(1_709_251_199_000_001, "2024-02-29T23:59:59.000001Z");
        check(4_107_542_400_000_000, "2100-03-01T00:00:00.000000Z");
    }

    #[test]
    fn weekday_of_a_known_day_is_right() {
        assert_eq!(Date::from_unix_s(0).weekday, 4);
        assert_eq!(Date::from_unix_s(1_795_360_583).weekday, 0);
    }

    #[test]
    fn microseconds_replace_those_of_the_same_second() {
        let mut text = String::new();
        push_rfc3339_us(&mut text, 1_764_288_000_000_000);
        let mut bytes: [u8; RFC3339_BYTES] = text.as_bytes().try_into().unwrap();
        for micros in [0, 1, 10, 123_456, 999_999, 90_000] {
            let mut expected = String::new();
            push_rfc3339_us(&mut expected, 1_764_288_000_000_000 + micros);
            replace_micros(&mut bytes, 1_764_288_000_000_000 + micros);
            assert_eq!(bytes, expected.as_bytes());
        }
    }
}

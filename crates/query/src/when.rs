//! Times as people write them: `03:12`, `yesterday 03:12:20`, `-10m`, RFC 3339. Local times are those of the host's time zone.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Timestamp, Zoned};
use sockeye_console::notes::say;
use sockeye_console::usage::UsageError;
use sockeye_filter::Quantity;
use std::sync::OnceLock;
use std::time::Duration;

/// Returns the present time in the host's time zone.
#[must_use]
pub fn now() -> Zoned {
    Timestamp::now().to_zoned(zone())
}

/// Returns a time in milliseconds since 1970 in the host's time zone: `2026-11-26 03:12:04 +01:00`.
#[must_use]
pub fn local(at_ms: u64) -> String {
    local_in(at_ms, &zone())
}

/// Returns a time in milliseconds since 1970 in the host's time zone, for a narrow terminal: `11-26 03:12:04`.
#[must_use]
pub fn brief(at_ms: u64) -> String {
    format_in(at_ms, &zone(), "%m-%d %H:%M:%S")
}

/// Returns the time zone of the host: that of `TZ`, which is a name like `Europe/Berlin`, a file or a POSIX rule, else `/etc/localtime`.
/// One that is unknown here is UTC, as for the C library, and a note says so once.
fn zone() -> TimeZone {
    if let Ok(zone) = TimeZone::try_system() {
        return zone;
    }
    static OTHER: OnceLock<TimeZone> = OnceLock::new();
    let other = || {
        let name = std::env::var("TZ").ok()?;
        let zone = without_rule(&name);
        if zone.is_none() {
            say(&format!(
                "sockeye: the time zone TZ={name} is not known here (no tzdata?): times are in UTC\n"
            ));
        }
        zone
    };
    OTHER.get_or_init(|| other().unwrap_or(TimeZone::UTC)).clone()
}

/// Returns the zone of a POSIX name that has summer time but no rule, `CET-1CEST`: the C library takes the rule of the United States.
fn without_rule(name: &str) -> Option<TimeZone> {
    let name = name.strip_prefix(':').unwrap_or(name);
    TimeZone::posix(&format!("{name},M3.2.0,M11.1.0")).ok()
}

fn local_in(at_ms: u64, zone: &TimeZone) -> String {
    format_in(at_ms, zone, "%Y-%m-%d %H:%M:%S %:z")
}

fn format_in(at_ms: u64, zone: &TimeZone, format: &str) -> String {
    let moment = i64::try_from(at_ms)
        .ok()
        .and_then(|at_ms| Timestamp::from_millisecond(at_ms).ok());
    moment.map_or_else(
        || at_ms.to_string(),
        |moment| moment.to_zoned(zone.clone()).strftime(format).to_string(),
    )
}

/// Returns the error of two times, in milliseconds since 1970, of which the first has to be earlier.
#[must_use]
pub fn wrong_order(names: [&str; 2], times_ms: [u64; 2]) -> UsageError {
    let [first, last] = names;
    let relation = if times_ms[0] == times_ms[1] {
        "the same as"
    } else {
        "after"
    };
    UsageError(format!(
        "sockeye: {first} is {}, {relation} {last}, which is {}: a time without a date is the last one that has passed\n",
        local(times_ms[0]),
        local(times_ms[1])
    ))
}

/// Parses a time; returns milliseconds since 1970. A time without a date is the last such time before `now`.
///
/// # Errors
/// What is wrong with it, as a sentence part.
pub fn parse(text: &str, now: &Zoned) -> Result<u64, String> {
    let text = text.trim();
    let moment = moment(text, now)?;
    u64::try_from(moment.as_millisecond()).map_err(|_| format!("{text:?} is before 1970"))
}

/// Parses a time, or a duration before `now`: `24h` is `-24h`.
///
/// # Errors
/// As [`parse`].
pub fn since(text: &str, now: &Zoned) -> Result<u64, String> {
    if duration(text.trim()).is_ok() {
        return parse(&format!("-{}", text.trim()), now);
    }
    parse(text, now)
}

fn moment(text: &str, now: &Zoned) -> Result<Timestamp, String> {
    if text == "now" {
        return Ok(now.timestamp());
    }
    let ago = text.strip_prefix('-').or_else(|| text.strip_suffix("ago"));
    if let Some(ago) = ago {
        return now
            .timestamp()
            .checked_sub(duration(ago.trim())?)
            .map_err(|_| format!("{text:?} is too long ago"));
    }
    if let Ok(moment) = text.parse::<Timestamp>() {
        return Ok(moment);
    }
    if let Some(seconds) = text.strip_prefix('@') {
        let seconds = seconds.parse::<i64>().ok();
        let moment = seconds.and_then(|seconds| Timestamp::from_second(seconds).ok());
        return moment.ok_or_else(|| format!("expected seconds since 1970 after @, found {text:?}"));
    }
    if let Some((day, time)) = day(text, now) {
        let time = if time.is_empty() {
            Time::midnight()
        } else {
            clock(time)?
        };
        return resolve(day?.to_datetime(time), now);
    }
    // Today's, or if that is yet to come, yesterday's.
    let time = clock(text)?;
    let today = resolve(now.date().to_datetime(time), now)?;
    if today <= now.timestamp() {
        return Ok(today);
    }
    resolve(yesterday(now)?.to_datetime(time), now)
}

/// Splits a day from the time behind it; `None` if there is no day.
fn day<'a>(text: &'a str, now: &Zoned) -> Option<(Result<Date, String>, &'a str)> {
    for (word, date) in [("today", Ok(now.date())), ("yesterday", yesterday(now))] {
        if let Some(time) = text.strip_prefix(word) {
            return Some((date, time.trim()));
        }
    }
    let (date, time) = text.split_once([' ', 'T']).unwrap_or((text, ""));
    let is_date = date.len() == 10 && date.bytes().filter(|byte| *byte == b'-').count() == 2;
    let date = is_date.then(|| date.parse().map_err(|_| format!("there is no date {date:?}")))?;
    Some((date, time.trim()))
}

fn yesterday(now: &Zoned) -> Result<Date, String> {
    now.date().yesterday().map_err(|error| error.to_string())
}

/// Parses `3:12`, `03:12` or `03:12:20`.
fn clock(text: &str) -> Result<Time, String> {
    let wrong = || {
        format!(
            "expected a time like 03:12, \"yesterday 03:12:20\", -10m or 2026-11-26T03:12:00Z, found {text:?}"
        )
    };
    let padded = if text.find(':') == Some(1) {
        format!("0{text}")
    } else {
        text.to_owned()
    };
    if !padded.contains(':') {
        return Err(wrong());
    }
    padded.parse().map_err(|_| wrong())
}

/// Resolves a local time. When clocks are set back, an hour exists twice: the last that has passed is meant. When they are set
/// forward, one is missing.
fn resolve(local: DateTime, now: &Zoned) -> Result<Timestamp, String> {
    let ambiguous = now.time_zone().to_ambiguous_timestamp(local);
    let wrong = |error: jiff::Error| error.to_string();
    match ambiguous.offset() {
        AmbiguousOffset::Unambiguous { .. } => ambiguous.unambiguous().map_err(wrong),
        AmbiguousOffset::Fold { .. } => {
            let later = ambiguous.later().map_err(wrong)?;
            if later <= now.timestamp() {
                return Ok(later);
            }
            ambiguous.earlier().map_err(wrong)
        }
        AmbiguousOffset::Gap { .. } => Err(format!(
            "there was no {} here: clocks were set forward",
            local.strftime("%Y-%m-%d %H:%M:%S")
        )),
    }
}

/// Parses `10m`, `1h30m`, `24h`, `2d`: one or more times with units.
///
/// # Errors
/// If it is none.
pub fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("expected a duration like 10m, 1h30m, 24h or 2d, found {text:?}");
    let (mut rest, mut us) = (text, 0_u64);
    loop {
        let number = rest.find(char::is_alphabetic).ok_or_else(wrong)?;
        let unit = rest[number..].find(|character: char| !character.is_alphabetic());
        let (first, others) = rest.split_at(unit.map_or(rest.len(), |unit| number + unit));
        let more = Quantity::Time.parse(first).ok_or_else(wrong)?;
        us = us.checked_add(more).ok_or_else(wrong)?;
        rest = others.trim_start();
        if rest.is_empty() {
            return Ok(Duration::from_micros(us));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Central European time by its rule, so that no file of time zones is needed.
    fn zone() -> TimeZone {
        TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap()
    }

    #[track_caller]
    fn check(now: &str, text: &str, expected: Result<&str, &str>) {
        let now = now.parse::<Timestamp>().unwrap().to_zoned(zone());
        let found = parse(text, &now);
        match expected {
            Ok(expected) => assert_eq!(local_in(found.unwrap(), &zone()), expected, "{text}"),
            Err(part) => {
                let error = found.unwrap_err();
                assert!(error.contains(part), "{text}: {error}");
            }
        }
    }

    const NOW: &str = "2026-11-26T15:00:00Z";

    #[test]
    fn times_of_day_are_the_last_that_passed() {
        check(NOW, "03:12", Ok("2026-11-26 03:12:00 +01:00"));
        check(NOW, "3:12:20", Ok("2026-11-26 03:12:20 +01:00"));
        check(NOW, "23:00", Ok("2026-11-25 23:00:00 +01:00"));
        check(NOW, "yesterday 03:12:20", Ok("2026-11-25 03:12:20 +01:00"));
        check(NOW, "today 03:12", Ok("2026-11-26 03:12:00 +01:00"));
        check(NOW, "yesterday", Ok("2026-11-25 00:00:00 +01:00"));
        check(NOW, "now", Ok("2026-11-26 16:00:00 +01:00"));
    }

    #[test]
    fn dates_zones_and_durations_are_understood() {
        check(NOW, "2026-11-20 03:12", Ok("2026-11-20 03:12:00 +01:00"));
        check(NOW, "2026-07-20T03:12:09", Ok("2026-07-20 03:12:09 +02:00"));
        check(NOW, "2026-11-20T03:12:00Z", Ok("2026-11-20 04:12:00 +01:00"));
        check(NOW, "2026-11-20T03:12:00-05:00", Ok("2026-11-20 09:12:00 +01:00"));
        check(NOW, "@0", Ok("1970-01-01 01:00:00 +01:00"));
        check(NOW, "-10m", Ok("2026-11-26 15:50:00 +01:00"));
        check(NOW, "-1h30m", Ok("2026-11-26 14:30:00 +01:00"));
        check(NOW, "2d ago", Ok("2026-11-24 16:00:00 +01:00"));
    }

    #[test]
    fn since_takes_durations_and_times() {
        let now = NOW.parse::<Timestamp>().unwrap().to_zoned(zone());
        for text in ["24h", "-24h", "1d", "yesterday 16:00"] {
            let local = since(text, &now).map(|at_ms| local_in(at_ms, &zone()));
            assert_eq!(local.unwrap(), "2026-11-25 16:00:00 +01:00");
        }
        assert!(since("soon", &now).is_err());
    }

    #[test]
    fn hours_that_exist_twice_or_never() {
        // Clocks go back at 3:00 on 25 October 2026, and forward at 2:00 on 29 March.
        check("2026-10-25T12:00:00Z", "02:30", Ok("2026-10-25 02:30:00 +01:00"));
        check("2026-10-25T00:45:00Z", "02:30", Ok("2026-10-25 02:30:00 +02:00"));
        check("2026-03-29T12:00:00Z", "02:30", Err("clocks were set forward"));
        // A day has 25 hours.
        check(
            "2026-10-25T12:00:00Z",
            "yesterday 13:00",
            Ok("2026-10-24 13:00:00 +02:00"),
        );
    }

    #[test]
    fn summer_time_without_a_rule_has_that_of_the_c_library() {
        let local = |name: &str, at_ms| without_rule(name).map(|zone| local_in(at_ms, &zone));
        for name in ["CET-1CEST", ":CET-1CEST"] {
            let winter = local(name, 1_795_000_200_000);
            assert_eq!(winter.as_deref(), Some("2026-11-18 12:10:00 +01:00"));
            let summer = local(name, 1_783_000_000_000);
            assert_eq!(summer.as_deref(), Some("2026-07-02 15:46:40 +02:00"));
        }
        assert_eq!(local("Nowhere/City", 0), None);
    }

    #[test]
    fn nonsense_is_an_error_that_shows_how() {
        for text in [
            "",
            "3",
            "soon",
            "25:00",
            "03:60",
            "-",
            "-5",
            "-5x",
            "-5m6",
            "2026-13-01 03:00",
            "1969-01-01",
        ] {
            let error = if text.starts_with("19") { "before 1970" } else { "" };
            check(NOW, text, Err(error));
        }
        check(NOW, "soon", Err("like 03:12"));
        check(NOW, "-99999999999999999999d", Err("like 10m"));
    }
}

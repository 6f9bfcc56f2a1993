//! Values of options: from what was typed to what it means, or why it means nothing.

use sockeye_act::Keepalive;
use sockeye_filter::Quantity;
use sockeye_flow::SortKey;
use sockeye_model::{GroupBy, ProtocolSet};
use sockeye_verdict::Severity;
use std::time::Duration;

/// `--sort`, understood.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sorting {
    pub(crate) key: SortKey,
    pub(crate) descending: bool,
}

/// A key, with `-` before it the other way round.
pub(crate) fn sorting(text: &str) -> Result<Sorting, String> {
    let (name, reversed) = text.strip_prefix('-').map_or((text, false), |name| (name, true));
    let found = SortKey::NAMES.iter().find(|(known, _)| *known == name);
    let (_, key) = found.ok_or_else(|| {
        let known: Vec<_> = SortKey::NAMES.iter().map(|(known, _)| *known).collect();
        format!("no such key; there are {}", known.join(", "))
    })?;
    Ok(Sorting {
        key: *key,
        descending: key.largest_first() != reversed,
    })
}

/// `host`, `port`, `process`, `uid`, `netns`, `prefix/N` or `prefix/N,M`.
pub(crate) fn group_by(text: &str) -> Result<GroupBy, String> {
    match text {
        "host" => return Ok(GroupBy::Host),
        "port" => return Ok(GroupBy::Port),
        "process" => return Ok(GroupBy::Process),
        "uid" => return Ok(GroupBy::Uid),
        "netns" => return Ok(GroupBy::Netns),
        _ => {}
    }
    let known = "expected host, port, process, uid, netns, prefix/N or prefix/N,M";
    let lengths = text.strip_prefix("prefix/").ok_or(known)?;
    let (v4, v6) = lengths.split_once(',').unwrap_or((lengths, "64"));
    let length = |text: &str, most: u8| {
        text.parse::<u8>()
            .ok()
            .filter(|bits| *bits <= most)
            .ok_or_else(|| format!("expected a length of 0 to {most} bits, found {text:?}"))
    };
    Ok(GroupBy::Prefix {
        v4: length(v4, 32)?,
        v6: length(v6, 128)?,
    })
}

/// A list of protocols, as `-A` takes it.
pub(crate) fn protocols(list: &str) -> Result<ProtocolSet, String> {
    list.split(',').try_fold(ProtocolSet::EMPTY, |all, name| {
        let found = ProtocolSet::from_name(name.trim()).ok_or_else(|| {
            let known: Vec<_> = ProtocolSet::NAMES.iter().map(|(known, _)| *known).collect();
            format!("no protocol {name:?}; there are {}", known.join(", "))
        })?;
        Ok(all.or(found))
    })
}

/// How bad something has to be.
pub(crate) fn severity(text: &str) -> Result<Severity, String> {
    Severity::from_name(text).ok_or_else(|| "expected info, notice, warning or critical".to_owned())
}

/// How many rows; none is an answer too.
pub(crate) fn top(text: &str) -> Result<usize, String> {
    text.parse()
        .map_err(|_| "expected a whole number, 0 or more".to_owned())
}

/// How many samples.
pub(crate) fn count(text: &str) -> Result<u64, String> {
    text.parse()
        .ok()
        .filter(|count| *count > 0)
        .ok_or_else(|| "expected a whole number, 1 or more".to_owned())
}

/// Seconds to wait, possibly none.
pub(crate) fn patience(text: &str) -> Result<Duration, String> {
    if text.parse() == Ok(0.0) {
        Ok(Duration::ZERO)
    } else {
        seconds(text)
    }
}

/// Seconds, possibly with a fraction, more than none.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text
        .parse()
        .map_err(|_| "expected a number of seconds, like 2 or 0.5".to_owned())?;
    if !(0.001..=1e9).contains(&seconds) {
        return Err("expected at least 0.001 and at most 1000000000 seconds".to_owned());
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// The time before the first keepalive probe, or between two: whole seconds, as the kernel has it.
pub(crate) fn keepalive_seconds(text: &str) -> Result<u32, String> {
    let us = span_us(text)?;
    let seconds = u32::try_from(us / 1_000_000).unwrap_or(u32::MAX);
    if us % 1_000_000 != 0 || !(1..=Keepalive::SECONDS_MAX).contains(&seconds) {
        return Err(format!(
            "the kernel takes whole seconds, 1 to {} of them",
            Keepalive::SECONDS_MAX
        ));
    }
    Ok(seconds)
}

/// How many keepalive probes.
pub(crate) fn keepalive_probes(text: &str) -> Result<u32, String> {
    let probes = text.parse().ok();
    probes
        .filter(|probes| (1..=Keepalive::PROBES_MAX).contains(probes))
        .ok_or_else(|| format!("the kernel takes 1 to {}", Keepalive::PROBES_MAX))
}

/// `TCP_USER_TIMEOUT`, in milliseconds.
pub(crate) fn user_timeout_ms(text: &str) -> Result<u32, String> {
    let us = span_us(text)?;
    let ms = u32::try_from(us / 1000).unwrap_or(u32::MAX);
    if us % 1000 != 0 || ms > Keepalive::USER_TIMEOUT_MS_MAX {
        return Err(format!(
            "the kernel takes whole milliseconds, at most {}; 0 leaves it to the system",
            Keepalive::USER_TIMEOUT_MS_MAX
        ));
    }
    Ok(ms)
}

/// A time, in microseconds: a bare number is seconds.
fn span_us(text: &str) -> Result<u64, String> {
    let is_bare = text.ends_with(|last: char| last.is_ascii_digit());
    let us = if is_bare {
        Quantity::Time.parse(&format!("{text}s"))
    } else {
        Quantity::Time.parse(text)
    };
    us.ok_or_else(|| "expected a time, like 60s, 2m or 500ms".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_model::Protocol;

    #[test]
    fn groups() {
        assert_eq!(group_by("prefix/24"), Ok(GroupBy::Prefix { v4: 24, v6: 64 }));
        assert_eq!(group_by("prefix/0,128"), Ok(GroupBy::Prefix { v4: 0, v6: 128 }));
        for bad in [
            "",
            "hosts",
            "prefix",
            "prefix/",
            "prefix/33",
            "prefix/24,129",
            "prefix/-1",
        ] {
            assert!(group_by(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn counts_sort_largest_first_and_names_do_not() {
        assert!(sorting("connections").unwrap().descending);
        assert!(!sorting("-connections").unwrap().descending);
        assert!(!sorting("peer").unwrap().descending);
        assert!(sorting("-peer").unwrap().descending);
        assert!(sorting("size").is_err());
    }

    #[test]
    fn protocol_lists() {
        let both = ProtocolSet::of(&[Protocol::Tcp, Protocol::Udp]);
        assert_eq!(protocols("tcp,udp"), Ok(both));
        assert!(protocols("tcp,sctp").unwrap_err().contains("\"sctp\""));
        assert!(protocols("").is_err());
    }

    #[test]
    fn seconds_are_numbers_above_none() {
        assert_eq!(seconds("0.5").unwrap().as_millis(), 500);
        for bad in ["", "x", "0", "-1", "nan", "inf", "1e300"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn keepalive_times() {
        assert_eq!(keepalive_seconds("60s"), Ok(60));
        assert_eq!(keepalive_seconds("2m"), Ok(120));
        assert_eq!(keepalive_seconds("7"), Ok(7));
        assert_eq!(keepalive_seconds("1000ms"), Ok(1));
        assert_eq!(keepalive_seconds("32767"), Ok(32767));
        for bad in [
            "",
            "s",
            "0",
            "0s",
            "1.5",
            "32768",
            "10h",
            "-1",
            "60 s",
            "nan",
            "99999999999999999999",
        ] {
            assert!(keepalive_seconds(bad).is_err(), "{bad}");
        }
        assert_eq!(keepalive_probes("127"), Ok(127));
        for bad in ["", "0", "128", "-1", "6s"] {
            assert!(keepalive_probes(bad).is_err(), "{bad}");
        }
        assert_eq!(user_timeout_ms("90s"), Ok(90_000));
        assert_eq!(user_timeout_ms("1.5"), Ok(1500));
        assert_eq!(user_timeout_ms("0"), Ok(0));
        assert_eq!(user_timeout_ms("2147483647ms"), Ok(i32::MAX as u32));
        for bad in ["2147483648ms", "100us", "x", "-1s"] {
            assert!(user_timeout_ms(bad).is_err(), "{bad}");
        }
    }
}

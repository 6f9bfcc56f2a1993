//! Keepalive settings as words, for the notes of `keepalive set`, `run` and `attach`: times, the time until a dead peer is
//! detected, the defaults of the system. It formats only.

use sockeye_act::Keepalive;
use sockeye_model::counted;
use sockeye_source::KeepaliveSettings;

/// Formats the times: `time 60 s, interval 10 s, 6 probes`.
pub(super) fn times(keepalive: &Keepalive) -> String {
    let (time_s, interval_s, probes) = (keepalive.time_s, keepalive.interval_s, keepalive.probes);
    let probes = counted(probes, "probe");
    let timeout = keepalive
        .user_timeout_ms
        .map(|ms| format!(", user timeout {ms} ms"));
    format!(
        "time {time_s} s, interval {interval_s} s, {probes}{}",
        timeout.unwrap_or_default()
    )
}

/// Formats the times as options: `--time 60s --interval 10s --probes 6`.
pub(super) fn options(keepalive: &Keepalive) -> String {
    let (time_s, interval_s, probes) = (keepalive.time_s, keepalive.interval_s, keepalive.probes);
    let timeout = keepalive
        .user_timeout_ms
        .map(|ms| format!(" --user-timeout {ms}ms"));
    format!(
        "--time {time_s}s --interval {interval_s}s --probes {probes}{}",
        timeout.unwrap_or_default()
    )
}

/// Formats the time after which a connection to a lost peer ends.
pub(super) fn detection_time(keepalive: &Keepalive) -> String {
    let (time, interval) = (u64::from(keepalive.time_s), u64::from(keepalive.interval_s));
    let seconds = match keepalive.user_timeout_ms.unwrap_or(0) {
        0 => time + interval * u64::from(keepalive.probes),
        // The first probe after the user timeout ends the connection (`tcp_keepalive_timer()`).
        ms => {
            let rest = u64::from(ms.div_ceil(1000)).saturating_sub(time);
            time + interval * rest.div_ceil(interval).max(1)
        }
    };
    span(seconds)
}

/// Formats seconds: `45s`, `2m`, `2h11m15s`.
pub(super) fn span(seconds: u64) -> String {
    let mut text = String::new();
    for (amount, unit) in [
        (seconds / 3600, 'h'),
        (seconds / 60 % 60, 'm'),
        (seconds % 60, 's'),
    ] {
        if amount > 0 {
            text.push_str(&amount.to_string());
            text.push(unit);
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

/// Formats the system's settings in our network namespace; `None` if they cannot be read.
pub(super) fn system_line() -> Option<String> {
    let KeepaliveSettings {
        time_s,
        interval_s,
        probes,
    } = KeepaliveSettings::read()?;
    Some(format!(
        "System: tcp_keepalive_time {time_s} s, tcp_keepalive_intvl {interval_s} s, tcp_keepalive_probes {probes}"
    ))
}

/// Formats a number of connections: `1 connection`, `12 connections`.
pub(super) fn connections(count: u64) -> String {
    counted(count, "connection")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_detection_time_follow_the_user_timeout() {
        let mut keepalive = Keepalive {
            time_s: 60,
            interval_s: 10,
            probes: 6,
            user_timeout_ms: None,
        };
        assert_eq!(times(&keepalive), "time 60 s, interval 10 s, 6 probes");
        assert_eq!(detection_time(&keepalive), "2m");
        for (ms, after) in [(0, "2m"), (75_000, "1m20s"), (30_000, "1m10s"), (1500, "1m10s")] {
            keepalive.user_timeout_ms = Some(ms);
            assert_eq!(detection_time(&keepalive), after, "{ms}");
        }
        assert_eq!(
            times(&keepalive),
            "time 60 s, interval 10 s, 6 probes, user timeout 1500 ms"
        );
        assert_eq!(
            options(&keepalive),
            "--time 60s --interval 10s --probes 6 --user-timeout 1500ms"
        );
        assert_eq!([0, 45, 7875].map(span), ["0s", "45s", "2h11m15s"]);
    }
}

//! Parsers of keepalive times, in the units and bounds of the kernel.

use sockeye_act::Keepalive;
use sockeye_filter::Quantity;

/// Parses the time before the first keepalive probe or between two: whole seconds, within the kernel's bounds.
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

/// Parses a number of keepalive probes.
pub(crate) fn keepalive_probes(text: &str) -> Result<u32, String> {
    let probes = text.parse().ok();
    probes
        .filter(|probes| (1..=Keepalive::PROBES_MAX).contains(probes))
        .ok_or_else(|| format!("the kernel takes 1 to {}", Keepalive::PROBES_MAX))
}

/// Parses `TCP_USER_TIMEOUT`, in milliseconds.
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

/// Parses a time, in microseconds. A number without a unit is seconds.
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

    #[test]
    fn keepalive_times_are_whole_seconds_within_the_kernels_bounds() {
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

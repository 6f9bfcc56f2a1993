//! Formats figures for sentences.

/// Formats a time with three digits: `12.3ms`.
pub(crate) fn time(ns: u64) -> String {
    let (mut rest, mut unit) = (ns as f64, "ns");
    for next in ["us", "ms", "s"] {
        // Rounded before the unit is chosen: 999.9us is 1.00ms.
        if rest < 999.5 {
            break;
        }
        (rest, unit) = (rest / 1000.0, next);
    }
    if ns >= 100_000_000_000 {
        let seconds = ns / 1_000_000_000;
        return match seconds {
            0..3600 => format!("{}m{}s", seconds / 60, seconds % 60),
            _ => format!("{}h{}m", seconds / 3600, seconds / 60 % 60),
        };
    }
    match rest {
        _ if unit == "ns" => format!("{ns}ns"),
        0.0..9.995 => format!("{rest:.2}{unit}"),
        0.0..99.95 => format!("{rest:.1}{unit}"),
        _ => format!("{rest:.0}{unit}"),
    }
}

/// Formats a number with commas between thousands: `2,000`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (nth, digit) in digits.chars().enumerate() {
        if nth > 0 && (digits.len() - nth).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a count with its noun: `1 sample`, `2 samples`.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", count(number))
}

/// Formats a share: `84 %`, `0.4 %`.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    let percent = share(part, whole) * 100.0;
    match percent {
        // 100 % only if nothing is left.
        99.5.. if part < whole => "over 99 %".to_owned(),
        9.95.. => format!("{percent:.0} %"),
        0.05.. => format!("{percent:.1} %"),
        _ if part == 0 => "0 %".to_owned(),
        _ => "under 0.1 %".to_owned(),
    }
}

/// The share from 0 to 1; 0 if the whole is 0.
pub(crate) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}

/// Formats the mean number of threads.
pub(crate) fn threads(time_ns: u64, duration_ns: u64) -> String {
    let threads = share(time_ns, duration_ns);
    match threads {
        9.95.. => format!("{threads:.0}"),
        0.95.. => format!("{threads:.1}"),
        _ => format!("{threads:.2}"),
    }
}

/// Shortens a name from outside for people: keeps its beginning and its end.
///
/// Demangled names of generic functions have hundreds of characters; JSON and CSV have them in full.
pub(crate) fn short(name: &str, most: usize) -> String {
    let length = name.chars().count();
    if length <= most {
        return name.to_owned();
    }
    let tail = most * 2 / 5;
    let head = most.saturating_sub(tail + GAP.len());
    let mut text: String = name.chars().take(head).collect();
    text.push_str(GAP);
    text.extend(name.chars().skip(length - tail));
    text
}

/// In place of the middle of a name; ASCII, since the locale may be C.
const GAP: &str = "...";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits() {
        for (ns, expected) in [
            (0, "0ns"),
            (999, "999ns"),
            (1_000, "1.00us"),
            (12_345, "12.3us"),
            (999_999, "1.00ms"),
            (9_999_000_000, "10.0s"),
            (99_999_000_000, "100s"),
            (123_000_000_000, "2m3s"),
            (u64::MAX, "5124095h34m"),
        ] {
            assert_eq!(time(ns), expected);
        }
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(count(999), "999");
        assert_eq!(counted(1, "sample"), "1 sample");
        assert_eq!(counted(2_000, "call"), "2,000 calls");
        for (part, whole, expected) in [
            (0, 0, "0 %"),
            (0, 9, "0 %"),
            (1, 1_000_000, "under 0.1 %"),
            (4, 1000, "0.4 %"),
            (84, 100, "84 %"),
            (9_999, 10_000, "over 99 %"),
            (7, 7, "100 %"),
        ] {
            assert_eq!(percent(part, whole), expected);
        }
        assert_eq!(threads(5, 10), "0.50");
        assert_eq!(threads(125, 10), "12");
        assert_eq!(threads(1, 0), "0.00");
    }

    #[test]
    fn long_names_keep_both_ends() {
        assert_eq!(short("read", 8), "read");
        assert_eq!(short("abcdefghijkl", 8), "ab...jkl");
        assert_eq!(short("žžžžžžžžžžžž", 8).chars().count(), 8);
    }
}

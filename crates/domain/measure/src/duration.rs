//! Durations in few digits.

/// Returns a duration for people, in few digits: `12.3us`.
#[must_use]
pub fn duration(ns: u64) -> String {
    let ns = ns as f64;
    match ns {
        ..1e3 => format!("{ns:.0}ns"),
        ..1e6 => format!("{:.1}us", ns / 1e3),
        ..1e9 => format!("{:.1}ms", ns / 1e6),
        _ => format!("{:.2}s", ns / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_few_digits() {
        let texts: Vec<String> = [999, 12_345, 1_234_567, 2_500_000_000].map(duration).into();
        assert_eq!(texts, ["999ns", "12.3us", "1.2ms", "2.50s"]);
    }
}

//! Parsers of option values.

use sockeye_filter::Quantity;
use sockeye_query::when;
use sockeye_store::Limits;
use std::time::Duration;

/// Parses the size limit of a store.
pub(crate) fn max_size(text: &str) -> Result<u64, String> {
    Quantity::Bytes
        .parse(text)
        .filter(|bytes| (Limits::BYTES_MIN..=1 << 44).contains(bytes))
        .ok_or_else(|| {
            format!(
                "expected a size like 512Mi, at least {}Mi",
                Limits::BYTES_MIN >> 20
            )
        })
}

/// Parses a duration of at least a minute.
pub(crate) fn age(text: &str) -> Result<Duration, String> {
    let age = when::duration(text)?;
    if age < Duration::from_secs(60) {
        return Err("expected at least one minute".to_owned());
    }
    Ok(age)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_ages_have_a_least_value() {
        assert_eq!(max_size("8Mi"), Ok(8 << 20));
        assert_eq!(max_size("1Gi"), Ok(1 << 30));
        assert_eq!(age("7d"), Ok(Duration::from_secs(7 * 86_400)));
        for bad in ["", "1M", "x", "-1"] {
            assert!(max_size(bad).is_err(), "{bad}");
        }
        for bad in ["", "10", "59s"] {
            assert!(age(bad).is_err(), "{bad}");
        }
    }
}

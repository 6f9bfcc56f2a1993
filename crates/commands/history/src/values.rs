//! Parsers of option values.

use sockeye_filter::Quantity;
use sockeye_query::when;
use sockeye_store::Limits;
use std::time::Duration;

/// Parses the size limit of a store.
pub(crate) fn max_size(text: &str) -> Result<u64, String> {
    Quantity::Bytes
        .parse(text)
        .filter(|bytes| (Limits::BYTES_MIN..=BYTES_MAX).contains(bytes))
        .ok_or_else(|| {
            format!(
                "expected a size like 512Mi, from {}Mi to {}Ti",
                Limits::BYTES_MIN >> 20,
                BYTES_MAX >> 40
            )
        })
}

/// The largest size limit.
const BYTES_MAX: u64 = 1 << 44;

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
        let error = max_size("99999999999999999999").unwrap_err();
        assert!(error.ends_with("from 8Mi to 16Ti"), "{error}");
        assert_eq!(age("7d"), Ok(Duration::from_secs(7 * 86_400)));
        for bad in ["", "1M", "x", "-1"] {
            assert!(max_size(bad).is_err(), "{bad}");
        }
        for bad in ["", "10", "59s"] {
            assert!(age(bad).is_err(), "{bad}");
        }
    }
}

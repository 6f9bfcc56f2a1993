//! Parsers of option values that several commands take.

use std::time::Duration;

/// Parses the number of rows of `--top`; 0 is all of them: `usize::MAX`.
pub fn top(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Ok(usize::MAX),
        Ok(rows) => Ok(rows),
        Err(_) => Err("expected a whole number, 0 or more".to_owned()),
    }
}

/// Parses a number, 1 or more.
pub fn count(text: &str) -> Result<u64, String> {
    text.parse()
        .ok()
        .filter(|count| *count > 0)
        .ok_or_else(|| "expected a whole number, 1 or more".to_owned())
}

/// Parses seconds, 0 or more.
pub fn seconds_or_zero(text: &str) -> Result<Duration, String> {
    if text.parse() == Ok(0.0) {
        return Ok(Duration::ZERO);
    }
    seconds(text).map_err(|error| error.replacen("expected ", "expected 0, or ", 1))
}

/// Parses seconds, more than 0, possibly with a fraction.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text
        .parse()
        .map_err(|_| "expected a number of seconds, like 2 or 0.5".to_owned())?;
    if !(0.001..=1e9).contains(&seconds) {
        return Err("expected at least 0.001 and at most 1000000000 seconds".to_owned());
    }
    Ok(Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_of_seconds_names_0_where_it_is_allowed() {
        assert_eq!(seconds_or_zero("0"), Ok(Duration::ZERO));
        let error = seconds_or_zero("-1").unwrap_err();
        assert!(error.starts_with("expected 0, or at least 0.001"), "{error}");
        assert!(!seconds("-1").unwrap_err().contains("0, or"));
    }

    #[test]
    fn seconds_must_be_finite_and_positive() {
        assert_eq!(seconds("0.5").unwrap().as_millis(), 500);
        for bad in ["", "x", "0", "-1", "nan", "inf", "1e300"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
    }
}

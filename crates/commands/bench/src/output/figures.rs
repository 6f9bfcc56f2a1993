//! Figures within sentences, with three digits.

/// Formats bytes per second as bits: `3.14 Gbit/s`.
pub(crate) fn bits(bytes_per_s: f64) -> String {
    scaled(bytes_per_s * 8.0, "bit/s")
}

/// Formats bytes per second: `12.3 GB/s`.
pub(crate) fn bytes_rate(bytes_per_s: f64) -> String {
    scaled(bytes_per_s, "B/s")
}

/// Formats a ratio: `12.3 x`.
pub(crate) fn times(ratio: f64) -> String {
    format!("{} x", three_digits(ratio))
}

fn scaled(mut value: f64, unit: &str) -> String {
    let mut prefix = "";
    for next in ["k", "M", "G", "T"] {
        if value < 1000.0 {
            break;
        }
        value /= 1000.0;
        prefix = next;
    }
    format!("{} {prefix}{unit}", three_digits(value))
}

fn three_digits(value: f64) -> String {
    let places = match value {
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    format!("{value:.places$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits() {
        assert_eq!(bits(2_860_000.0), "22.9 Mbit/s");
        assert_eq!(bits(26_786_250.0), "214 Mbit/s");
        assert_eq!(bits(0.0), "0.00 bit/s");
        assert_eq!(bytes_rate(5.25e9), "5.25 GB/s");
        assert_eq!(times(9.366), "9.37 x");
        assert_eq!(times(9.999), "10.0 x");
        assert_eq!(times(99.99), "100 x");
    }
}

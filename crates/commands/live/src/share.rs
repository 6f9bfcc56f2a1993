//! The share of a processor that watching may take, as `--cpu` of both commands takes it.

/// A share of a processor in millionths; 0: no bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share(u64);

impl Share {
    /// Returns the bound; `None` without one.
    pub(crate) const fn ppm_max(self) -> Option<u64> {
        match self.0 {
            0 => None,
            ppm => Some(ppm),
        }
    }
}

/// Parses `5%`, `0.5`.
pub(crate) fn percent(text: &str) -> Result<Share, String> {
    let number = text.strip_suffix('%').unwrap_or(text).parse::<f64>().ok();
    let percent = number.filter(|percent| (0.0..=100.0).contains(percent));
    let percent = percent.ok_or("expected a percentage from 0 to 100")?;
    // Below this nothing could be counted.
    let ppm = (percent * 10_000.0)
        .round()
        .max(if percent > 0.0 { 1.0 } else { 0.0 });
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "from 0 to a million"
    )]
    let ppm = ppm as u64;
    Ok(Share(ppm))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn share_is_a_percentage() {
        assert_eq!(percent("5%"), Ok(Share(50_000)));
        assert_eq!(percent("0.5"), Ok(Share(5_000)));
        assert_eq!(percent("0.00001%"), Ok(Share(1)));
        assert_eq!(percent("0").map(Share::ppm_max), Ok(None));
        for bad in ["", "%", "101", "-1", "NaN", "many"] {
            assert!(percent(bad).is_err(), "{bad}");
        }
    }
}

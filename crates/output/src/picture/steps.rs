//! Round distances between labels.

/// Returns the smallest of 1, 2 and 5 times a power of ten that is at least `at_least`.
pub fn round_step(at_least: f64) -> f64 {
    if !(at_least.is_finite() && at_least > 0.0) {
        return 1.0;
    }
    let power = 10_f64.powf(at_least.log10().floor());
    let factor = [1.0, 2.0, 5.0]
        .into_iter()
        .find(|factor| factor * power >= at_least * 0.999_999);
    factor.unwrap_or(10.0) * power
}

//! Parses and formats lists of sizes, for `--sizes` of `bench memory` and `bench file`. What a size means and which bounds it
//! has is decided there.

use sockeye_filter::Quantity;

/// Sizes in ascending order, each once: `64,4Ki,1M`, and ranges with four sizes an octave, `64-64Mi`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sizes(pub(crate) Vec<u64>);

/// Parses a list of sizes.
pub(crate) fn sizes(list: &str) -> Result<Sizes, String> {
    let mut sizes = Vec::new();
    for item in list.split(',') {
        match item.split_once('-') {
            None => sizes.push(size(item)?),
            Some((first, last)) => {
                let (first, last) = (size(first)?, size(last)?);
                if first > last {
                    return Err(format!("{item:?} begins above its end"));
                }
                sizes.extend(between(first, last));
            }
        }
    }
    sizes.sort_unstable();
    sizes.dedup();
    Ok(Sizes(sizes))
}

/// Parses a number of bytes, at least one.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    match Quantity::Bytes.parse(text) {
        None => Err(format!(
            "{text:?} is no size: expected {}",
            Quantity::Bytes.description()
        )),
        Some(0) => Err(format!("{text:?}: a size is at least one byte")),
        Some(bytes) if bytes > 1 << 50 => Err(format!("{text:?} is too large")),
        Some(bytes) => Ok(bytes),
    }
}

/// Formats a size in powers of 1024, as it is typed.
pub(crate) fn text(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["", "Ki", "Mi", "Gi", "Ti"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if value.fract() == 0.0 || value >= 100.0 {
        format!("{value:.0}{}", UNITS[unit])
    } else {
        format!("{value:.1}{}", UNITS[unit])
    }
}

/// Returns the sizes from `first` to `last` in steps of a quarter octave, and `last`.
fn between(first: u64, last: u64) -> impl Iterator<Item = u64> {
    let steps = (0..).map(move |step: u32| (first as f64 * 2_f64.powf(f64::from(step) / 4.0)).round() as u64);
    steps.take_while(move |&size| size < last).chain([last])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_ranges_parse_or_are_errors() {
        assert_eq!(sizes("4Ki,64,4096,4k"), Ok(Sizes(vec![64, 4000, 4096])));
        assert_eq!(
            sizes("64-256").unwrap().0,
            [64, 76, 91, 108, 128, 152, 181, 215, 256]
        );
        assert_eq!(sizes("64-64Mi").unwrap().0.len(), 81);
        assert_eq!(sizes("64-64").unwrap().0, [64]);
        assert_eq!(size("2.5Gi"), Ok(5 << 29));
        assert_eq!(size("1M"), Ok(1_000_000));
        assert_eq!(size("1MiB"), Ok(1 << 20));
        for bad in [
            "", ",", "64,", "x", "-1", "0", "1.2.3", "1e9", "9999999T", "8K-4K", "64-", "1Q", "nan", "\u{e9}",
        ] {
            assert!(sizes(bad).is_err(), "{bad}");
        }
    }
}

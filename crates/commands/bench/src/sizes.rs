//! Parses and formats lists of sizes, for `--sizes` of `bench memory` and `bench file`. What a size means and which bounds it
//! has is decided there.

/// Sizes in ascending order, each once: `64,4K,1M`, and ranges with four sizes an octave, `64-64M`.
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

/// Parses a number of bytes, with K, M, G or T in powers of 1024.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is no size: expected a number of bytes, like 4096, 64K, 1M or 2.1G");
    let text = text.trim_end_matches(['B', 'b']);
    let text = text.strip_suffix('i').unwrap_or(text);
    let digits = text.trim_end_matches(|last: char| last.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return Err(wrong()),
    };
    let is_plain = digits.starts_with(|first: char| first.is_ascii_digit())
        && digits.chars().all(|each| each.is_ascii_digit() || each == '.');
    let number: f64 = if is_plain { digits.parse().ok() } else { None }.ok_or_else(wrong)?;
    let bytes = number * (1_u64 << shift) as f64;
    if bytes < 1.0 {
        return Err(format!("{text:?}: a size is at least one byte"));
    }
    if bytes > (1_u64 << 50) as f64 {
        return Err(format!("{text:?} is too large"));
    }
    Ok(bytes.round() as u64)
}

/// Formats a size in powers of 1024, as it is typed.
pub(crate) fn text(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["", "K", "M", "G", "T"];
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
        assert_eq!(sizes("4K,64,4096"), Ok(Sizes(vec![64, 4096])));
        assert_eq!(
            sizes("64-256").unwrap().0,
            [64, 76, 91, 108, 128, 152, 181, 215, 256]
        );
        assert_eq!(sizes("64-64M").unwrap().0.len(), 81);
        assert_eq!(sizes("64-64").unwrap().0, [64]);
        assert_eq!(size("2.5G"), Ok(5 << 29));
        assert_eq!(size("1Mi"), Ok(1 << 20));
        assert_eq!(size("1MiB"), Ok(1 << 20));
        for bad in [
            "", ",", "64,", "x", "-1", "0", "1.2.3", "1e9", "9999999T", "8K-4K", "64-", "1Q", "nan", "\u{e9}",
        ] {
            assert!(sizes(bad).is_err(), "{bad}");
        }
    }
}

//! Names of quantities as users type them: in filters, `--columns` and `--sort`.

/// Whether `typed` names the quantity `name`: upper case and `-` for `_` are accepted, and the unit may be left out.
///
/// ```
/// use sockeye_model::is_name_of;
///
/// assert!(is_name_of("RTT", "rtt_us") && is_name_of("rtt-us", "rtt_us"));
/// assert!(!is_name_of("rtt_ms", "rtt_us"));
/// ```
pub fn is_name_of(typed: &str, name: &str) -> bool {
    is_same_name(typed, name) || is_same_name(typed, strip_unit(name))
}

/// Returns a name without its unit: `rtt_us` is `rtt`.
pub fn strip_unit(name: &str) -> &str {
    let stripped = |unit: &&str| name.strip_suffix(*unit).filter(|rest| !rest.is_empty());
    UNITS.iter().find_map(stripped).unwrap_or(name)
}

/// Whether two names differ only in upper case and `-` for `_`.
pub fn is_same_name(a: &str, b: &str) -> bool {
    let normal = |byte: u8| match byte {
        b'-' => b'_',
        other => other.to_ascii_lowercase(),
    };
    a.len() == b.len() && a.bytes().map(normal).eq(b.bytes().map(normal))
}

/// Suffixes of names, the longer ones first.
const UNITS: &[&str] = &[
    "_bytes_per_s",
    "_segs_per_s",
    "_per_s",
    "_bytes",
    "_segs",
    "_us",
    "_ms",
    "_ns",
    "_s",
];

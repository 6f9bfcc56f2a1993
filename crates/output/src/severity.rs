//! Colours of severities.

use crate::format::Style;
use sockeye_dictionary::Severity;

/// Colours a severity word, the `len` bytes from `begin` on; does nothing if `word` is `None`.
pub fn colour(out: &mut Vec<u8>, begin: usize, word: Option<(Severity, usize)>, style: Style) {
    let (Style::Color, Some((severity, len))) = (style, word) else {
        return;
    };
    let code: &[u8] = match severity {
        Severity::Critical => b"\x1b[1;31m",
        Severity::Warning => b"\x1b[1;33m",
        Severity::Notice => b"\x1b[1;36m",
        Severity::Info => b"\x1b[1m",
    };
    out.splice(begin + len..begin + len, b"\x1b[0m".iter().copied());
    out.splice(begin..begin, code.iter().copied());
}

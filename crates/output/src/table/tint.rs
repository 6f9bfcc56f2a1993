//! Colours of cells.

use crate::format::Style;
use crate::number::push_padded;

/// Colour of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tint {
    /// The terminal's own colour.
    None,
    /// Dim.
    Dim,
    /// Green.
    Green,
    /// Yellow.
    Yellow,
    /// Blue.
    Blue,
    /// Magenta.
    Magenta,
    /// Cyan.
    Cyan,
}

impl Tint {
    /// Returns the escape sequence of this colour.
    pub const fn code(self) -> &'static [u8] {
        match self {
            Self::None => b"",
            Self::Dim => b"\x1b[2m",
            Self::Green => b"\x1b[32m",
            Self::Yellow => b"\x1b[33m",
            Self::Blue => b"\x1b[34m",
            Self::Magenta => b"\x1b[35m",
            Self::Cyan => b"\x1b[36m",
        }
    }
}

/// Appends the first `len` bytes of `text`.
#[inline]
pub(super) fn push_tinted(out: &mut Vec<u8>, text: &[u8], len: usize, tint: Tint, style: Style) {
    let is_tinted = style == Style::Color && tint != Tint::None && len > 0;
    if is_tinted {
        out.extend_from_slice(tint.code());
    }
    match text.first_chunk::<32>() {
        Some(chunk) if len <= 32 => push_padded(out, chunk, len),
        _ => out.extend_from_slice(&text[..len]),
    }
    if is_tinted {
        out.extend_from_slice(b"\x1b[0m");
    }
}

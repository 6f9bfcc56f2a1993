//! The terminal of the standard output: its size, and whether it can show pixels.

use super::args::FormatArg;
use sockeye_console::stdout::{self, Size};
use std::env;

/// A terminal that a graph is drawn in.
pub(super) struct Terminal {
    size: Size,
    /// Format of pixels; `None` if its name is not known to support any.
    pixels: Option<FormatArg>,
    /// Whether `COLORFGBG` has a dark background.
    pub(super) is_dark: bool,
}

impl Terminal {
    /// Returns the terminal; `None` if standard output is none.
    pub(super) fn here() -> Option<Self> {
        let word = |name: &str| env::var(name).unwrap_or_default();
        let size = stdout::size()?;
        let knows_pixels = size.pixels.is_some();
        Some(Self {
            size,
            pixels: pixels(&word("TERM"), &word("TERM_PROGRAM")).filter(|_| knows_pixels),
            is_dark: is_dark(&word("COLORFGBG")),
        })
    }

    /// Returns the best format that it can show.
    pub(super) fn format(&self) -> FormatArg {
        self.pixels.unwrap_or(FormatArg::Text)
    }

    /// Returns its columns.
    pub(super) fn columns(&self) -> Option<u32> {
        number(self.size.columns)
    }

    /// Returns its lines, less one for the next prompt.
    pub(super) fn lines(&self) -> Option<u32> {
        Some(number(self.size.rows)?.saturating_sub(1))
    }

    /// Returns width and height of a picture in pixels, less two lines.
    pub(super) fn picture(&self) -> Option<(u32, Option<u32>)> {
        let (wide, high) = self.size.pixels?;
        let rows = number(self.size.rows).filter(|rows| *rows > 4);
        let high = rows.and_then(|rows| Some(number(Some(high))? / rows * (rows - 2)));
        Some((number(Some(wide))?, high.filter(|high| *high > 0)))
    }
}

fn number(number: Option<usize>) -> Option<u32> {
    u32::try_from(number?).ok()
}

/// Returns the pixel format of terminals with known names; none inside tmux and screen, which may not pass it on.
fn pixels(term: &str, program: &str) -> Option<FormatArg> {
    if ["tmux", "screen"].iter().any(|inside| term.starts_with(inside)) {
        return None;
    }
    let is_called = |names: &[&str]| {
        names
            .iter()
            .any(|name| term.starts_with(name) || program == *name)
    };
    if is_called(&["xterm-kitty", "xterm-ghostty", "ghostty", "WezTerm", "wezterm"]) {
        return Some(FormatArg::Kitty);
    }
    is_called(&["foot", "mlterm", "yaft", "contour"]).then_some(FormatArg::Sixel)
}

/// Returns whether `COLORFGBG`, which is `foreground;background`, has a dark background: 0 to 6 and 8.
fn is_dark(colors: &str) -> bool {
    let background = colors.rsplit(';').next().and_then(|last| last.parse::<u8>().ok());
    colors.contains(';') && background.is_some_and(|color| color < 7 || color == 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pixel_format_depends_on_name() {
        let check =
            |term: &str, program: &str, expected| assert_eq!(pixels(term, program), expected, "{term}");
        check("xterm-kitty", "", Some(FormatArg::Kitty));
        check("xterm-256color", "WezTerm", Some(FormatArg::Kitty));
        check("foot-extra", "", Some(FormatArg::Sixel));
        check("xterm-256color", "", None);
        check("tmux-256color", "WezTerm", None);
        check("dumb", "", None);
        check("", "", None);
    }

    #[test]
    fn low_background_numbers_are_dark() {
        assert!(is_dark("15;0") && is_dark("15;default;0") && is_dark("7;8"));
        assert!(!is_dark("0;15") && !is_dark("") && !is_dark("0") && !is_dark("15;default"));
    }
}

//! What the terminal behind the standard output can show: characters, or pixels too.

use super::FormatArg;
use sockeye_console::stdout::{self, Size};
use std::env;

/// A terminal that a graph is drawn in.
pub(super) struct Terminal {
    size: Size,
    /// How it takes pixels, if its name says so
    pixels: Option<FormatArg>,
    /// Whether it says that its background is dark
    pub(super) is_dark: bool,
}

impl Terminal {
    /// `None` if there is none.
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

    /// The best that it can show.
    pub(super) fn format(&self) -> FormatArg {
        self.pixels.unwrap_or(FormatArg::Text)
    }

    /// Characters from left to right.
    pub(super) fn columns(&self) -> Option<u32> {
        number(self.size.columns)
    }

    /// Lines, but for one that is left to what is typed next.
    pub(super) fn lines(&self) -> Option<u32> {
        Some(number(self.size.rows)?.saturating_sub(1))
    }

    /// Pixels from left to right, and from top to bottom but for a line or two.
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

/// By the names of terminals that are known to; whoever runs inside another one (tmux, screen) cannot be sure of that.
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

/// rxvt's `foreground;background`, which others set as well: 0 to 6 and 8 are dark.
fn is_dark(colors: &str) -> bool {
    let background = colors.rsplit(';').next().and_then(|last| last.parse::<u8>().ok());
    colors.contains(';') && background.is_some_and(|color| color < 7 || color == 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_what_can_be_shown() {
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
    fn backgrounds() {
        assert!(is_dark("15;0") && is_dark("15;default;0") && is_dark("7;8"));
        assert!(!is_dark("0;15") && !is_dark("") && !is_dark("0") && !is_dark("15;default"));
    }
}

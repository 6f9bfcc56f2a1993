//! Text that the other end chose, made fit for a line of an error or of a log.

/// Returns the text with escapes instead of what controls a terminal, breaks a line, hides or reorders text, and cut to
/// `max` characters.
#[must_use]
pub fn peer_text(text: &str, max: usize) -> String {
    let mut shown = String::new();
    let mut len = 0;
    for character in text.chars() {
        let escaped: String = match character {
            '"' | '\'' | '\\' => character.into(),
            // Escapes what is not printable.
            _ => character.escape_debug().collect(),
        };
        len += escaped.chars().count();
        if len > max {
            // The mark needs room, too.
            while len > max.saturating_sub(CUT.len()) && shown.pop().is_some() {
                len = shown.chars().count();
            }
            shown.push_str(&CUT[..CUT.len().min(max)]);
            return shown;
        }
        shown.push_str(&escaped);
    }
    shown
}

/// Most characters of a message of the other end.
pub const PEER_MESSAGE_MAX: usize = 200;
/// Most characters of a value that a client sent, where a refusal quotes it.
pub(crate) const PEER_VALUE_MAX: usize = 40;
const CUT: &str = "...";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_peer_stays_on_its_line() {
        for (text, shown) in [
            ("no room: \"x\", 5 µs", "no room: \"x\", 5 µs"),
            (
                "a\nsockeye: all is well\r\u{1b}[2J",
                "a\\nsockeye: all is well\\r\\u{1b}[2J",
            ),
            ("\u{9b}2J\u{202e}\u{200b}", "\\u{9b}2J\\u{202e}\\u{200b}"),
        ] {
            assert_eq!(peer_text(text, 100), shown);
        }
        assert_eq!(peer_text("123456", 6), "123456");
        assert_eq!(peer_text("1234567", 6), "123...");
        for max in 0..40 {
            assert!(peer_text(&"\n\u{202e}z".repeat(100), max).chars().count() <= max);
        }
    }
}

//! A text to read, in the width of the screen.

use sockeye_output::wrap::push_wrapped;

/// Returns the lines of a text, broken between words. Lines keep their indent.
pub(crate) fn lines(text: &str, width: u16) -> Vec<String> {
    let mut out = Vec::new();
    for line in text.lines() {
        let words = line.trim_start();
        let indent = &line[..line.len() - words.len()];
        let clean = sockeye_output::harmless(words.as_bytes());
        push_wrapped(&mut out, clean.as_bytes(), indent, Some(width.into()));
    }
    String::from_utf8_lossy(&out).lines().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_broken_and_keep_their_indent() {
        let text = "Title\n\n  one two three four five six seven eight nine ten\n";
        let expected = [
            "Title",
            "",
            "  one two three four five six",
            "    seven eight nine ten",
        ];
        assert_eq!(lines(text, 30), expected);
        assert_eq!(lines("", 30), [""; 0]);
    }
}

//! Undoes what terminals, mail programs and web pages do to a line: colours, quotation marks, entities, runs of blanks.

use std::borrow::Cow;

/// Returns the line without colours, byte order mark, HTML entities and typographic quotation marks, and without what is
/// damaged at its ends.
pub(crate) fn plain(line: &str) -> Cow<'_, str> {
    let line = line.trim_matches(is_noise);
    let is_plain = |byte: &u8| (b' '..=b'~').contains(byte) && *byte != b'&' || *byte == b'\t';
    if line.as_bytes().iter().all(is_plain) {
        return Cow::Borrowed(line);
    }
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(character) = rest.chars().next() {
        if let Some(after) = after_escape(rest) {
            rest = after;
            continue;
        }
        if let Some((text, after)) = entity(rest) {
            out.push_str(text);
            rest = after;
            continue;
        }
        match REPLACED.iter().find(|(from, _)| *from == character) {
            Some((_, to)) => out.push_str(to),
            None => out.push(character),
        }
        rest = &rest[character.len_utf8()..];
    }
    let trimmed = out.trim_matches(is_noise);
    if trimmed.len() != out.len() {
        out = trimmed.to_owned();
    }
    Cow::Owned(out)
}

/// Returns the text with one blank for each run of blanks and tabs: web pages and forms show them so.
pub(crate) fn collapsed(text: &str) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    let is_blank = |byte: u8| byte == b' ' || byte == b'\t';
    let is_collapsed =
        !bytes.contains(&b'\t') && !bytes.windows(2).any(|pair| pair[0] == b' ' && pair[1] == b' ');
    if is_collapsed {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.bytes().position(is_blank) {
        out.push_str(&rest[..at]);
        out.push(' ');
        rest = rest[at..].trim_start_matches([' ', '\t']);
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// Blanks, line ends, the byte order mark, and bytes that were no text.
fn is_noise(character: char) -> bool {
    matches!(
        character,
        ' ' | '\t' | '\r' | '\n' | '\0' | '\u{feff}' | '\u{fffd}' | '\u{a0}' | '\u{200b}'
    )
}

/// The text after a terminal's escape sequence (`ESC [ ... letter`), or after a lone control character.
fn after_escape(text: &str) -> Option<&str> {
    if let Some(rest) = text.strip_prefix("\x1b[")
        && let Some(end) = rest.bytes().position(|byte| (b'@'..=b'~').contains(&byte))
    {
        return Some(&rest[end + 1..]);
    }
    text.strip_prefix(['\x1b', '\r', '\0', '\u{feff}', '\u{200b}'])
}

/// An HTML entity at the start of the text, what it means, and the rest.
fn entity(text: &str) -> Option<(&'static str, &str)> {
    let rest = text.strip_prefix('&')?;
    ENTITIES
        .iter()
        .find_map(|(name, meaning)| Some((*meaning, rest.strip_prefix(name)?)))
}

const ENTITIES: [(&str, &str); 9] = [
    ("lt;", "<"),
    ("gt;", ">"),
    ("amp;", "&"),
    ("quot;", "\""),
    ("apos;", "'"),
    ("#39;", "'"),
    ("#x27;", "'"),
    ("#34;", "\""),
    ("nbsp;", " "),
];

/// Characters that programs put in place of what was typed.
const REPLACED: [(char, &str); 14] = [
    ('\u{2018}', "'"),
    ('\u{2019}', "'"),
    ('\u{201a}', "'"),
    ('\u{201c}', "\""),
    ('\u{201d}', "\""),
    ('\u{201e}', "\""),
    ('\u{2013}', "--"),
    ('\u{2014}', "--"),
    ('\u{2212}', "-"),
    ('\u{2010}', "-"),
    ('\u{2011}', "-"),
    ('\u{2026}', "..."),
    ('\u{a0}', " "),
    ('\u{202f}', " "),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_of_programs_are_undone() {
        let body = "TCP: \"x\" isn't -- done... <4>";
        for line in [
            body,
            "\u{feff}TCP: \u{201c}x\u{201d} isn\u{2019}t \u{2014} done\u{2026} <4>\r\n",
            "\x1b[32mTCP: \x1b[0m\"x\" isn't -- done... \x1b[1;31m<4>\x1b[0m",
            "TCP:&nbsp;&quot;x&quot; isn&#39;t -- done... &lt;4&gt;",
            "TCP: \"x\" isn't -- done... <4>\u{fffd}\u{fffd}",
        ] {
            assert_eq!(plain(line), body);
        }
        assert_eq!(plain("größe & \x1b"), "größe &");
        assert_eq!(plain("\x1b["), "[");
    }

    #[test]
    fn runs_of_blanks_become_one() {
        assert_eq!(collapsed("a  b\t \tc d"), "a b c d");
        assert!(matches!(collapsed("a b"), Cow::Borrowed(_)));
        assert_eq!(collapsed("é   é"), "é é");
    }
}

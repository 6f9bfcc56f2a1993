//! Undoes what terminals, mail programs and web pages do to a line: colours, quotation marks, entities.

use std::borrow::Cow;

/// Returns the line without colours, byte order mark, HTML entities and typographic quotation marks, and without what is
/// damaged at its ends.
pub(crate) fn plain(line: &str) -> Cow<'_, str> {
    let line = line.trim_matches(is_noise);
    if is_plain(line.as_bytes()) {
        return Cow::Borrowed(line);
    }
    // Other languages, and `&` between the parameters of an address.
    let is_changed = |(at, character): (usize, char)| match character {
        '&' => entity(&line[at..]).is_some(),
        '^' => after_escape(&line[at..]).is_some(),
        '\x1b' | '\r' | '\0' | '\u{feff}' | '\u{200b}' => true,
        _ => !character.is_ascii() && REPLACED.iter().any(|(from, _)| *from == character),
    };
    let Some((first, _)) = line.char_indices().find(|&at| is_changed(at)) else {
        return Cow::Borrowed(line);
    };
    let mut out = String::with_capacity(line.len());
    out.push_str(&line[..first]);
    let mut rest = &line[first..];
    loop {
        // What needs no look stays in one piece.
        let same = rest
            .bytes()
            .position(|byte| !is_plain_byte(byte))
            .unwrap_or(rest.len());
        out.push_str(&rest[..same]);
        rest = &rest[same..];
        let Some(character) = rest.chars().next() else {
            break;
        };
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

/// Whether nothing is to be undone. Each step takes many bytes at a time: no byte ends a step early. The last step takes bytes again
/// that the one before had.
fn is_plain(line: &[u8]) -> bool {
    let (steps, _) = line.as_chunks::<STEP>();
    let Some(last) = line.last_chunk::<STEP>() else {
        return line.iter().all(|&byte| is_plain_byte(byte));
    };
    let mut bad = [0_u8; STEP];
    for step in steps.iter().chain([last]) {
        for (bad, &byte) in bad.iter_mut().zip(step) {
            *bad |= u8::from(!is_plain_byte(byte));
        }
    }
    bad == [0; STEP]
}

fn is_plain_byte(byte: u8) -> bool {
    let is_printed = (byte.wrapping_sub(b' ') <= b'~' - b' ') & (byte != b'&') & (byte != b'^');
    is_printed | (byte == b'\t')
}

const STEP: usize = 32;

/// Blanks, line ends, the byte order mark, and bytes that were no text.
fn is_noise(character: char) -> bool {
    matches!(
        character,
        ' ' | '\t' | '\r' | '\n' | '\0' | '\u{feff}' | '\u{fffd}' | '\u{a0}' | '\u{200b}'
    )
}

/// The text after a terminal's escape sequence (`ESC [ ... letter`), or after a lone control character; also where they were written as text,
/// as `cat -v` and pagers do: `^[[33m`, and `^M` at the end.
fn after_escape(text: &str) -> Option<&str> {
    let is_written = text.starts_with("^[[");
    if let Some(rest) = text.strip_prefix(if is_written { "^[[" } else { "\x1b[" })
        && let Some(end) = rest.bytes().position(|byte| (b'@'..=b'~').contains(&byte))
    {
        return Some(&rest[end + 1..]);
    }
    if is_written {
        return Some(&text[2..]);
    }
    if text.starts_with("^M") && text.trim_end_matches("^M").is_empty() {
        return Some("");
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
const REPLACED: [(char, &str); 15] = [
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
    ('\u{2192}', "->"),
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
        assert_eq!(plain("phy3 \u{2192} rt2800"), "phy3 -> rt2800");
        assert_eq!(plain("^[[33m[12.3] ^[[0mTCP: x^M"), "[12.3] TCP: x");
        assert_eq!(plain("größe & \x1b"), "größe &");
        assert_eq!(plain("\x1b["), "[");
    }
}

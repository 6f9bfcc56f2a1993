//! Patterns as in `fnmatch(3)` without flags: `*` and `?` also match `/` and a leading dot. `[.a.]` and `[=a=]` are not
//! supported.

/// Whether the whole of `text` matches.
///
/// `*` any bytes, `?` one byte, `[a-z]`, `[!a-z]` and `[[:digit:]]` one of a set, `\` the next byte itself.
/// An unclosed set is an ordinary `[`; a set with an unknown class and a final `\` match nothing. Takes at most text times pattern steps.
pub(crate) fn matches(pattern: &[u8], text: impl Fn(usize) -> Option<u8>, fold_case: bool) -> bool {
    let (mut at_pattern, mut at_text) = (0, 0);
    // Where to continue if the pattern after the last star did not match: a star only grows.
    let mut star: Option<(usize, usize)> = None;
    loop {
        if pattern.get(at_pattern) == Some(&b'*') {
            at_pattern += 1;
            star = Some((at_pattern, at_text));
            continue;
        }
        match (text(at_text), at_pattern < pattern.len()) {
            (None, false) => return true,
            (Some(byte), true) => {
                let (matched, len) = one(&pattern[at_pattern..], byte, fold_case);
                if matched {
                    at_pattern += len;
                    at_text += 1;
                    continue;
                }
            }
            _ => {}
        }
        match star {
            Some((after, from)) if text(from).is_some() => {
                star = Some((after, from + 1));
                (at_pattern, at_text) = (after, from + 1);
            }
            _ => return false,
        }
    }
}

/// Whether a pattern can match more than one text.
pub(crate) fn has_wildcard(pattern: &[u8]) -> bool {
    pattern.iter().any(|byte| b"*?[\\".contains(byte))
}

/// Whether the first element of `pattern` matches `byte`, and how long it is.
fn one(pattern: &[u8], byte: u8, fold_case: bool) -> (bool, usize) {
    let fold = |byte: u8| {
        if fold_case {
            byte.to_ascii_lowercase()
        } else {
            byte
        }
    };
    match pattern {
        [b'?', ..] => (true, 1),
        [b'\\', escaped, ..] => (fold(*escaped) == fold(byte), 2),
        [b'\\'] => (false, 1),
        [b'[', rest @ ..] => match set(rest, byte, fold_case) {
            Some((matched, len)) => (matched, len + 1),
            None => (byte == b'[', 1),
        },
        [plain, ..] => (fold(*plain) == fold(byte), 1),
        [] => (false, 0),
    }
}

/// Parses a set after its `[`: whether it contains `byte`, and its length with the `]`. `None` if it is not closed.
fn set(pattern: &[u8], byte: u8, fold_case: bool) -> Option<(bool, usize)> {
    let negated = matches!(pattern.first(), Some(b'!' | b'^'));
    let mut at = usize::from(negated);
    let first = at;
    let mut found = false;
    // Case folding applies to letters and ranges, not to classes: `[[:upper:]]` does not contain `a`.
    let fold = |byte: u8| {
        if fold_case {
            byte.to_ascii_lowercase()
        } else {
            byte
        }
    };
    loop {
        match *pattern.get(at)? {
            b']' if at > first => return Some((found != negated, at + 1)),
            b'[' if pattern.get(at + 1) == Some(&b':') => {
                let name = &pattern[at + 2..];
                let len = name.windows(2).position(|end| end == b":]")?;
                if !CLASSES.contains(&&name[..len]) {
                    return Some((false, 1));
                }
                found |= in_class(&name[..len], byte);
                at += len + 4;
            }
            mut low => {
                if low == b'\\' {
                    at += 1;
                    low = *pattern.get(at)?;
                }
                at += 1;
                let mut high = low;
                if pattern.get(at) == Some(&b'-') && pattern.get(at + 1).is_some_and(|&end| end != b']') {
                    high = pattern[at + 1];
                    at += 2;
                    if high == b'\\' {
                        high = *pattern.get(at)?;
                        at += 1;
                    }
                }
                found |= (fold(low)..=fold(high)).contains(&fold(byte));
            }
        }
    }
}

fn in_class(name: &[u8], byte: u8) -> bool {
    match name {
        b"alpha" => byte.is_ascii_alphabetic(),
        b"digit" => byte.is_ascii_digit(),
        b"alnum" => byte.is_ascii_alphanumeric(),
        b"upper" => byte.is_ascii_uppercase(),
        b"lower" => byte.is_ascii_lowercase(),
        b"space" => byte.is_ascii_whitespace() || byte == 0x0b,
        b"blank" => byte == b' ' || byte == b'\t',
        b"punct" => byte.is_ascii_punctuation(),
        b"xdigit" => byte.is_ascii_hexdigit(),
        b"cntrl" => byte.is_ascii_control(),
        b"print" => byte.is_ascii_graphic() || byte == b' ',
        b"graph" => byte.is_ascii_graphic(),
        _ => false,
    }
}

const CLASSES: [&[u8]; 12] = [
    b"alpha", b"digit", b"alnum", b"upper", b"lower", b"space", b"blank", b"punct", b"xdigit", b"cntrl",
    b"print", b"graph",
];

#[cfg(test)]
mod tests {
    fn check(pattern: &str, text: &str, expected: bool) {
        let found = super::matches(pattern.as_bytes(), |at| text.as_bytes().get(at).copied(), true);
        assert_eq!(found, expected, "{pattern} {text}");
    }

    #[test]
    fn patterns_match_as_in_fnmatch() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("*", "/run/.x", true),
            ("/run/*", "/RUN/systemd/notify", true),
            ("*.sock", "/tmp/a.sock.sock", true),
            ("*.sock", "/tmp/a.sock.", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("[a-c]x", "Bx", true),
            ("[!a-c]x", "bx", false),
            ("[A-_]", "b", false), // a to _, which is none
            ("[[:upper:]]", "a", false),
            ("[]]", "]", true),
            ("[a", "[a", true),
            ("[[:digit:]]*", "7up", true),
            ("[[:digit:]]*", "up", false),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("\\", "\\", false),
            ("[^[:odd:]]", "a", false),
            ("[\\]a]", "]", true),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxbyy", false),
            ("@*", "@abstract", true),
        ] {
            check(pattern, text, expected);
        }
    }

    #[test]
    fn many_stars_take_bounded_time() {
        check(&"*a".repeat(50), &"a".repeat(49), false);
        check(&format!("{}b", "*a".repeat(50)), &"a".repeat(108), false);
    }
}

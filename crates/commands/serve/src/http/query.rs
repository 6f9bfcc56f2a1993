//! The part of a URL behind `?`, and forms, which have the same encoding.

/// Returns the decoded value of the first field with this name; `None`: there is none. Bytes that are not UTF-8 become U+FFFD.
pub(crate) fn field(query: &str, name: &str) -> Option<String> {
    query.split('&').find_map(|field| {
        let (key, value) = field.split_once('=').unwrap_or((field, ""));
        (decoded(key) == name).then(|| decoded(value))
    })
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        (bytes, rest) = match (first, after) {
            (b'+', _) => (pushed(bytes, b' '), after),
            (b'%', [high, low, after @ ..]) => match (hex(*high), hex(*low)) {
                (Some(high), Some(low)) => (pushed(bytes, high * 16 + low), after),
                _ => (pushed(bytes, b'%'), &rest[1..]),
            },
            _ => (pushed(bytes, *first), after),
        };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn pushed(mut bytes: Vec<u8>, byte: u8) -> Vec<u8> {
    bytes.push(byte);
    bytes
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

#[cfg(test)]
mod tests {
    use super::field;

    #[track_caller]
    fn check(query: &str, name: &str, expected: Option<&str>) {
        assert_eq!(field(query, name).as_deref(), expected, "{name} in {query}");
    }

    #[test]
    fn values_are_decoded() {
        check(
            "filter=dport+%3D+%3A443&sort=-rtt",
            "filter",
            Some("dport = :443"),
        );
        check("filter=dport+%3D+%3A443&sort=-rtt", "sort", Some("-rtt"));
        check("a=1&a=2", "a", Some("1"));
        check("a", "a", Some(""));
        check("", "a", None);
        check("%61=b", "a", Some("b"));
    }

    #[test]
    fn broken_escapes_stay_as_they_are() {
        check("a=%", "a", Some("%"));
        check("a=%4", "a", Some("%4"));
        check("a=%zz%41", "a", Some("%zzA"));
        check("a=%ff", "a", Some("\u{fffd}"));
        check("a=%00", "a", Some("\0"));
    }
}

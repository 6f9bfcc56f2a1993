//! Patterns for the names of functions.

/// A pattern: `*` matches any characters, `?` one; any other character matches itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern {
    text: Vec<u8>,
}

impl Pattern {
    pub(super) fn new(text: &str) -> Self {
        Self {
            text: text.as_bytes().to_vec(),
        }
    }

    /// Returns whether the whole name matches.
    pub(super) fn matches(&self, name: &[u8]) -> bool {
        let (mut at, mut in_name) = (0, 0);
        // The position of the last star, and the end of what it matches so far.
        let mut star: Option<(usize, usize)> = None;
        while in_name < name.len() {
            match self.text.get(at) {
                Some(b'*') => {
                    star = Some((at, in_name));
                    at += 1;
                }
                Some(&expected) if expected == b'?' || expected == name[in_name] => {
                    at += 1;
                    in_name += 1;
                }
                _ => match star {
                    Some((place, until)) => {
                        star = Some((place, until + 1));
                        at = place + 1;
                        in_name = until + 1;
                    }
                    None => return false,
                },
            }
        }
        self.text[at..].iter().all(|&byte| byte == b'*')
    }

    /// Returns whether the symbol name matches, or the demangled name with or without its argument types.
    pub(super) fn matches_either(&self, name: &[u8], demangled: &str) -> bool {
        self.matches(name)
            || (demangled.as_bytes() != name
                && (self.matches(demangled.as_bytes())
                    || self.matches(without_arguments(demangled).as_bytes())))
    }

    /// Returns the pattern without stars and question marks, to find similar names.
    pub(super) fn words(&self) -> String {
        let kept = self.text.iter().filter(|byte| !matches!(byte, b'*' | b'?'));
        String::from_utf8_lossy(&kept.copied().collect::<Vec<u8>>()).into_owned()
    }
}

/// Returns `ns::f` for `ns::f(int)`.
fn without_arguments(name: &str) -> &str {
    let mut nested = 0_u32;
    for (at, byte) in name.bytes().enumerate() {
        match byte {
            b'<' => nested += 1,
            b'>' => nested = nested.saturating_sub(1),
            b'(' if nested == 0 => {
                let is_part_of_name =
                    name[at..].starts_with("(anonymous namespace)") || name[..at].ends_with("operator");
                if !is_part_of_name {
                    return &name[..at];
                }
            }
            _ => {}
        }
    }
    name
}

/// Returns the `names` that are most similar to the words of a pattern, the best first.
pub(super) fn similar(words: &str, names: impl Iterator<Item = String>) -> Vec<String> {
    let words = words.to_ascii_lowercase();
    let mut best: Vec<(usize, String)> = Vec::new();
    if words.is_empty() {
        return Vec::new();
    }
    for name in names {
        let lower = name.to_ascii_lowercase();
        let distance = if lower.contains(&words) || (lower.len() > 2 && words.contains(&lower)) {
            lower.len().abs_diff(words.len()).min(FAR) / 4
        } else if lower.len().abs_diff(words.len()) <= FAR {
            distance(lower.as_bytes(), words.as_bytes())
        } else {
            continue;
        };
        // A third of the letters may differ.
        if distance <= FAR.min(words.len() / 3 + 1) && !best.iter().any(|(_, known)| *known == name) {
            let place = best.partition_point(|(known, _)| *known <= distance);
            best.insert(place, (distance, name));
            best.truncate(SIMILAR_MAX);
        }
    }
    best.into_iter().map(|(_, name)| name).collect()
}

/// Returns how many letters must be inserted, removed or changed (Levenshtein distance).
fn distance(one: &[u8], other: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (above, letter) in one.iter().enumerate() {
        let mut corner = row[0];
        row[0] = above + 1;
        for place in 0..other.len() {
            let changed = corner + usize::from(*letter != other[place]);
            corner = row[place + 1];
            row[place + 1] = changed.min(corner + 1).min(row[place] + 1);
        }
    }
    row[other.len()]
}

/// The largest distance of similar names.
const FAR: usize = 8;

/// The most similar names.
const SIMILAR_MAX: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_match_whole_names() {
        for (pattern, name, expected) in [
            ("BF_*", "BF_encrypt", true),
            ("BF_*", "EBF_encrypt", false),
            ("*crypt", "BF_encrypt", true),
            ("*_*_*", "a_b", false),
            ("*_*_*", "a__", true),
            ("malloc", "malloc", true),
            ("malloc", "mallocx", false),
            ("m?lloc", "malloc", true),
            ("m?lloc", "mlloc", false),
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("a*b*c", "aXbXbc", true),
            ("a*b*c", "aXbXb", false),
        ] {
            assert_eq!(
                Pattern::new(pattern).matches(name.as_bytes()),
                expected,
                "{pattern} {name}"
            );
        }
    }

    #[test]
    fn demangled_names_match_with_and_without_arguments() {
        let matches = |pattern: &str, demangled| Pattern::new(pattern).matches_either(b"_ZX", demangled);
        assert!(matches("ns::f", "ns::f(int)"));
        assert!(matches("ns::f(int)", "ns::f(int)"));
        assert!(matches("ns::*", "ns::f(int)"));
        assert!(matches("_Z*", "ns::f(int)"));
        assert!(matches(
            "(anonymous namespace)::f",
            "(anonymous namespace)::f(int)"
        ));
        assert!(matches("f<g(int)>", "f<g(int)>(char)"));
        assert!(matches("S::operator()", "S::operator()(int)"));
        assert!(!matches("ns", "ns::f(int)"));
    }

    #[test]
    fn similar_returns_best_first() {
        let names = || ["BF_encrypt", "BF_decrypt", "AES_encrypt", "main", "puts"].map(str::to_owned);
        assert_eq!(similar("BF_encript", names().into_iter())[0], "BF_encrypt");
        assert_eq!(similar("bf_", names().into_iter()), ["BF_encrypt", "BF_decrypt"]);
        assert!(similar("zzzzzz", names().into_iter()).is_empty());
        assert_eq!(distance(b"kitten", b"sitting"), 3);
    }
}

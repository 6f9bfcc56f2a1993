//! Patterns for the names of functions.

/// `*` stands for any characters, `?` for one; whatever else stands for itself.
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

    /// Whether the whole name is like it.
    pub(super) fn fits(&self, name: &[u8]) -> bool {
        let (mut at, mut in_name) = (0, 0);
        // Where the last star was, and how much of the name it stands for so far.
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

    /// Whether a function is meant that has this name in the file, and this one in the source; of the latter with the types
    /// of its arguments or without.
    pub(super) fn fits_either(&self, name: &[u8], demangled: &str) -> bool {
        self.fits(name)
            || (demangled.as_bytes() != name
                && (self.fits(demangled.as_bytes()) || self.fits(without_arguments(demangled).as_bytes())))
    }

    /// Without stars and question marks: what names are compared with to find similar ones.
    pub(super) fn words(&self) -> String {
        let kept = self.text.iter().filter(|byte| !matches!(byte, b'*' | b'?'));
        String::from_utf8_lossy(&kept.copied().collect::<Vec<u8>>()).into_owned()
    }
}

/// `ns::f(int)` as `ns::f`.
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

/// Those of `names` that are most like the words of a pattern, the best first.
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
        // A third of the letters may be wrong.
        if distance <= FAR.min(words.len() / 3 + 1) && !best.iter().any(|(_, known)| *known == name) {
            let place = best.partition_point(|(known, _)| *known <= distance);
            best.insert(place, (distance, name));
            best.truncate(SIMILAR_MAX);
        }
    }
    best.into_iter().map(|(_, name)| name).collect()
}

/// How many letters must be put in, taken out or changed (Levenshtein).
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

/// Names that differ more are not similar.
const FAR: usize = 8;

/// So many are told.
const SIMILAR_MAX: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_and_question_marks() {
        for (pattern, name, fits) in [
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
                Pattern::new(pattern).fits(name.as_bytes()),
                fits,
                "{pattern} {name}"
            );
        }
    }

    #[test]
    fn names_of_the_source() {
        let fits = |pattern: &str, demangled| Pattern::new(pattern).fits_either(b"_ZX", demangled);
        assert!(fits("ns::f", "ns::f(int)"));
        assert!(fits("ns::f(int)", "ns::f(int)"));
        assert!(fits("ns::*", "ns::f(int)"));
        assert!(fits("_Z*", "ns::f(int)"));
        assert!(fits("(anonymous namespace)::f", "(anonymous namespace)::f(int)"));
        assert!(fits("f<g(int)>", "f<g(int)>(char)"));
        assert!(fits("S::operator()", "S::operator()(int)"));
        assert!(!fits("ns", "ns::f(int)"));
    }

    #[test]
    fn similar_names() {
        let names = || ["BF_encrypt", "BF_decrypt", "AES_encrypt", "main", "puts"].map(str::to_owned);
        assert_eq!(similar("BF_encript", names().into_iter())[0], "BF_encrypt");
        assert_eq!(similar("bf_", names().into_iter()), ["BF_encrypt", "BF_decrypt"]);
        assert!(similar("zzzzzz", names().into_iter()).is_empty());
        assert_eq!(distance(b"kitten", b"sitting"), 3);
    }
}

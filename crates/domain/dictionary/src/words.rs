//! Words of texts. The build script indexes those of all entries, a search for a text without a name looks them up.

/// The words of a text in lower case that a search may have: not numbers, and not those that are too short or too long to say much.
pub(crate) fn words(lower: &str) -> impl Iterator<Item = &str> {
    lower
        .split(|character: char| !character.is_alphanumeric() && character != '_')
        .filter(|word| (WORD_LEN_MIN..=WORD_LEN_MAX).contains(&word.len()))
        .filter(|word| !word.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether the text has a word that begins with `word`: `flood` in `flooding`.
pub(crate) fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| is_word_begin(text, at))
}

/// Whether a word may begin at this place of a text.
pub(crate) fn is_word_begin(text: &str, at: usize) -> bool {
    at == 0 || !text.as_bytes()[at - 1].is_ascii_alphanumeric()
}

const WORD_LEN_MIN: usize = 3;
/// Longer texts are no words.
const WORD_LEN_MAX: usize = 80;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_that_say_something() {
        let found: Vec<_> = words("tcp: out of memory, tcp_mem 4096 (größe)").collect();
        assert_eq!(found, ["tcp", "out", "memory", "tcp_mem", "größe"]);
        assert_eq!(words(&"a".repeat(81)).next(), None);
        assert!(has_word("syn flooding", "flood") && has_word("tcp_mem", "mem"));
        assert!(!has_word("unflooded", "flood"));
    }
}

//! Shorter forms of headings, for narrow terminals.

use std::borrow::Cow;

/// Returns the forms of a table's headings, from the longest to the shortest, each with one text per heading: whole; the first
/// word, if no other heading begins with it; the long words of that abbreviated, as is usual or with a full stop.
///
/// ```
/// use sockeye_output::heading::heading_forms;
/// let [_, first_words, abbreviated] = heading_forms(&["Peer Address:Port", "Connections", "Queue limit", "Queue drops"]);
/// assert_eq!(first_words, ["Peer", "Connections", "Queue limit", "Queue drops"]);
/// assert_eq!(abbreviated, ["Peer", "Conn", "Queue limit", "Queue drops"]);
/// ```
#[must_use]
pub fn heading_forms<'a>(headings: &[&'a str]) -> [Vec<Cow<'a, str>>; 3] {
    let whole = headings.iter().map(|heading| Cow::Borrowed(*heading));
    let first_words: Vec<&'a str> = headings
        .iter()
        .map(|heading| first_word_if_unique(heading, headings))
        .collect();
    let abbreviated = first_words.iter().map(|heading| abbreviated(heading));
    let abbreviated = abbreviated.collect();
    [
        whole.collect(),
        first_words.into_iter().map(Cow::Borrowed).collect(),
        abbreviated,
    ]
}

fn first_word_if_unique<'a>(heading: &'a str, all: &[&str]) -> &'a str {
    let word = first_word(heading);
    let same = all.iter().filter(|other| first_word(other) == word).count();
    if same > 1 { heading } else { word }
}

fn first_word(heading: &str) -> &str {
    heading.split(' ').next().unwrap_or_default()
}

/// `Conn` of `Connections`, `Retr.` of `Retransmits`; short words and rates (`Received/s`) stay.
fn abbreviated(heading: &str) -> Cow<'_, str> {
    let is_long = |word: &str| word.chars().count() > LETTERS_WHOLE && !word.contains('/');
    if !heading.split(' ').any(is_long) {
        return Cow::Borrowed(heading);
    }
    let words = heading.split(' ').map(|word| {
        let usual = USUAL.iter().find(|(whole, _)| *whole == word);
        if let Some((_, usual)) = usual {
            Cow::Borrowed(*usual)
        } else if is_long(word) {
            let letters: String = word.chars().take(LETTERS).collect();
            Cow::Owned(letters + ".")
        } else {
            Cow::Borrowed(word)
        }
    });
    Cow::Owned(words.collect::<Vec<_>>().join(" "))
}

/// Abbreviations that need no full stop.
const USUAL: [(&str, &str); 2] = [("Connections", "Conn"), ("Process", "Proc")];
/// Words of so many letters are not abbreviated.
const LETTERS_WHOLE: usize = 6;
/// Letters of a word that is abbreviated.
const LETTERS: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_whole_words_or_marked() {
        let headings = [
            "Local Address:Port",
            "Connections",
            "Sent/s",
            "Qdisc",
            "Qdisc drops",
            "État général",
        ];
        let [whole, first, short] = heading_forms(&headings);
        assert_eq!(whole, headings);
        assert_eq!(
            first,
            ["Local", "Connections", "Sent/s", "Qdisc", "Qdisc drops", "État"]
        );
        assert_eq!(short, ["Local", "Conn", "Sent/s", "Qdisc", "Qdisc drops", "État"]);
        assert_eq!(abbreviated("Retransmitted bytes"), "Retr. bytes");
        assert_eq!(abbreviated("Received/s"), "Received/s");
        assert_eq!(abbreviated(""), "");
    }
}

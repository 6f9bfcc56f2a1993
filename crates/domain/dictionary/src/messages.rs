//! Matches lines of a log with the texts of the entries.

use crate::anchors::Anchors;
use crate::pattern::{Budget, Pattern};
use crate::{Entry, Placeholder};

/// The texts of all messages.
#[derive(Debug, Clone)]
pub(crate) struct Messages<'d> {
    /// The most specific texts first.
    texts: Vec<(&'d Entry<'static>, Pattern<'d>)>,
    /// Finds candidates for a line by their longest literal pieces.
    pieces: Anchors<'d>,
}

/// A log line with a known entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MatchedLine<'d, 'l> {
    pub(crate) entry: &'d Entry<'static>,
    pub(crate) values: Vec<(Placeholder, &'l str)>,
}

impl<'d> Messages<'d> {
    pub(crate) fn new(entries: &'d [Entry<'static>]) -> Self {
        let mut texts: Vec<(&Entry<'static>, Pattern<'d>)> = entries
            .iter()
            .flat_map(|entry| entry.texts.iter().map(move |text| (entry, text)))
            .filter_map(|(entry, text)| Some((entry, Pattern::parse(text).ok()?)))
            .collect();
        texts.sort_by_key(|(_, pattern)| std::cmp::Reverse(pattern.exactness()));
        let pieces = texts.iter().map(|(_, pattern)| pattern.longest_literal());
        let pieces = Anchors::new(pieces.collect());
        Self { texts, pieces }
    }

    /// The entry of a line and the values of its placeholders. `line` is what the kernel printed, without the
    /// log's prefix. The rest of a line longer than [`LINE_LEN_MAX`] is ignored.
    pub(crate) fn match_line<'l>(&self, line: &'l str) -> Option<MatchedLine<'d, 'l>> {
        let line = &line[..line.floor_char_boundary(LINE_LEN_MAX)];
        self.match_within(line, &mut Budget::for_line(line.len()))
    }

    fn match_within<'l>(&self, line: &'l str, budget: &mut Budget) -> Option<MatchedLine<'d, 'l>> {
        let likely = self.pieces.contained_in(line);
        if likely.is_empty() {
            return None;
        }
        // Drivers prefix their messages with name, bus and interface. The most specific text wins wherever it begins: that of a
        // driver's family names the driver, that of one message begins after the prefix.
        let starts: Vec<usize> = message_starts(line).collect();
        likely.iter().find_map(|&nth| {
            let (entry, pattern) = &self.texts[nth];
            starts.iter().find_map(|&start| {
                let mut values = pattern.values(&line[start..], budget)?;
                if let Some(interface) = interface(&line[..start])
                    && !values.iter().any(|(place, _)| *place == Placeholder::Interface)
                {
                    values.insert(0, (Placeholder::Interface, interface));
                }
                Some(MatchedLine { entry, values })
            })
        })
    }
}

/// Offsets where a message may begin: the start of the line, and after each colon near it.
fn message_starts(line: &str) -> impl Iterator<Item = usize> {
    let behind = line
        // A search for one byte is faster than one for two.
        .match_indices(':')
        .filter(|(at, _)| line.as_bytes().get(at + 1) == Some(&b' '))
        .map(|(at, _)| at + 2)
        .take_while(|&at| at <= PREFIX_LEN_MAX)
        .take(PREFIXES_MAX);
    std::iter::once(0).chain(behind)
}

/// The last word of `e1000e 0000:00:1f.6 eth0: `, if it may be an interface.
fn interface(prefix: &str) -> Option<&str> {
    let words = prefix.strip_suffix(": ")?;
    let last = words.rsplit([' ', '(']).next()?;
    let is_bus = last.contains(':') || last.contains('.') && last.bytes().next()?.is_ascii_digit();
    let is_name = (1..16).contains(&last.len()) && last.bytes().all(|byte| byte.is_ascii_graphic());
    (is_name && !is_bus && words.contains(' ')).then_some(last)
}

/// Limit for a line in bytes; the kernel prints no line that is half as long.
pub(crate) const LINE_LEN_MAX: usize = 4_096;
/// Longer ones are no prefixes.
const PREFIX_LEN_MAX: usize = 80;
/// `bonding: bond0: (slave eth1): ` has three.
const PREFIXES_MAX: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Dictionary;

    /// Returns the share of its budget that a line needs.
    fn share_spent(messages: &Messages<'_>, line: &str) -> f64 {
        let whole = Budget::for_line(line.len()).left();
        let mut budget = Budget::for_line(line.len());
        messages.match_within(line, &mut budget);
        1.0 - budget.left() as f64 / whole as f64
    }

    #[test]
    fn budget_is_four_times_what_real_lines_need() {
        let dictionary = Dictionary::new();
        let messages = Messages::new(dictionary.entries());
        let examples = dictionary.entries().iter().flat_map(|entry| &entry.examples);
        let mut most = 0.0_f64;
        for example in examples {
            for prefix in ["", "e1000e 0000:00:1f.6 eth0: ", "a: b: c: d: "] {
                most = most.max(share_spent(&messages, &format!("{prefix}{example}")));
            }
        }
        assert!((0.001..0.25).contains(&most), "{most}");
    }

    /// Each text again with all its pieces but the last, as often as they fit: the most that its placeholders can try.
    #[test]
    fn work_for_hostile_line_is_bounded() {
        let dictionary = Dictionary::new();
        let messages = Messages::new(dictionary.entries());
        let mut spends_all = 0;
        for text in dictionary.entries().iter().flat_map(|entry| &entry.texts) {
            let pieces: Vec<&str> = text.split(['{', '}']).step_by(2).collect();
            let [first, inner @ .., _] = &pieces[..] else {
                continue;
            };
            let longest = pieces.iter().max_by_key(|piece| piece.len()).unwrap_or(first);
            let repeated: String = inner.iter().map(|piece| format!("0{piece}")).collect();
            let count = LINE_LEN_MAX / (repeated.len() + 2);
            let line = format!(
                "{first}{}\u{1}{longest}\u{1}",
                format!("{repeated}0 ").repeat(count)
            );
            spends_all += u32::from(share_spent(&messages, &line) > 0.99);
        }
        // Without the limit the lines of these texts would take far longer.
        assert!(spends_all > 0);
    }
}

//! Matches lines of a log with the texts of the entries.

use crate::pattern::Pattern;
use crate::{Entry, Placeholder};
use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

/// The texts of all messages.
#[derive(Debug)]
pub(crate) struct Messages<'d> {
    /// The most specific texts first.
    texts: Vec<(&'d Entry<'static>, Pattern<'d>)>,
    /// Finds candidates for a line by their longest literal pieces.
    pieces: Option<AhoCorasick>,
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
        let pieces = AhoCorasick::builder()
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .match_kind(MatchKind::Standard)
            .build(texts.iter().map(|(_, pattern)| pattern.longest_literal()))
            // The only error is an excessive number of pieces.
            .ok();
        Self { texts, pieces }
    }

    /// The entry of a line and the values of its placeholders. `line` is what the kernel printed, without the
    /// log's prefix.
    pub(crate) fn match_line<'l>(&self, line: &'l str) -> Option<MatchedLine<'d, 'l>> {
        let pieces = self.pieces.as_ref()?;
        let mut likely: Vec<usize> = pieces
            .find_overlapping_iter(line)
            .map(|found| found.pattern().as_usize())
            .collect();
        if likely.is_empty() {
            return None;
        }
        likely.sort_unstable();
        likely.dedup();
        // Drivers prefix their messages with name, bus and interface.
        message_starts(line).find_map(|start| {
            let rest = &line[start..];
            likely.iter().find_map(|&nth| {
                let (entry, pattern) = &self.texts[nth];
                let mut values = pattern.values(rest)?;
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
        .match_indices(": ")
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

/// Longer ones are no prefixes.
const PREFIX_LEN_MAX: usize = 80;
/// `bonding: bond0: (slave eth1): ` has three.
const PREFIXES_MAX: usize = 4;

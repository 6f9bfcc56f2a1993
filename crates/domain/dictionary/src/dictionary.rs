use crate::lookup::Names;
use crate::pattern::Pattern;
use crate::{Entry, Found, Kind, Log, stanza};
use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use std::sync::OnceLock;

/// All entries, with what finds them.
#[derive(Debug)]
pub struct Dictionary {
    entries: Vec<Entry<'static>>,
    /// Made when the first name is sought.
    names: OnceLock<Names>,
}

impl Dictionary {
    /// The one in the binary.
    ///
    /// An entry that cannot be read is not there; that there is none is what the tests see to.
    #[must_use]
    pub fn new() -> Self {
        let entries = Kind::ALL
            .into_iter()
            .flat_map(|kind| stanza::entries(kind, kind.file().1))
            .flatten()
            .collect();
        Self {
            entries,
            names: OnceLock::new(),
        }
    }

    /// Each entry, kind by kind, in the order of the files.
    #[must_use]
    pub fn entries(&self) -> &[Entry<'static>] {
        &self.entries
    }

    /// What a text is: a name in any spelling, a line of a tool or of a log; and what comes near it, where it is nothing that is known.
    #[must_use]
    pub fn find(&self, text: &str) -> Found<'_> {
        let names = self.names.get_or_init(|| Names::new(&self.entries));
        names.find(&self.entries, text)
    }

    /// Begins to read a log.
    #[must_use]
    pub fn log(&self) -> Log<'_> {
        Log::new(Messages::new(&self.entries))
    }
}

impl Default for Dictionary {
    fn default() -> Self {
        Self::new()
    }
}

/// All texts of messages at once.
#[derive(Debug)]
pub(crate) struct Messages<'d> {
    /// Those that say most come first.
    texts: Vec<(&'d Entry<'static>, Pattern<'d>)>,
    /// Finds which of them a line may be, by their longest pieces.
    pieces: Option<AhoCorasick>,
}

/// A line of a log that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Known<'d, 'l> {
    pub(crate) entry: &'d Entry<'static>,
    pub(crate) values: Vec<(crate::Placeholder, &'l str)>,
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
            // Far too many pieces is the one way to fail.
            .ok();
        Self { texts, pieces }
    }

    /// The entry whose text this is, and what stands at its places. `line` is what the kernel printed, without what a log puts in
    /// front of it.
    pub(crate) fn know<'l>(&self, line: &'l str) -> Option<Known<'d, 'l>> {
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
        // A driver puts its name, its bus and its interface in front.
        starts(line).find_map(|start| {
            let rest = &line[start..];
            likely.iter().find_map(|&nth| {
                let (entry, pattern) = &self.texts[nth];
                let mut values = pattern.values(rest)?;
                if let Some(interface) = interface(&line[..start])
                    && !values
                        .iter()
                        .any(|(place, _)| *place == crate::Placeholder::Interface)
                {
                    values.insert(0, (crate::Placeholder::Interface, interface));
                }
                Some(Known { entry, values })
            })
        })
    }
}

/// Where a message may begin: at the line's, and behind each colon near it.
fn starts(line: &str) -> impl Iterator<Item = usize> {
    let behind = line
        .match_indices(": ")
        .map(|(at, _)| at + 2)
        .take_while(|&at| at <= PREFIX_LEN_MAX)
        .take(PREFIXES_MAX);
    std::iter::once(0).chain(behind)
}

/// The last word of `e1000e 0000:00:1f.6 eth0: `, where it may be an interface.
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

//! The entries in the binary, as `build.rs` packs them. A block of entries, or of their texts, is unpacked when one of them is needed, and
//! stays.

use crate::anchors::Anchors;
use crate::names::{key, spellings};
use crate::pattern::Pattern;
use crate::{Entry, Kind, stanza};
use miniz_oxide::inflate::decompress_slice_iter_to_slice;
use std::borrow::Cow;
use std::sync::OnceLock;

/// Some entries of one kind.
struct Block {
    kind: Kind,
    /// Number of the first entry
    first: usize,
    /// The stanzas of the entries in [`PACKED`], without the texts of messages
    stanzas: Piece,
    /// Number of the texts of the blocks before
    first_text: usize,
    /// The texts of messages in [`TEXTS`], a stanza for each entry
    texts: Piece,
}

/// A compressed part of a file.
struct Piece {
    offset: usize,
    packed_len: usize,
    /// Length without compression
    len: usize,
}

/// A text of a message.
#[derive(Debug)]
pub(crate) struct Text {
    pub(crate) text: &'static str,
    /// Number of its entry, and place among its texts
    entry: u16,
    wording: u16,
    /// Parsed when a line may have it: most texts occur in no log
    pattern: OnceLock<Pattern<'static>>,
}

impl Text {
    /// Number of its entry.
    pub(crate) fn entry(&self) -> usize {
        self.entry.into()
    }

    /// Place among the texts of its entry.
    pub(crate) fn wording(&self) -> usize {
        self.wording.into()
    }

    pub(crate) fn pattern(&self) -> &Pattern<'static> {
        // The build script parsed it, too.
        self.pattern
            .get_or_init(|| Pattern::parse(self.text).unwrap_or_default())
    }
}

include!(concat!(env!("OUT_DIR"), "/packed.rs"));
static PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/blocks.bin"));
static NAMES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/names.bin"));
static TEXTS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/texts.bin"));
static ANCHORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/anchors.bin"));
static SPELLINGS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/spellings.bin"));
static WORDS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/words.bin"));
static PLACES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/places.bin"));
static UNPACKED: [OnceLock<Vec<Entry<'static>>>; BLOCKS.len()] = [const { OnceLock::new() }; BLOCKS.len()];
static UNPACKED_TEXTS: [OnceLock<Texts>; BLOCKS.len()] = [const { OnceLock::new() }; BLOCKS.len()];

/// The texts of a block: its stanzas, and what is found in them.
type Texts = (&'static str, Vec<Text>);

/// Number of all entries.
pub(crate) const fn len() -> usize {
    ENTRIES
}

/// The entry with this number.
///
/// # Panics
/// If the number is not less than [`len`].
pub(crate) fn entry(number: usize) -> &'static Entry<'static> {
    let nth = BLOCKS.partition_point(|block| block.first <= number) - 1;
    &block(nth)[number - BLOCKS[nth].first]
}

/// All entries by kind, in the order of the files.
pub(crate) fn entries() -> impl Iterator<Item = &'static Entry<'static>> {
    (0..BLOCKS.len()).flat_map(block)
}

/// The entries that have this spelling, in [`normal`](crate::names::normal) form.
pub(crate) fn named(spelling: &str) -> Vec<&'static Entry<'static>> {
    numbers_named(spelling).map(entry).collect()
}

/// The numbers of the entries that have this spelling, in [`normal`](crate::names::normal) form.
pub(crate) fn numbers_named(spelling: &str) -> impl Iterator<Item = usize> {
    let key = key(spelling);
    let (names, _) = NAMES.as_chunks::<6>();
    let first = names.partition_point(|name| name_key(name) < key);
    let same = names[first..]
        .iter()
        .take_while(move |name| name_key(name) == key);
    same.map(|&[.., low, high]| usize::from(u16::from_le_bytes([low, high])))
        .filter(move |&number| spellings(entry(number)).iter().any(|known| known == spelling))
}

fn name_key(&[a, b, c, d, ..]: &[u8; 6]) -> u32 {
    u32::from_le_bytes([a, b, c, d])
}

/// Number of the entry of the family that has this driver.
pub(crate) fn driver(name: &str) -> Option<usize> {
    let exact = DRIVERS.binary_search_by(|(driver, _)| driver.cmp(&name));
    let number = match exact {
        Ok(nth) => DRIVERS[nth].1,
        Err(_) => BEGINNINGS[longest_beginning(&BEGINNINGS, name)?].1,
    };
    Some(usize::from(number))
}

/// Index of the longest of these texts, which are ascending, that the name begins with: it says most.
fn longest_beginning(beginnings: &[(&str, u16)], name: &str) -> Option<usize> {
    let mut name = name.as_bytes();
    loop {
        let after = beginnings.partition_point(|(beginning, _)| beginning.as_bytes() <= name);
        let nth = after.checked_sub(1)?;
        let last = beginnings[nth].0.as_bytes();
        if name.starts_with(last) {
            return Some(nth);
        }
        // A beginning of the name that is before this one is a beginning of this one, too.
        let same = last.iter().zip(name).take_while(|(one, other)| one == other);
        name = &name[..same.count()];
    }
}

/// The index of the texts of all messages, which is read in place.
pub(crate) fn anchors() -> Anchors<'static> {
    Anchors::read(ANCHORS)
}

/// The text of a message with this many texts before it in the files.
///
/// # Panics
/// If there are not so many.
pub(crate) fn text(place: usize) -> &'static Text {
    let nth = BLOCKS.partition_point(|block| block.first_text <= place) - 1;
    &texts(nth).1[place - BLOCKS[nth].first_text]
}

/// Calls `each` with each text of each message and the number of its entry. What is unpacked for it does not stay.
pub(crate) fn for_each_text(mut each: impl FnMut(usize, &str)) {
    for Block {
        kind, first, texts, ..
    } in &BLOCKS
    {
        let stanzas = texts.unpacked(TEXTS);
        let entries = stanza::entries(*kind, &stanzas).flatten();
        for (number, entry) in (*first..).zip(entries) {
            entry.texts.iter().for_each(|text| each(number, text));
        }
    }
}

/// All spellings of all names, in [`normal`](crate::names::normal) form, with the numbers of their entries.
pub(crate) fn all_spellings() -> impl Iterator<Item = (&'static str, impl Iterator<Item = usize> + Clone)> {
    static UNPACKED: OnceLock<String> = OnceLock::new();
    let mut rest = UNPACKED
        .get_or_init(|| unpacked(SPELLINGS, SPELLINGS_LEN))
        .as_str();
    std::iter::from_fn(move || {
        let blank = memchr::memchr(b' ', rest.as_bytes())?;
        let end = blank + memchr::memchr(b'\n', &rest.as_bytes()[blank..])?;
        let (name, numbers) = (&rest[..blank], &rest[blank + 1..end]);
        rest = &rest[end + 1..];
        Some((name, numbers.split(' ').filter_map(|number| number.parse().ok())))
    })
}

/// All words of the names, texts and meanings of entries, one a line.
pub(crate) fn words() -> &'static str {
    static UNPACKED: OnceLock<String> = OnceLock::new();
    UNPACKED.get_or_init(|| unpacked(WORDS, WORDS_LEN))
}

/// Calls `each` with each of the [`words`] and a reader of the numbers of its entries, which need not be read.
pub(crate) fn for_each_word(mut each: impl FnMut(&'static str, &mut Numbers<'_>)) {
    let mut places = PLACES;
    for word in words().lines() {
        let count = next_number(&mut places);
        let mut numbers = Numbers {
            places: &mut places,
            left: count,
            number: 0,
        };
        each(word, &mut numbers);
        numbers.for_each(drop);
    }
}

/// Reads the numbers of the entries that have a word.
pub(crate) struct Numbers<'p> {
    places: &'p mut &'static [u8],
    left: usize,
    number: usize,
}

impl Iterator for Numbers<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        self.left = self.left.checked_sub(1)?;
        self.number += next_number(self.places);
        Some(self.number)
    }
}

/// Takes a number of `places.bin`; 0 at the end.
fn next_number(places: &mut &'static [u8]) -> usize {
    let (mut number, mut shift) = (0, 0);
    while let Some((&byte, rest)) = places.split_first() {
        *places = rest;
        number |= usize::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 1 << 7 == 0 {
            break;
        }
    }
    number
}

fn block(nth: usize) -> &'static [Entry<'static>] {
    UNPACKED[nth].get_or_init(|| {
        let Block { kind, stanzas, .. } = &BLOCKS[nth];
        // The entries borrow from it, and stay.
        let stanzas = stanzas.unpacked(PACKED).leak();
        let mut entries: Vec<_> = stanza::entries(*kind, stanzas).flatten().collect();
        entries.shrink_to_fit();
        let of_texts = stanza::entries(*kind, texts(nth).0).flatten();
        for (entry, of_texts) in entries.iter_mut().zip(of_texts) {
            entry.texts = of_texts.texts;
            entry.wordings = of_texts.wordings;
        }
        // They stay.
        entries.iter_mut().for_each(Entry::shrink);
        entries
    })
}

fn texts(nth: usize) -> &'static Texts {
    UNPACKED_TEXTS[nth].get_or_init(|| {
        let Block {
            kind, first, texts, ..
        } = &BLOCKS[nth];
        let stanzas: &str = texts.unpacked(TEXTS).leak();
        let entries = stanza::entries(*kind, stanzas).flatten();
        let mut texts = Vec::new();
        for (number, entry) in (*first..).zip(entries) {
            texts.extend(entry.texts.into_iter().enumerate().map(|(wording, text)| Text {
                text: match text {
                    Cow::Borrowed(text) => text,
                    // It had runs of blanks.
                    Cow::Owned(text) => text.leak(),
                },
                entry: u16::try_from(number).unwrap_or(u16::MAX),
                wording: u16::try_from(wording).unwrap_or(u16::MAX),
                pattern: OnceLock::new(),
            }));
        }
        texts.shrink_to_fit();
        (stanzas, texts)
    })
}

impl Piece {
    fn unpacked(&self, file: &[u8]) -> String {
        unpacked(&file[self.offset..self.offset + self.packed_len], self.len)
    }
}

/// The text of compressed bytes. Damaged ones, which `build.rs` does not write, give an empty text.
fn unpacked(packed: &[u8], len: usize) -> String {
    let mut text = vec![0; len];
    let outcome = decompress_slice_iter_to_slice(&mut text, std::iter::once(packed), false, true);
    debug_assert_eq!(outcome, Ok(len));
    String::from_utf8(text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_has_the_entries_of_its_numbers() {
        let mut count = 0;
        for (nth, of_table) in BLOCKS.iter().enumerate() {
            assert_eq!(of_table.first, count, "{nth}");
            let entries = block(nth);
            assert!(!entries.is_empty() && entries.iter().all(|entry| entry.kind == of_table.kind));
            count += entries.len();
        }
        assert_eq!(count, len());
        assert!(std::ptr::eq(entry(0), &raw const block(0)[0]));
        assert!(std::ptr::eq(
            entry(len() - 1),
            block(BLOCKS.len() - 1).last().unwrap()
        ));
    }

    /// All that the binary has of the dictionary: packed it takes hardly more than the text of the first version did, which was not packed
    /// and a fraction of this. It may grow by 1.5 MB over that.
    #[test]
    fn packed_entries_are_small() {
        let files = [PACKED, NAMES, TEXTS, ANCHORS, SPELLINGS, WORDS, PLACES].map(<[u8]>::len);
        let names: usize = [&DRIVERS[..], &BEGINNINGS]
            .iter()
            .flat_map(|drivers| drivers.iter())
            .map(|(driver, _)| driver.len())
            .sum();
        let tables = size_of_val(&BLOCKS)
            + size_of_val(&DRIVERS)
            + size_of_val(&BEGINNINGS)
            + size_of_val(&UNPACKED)
            + size_of_val(&UNPACKED_TEXTS);
        let size = files.iter().sum::<usize>() + names + tables;
        println!("{files:?}, {names} of drivers, {tables} in tables: {size} bytes");
        assert!(size < FIRST_VERSION_BYTES + GROWTH_BYTES_MAX, "{size}");
    }

    const FIRST_VERSION_BYTES: usize = 1_731_851;
    const GROWTH_BYTES_MAX: usize = 1_500_000;

    #[test]
    fn spellings_and_words_are_those_of_the_entries() {
        let mut count = 0;
        for (name, numbers) in all_spellings() {
            for number in numbers {
                assert!(
                    spellings(entry(number)).iter().any(|known| known == name),
                    "{name}"
                );
                count += 1;
            }
        }
        assert_eq!(
            count,
            entries().map(|entry| spellings(entry).len()).sum::<usize>()
        );
        let mut last = "";
        let mut words = 0;
        for_each_word(|word, numbers| {
            assert!(last < word, "{last} {word}");
            last = word;
            words += 1;
            // Only some are read: the next word must begin at its own numbers all the same.
            if let Some(number) = numbers.next() {
                let entry = entry(number);
                let texts = entry
                    .texts
                    .iter()
                    .chain(&entry.also)
                    .chain([&entry.name, &entry.meaning]);
                let mut words = texts.flat_map(|text| {
                    let lower = text.to_lowercase();
                    crate::words::words(&lower).map(str::to_owned).collect::<Vec<_>>()
                });
                assert!(words.any(|known| known == word), "{word}: {}", entry.name);
            }
        });
        assert!(words > 1_000, "{words}");
    }

    #[test]
    fn longest_beginning_of_a_driver_wins() {
        let beginnings = [("a", 0), ("ab", 1), ("abc", 2), ("abd", 3), ("b", 4), ("éa", 5)];
        let check = |name: &str, expected: Option<usize>| {
            assert_eq!(longest_beginning(&beginnings, name), expected, "{name}");
        };
        check("abcd", Some(2));
        check("abce", Some(2));
        check("abb", Some(1));
        check("abe", Some(1));
        check("a", Some(0));
        check("azz", Some(0));
        check("c", None);
        check("b", Some(4));
        check("é", None);
        check("éab", Some(5));
        check("", None);
    }

    #[test]
    fn unknown_spelling_has_no_entry() {
        assert!(named("frobnication").is_empty());
        assert_eq!(named("close-wait").len(), 1);
    }
}

//! Packs the entries of `data/` for the binary, into files that `src/packed.rs` includes:
//!
//! - `blocks.bin`: the stanzas in blocks, each compressed, so that a look-up unpacks only those of the entries that it shows. They are
//!   without their examples, which only tests need.
//! - `names.bin`: key of each spelling of each name, ascending, with the number of its entry.
//! - `spellings.bin`: the spellings themselves, compressed, with the numbers of their entries, for a search for similar ones.
//! - `words.bin`: the words of all entries, compressed, ascending; `places.bin`: for each word its entries: their count, the first
//!   number, and the distances to the next ones, seven bits a byte, the low ones first, with a mark if more follow.
//! - `texts.bin`: the texts of the messages of each block, compressed: a line that seems to have one needs nothing else of the entries.
//! - `anchors.bin`: finds the texts that a line may have, which `src/anchors.rs` reads.
//! - `packed.rs`: where the blocks begin.
//!
//! An entry that cannot be parsed ends the build.

// These modules are parts of the crate; each has more than is needed here.
#![allow(dead_code, unreachable_pub)]

#[path = "src/anchor_table.rs"]
mod anchor_table;
#[path = "src/anchors.rs"]
mod anchors;
#[path = "src/blanks.rs"]
mod blanks;
#[path = "src/drop_class.rs"]
mod drop_class;
#[path = "src/entry.rs"]
mod entry;
#[path = "src/files.rs"]
mod files;
#[path = "src/kind.rs"]
mod kind;
#[path = "src/names.rs"]
mod names;
#[path = "src/pattern.rs"]
mod pattern;
#[path = "src/severity.rs"]
mod severity;
#[path = "src/stanza.rs"]
mod stanza;
#[path = "src/words.rs"]
mod words;

use anchors::About;
use drop_class::DropClass;
use entry::Entry;
use kind::Kind;
use miniz_oxide::deflate::compress_to_vec;
use pattern::{Pattern, SENTENCE_ENDS};
use severity::Severity;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    let from = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").ok_or("no CARGO_MANIFEST_DIR")?).join("data");
    let into = PathBuf::from(env::var_os("OUT_DIR").ok_or("no OUT_DIR")?);
    for path in ["data", "src", "build.rs"] {
        println!("cargo::rerun-if-changed={path}");
    }
    let mut packed = Packed::default();
    for kind in Kind::ALL {
        for (path, file) in files::files(&from, kind)? {
            packed
                .add(kind, &file)
                .map_err(|error| format!("{}: {error}", path.display()))?;
        }
        packed.end_block()?;
    }
    packed.write(&into)
}

/// What goes into the binary.
#[derive(Default)]
struct Packed {
    /// Stanzas of the open block
    open: String,
    open_kind: Option<Kind>,
    /// Number of the first entry of the open block, and of the next one
    open_first: usize,
    entries: usize,
    blocks: Vec<u8>,
    /// Source text of the table of blocks
    table: String,
    blocks_count: usize,
    names: Vec<(u32, u16)>,
    /// Numbers of the entries of each spelling
    spellings: BTreeMap<String, BTreeSet<u16>>,
    /// Numbers of the entries that have each word
    words: BTreeMap<String, BTreeSet<u16>>,
    /// Texts of the messages, with what the index has of them
    texts: Vec<(String, About)>,
    /// Texts of the entries of the open block, as fields of stanzas, and number of the first
    open_texts: String,
    open_first_text: usize,
    texts_of_blocks: Vec<u8>,
    /// Number of the entry of each driver's family
    drivers: BTreeMap<String, u16>,
}

impl Packed {
    fn add(&mut self, kind: Kind, file: &str) -> Result<(), Box<dyn Error>> {
        self.open_kind = Some(kind);
        for entry in stanza::entries(kind, file) {
            let entry = entry?;
            let number = u16::try_from(self.entries)?;
            let spellings = names::spellings(&entry);
            self.names
                .extend(spellings.iter().map(|name| (names::key(name), number)));
            for spelling in spellings {
                if spelling.contains([' ', '\n']) {
                    return Err(format!("{spelling:?} has a blank").into());
                }
                self.spellings.entry(spelling).or_default().insert(number);
            }
            let described = [&entry.name, &entry.meaning].into_iter();
            for text in described.chain(&entry.texts).chain(&entry.also) {
                for word in words::words(&text.to_lowercase()) {
                    self.words.entry(word.to_owned()).or_default().insert(number);
                }
            }
            for driver in &entry.drivers {
                if self.drivers.insert(driver.to_string(), number).is_some() {
                    return Err(format!("{driver} is a driver of two entries").into());
                }
            }
            for (nth, text) in entry.texts.iter().enumerate() {
                Pattern::parse(text)?;
                let severity = entry.severity_of(nth).unwrap_or(Severity::Info);
                let about = About {
                    place: self.texts.len(),
                    severity,
                    is_of_program: is_of_program(&entry),
                };
                self.texts.push((text.to_string(), about));
            }
            self.entries += 1;
        }
        for stanza in file.split("\n\n") {
            let lines = stanza
                .lines()
                .filter(|line| !line.is_empty() && !line.starts_with('#'));
            let before = self.open.len();
            let mut field = "";
            let mut texts = String::new();
            for line in lines {
                let rest = line.strip_prefix("  ");
                if rest.is_none() {
                    field = line.split([':', ' ']).next().unwrap_or_default();
                }
                match (field, rest) {
                    // Only tests need them.
                    ("Example", _) => {}
                    // In one line: it need not be copied when it is read.
                    ("Text", Some(rest)) => {
                        texts.push(' ');
                        texts.push_str(rest);
                    }
                    ("Text", None) => {
                        texts.push('\n');
                        texts.push_str(line);
                    }
                    _ => {
                        self.open.push_str(line);
                        self.open.push('\n');
                    }
                }
            }
            if !texts.is_empty() {
                self.open_texts.push_str(&texts[1..]);
                self.open_texts.push_str("\n\n");
            }
            if self.open.len() > before {
                self.open.push('\n');
            }
            if self.open.len() + self.open_texts.len() >= BLOCK_LEN {
                self.end_block()?;
            }
        }
        Ok(())
    }

    fn end_block(&mut self) -> Result<(), Box<dyn Error>> {
        let Some(kind) = self.open_kind.filter(|_| !self.open.is_empty()) else {
            return Ok(());
        };
        let entries = stanza::entries(kind, &self.open).count();
        let of_texts: Vec<_> = stanza::entries(kind, &self.open_texts).collect::<Result<_, _>>()?;
        if of_texts.len() != if kind == Kind::Message { entries } else { 0 } {
            return Err(format!(
                "each message has texts, and nothing else: block at {}",
                self.open_first
            )
            .into());
        }
        let texts: Vec<_> = of_texts.iter().flat_map(|entry| &entry.texts).collect();
        let indexed = self.texts[self.open_first_text..].iter().map(|(text, _)| text);
        if !indexed
            .zip(&texts)
            .all(|(indexed, text)| indexed == text.as_ref())
        {
            return Err(format!("texts of the block at {} differ", self.open_first).into());
        }
        let packed = compress_to_vec(self.open.as_bytes(), LEVEL);
        let packed_texts = compress_to_vec(self.open_texts.as_bytes(), LEVEL);
        let _ = writeln!(
            self.table,
            "    Block {{ kind: Kind::{kind:?}, first: {}, stanzas: Piece {{ offset: {}, packed_len: {}, len: {} }}, first_text: {}, texts: Piece {{ offset: {}, packed_len: {}, len: {} }} }},",
            self.open_first,
            self.blocks.len(),
            packed.len(),
            self.open.len(),
            self.open_first_text,
            self.texts_of_blocks.len(),
            packed_texts.len(),
            self.open_texts.len(),
        );
        self.blocks.extend(packed);
        self.texts_of_blocks.extend(packed_texts);
        self.open_first += entries;
        self.open_first_text += texts.len();
        self.blocks_count += 1;
        self.open.clear();
        self.open_texts.clear();
        Ok(())
    }

    fn write(mut self, into: &Path) -> Result<(), Box<dyn Error>> {
        if self.open_first != self.entries {
            return Err(format!("{} entries in blocks, {} read", self.open_first, self.entries).into());
        }
        self.names.sort_unstable();
        let names = self.names.iter();
        let names: Vec<u8> = names
            .flat_map(|(key, number)| [&key.to_le_bytes()[..], &number.to_le_bytes()].concat())
            .collect();
        // Of equals the first one in the files stays the first.
        self.texts
            .sort_by_cached_key(|(text, _)| Reverse(exactness(text)));
        let texts = self.texts.iter().map(|(text, about)| (text.as_str(), *about));
        let anchors = anchor_table::pack(&texts.collect::<Vec<_>>())?;
        let spellings: String = self
            .spellings
            .iter()
            .fold(String::new(), |mut lines, (name, numbers)| {
                lines.push_str(name);
                for number in numbers {
                    let _ = write!(lines, " {number}");
                }
                lines + "\n"
            });
        let words: Vec<&str> = self.words.keys().map(String::as_str).collect();
        let words = words.join("\n");
        let mut places = Vec::new();
        for numbers in self.words.values() {
            push_number(&mut places, u16::try_from(numbers.len())?);
            let mut before = 0;
            for &number in numbers {
                push_number(&mut places, number - before);
                before = number;
            }
        }
        let (mut drivers, mut beginnings) = (BTreeMap::new(), BTreeMap::new());
        for (driver, &number) in &self.drivers {
            match driver.strip_suffix('*') {
                Some(beginning) => beginnings.insert(beginning, number),
                None => drivers.insert(driver, number),
            };
        }
        let constants = format!(
            "static DRIVERS: [(&str, u16); {}] = {:?};\nstatic BEGINNINGS: [(&str, u16); {}] = {:?};\nconst ENTRIES: usize = {};\nconst SPELLINGS_LEN: usize = {};\nconst WORDS_LEN: usize = {};\nconst BLOCKS: [Block; {}] = [\n{}];\n",
            drivers.len(),
            drivers.iter().collect::<Vec<_>>(),
            beginnings.len(),
            beginnings.iter().collect::<Vec<_>>(),
            self.entries,
            spellings.len(),
            words.len(),
            self.blocks_count,
            self.table
        );
        fs::write(into.join("blocks.bin"), self.blocks)?;
        fs::write(into.join("names.bin"), names)?;
        fs::write(into.join("texts.bin"), self.texts_of_blocks)?;
        fs::write(into.join("anchors.bin"), anchors)?;
        fs::write(
            into.join("spellings.bin"),
            compress_to_vec(spellings.as_bytes(), LEVEL),
        )?;
        fs::write(into.join("words.bin"), compress_to_vec(words.as_bytes(), LEVEL))?;
        fs::write(into.join("places.bin"), places)?;
        fs::write(into.join("packed.rs"), constants)?;
        Ok(())
    }
}

/// Appends a number with seven bits in each byte, the low ones first.
fn push_number(out: &mut Vec<u8>, mut number: u16) {
    while number >= 1 << 7 {
        out.push((number & 0x7f) as u8 | 1 << 7);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Specificity of a text: literal bytes before the first placeholder of any text, and in total, and how few such placeholders it has.
/// Of two matching texts, the more specific one wins.
fn exactness(text: &str) -> (usize, usize, Reverse<usize>) {
    let (mut before, mut all, mut any_texts) = (0, 0, 0);
    let mut is_before = true;
    let pieces = text.trim_end_matches(SENTENCE_ENDS).split(['{', '}']);
    for (nth, piece) in pieces.enumerate() {
        if nth % 2 == 0 {
            all += piece.len();
            before += if is_before { piece.len() } else { 0 };
        } else {
            is_before &= piece != "text";
            any_texts += usize::from(piece == "text");
        }
    }
    (before, all, Reverse(any_texts))
}

/// Whether a program may print a message, not only the kernel: the source of a program's entry names the program, of a kernel's
/// entry a kernel file.
fn is_of_program(entry: &Entry<'_>) -> bool {
    let is_kernel = |source: &str| KERNEL_FOLDERS.split(' ').any(|folder| source.starts_with(folder));
    entry.source.split("; ").any(|source| !is_kernel(source))
}

/// Folders of the kernel's source that print messages, separated by blanks.
const KERNEL_FOLDERS: &str =
    "arch/ block/ drivers/ fs/ include/ init/ io_uring/ ipc/ kernel/ lib/ mm/ net/ security/ virt/";
/// Larger blocks are packed a little better, and take longer to unpack for one entry.
const BLOCK_LEN: usize = 24 * 1024;
/// The best that a compressor does; it takes a second.
const LEVEL: u8 = 10;

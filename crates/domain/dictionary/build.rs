//! Packs the entries of `data/` for the binary, into files that `src/packed.rs` includes:
//!
//! - `blocks.bin`: the stanzas in blocks, each compressed, so that a look-up unpacks only those of the entries that it shows.
//! - `names.bin`: key of each spelling of each name, ascending, with the number of its entry.
//! - `spellings.bin`: the spellings themselves, compressed, with the numbers of their entries, for a search for similar ones.
//! - `words.bin`: the words of all entries, compressed, ascending; `places.bin`: for each word its entries: their count, the first
//!   number, and the distances to the next ones, seven bits a byte, the low ones first, with a mark if more follow.
//! - `texts.bin`: the texts of the messages, compressed, the most specific first, with the number of their entry, their place in it, and
//!   the bytes by which a line is found to have them.
//! - `packed.rs`: where the blocks begin.
//!
//! An entry that cannot be parsed ends the build.

// These modules are parts of the crate; each has more than is needed here.
#![allow(dead_code, unreachable_pub)]

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
        packed.end_block();
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
    texts: Vec<PackedText>,
    /// Number of the entry of each driver's family
    drivers: BTreeMap<String, u16>,
}

/// Exactness of a text, what is known of it, and the text: in the order in which they are tried.
type PackedText = (Reverse<(usize, usize)>, String, String);

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
                let about = format!(
                    "{number} {nth} {} {}",
                    severity.name(),
                    u8::from(is_of_program(&entry))
                );
                self.texts
                    .push((Reverse(exactness(text)), about, text.to_string()));
            }
            self.entries += 1;
        }
        for stanza in file.split("\n\n") {
            let lines = stanza
                .lines()
                .filter(|line| !line.is_empty() && !line.starts_with('#'));
            let before = self.open.len();
            for line in lines {
                self.open.push_str(line);
                self.open.push('\n');
            }
            if self.open.len() > before {
                self.open.push('\n');
            }
            if self.open.len() >= BLOCK_LEN {
                self.end_block();
            }
        }
        Ok(())
    }

    fn end_block(&mut self) {
        let Some(kind) = self.open_kind.filter(|_| !self.open.is_empty()) else {
            return;
        };
        let packed = compress_to_vec(self.open.as_bytes(), LEVEL);
        let _ = writeln!(
            self.table,
            "    Block {{ kind: Kind::{kind:?}, first: {}, offset: {}, packed_len: {}, len: {} }},",
            self.open_first,
            self.blocks.len(),
            packed.len(),
            self.open.len()
        );
        self.blocks.extend(packed);
        self.open_first += stanza::entries(kind, &self.open).count();
        self.blocks_count += 1;
        self.open.clear();
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
        self.texts.sort_by_key(|(exactness, ..)| *exactness);
        let texts: Vec<&str> = self.texts.iter().map(|(.., text)| text.as_str()).collect();
        let anchors = anchors::offsets(&texts);
        let lines = self.texts.iter().zip(anchors).map(|((_, about, text), anchor)| {
            let anchor = anchor.map_or("-".to_owned(), |anchor| anchor.to_string());
            format!("{about} {anchor} {text}")
        });
        let lines: Vec<String> = lines.collect();
        let texts = lines.join("\n");
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
        let drivers: String = self
            .drivers
            .iter()
            .fold(String::new(), |mut lines, (driver, number)| {
                let _ = writeln!(lines, "    ({driver:?}, {number}),");
                lines
            });
        let constants = format!(
            "static DRIVERS: [(&str, u16); {}] = [\n{drivers}];\nconst ENTRIES: usize = {};\nconst TEXTS_LEN: usize = {};\nconst SPELLINGS_LEN: usize = {};\nconst WORDS_LEN: usize = {};\nconst BLOCKS: [Block; {}] = [\n{}];\n",
            self.drivers.len(),
            self.entries,
            texts.len(),
            spellings.len(),
            words.len(),
            self.blocks_count,
            self.table
        );
        fs::write(into.join("blocks.bin"), self.blocks)?;
        fs::write(into.join("names.bin"), names)?;
        fs::write(into.join("texts.bin"), compress_to_vec(texts.as_bytes(), LEVEL))?;
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

/// Specificity of a text: literal bytes before the first placeholder of any text, and in total. Of two matching texts, the more
/// specific one wins.
fn exactness(text: &str) -> (usize, usize) {
    let (mut before, mut all) = (0, 0);
    let mut is_before = true;
    let pieces = text.trim_end_matches(SENTENCE_ENDS).split(['{', '}']);
    for (nth, piece) in pieces.enumerate() {
        if nth % 2 == 0 {
            all += piece.len();
            before += if is_before { piece.len() } else { 0 };
        } else {
            is_before &= piece != "text";
        }
    }
    (before, all)
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

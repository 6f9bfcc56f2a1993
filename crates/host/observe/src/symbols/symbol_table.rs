//! The functions of a file, by address: a symbol table, or Go's own.

use super::bytes::Bytes;
use super::elf::{Elf, Section};
use foldhash::HashMap;
use object::elf::{
    EM_AARCH64, EM_ARM, EM_RISCV, SHN_ABS, SHN_LORESERVE, SHN_UNDEF, SHT_SYMTAB, STB_GLOBAL, STB_WEAK,
    STT_FUNC, STT_GNU_IFUNC, STT_NOTYPE, Sym32, Sym64,
};
use object::read::elf::Sym;
use object::{Endianness, pod};
use std::cmp::Reverse;
use std::rc::Rc;

/// Functions, sorted by address. Their names stay in the file until somebody asks.
#[derive(Debug)]
pub(super) struct Table {
    entries: Vec<Entry>,
    names: Names,
    /// So many more were in the file than we keep.
    pub(super) left_out: u64,
}

/// A function.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub(super) address: u64,
    /// As far as it reaches, of its own saying or as we suppose.
    reach: u32,
    /// Where its name is, in the table of names.
    pub(super) name: u32,
    /// Which one names an address that several have: the lowest.
    rank: Rank,
    pub(super) indirect: bool,
    /// The table says how long it is.
    sized: bool,
}

/// Whose name counts at the same address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Global,
    Local,
    Weak,
    /// A label in code, as assembly has them.
    Label,
}

/// Where names are.
#[derive(Debug)]
pub(super) struct Names {
    pub(super) bytes: Rc<Bytes>,
    pub(super) offset: u64,
    pub(super) len: u64,
    /// All of them, once somebody wants all.
    all: Option<Vec<u8>>,
}

impl Entry {
    /// How long it is, if that is known; 0: it is not.
    pub(super) const fn size(&self) -> u32 {
        if self.sized { self.reach } else { 0 }
    }

    const fn contains(&self, address: u64) -> bool {
        address >= self.address && address - self.address < self.reach as u64
    }
}

impl Table {
    /// Out of a section of symbols (`.symtab`, `.dynsym`). `shift` is added to each address.
    pub(super) fn of_symbols(elf: &Elf, section: &Section, shift: u64) -> Option<Self> {
        let strings = elf.sections.get(section.link as usize)?;
        let mut table = Self::new(&elf.bytes, strings.offset, strings.len);
        if elf.wide {
            table.add_symbols::<Sym64<Endianness>>(elf, section);
        } else {
            table.add_symbols::<Sym32<Endianness>>(elf, section);
        }
        table.settle(elf, section.kind == SHT_SYMTAB && table.left_out == 0);
        for entry in &mut table.entries {
            entry.address = entry.address.wrapping_add(shift);
        }
        if shift != 0 {
            table.entries.sort_by_key(|entry| (entry.address, entry.rank));
        }
        (!table.entries.is_empty()).then_some(table)
    }

    /// One without functions yet.
    pub(super) fn new(bytes: &Rc<Bytes>, names_offset: u64, names_len: u64) -> Self {
        Self {
            entries: Vec::new(),
            names: Names {
                bytes: Rc::clone(bytes),
                offset: names_offset,
                len: names_len,
                all: None,
            },
            left_out: 0,
        }
    }

    /// Takes a function whose end is known, behind those before.
    pub(super) fn push(&mut self, address: u64, end: u64, name: u32) {
        if self.entries.len() == MAX_FUNCTIONS {
            self.left_out += 1;
            return;
        }
        self.entries.push(Entry {
            address,
            reach: u32::try_from(end.saturating_sub(address)).unwrap_or(u32::MAX),
            name,
            rank: Rank::Global,
            indirect: false,
            sized: true,
        });
    }

    /// None, if there is nothing in it.
    pub(super) fn sorted(mut self) -> Option<Self> {
        self.entries.sort_by_key(|entry| (entry.address, entry.rank));
        (!self.entries.is_empty()).then_some(self)
    }

    fn add_symbols<S: Sym<Endian = Endianness> + pod::Pod>(&mut self, elf: &Elf, section: &Section) {
        let (mut at, end) = (
            section.offset,
            section.offset.saturating_add(section.len.min(MAX_SYMBOLS)),
        );
        while at < end {
            let want = (end - at).min((CHUNK * size_of::<S>()) as u64);
            let raw = elf.bytes.read_some(at, usize::try_from(want).unwrap_or(0));
            let whole = raw.len() / size_of::<S>();
            let Ok((symbols, _)) = pod::slice_from_bytes::<S>(&raw, whole) else {
                return;
            };
            if symbols.is_empty() {
                return;
            }
            for symbol in symbols {
                let Some(entry) = entry_of(symbol, elf) else {
                    continue;
                };
                if self.entries.len() == MAX_FUNCTIONS {
                    self.left_out += 1;
                } else {
                    self.entries.push(entry);
                }
            }
            at += (whole * size_of::<S>()) as u64;
        }
    }

    /// Sorts, leaves out labels that name nothing, and lets those without a size reach to the next or the section's end;
    /// not in a table that lacks functions, as the next one may be missing there: they name their beginning only.
    fn settle(&mut self, elf: &Elf, is_whole: bool) {
        self.entries
            .sort_unstable_by_key(|entry| (entry.address, entry.rank, entry.name));
        if marks_its_code(elf.machine) && self.entries.iter().any(|entry| entry.rank == Rank::Label) {
            self.names.read_all();
            let names = &self.names;
            self.entries
                .retain(|entry| entry.rank != Rank::Label || !names.of(entry).starts_with(b"$"));
        }
        // A label inside a function is a place in it, not another function.
        let mut covered = 0;
        self.entries.retain(|entry| {
            let end = entry.address.saturating_add(entry.reach.into());
            let is_inside = !entry.sized && entry.address < covered;
            if entry.sized {
                covered = end.max(covered);
            }
            !is_inside
        });
        let mut code: Vec<(u64, u64)> = elf
            .sections
            .iter()
            .filter(|section| section.is_code())
            .map(|section| (section.address, section.address.saturating_add(section.len)))
            .collect();
        code.sort_unstable();
        let mut next = u64::MAX;
        let mut address = u64::MAX;
        for entry in self.entries.iter_mut().rev() {
            if entry.address != address {
                next = address;
                address = entry.address;
            }
            if !entry.sized && !is_whole {
                entry.reach = 1;
            } else if !entry.sized {
                let behind = code.partition_point(|(start, _)| *start <= entry.address);
                let end = behind.checked_sub(1).map_or(0, |at| code[at].1).min(next);
                entry.reach = u32::try_from(end.saturating_sub(entry.address)).unwrap_or(u32::MAX);
            }
        }
        self.entries.shrink_to_fit();
    }

    /// The function at an address, and its name.
    pub(super) fn find(&self, address: u64) -> Option<(Entry, Vec<u8>)> {
        let mut behind = self.entries.partition_point(|entry| entry.address <= address);
        for _ in 0..MAX_STEPS {
            let last = self.entries[..behind].last()?;
            let first = self.entries[..behind].partition_point(|entry| entry.address < last.address);
            let namesakes = &self.entries[first..behind];
            let best = namesakes
                .iter()
                .take(MAX_NAMESAKES)
                .filter(|entry| entry.contains(address))
                .map(|entry| (*entry, self.names.of(entry)))
                .filter(|(_, name)| !name.is_empty())
                .min_by_key(|(entry, name)| {
                    let underscores = name.iter().take_while(|byte| **byte == b'_').count();
                    (entry.rank, underscores, Reverse(name.len()))
                });
            if best.is_some() {
                return best;
            }
            behind = first;
        }
        None
    }

    pub(super) fn count(&self) -> usize {
        self.entries.len()
    }

    /// Reads all names, for [`Table::functions`].
    pub(super) fn read_names(&mut self) {
        self.names.read_all();
    }

    /// Each function, with its name.
    pub(super) fn functions(&self) -> impl Iterator<Item = (&Entry, &[u8])> {
        let all = self.names.all.as_deref().unwrap_or_default();
        self.entries.iter().filter_map(move |entry| {
            let name = ended(all.get(entry.name as usize..)?);
            (!name.is_empty()).then_some((entry, name))
        })
    }
}

impl Names {
    fn of(&self, entry: &Entry) -> Vec<u8> {
        let at = u64::from(entry.name);
        if at >= self.len {
            return Vec::new();
        }
        if let Some(all) = &self.all {
            return ended(all.get(entry.name as usize..).unwrap_or_default()).to_vec();
        }
        let rest = usize::try_from(self.len - at).unwrap_or(usize::MAX);
        // Nearly all are short.
        for most in [FIRST_READ, MAX_NAME] {
            let piece = self
                .bytes
                .read_some(self.offset.saturating_add(at), most.min(rest));
            let name = ended(&piece);
            if name.len() < piece.len() || most == MAX_NAME {
                return name.to_vec();
            }
        }
        Vec::new()
    }

    fn read_all(&mut self) {
        if self.all.is_none() {
            let len = usize::try_from(self.len).unwrap_or(usize::MAX).min(MAX_NAMES);
            // A header may promise more than there is.
            let there = match &*self.bytes {
                Bytes::File(file) => file.metadata().map_or(0, |meta| meta.len()),
                Bytes::Memory(bytes) => bytes.len() as u64,
            };
            let there = usize::try_from(there.saturating_sub(self.offset)).unwrap_or(usize::MAX);
            self.all = Some(self.bytes.read_some(self.offset, len.min(there)));
        }
    }
}

/// The entry for a symbol, if it is code and has a name.
fn entry_of<S: Sym<Endian = Endianness>>(symbol: &S, elf: &Elf) -> Option<Entry> {
    let endian = elf.endian;
    let index = symbol.st_shndx(endian);
    // SHN_XINDEX is not resolved: nothing that is loaded has so many sections.
    if index == SHN_UNDEF || (index >= SHN_LORESERVE && index != SHN_ABS) || symbol.st_name(endian) == 0 {
        return None;
    }
    let mut address: u64 = symbol.st_value(endian).into();
    let section = elf.sections.get(usize::from(index));
    let kind = symbol.st_type();
    let rank = match (kind, symbol.st_bind()) {
        (STT_NOTYPE, _) => {
            if !section.is_some_and(|section| section.is_code() && section.contains(address)) {
                return None;
            }
            Rank::Label
        }
        (STT_FUNC | STT_GNU_IFUNC, STB_GLOBAL) => Rank::Global,
        (STT_FUNC | STT_GNU_IFUNC, STB_WEAK) => Rank::Weak,
        (STT_FUNC | STT_GNU_IFUNC, _) => Rank::Local,
        _ => return None,
    };
    if address == 0 {
        return None;
    }
    if elf.machine == EM_ARM && kind != STT_NOTYPE {
        // The lowest bit says that it is Thumb code.
        address &= !1;
    }
    let size: u64 = symbol.st_size(endian).into();
    Some(Entry {
        address,
        reach: u32::try_from(size).unwrap_or(u32::MAX),
        name: symbol.st_name(endian),
        rank,
        indirect: kind == STT_GNU_IFUNC,
        sized: size != 0,
    })
}

/// Whether its assemblers mark code and data by labels, `$x` and `$d`.
const fn marks_its_code(machine: u16) -> bool {
    matches!(machine, EM_ARM | EM_AARCH64 | EM_RISCV)
}

/// Up to the first zero byte.
fn ended(bytes: &[u8]) -> &[u8] {
    let bytes = &bytes[..bytes.len().min(MAX_NAME)];
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// Names by what they name, so that each is read and demangled once.
pub(super) type Told = HashMap<u64, String>;

/// Functions of one file, at most: a browser with all its symbols has 1.5 million. One takes 24 bytes.
pub(super) const MAX_FUNCTIONS: usize = 4_000_000;

/// Bytes of a table of symbols: what a header promises may be a hole of terabytes.
const MAX_SYMBOLS: u64 = 1 << 30;

/// Symbols read at once.
const CHUNK: usize = 16_384;

/// How many functions we look at that begin before an address, for the one that reaches over it.
const MAX_STEPS: usize = 64;

/// How many names of one address are compared.
const MAX_NAMESAKES: usize = 64;

const FIRST_READ: usize = 256;

/// A name is cut there.
const MAX_NAME: usize = 16 << 10;

/// All names of one file, when all are wanted.
const MAX_NAMES: usize = 512 << 20;

//! A table of functions by address: an ELF symbol table, or Go's own.

use super::bytes::Bytes;
use super::elf::{Elf, Section};
use object::elf::{
    EM_AARCH64, EM_ARM, EM_RISCV, SHN_ABS, SHN_LORESERVE, SHN_UNDEF, SHT_SYMTAB, STB_GLOBAL, STB_WEAK,
    STT_FUNC, STT_GNU_IFUNC, STT_NOTYPE, Sym32, Sym64,
};
use object::read::elf::Sym;
use object::{Endianness, pod};
use std::cmp::Reverse;
use std::rc::Rc;

/// Functions sorted by address. Their names stay in the file until they are needed.
#[derive(Debug)]
pub(super) struct SymbolTable {
    entries: Vec<Entry>,
    names: Names,
    /// Number of functions above the limit.
    pub(super) left_out: u64,
}

/// A function.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub(super) address: u64,
    /// Length in bytes: of the table, or up to the next function.
    extent: u32,
    /// Offset of its name in the string table.
    pub(super) name: u32,
    /// Of several symbols at one address the lowest rank gives the name.
    rank: Rank,
    /// Whether it only selects the real function (`STT_GNU_IFUNC`).
    pub(super) indirect: bool,
    /// Whether the table has its length.
    sized: bool,
}

/// The precedence of symbols at the same address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Global,
    Local,
    Weak,
    /// A label without type, from assembly.
    Label,
}

/// A string table.
#[derive(Debug)]
pub(super) struct Names {
    pub(super) bytes: Rc<Bytes>,
    pub(super) offset: u64,
    pub(super) len: u64,
    /// The whole table, once it was read.
    all: Option<Vec<u8>>,
}

impl Entry {
    /// Returns its length in bytes; 0 if the table has none.
    pub(super) const fn size(&self) -> u32 {
        if self.sized { self.extent } else { 0 }
    }

    const fn contains(&self, address: u64) -> bool {
        address >= self.address && address - self.address < self.extent as u64
    }
}

impl SymbolTable {
    /// Reads a section of symbols (`.symtab`, `.dynsym`). `shift` is added to each address.
    pub(super) fn of_symbols(elf: &Elf, section: &Section, shift: u64) -> Option<Self> {
        let strings = elf.sections.get(section.link as usize)?;
        let mut table = Self::new(&elf.bytes, strings.offset, strings.len);
        if elf.wide {
            table.add_symbols::<Sym64<Endianness>>(elf, section);
        } else {
            table.add_symbols::<Sym32<Endianness>>(elf, section);
        }
        table.finish(elf, section.kind == SHT_SYMTAB && table.left_out == 0);
        for entry in &mut table.entries {
            entry.address = entry.address.wrapping_add(shift);
        }
        if shift != 0 {
            table.entries.sort_by_key(|entry| (entry.address, entry.rank));
        }
        (!table.entries.is_empty()).then_some(table)
    }

    /// Returns a table without functions.
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

    /// Adds a function with a known end.
    pub(super) fn push(&mut self, address: u64, end: u64, name: u32) {
        if self.entries.len() == MAX_FUNCTIONS {
            self.left_out += 1;
            return;
        }
        self.entries.push(Entry {
            address,
            extent: u32::try_from(end.saturating_sub(address)).unwrap_or(u32::MAX),
            name,
            rank: Rank::Global,
            indirect: false,
            sized: true,
        });
    }

    /// Sorts the table; `None` if it is empty.
    pub(super) fn sorted(mut self) -> Option<Self> {
        self.entries.sort_by_key(|entry| (entry.address, entry.rank));
        (!self.entries.is_empty()).then_some(self)
    }

    /// Adds the functions of a section of symbols.
    fn add_symbols<S: Sym<Endian = Endianness> + pod::Pod>(&mut self, elf: &Elf, section: &Section) {
        let (mut at, end) = (
            section.offset,
            section.offset.saturating_add(section.len.min(MAX_SYMBOLS)),
        );
        while at < end {
            let length = (end - at).min((CHUNK * size_of::<S>()) as u64);
            let raw = elf.bytes.read_some(at, usize::try_from(length).unwrap_or(0));
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

    /// Sorts, removes labels that name no function, and extends functions without a length to the next one or the section's
    /// end. In an incomplete table the next function may be missing: there they cover only their first byte.
    fn finish(&mut self, elf: &Elf, is_complete: bool) {
        self.entries
            .sort_unstable_by_key(|entry| (entry.address, entry.rank, entry.name));
        if has_mapping_symbols(elf.machine) && self.entries.iter().any(|entry| entry.rank == Rank::Label) {
            self.names.read_all();
            let names = &self.names;
            self.entries
                .retain(|entry| entry.rank != Rank::Label || !names.of(entry).starts_with(b"$"));
        }
        // A label inside a function is not another function.
        let mut covered = 0;
        self.entries.retain(|entry| {
            let end = entry.address.saturating_add(entry.extent.into());
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
            if !entry.sized && !is_complete {
                entry.extent = 1;
            } else if !entry.sized {
                let behind = code.partition_point(|(start, _)| *start <= entry.address);
                let end = behind.checked_sub(1).map_or(0, |at| code[at].1).min(next);
                entry.extent = u32::try_from(end.saturating_sub(entry.address)).unwrap_or(u32::MAX);
            }
        }
        self.entries.shrink_to_fit();
    }

    /// Returns the function at an address, and its name.
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

    /// Returns the number of functions.
    pub(super) fn count(&self) -> usize {
        self.entries.len()
    }

    /// Reads all names, for [`SymbolTable::functions`].
    pub(super) fn read_names(&mut self) {
        self.names.read_all();
    }

    /// Returns each function with its name, after [`SymbolTable::read_names`].
    pub(super) fn functions(&self) -> impl Iterator<Item = (&Entry, &[u8])> {
        let all = self.names.all.as_deref().unwrap_or_default();
        self.entries.iter().filter_map(move |entry| {
            let name = until_nul(all.get(entry.name as usize..)?);
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
            return until_nul(all.get(entry.name as usize..).unwrap_or_default()).to_vec();
        }
        let rest = usize::try_from(self.len - at).unwrap_or(usize::MAX);
        // Nearly all names are short.
        for most in [FIRST_READ, MAX_NAME] {
            let piece = self
                .bytes
                .read_some(self.offset.saturating_add(at), most.min(rest));
            let name = until_nul(&piece);
            if name.len() < piece.len() || most == MAX_NAME {
                return name.to_vec();
            }
        }
        Vec::new()
    }

    fn read_all(&mut self) {
        if self.all.is_none() {
            let len = usize::try_from(self.len).unwrap_or(usize::MAX).min(MAX_NAMES);
            // A broken header may give a larger size than the file has.
            let available = match &*self.bytes {
                Bytes::File(file) => file.metadata().map_or(0, |meta| meta.len()),
                Bytes::Memory(bytes) => bytes.len() as u64,
            };
            let available = usize::try_from(available.saturating_sub(self.offset)).unwrap_or(usize::MAX);
            self.all = Some(self.bytes.read_some(self.offset, len.min(available)));
        }
    }
}

/// Returns the entry for a symbol; `None` if it is no code or has no name.
fn entry_of<S: Sym<Endian = Endianness>>(symbol: &S, elf: &Elf) -> Option<Entry> {
    let endian = elf.endian;
    let index = symbol.st_shndx(endian);
    // SHN_XINDEX is not resolved: no loaded file has so many sections.
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
        // The lowest bit marks Thumb code.
        address &= !1;
    }
    let size: u64 = symbol.st_size(endian).into();
    Some(Entry {
        address,
        extent: u32::try_from(size).unwrap_or(u32::MAX),
        name: symbol.st_name(endian),
        rank,
        indirect: kind == STT_GNU_IFUNC,
        sized: size != 0,
    })
}

/// Returns whether assemblers for this machine mark code and data by labels, `$x` and `$d`.
const fn has_mapping_symbols(machine: u16) -> bool {
    matches!(machine, EM_ARM | EM_AARCH64 | EM_RISCV)
}

/// Returns the bytes up to the first NUL.
fn until_nul(bytes: &[u8]) -> &[u8] {
    let bytes = &bytes[..bytes.len().min(MAX_NAME)];
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// The most functions of one file: a browser with all symbols has 1.5 million. One takes 24 bytes.
pub(super) const MAX_FUNCTIONS: usize = 4_000_000;

/// The most bytes of a symbol table: a sparse file may claim terabytes.
const MAX_SYMBOLS: u64 = 1 << 30;

/// The number of symbols per read.
const CHUNK: usize = 16_384;

/// The most functions before an address that are checked for one that contains it.
const MAX_STEPS: usize = 64;

/// The most names of one address that are compared.
const MAX_NAMESAKES: usize = 64;

const FIRST_READ: usize = 256;

/// The longest name; the rest is cut.
const MAX_NAME: usize = 16 << 10;

/// The most bytes of all names of one file.
const MAX_NAMES: usize = 512 << 20;

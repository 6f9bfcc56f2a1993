//! Go's own table of functions, `pclntab`. Every Go program has it, even a stripped one, because the runtime needs it.
//!
//! Its header, from `debug/gosym/pclntab.go` and `runtime/symtab.go` of Go 1.26:
//! `{u32 magic; u8 0, 0, quantum, pointer_size; uintptr words[]}`. With Go 1.2 the words are the count of functions, and
//! the entries; with 1.16 they are count, files, and the offsets of names, units, files, lines, entries; with 1.18 and 1.20
//! the address of the code follows the files. An entry is `{function, offset of its data}`, in pointers, since 1.18
//! in u32 from the start of the code; the end of the last function follows the last entry. The data begin with
//! `{function, i32 offset of its name}`.

use super::elf::{Elf, Section};
use super::symbol_table::{MAX_FUNCTIONS, SymbolTable};
use object::{Endian, Endianness};

/// Returns the functions of a Go program; `None` if the table is not found.
pub(super) fn table(elf: &Elf) -> Option<SymbolTable> {
    let named = elf
        .section(b".gopclntab")
        .or_else(|| elf.section(b".data.rel.ro.gopclntab"));
    if let Some(section) = named {
        return read(elf, section, 0);
    }
    // A C linker merges it into other sections.
    if !elf.is_go() {
        return None;
    }
    [&b".data.rel.ro"[..], b".rodata"].into_iter().find_map(|name| {
        let section = elf.section(name)?;
        search(elf, section)
    })
}

/// Returns the first table in a section.
fn search(elf: &Elf, section: &Section) -> Option<SymbolTable> {
    let content = section.read(&elf.bytes, MAX_TABLE)?;
    let mut tried = 0;
    for at in (0..content.len()).step_by(8) {
        if Header::read(&content[at..]).is_some() {
            if let Some(table) = read(elf, section, at as u64) {
                return Some(table);
            }
            tried += 1;
            if tried == MAX_TRIES {
                break;
            }
        }
    }
    None
}

/// Reads the table at an offset of a section.
fn read(elf: &Elf, section: &Section, skipped: u64) -> Option<SymbolTable> {
    let offset = section.offset.checked_add(skipped)?;
    let len = section.len.checked_sub(skipped)?;
    let content = elf.bytes.read(offset, len, MAX_TABLE)?;
    let header = Header::read(&content)?;
    let base = match header.version {
        Version::Go12 | Version::Go116 => 0,
        Version::Go118 => start_of_code(elf, &header, section.address.wrapping_add(skipped)),
    };
    let field = header.field();
    let entries = content.get(usize::try_from(header.entries).ok()?..)?;
    let names = usize::try_from(header.names).ok()?;
    let count = usize::try_from(header.count).ok()?.min(MAX_FUNCTIONS);
    let word = |at: usize| header.word(entries, at, field);
    // Offsets are relative to the entries; with Go 1.2 to the header.
    let data = match header.version {
        Version::Go12 => content.as_slice(),
        Version::Go116 | Version::Go118 => entries,
    };
    let mut table = SymbolTable::new(
        &elf.bytes,
        offset.checked_add(header.names)?,
        len.saturating_sub(header.names),
    );
    for at in 0..count {
        let entry = at * 2 * field;
        let (Some(start), Some(of), Some(end)) = (word(entry), word(entry + field), word(entry + 2 * field))
        else {
            break;
        };
        let Some(name) = usize::try_from(of)
            .ok()
            .and_then(|of| of.checked_add(field))
            .and_then(|at| header.word(data, at, 4))
        else {
            continue;
        };
        // Names must be inside the table.
        if end > start && names.saturating_add(name as usize) < content.len() {
            let name = u32::try_from(name).ok()?;
            table.push(base.wrapping_add(start), base.wrapping_add(end), name);
        }
    }
    table.sorted()
}

/// Returns the address of the Go code.
///
/// Up to Go 1.25 it is in the header (in a position-independent program possibly only in the relocations); later only in
/// `moduledata`, behind a pointer to this table. Without both it is the start of `.text`.
fn start_of_code(elf: &Elf, header: &Header, table_address: u64) -> u64 {
    let is_code = |address: u64| {
        address != 0
            && elf
                .sections
                .iter()
                .any(|section| section.is_code() && section.contains(address))
    };
    if is_code(header.text) {
        return header.text;
    }
    let in_module_data = [&b".go.module"[..], b".noptrdata", b".data", b".data.rel.ro"]
        .into_iter()
        .filter_map(|name| elf.section(name)?.read(&elf.bytes, MAX_MODULE_DATA))
        .find_map(|content| {
            let size = header.pointer;
            (0..content.len()).step_by(size).find_map(|at| {
                (header.word(&content, at, size)? == table_address)
                    .then(|| header.word(&content, at.checked_add(MODULE_TEXT * size)?, size))?
                    .filter(|text| is_code(*text))
            })
        });
    in_module_data
        .or_else(|| elf.section(b".text").map(|text| text.address))
        .unwrap_or(0)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    Go12,
    Go116,
    /// Also 1.20, which differs only in fields that we do not read.
    Go118,
}

struct Header {
    version: Version,
    endian: Endianness,
    /// Size of a pointer in bytes.
    pointer: usize,
    count: u64,
    /// The address of the code; 0 if the header has none.
    text: u64,
    /// Offset of the names in the table.
    names: u64,
    /// Offset of the entries in the table.
    entries: u64,
}

impl Header {
    fn read(content: &[u8]) -> Option<Self> {
        let magic: [u8; 4] = content.get(..4)?.try_into().ok()?;
        let [0, 0, 1 | 2 | 4, pointer @ (4 | 8)] = *content.get(4..8)? else {
            return None;
        };
        let (endian, version) = [Endianness::Little, Endianness::Big]
            .into_iter()
            .find_map(|endian| {
                let version = match endian.read_u32(magic) {
                    0xffff_fffb => Version::Go12,
                    0xffff_fffa => Version::Go116,
                    0xffff_fff0 | 0xffff_fff1 => Version::Go118,
                    _ => return None,
                };
                Some((endian, version))
            })?;
        let mut header = Self {
            version,
            endian,
            pointer: pointer.into(),
            count: 0,
            text: 0,
            names: 0,
            entries: 0,
        };
        let word = |at: usize| header.word(content, 8 + at * header.pointer, header.pointer);
        (header.count, header.text, header.names, header.entries) = match version {
            Version::Go12 => (word(0)?, 0, 0, 8 + u64::from(pointer)),
            Version::Go116 => (word(0)?, 0, word(2)?, word(6)?),
            Version::Go118 => (word(0)?, word(2)?, word(3)?, word(7)?),
        };
        Some(header)
    }

    /// Returns the size of a field of an entry in bytes.
    fn field(&self) -> usize {
        match self.version {
            Version::Go12 | Version::Go116 => self.pointer,
            Version::Go118 => 4,
        }
    }

    fn word(&self, content: &[u8], at: usize, size: usize) -> Option<u64> {
        let bytes = content.get(at..)?.get(..size)?;
        Some(match size {
            4 => self.endian.read_u32(bytes.try_into().ok()?).into(),
            _ => self.endian.read_u64(bytes.try_into().ok()?),
        })
    }
}

/// The index of the word `text` in `moduledata`: after the header's address, five slices and the copy of one more, `findfunctab`,
/// `minpc` and `maxpc` (`runtime/symtab.go`, the same since Go 1.18).
const MODULE_TEXT: usize = 22;

const MAX_TABLE: usize = 256 << 20;
const MAX_MODULE_DATA: usize = 64 << 20;
const MAX_TRIES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_is_read_in_all_versions_and_byte_orders() {
        for (magic, version, count, text, names, entries) in [
            (0xffff_fffb_u32, Version::Go12, 100, 0, 0, 16),
            (0xffff_fffa, Version::Go116, 100, 0, 102, 106),
            (0xffff_fff0, Version::Go118, 100, 102, 103, 107),
            (0xffff_fff1, Version::Go118, 100, 102, 103, 107),
        ] {
            for little in [true, false] {
                let mut content = if little {
                    magic.to_le_bytes()
                } else {
                    magic.to_be_bytes()
                }
                .to_vec();
                content.extend([0, 0, 1, 8]);
                for word in 100_u64..108 {
                    content.extend(if little {
                        word.to_le_bytes()
                    } else {
                        word.to_be_bytes()
                    });
                }
                let header = Header::read(&content).expect("it is one");
                assert_eq!(
                    (
                        header.version,
                        header.count,
                        header.text,
                        header.names,
                        header.entries
                    ),
                    (version, count, text, names, entries),
                    "{magic:#x}"
                );
                for len in 0..16 {
                    assert!(Header::read(&content[..len]).is_none(), "{len}");
                }
                content[7] = 5;
                assert!(Header::read(&content).is_none(), "no pointer has 5 bytes");
            }
        }
    }
}

//! The headers of an ELF file: segments and sections, 32 and 64 bits, either byte order.

use super::bytes::Bytes;
use object::elf::{
    FileHeader32, FileHeader64, PT_LOAD, PT_NOTE, SHF_EXECINSTR, SHN_XINDEX, SHT_NOBITS, SHT_NOTE,
};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};
use object::{Endianness, pod};
use std::rc::Rc;

/// The headers of an ELF file.
#[derive(Debug)]
pub(super) struct Elf {
    pub(super) bytes: Rc<Bytes>,
    pub(super) endian: Endianness,
    /// Whether it is a 64-bit file.
    pub(super) wide: bool,
    /// The processor, for example `EM_X86_64`.
    pub(super) machine: u16,
    /// The loaded segments, in file order.
    pub(super) segments: Vec<Segment>,
    pub(super) sections: Vec<Section>,
    /// Offset and length of the notes.
    notes: Vec<(u64, u64)>,
}

/// A segment that is loaded.
#[derive(Debug, Clone, Copy)]
pub(super) struct Segment {
    pub(super) offset: u64,
    pub(super) address: u64,
    /// Length in the file, in bytes.
    pub(super) len: u64,
    pub(super) executable: bool,
}

/// A section.
#[derive(Debug, Clone)]
pub(super) struct Section {
    pub(super) name: Vec<u8>,
    pub(super) kind: u32,
    pub(super) flags: u64,
    pub(super) address: u64,
    pub(super) offset: u64,
    pub(super) len: u64,
    pub(super) link: u32,
}

impl Elf {
    /// Reads the headers; `None` if it is no valid ELF file.
    pub(super) fn read(bytes: &Rc<Bytes>) -> Option<Self> {
        let ident = bytes.read_some(0, 64);
        match ident.get(4)? {
            1 => Self::read_as::<FileHeader32<Endianness>>(bytes),
            2 => Self::read_as::<FileHeader64<Endianness>>(bytes),
            _ => None,
        }
    }

    fn read_as<H: FileHeader<Endian = Endianness>>(bytes: &Rc<Bytes>) -> Option<Self> {
        let head = bytes.read(0, size_of::<H>() as u64, 64)?;
        let header = H::parse(head.as_slice()).ok()?;
        let endian = header.endian().ok()?;
        let sections = Sections::read::<H>(header, endian, bytes);
        let first = sections.headers.first();
        let segment_count = match (header.e_phnum(endian), first) {
            // More than fit into the header's field: PN_XNUM.
            (0xffff, Some(first)) => first.info as usize,
            (count, _) => usize::from(count),
        };
        let raw = table::<H::ProgramHeader>(
            bytes,
            header.e_phoff(endian).into(),
            segment_count.min(MAX_SEGMENTS),
        );
        let raw = pod::slice_from_all_bytes::<H::ProgramHeader>(&raw).unwrap_or_default();
        let mut segments = Vec::new();
        let mut notes = Vec::new();
        for segment in raw {
            let (offset, len) = (segment.p_offset(endian).into(), segment.p_filesz(endian).into());
            match segment.p_type(endian) {
                PT_LOAD => segments.push(Segment {
                    offset,
                    address: segment.p_vaddr(endian).into(),
                    len,
                    executable: segment.p_flags(endian) & object::elf::PF_X != 0,
                }),
                PT_NOTE => notes.push((offset, len)),
                _ => {}
            }
        }
        let mut named = Vec::with_capacity(sections.headers.len());
        for header in &sections.headers {
            if header.section.kind == SHT_NOTE {
                notes.push((header.section.offset, header.section.len));
            }
            let name = sections.name(header.name);
            named.push(Section {
                name,
                ..header.section.clone()
            });
        }
        Some(Self {
            bytes: Rc::clone(bytes),
            endian,
            wide: header.is_type_64(),
            machine: header.e_machine(endian),
            segments,
            sections: named,
            notes,
        })
    }

    /// Returns the section with this name.
    pub(super) fn section(&self, name: &[u8]) -> Option<&Section> {
        self.sections.iter().find(|section| section.name == name)
    }

    /// Returns the linked address of a file offset.
    pub(super) fn address(&self, offset: u64) -> Option<u64> {
        let contains = |segment: &&Segment| {
            offset
                .checked_sub(segment.offset)
                .is_some_and(|within| within < segment.len)
        };
        // An offset can be in two segments if they share a page: prefer the code.
        let segment = self
            .segments
            .iter()
            .filter(|segment| segment.executable)
            .find(contains)
            .or_else(|| self.segments.iter().find(contains))?;
        Some(segment.address.wrapping_add(offset - segment.offset))
    }

    /// Returns the file offset of a linked address.
    pub(super) fn offset(&self, address: u64) -> Option<u64> {
        self.segments.iter().find_map(|segment| {
            let within = address.checked_sub(segment.address)?;
            (within < segment.len).then(|| segment.offset.checked_add(within))?
        })
    }

    /// Returns the build id from the linker's note.
    pub(super) fn build_id(&self) -> Option<Vec<u8>> {
        self.notes.iter().find_map(|(offset, len)| {
            let notes = self.bytes.read(*offset, *len, MAX_NOTES)?;
            build_id_among(&notes, self.endian)
        })
    }

    /// Returns whether the Go compiler built it, or a part of it.
    pub(super) fn is_go(&self) -> bool {
        self.sections.iter().any(|section| {
            matches!(
                section.name.as_slice(),
                b".go.buildinfo" | b".gopclntab" | b".data.rel.ro.gopclntab" | b".note.go.buildid"
            )
        })
    }
}

impl Section {
    /// Returns whether it contains code.
    pub(super) const fn is_code(&self) -> bool {
        self.flags & (SHF_EXECINSTR as u64) != 0
    }

    /// Returns its bytes; `None` if they are not in the file or more than `most`.
    pub(super) fn read(&self, bytes: &Bytes, most: usize) -> Option<Vec<u8>> {
        if self.kind == SHT_NOBITS {
            return None;
        }
        bytes.read(self.offset, self.len, most)
    }

    pub(super) const fn contains(&self, address: u64) -> bool {
        address >= self.address && address - self.address < self.len
    }
}

/// The section headers, before they have names.
#[derive(Default)]
struct Sections {
    headers: Vec<RawSection>,
    names: Vec<u8>,
}

struct RawSection {
    name: u32,
    info: u32,
    section: Section,
}

impl Sections {
    fn read<H: FileHeader<Endian = Endianness>>(header: &H, endian: Endianness, bytes: &Bytes) -> Self {
        let start = header.e_shoff(endian).into();
        if start == 0 || usize::from(header.e_shentsize(endian)) != size_of::<H::SectionHeader>() {
            return Self::default();
        }
        let first = table::<H::SectionHeader>(bytes, start, 1);
        let Ok(([first], _)) = pod::slice_from_bytes::<H::SectionHeader>(&first, 1) else {
            return Self::default();
        };
        let count = match header.e_shnum(endian) {
            // More than fit into the header's field.
            0 => usize::try_from(first.sh_size(endian).into()).unwrap_or(usize::MAX),
            count => usize::from(count),
        };
        let names_at = match header.e_shstrndx(endian) {
            SHN_XINDEX => first.sh_link(endian) as usize,
            index => usize::from(index),
        };
        let raw = table::<H::SectionHeader>(bytes, start, count.min(MAX_SECTIONS));
        let raw = pod::slice_from_all_bytes::<H::SectionHeader>(&raw).unwrap_or_default();
        let headers: Vec<RawSection> = raw
            .iter()
            .map(|section| RawSection {
                name: section.sh_name(endian),
                info: section.sh_info(endian),
                section: Section {
                    name: Vec::new(),
                    kind: section.sh_type(endian),
                    flags: section.sh_flags(endian).into(),
                    address: section.sh_addr(endian).into(),
                    offset: section.sh_offset(endian).into(),
                    len: section.sh_size(endian).into(),
                    link: section.sh_link(endian),
                },
            })
            .collect();
        let names = headers
            .get(names_at)
            .and_then(|names| names.section.read(bytes, MAX_SECTION_NAMES))
            .unwrap_or_default();
        Self { headers, names }
    }

    fn name(&self, offset: u32) -> Vec<u8> {
        let rest = self.names.get(offset as usize..).unwrap_or_default();
        // Longer names are not needed, and a broken file may have many sections with overlapping long names.
        let rest = &rest[..rest.len().min(MAX_SECTION_NAME)];
        rest.split(|byte| *byte == 0).next().unwrap_or_default().to_vec()
    }
}

/// Reads up to `count` entries, as many as the file has.
fn table<T>(bytes: &Bytes, offset: u64, count: usize) -> Vec<u8> {
    let mut raw = bytes.read_some(offset, count.saturating_mul(size_of::<T>()));
    raw.truncate(raw.len() / size_of::<T>() * size_of::<T>());
    raw
}

/// Returns the description of the note `GNU`, NT_GNU_BUILD_ID: `{u32 namesz, descsz, type; name, desc}`, each padded to 4 bytes.
fn build_id_among(notes: &[u8], endian: Endianness) -> Option<Vec<u8>> {
    use object::Endian;
    let mut rest = notes;
    loop {
        let word = |at: usize| -> Option<u32> {
            let bytes = rest.get(at..at + 4)?.try_into().ok()?;
            Some(endian.read_u32(bytes))
        };
        let (name_len, len, kind) = (word(0)? as usize, word(4)? as usize, word(8)?);
        let (name_room, room) = (
            name_len.checked_next_multiple_of(4)?,
            len.checked_next_multiple_of(4)?,
        );
        let name = rest.get(12..)?.get(..name_len)?;
        let description = rest.get(12..)?.get(name_room..)?.get(..len)?;
        if name == b"GNU\0" && kind == 3 {
            return (2..=MAX_BUILD_ID).contains(&len).then(|| description.to_vec());
        }
        rest = rest.get(12..)?.get(name_room..)?.get(room..)?;
    }
}

const MAX_SEGMENTS: usize = 1_024;
const MAX_SECTIONS: usize = 65_536;
const MAX_SECTION_NAMES: usize = 4 << 20;
const MAX_SECTION_NAME: usize = 64;
const MAX_NOTES: usize = 64 << 10;
const MAX_BUILD_ID: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_id_is_found_behind_other_notes() {
        let mut notes = Vec::new();
        for (name, kind, description) in [
            (&b"Go\0\0"[..], 4u32, &b"abcde"[..]),
            (b"GNU\0", 3, b"\x01\x02\x03"),
        ] {
            notes.extend((name.len() as u32).to_le_bytes());
            notes.extend((description.len() as u32).to_le_bytes());
            notes.extend(kind.to_le_bytes());
            notes.extend(name);
            notes.extend(description);
            notes.resize(notes.len().next_multiple_of(4), 0);
        }
        assert_eq!(build_id_among(&notes, Endianness::Little), Some(vec![1, 2, 3]));
        for len in 0..notes.len() - 1 {
            assert_eq!(build_id_among(&notes[..len], Endianness::Little), None, "{len}");
        }
    }
}

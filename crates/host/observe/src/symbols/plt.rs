//! Entries of the procedure linkage table: jumps to functions of other libraries, which have no symbols of their own.

use super::elf::{Elf, Section};
use object::elf::{EM_X86_64, Rela64, SHT_RELA, Sym64};
use object::read::elf::{Rela, Sym};
use object::{Endianness, pod};

/// Returns the name of an address in a PLT section (`malloc@plt`, or `[plt]` if unknown); `None` if it is in none.
pub(super) fn name(elf: &Elf, address: u64) -> Option<String> {
    let section = elf.sections.iter().take(MAX_SECTIONS).find(|section| {
        section.is_code() && section.name.starts_with(b".plt") && section.contains(address)
    })?;
    let target = target(elf, section, address);
    Some(target.map_or_else(|| "[plt]".to_owned(), |name| format!("{name}@plt")))
}

/// Returns the function that an entry jumps to. The entry loads its target from a slot, and a relocation of that slot has the
/// function's name. This works for every linker, unlike the order of entries.
fn target(elf: &Elf, section: &Section, address: u64) -> Option<String> {
    if elf.machine != EM_X86_64 || !elf.wide {
        return None;
    }
    let slot = [16, 8].into_iter().find_map(|len| {
        let start = address - (address - section.address) % len;
        let entry = elf
            .bytes
            .read_some(section.offset.checked_add(start - section.address)?, len as usize);
        jump_target(&entry, start)
    })?;
    let endian = elf.endian;
    let relocated = elf.sections.iter().filter(|section| section.kind == SHT_RELA);
    for relocations in relocated.take(MAX_RELOCATED) {
        let symbols = elf.sections.get(relocations.link as usize)?;
        let mut raw = relocations.read(&elf.bytes, MAX_RELOCATIONS)?;
        raw.truncate(raw.len() / size_of::<Rela64<Endianness>>() * size_of::<Rela64<Endianness>>());
        let all = pod::slice_from_all_bytes::<Rela64<Endianness>>(&raw).ok()?;
        let Some(found) = all.iter().find(|one| one.r_offset(endian) == slot) else {
            continue;
        };
        let index = u64::from(Rela::r_sym(found, endian, false));
        let size = size_of::<Sym64<Endianness>>() as u64;
        let raw = elf
            .bytes
            .read(symbols.offset.checked_add(index * size)?, size, size as usize)?;
        let (symbol, _) = pod::from_bytes::<Sym64<Endianness>>(&raw).ok()?;
        let strings = elf.sections.get(symbols.link as usize)?;
        let at = strings.offset.checked_add(Sym::st_name(symbol, endian).into())?;
        let name = elf.bytes.read_some(at, MAX_NAME);
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        return (!name.is_empty()).then(|| super::demangle::demangled(name).into_owned());
    }
    None
}

/// Returns the address of the slot with the target of an entry: `[endbr64] [bnd] jmp *displacement(%rip)`.
fn jump_target(entry: &[u8], address: u64) -> Option<u64> {
    let mut at = 0;
    if entry.starts_with(&[0xf3, 0x0f, 0x1e, 0xfa]) {
        at += 4;
    }
    if entry.get(at) == Some(&0xf2) {
        at += 1;
    }
    let rest = entry.get(at..)?.strip_prefix(&[0xff, 0x25])?;
    let displacement = i32::from_le_bytes(rest.get(..4)?.try_into().ok()?);
    Some(
        address
            .wrapping_add(at as u64 + 6)
            .wrapping_add_signed(displacement.into()),
    )
}

const MAX_RELOCATIONS: usize = 16 << 20;
const MAX_NAME: usize = 1_024;

/// The most sections that are searched; linkers put the PLT among the first.
const MAX_SECTIONS: usize = 1_024;
const MAX_RELOCATED: usize = 8;

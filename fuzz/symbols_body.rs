//! Bodies of the fuzz targets `elf_files`, `go_tables`, `symbol_maps` and `demangling`, and of the test that replays their corpora:
//! files of other users that name the functions of their programs. It is a module of `sockeye_observe::symbols`.

use super::bytes::Bytes;
use super::debug_file::{build_id_path, link};
use super::demangle::{MAX_DEMANGLED, demangled};
use super::elf::Elf;
use super::kernel::Kernel;
use super::perf_map::{Contents, innermost_pid};
use super::symbol_tables::{SymbolTables, symbols};
use object::elf::SHT_SYMTAB;
use std::path::Path;
use std::rc::Rc;

/// The length of a program in two bytes, the program, and its debug file.
pub fn elf_files(bytes: &[u8]) {
    let Some((len, rest)) = bytes.split_first_chunk() else {
        return;
    };
    let (program, debug) = rest.split_at(usize::from(u16::from_le_bytes(*len)).min(rest.len()));
    check_file(program);
    check_file(debug);
    let (Some(program), Some(debug)) = (elf(program), elf(debug)) else {
        return;
    };
    if let Some((name, _)) = link(&program) {
        // It names a file, not a folder above.
        assert_eq!(name.components().count(), 1, "{name:?}");
        assert_ne!(name, Path::new(".."));
    }
    if let Some(id) = program.build_id() {
        assert!((2..=64).contains(&id.len()));
        let path = build_id_path(&id);
        assert!(
            path.starts_with("/usr/lib/debug/.build-id") && path.components().count() == 7,
            "{path:?}"
        );
    }
    let shift = || {
        Some(
            program
                .segments
                .first()?
                .address
                .wrapping_sub(debug.segments.first()?.address),
        )
    };
    if let Some(shift) = shift()
        && let Some(table) = symbols(&debug, SHT_SYMTAB, shift)
    {
        for address in [0, 1, shift, u64::MAX]
            .into_iter()
            .chain(debug.segments.iter().map(|it| it.address))
        {
            let moved = address.wrapping_add(shift);
            let found = table.find(moved);
            assert!(found.is_none_or(|(entry, name)| entry.address <= moved && !name.is_empty()));
        }
    }
}

fn elf(bytes: &[u8]) -> Option<Elf> {
    Elf::read(&Rc::new(Bytes::Memory(bytes.to_vec())))
}

/// A program with names, by offset and all at once.
fn check_file(bytes: &[u8]) {
    let read = || SymbolTables::read(Bytes::Memory(bytes.to_vec()), Path::new("program"), &[]);
    let (Some(mut by_offset), Some(mut whole)) = (read(), read()) else {
        return;
    };
    let elf = elf(bytes).expect("its headers were read");
    // A segment of 56 or 32 bytes, a section of 64 or 40, a symbol of 24 or 16, an entry of Go's table of 8.
    assert!(elf.segments.len() <= bytes.len() / 32 && elf.sections.len() <= bytes.len() / 40);
    assert!(by_offset.count() <= bytes.len() / 4 && whole.left_out() == 0);
    let ends = elf
        .segments
        .iter()
        .flat_map(|it| [it.offset, it.offset.saturating_add(it.len)]);
    let mut offsets: Vec<u64> = ends.take(OFFSETS_MAX).collect();
    for function in whole.functions() {
        assert!(!function.name.is_empty() && function.name.len() <= bytes.len());
        assert!(elf.address(function.offset).is_some());
        assert!(!function.name.contains(&0));
        if offsets.len() < OFFSETS_MAX {
            offsets.push(function.offset);
        }
    }
    let mut found = Vec::new();
    for &offset in &offsets {
        let address = elf.address(offset);
        let name = by_offset.name(offset);
        assert!(address.is_some() || name.is_none());
        assert!(
            name.as_ref()
                .is_none_or(|name| !name.is_empty() && name.len() <= MAX_DEMANGLED + 4)
        );
        found.push(name);
    }
    // Remembered, with all names in memory, and in another order, they are the same.
    for (&offset, name) in offsets.iter().zip(&found).rev() {
        assert_eq!(whole.name(offset), *name);
        assert_eq!(by_offset.name(offset), *name);
    }
}

/// Offsets that are resolved in one input.
const OFFSETS_MAX: usize = 32;

/// Go's table of functions as the section `.gopclntab` of a program, and merged into `.rodata` behind other bytes.
pub fn go_tables(bytes: &[u8]) {
    for is_merged in [false, true] {
        check_file(&go_program(bytes, is_merged));
    }
}

/// Returns a program of 64 bits with this table: an ELF header, a segment of code, section headers and their names.
fn go_program(table: &[u8], is_merged: bool) -> Vec<u8> {
    let names = b"\0.text\0.gopclntab\0.rodata\0.go.buildinfo\0.noptrdata\0.shstrtab\0";
    let name_at = |name: &[u8]| {
        let at = names.windows(name.len()).position(|piece| piece == name);
        at.expect("it is among them") as u32
    };
    let table_name: &[u8] = if is_merged { b".rodata" } else { b".gopclntab" };
    let mut content = Vec::from(*names);
    content.resize(64, 0);
    let table_at = content.len() + if is_merged { 16 } else { 0 };
    content.resize(table_at, 0xcc);
    content.extend_from_slice(table);
    content.resize(content.len().next_multiple_of(8), 0);
    // As `moduledata`: a pointer to the table, and 22 words later the address of the code.
    let module_at = content.len();
    content.extend_from_slice(&(BASE + HEADERS_LEN + table_at as u64).to_le_bytes());
    content.extend([0; 21 * 8]);
    content.extend_from_slice(&(BASE + CODE).to_le_bytes());
    let section_start = if is_merged { table_at - 16 } else { table_at };
    // Name, type, flags, address, offset, length.
    let sections = [
        (0, 0, 0, 0, 0, 0),
        (name_at(b".text"), 1, 6, BASE + CODE, CODE, 1 << 20),
        (
            name_at(table_name),
            1,
            2,
            BASE + HEADERS_LEN + section_start as u64,
            HEADERS_LEN + section_start as u64,
            (module_at - section_start) as u64,
        ),
        (name_at(b".go.buildinfo"), 1, 2, 0, 0, 0),
        (
            name_at(b".noptrdata"),
            1,
            2,
            0,
            HEADERS_LEN + module_at as u64,
            23 * 8,
        ),
        (name_at(b".shstrtab"), 3, 0, 0, HEADERS_LEN, names.len() as u64),
    ];
    let mut file = Vec::from(*b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    let mut put = |bytes: &[u8]| file.extend_from_slice(bytes);
    put(&2_u16.to_le_bytes());
    put(&62_u16.to_le_bytes());
    put(&1_u32.to_le_bytes());
    // Entry point, program headers, section headers.
    for word in [0, 64, 64 + 56] {
        put(&u64::to_le_bytes(word));
    }
    put(&0_u32.to_le_bytes());
    for half in [64, 56, 1, 64, sections.len() as u16, sections.len() as u16 - 1] {
        put(&u16::to_le_bytes(half));
    }
    // PT_LOAD, readable and executable: everything.
    put(&1_u32.to_le_bytes());
    put(&5_u32.to_le_bytes());
    for word in [0, BASE, BASE, CODE + (1 << 20), CODE + (1 << 20), 4096] {
        put(&u64::to_le_bytes(word));
    }
    for (name, kind, flags, address, offset, len) in sections {
        put(&u32::to_le_bytes(name));
        put(&u32::to_le_bytes(kind));
        for word in [flags, address, offset, len] {
            put(&u64::to_le_bytes(word));
        }
        put(&[0; 8]);
        put(&1_u64.to_le_bytes());
        put(&0_u64.to_le_bytes());
    }
    assert_eq!(file.len() as u64, HEADERS_LEN);
    file.extend_from_slice(&content);
    file
}

const BASE: u64 = 0x40_0000;
/// Offset of the code, which is not in the file.
const CODE: u64 = 0x10_0000;
const HEADERS_LEN: u64 = 64 + 56 + 6 * 64;

/// `/proc/kallsyms`, the perf map of a compiler, and `/proc/PID/status`: each input is taken for all of them.
pub fn symbol_maps(bytes: &[u8]) {
    let kernel = Kernel::parse(bytes.to_vec());
    let map = Contents::read(bytes.to_vec(), bytes.len() as u64);
    for line in bytes.split(|&byte| byte == b'\n').take(64) {
        let digits = line.split(|&byte| byte == b' ').next().unwrap_or_default();
        let digits = digits.strip_prefix(b"0x").unwrap_or(digits);
        let digits = std::str::from_utf8(digits).unwrap_or_default();
        let start = u64::from_str_radix(digits, 16).unwrap_or(0);
        for address in [start, start.saturating_add(1), start.wrapping_sub(1)] {
            let frame = kernel.frame(address);
            assert!(frame.module.is_some());
            // Either a name, or the address.
            assert_eq!(frame.offset, frame.function.is_none().then_some(address));
            let texts = [frame.function, frame.module, map.name(address)];
            for text in texts.into_iter().flatten() {
                assert!(
                    !text.is_empty() && !text.contains('\n') && text.len() <= 3 * line_len_max(bytes),
                    "{text:?}"
                );
            }
        }
    }
    if let Some(pid) = innermost_pid(bytes) {
        let again = format!("Name:\tx\nNSpid:\t1\t{pid}\n");
        assert_eq!(innermost_pid(again.as_bytes()), Some(pid));
    }
}

fn line_len_max(text: &[u8]) -> usize {
    let lines = text.split(|&byte| byte == b'\n');
    lines.map(<[u8]>::len).max().unwrap_or(0).max("kernel".len())
}

/// The name of a function, as its compiler wrote it.
pub fn demangling(bytes: &[u8]) {
    let clear = demangled(bytes);
    // A name that is no mangled one stays, and becomes U+FFFD where it is not UTF-8.
    assert!(
        clear.len() <= MAX_DEMANGLED.max(3 * bytes.len()),
        "{}",
        clear.len()
    );
    assert_eq!(clear, demangled(bytes));
    if clear.is_empty() {
        assert!(bytes.is_empty(), "a name does not vanish: {bytes:?}");
    }
}

#[cfg(test)]
#[path = "replay.rs"]
mod replay;

#[test]
fn corpora_are_resolved_without_panics() {
    let folder = env!("CARGO_MANIFEST_DIR");
    replay::replay(folder, "elf_files", elf_files);
    replay::replay(folder, "go_tables", go_tables);
    replay::replay(folder, "symbol_maps", symbol_maps);
    replay::replay(folder, "demangling", demangling);
}

//! The symbol tables of one file.

use super::bytes::Bytes;
use super::elf::Elf;
use super::function::FunctionSymbol;
use super::open::Root;
use super::symbol_table::SymbolTable;
use super::{debug_file, demangle, go, plt};
use foldhash::HashMap;
use object::elf::{SHT_DYNSYM, SHT_SYMTAB};
use std::fs::File;
use std::io;
use std::path::Path;
use std::rc::Rc;

/// The functions of a file.
#[derive(Debug)]
pub(super) struct SymbolTables {
    elf: Elf,
    /// The best first: `.symtab` or a debug file or Go's table, then `.dynsym`.
    tables: Vec<SymbolTable>,
    /// Demangled names, by table and offset of the name. Not by address: symbols of different lengths can begin at one.
    names: HashMap<(usize, u32), String>,
}

impl SymbolTables {
    /// Reads the tables; `None` if it is no ELF file. Debug files are searched in these roots.
    pub(super) fn read(bytes: Bytes, path: &Path, roots: &[&Root]) -> Option<Self> {
        let elf = Elf::read(&Rc::new(bytes))?;
        let mut tables: Vec<SymbolTable> = symbols(&elf, SHT_SYMTAB, 0).into_iter().collect();
        if tables.is_empty() {
            let separate = debug_file::find(&elf, path, roots).and_then(|debug| {
                // If prelink moved the file after its symbols were split off, all addresses moved by the same distance.
                let shift = elf
                    .segments
                    .first()?
                    .address
                    .wrapping_sub(debug.segments.first()?.address);
                symbols(&debug, SHT_SYMTAB, shift)
            });
            tables.extend(separate);
            if tables.is_empty() && elf.is_go() {
                tables.extend(go::table(&elf));
            }
            tables.extend(symbols(&elf, SHT_DYNSYM, 0));
        }
        Some(Self {
            elf,
            tables,
            names: HashMap::default(),
        })
    }

    /// Returns the function at a file offset.
    pub(super) fn name(&mut self, offset: u64) -> Option<String> {
        let address = self.elf.address(offset)?;
        for (number, table) in self.tables.iter().enumerate() {
            let Some((entry, name)) = table.find(address) else {
                continue;
            };
            let key = (number, entry.name);
            if let Some(known) = self.names.get(&key) {
                return Some(known.clone());
            }
            let demangled = demangle::demangled(&name).into_owned();
            if self.names.len() < MAX_CACHED {
                self.names.insert(key, demangled.clone());
            }
            return Some(demangled);
        }
        plt::name(&self.elf, address)
    }

    /// Returns all named functions.
    pub(super) fn functions(&mut self) -> impl Iterator<Item = FunctionSymbol<'_>> {
        for table in &mut self.tables {
            table.read_names();
        }
        let elf = &self.elf;
        self.tables
            .iter()
            .flat_map(SymbolTable::functions)
            .filter_map(|(entry, name)| {
                Some(FunctionSymbol {
                    name,
                    offset: elf.offset(entry.address)?,
                    size: entry.size().into(),
                    indirect: entry.indirect,
                })
            })
    }

    /// Returns the number of functions.
    pub(super) fn count(&self) -> usize {
        self.tables.iter().map(SymbolTable::count).sum()
    }

    /// Returns the open file.
    pub(super) fn file(&self) -> io::Result<File> {
        match &*self.elf.bytes {
            Bytes::File(file) => file.try_clone(),
            Bytes::Memory(_) => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Returns whether it is a Go program.
    pub(super) fn is_go(&self) -> bool {
        self.elf.is_go()
    }

    /// Returns the number of functions above the limit.
    pub(super) fn left_out(&self) -> u64 {
        self.tables.iter().map(|table| table.left_out).sum()
    }
}

/// Reads the section of symbols of this kind. `shift` is added to each address.
pub(super) fn symbols(elf: &Elf, kind: u32, shift: u64) -> Option<SymbolTable> {
    elf.sections
        .iter()
        .find(|section| section.kind == kind)
        .and_then(|section| SymbolTable::of_symbols(elf, section, shift))
}

/// The most cached names per file; further ones are read again.
const MAX_CACHED: usize = 65_536;

#[cfg(test)]
mod tests {
    use super::*;

    /// A program with the functions `long` and `short`, which begin at one address and have 64 and 16 bytes.
    const TWO_AT_ONE_ADDRESS: &[u8] =
        include_bytes!("../../../../../fuzz/corpus/elf_files/two-at-one-address");

    #[test]
    fn names_at_one_address_do_not_depend_on_the_order() {
        let read = || {
            SymbolTables::read(
                Bytes::Memory(TWO_AT_ONE_ADDRESS[2..].to_vec()),
                Path::new("x"),
                &[],
            )
        };
        let (mut up, mut down) = (read().unwrap(), read().unwrap());
        let start = up.functions().map(|function| function.offset).min().unwrap();
        let first = (up.name(start), up.name(start + 20));
        let last = (down.name(start + 20), down.name(start));
        assert_eq!(first, (last.1, last.0));
        assert_ne!(first.0, first.1);
    }
}

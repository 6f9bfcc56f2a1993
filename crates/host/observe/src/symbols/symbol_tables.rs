//! What is known of one file, once somebody asked.

use super::bytes::Bytes;
use super::elf::Elf;
use super::opened::Root;
use super::table::{Table, Told};
use super::{FunctionSymbol, debug_file, demangle, go, plt};
use object::elf::{SHT_DYNSYM, SHT_SYMTAB};
use std::fs::File;
use std::io;
use std::path::Path;
use std::rc::Rc;

/// The functions of a file.
#[derive(Debug)]
pub(super) struct Loaded {
    elf: Elf,
    /// The better ones first.
    tables: Vec<Table>,
    told: Told,
}

impl Loaded {
    /// Reads the tables; none: it is no ELF file. Other files are looked for in these roots.
    pub(super) fn read(bytes: Bytes, path: &Path, roots: &[&Root]) -> Option<Self> {
        let elf = Elf::read(&Rc::new(bytes))?;
        let mut tables: Vec<Table> = symbols(&elf, SHT_SYMTAB, 0).into_iter().collect();
        if tables.is_empty() {
            let separate = debug_file::find(&elf, path, roots).and_then(|debug| {
                // Where the file was moved after its symbols were taken out (prelink), all of it was.
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
            told: Told::default(),
        })
    }

    /// The function at a place of the file.
    pub(super) fn name(&mut self, offset: u64) -> Option<String> {
        let address = self.elf.address(offset)?;
        for table in &self.tables {
            let Some((entry, name)) = table.find(address) else {
                continue;
            };
            if let Some(told) = self.told.get(&entry.address) {
                return Some(told.clone());
            }
            let clear = demangle::demangled(&name).into_owned();
            if self.told.len() < MAX_TOLD {
                self.told.insert(entry.address, clear.clone());
            }
            return Some(clear);
        }
        plt::name(&self.elf, address)
    }

    /// Each function of which the file has a name.
    pub(super) fn functions(&mut self) -> impl Iterator<Item = FunctionSymbol<'_>> {
        for table in &mut self.tables {
            table.read_names();
        }
        let elf = &self.elf;
        self.tables
            .iter()
            .flat_map(Table::functions)
            .filter_map(|(entry, name)| {
                Some(FunctionSymbol {
                    name,
                    offset: elf.offset(entry.address)?,
                    size: entry.size().into(),
                    indirect: entry.indirect,
                })
            })
    }

    /// How many functions are known.
    pub(super) fn count(&self) -> usize {
        self.tables.iter().map(Table::count).sum()
    }

    /// The file itself.
    pub(super) fn file(&self) -> io::Result<File> {
        match &*self.elf.bytes {
            Bytes::File(file) => file.try_clone(),
            Bytes::Memory(_) => Err(io::ErrorKind::NotFound.into()),
        }
    }

    pub(super) fn is_go(&self) -> bool {
        self.elf.is_go()
    }

    /// How many functions it has that we do not know.
    pub(super) fn left_out(&self) -> u64 {
        self.tables.iter().map(|table| table.left_out).sum()
    }
}

fn symbols(elf: &Elf, kind: u32, shift: u64) -> Option<Table> {
    elf.sections
        .iter()
        .find(|section| section.kind == kind)
        .and_then(|section| Table::of_symbols(elf, section, shift))
}

/// Names that are kept per file; more are read again.
const MAX_TOLD: usize = 65_536;

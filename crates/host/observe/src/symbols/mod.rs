//! Resolves addresses to names: from mapped files, the kernel, and the perf maps of JIT compilers.
//!
//! `blazesym` 0.2.7 was compared and not used. It is not faster: for 100,000 addresses in the C library it took 180 to 250 ms, this
//! module 120 to 190 ms (in a Rust program 160 to 220 ms and 160 to 190 ms; in `go` 40 ms and 80 to 120 ms). It names no function of
//! stripped Go programs and no PLT entry, adds 12 packages and 400 kB, and maps the files that it reads: a file that shrinks meanwhile would end the program. So the ELF
//! structs are those of the crate `object`, read in pieces from the file that was opened while its process existed; `object`'s
//! own readers need the whole file in memory or mapped. DWARF (`gimli`: one more package) is not read: symbol tables name the
//! functions, and source lines are not needed.

mod bytes;
mod debug_file;
mod demangle;
mod elf;
mod function;
/// Bodies of the fuzz targets `elf_files`, `go_tables`, `symbol_maps` and `demangling`.
#[cfg(any(test, fuzzing))]
#[path = "../../../../../fuzz/symbols_body.rs"]
pub mod fuzz_body;
mod go;
mod kernel;
mod module;
mod open;
mod perf_map;
mod plt;
mod symbol_table;
mod symbol_tables;
mod vdso;

pub(crate) use function::FunctionSymbol;

use crate::{FileNumber, Mapping, Unavailable};
use bytes::Bytes;
use elf::Elf;
use foldhash::HashMap;
pub(crate) use kernel::Kernel;
use module::{FileState, Module, ModuleFile, ModuleKind};
use open::{FileIdentity, OpenError, Root, SharedRoot, identity};
use perf_map::PerfMap;
use rustix::process::{Resource, getrlimit};
use sockeye_model::counted;
use sockeye_profile::{Frame, Space};
use sockeye_sys::rights::{CheckedIn, remedy};
use std::fs::File;
use std::io;
use std::path::Path;
use std::rc::Rc;
use symbol_tables::SymbolTables;

/// Resolves addresses to names.
///
/// A file is opened when its mapping is added ([`Symbols::add_mapping`]), while the process exists; its tables are read when
/// the first of its addresses is resolved. If another file has replaced it, its functions have no names.
#[derive(Debug)]
pub(crate) struct Symbols {
    /// By their [`FileNumber`].
    modules: Vec<Module>,
    /// Mappings that were added before.
    mapped: HashMap<MappingKey, FileNumber>,
    /// Files by identity: one file can have several names and mounts.
    files: HashMap<FileIdentity, FileNumber>,
    /// Anonymous memory by process and its root.
    jit: HashMap<(u32, RootKey), FileNumber>,
    /// Mappings that are the same in all processes, by name.
    special: HashMap<String, FileNumber>,
    roots: HashMap<RootKey, SharedRoot>,
    kernel: Option<Kernel>,
    /// Number of open files.
    open: usize,
    /// The most open files.
    open_max: usize,
    /// Number of functions in all tables.
    functions: usize,
}

/// The unwind tables of a file.
#[derive(Debug)]
pub(crate) struct UnwindTables {
    /// Offset in the file, length, and linked address of its code.
    pub(crate) code: Vec<(u64, u64, u64)>,
    /// `.eh_frame`: its linked address and bytes.
    pub(crate) eh_frame: (u64, Vec<u8>),
    /// `.eh_frame_hdr`, likewise.
    pub(crate) eh_frame_hdr: Option<(u64, Vec<u8>)>,
    /// Linked addresses of `.text` and `.got`.
    pub(crate) text: Option<std::ops::Range<u64>>,
    pub(crate) got: Option<std::ops::Range<u64>>,
}

/// Device, inode and path.
type MappingKey = ((u32, u32), u64, Vec<u8>);

/// Mount namespace and root.
type RootKey = Option<(FileIdentity, FileIdentity)>;

impl Symbols {
    /// Returns an empty set.
    pub(crate) fn new() -> Self {
        // A quarter of the limit: others need descriptors too, and a file can have a second one with its symbols.
        let soft = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX) / 4;
        Self {
            modules: Vec::new(),
            mapped: HashMap::default(),
            files: HashMap::default(),
            jit: HashMap::default(),
            special: HashMap::default(),
            roots: HashMap::default(),
            kernel: None,
            open: 0,
            open_max: usize::try_from(soft).unwrap_or(MAX_OPEN).min(MAX_OPEN),
            functions: 0,
        }
    }

    /// Opens the file of a mapping, once per file. The process may end afterwards.
    pub(crate) fn add_mapping(&mut self, pid: u32, mapping: &Mapping) -> FileNumber {
        if !mapping.has_file() {
            return self.add_memory(pid, mapping);
        }
        let key = (mapping.device, mapping.inode, mapping.path.clone());
        if let Some(number) = self.mapped.get(&key).copied() {
            self.retry_open(number, pid, mapping);
            return number;
        }
        let root = self.root(root_key(pid), pid);
        let path = open::named_path(&mapping.path).to_owned();
        let mut name = last_part(&path);
        let state = match open::open_mapped(pid, mapping, &root) {
            Ok(file) => match self.register(file) {
                Ok(number) => {
                    self.remember(key, number);
                    return number;
                }
                Err(state) => state,
            },
            Err(why) => {
                if matches!(why, OpenError::Replaced | OpenError::Gone) {
                    name.push_str(DELETED);
                }
                FileState::Unopened(why)
            }
        };
        let number = self.push(name, ModuleFile::kind(path, root, state));
        self.remember(key, number);
        number
    }

    /// Opens a file that is not mapped yet.
    pub(crate) fn add_path(&mut self, path: &Path) -> io::Result<FileNumber> {
        let file = Root::Own.open(path).map_err(|why| match why {
            OpenError::Failed(error) => error,
            other => io::Error::new(io::ErrorKind::NotFound, other.to_string()),
        })?;
        let state = match self.register(file) {
            Ok(number) => return Ok(number),
            Err(state) => state,
        };
        let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let root = Rc::new(Root::Own);
        Ok(self.push(last_part(&path), ModuleFile::kind(path, root, state)))
    }

    /// Returns the function at an offset of a file: see [`Mapping::file_offset`].
    pub(crate) fn user(&mut self, file: FileNumber, offset: u64) -> Frame {
        self.load(file);
        let Some(module) = self.modules.get_mut(file.0 as usize) else {
            return Frame {
                offset: Some(offset),
                ..Frame::default()
            };
        };
        let function = match &mut module.kind {
            ModuleKind::File(module) => module.loaded().and_then(|loaded| loaded.name(offset)),
            ModuleKind::Vdso(loaded) => loaded.as_mut().and_then(|loaded| loaded.name(offset)),
            ModuleKind::Jit(perf_map) => {
                let name = perf_map.name(offset);
                if perf_map.exists() {
                    JIT.clone_into(&mut module.name);
                }
                name
            }
            ModuleKind::Nothing => None,
        };
        Frame {
            offset: function.is_none().then_some(offset),
            function,
            module: Some(module.name.clone()),
            space: Space::User,
        }
    }

    /// Returns the function at an address of the kernel.
    pub(crate) fn kernel(&mut self, address: u64) -> Frame {
        self.kernel.get_or_insert_with(Kernel::read).frame(address)
    }

    /// Returns the functions of a file, sorted by offset; one with several names several times.
    pub(crate) fn functions(&mut self, file: FileNumber) -> impl Iterator<Item = FunctionSymbol<'_>> {
        self.load(file);
        let module = self.modules.get_mut(file.0 as usize);
        let loaded = match module.map(|module| &mut module.kind) {
            Some(ModuleKind::File(module)) => module.loaded(),
            _ => None,
        };
        loaded.into_iter().flat_map(SymbolTables::functions)
    }

    /// Returns whether the file is a Go program: its stacks move, so that returns cannot be watched.
    pub(crate) fn is_go(&mut self, file: FileNumber) -> bool {
        self.load(file);
        match self
            .modules
            .get_mut(file.0 as usize)
            .map(|module| &mut module.kind)
        {
            Some(ModuleKind::File(module)) => module.loaded().is_some_and(|loaded| loaded.is_go()),
            _ => false,
        }
    }

    /// Returns the last part of its path; `None` for an unknown number.
    pub(crate) fn file_name(&self, file: FileNumber) -> Option<&str> {
        self.modules
            .get(file.0 as usize)
            .map(|module| module.name.as_str())
    }

    /// Returns the open file, for uprobes.
    pub(crate) fn file(&self, file: FileNumber) -> io::Result<File> {
        match self.modules.get(file.0 as usize).map(|module| &module.kind) {
            Some(ModuleKind::File(module)) => module.file(),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Returns the unwind tables of a file of this processor; `None` without such a file or tables.
    pub(crate) fn unwind_tables(&self, file: FileNumber) -> Option<UnwindTables> {
        let bytes = Rc::new(Bytes::File(self.file(file).ok()?));
        let elf = Elf::read(&bytes).filter(|elf| elf.wide && elf.machine == object::elf::EM_X86_64)?;
        let read = |name: &[u8]| {
            let section = elf.section(name)?;
            Some((section.address, section.read(&bytes, UNWIND_TABLES_MAX)?))
        };
        let range = |name: &[u8]| {
            let section = elf.section(name)?;
            Some(section.address..section.address.checked_add(section.len)?)
        };
        let code = elf.segments.iter().filter(|segment| segment.executable);
        Some(UnwindTables {
            code: code
                .map(|segment| (segment.offset, segment.len, segment.address))
                .collect(),
            eh_frame: read(b".eh_frame")?,
            eh_frame_hdr: read(b".eh_frame_hdr"),
            text: range(b".text"),
            got: range(b".got"),
        })
    }

    /// Returns why names are missing.
    pub(crate) fn missing_parts(&self) -> Vec<Unavailable> {
        let mut all: Vec<Unavailable> = self
            .kernel
            .iter()
            .filter_map(|kernel| kernel.unavailable.clone())
            .collect();
        let mut unread = Vec::new();
        let mut denied = false;
        for module in &self.modules {
            let ModuleKind::File(file) = &module.kind else {
                continue;
            };
            let path = file.path.display();
            match &file.state {
                FileState::Unopened(why) => {
                    denied |= matches!(why, OpenError::Failed(error) if error.kind() == io::ErrorKind::PermissionDenied);
                    unread.push(format!("{path}: {why}"));
                }
                FileState::Unreadable(why) => unread.push(format!("{path}: {why}")),
                FileState::Loaded(loaded) if loaded.left_out() > 0 => {
                    let count = loaded.left_out();
                    unread.push(format!("{path}: {count} of its functions are more than are kept"));
                }
                FileState::Open(_) | FileState::Closed(_) | FileState::Loaded(_) => {}
            }
        }
        if !unread.is_empty() {
            let more = unread.len().saturating_sub(MAX_REPORTED);
            unread.truncate(MAX_REPORTED);
            let mut text = format!("names of functions of {}", unread.join("; "));
            if more > 0 {
                text.push_str(&format!("; and {}", counted(more as u64, "more file")));
            }
            let unavailable = Unavailable::new("symbols", text);
            all.push(if denied {
                unavailable.with_remedy(format!(
                    "{}, or run as the owner of the processes",
                    remedy("CAP_SYS_PTRACE", CheckedIn::Initial)
                ))
            } else {
                unavailable
            });
        }
        all
    }

    /// Adds a mapping without a file.
    fn add_memory(&mut self, pid: u32, mapping: &Mapping) -> FileNumber {
        if mapping.is_vdso() {
            return self.special(VDSO, || {
                let loaded = vdso::has_our_width(mapping)
                    .then(vdso::own)
                    .flatten()
                    .and_then(|bytes| SymbolTables::read(bytes, Path::new(VDSO), &[]));
                ModuleKind::Vdso(loaded.map(Box::new))
            });
        }
        if mapping.path.starts_with(b"[") && !mapping.path.starts_with(b"[anon") && mapping.path != b"[heap]"
        {
            let name = String::from_utf8_lossy(&mapping.path).into_owned();
            return self.special(&name, || ModuleKind::Nothing);
        }
        let key = root_key(pid);
        if let Some(number) = self.jit.get(&(pid, key)) {
            return *number;
        }
        let root = self.root(key, pid);
        let number = self.push(
            ANONYMOUS.to_owned(),
            ModuleKind::Jit(Box::new(PerfMap::new(pid, &root))),
        );
        if self.jit.len() < MAX_MODULES {
            self.jit.insert((pid, key), number);
        }
        number
    }

    fn special(&mut self, name: &str, kind: impl FnOnce() -> ModuleKind) -> FileNumber {
        if let Some(number) = self.special.get(name) {
            return *number;
        }
        let number = self.push(name.to_owned(), kind());
        self.special.insert(name.to_owned(), number);
        number
    }

    /// Registers an opened file. Returns its number if it is known, else the state to store.
    fn register(&mut self, file: File) -> Result<FileNumber, FileState> {
        let Ok(meta) = file.metadata() else {
            return Err(FileState::Unopened(OpenError::Gone));
        };
        let which = identity(&meta);
        if let Some(number) = self.files.get(&which) {
            return Ok(*number);
        }
        if self.modules.len() < MAX_MODULES {
            let number = FileNumber(u32::try_from(self.modules.len()).unwrap_or(u32::MAX));
            self.files.insert(which, number);
        }
        if self.open < self.open_max {
            self.open += 1;
            Err(FileState::Open(file))
        } else {
            Err(FileState::Closed(which))
        }
    }

    /// Opens a file that could not be opened before: another process may give access to it.
    fn retry_open(&mut self, number: FileNumber, pid: u32, mapping: &Mapping) {
        let Some(Module {
            kind: ModuleKind::File(module),
            ..
        }) = self.modules.get_mut(number.0 as usize)
        else {
            return;
        };
        if !matches!(module.state, FileState::Unopened(_)) || module.tries == MAX_TRIES {
            return;
        }
        module.tries += 1;
        let root = self.root(root_key(pid), pid);
        let Ok(file) = open::open_mapped(pid, mapping, &root) else {
            return;
        };
        if self.open < self.open_max {
            self.open += 1;
            let module = &mut self.modules[number.0 as usize];
            if let Some(name) = module.name.strip_suffix(DELETED) {
                module.name = name.to_owned();
            }
            if let ModuleKind::File(module) = &mut module.kind {
                module.root = root;
                module.state = FileState::Open(file);
            }
        }
    }

    /// Reads the symbol tables of a file, unless a limit is reached.
    fn load(&mut self, number: FileNumber) {
        let Some(Module {
            kind: ModuleKind::File(module),
            ..
        }) = self.modules.get_mut(number.0 as usize)
        else {
            return;
        };
        if !matches!(module.state, FileState::Open(_) | FileState::Closed(_)) {
            return;
        }
        let reopens = matches!(module.state, FileState::Closed(_));
        if self.functions >= MAX_FUNCTIONS || (reopens && self.open >= self.open_max + self.open_max / 2) {
            module.state = FileState::Unreadable("there are more files than are read".to_owned());
            return;
        }
        let loaded = module.loaded().map(|loaded| loaded.count());
        self.functions += loaded.unwrap_or(0);
        match (reopens, loaded) {
            (true, Some(_)) => self.open += 1,
            (false, None) => self.open = self.open.saturating_sub(1),
            _ => {}
        }
    }

    fn push(&mut self, name: String, kind: ModuleKind) -> FileNumber {
        if self.modules.len() > MAX_MODULES {
            // Further ones share the last number.
            return FileNumber(u32::try_from(MAX_MODULES).unwrap_or(u32::MAX));
        }
        let number = FileNumber(u32::try_from(self.modules.len()).unwrap_or(u32::MAX));
        if self.modules.len() == MAX_MODULES {
            self.modules.push(Module {
                name: ANONYMOUS.to_owned(),
                kind: ModuleKind::Nothing,
            });
        } else {
            self.modules.push(Module { name, kind });
        }
        number
    }

    fn remember(&mut self, key: MappingKey, number: FileNumber) {
        if self.mapped.len() < MAX_MODULES {
            self.mapped.insert(key, number);
        }
    }

    fn root(&mut self, key: RootKey, pid: u32) -> SharedRoot {
        if let Some(root) = self.roots.get(&key) {
            return Rc::clone(root);
        }
        let root = Rc::new(Root::of_process(pid));
        if key.is_some() && self.roots.len() < MAX_ROOTS {
            self.roots.insert(key, Rc::clone(&root));
        }
        root
    }
}

impl Default for Symbols {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns the key of a process's mount namespace and root; `None` if it has ended or is not ours to read.
fn root_key(pid: u32) -> RootKey {
    let of = |what: &str| {
        let meta = std::fs::metadata(format!("/proc/{pid}/{what}")).ok()?;
        Some(identity(&meta))
    };
    Some((of("ns/mnt")?, of("root")?))
}

fn last_part(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    name.to_string_lossy().into_owned()
}

const VDSO: &str = "[vdso]";
const JIT: &str = "[jit]";
const ANONYMOUS: &str = "[anonymous]";

/// The suffix for a file that was removed; its functions have no names.
const DELETED: &str = " (deleted)";

/// The most modules; further ones have no names.
const MAX_MODULES: usize = 200_000;

/// The most files that stay open; others are opened again by their path when needed.
const MAX_OPEN: usize = 4_096;

/// The most roots of other processes that stay open.
const MAX_ROOTS: usize = 1_024;

/// The most functions of all files together: 24 bytes each.
const MAX_FUNCTIONS: usize = 16_000_000;

/// How often opening a file is retried through other processes.
const MAX_TRIES: u32 = 8;

/// The most bytes of unwind tables of a file.
const UNWIND_TABLES_MAX: usize = 64 << 20;
/// The most file names in one report.
const MAX_REPORTED: usize = 3;

//! Names for addresses: out of the files that are mapped, of the kernel, of what compilers at run time wrote down.
//!
//! `blazesym` 0.2.7 was weighed against it and not taken. 100,000 places spread over a file, in lots of 100, each file read anew;
//! two busy cores, both with fat LTO:
//!
//! | | `blazesym` (features `demangle`, `dwarf`, `zlib`) | this module |
//! |---|---|---|
//! | C library with its file of symbols | 97,874 named, 180 to 250 ms, the first lot after 46 to 116 ms | the same, 120 to 190 ms, after 0.7 ms |
//! | Rust program of 73 MB | 97,270 named, 160 to 220 ms | the same, 160 to 190 ms |
//! | `go` 1.26 | 96,447 named, 40 ms | the same, 80 to 120 ms |
//! | the same, stripped | none | all, 160 to 170 ms |
//! | 92 entries of libx265's linkage table | none | all: `fwrite@plt` |
//! | an otherwise empty program grows by | 850 kB | 450 kB, with the crates below |
//! | packages more in the binary | 12 | 0 |
//!
//! It would fail the tests of stripped Go programs and of jumps to other libraries, and it maps the files that it reads: one that
//! shrinks meanwhile ends the program. So the structs of ELF are those of the crate `object`, but they are read a piece at a
//! time, from the file that was opened while its process lived; `object`'s own readers want all of a file in memory or mapped,
//! or keep every piece. DWARF (`gimli`: one package more) is not read: functions are named by tables of symbols, and lines of
//! source are nobody's question here.

mod bytes;
mod debug_file;
mod demangle;
mod elf;
mod go;
mod kept;
mod kernel;
mod loaded;
mod made;
mod opened;
mod plt;
mod table;
mod vdso;

use crate::{FileNumber, Mapping, Obstacle};
use foldhash::HashMap;
use kept::{Kept, KeptFile, Kind, State};
use kernel::Kernel;
use loaded::Loaded;
use made::Made;
use opened::{Identity, Root, SharedRoot, Unopened, identity};
use rustix::process::{Resource, getrlimit};
use sockeye_profile::{Frame, Space};
use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::path::Path;
use std::rc::Rc;

/// Names for addresses.
///
/// Files are opened when they are told ([`Symbols::keep`]), while the process lives; their tables are read at the first
/// question about one of their addresses. A file that has the name of another one now gives no names.
#[derive(Debug)]
pub struct Symbols {
    kept: Vec<Kept>,
    /// What was told before: device, inode and path.
    told: HashMap<TellKey, FileNumber>,
    /// The same file by another name, or of another mount.
    files: HashMap<Identity, FileNumber>,
    /// Memory without a file, by process and the root it had.
    made: HashMap<(u32, RootKey), FileNumber>,
    /// What belongs to no process.
    special: HashMap<String, FileNumber>,
    roots: HashMap<RootKey, SharedRoot>,
    kernel: Option<Kernel>,
    /// How many files are open.
    open: usize,
    open_most: usize,
    /// How many functions were read.
    functions: usize,
}

/// Device, inode and path.
type TellKey = ((u32, u32), u64, Vec<u8>);

/// Mount namespace and root.
type RootKey = Option<(Identity, Identity)>;

/// A function of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FunctionSymbol<'a> {
    /// Its name, as in the symbol table.
    pub name: &'a [u8],
    /// Where it begins, in the file.
    pub offset: u64,
    /// How long it is, in bytes; 0: not known.
    pub size: u64,
    /// It is called once to find the function that is meant (`STT_GNU_IFUNC`).
    pub indirect: bool,
}

impl FunctionSymbol<'_> {
    /// Its name as in the source: Rust's without hash, C++'s with the types of its arguments.
    #[must_use]
    pub fn demangled(&self) -> Cow<'_, str> {
        demangle::demangled(self.name)
    }
}

impl Symbols {
    /// Knows of nothing yet.
    #[must_use]
    pub fn new() -> Self {
        // Others need descriptors, too; and each file may have a second one with its symbols.
        let soft = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX) / 4;
        Self {
            kept: Vec::new(),
            told: HashMap::default(),
            files: HashMap::default(),
            made: HashMap::default(),
            special: HashMap::default(),
            roots: HashMap::default(),
            kernel: None,
            open: 0,
            open_most: usize::try_from(soft).unwrap_or(MAX_OPEN).min(MAX_OPEN),
            functions: 0,
        }
    }

    /// Opens the file behind a mapping, once per file. The process may end then.
    pub fn keep(&mut self, pid: u32, mapping: &Mapping) -> FileNumber {
        if !mapping.has_file() {
            return self.keep_memory(pid, mapping);
        }
        let key = (mapping.device, mapping.inode, mapping.path.clone());
        if let Some(number) = self.told.get(&key).copied() {
            self.try_again(number, pid, mapping);
            return number;
        }
        let root = self.root(root_key(pid), pid);
        let path = opened::named_path(&mapping.path).to_owned();
        let mut name = last_part(&path);
        let state = match opened::open(pid, mapping, &root) {
            Ok(file) => match self.opened(file) {
                Ok(number) => {
                    self.remember(key, number);
                    return number;
                }
                Err(state) => state,
            },
            Err(why) => {
                if matches!(why, Unopened::Replaced | Unopened::Gone) {
                    name.push_str(DELETED);
                }
                State::Unopened(why)
            }
        };
        let number = self.push(name, KeptFile::kind(path, root, state));
        self.remember(key, number);
        number
    }

    /// The same for a file that nobody has mapped yet.
    ///
    /// # Errors
    /// When it cannot be opened, or is no regular file.
    pub fn keep_path(&mut self, path: &Path) -> io::Result<FileNumber> {
        let file = Root::Own.open(path).map_err(|why| match why {
            Unopened::Failed(error) => error,
            other => io::Error::new(io::ErrorKind::NotFound, other.to_string()),
        })?;
        let state = match self.opened(file) {
            Ok(number) => return Ok(number),
            Err(state) => state,
        };
        let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let root = Rc::new(Root::Own);
        Ok(self.push(last_part(&path), KeptFile::kind(path, root, state)))
    }

    /// Who is at a place of a file: [`Mapping::place`].
    pub fn user(&mut self, file: FileNumber, place: u64) -> Frame {
        self.load(file);
        let Some(kept) = self.kept.get_mut(file.0 as usize) else {
            return Frame {
                offset: Some(place),
                ..Frame::default()
            };
        };
        let function = match &mut kept.kind {
            Kind::File(kept) => kept.loaded().and_then(|loaded| loaded.name(place)),
            Kind::Vdso(loaded) => loaded.as_mut().and_then(|loaded| loaded.name(place)),
            Kind::Made(made) => {
                let name = made.name(place);
                if made.is_told() {
                    JIT.clone_into(&mut kept.name);
                }
                name
            }
            Kind::Nothing => None,
        };
        Frame {
            offset: function.is_none().then_some(place),
            function,
            module: Some(kept.name.clone()),
            space: Space::User,
        }
    }

    /// Who is at an address of the kernel.
    pub fn kernel(&mut self, address: u64) -> Frame {
        self.kernel.get_or_insert_with(Kernel::read).frame(address)
    }

    /// Each function of a file, by its place; those with several names several times.
    pub fn functions(&mut self, file: FileNumber) -> impl Iterator<Item = FunctionSymbol<'_>> {
        self.load(file);
        let kept = self.kept.get_mut(file.0 as usize);
        let loaded = match kept.map(|kept| &mut kept.kind) {
            Some(Kind::File(kept)) => kept.loaded(),
            _ => None,
        };
        loaded.into_iter().flat_map(Loaded::functions)
    }

    /// Whether the file is a Go program: its stacks move, so that returns cannot be watched there.
    pub fn is_go(&mut self, file: FileNumber) -> bool {
        self.load(file);
        match self.kept.get_mut(file.0 as usize).map(|kept| &mut kept.kind) {
            Some(Kind::File(kept)) => kept.loaded().is_some_and(|loaded| loaded.is_go()),
            _ => false,
        }
    }

    /// The last part of its path.
    #[must_use]
    pub fn file_name(&self, file: FileNumber) -> Option<&str> {
        self.kept.get(file.0 as usize).map(|kept| kept.name.as_str())
    }

    /// The file itself, for uprobes.
    ///
    /// # Errors
    /// When it is not open any more, and cannot be opened again; when there is none.
    pub fn file(&self, file: FileNumber) -> io::Result<File> {
        match self.kept.get(file.0 as usize).map(|kept| &kept.kind) {
            Some(Kind::File(kept)) => kept.file(),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// What stood in the way of names.
    #[must_use]
    pub fn obstacles(&self) -> Vec<Obstacle> {
        let mut all: Vec<Obstacle> = self
            .kernel
            .iter()
            .filter_map(|kernel| kernel.obstacle.clone())
            .collect();
        let mut unread = Vec::new();
        let mut denied = false;
        for kept in &self.kept {
            let Kind::File(file) = &kept.kind else {
                continue;
            };
            let path = file.path.display();
            match &file.state {
                State::Unopened(why) => {
                    denied |= matches!(why, Unopened::Failed(error) if error.kind() == io::ErrorKind::PermissionDenied);
                    unread.push(format!("{path}: {why}"));
                }
                State::Unreadable(why) => unread.push(format!("{path}: {why}")),
                State::Loaded(loaded) if loaded.left_out() > 0 => {
                    let count = loaded.left_out();
                    unread.push(format!("{path}: {count} of its functions are more than are kept"));
                }
                State::Open(_) | State::Closed(_) | State::Loaded(_) => {}
            }
        }
        if !unread.is_empty() {
            let more = unread.len().saturating_sub(MAX_TOLD);
            unread.truncate(MAX_TOLD);
            let mut text = format!("names of functions of {}", unread.join("; "));
            if more > 0 {
                text.push_str(&format!("; and {more} more files"));
            }
            let obstacle = Obstacle::new("symbols", text);
            all.push(if denied {
                obstacle.with_remedy("run as root, or as the owner of the processes")
            } else {
                obstacle
            });
        }
        all
    }

    fn keep_memory(&mut self, pid: u32, mapping: &Mapping) -> FileNumber {
        if mapping.is_vdso() {
            return self.special(VDSO, || {
                let loaded = vdso::is_ours(mapping)
                    .then(vdso::own)
                    .flatten()
                    .and_then(|bytes| Loaded::read(bytes, Path::new(VDSO), &[]));
                Kind::Vdso(loaded.map(Box::new))
            });
        }
        if mapping.path.starts_with(b"[") && !mapping.path.starts_with(b"[anon") && mapping.path != b"[heap]"
        {
            let name = String::from_utf8_lossy(&mapping.path).into_owned();
            return self.special(&name, || Kind::Nothing);
        }
        let key = root_key(pid);
        if let Some(number) = self.made.get(&(pid, key)) {
            return *number;
        }
        let root = self.root(key, pid);
        let number = self.push(ANONYMOUS.to_owned(), Kind::Made(Box::new(Made::of(pid, &root))));
        if self.made.len() < MAX_KEPT {
            self.made.insert((pid, key), number);
        }
        number
    }

    fn special(&mut self, name: &str, kind: impl FnOnce() -> Kind) -> FileNumber {
        if let Some(number) = self.special.get(name) {
            return *number;
        }
        let number = self.push(name.to_owned(), kind());
        self.special.insert(name.to_owned(), number);
        number
    }

    /// What to keep of a file that was opened; or the number it has already.
    fn opened(&mut self, file: File) -> Result<FileNumber, State> {
        let Ok(meta) = file.metadata() else {
            return Err(State::Unopened(Unopened::Gone));
        };
        let which = identity(&meta);
        if let Some(number) = self.files.get(&which) {
            return Ok(*number);
        }
        if self.kept.len() < MAX_KEPT {
            let number = FileNumber(u32::try_from(self.kept.len()).unwrap_or(u32::MAX));
            self.files.insert(which, number);
        }
        if self.open < self.open_most {
            self.open += 1;
            Err(State::Open(file))
        } else {
            Err(State::Closed(which))
        }
    }

    /// Another process may have the right, or the path, that the first one had not.
    fn try_again(&mut self, number: FileNumber, pid: u32, mapping: &Mapping) {
        let Some(Kept {
            kind: Kind::File(kept),
            ..
        }) = self.kept.get_mut(number.0 as usize)
        else {
            return;
        };
        if !matches!(kept.state, State::Unopened(_)) || kept.tries == MAX_TRIES {
            return;
        }
        kept.tries += 1;
        let root = self.root(root_key(pid), pid);
        let Ok(file) = opened::open(pid, mapping, &root) else {
            return;
        };
        if self.open < self.open_most {
            self.open += 1;
            let kept = &mut self.kept[number.0 as usize];
            if let Some(name) = kept.name.strip_suffix(DELETED) {
                kept.name = name.to_owned();
            }
            if let Kind::File(kept) = &mut kept.kind {
                kept.root = root;
                kept.state = State::Open(file);
            }
        }
    }

    /// Reads the tables of a file, as long as there is room for them.
    fn load(&mut self, number: FileNumber) {
        let Some(Kept {
            kind: Kind::File(kept),
            ..
        }) = self.kept.get_mut(number.0 as usize)
        else {
            return;
        };
        if !matches!(kept.state, State::Open(_) | State::Closed(_)) {
            return;
        }
        let reopens = matches!(kept.state, State::Closed(_));
        if self.functions >= MAX_FUNCTIONS || (reopens && self.open >= self.open_most + self.open_most / 2) {
            kept.state = State::Unreadable("there are more files than are read".to_owned());
            return;
        }
        let loaded = kept.loaded().map(|loaded| loaded.count());
        self.functions += loaded.unwrap_or(0);
        match (reopens, loaded) {
            (true, Some(_)) => self.open += 1,
            (false, None) => self.open = self.open.saturating_sub(1),
            _ => {}
        }
    }

    fn push(&mut self, name: String, kind: Kind) -> FileNumber {
        if self.kept.len() > MAX_KEPT {
            // All others share the last number.
            return FileNumber(u32::try_from(MAX_KEPT).unwrap_or(u32::MAX));
        }
        let number = FileNumber(u32::try_from(self.kept.len()).unwrap_or(u32::MAX));
        if self.kept.len() == MAX_KEPT {
            self.kept.push(Kept {
                name: ANONYMOUS.to_owned(),
                kind: Kind::Nothing,
            });
        } else {
            self.kept.push(Kept { name, kind });
        }
        number
    }

    fn remember(&mut self, key: TellKey, number: FileNumber) {
        if self.told.len() < MAX_KEPT {
            self.told.insert(key, number);
        }
    }

    fn root(&mut self, key: RootKey, pid: u32) -> SharedRoot {
        if let Some(root) = self.roots.get(&key) {
            return Rc::clone(root);
        }
        let root = Rc::new(Root::of(pid));
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

/// What a process sees as its files; none: it is not ours to know, or gone.
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

/// Behind the name of a file that is not there any more: there are no names of its functions then.
const DELETED: &str = " (deleted)";

/// Files and processes' memory, together; what is more has no names.
const MAX_KEPT: usize = 200_000;

/// Files that are kept open; others are opened again by their path when they are asked about.
const MAX_OPEN: usize = 4_096;

/// Roots of other processes that are kept open.
const MAX_ROOTS: usize = 1_024;

/// Functions of all files together: 24 bytes each.
const MAX_FUNCTIONS: usize = 16_000_000;

/// How often a file that could not be opened is tried by way of other processes.
const MAX_TRIES: u32 = 8;

/// Files that are named in one message.
const MAX_TOLD: usize = 3;

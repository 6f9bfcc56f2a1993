//! A module: a file, or the anonymous memory of a process.

use super::bytes::Bytes;
use super::open::{FileIdentity, OpenError, Root, SharedRoot, identity};
use super::perf_map::PerfMap;
use super::symbol_tables::SymbolTables;
use std::fs::File;
use std::io;
use std::path::PathBuf;

/// A module, identified by a [`FileNumber`](crate::FileNumber).
#[derive(Debug)]
pub(super) struct Module {
    /// The last part of its path, or `[vdso]`.
    pub(super) name: String,
    pub(super) kind: ModuleKind,
}

/// Where the names of a module come from.
#[derive(Debug)]
pub(super) enum ModuleKind {
    File(Box<ModuleFile>),
    Vdso(Option<Box<SymbolTables>>),
    /// Code that a process compiled at run time.
    Jit(Box<PerfMap>),
    /// No names: the stack, other special memory, or above the limit.
    Nothing,
}

/// A mapped file.
#[derive(Debug)]
pub(super) struct ModuleFile {
    pub(super) path: PathBuf,
    pub(super) root: SharedRoot,
    pub(super) state: FileState,
    /// Number of failed retries to open it.
    pub(super) tries: u32,
}

/// The state of a file.
#[derive(Debug)]
pub(super) enum FileState {
    /// It could not be opened.
    Unopened(OpenError),
    /// Open; its tables were not needed yet.
    Open(File),
    /// Closed because of the limit; it has this identity.
    Closed(FileIdentity),
    /// Its tables were read.
    Loaded(Box<SymbolTables>),
    /// It is no ELF file or cannot be read: the reason.
    Unreadable(String),
}

impl ModuleFile {
    /// Returns the module kind for a file.
    pub(super) fn kind(path: PathBuf, root: SharedRoot, state: FileState) -> ModuleKind {
        ModuleKind::File(Box::new(Self {
            path,
            root,
            state,
            tries: 0,
        }))
    }

    /// Returns its functions, which the first call reads; `None` if they cannot be read.
    pub(super) fn loaded(&mut self) -> Option<&mut SymbolTables> {
        let opened = match std::mem::replace(&mut self.state, FileState::Unreadable(String::new())) {
            FileState::Open(file) => Ok(file),
            FileState::Closed(which) => self.reopen(which),
            other => {
                self.state = other;
                return match &mut self.state {
                    FileState::Loaded(loaded) => Some(loaded),
                    _ => None,
                };
            }
        };
        let read = opened.map_err(|error| error.to_string()).and_then(|file| {
            let mut roots: Vec<&Root> = vec![&self.root];
            if !self.root.is_own() {
                roots.push(&Root::Own);
            }
            SymbolTables::read(Bytes::File(file), &self.path, &roots)
                .ok_or_else(|| "it is no ELF file".to_owned())
        });
        self.state = match read {
            Ok(loaded) => FileState::Loaded(Box::new(loaded)),
            Err(why) => FileState::Unreadable(why),
        };
        match &mut self.state {
            FileState::Loaded(loaded) => Some(loaded),
            _ => None,
        }
    }

    /// Returns the open file.
    pub(super) fn file(&self) -> io::Result<File> {
        match &self.state {
            FileState::Open(file) => file.try_clone(),
            FileState::Loaded(loaded) => loaded.file(),
            FileState::Closed(which) => self.reopen(*which),
            FileState::Unopened(why) => Err(io::Error::new(io::ErrorKind::NotFound, why.to_string())),
            FileState::Unreadable(why) => Err(io::Error::new(io::ErrorKind::InvalidData, why.clone())),
        }
    }

    /// Opens a closed file again.
    fn reopen(&self, which: FileIdentity) -> io::Result<File> {
        let failed = |why: OpenError| match why {
            OpenError::Failed(error) => error,
            other => io::Error::new(io::ErrorKind::NotFound, other.to_string()),
        };
        let file = self.root.open(&self.path).map_err(failed)?;
        if identity(&file.metadata()?) == which {
            Ok(file)
        } else {
            Err(failed(OpenError::Replaced))
        }
    }
}

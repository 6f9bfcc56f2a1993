//! One file, or one process's memory without a file, for which there may be names.

use super::bytes::Bytes;
use super::loaded::Loaded;
use super::made::Made;
use super::opened::{Identity, Root, SharedRoot, Unopened, identity};
use std::fs::File;
use std::io;
use std::path::PathBuf;

/// What a [`FileNumber`](crate::FileNumber) stands for.
#[derive(Debug)]
pub(super) struct Kept {
    /// The last part of its path, or `[vdso]`.
    pub(super) name: String,
    pub(super) kind: Kind,
}

#[derive(Debug)]
pub(super) enum Kind {
    File(Box<KeptFile>),
    Vdso(Option<Box<Loaded>>),
    /// Code that a process made.
    Made(Box<Made>),
    /// There is nothing to be known: the stack, another kernel's code, more than we keep.
    Nothing,
}

/// A file.
#[derive(Debug)]
pub(super) struct KeptFile {
    pub(super) path: PathBuf,
    pub(super) root: SharedRoot,
    pub(super) state: State,
    /// How often it was tried in vain to open it.
    pub(super) tries: u32,
}

/// How far we are with it.
#[derive(Debug)]
pub(super) enum State {
    Unopened(Unopened),
    /// It was never asked about.
    Open(File),
    /// There was no room to keep it open; it is this one.
    Closed(Identity),
    Loaded(Box<Loaded>),
    /// It is no program, or cannot be read.
    Unreadable(String),
}

impl KeptFile {
    pub(super) fn kind(path: PathBuf, root: SharedRoot, state: State) -> Kind {
        Kind::File(Box::new(Self {
            path,
            root,
            state,
            tries: 0,
        }))
    }

    /// Its functions, read now if this is the first question.
    pub(super) fn loaded(&mut self) -> Option<&mut Loaded> {
        let opened = match std::mem::replace(&mut self.state, State::Unreadable(String::new())) {
            State::Open(file) => Ok(file),
            State::Closed(which) => self.reopened(which),
            other => {
                self.state = other;
                return match &mut self.state {
                    State::Loaded(loaded) => Some(loaded),
                    _ => None,
                };
            }
        };
        let read = opened.map_err(|error| error.to_string()).and_then(|file| {
            let mut roots: Vec<&Root> = vec![&self.root];
            if !self.root.is_own() {
                roots.push(&Root::Own);
            }
            Loaded::read(Bytes::File(file), &self.path, &roots).ok_or_else(|| "it is no ELF file".to_owned())
        });
        self.state = match read {
            Ok(loaded) => State::Loaded(Box::new(loaded)),
            Err(why) => State::Unreadable(why),
        };
        match &mut self.state {
            State::Loaded(loaded) => Some(loaded),
            _ => None,
        }
    }

    /// The file itself.
    pub(super) fn file(&self) -> io::Result<File> {
        match &self.state {
            State::Open(file) => file.try_clone(),
            State::Loaded(loaded) => loaded.file(),
            State::Closed(which) => self.reopened(*which),
            State::Unopened(why) => Err(io::Error::new(io::ErrorKind::NotFound, why.to_string())),
            State::Unreadable(why) => Err(io::Error::new(io::ErrorKind::InvalidData, why.clone())),
        }
    }

    fn reopened(&self, which: Identity) -> io::Result<File> {
        let failed = |why: Unopened| match why {
            Unopened::Failed(error) => error,
            other => io::Error::new(io::ErrorKind::NotFound, other.to_string()),
        };
        let file = self.root.open(&self.path).map_err(failed)?;
        if identity(&file.metadata()?) == which {
            Ok(file)
        } else {
            Err(failed(Unopened::Replaced))
        }
    }
}

//! The bytes of a program: in a file, which may shrink while it is read, or in memory.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// Bytes that are read in pieces. A file is read, not mapped: if it shrinks meanwhile that is an error, not a SIGBUS.
#[derive(Debug)]
pub(super) enum Bytes {
    File(File),
    Memory(Vec<u8>),
}

impl Bytes {
    /// Returns exactly `len` bytes; `None` if there are fewer, or `len` is above `most`.
    pub(super) fn read(&self, offset: u64, len: u64, most: usize) -> Option<Vec<u8>> {
        let len = usize::try_from(len).ok().filter(|len| *len <= most)?;
        offset.checked_add(len as u64)?;
        match self {
            Self::File(file) => {
                // Allocate only what exists: a broken header may claim any size.
                let rest = file.metadata().ok()?.len().checked_sub(offset)?;
                if rest < len as u64 {
                    return None;
                }
                let mut piece = vec![0; len];
                file.read_exact_at(&mut piece, offset).ok()?;
                Some(piece)
            }
            Self::Memory(bytes) => {
                let start = usize::try_from(offset).ok()?;
                Some(bytes.get(start..)?.get(..len)?.to_vec())
            }
        }
    }

    /// Returns the available bytes, at most `most`.
    pub(super) fn read_some(&self, offset: u64, most: usize) -> Vec<u8> {
        match self {
            Self::File(file) => {
                let mut piece = vec![0; most];
                let mut filled = 0;
                while filled < most {
                    match file.read_at(&mut piece[filled..], offset.saturating_add(filled as u64)) {
                        Ok(0) | Err(_) => break,
                        Ok(more) => filled += more,
                    }
                }
                piece.truncate(filled);
                piece
            }
            Self::Memory(bytes) => {
                let start = usize::try_from(offset).unwrap_or(usize::MAX);
                let rest = bytes.get(start..).unwrap_or_default();
                rest[..rest.len().min(most)].to_vec()
            }
        }
    }
}

//! Where the bytes of a program are: in a file, which may shrink while it is read, or in memory.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// Bytes that are read a piece at a time. A file is read, not mapped: one that shrinks meanwhile is an error then, and no
/// signal that ends us.
#[derive(Debug)]
pub(super) enum Bytes {
    File(File),
    Memory(Vec<u8>),
}

impl Bytes {
    /// These bytes, all of them; none if there are fewer, or it would be more than `most`.
    pub(super) fn read(&self, offset: u64, len: u64, most: usize) -> Option<Vec<u8>> {
        let len = usize::try_from(len).ok().filter(|len| *len <= most)?;
        offset.checked_add(len as u64)?;
        match self {
            Self::File(file) => {
                // Only what is really there takes memory: a header may promise anything.
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

    /// What is there, at most `most` bytes of it.
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

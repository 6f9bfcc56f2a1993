//! The receiving thread of a transfer.

use super::failure::{Failure, Step};
use super::test_file::{CHUNK, Digest, STAMP, TestFile};
use rustix::io::Errno;
use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};

/// Receives a file, and compares it with the original.
#[derive(Debug)]
pub(super) struct Receiver<'a> {
    file: &'a TestFile,
    /// Length of the file, which is received repeatedly.
    bytes: u64,
    /// Digest of each chunk, to compare all bytes; `None`: compare only the beginning of each chunk.
    digests: Option<&'a [u64]>,
    digest: Digest,
    arrived: u64,
}

impl<'a> Receiver<'a> {
    pub(super) fn new(file: &'a TestFile, bytes: u64, digests: Option<&'a [u64]>) -> Self {
        Self {
            file,
            bytes,
            digests,
            digest: Digest::default(),
            arrived: 0,
        }
    }

    /// Receives until the end, and returns the number of bytes. Stores the bytes so far in `progress`.
    pub(super) fn drain(mut self, mut socket: &TcpStream, progress: &AtomicU64) -> Result<u64, Failure> {
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            match socket.read(&mut buffer) {
                Ok(0) => return Ok(self.arrived),
                Ok(len) => {
                    self.take(&buffer[..len])?;
                    progress.store(self.arrived, Ordering::Relaxed);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(Step::Receive.failed_io(&error)),
            }
        }
    }

    fn take(&mut self, mut bytes: &[u8]) -> Result<(), Failure> {
        while !bytes.is_empty() {
            // Up to the end of the chunk, or of the file.
            let at = self.arrived % self.bytes;
            let within = at % CHUNK;
            let end = (CHUNK - within).min(self.bytes - at);
            let len = usize::try_from(end).map_or(bytes.len(), |end| end.min(bytes.len()));
            let (piece, rest) = bytes.split_at(len);
            let is_right = match self.digests {
                Some(digests) => {
                    self.digest.take(piece);
                    if len as u64 == end {
                        let digest = std::mem::take(&mut self.digest).finish();
                        digests.get((at / CHUNK) as usize) == Some(&digest)
                    } else {
                        true
                    }
                }
                None => within > 0 || self.is_stamped(at / CHUNK, piece),
            };
            if !is_right {
                return Err(Step::Differs(self.arrived).failed(Errno::IO));
            }
            self.arrived += len as u64;
            bytes = rest;
        }
        Ok(())
    }

    fn is_stamped(&self, chunk: u64, piece: &[u8]) -> bool {
        let len = piece.len().min(STAMP);
        self.file
            .stamp(chunk)
            .is_none_or(|stamp| stamp[..len] == piece[..len])
    }
}

const BUFFER_BYTES: usize = 256 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_or_swapped_bytes_are_found() {
        let (mut test_file, _) = TestFile::make(&std::env::temp_dir(), 3 << 20, 1).unwrap();
        test_file.warm(3 << 20, || false).unwrap();
        let bytes = 2 * CHUNK + 100;
        let digests = test_file.digests(bytes).unwrap();
        let mut file = vec![0; bytes as usize];
        std::os::unix::fs::FileExt::read_exact_at(test_file.file(), &mut file, 0).unwrap();
        let twice = [&file[..], &file[..]].concat();
        let arrives = |stream: &[u8], digests: Option<&[u64]>, piece: usize| {
            let mut receiver = Receiver::new(&test_file, bytes, digests);
            stream.chunks(piece).try_for_each(|piece| receiver.take(piece))
        };
        for piece in [1000, 4096, 1 << 20, 100_000] {
            assert_eq!(arrives(&twice, Some(&digests), piece), Ok(()));
            assert_eq!(arrives(&twice, None, piece), Ok(()));
        }
        let mut wrong = twice.clone();
        wrong[5_000] ^= 1;
        assert!(matches!(
            arrives(&wrong, Some(&digests), 4096).unwrap_err().step,
            Step::Differs(_)
        ));
        // The second MiB before the first.
        let swapped = [&file[1 << 20..2 << 20], &file[..1 << 20], &file[2 << 20..]].concat();
        assert_eq!(arrives(&swapped, None, 4096).unwrap_err().step, Step::Differs(0));
    }
}

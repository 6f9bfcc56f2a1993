//! The file that is sent.

use super::failure::{Failure, Step};
use rustix::fs::{Mode, OFlags, fstatfs, open};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The file that is sent, and samples of its content.
#[derive(Debug)]
pub struct TestFile {
    file: File,
    bytes: u64,
    /// First bytes of each [`CHUNK`].
    stamps: Vec<[u8; STAMP]>,
    place: PathBuf,
    file_system: String,
}

/// Why a file is shorter than requested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shortfall {
    /// Possible length, in bytes.
    pub bytes: u64,
    /// The kernel's error.
    pub errno: Errno,
}

impl TestFile {
    /// Creates a file without a name in `folder`, which disappears when it is closed. The first 64 MiB are written; beyond
    /// that one page per MiB, with holes in between. It is shorter if there is not enough space.
    ///
    /// # Errors
    /// If a file of at least `least` bytes cannot be created.
    pub fn make(folder: &Path, bytes: u64, least: u64) -> Result<(Self, Option<Shortfall>), io::Error> {
        let file = nameless(folder)?;
        let (written, failure) = match check_space(&file, bytes) {
            Ok(()) => fill(&file, bytes),
            Err(shortfall) => {
                let (written, failure) = fill(&file, shortfall.bytes);
                (written, failure.or(Some(shortfall.errno)))
            }
        };
        let shortfall = failure.map(|errno| Shortfall {
            bytes: written,
            errno,
        });
        if written < least {
            let errno = failure.unwrap_or(Errno::NOSPC);
            return Err(errno.into());
        }
        file.set_len(written)?;
        Ok((Self::known(file, written, folder), shortfall))
    }

    /// Opens an existing file.
    ///
    /// # Errors
    /// If it cannot be read, or is not a regular file (`EINVAL`).
    pub fn open(path: &Path) -> Result<Self, io::Error> {
        // Opening a FIFO must not block.
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
        let about = file.metadata()?;
        if !about.is_file() {
            return Err(Errno::INVAL.into());
        }
        Ok(Self::known(file, about.len(), path))
    }

    fn known(file: File, bytes: u64, place: &Path) -> Self {
        let kind = fstatfs(&file).map(|about| about.f_type);
        Self {
            file_system: kind.map_or_else(|_| "unknown".to_owned(), |kind| file_system(kind as u32)),
            file,
            bytes,
            stamps: Vec::new(),
            place: place.to_owned(),
        }
    }

    /// Reads up to `bytes` into the page cache. `stop` is called once per MiB.
    ///
    /// # Errors
    /// If it cannot be read, or has become shorter.
    pub fn warm(&mut self, bytes: u64, mut stop: impl FnMut() -> bool) -> Result<(), Failure> {
        let mut buffer = vec![0; CHUNK as usize];
        self.stamps.clear();
        let mut offset = 0;
        while offset < bytes {
            if stop() {
                return Err(Step::Stopped.failed(Errno::INTR));
            }
            let len = (bytes - offset).min(CHUNK) as usize;
            self.read(&mut buffer[..len], offset)?;
            let mut stamp = [0; STAMP];
            let known = len.min(STAMP);
            stamp[..known].copy_from_slice(&buffer[..known]);
            self.stamps.push(stamp);
            offset += len as u64;
        }
        Ok(())
    }

    /// Returns the length in bytes.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the path, or the folder of a file without a name.
    #[must_use]
    pub fn place(&self) -> &Path {
        &self.place
    }

    /// Returns the type of the file system: `ext4`.
    #[must_use]
    pub fn file_system(&self) -> &str {
        &self.file_system
    }

    pub(super) const fn file(&self) -> &File {
        &self.file
    }

    /// Returns the first bytes of a [`CHUNK`]; `None` beyond the part that was warmed. Incomplete at the end of the file.
    pub(super) fn stamp(&self, chunk: u64) -> Option<&[u8; STAMP]> {
        self.stamps.get(usize::try_from(chunk).ok()?)
    }

    /// Computes a digest of each [`CHUNK`] of the first `bytes`.
    pub(super) fn digests(&self, bytes: u64) -> Result<Vec<u64>, Failure> {
        let mut buffer = vec![0; CHUNK as usize];
        let mut digests = Vec::new();
        let mut offset = 0;
        while offset < bytes {
            let len = (bytes - offset).min(CHUNK) as usize;
            self.read(&mut buffer[..len], offset)?;
            let mut digest = Digest::default();
            digest.take(&buffer[..len]);
            digests.push(digest.finish());
            offset += len as u64;
        }
        Ok(digests)
    }

    fn read(&self, buffer: &mut [u8], offset: u64) -> Result<(), Failure> {
        self.file.read_exact_at(buffer, offset).map_err(|error| {
            if error.kind() == io::ErrorKind::UnexpectedEof {
                Step::Shorter.failed(Errno::IO)
            } else {
                Step::ReadFile.failed_io(&error)
            }
        })
    }
}

/// A cheap checksum that depends on the order of bytes (FNV-1a over words of eight bytes).
#[derive(Debug, Clone, Copy)]
pub(super) struct Digest {
    hash: u64,
    rest: [u8; 8],
    len: usize,
}

impl Digest {
    pub(super) fn take(&mut self, mut bytes: &[u8]) {
        if self.len > 0 {
            let part = bytes.len().min(8 - self.len);
            self.rest[self.len..self.len + part].copy_from_slice(&bytes[..part]);
            self.len += part;
            bytes = &bytes[part..];
            if self.len < 8 {
                return;
            }
            self.word(self.rest);
            self.len = 0;
        }
        let (words, rest) = bytes.as_chunks::<8>();
        for &word in words {
            self.word(word);
        }
        self.rest[..rest.len()].copy_from_slice(rest);
        self.len = rest.len();
    }

    pub(super) fn finish(mut self) -> u64 {
        let len = self.len;
        self.rest[len..].fill(0);
        self.word(self.rest);
        self.hash ^ len as u64
    }

    fn word(&mut self, word: [u8; 8]) {
        self.hash = (self.hash ^ u64::from_le_bytes(word))
            .wrapping_mul(0x0000_0100_0000_01b3)
            .rotate_left(29);
    }
}

impl Default for Digest {
    fn default() -> Self {
        Self {
            hash: 0xcbf2_9ce4_8422_2325,
            rest: [0; 8],
            len: 0,
        }
    }
}

/// Creates a file without a name.
fn nameless(folder: &Path) -> Result<File, io::Error> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::TMPFILE;
    let mode = Mode::RUSR | Mode::WUSR;
    match open(folder, flags, mode) {
        Ok(file) => return Ok(File::from(file)),
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {}
        Err(errno) => return Err(errno.into()),
    }
    // The file system has no O_TMPFILE: the file has a name for a moment.
    let name = folder.join(format!(".sockeye-bench-{}", std::process::id()));
    let mut options = OpenOptions::new();
    let file = options
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&name)?;
    std::fs::remove_file(&name)?;
    Ok(file)
}

/// Checks the limits for a file of this length.
fn check_space(file: &File, bytes: u64) -> Result<(), Shortfall> {
    // Beyond the limit SIGXFSZ would end the process.
    if let Some(limit) = getrlimit(Resource::Fsize).current.filter(|&limit| limit < bytes) {
        return Err(Shortfall {
            bytes: limit,
            errno: Errno::FBIG,
        });
    }
    // On tmpfs mapped holes become memory, which cannot be reclaimed like a cache.
    let is_memory = fstatfs(file).is_ok_and(|about| matches!(about.f_type as u32, TMPFS | RAMFS));
    if let Some(memory) = crate::memory::available_bytes().filter(|&memory| is_memory && memory / 2 < bytes) {
        return Err(Shortfall {
            bytes: memory / 2,
            errno: Errno::NOMEM,
        });
    }
    Ok(())
}

/// Fills the file; returns the written length, and why it is not longer.
fn fill(file: &File, bytes: u64) -> (u64, Option<Errno>) {
    let errno = |error: io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
    if let Err(error) = file.set_len(bytes) {
        return (0, Some(errno(error)));
    }
    let mut buffer = vec![0; CHUNK as usize];
    let mut offset = 0;
    while offset < bytes {
        let all = (bytes - offset).min(CHUNK) as usize;
        let len = if offset < WRITTEN { all } else { all.min(4096) };
        pattern(&mut buffer[..len], offset);
        if let Err(error) = file.write_all_at(&buffer[..len], offset) {
            return (offset, Some(errno(error)));
        }
        offset += all as u64;
    }
    (bytes, None)
}

/// Fills a buffer with bytes that depend on the offset.
fn pattern(buffer: &mut [u8], offset: u64) {
    for (place, piece) in buffer.chunks_mut(8).enumerate() {
        // splitmix64.
        let mut word = (offset + place as u64 * 8).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word ^= word >> 27;
        piece.copy_from_slice(&word.to_le_bytes()[..piece.len()]);
    }
}

/// Returns the name of a file system by its `f_type`, 32 bits: `include/uapi/linux/magic.h`, and the file systems' sources.
fn file_system(kind: u32) -> String {
    let name = match kind {
        0xef53 => "ext4",
        0x5846_5342 => "xfs",
        0x9123_683e => "btrfs",
        TMPFS => "tmpfs",
        RAMFS => "ramfs",
        0x6969 => "nfs",
        0xff53_4d42 | 0xfe53_4d42 => "cifs",
        0x794c_7630 => "overlay",
        0x6573_5546 => "fuse",
        0x2fc1_2fc1 => "zfs",
        0xf2f5_2010 => "f2fs",
        0x0102_1997 => "9p",
        0x4d44 => "vfat",
        other => return format!("{other:#x}"),
    };
    name.to_owned()
}

/// Length of the pieces that are compared, in bytes.
pub(super) const CHUNK: u64 = 1 << 20;
/// Bytes of a piece that are always compared.
pub(super) const STAMP: usize = 8;
/// Bytes at the beginning of a created file without holes.
const WRITTEN: u64 = 64 << 20;
const TMPFS: u32 = 0x0102_1994;
const RAMFS: u32 = 0x8584_58f6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_depends_on_order_but_not_on_pieces() {
        let bytes: Vec<u8> = (0..100).collect();
        let of = |pieces: &[&[u8]]| {
            let mut digest = Digest::default();
            pieces.iter().for_each(|piece| digest.take(piece));
            digest.finish()
        };
        let whole = of(&[&bytes]);
        for cut in 0..100 {
            assert_eq!(of(&[&bytes[..cut], &bytes[cut..]]), whole, "{cut}");
        }
        assert_eq!(of(&[&bytes[..3], &bytes[3..5], &bytes[5..]]), whole);
        assert_ne!(of(&[&bytes[50..], &bytes[..50]]), whole);
        assert_ne!(of(&[&bytes[..99]]), whole);
        assert_ne!(of(&[&[0; 7]]), of(&[&[0; 8]]));
    }

    #[test]
    fn created_file_has_content_and_no_name() {
        let folder = std::env::temp_dir();
        let (mut file, shortfall) = TestFile::make(&folder, 3 << 20, 1).unwrap();
        assert_eq!(shortfall, None);
        assert_eq!(file.bytes(), 3 << 20);
        file.warm(3 << 20, || false).unwrap();
        assert_ne!(file.stamp(0), file.stamp(1));
        assert_eq!(file.stamp(3), None);
        assert_eq!(
            file.digests(1 << 20).unwrap()[0],
            file.digests(3 << 20).unwrap()[0]
        );
        assert!(!file.file_system().is_empty());
        assert_eq!(file.warm(4 << 20, || false).unwrap_err().step, Step::Shorter);
        assert_eq!(file.warm(4 << 20, || true).unwrap_err().step, Step::Stopped);
    }
}

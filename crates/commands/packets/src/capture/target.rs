//! The output of a capture: standard output, one file, or a ring of files.

use super::values::FileRing;
use anyhow::{Context, anyhow, bail};
use sockeye_console::output_file::{OutputFile, OutputFolder, Readers};
use sockeye_console::stdout::{self, Stdout};
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// The output of a capture, which takes whole blocks only.
#[derive(Debug)]
pub(super) struct Target {
    sink: Sink,
    ring: Option<Ring>,
    /// Files of the ring, oldest first.
    files: VecDeque<PathBuf>,
    /// Number of these files that are of an earlier capture.
    earlier: usize,
    /// Number of the newest file.
    newest: u32,
    /// Bytes in the current file.
    in_file: u64,
    /// Bytes in all files, also deleted ones.
    written: u64,
}

/// A ring of files.
#[derive(Debug)]
struct Ring {
    limits: FileRing,
    /// Base of the names of its files.
    path: PathBuf,
    folder: OutputFolder,
}

#[derive(Debug)]
enum Sink {
    Stdout(Stdout),
    File(OutputFile),
}

/// An error of a file that ends the capture; the file has whole packets only.
#[derive(Debug)]
pub(super) struct Full {
    /// `None`: standard output, which may end within a packet.
    path: Option<PathBuf>,
    error: io::Error,
    /// Packets of the last write that are in the file.
    packets: u64,
    /// Packets of the capture that are in its files, and those that were captured.
    counts: Option<(u64, u64)>,
}

impl Full {
    /// Packets of the last write that are in the file.
    pub(super) const fn packets(&self) -> u64 {
        self.packets
    }

    /// Adds the packets of the capture that were written, and those that were captured, to the message.
    pub(super) const fn set_counts(&mut self, written: u64, captured: u64) {
        self.counts = Some((written, captured));
    }
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let remedy = if is_full(&self.error) {
            "; -s 100 keeps headers only, --ring 10x100M the last gigabyte"
        } else {
            ""
        };
        match &self.path {
            Some(path) => write!(
                f,
                "cannot write {path:?}: {}; the file is complete up to the last packet that fit",
                self.error
            )?,
            None => write!(f, "{}: {}", stdout::WRITING, self.error)?,
        }
        if let Some((written, captured)) = self.counts {
            let separator = if self.path.is_some() { ':' } else { ';' };
            write!(
                f,
                "{separator} {written} of {captured} captured packets were written"
            )?;
        }
        f.write_str(remedy)
    }
}

// The message has the error of the write: as its source it would be printed again.
impl std::error::Error for Full {}

impl Target {
    /// Opens standard output.
    pub(super) fn stdout() -> anyhow::Result<Self> {
        let stdout = stdout::open().context(stdout::WRITING)?;
        Ok(Self::new(Sink::Stdout(stdout)))
    }

    /// Opens a file, or the first file of a ring. Files that an earlier capture left belong to the ring: numbers continue
    /// after theirs, and they are deleted first.
    pub(super) fn named(path: &Path, ring: Option<FileRing>) -> anyhow::Result<Self> {
        let Some(limits) = ring else {
            let file = OutputFile::begin(path, Readers::Owner).map_err(|error| not_created(path, &error))?;
            let mut target = Self::new(Sink::File(file));
            target.files.push_back(path.to_owned());
            return Ok(target);
        };
        let folder = OutputFolder::of(path).map_err(|error| not_created(path, &error))?;
        let earlier = earlier(&folder, path);
        let last = earlier.last().map_or(0, |(number, _)| *number);
        let first = numbered(path, last + 1);
        let file = begin(&folder, &first).map_err(|error| not_created(&first, &error))?;
        let mut target = Self::new(Sink::File(file));
        target.ring = Some(Ring {
            limits,
            path: path.to_owned(),
            folder,
        });
        target.newest = last + 1;
        target.earlier = earlier.len();
        target.files = earlier.into_iter().map(|(_, path)| path).collect();
        target.delete_oldest()?;
        target.files.push_back(first);
        Ok(target)
    }

    const fn new(sink: Sink) -> Self {
        Self {
            sink,
            ring: None,
            files: VecDeque::new(),
            earlier: 0,
            newest: 1,
            in_file: 0,
            written: 0,
        }
    }

    /// Writes blocks.
    ///
    /// # Errors
    /// [`Full`] for a file, which is then truncated to whole blocks, and for standard output on a full disk; otherwise the error
    /// of the write.
    pub(super) fn write(&mut self, blocks: &[u8]) -> anyhow::Result<()> {
        match &mut self.sink {
            Sink::Stdout(stdout) => {
                if let Err((done, error)) = write_all(stdout, blocks) {
                    let (_, packets) = whole_blocks(blocks, done);
                    self.written += done as u64;
                    if !is_full(&error) {
                        return Err(error).context(stdout::WRITING);
                    }
                    return Err(Full {
                        path: None,
                        error,
                        packets,
                        counts: None,
                    }
                    .into());
                }
            }
            Sink::File(file) => {
                let file = file.file();
                if let Err((done, error)) = write_all(file, blocks) {
                    let (whole, packets) = whole_blocks(blocks, done);
                    let whole = whole as u64;
                    let end = self.in_file + whole;
                    // A pipe or a device has no length.
                    if file.metadata().is_ok_and(|metadata| metadata.is_file()) {
                        let _ = file.set_len(end);
                        let _ = io::Seek::seek(file, io::SeekFrom::Start(end));
                    }
                    self.in_file = end;
                    self.written += whole;
                    if error.kind() == ErrorKind::BrokenPipe {
                        return Err(error.into());
                    }
                    let path = Some(self.current().to_owned());
                    return Err(Full {
                        path,
                        error,
                        packets,
                        counts: None,
                    }
                    .into());
                }
            }
        }
        self.in_file += blocks.len() as u64;
        self.written += blocks.len() as u64;
        Ok(())
    }

    /// Returns whether the current file of a ring is full with `more` bytes.
    #[inline]
    pub(super) fn is_full_with(&self, more: usize) -> bool {
        self.ring
            .as_ref()
            .is_some_and(|ring| self.in_file + more as u64 >= ring.limits.bytes)
    }

    /// Begins the next file of a ring, and deletes the oldest if there would be too many.
    pub(super) fn next_file(&mut self) -> anyhow::Result<()> {
        self.delete_oldest()?;
        let Some(ring) = &self.ring else {
            return Ok(());
        };
        self.newest += 1;
        let next = numbered(&ring.path, self.newest);
        match begin(&ring.folder, &next) {
            Ok(file) => self.sink = Sink::File(file),
            Err(error) if is_full(&error) => {
                return Err(Full {
                    path: Some(next),
                    error,
                    packets: 0,
                    counts: None,
                }
                .into());
            }
            Err(error) => return Err(not_created(&next, &error)),
        }
        self.files.push_back(next);
        self.in_file = 0;
        Ok(())
    }

    /// Deletes the oldest files until one more is allowed. Called before the new file is created, as the disk may be full.
    fn delete_oldest(&mut self) -> anyhow::Result<()> {
        let Some(ring) = &self.ring else {
            return Ok(());
        };
        while self.files.len() >= ring.limits.files as usize {
            let Some(oldest) = self.files.pop_front() else {
                break;
            };
            self.earlier = self.earlier.saturating_sub(1);
            ring.folder
                .delete(oldest.file_name().unwrap_or_default())
                .with_context(|| format!("capture: cannot delete {oldest:?}"))?;
        }
        Ok(())
    }

    /// Returns the number of files of an earlier capture in the ring.
    pub(super) const fn earlier(&self) -> usize {
        self.earlier
    }

    /// Returns the path of the current file.
    fn current(&self) -> &Path {
        self.files.back().map_or(Path::new("-"), PathBuf::as_path)
    }

    /// Returns the bytes written, those of deleted files included.
    pub(super) const fn written(&self) -> u64 {
        self.written
    }

    /// Returns whether more files will be created.
    pub(super) const fn is_ring(&self) -> bool {
        self.ring.is_some()
    }

    pub(super) const fn is_stdout(&self) -> bool {
        matches!(self.sink, Sink::Stdout(_))
    }
}

/// Its name in messages.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.sink, self.files.get(self.earlier), self.files.back()) {
            (Sink::File(_), Some(first), Some(last)) if first != last => {
                write!(f, "{first:?} to {last:?}")
            }
            (Sink::File(_), _, Some(last)) => write!(f, "{last:?}"),
            _ => f.write_str("standard output"),
        }
    }
}

/// Returns the error of a file that cannot be created.
fn not_created(path: &Path, error: &io::Error) -> anyhow::Error {
    let remedy = match error.kind() {
        ErrorKind::PermissionDenied => "; name another after -o",
        ErrorKind::NotFound => "; its folder has to exist",
        _ => "",
    };
    anyhow!("capture: cannot create {path:?}: {error}{remedy}")
}

/// Returns whether an error means that no more can be written: the disk, the quota or the limit of the process.
fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge
    )
}

/// Creates a file of a ring.
fn begin(folder: &OutputFolder, path: &Path) -> io::Result<OutputFile> {
    let name: &OsStr = path.file_name().unwrap_or_default();
    folder.begin(name, Readers::Owner)
}

/// Returns `web-00001.pcapng` for `web.pcapng`.
fn numbered(path: &Path, number: u32) -> PathBuf {
    let mut name = OsString::from(path.file_stem().unwrap_or_default());
    name.push(format!("-{number:05}"));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

/// Returns our own files with names of this ring, sorted by number.
fn earlier(folder: &OutputFolder, path: &Path) -> Vec<(u32, PathBuf)> {
    let names = folder.own_files().into_iter();
    let mut found: Vec<_> = names
        .filter_map(|name| {
            let number = number_of(path, Path::new(&name))?;
            Some((number, numbered(path, number)))
        })
        .collect();
    found.sort_unstable();
    found
}

/// Returns the number in the name of a ring's file: 12 for `web-00012.pcapng` of `web.pcapng`.
fn number_of(path: &Path, name: &Path) -> Option<u32> {
    let stem = path.file_stem()?.to_str()?;
    let digits = name
        .file_stem()?
        .to_str()?
        .strip_prefix(stem)?
        .strip_prefix('-')?;
    let number = digits.parse().ok()?;
    // The number of zeros and the extension must match too.
    (numbered(path, number).file_name()? == name && number < u32::MAX).then_some(number)
}

/// Writes all bytes; an error has the number of bytes written.
fn write_all(file: &mut impl Write, bytes: &[u8]) -> Result<(), (usize, io::Error)> {
    let mut done = 0;
    while done < bytes.len() {
        match file.write(&bytes[done..]) {
            Ok(0) => return Err((done, ErrorKind::WriteZero.into())),
            Ok(count) => done += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err((done, error)),
        }
    }
    Ok(())
}

/// Returns the length of the whole blocks within the first `limit` bytes, and the number of packets in them.
fn whole_blocks(blocks: &[u8], limit: usize) -> (usize, u64) {
    let (mut end, mut packets) = (0, 0);
    // A block begins with its type and its length.
    while let Some(len) = blocks.get(end + 4..end + 8).and_then(|len| len.first_chunk()) {
        let next = end + u32::from_le_bytes(*len) as usize;
        if next > limit || next <= end {
            break;
        }
        let kind = blocks[end..].first_chunk().map(|kind| u32::from_le_bytes(*kind));
        packets += u64::from(kind == Some(PACKET_BLOCK));
        end = next;
    }
    (end, packets)
}

/// Refuses to write to a terminal.
pub(super) fn check_terminal() -> anyhow::Result<()> {
    if io::IsTerminal::is_terminal(&io::stdout()) {
        bail!(sockeye_console::usage::UsageError(
            "sockeye: capture: -o - writes a file's bytes, which a terminal cannot show: name a file, or send them to \
             another program with `|`\n"
                .to_owned()
        ));
    }
    Ok(())
}

/// Type of a block with a packet ("Enhanced Packet Block").
const PACKET_BLOCK: u32 = 6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ring_file_has_number_before_extension() {
        assert_eq!(
            numbered(Path::new("/a.b/web.pcapng"), 1),
            Path::new("/a.b/web-00001.pcapng")
        );
        assert_eq!(numbered(Path::new("web"), 123_456), Path::new("web-123456"));
    }

    #[test]
    fn only_exact_ring_names_have_numbers() {
        let number = |path: &str, name: &str| number_of(Path::new(path), Path::new(name));
        assert_eq!(number("/a/web.pcapng", "web-00012.pcapng"), Some(12));
        assert_eq!(number("web", "web-123456"), Some(123_456));
        for other in [
            "web-00012",
            "web-12.pcapng",
            "web-000012.pcapng",
            "web-+0012.pcapng",
            "web.pcapng",
            "web-00012.pcap",
            "xweb-00012.pcapng",
            "web-4294967295.pcapng",
            "web-99999999999.pcapng",
        ] {
            assert_eq!(number("web.pcapng", other), None, "{other}");
        }
    }

    #[test]
    fn partial_blocks_do_not_count() {
        let mut blocks = Vec::new();
        for len in [12_u32, 20, 16] {
            let begin = blocks.len();
            blocks.resize(begin + len as usize, 0);
            blocks[begin + 4..begin + 8].copy_from_slice(&len.to_le_bytes());
        }
        // The second and third have a packet.
        for begin in [12, 32] {
            blocks[begin] = 6;
        }
        for (limit, whole) in [
            (0, (0, 0)),
            (11, (0, 0)),
            (12, (12, 0)),
            (31, (12, 0)),
            (32, (32, 1)),
            (47, (32, 1)),
            (48, (48, 2)),
            (99, (48, 2)),
        ] {
            assert_eq!(whole_blocks(&blocks, limit), whole, "{limit}");
        }
        assert_eq!(whole_blocks(&[0; 12], 12), (0, 0));
        assert_eq!(whole_blocks(&[1; 5], 5), (0, 0));
    }
}

//! The bytes of a file or a pipe, decompressed on a separate thread if needed.

use super::Error;
use flate2::bufread::MultiGzDecoder;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use sockeye_sys::interrupts::Interrupts;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, ErrorKind, Read};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

/// The compression of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    /// None
    None,
    /// gzip, of any number of members
    Gzip,
    /// zstd, of any number of frames
    Zstd,
}

/// The source of a capture's bytes.
pub(super) struct Input {
    packing: Packing,
    source: Source,
    is_cut: bool,
}

enum Source {
    Plain(Box<dyn Read + Send>),
    Unpacked(Unpacked),
}

/// The output of the decompressing thread.
struct Unpacked {
    blocks: Receiver<io::Result<Vec<u8>>>,
    /// Blocks that may be reused
    used: SyncSender<Vec<u8>>,
    block: Vec<u8>,
    at: usize,
}

/// Opens a file, or the standard input for `-`. Returns it with its name for errors.
pub(super) fn open(path: &Path) -> Result<(String, File), Error> {
    let (name, opened) = if path == Path::new("-") {
        // Not `io::stdin()`: that reads in small pieces.
        let stdin = io::stdin().as_fd().try_clone_to_owned().map(File::from);
        ("the standard input".to_owned(), stdin)
    } else {
        (path.display().to_string(), File::open(path))
    };
    match opened {
        Ok(file) => Ok((name, file)),
        Err(error) => Err(Error::Open(name, error)),
    }
}

/// A deadline for reading after a signal.
///
/// A ^C reaches all programs of a pipeline. The writer of a pipe still has its last packets to write, so a pipe is read
/// on for a short time after the signal.
#[derive(Debug, Clone)]
pub(super) struct ReadDeadline(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    interrupts: Interrupts,
    /// Whether it is a regular file, not a pipe or the like
    is_regular_file: bool,
    interrupted_at: OnceLock<Instant>,
    gave_up: AtomicBool,
}

impl ReadDeadline {
    pub(super) fn new(file: &File, interrupts: Interrupts) -> Self {
        Self(Arc::new(Shared {
            interrupts,
            is_regular_file: file.metadata().is_ok_and(|file| file.is_file()),
            interrupted_at: OnceLock::new(),
            gave_up: AtomicBool::new(false),
        }))
    }

    /// Returns how long to wait for more; `None`: without limit. Zero means that reading ends now.
    fn left(&self) -> Option<Duration> {
        self.0.interrupts.caught()?;
        let asked = self.0.interrupted_at.get_or_init(Instant::now);
        let left = match self.0.is_regular_file {
            true => Duration::ZERO,
            false => PIPE_WAIT.saturating_sub(asked.elapsed()),
        };
        if left.is_zero() {
            self.0.gave_up.store(true, Ordering::Relaxed);
        }
        Some(left)
    }

    /// Whether the deadline has passed.
    pub(super) fn has_passed(&self) -> bool {
        self.left() == Some(Duration::ZERO)
    }

    /// Whether reading ended before the end of the file.
    pub(super) fn gave_up(&self) -> bool {
        self.0.gave_up.load(Ordering::Relaxed)
    }
}

/// A file that ends at the deadline.
pub(super) struct DeadlineFile {
    pub(super) file: File,
    pub(super) deadline: ReadDeadline,
}

impl DeadlineFile {
    /// Waits until there is something to read; `false`: the deadline has passed.
    fn is_ready(&self) -> io::Result<bool> {
        loop {
            let left = self.deadline.left();
            if left == Some(Duration::ZERO) {
                return Ok(false);
            }
            let mut awaited = [
                PollFd::new(&self.file, PollFlags::IN),
                PollFd::new(&self.deadline.0.interrupts, PollFlags::IN),
            ];
            // A signal makes the descriptor readable only once.
            let count = if left.is_some() { 1 } else { 2 };
            let left = left.and_then(|left| Timespec::try_from(left).ok());
            match poll(&mut awaited[..count], left.as_ref()) {
                Err(Errno::INTR) => continue,
                outcome => outcome?,
            };
            if !awaited[0].revents().is_empty() {
                return Ok(true);
            }
        }
    }
}

impl Read for DeadlineFile {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.is_ready()? {
            return self.file.read(into);
        }
        Ok(0)
    }
}

impl Input {
    /// Detects the compression by the first bytes, and starts a thread to decompress.
    pub(super) fn new(name: &str, mut bytes: Box<dyn Read + Send>) -> Result<Self, Error> {
        let failed = |error| Error::Read(name.to_owned(), error);
        let mut first = vec![];
        while first.len() < 4 {
            let mut more = [0; 4];
            let room = 4 - first.len();
            match read(&mut bytes, &mut more[..room]).map_err(failed)? {
                0 => break,
                len => first.extend_from_slice(&more[..len]),
            }
        }
        let packing = match first[..] {
            [0x1f, 0x8b, ..] => Packing::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd] | [0x50..=0x5f, 0x2a, 0x4d, 0x18] => Packing::Zstd,
            _ => Packing::None,
        };
        let whole = Cursor::new(first).chain(bytes);
        let source = match packing {
            Packing::None => Source::Plain(Box::new(whole)),
            Packing::Gzip => Source::Unpacked(
                Unpacked::start(MultiGzDecoder::new(BufReader::with_capacity(
                    BLOCK_LEN_ENOUGH,
                    whole,
                )))
                .map_err(failed)?,
            ),
            Packing::Zstd => Source::Unpacked(Unpacked::start(Frames::new(whole)).map_err(failed)?),
        };
        Ok(Self {
            packing,
            source,
            is_cut: false,
        })
    }

    pub(super) const fn packing(&self) -> Packing {
        self.packing
    }

    /// Whether the compressed data ended early. That is no error: all data before it was returned.
    pub(super) const fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Reads some bytes; 0 at the end.
    pub(super) fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let result = match &mut self.source {
            Source::Plain(source) => return read(source, into),
            Source::Unpacked(unpacked) => unpacked.read(into),
        };
        match result {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                self.is_cut = true;
                Ok(0)
            }
            result => result,
        }
    }
}

impl Unpacked {
    fn start(source: impl Read + Send + 'static) -> io::Result<Self> {
        let (filled, blocks) = sync_channel(BLOCKS);
        let (used, free) = sync_channel(BLOCKS + 1);
        // The thread is not joined: it may be blocked on a pipe. It ends when the receiver is gone.
        thread::Builder::new()
            .name("unpack".to_owned())
            .spawn(move || unpack(source, &filled, &free))?;
        Ok(Self {
            blocks,
            used,
            block: vec![],
            at: 0,
        })
    }

    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.at == self.block.len() {
            match self.blocks.recv() {
                Ok(block) => {
                    let used = std::mem::replace(&mut self.block, block?);
                    self.at = 0;
                    if used.capacity() > 0 {
                        let _ = self.used.try_send(used); // else it is freed
                    }
                }
                Err(_) => return Ok(0), // the thread has ended, and so has the file
            }
        }
        let rest = &self.block[self.at..];
        let len = rest.len().min(into.len());
        into[..len].copy_from_slice(&rest[..len]);
        self.at += len;
        Ok(len)
    }
}

fn unpack(mut source: impl Read, filled: &SyncSender<io::Result<Vec<u8>>>, free: &Receiver<Vec<u8>>) {
    loop {
        let mut block = free.try_recv().unwrap_or_default();
        block.resize(BLOCK_LEN, 0);
        let (len, outcome) = fill(&mut source, &mut block);
        block.truncate(len);
        // Data before an error is used.
        if (len > 0 && filled.send(Ok(block)).is_err()) || (len == 0 && outcome.is_ok()) {
            return;
        }
        if let Err(error) = outcome {
            let _ = filled.send(Err(error));
            return;
        }
    }
}

/// Fills most of a block.
fn fill(source: &mut impl Read, block: &mut [u8]) -> (usize, io::Result<()>) {
    let mut len = 0;
    while len < BLOCK_LEN_ENOUGH {
        match read(source, &mut block[len..]) {
            Ok(0) => break,
            Ok(more) => len += more,
            Err(error) => return (len, Err(error)),
        }
    }
    (len, Ok(()))
}

/// A stream of zstd frames.
struct Frames<R> {
    source: BufReader<R>,
    decoder: FrameDecoder,
    is_inside: bool,
    /// An error to report after the data before it has been returned
    failed: Option<io::Error>,
}

impl<R: Read> Frames<R> {
    fn new(source: R) -> Self {
        Self {
            source: BufReader::with_capacity(BLOCK_LEN_ENOUGH, source),
            decoder: FrameDecoder::new(),
            is_inside: false,
            failed: None,
        }
    }

    /// Starts the next frame that is not skippable; `false`: there is none.
    fn begin(&mut self) -> io::Result<bool> {
        while !self.source.fill_buf()?.is_empty() {
            match self.decoder.init(&mut self.source) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    io::copy(&mut (&mut self.source).take(u64::from(length)), &mut io::sink())?;
                }
                Err(error) => return Err(unpacking(error)),
            }
        }
        Ok(false)
    }

    fn check_sum(&self) -> io::Result<()> {
        match (
            self.decoder.get_checksum_from_data(),
            self.decoder.get_calculated_checksum(),
        ) {
            (Some(stored), Some(computed)) if stored != computed => Err(io::Error::new(
                ErrorKind::InvalidData,
                "zstd: the checksum of a frame is wrong",
            )),
            _ => Ok(()),
        }
    }
}

impl<R: Read> Read for Frames<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            if !self.is_inside && !self.begin()? {
                return Ok(0);
            }
            self.is_inside = true;
            if self.decoder.can_collect() > 0 {
                return self.decoder.read(into);
            }
            if let Some(error) = self.failed.take() {
                return Err(error);
            }
            if self.decoder.is_finished() {
                self.check_sum()?;
                self.is_inside = false;
                continue;
            }
            let one = BlockDecodingStrategy::UptoBlocks(1);
            if let Err(error) = self.decoder.decode_blocks(&mut self.source, one) {
                // The decoder keeps a window of decompressed data, and returns it only after a last block.
                let all = BlockDecodingStrategy::All;
                self.decoder
                    .decode_blocks(&mut &LAST_BLOCK[..], all)
                    .map_err(unpacking)?;
                self.failed = Some(unpacking(error));
            }
        }
    }
}

/// Converts an error. An early end stays `UnexpectedEof`, so that the caller can accept it.
fn unpacking(error: FrameDecoderError) -> io::Error {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    while let Some(inner) = cause {
        if let Some(inner) = inner.downcast_ref::<io::Error>()
            && inner.kind() == ErrorKind::UnexpectedEof
        {
            return ErrorKind::UnexpectedEof.into();
        }
        cause = inner.source();
    }
    if let FrameDecoderError::WindowSizeTooBig { requested, max } = error {
        let text = format!(
            "zstd: it looks back {requested} bytes, more than {max} are not kept here; unpack it first: zstd -dc --long=31 FILE | \
             sockeye analyze -"
        );
        return io::Error::new(ErrorKind::InvalidData, text);
    }
    io::Error::new(ErrorKind::InvalidData, error)
}

fn read(source: &mut impl Read, into: &mut [u8]) -> io::Result<usize> {
    loop {
        match source.read(into) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// How long a pipe is read after a signal.
const PIPE_WAIT: Duration = Duration::from_secs(1);
/// Blocks in the queue between the threads
const BLOCKS: usize = 4;
const BLOCK_LEN: usize = 256 * 1024;
/// A block with this much data is passed on.
const BLOCK_LEN_ENOUGH: usize = 128 * 1024;
/// An empty last block, with room for the frame's checksum
const LAST_BLOCK: [u8; 7] = [1, 0, 0, 0, 0, 0, 0];

//! The bytes of a file or a pipe, decompressed on a separate thread if needed.

use super::Error;
use super::packing::{Packing, decompress};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use sockeye_sys::interrupts::Interrupts;
use std::fs::File;
use std::io::{self, Cursor, ErrorKind, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

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
    // Without O_NONBLOCK, the opening of a FIFO waits for its writer, and no signal ends it.
    let open_without_waiting = || {
        let file = File::options()
            .read(true)
            .custom_flags(OFlags::NONBLOCK.bits() as i32)
            .open(path)?;
        fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
        Ok(file)
    };
    let (name, opened) = if path == Path::new("-") {
        // Not `io::stdin()`: that reads in small pieces.
        let stdin = io::stdin().as_fd().try_clone_to_owned().map(File::from);
        ("the standard input".to_owned(), stdin)
    } else {
        (path.display().to_string(), open_without_waiting())
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
    /// Length of a regular file in bytes; `None` for a pipe or the like
    file_len: Option<u64>,
    /// Bytes read
    position: AtomicU64,
    interrupted_at: OnceLock<Instant>,
    gave_up: AtomicBool,
}

impl ReadDeadline {
    pub(super) fn new(file: &File, interrupts: Interrupts) -> Self {
        Self(Arc::new(Shared {
            interrupts,
            file_len: file
                .metadata()
                .ok()
                .filter(std::fs::Metadata::is_file)
                .map(|file| file.len()),
            position: AtomicU64::new(0),
            interrupted_at: OnceLock::new(),
            gave_up: AtomicBool::new(false),
        }))
    }

    /// Returns how long to wait for more; `None`: without limit. Zero means that reading ends now.
    fn left(&self) -> Option<Duration> {
        self.0.interrupts.caught()?;
        let asked = self.0.interrupted_at.get_or_init(Instant::now);
        let left = match self.0.file_len.is_some() {
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

    /// Returns the bytes read so far, and the length of a regular file.
    pub(super) fn position(&self) -> (u64, Option<u64>) {
        (self.0.position.load(Ordering::Relaxed), self.0.file_len)
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
        if !self.is_ready()? {
            return Ok(0);
        }
        let len = self.file.read(into)?;
        let position = &self.deadline.0.position;
        position.fetch_add(len as u64, Ordering::Relaxed);
        Ok(len)
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
        let packing = Packing::of(&first);
        let whole = Cursor::new(first).chain(bytes);
        let source = match packing {
            Packing::None => Source::Plain(Box::new(whole)),
            _ => Source::Unpacked(Unpacked::start(decompress(packing, whole)).map_err(failed)?),
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

    /// Reads some bytes; 0 at the end. `WouldBlock` if decompressing yields nothing for a while: then call it again.
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
            match self.blocks.recv_timeout(UNPACK_WAIT) {
                Ok(block) => {
                    let used = std::mem::replace(&mut self.block, block?);
                    self.at = 0;
                    if used.capacity() > 0 {
                        let _ = self.used.try_send(used); // else it is freed
                    }
                }
                Err(RecvTimeoutError::Timeout) => return Err(ErrorKind::WouldBlock.into()),
                // The thread has ended, and so has the file.
                Err(RecvTimeoutError::Disconnected) => return Ok(0),
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
        let step = (len + STEP_LEN).min(block.len());
        match read(source, &mut block[len..step]) {
            Ok(0) => break,
            Ok(more) => len += more,
            Err(error) => return (len, Err(error)),
        }
    }
    (len, Ok(()))
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
/// How long the reader waits for decompressed data before it shows its progress.
const UNPACK_WAIT: Duration = Duration::from_millis(200);
/// Blocks in the queue between the threads
const BLOCKS: usize = 4;
const BLOCK_LEN: usize = 256 * 1024;
/// Unpacked bytes per step of the decoder: of damaged gzip data, it loses what it unpacked in its last one.
const STEP_LEN: usize = 16 * 1024;
/// A block with this much data is passed on.
const BLOCK_LEN_ENOUGH: usize = 128 * 1024;

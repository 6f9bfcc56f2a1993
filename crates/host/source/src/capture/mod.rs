//! Capture files: pcap, pcapng, snoop and ERF, plain or compressed, from a file or a pipe, packet by packet.

mod block;
mod error;
/// Body of the fuzz target `compressed_files`.
#[cfg(any(test, fuzzing))]
#[path = "../../../../../fuzz/unpack_body.rs"]
pub mod fuzz_body;
mod input;
mod packing;

pub use block::Block;
pub use error::Error;
pub use packing::Packing;

use input::{DeadlineFile, Input, ReadDeadline};
use sockeye_sys::interrupts::Interrupts;
use sockeye_wire::Error as WireError;
use sockeye_wire::packet::pcapng::{InterfaceDescription, Options};
use sockeye_wire::packet::{Decoded, FileError, LinkType, Reader, Record, SkippedPackets, Step, decode};
use std::io::{ErrorKind, Read};
use std::path::Path;

/// An open capture. It has a buffer of half a MiB, independent of the length of the file.
///
/// ```no_run
/// let mut capture = sockeye_source::capture::Capture::open("trace.pcapng.gz".as_ref())?;
/// while let Some(packet) = capture.next()? {
///     println!("{} {:?}", packet.frame, packet.decode());
/// }
/// if let Some(cut) = capture.cut() {
///     eprintln!("the file ends in the middle of a packet: {cut}");
/// }
/// # Ok::<(), sockeye_source::capture::Error>(())
/// ```
pub struct Capture {
    name: String,
    input: Input,
    reader: Option<Reader>,
    buffer: Vec<u8>,
    begin: usize,
    end: usize,
    frame: u64,
    packets: u64,
    is_over: bool,
    cut: Option<WireError>,
    deadline: Option<ReadDeadline>,
    on_read: Option<Box<dyn FnMut(ReadPosition) + Send>>,
    /// Bytes to skip before the next block
    skip_later: u64,
    /// An error that comes after the packets of the last block
    error_after: Option<Error>,
}

/// How far a capture has been read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReadPosition {
    /// Packets returned
    pub packets: u64,
    /// Bytes read of the file or pipe, before decompression
    pub bytes: u64,
    /// Length of the file in bytes; `None` for a pipe
    pub file_len: Option<u64>,
}

/// A packet of a capture.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'a> {
    /// Frame number, from 1, as Wireshark counts
    pub frame: u64,
    /// Capture time, in nanoseconds since 1970
    pub time_ns: u64,
    /// Type of the first header
    pub link_type: LinkType,
    /// Index of its interface in [`Capture::interfaces`]
    pub interface: u32,
    /// The captured bytes
    pub captured: &'a [u8],
    /// Length of the packet, in bytes, before truncation by the snap length
    pub original_len: u32,
    options: &'a [u8],
    is_big_endian: bool,
}

impl Capture {
    /// Opens a file; `-` is the standard input.
    ///
    /// # Errors
    /// When it cannot be opened or read, or is no capture.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let (name, file) = input::open(path)?;
        Self::new(name, file)
    }

    /// Opens a file, and ends early when one of these signals arrives. A pipe is then read until its end, for at most a second.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_until(path: &Path, interrupts: Interrupts) -> Result<Self, Error> {
        let (name, file) = input::open(path)?;
        let deadline = ReadDeadline::new(&file, interrupts);
        let opened = Self::new(
            name,
            DeadlineFile {
                file,
                deadline: deadline.clone(),
            },
        );
        if interrupts.caught().is_some()
            && let Err(Error::TooShort(name, _)) = opened
        {
            return Err(Error::Interrupted(name));
        }
        Ok(Self {
            deadline: Some(deadline),
            ..opened?
        })
    }

    /// Reads from any source; `name` is its name in errors.
    ///
    /// # Errors
    /// When it cannot be read, or is no capture.
    pub fn new(name: String, source: impl Read + Send + 'static) -> Result<Self, Error> {
        let input = Input::new(&name, Box::new(source))?;
        let mut capture = Self {
            name,
            input,
            reader: None,
            buffer: vec![0; BUFFER_LEN],
            begin: 0,
            end: 0,
            frame: 0,
            packets: 0,
            is_over: false,
            cut: None,
            deadline: None,
            on_read: None,
            skip_later: 0,
            error_after: None,
        };
        // Detects the format, so that an error comes before anything else happens.
        while capture.reader.is_none() {
            let first = &capture.buffer[capture.begin..capture.end];
            capture.reader =
                Reader::new(first).map_err(|error| Error::Format(capture.name.clone(), error))?;
            if capture.reader.is_none() && !capture.fill()? {
                let first = &capture.buffer[capture.begin..capture.end];
                return Err(match first.first_chunk() {
                    Some(magic) => Error::Format(capture.name, FileError::Unknown { magic: *magic }),
                    None => Error::TooShort(capture.name, capture.end as u64),
                });
            }
        }
        Ok(capture)
    }

    /// Calls this after each read, that is for each 256 KiB or less, and now and then while compressed data yield nothing.
    /// It also sees what has no packets. `None` ends that.
    pub fn on_read(&mut self, show: Option<Box<dyn FnMut(ReadPosition) + Send>>) {
        self.on_read = show;
    }

    /// Returns how far it has been read. Its bytes are 0 if it was not opened by [`Self::open_until`].
    #[must_use]
    pub fn position(&self) -> ReadPosition {
        let deadline = self.deadline.as_ref();
        let (bytes, file_len) = deadline.map(ReadDeadline::position).unwrap_or_default();
        ReadPosition {
            packets: self.packets,
            bytes,
            file_len,
        }
    }

    /// Reads the next packet; `None` at the end, also of a file that ends in the middle of a packet ([`Self::cut`]).
    ///
    /// # Errors
    /// When reading or decompressing fails, or the file is damaged. All packets before were returned.
    #[allow(clippy::should_implement_trait)] // a packet borrows the buffer
    #[inline]
    pub fn next(&mut self) -> Result<Option<Packet<'_>>, Error> {
        let Some(record) = self.record()? else {
            return Ok(None);
        };
        self.frame += 1;
        self.packets += 1;
        let bytes = &self.buffer[self.begin..self.end];
        self.begin += record.used;
        Ok(Some(Packet {
            frame: self.frame,
            time_ns: record.time_ns,
            link_type: record.link_type,
            interface: record.interface,
            captured: &bytes[record.captured],
            original_len: record.original_len,
            options: &bytes[record.options],
            is_big_endian: record.is_big_endian,
        }))
    }

    #[inline]
    fn record(&mut self) -> Result<Option<Record>, Error> {
        loop {
            if self.is_over {
                return Ok(None);
            }
            let Some(reader) = &mut self.reader else {
                return Ok(None);
            };
            match reader.step(&self.buffer[self.begin..self.end]) {
                Ok(Step::Packet(record)) => return Ok(Some(record)),
                Ok(Step::Skip(len)) => self.pass(len)?,
                Ok(Step::NotAPacket(len)) => {
                    self.frame += 1;
                    self.pass(len)?;
                }
                Ok(Step::Needs(missing)) => {
                    if !self.fill()? {
                        self.is_over = true;
                        // A file that ends between two packets is complete.
                        self.cut = (missing.got > 0).then_some(missing);
                    }
                }
                Err(error) => {
                    self.is_over = true;
                    return Err(Error::Format(self.name.clone(), error));
                }
            }
        }
    }

    /// Skips the next `len` bytes, which need not all be in the buffer.
    #[cold]
    fn pass(&mut self, len: u64) -> Result<(), Error> {
        let mut left = len;
        loop {
            let here = (self.end - self.begin) as u64;
            if left <= here {
                self.begin += left as usize;
                return Ok(());
            }
            left -= here;
            self.begin = self.end;
            if !self.fill()? {
                self.is_over = true;
                let offset = self.reader.as_ref().map_or(0, Reader::offset).saturating_sub(len);
                self.cut = Some(WireError {
                    layer: sockeye_wire::Layer::CaptureRecord,
                    offset: offset as usize,
                    needed: len as usize,
                    got: (len - left) as usize,
                });
                return Ok(());
            }
        }
    }

    /// Reads more into the buffer; `false`: there is no more.
    #[cold]
    fn fill(&mut self) -> Result<bool, Error> {
        self.buffer.copy_within(self.begin..self.end, 0);
        self.end -= self.begin;
        self.begin = 0;
        // A few compressed bytes may still decompress to a lot.
        if self.packing() != Packing::None && self.deadline.as_ref().is_some_and(ReadDeadline::has_passed) {
            return Ok(false);
        }
        loop {
            let end = self.buffer.len().min(self.end + READ_LEN);
            let outcome = self.input.read(&mut self.buffer[self.end..end]);
            let position = self.position();
            if let Some(on_read) = &mut self.on_read {
                on_read(position);
            }
            match outcome {
                Ok(read) => {
                    self.end += read;
                    return Ok(read > 0);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => {
                    self.is_over = true;
                    return Err(Error::Read(self.name.clone(), error));
                }
            }
        }
    }

    /// Returns where the file ended in the middle of a packet, if it did; known at the end. A killed `tcpdump` leaves such a
    /// file.
    #[must_use]
    pub fn cut(&self) -> Option<&WireError> {
        self.cut.as_ref()
    }

    /// Whether the compressed data ended early; known at the end.
    #[must_use]
    pub fn is_packing_cut(&self) -> bool {
        self.input.is_cut()
    }

    /// Whether a signal ended the reading.
    #[must_use]
    pub fn is_interrupted(&self) -> bool {
        self.deadline.as_ref().is_some_and(ReadDeadline::gave_up)
    }

    /// Returns the counts of skipped records so far.
    #[must_use]
    pub fn skipped(&self) -> SkippedPackets {
        self.reader.as_ref().map(Reader::skipped).unwrap_or_default()
    }

    /// Returns the interfaces that the file has described so far; a pcap file describes none.
    #[must_use]
    pub fn interfaces(&self) -> &[InterfaceDescription] {
        self.reader.as_ref().map(Reader::interfaces).unwrap_or_default()
    }

    /// Returns the number of packets read so far.
    #[must_use]
    pub const fn packets(&self) -> u64 {
        self.packets
    }

    /// Returns the name in errors.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the compression of the file.
    #[must_use]
    pub const fn packing(&self) -> Packing {
        self.input.packing()
    }
}

impl std::fmt::Debug for Capture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Capture")
            .field("name", &self.name)
            .field("frame", &self.frame)
            .finish_non_exhaustive()
    }
}

impl<'a> Packet<'a> {
    /// Decodes the headers down to TCP.
    ///
    /// # Errors
    /// When a header is truncated or malformed.
    #[inline]
    pub fn decode(&self) -> Result<Decoded, WireError> {
        decode(self.link_type, self.captured, self.original_len)
    }

    /// Returns the options of the packet in a pcapng file.
    #[must_use]
    pub const fn options(&self) -> Options<'a> {
        Options::new(self.options, self.is_big_endian)
    }
}

/// Holds the longest packet with all its options, and fits into a cache.
const BUFFER_LEN: usize = 512 * 1024;

/// Bytes of one read: packets of that many are worked on together.
const READ_LEN: usize = 256 * 1024;

//! Capture files: pcap and pcapng, plain or packed, from a file or a pipe, packet by packet.

mod error;
mod input;

pub use error::Error;
pub use input::Packing;

use input::{DeadlineFile, Input, ReadDeadline};
use sockeye_sys::interrupts::Interrupts;
use sockeye_wire::Error as WireError;
use sockeye_wire::packet::pcapng::{Described, Options};
use sockeye_wire::packet::{Decoded, LinkType, PassedOver, Reader, Record, Step, decode};
use std::io::Read;
use std::path::Path;

/// A capture that is being read. It keeps a buffer of half a MiB, however long the file is.
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
}

/// One packet of a capture.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'a> {
    /// Its number, from 1, as Wireshark counts
    pub frame: u64,
    /// When it was captured, in nanoseconds since 1970
    pub time_ns: u64,
    /// What it begins with
    pub link_type: LinkType,
    /// Where it was captured, in [`Capture::interfaces`]
    pub interface: u32,
    /// What of it was captured
    pub captured: &'a [u8],
    /// How long it was
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

    /// As [`Self::open`], and ends early when one of these signals comes. A pipe is read until it ends, for a second at most.
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

    /// Reads from anywhere; `name` is what errors call it.
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
        };
        // So that what is no capture is told before anything else happens.
        while capture.reader.is_none() {
            let first = &capture.buffer[capture.begin..capture.end];
            capture.reader =
                Reader::new(first).map_err(|error| Error::Format(capture.name.clone(), error))?;
            if capture.reader.is_none() && !capture.fill()? {
                return Err(Error::TooShort(capture.name, capture.end as u64));
            }
        }
        Ok(capture)
    }

    /// The next packet; `None` at the end, also of a file that ends in the middle of one ([`Self::cut`]).
    ///
    /// # Errors
    /// When reading or unpacking fails, or the file is damaged. All packets before were handed out.
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
                Ok(Step::Pass(len)) => self.pass(len)?,
                Ok(Step::NoPacket(len)) => {
                    self.frame += 1;
                    self.pass(len)?;
                }
                Ok(Step::Needs(missing)) => {
                    if !self.fill()? {
                        self.is_over = true;
                        // A file that ends between two packets ends well.
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

    /// Leaves out the next `len` bytes, of which not all need be there yet.
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

    /// Reads more behind what there is; `false`: there is no more.
    #[cold]
    fn fill(&mut self) -> Result<bool, Error> {
        self.buffer.copy_within(self.begin..self.end, 0);
        self.end -= self.begin;
        self.begin = 0;
        // Of few packed bytes a lot may still be unpacked.
        if self.packing() != Packing::None && self.deadline.as_ref().is_some_and(ReadDeadline::has_passed) {
            return Ok(false);
        }
        let read = match self.input.read(&mut self.buffer[self.end..]) {
            Ok(read) => read,
            Err(error) => {
                self.is_over = true;
                return Err(Error::Read(self.name.clone(), error));
            }
        };
        self.end += read;
        Ok(read > 0)
    }

    /// Where the file ended in the middle of something, if it did; known when all has been read. A `tcpdump` that was
    /// killed leaves such a file.
    #[must_use]
    pub fn cut(&self) -> Option<&WireError> {
        self.cut.as_ref()
    }

    /// Whether what the file was packed with ended early; known when all has been read.
    #[must_use]
    pub fn is_packing_cut(&self) -> bool {
        self.input.is_cut()
    }

    /// Whether a signal ended it before its end.
    #[must_use]
    pub fn is_interrupted(&self) -> bool {
        self.deadline.as_ref().is_some_and(ReadDeadline::gave_up)
    }

    /// What was not handed out up to here.
    #[must_use]
    pub fn passed_over(&self) -> PassedOver {
        self.reader.as_ref().map(Reader::passed_over).unwrap_or_default()
    }

    /// Interfaces that the file has described up to here; a pcap file describes none.
    #[must_use]
    pub fn interfaces(&self) -> &[Described] {
        self.reader.as_ref().map(Reader::interfaces).unwrap_or_default()
    }

    /// Packets handed out.
    #[must_use]
    pub const fn packets(&self) -> u64 {
        self.packets
    }

    /// What it is called in errors.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the file is packed with.
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
    /// What it is, down to TCP.
    ///
    /// # Errors
    /// When a header is cut off, or broken.
    #[inline]
    pub fn decode(&self) -> Result<Decoded, WireError> {
        decode(self.link_type, self.captured, self.original_len)
    }

    /// What else a pcapng file tells of it.
    #[must_use]
    pub const fn options(&self) -> Options<'a> {
        Options::new(self.options, self.is_big_endian)
    }
}

/// Room for the longest packet with all that is told of it, and small enough for a cache.
const BUFFER_LEN: usize = 512 * 1024;

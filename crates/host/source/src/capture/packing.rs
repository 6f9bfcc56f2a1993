//! Decompression of gzip and zstd. Pure: from any reader to another.
//!
//! What is unpacked is never kept as a whole: gzip needs 32 KiB, zstd as much as a frame says that it looks back, up to
//! 128 MiB.

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::io::{self, BufRead, BufReader, ErrorKind, Read};

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

impl Packing {
    /// Returns the compression of a file by its first four bytes, or fewer if it is shorter.
    pub(super) fn of(first: &[u8]) -> Self {
        match first {
            [0x1f, 0x8b, ..] => Self::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Self::Zstd,
            _ => Self::None,
        }
    }
}

/// Returns a reader of the unpacked bytes. If the data end early, it returns what comes before, then
/// [`ErrorKind::UnexpectedEof`]. Of gzip data that are damaged, at most one `read` of what comes before is lost with the error.
pub(super) fn decompress<'a>(packing: Packing, source: impl Read + Send + 'a) -> Box<dyn Read + Send + 'a> {
    match packing {
        Packing::None => Box::new(source),
        Packing::Gzip => Box::new(MultiGzDecoder::new(BufReader::with_capacity(BUFFER_LEN, source))),
        Packing::Zstd => Box::new(Frames::new(source)),
    }
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
            source: BufReader::with_capacity(BUFFER_LEN, source),
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

/// Compressed bytes that are read at once
const BUFFER_LEN: usize = 128 * 1024;
/// An empty last block, with room for the frame's checksum
const LAST_BLOCK: [u8; 7] = [1, 0, 0, 0, 0, 0, 0];

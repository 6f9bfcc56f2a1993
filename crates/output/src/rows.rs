use std::io::{self, Write};

/// Rendered bytes on their way out, written in large pieces.
#[derive(Debug)]
pub struct Output<W> {
    /// Bytes that are not written yet.
    pub bytes: Vec<u8>,
    writer: W,
}

impl<W: Write> Output<W> {
    /// Creates an output that writes to `writer`.
    pub fn new(writer: W) -> Self {
        Self {
            bytes: Vec::with_capacity(PIECE_BYTES + PIECE_BYTES / 4),
            writer,
        }
    }

    /// Writes what there is, if it is enough to be worth it.
    #[inline]
    pub fn write_large(&mut self) -> io::Result<()> {
        if self.bytes.len() >= PIECE_BYTES {
            self.write()?;
        }
        Ok(())
    }

    /// Writes what there is and flushes the writer.
    pub fn flush(&mut self) -> io::Result<()> {
        self.write()?;
        self.writer.flush()
    }

    /// Returns the writer.
    pub fn into_inner(self) -> W {
        self.writer
    }

    fn write(&mut self) -> io::Result<()> {
        // Cleared first: what failed half-way is not written a second time.
        let bytes = std::mem::take(&mut self.bytes);
        let result = self.writer.write_all(&bytes);
        self.bytes = bytes;
        self.bytes.clear();
        result
    }
}

/// Rendered rows kept until all are there and can be sorted.
#[derive(Debug, Default)]
pub struct Kept {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Kept {
    /// Appends a row.
    pub fn push(&mut self, row: &[u8]) {
        self.bytes.extend_from_slice(row);
        self.ends.push(self.bytes.len());
    }

    /// Returns the row at an index.
    pub fn row(&self, place: usize) -> &[u8] {
        let start = if place == 0 { 0 } else { self.ends[place - 1] };
        &self.bytes[start..self.ends[place]]
    }
}

/// Large enough that calls cost little, small enough to keep the reader busy.
const PIECE_BYTES: usize = 64 * 1024;

//! Buffers of rendered rows for `listing/writer.rs`: one collects bytes for few large writes, one keeps all
//! rows for sorting. Neither may allocate per row.

use std::io::{self, Write};

/// A buffer of rendered bytes, which are written in large pieces.
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

    /// Appends bytes, and writes the buffer if it has at least 64 KiB.
    #[inline]
    pub fn push(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.len() >= PIECE_BYTES {
            self.write()?;
            return self.writer.write_all(bytes);
        }
        self.bytes.extend_from_slice(bytes);
        self.write_large()
    }

    /// Writes the buffer if it has at least 64 KiB.
    #[inline]
    pub fn write_large(&mut self) -> io::Result<()> {
        if self.bytes.len() >= PIECE_BYTES {
            self.write()?;
        }
        Ok(())
    }

    /// Writes the buffer and flushes the writer.
    pub fn flush(&mut self) -> io::Result<()> {
        self.write()?;
        self.writer.flush()
    }

    /// Returns the writer.
    pub fn into_inner(self) -> W {
        self.writer
    }

    fn write(&mut self) -> io::Result<()> {
        // Cleared even on error: a partly written buffer is not written twice.
        let bytes = std::mem::take(&mut self.bytes);
        let result = self.writer.write_all(&bytes);
        self.bytes = bytes;
        self.bytes.clear();
        result
    }
}

/// Rendered rows that wait until the last one, so that they can be sorted.
#[derive(Debug, Default)]
pub struct RowBuffer {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl RowBuffer {
    /// Appends a row.
    pub fn push(&mut self, row: &[u8]) {
        self.bytes.extend_from_slice(row);
        self.ends.push(self.bytes.len());
    }

    /// Returns the row at an index.
    pub fn row(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.bytes[start..self.ends[index]]
    }
}

/// Large enough that calls cost little, small enough that a reader does not wait.
const PIECE_BYTES: usize = 64 * 1024;

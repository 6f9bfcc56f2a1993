//! `ss`'s columns: fields are buffered until their widths are known, then written aligned.

use sockeye_output::number::push_padded;
use std::io::{self, Write};

/// Buffers rows of fields. The buffer is as large as in `ss`, so that long listings are written in the same batches; each
/// batch has its own widths.
#[derive(Debug)]
pub(super) struct ColumnBuffer {
    columns: [Column; COLUMNS],
    /// Width of the terminal; `None` if output does not go to one.
    width: Option<usize>,
    /// The texts of all fields, one after the other.
    text: Vec<u8>,
    /// The length of each field.
    lens: Vec<u16>,
    /// Where the current field begins in `text`.
    start: usize,
    /// The current field's column.
    current: usize,
    chunks: ChunkUsage,
    out: Vec<u8>,
}

#[derive(Debug, Clone, Copy)]
struct Column {
    header: &'static str,
    is_right_aligned: bool,
    /// Whether a space precedes it, if it is not the first in its line.
    has_delimiter: bool,
    shown: bool,
    longest: usize,
    width: usize,
}

/// Indices of columns that may be left out, and of the last one. `ss` has a tenth that is always empty.
pub(super) const NETID: usize = 0;
pub(super) const STATE: usize = 1;
const LAST: usize = 8;
const COLUMNS: usize = LAST + 1;

impl ColumnBuffer {
    /// Creates a buffer with or without the first two columns.
    pub(super) fn new(netid: bool, state: bool, width: Option<usize>) -> Self {
        let column = |header, is_right_aligned, has_delimiter| Column {
            header,
            is_right_aligned,
            has_delimiter,
            shown: true,
            longest: 0,
            width: 0,
        };
        let mut columns = [
            column("Netid", false, false),
            column("State", false, true),
            column("Recv-Q", false, true),
            column("Send-Q", false, true),
            column("Local Address:", true, true),
            column("Port", false, false),
            column("Peer Address:", true, true),
            column("Port", false, false),
            column("Process", false, false),
        ];
        columns[0].shown = netid;
        columns[1].shown = state;
        let first = columns.iter().position(|column| column.shown).unwrap_or(0);
        Self {
            columns,
            width,
            text: Vec::new(),
            lens: Vec::new(),
            start: 0,
            current: first,
            chunks: ChunkUsage::default(),
            out: Vec::new(),
        }
    }

    /// The buffer to which the current field's text is appended.
    #[inline]
    pub(super) const fn text(&mut self) -> &mut Vec<u8> {
        &mut self.text
    }

    /// Adds the row of headers.
    pub(super) fn header(&mut self) {
        for index in 0..COLUMNS {
            if self.columns[index].shown {
                let header = self.columns[index].header;
                self.text.extend_from_slice(header.as_bytes());
                if index + 1 < COLUMNS {
                    self.next();
                } else {
                    // It determines the width even if no row follows.
                    self.columns[index].longest = header.len();
                }
            }
        }
    }

    /// Ends the current field and goes on to the next.
    #[inline]
    pub(super) fn next(&mut self) {
        let len = self.end_field();
        let column = &mut self.columns[self.current];
        column.longest = column.longest.max(len);
        self.current += 1;
        if self.current == STATE && !self.shows(STATE) {
            self.current += 1;
        }
    }

    /// Ends the previous row and begins a new one.
    ///
    /// # Errors
    /// When a batch is full and cannot be written.
    #[inline]
    pub(super) fn begin(&mut self, out: &mut impl Write) -> io::Result<()> {
        if self.current == LAST {
            self.next();
            // The tenth column.
            if self.chunks.is_full() {
                self.write(out)?;
            } else {
                self.chunks.add(0);
            }
        }
        self.current = if self.columns[0].shown {
            0
        } else if self.columns[1].shown {
            1
        } else {
            2
        };
        Ok(())
    }

    /// Whether this column is shown.
    #[inline]
    pub(super) const fn shows(&self, column: usize) -> bool {
        self.columns[column].shown
    }

    /// Writes the buffered rows.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn finish(&mut self, out: &mut impl Write) -> io::Result<()> {
        if self.current == LAST {
            // As in ss, the last field's length does not affect the width.
            self.end_field();
        }
        self.write(out)
    }

    /// Ends the current field and returns its length.
    #[inline]
    fn end_field(&mut self) -> usize {
        let mut len = self.text.len() - self.start;
        if len > FIELD_MAX {
            len = FIELD_MAX;
            self.text.truncate(self.start + len);
        }
        self.lens.push(len as u16);
        self.start += len;
        self.chunks.add(len);
        len
    }

    fn write(&mut self, out: &mut impl Write) -> io::Result<()> {
        if self.lens.is_empty() {
            return Ok(());
        }
        self.measure();
        let columns: Vec<Column> = self
            .columns
            .iter()
            .filter(|column| column.shown)
            .copied()
            .collect();
        let mut start = 0;
        for row in self.lens.chunks(columns.len()) {
            self.out.reserve(ROW_BYTES);
            for (index, (column, &len)) in columns.iter().zip(row).enumerate() {
                column.push(&mut self.out, &self.text[start..], len.into(), index > 0);
                start += usize::from(len);
            }
            self.out.push(b'\n');
            if self.out.len() >= WRITE_BYTES {
                out.write_all(&self.out)?;
                self.out.clear();
            }
        }
        out.write_all(&self.out)?;
        self.out.clear();
        self.text.clear();
        self.lens.clear();
        self.start = 0;
        self.chunks = ChunkUsage::default();
        // The next row begins at the first column.
        self.current = 0;
        Ok(())
    }

    /// Chooses the width of each column: that of its longest field. On a terminal, lines are broken between columns, and
    /// the spare width of each line is distributed, the remainder to the last columns.
    fn measure(&mut self) {
        let limit = self.width.unwrap_or(usize::MAX);
        let mut is_first = true;
        for column in self.columns.iter_mut().filter(|column| column.shown) {
            let delimiter = usize::from(column.has_delimiter && !is_first && column.longest > 0);
            column.width = (column.longest + delimiter).min(limit);
            is_first &= column.width == 0;
        }
        let Some(screen) = self.width else { return };
        // Columns of the current line, and the sum of their widths.
        let (mut line, mut sum) = (0..0, 0);
        let mut index = 0;
        while index < COLUMNS {
            let width = self.columns[index].width;
            index += 1;
            if width == 0 {
                continue;
            }
            line.end = index;
            sum += width;
            let is_last = self.columns[index..].iter().all(|column| column.width == 0);
            if !is_last && sum < screen {
                continue;
            }
            if sum > screen && self.count_visible(line.start..index - 1) > 0 {
                sum -= width;
                index -= 1;
                line.end = index;
            }
            if sum < screen {
                self.distribute(line.clone(), screen - sum);
            }
            (line, sum) = (index..index, 0);
        }
    }

    /// Returns the number of these columns that have a width.
    fn count_visible(&self, range: std::ops::Range<usize>) -> usize {
        self.columns[range]
            .iter()
            .filter(|column| column.width > 0)
            .count()
    }

    fn distribute(&mut self, line: std::ops::Range<usize>, spare: usize) {
        let count = self.count_visible(line.clone());
        let (each, mut rest) = (spare / count.max(1), spare % count.max(1));
        for column in self.columns[line]
            .iter_mut()
            .rev()
            .filter(|column| column.width > 0)
        {
            column.width += each + usize::from(rest > 0);
            rest = rest.saturating_sub(1);
        }
    }
}

impl Column {
    /// Appends a field, which is the first `len` bytes of the remaining text.
    #[inline]
    fn push(&self, out: &mut Vec<u8>, left: &[u8], len: usize, is_inside: bool) {
        let delimiter = usize::from(self.has_delimiter && is_inside);
        let spaces = self.width.saturating_sub(len + delimiter);
        if self.is_right_aligned {
            push_spaces(out, delimiter + spaces);
            push_first(out, left, len);
        } else {
            if delimiter > 0 {
                out.push(b' ');
            }
            push_first(out, left, len);
            push_spaces(out, spaces);
        }
    }
}

/// Appends the first `len` bytes. Most fields are one copy of constant length, which includes the bytes after them.
#[inline]
fn push_first(out: &mut Vec<u8>, left: &[u8], len: usize) {
    match left.first_chunk::<32>() {
        Some(chunk) if len <= 32 => push_padded(out, chunk, len),
        _ => out.extend_from_slice(&left[..len]),
    }
}

#[inline]
fn push_spaces(out: &mut Vec<u8>, count: usize) {
    match count {
        0 => {}
        1..=16 => push_padded(out, &[b' '; 16], count),
        17..=64 => push_padded(out, &[b' '; 64], count),
        _ => out.resize(out.len() + count, b' '),
    }
}

/// Counts the memory that `ss` would use: fields, each with a length of two bytes before it and at an even offset, in
/// chunks of 1 MiB. When a fifth chunk is begun, `ss` writes its buffer at the end of the row.
#[derive(Debug)]
struct ChunkUsage {
    chunks: u32,
    /// Bytes of the current chunk up to the current field's text.
    used: usize,
}

impl Default for ChunkUsage {
    fn default() -> Self {
        Self { chunks: 1, used: 2 }
    }
}

impl ChunkUsage {
    /// Adds a field with a text of this length.
    #[inline]
    fn add(&mut self, len: usize) {
        // A chunk accepts its first field whatever its length.
        if self.used + len >= CHUNK_BYTES && self.used > 2 {
            self.chunks += 1;
            self.used = 2;
        }
        let end = self.used + len + len % 2;
        if end + 2 > CHUNK_BYTES {
            self.chunks += 1;
            self.used = 2;
        } else {
            self.used = end + 2;
        }
    }

    #[inline]
    const fn is_full(&self) -> bool {
        self.chunks >= CHUNKS_MAX
    }
}

/// Longest field in bytes; longer ones are cut, because 16 bits hold the length.
const FIELD_MAX: usize = 65_535;
/// 1 MiB less two pointers.
const CHUNK_BYTES: usize = 1024 * 1024 - 16;
const CHUNKS_MAX: u32 = 5;
/// Typical size of a row.
const ROW_BYTES: usize = 256;
/// Bytes to write at once.
const WRITE_BYTES: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks rows of seven fields (from the queues on).
    fn check(width: Option<usize>, header: bool, rows: &[[&str; 7]], expected: &str) {
        let (mut columns, mut out) = (ColumnBuffer::new(false, false, width), Vec::new());
        if header {
            columns.header();
        }
        for row in rows {
            columns.begin(&mut out).unwrap();
            for (index, field) in row.iter().enumerate() {
                columns.text().extend_from_slice(field.as_bytes());
                if index + 1 < row.len() {
                    columns.next();
                }
            }
        }
        columns.finish(&mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    const ROWS: &[[&str; 7]] = &[
        ["0     ", "128   ", "0.0.0.0:", "22", "0.0.0.0:", "*", " ino:1"],
        ["0     ", "0     ", "[::1]:", "http", "[::1]:", "45678", ""],
    ];

    // Compared with ss 6.1.0.
    #[test]
    fn pipe_columns_are_as_wide_as_their_content() {
        check(
            None,
            true,
            ROWS,
            "Recv-Q Send-Q Local Address:Port Peer Address:Port Process\n\
             0      128          0.0.0.0:22        0.0.0.0:*     ino:1 \n\
             0      0              [::1]:http        [::1]:45678       \n",
        );
        check(
            None,
            true,
            &[],
            "Recv-Q Send-Q Local Address:Port Peer Address:PortProcess\n",
        );
        check(
            None,
            false,
            &ROWS[..1],
            "0      128    0.0.0.0:22 0.0.0.0:* ino:1\n",
        );
        check(None, false, &[], "");
    }

    #[test]
    fn long_listing_is_written_in_batches() {
        let (mut columns, mut out) = (ColumnBuffer::new(true, true, None), Vec::new());
        let long = "x".repeat(40_000);
        let mut rows_before_output = 0;
        for row in 0..200 {
            columns.begin(&mut out).unwrap();
            if out.is_empty() {
                rows_before_output = row;
            }
            for _ in 0..8 {
                columns.next();
            }
            columns.text().extend_from_slice(long.as_bytes());
        }
        // 26 fit into each of four chunks, and the row that begins the fifth ends the batch.
        assert_eq!(rows_before_output, 104);
        columns.finish(&mut out).unwrap();
        assert_eq!(out.iter().filter(|byte| **byte == b'\n').count(), 200);
    }
}

//! `ss`'s columns: fields are buffered until their widths are known, then written aligned.

use super::level::SsLevel;
use super::row::SsLayout;
use sockeye_output::number::push_padded;
use std::io::{self, Write};

/// Buffers rows of fields. The buffer is as large as in `ss`, so that long listings are written in the same batches; each
/// batch has its own widths.
#[derive(Debug)]
pub(super) struct ColumnBuffer {
    level: SsLevel,
    columns: [Column; COLUMNS],
    /// The last column of a row.
    last: usize,
    /// Width of a line; `None`: lines are as long as their content.
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

/// Indices of columns that may be left out. Details are in a column of their own since 6.15. In 6.1 they are in that of
/// processes, and `ss` has a tenth that is always empty.
pub(super) const NETID: usize = 0;
pub(super) const STATE: usize = 1;
pub(super) const RECV_QUEUE: usize = 2;
const SEND_QUEUE: usize = 3;
pub(super) const PROCESSES: usize = 8;
const DETAILS: usize = 9;
const COLUMNS: usize = DETAILS + 1;

impl ColumnBuffer {
    /// Creates a buffer with the columns of this layout.
    pub(super) fn new(layout: &SsLayout) -> Self {
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
            column("", false, false),
        ];
        let has_details = layout.level >= SsLevel::V6_15;
        for (index, shown) in [
            (NETID, layout.netid),
            (STATE, layout.state),
            (RECV_QUEUE, layout.queues),
            (SEND_QUEUE, layout.queues),
            (PROCESSES, layout.processes || !has_details),
            (DETAILS, has_details),
        ] {
            columns[index].shown = shown;
        }
        let first = first_shown(&columns);
        let last = if has_details { DETAILS } else { PROCESSES };
        Self {
            level: layout.level,
            columns,
            last,
            width: layout.width,
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
        for index in 0..=self.last {
            if self.columns[index].shown {
                let header = self.columns[index].header;
                self.text.extend_from_slice(header.as_bytes());
                if index < self.last {
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
        let len = self.place_field();
        self.chunks.close(len);
        let column = &mut self.columns[self.current];
        column.longest = column.longest.max(len);
        self.current += 1;
        while self.current < self.last && !self.shows(self.current) {
            self.current += 1;
        }
    }

    /// Ends the previous row and begins a new one.
    ///
    /// # Errors
    /// When a batch is full and cannot be written.
    #[inline]
    pub(super) fn begin(&mut self, out: &mut impl Write) -> io::Result<()> {
        if self.current == PROCESSES && self.last == DETAILS {
            self.next();
        }
        if self.current == self.last {
            self.end_row(out)?;
        }
        self.current = first_shown(&self.columns);
        Ok(())
    }

    fn end_row(&mut self, out: &mut impl Write) -> io::Result<()> {
        if self.level == SsLevel::V6_1 {
            self.next();
            // The tenth column.
            if self.chunks.is_full() {
                return self.write(out);
            }
            self.chunks.place(0);
            self.chunks.close(0);
            return Ok(());
        }
        let len = self.place_field();
        if self.chunks.is_full() {
            // As in ss, the last field's length does not affect the width of this batch.
            return self.write(out);
        }
        self.chunks.close(len);
        let details = &mut self.columns[self.last];
        details.longest = details.longest.max(len);
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
        if self.current >= PROCESSES {
            // As in ss, the last field's length does not affect the width.
            self.place_field();
        }
        self.write(out)
    }

    /// Takes the current field's text into the buffer and returns its length.
    #[inline]
    fn place_field(&mut self) -> usize {
        let mut len = self.text.len() - self.start;
        if len > FIELD_MAX {
            len = FIELD_MAX;
            self.text.truncate(self.start + len);
        }
        self.lens.push(len as u16);
        self.start += len;
        self.chunks.place(len);
        len
    }

    fn write(&mut self, out: &mut impl Write) -> io::Result<()> {
        if self.lens.is_empty() {
            return Ok(());
        }
        self.measure();
        let mut columns: Vec<Column> = self
            .columns
            .iter()
            .filter(|column| column.shown)
            .copied()
            .collect();
        if self.level >= SsLevel::V7_3
            && self.width.is_none()
            && let [.., before_details, _] = &mut columns[..]
        {
            // Since 7.0 ss leaves out the blanks after the last column of a line, which it takes to be this one.
            before_details.width = 0;
        }
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

/// Returns the index of the first column that is shown.
fn first_shown(columns: &[Column]) -> usize {
    columns.iter().position(|column| column.shown).unwrap_or(0)
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
    /// Adds the text of a field, of this length.
    #[inline]
    const fn place(&mut self, len: usize) {
        // A chunk accepts its first field whatever its length.
        if self.used + len >= CHUNK_BYTES && self.used > 2 {
            self.chunks += 1;
            self.used = 2;
        }
    }

    /// Ends a field with a text of this length and begins the next one.
    #[inline]
    const fn close(&mut self, len: usize) {
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
    fn check(level: SsLevel, width: Option<usize>, header: bool, rows: &[[&str; 7]], expected: &str) {
        let layout = SsLayout {
            level,
            queues: true,
            width,
            ..SsLayout::default()
        };
        let (mut columns, mut out) = (ColumnBuffer::new(&layout), Vec::new());
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
        let check = |width, header, rows: &[_], expected| check(SsLevel::V6_1, width, header, rows, expected);
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

    // Compared with ss 6.15.0 and 7.3.0.
    #[test]
    fn details_have_a_column_without_heading_since_6_15() {
        check(
            SsLevel::V6_15,
            None,
            true,
            ROWS,
            "Recv-Q Send-Q Local Address:Port Peer Address:Port       \n\
             0      128          0.0.0.0:22        0.0.0.0:*     ino:1\n\
             0      0              [::1]:http        [::1]:45678      \n",
        );
        check(
            SsLevel::V7_3,
            None,
            true,
            ROWS,
            "Recv-Q Send-Q Local Address:Port Peer Address:Port      \n\
             0      128          0.0.0.0:22        0.0.0.0:* ino:1\n\
             0      0              [::1]:http        [::1]:45678      \n",
        );
    }

    #[test]
    fn long_listing_is_written_in_batches() {
        let layout = SsLayout {
            netid: true,
            state: true,
            queues: true,
            level: SsLevel::V6_1,
            ..SsLayout::default()
        };
        let (mut columns, mut out) = (ColumnBuffer::new(&layout), Vec::new());
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

//! `ss`'s columns: fields are gathered until their widths are known, then written aligned.

use sockeye_output::number::push_padded;
use std::io::{self, Write};

/// Gathers rows of fields. What is gathered is bounded as in `ss`, so that also what comes in several batches, each
/// with widths of its own, is the same.
#[derive(Debug)]
pub(super) struct Sheet {
    columns: [Column; COLUMNS],
    /// Terminal columns, if it is one.
    width: Option<usize>,
    /// The texts of all fields, one after the other.
    text: Vec<u8>,
    /// The length of each.
    lens: Vec<u16>,
    /// Where the current field begins in `text`.
    start: usize,
    /// The current field's column.
    at: usize,
    room: Room,
    out: Vec<u8>,
}

#[derive(Debug, Clone, Copy)]
struct Column {
    header: &'static str,
    right: bool,
    /// A space before it, if it is not the first in its line.
    delimited: bool,
    shown: bool,
    longest: usize,
    width: usize,
}

/// Places of columns that may be left out, and of the last one. `ss` has a tenth that is always empty.
pub(super) const NETID: usize = 0;
pub(super) const STATE: usize = 1;
const REST: usize = 8;
const COLUMNS: usize = REST + 1;

impl Sheet {
    /// With or without the first two columns.
    pub(super) fn new(netid: bool, state: bool, width: Option<usize>) -> Self {
        let column = |header, right, delimited| Column {
            header,
            right,
            delimited,
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
            at: first,
            room: Room::default(),
            out: Vec::new(),
        }
    }

    /// Where the current field's text goes.
    #[inline]
    pub(super) const fn text(&mut self) -> &mut Vec<u8> {
        &mut self.text
    }

    /// A row of headers.
    pub(super) fn header(&mut self) {
        for place in 0..COLUMNS {
            if self.columns[place].shown {
                let header = self.columns[place].header;
                self.text.extend_from_slice(header.as_bytes());
                if place + 1 < COLUMNS {
                    self.next();
                } else {
                    // It counts also if no row follows.
                    self.columns[place].longest = header.len();
                }
            }
        }
    }

    /// Goes on to the next field; the text so far is the current one's.
    #[inline]
    pub(super) fn next(&mut self) {
        let len = self.take();
        let column = &mut self.columns[self.at];
        column.longest = column.longest.max(len);
        self.at += 1;
        if self.at == STATE && !self.shows(STATE) {
            self.at += 1;
        }
    }

    /// Begins a row, after the one before.
    ///
    /// # Errors
    /// When a batch is full and cannot be written.
    #[inline]
    pub(super) fn begin(&mut self, out: &mut impl Write) -> io::Result<()> {
        if self.at == REST {
            self.next();
            // The tenth column.
            if self.room.is_used_up() {
                self.write(out)?;
            } else {
                self.room.take(0);
            }
        }
        self.at = if self.columns[0].shown {
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

    /// Writes what was gathered.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn finish(&mut self, out: &mut impl Write) -> io::Result<()> {
        if self.at == REST {
            // The last field's length counts for no width, as in ss.
            self.take();
        }
        self.write(out)
    }

    /// Ends the current field and gives its length.
    #[inline]
    fn take(&mut self) -> usize {
        let mut len = self.text.len() - self.start;
        if len > FIELD_MAX {
            len = FIELD_MAX;
            self.text.truncate(self.start + len);
        }
        self.lens.push(len as u16);
        self.start += len;
        self.room.take(len);
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
            for (place, (column, &len)) in columns.iter().zip(row).enumerate() {
                column.push(&mut self.out, &self.text[start..], len.into(), place > 0);
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
        self.room = Room::default();
        // The next row begins anew.
        self.at = 0;
        Ok(())
    }

    /// Chooses the width of each column: what its longest field needs; and on a terminal, where lines are broken between
    /// columns, what is left over in each line is shared out, the last columns getting one more.
    fn measure(&mut self) {
        let limit = self.width.unwrap_or(usize::MAX);
        let mut is_first = true;
        for column in self.columns.iter_mut().filter(|column| column.shown) {
            let delimiter = usize::from(column.delimited && !is_first && column.longest > 0);
            column.width = (column.longest + delimiter).min(limit);
            is_first &= column.width == 0;
        }
        let Some(screen) = self.width else { return };
        // Columns of the line that is being filled, and their widths' sum.
        let (mut line, mut sum) = (0..0, 0);
        let mut place = 0;
        while place < COLUMNS {
            let width = self.columns[place].width;
            place += 1;
            if width == 0 {
                continue;
            }
            line.end = place;
            sum += width;
            let is_last = self.columns[place..].iter().all(|column| column.width == 0);
            if !is_last && sum < screen {
                continue;
            }
            if sum > screen && self.filled(line.start..place - 1) > 0 {
                sum -= width;
                place -= 1;
                line.end = place;
            }
            if sum < screen {
                self.share_out(line.clone(), screen - sum);
            }
            (line, sum) = (place..place, 0);
        }
    }

    /// How many of these columns have a width.
    fn filled(&self, range: std::ops::Range<usize>) -> usize {
        self.columns[range]
            .iter()
            .filter(|column| column.width > 0)
            .count()
    }

    fn share_out(&mut self, line: std::ops::Range<usize>, spare: usize) {
        let count = self.filled(line.clone());
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
    /// Appends a field, which is the first `len` of what is left of the texts.
    #[inline]
    fn push(&self, out: &mut Vec<u8>, left: &[u8], len: usize, is_inside: bool) {
        let delimiter = usize::from(self.delimited && is_inside);
        let spaces = self.width.saturating_sub(len + delimiter);
        if self.right {
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

/// Appends the first `len` bytes: of most fields by one copy of constant length, for what is behind them is there too.
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

/// How `ss` reckons what it has gathered: fields, each with a length of two bytes before it and at an even place, in
/// chunks of a mebibyte. When the fifth is begun, what is gathered is written at the end of the row.
#[derive(Debug)]
struct Room {
    chunks: u32,
    /// Bytes of the current chunk up to the current field's text.
    used: usize,
}

impl Default for Room {
    fn default() -> Self {
        Self { chunks: 1, used: 2 }
    }
}

impl Room {
    /// Takes the room of a field with a text this long.
    #[inline]
    fn take(&mut self, len: usize) {
        // A chunk of which it is the first field takes it anyway.
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
    const fn is_used_up(&self) -> bool {
        self.chunks >= CHUNKS_MAX
    }
}

/// Longer ones are cut: 16 bits hold the length.
const FIELD_MAX: usize = 65_535;
/// A mebibyte less two pointers.
const CHUNK_BYTES: usize = 1024 * 1024 - 16;
const CHUNKS_MAX: u32 = 5;
/// Few rows are longer.
const ROW_BYTES: usize = 256;
/// As much is written at once.
const WRITE_BYTES: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of five fields (from the queues on), and what becomes of them.
    fn check(width: Option<usize>, header: bool, rows: &[[&str; 7]], expected: &str) {
        let (mut sheet, mut out) = (Sheet::new(false, false, width), Vec::new());
        if header {
            sheet.header();
        }
        for row in rows {
            sheet.begin(&mut out).unwrap();
            for (place, field) in row.iter().enumerate() {
                sheet.text().extend_from_slice(field.as_bytes());
                if place + 1 < row.len() {
                    sheet.next();
                }
            }
        }
        sheet.finish(&mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    const ROWS: &[[&str; 7]] = &[
        ["0     ", "128   ", "0.0.0.0:", "22", "0.0.0.0:", "*", " ino:1"],
        ["0     ", "0     ", "[::1]:", "http", "[::1]:", "45678", ""],
    ];

    // What ss 6.1.0 prints of such fields.
    #[test]
    fn as_wide_as_need_be_in_a_pipe() {
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
    fn a_long_listing_is_written_in_batches() {
        let (mut sheet, mut out) = (Sheet::new(true, true, None), Vec::new());
        let long = "x".repeat(40_000);
        let mut rows_before_output = 0;
        for row in 0..200 {
            sheet.begin(&mut out).unwrap();
            if out.is_empty() {
                rows_before_output = row;
            }
            for _ in 0..8 {
                sheet.next();
            }
            sheet.text().extend_from_slice(long.as_bytes());
        }
        // 26 fit into each of four chunks, and the row that begins the fifth ends the batch.
        assert_eq!(rows_before_output, 104);
        sheet.finish(&mut out).unwrap();
        assert_eq!(out.iter().filter(|byte| **byte == b'\n').count(), 200);
    }
}

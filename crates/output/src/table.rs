//! Aligned columns from a stream of cells.
//!
//! The first rows are buffered as cells to find the widths of the columns; then they and all later rows are written at
//! once. A later, wider cell shifts the rest of its row, and its column stays that wide from then on, up to
//! `COLUMN_WIDTH_MAX`: one long path does not spread all rows.
//!
//! On a terminal nothing is cut. If the columns do not fit, first the gaps shrink from two to one; then rows (and the
//! header) continue, indented, on further lines, always at the same columns. A left-aligned last column counts with the width of its
//! header. A cell that does not fit into what is left of its line, because it came later or is in that column, begins a further
//! line as well; one that fits into no line, and details, are broken between words.
//!
//! On a live screen ([`Table::live`]), where a further line would cost the row below it, a row is one line: headings get shorter, then
//! columns of numbers are left out from the right, whole, since a number without its end is another number.
//! The screen cuts what is still too long.
//!
//! Written here although `comfy-table` (three packages more) exists: it buffers all rows until the table is printed. Here rows stream,
//! and no row costs an allocation.

mod fit;
mod tint;

pub use tint::Tint;

use crate::format::Style;
use crate::number::push_padded;
use crate::text::display_width;
use tint::push_tinted;

/// A table with aligned columns; their widths come from the first rows.
#[derive(Debug)]
pub struct Table {
    headings: Vec<Heading>,
    style: Style,
    terminal: Option<usize>,
    /// Leaves out the header.
    pub no_header: bool,
    /// Buffers all rows, for the caller to sort.
    pub buffers_all: bool,
    /// Whether each row ends with a line of details.
    pub has_details: bool,
    /// Whether a row takes one line of the terminal.
    pub live: bool,
    /// Leaves out the columns in which all cells are absent or zero. Needs `buffers_all`.
    pub drops_empty: bool,
    /// Columns that are left out because the terminal is too narrow.
    pub columns_left_out: usize,
    settled: bool,
    widths: Vec<usize>,
    gap: usize,
    /// Whether a column begins a further line.
    breaks: Vec<bool>,
    /// Text of all buffered rows, or of the current row.
    bytes: Vec<u8>,
    cells: Vec<Cell>,
}

/// The heading of a column, and its alignment.
#[derive(Debug, Clone)]
pub struct Heading {
    text: Vec<u8>,
    align: Align,
    /// As the last column, it moves to a separate line rather than overflow.
    breaks: bool,
    /// Width of cells that may come after the first rows.
    later_width: usize,
    /// Widest cell for which the column is made wider.
    width_max: usize,
}

#[derive(Debug, Clone, Copy)]
struct Cell {
    end: usize,
    width: u32,
    tint: Tint,
}

/// Alignment of a column in a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// For words and addresses.
    Left,
    /// For numbers.
    Right,
}

impl Heading {
    /// Creates the heading of a column.
    pub fn new(text: &str, align: Align) -> Self {
        Self {
            text: text.as_bytes().to_vec(),
            align,
            // An address in the last column must be easy to find.
            breaks: text.ends_with("Address:Port"),
            later_width: 0,
            width_max: COLUMN_WIDTH_MAX,
        }
    }

    /// Makes the column as wide as its cells.
    #[must_use]
    pub fn uncapped(self) -> Self {
        Self {
            width_max: UNCAPPED_WIDTH_MAX,
            ..self
        }
    }

    /// Returns the width for a cell.
    fn capped(&self, width: u32) -> usize {
        (width as usize).min(self.width_max)
    }

    /// Sets the width of cells that may come after the widths are settled: where there is room, columns do not move then.
    #[must_use]
    pub fn for_later(self, later_width: usize) -> Self {
        Self { later_width, ..self }
    }

    /// Sets whether a cell of this column may continue on further lines.
    pub fn breaking(self, breaks: bool) -> Self {
        Self { breaks, ..self }
    }
}

impl Table {
    /// Creates a table; `terminal` is the width of a terminal in columns, `None` elsewhere.
    pub fn new(headings: Vec<Heading>, style: Style, terminal: Option<usize>) -> Self {
        let width = |heading: &Heading| display_width(&heading.text);
        Self {
            widths: headings.iter().map(width).collect(),
            breaks: vec![false; headings.len()],
            headings,
            style,
            terminal,
            no_header: false,
            buffers_all: false,
            has_details: false,
            live: false,
            drops_empty: false,
            columns_left_out: 0,
            settled: false,
            gap: 2,
            bytes: Vec::new(),
            cells: Vec::new(),
        }
    }

    /// Whether the widths are settled: rows are laid out at once.
    pub fn is_settled(&self) -> bool {
        self.settled
    }

    /// Returns a table with the same settled columns, for other rows.
    pub fn for_thread(&self) -> Self {
        Self {
            headings: self.headings.clone(),
            widths: self.widths.clone(),
            breaks: self.breaks.clone(),
            bytes: Vec::new(),
            cells: Vec::new(),
            ..*self
        }
    }

    /// Returns the buffer for the next cell's text.
    #[inline]
    pub fn cell(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Ends a cell. An empty cell is shown as `-`, in the last column as nothing.
    #[inline]
    pub fn end_cell(&mut self, tint: Tint) {
        let start = self.cells.last().map_or(0, |cell| cell.end);
        if self.bytes.len() == start && self.cells.len() % self.stride() + 1 != self.headings.len() {
            self.bytes.push(b'-');
        }
        let width = display_width(&self.bytes[start..]);
        self.cells.push(Cell {
            end: self.bytes.len(),
            width: u32::try_from(width).unwrap_or(u32::MAX),
            tint,
        });
    }

    /// Ends the details of a row, which may be empty.
    pub fn end_details(&mut self) {
        self.cells.push(Cell {
            end: self.bytes.len(),
            width: 0,
            tint: Tint::Dim,
        });
    }

    /// Ends a row: lays it out, or buffers it.
    #[inline]
    pub fn end_row(&mut self, out: &mut Vec<u8>) {
        debug_assert!(self.cells.len().is_multiple_of(self.stride()));
        if self.settled {
            // Padding that is not shown: with it the last cell can be copied in fixed-size chunks, like the others.
            self.bytes.extend_from_slice(&[0; 32]);
            self.push_buffered(0, out);
            self.bytes.clear();
            self.cells.clear();
        } else if !self.buffers_all && self.buffered_rows() >= BUFFERED_ROWS_MAX {
            self.settle(out);
        }
    }

    /// Settles the widths and lays out the buffered rows.
    pub fn settle(&mut self, out: &mut Vec<u8>) {
        self.begin_rows(out);
        for index in 0..self.buffered_rows() {
            self.push_buffered(index, out);
        }
        self.clear_buffered();
    }

    /// Settles the widths and lays out the header.
    pub fn begin_rows(&mut self, out: &mut Vec<u8>) {
        if self.settled {
            return;
        }
        self.settled = true;
        if self.drops_empty && self.buffered_rows() > 0 {
            let filled = self.filled_columns();
            if filled.contains(&true) {
                self.keep_columns(&filled);
            }
        }
        for row in self.cells.chunks(self.stride()) {
            for ((width, cell), heading) in self.widths.iter_mut().zip(row).zip(&self.headings) {
                *width = (*width).max(heading.capped(cell.width));
            }
        }
        if !self.buffers_all {
            self.widen_for_later();
        }
        if self.live {
            self.plan_one_line();
        } else {
            self.plan_lines();
        }
        if !self.no_header {
            self.push_header(out);
        }
    }

    /// Widens columns for cells that may come later, if the lines still fit, or if they are divided anyway: then each line has room for them.
    fn widen_for_later(&mut self) {
        let widths = self.widths.iter().zip(&self.headings);
        let wider: Vec<usize> = widths
            .map(|(width, heading)| heading.later_width.max(*width))
            .collect();
        let line =
            |widths: &[usize], gap| widths.iter().sum::<usize>() + gap * widths.len().saturating_sub(1);
        let fits = |widths: &[usize], gap| self.terminal.is_none_or(|terminal| line(widths, gap) <= terminal);
        if fits(&wider, self.gap) || !fits(&self.widths, 1) {
            self.widths = wider;
        }
    }

    /// Keeps only these of the buffered rows, in this order.
    pub fn select_rows(&mut self, rows: impl Iterator<Item = usize>) {
        let stride = self.stride();
        let mut bytes = Vec::new();
        let mut cells = Vec::new();
        for row in rows {
            for index in row * stride..(row + 1) * stride {
                let start = if index == 0 { 0 } else { self.cells[index - 1].end };
                bytes.extend_from_slice(&self.bytes[start..self.cells[index].end]);
                cells.push(Cell {
                    end: bytes.len(),
                    ..self.cells[index]
                });
            }
        }
        (self.bytes, self.cells) = (bytes, cells);
    }

    /// Returns the number of buffered rows.
    pub fn buffered_rows(&self) -> usize {
        self.cells.len() / self.stride()
    }

    /// Drops the buffered rows.
    pub fn clear_buffered(&mut self) {
        self.bytes = Vec::new();
        self.cells = Vec::new();
    }

    /// Lays out a buffered row.
    #[inline]
    pub fn push_buffered(&mut self, index: usize, out: &mut Vec<u8>) {
        let first = index * self.stride();
        let mut start = if first == 0 { 0 } else { self.cells[first - 1].end };
        // Blanks and line breaks wait until something follows them: no line ends with a blank or is empty.
        let mut blanks = 0;
        let mut broken = false;
        let line_width = self.terminal.filter(|_| !self.live).unwrap_or(usize::MAX);
        // Columns of the terminal that the line has so far.
        let mut used = 0;
        for column in 0..self.headings.len() {
            let cell = self.cells[first + column];
            let width = cell.width as usize;
            if width > self.widths[column] {
                self.widen(column, self.headings[column].capped(cell.width));
            }
            let padding = self.widths[column].saturating_sub(width);
            if self.breaks[column] {
                broken = true;
                blanks = INDENT;
            } else if column > 0 {
                blanks += self.gap;
            }
            if self.headings[column].align == Align::Right {
                blanks += padding;
            }
            if cell.end > start {
                if !broken && column > 0 && used + blanks + width > line_width {
                    broken = true;
                    blanks = INDENT;
                }
                if broken {
                    out.push(b'\n');
                    broken = false;
                    used = 0;
                }
                push_blanks(out, blanks);
                used += blanks;
                // A number stays with its unit.
                if used + width > line_width && self.headings[column].align == Align::Left {
                    used = self.push_long(out, &self.bytes[start..cell.end], cell.tint, used, line_width);
                } else {
                    push_tinted(out, &self.bytes[start..], cell.end - start, cell.tint, self.style);
                    used += width;
                }
                blanks = 0;
            }
            if self.headings[column].align == Align::Left {
                blanks += padding;
            }
            start = cell.end;
        }
        out.push(b'\n');
        if self.has_details {
            let end = self.cells[first + self.headings.len()].end;
            self.push_details(out, &self.bytes[start..end]);
        }
    }

    /// Widens a column for a later cell, unless lines would no longer fit then: all later ones would be broken at another place.
    #[cold]
    fn widen(&mut self, column: usize, width: usize) {
        let begin = (0..=column).rev().find(|&before| self.breaks[before]);
        let end = (column + 1..self.breaks.len()).find(|&after| self.breaks[after]);
        let columns = begin.unwrap_or(0)..end.unwrap_or(self.breaks.len());
        let widths: usize = self.widths[columns.clone()].iter().sum();
        let indent = begin.map_or(0, |_| INDENT);
        let line = indent + widths - self.widths[column] + width + self.gap * (columns.len() - 1);
        if self.live || self.terminal.is_none_or(|terminal| line <= terminal) {
            self.widths[column] = width.max(self.widths[column]);
        }
    }

    /// Appends a cell that is longer than a line, broken between words into several; the first has `used` columns already.
    /// Returns how many the last one has then.
    fn push_long(
        &self,
        out: &mut Vec<u8>,
        text: &[u8],
        tint: Tint,
        mut used: usize,
        line_width: usize,
    ) -> usize {
        let mut rest = text;
        loop {
            let (line, after) = split_line(rest, line_width.saturating_sub(used));
            push_tinted(out, line, line.len(), tint, self.style);
            if after.is_empty() {
                return used + display_width(line);
            }
            out.push(b'\n');
            push_blanks(out, INDENT);
            (rest, used) = (after, INDENT);
        }
    }

    fn push_header(&self, out: &mut Vec<u8>) {
        let mut line = Vec::new();
        let mut blanks = 0;
        for (column, heading) in self.headings.iter().enumerate() {
            let padding = self.widths[column] - display_width(&heading.text);
            if self.breaks[column] {
                self.push_header_line(out, &mut line);
                blanks = INDENT;
            } else if column > 0 {
                blanks += self.gap;
            }
            if heading.align == Align::Right {
                blanks += padding;
            }
            if !heading.text.is_empty() {
                push_blanks(&mut line, blanks);
                line.extend_from_slice(&heading.text);
                blanks = 0;
            }
            if heading.align == Align::Left {
                blanks += padding;
            }
        }
        self.push_header_line(out, &mut line);
    }

    fn push_header_line(&self, out: &mut Vec<u8>, line: &mut Vec<u8>) {
        if !line.is_empty() {
            push_tinted(out, line, line.len(), Tint::Dim, self.style);
            out.push(b'\n');
            line.clear();
        }
    }

    /// Appends a line of details, on a terminal broken between words into several.
    fn push_details(&self, out: &mut Vec<u8>, details: &[u8]) {
        let line_width = self
            .terminal
            .map_or(usize::MAX, |terminal| terminal.saturating_sub(DETAILS_INDENT));
        let mut rest = details;
        while !rest.is_empty() {
            let (line, after) = split_line(rest, line_width);
            push_blanks(out, DETAILS_INDENT);
            push_tinted(out, line, line.len(), Tint::Dim, self.style);
            out.push(b'\n');
            rest = after;
        }
    }

    #[inline]
    fn stride(&self) -> usize {
        // A table without columns must not divide by zero.
        (self.headings.len() + usize::from(self.has_details)).max(1)
    }
}

#[inline]
fn push_blanks(out: &mut Vec<u8>, count: usize) {
    if count <= BLANKS.len() {
        push_padded(out, BLANKS, count);
    } else {
        out.resize(out.len() + count, b' ');
    }
}

/// Returns the words that fit into `width`, at least one, and the rest.
fn split_line(text: &[u8], width: usize) -> (&[u8], &[u8]) {
    if text.len() <= width {
        return (text, &[]);
    }
    let is_blank = |byte: &u8| *byte == b' ';
    let fitting = text[..width + 1].iter().rposition(is_blank);
    match fitting
        .filter(|at| *at > 0)
        .or_else(|| text.iter().position(is_blank))
    {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, &[]),
    }
}

/// Rows that are buffered to find the widths: less than a megabyte. With the last of them the widths are settled.
pub const BUFFERED_ROWS_MAX: usize = 2048;
/// A full IPv6 address in brackets with its port.
const COLUMN_WIDTH_MAX: usize = 47;
/// Three parts of a sentence with names.
const UNCAPPED_WIDTH_MAX: usize = 200;
const INDENT: usize = 2;
const DETAILS_INDENT: usize = 4;
const BLANKS: &[u8; 16] = &[b' '; 16];

#[cfg(test)]
mod tests {
    use super::*;

    fn table(terminal: Option<usize>) -> Table {
        let headings = vec![
            Heading::new("State", Align::Left),
            Heading::new("Q", Align::Right),
            Heading::new("Local Address:Port", Align::Left),
            Heading::new("Process", Align::Left),
        ];
        Table::new(headings, Style::Plain, terminal)
    }

    fn push<const N: usize>(table: &mut Table, out: &mut Vec<u8>, row: [&str; N]) {
        for cell in row {
            table.cell().extend_from_slice(cell.as_bytes());
            table.end_cell(Tint::None);
        }
        table.end_row(out);
    }

    #[track_caller]
    fn check(terminal: Option<usize>, rows: &[[&str; 4]], expected: &str) {
        let (mut table, mut out) = (table(terminal), Vec::new());
        for row in rows {
            push(&mut table, &mut out, *row);
        }
        table.settle(&mut out);
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    const ROWS: &[[&str; 4]] = &[
        ["LISTEN", "0", "0.0.0.0:80", "nginx(1,fd=6)"],
        ["ESTAB", "", "[::1]:22", ""],
    ];

    #[test]
    fn columns_align_and_lines_end_without_blanks() {
        let wide = "State   Q  Local Address:Port  Process\n\
                    LISTEN  0  0.0.0.0:80          nginx(1,fd=6)\n\
                    ESTAB   -  [::1]:22\n";
        check(None, ROWS, wide);
        check(Some(44), ROWS, wide);
    }

    #[test]
    fn narrow_terminal_gets_gaps_of_one_then_further_lines() {
        let squeezed = "State  Q Local Address:Port Process\n\
                        LISTEN 0 0.0.0.0:80         nginx(1,fd=6)\n\
                        ESTAB  - [::1]:22\n";
        check(
            Some(36),
            &ROWS[1..],
            "State Q Local Address:Port Process\nESTAB - [::1]:22\n",
        );
        let folded = squeezed.replace("         nginx", "\n  nginx");
        for terminal in [35, 36, 37] {
            check(Some(terminal), ROWS, &folded);
        }
        let wrapped = "State  Q\n  Local Address:Port\n  Process\n\
                       LISTEN 0\n  0.0.0.0:80\n  nginx(1,fd=6)\n\
                       ESTAB  -\n  [::1]:22\n";
        check(Some(20), ROWS, wrapped);
        for terminal in 0..60 {
            let (mut table, mut out) = (table(Some(terminal)), Vec::new());
            push(&mut table, &mut out, ROWS[0]);
            table.settle(&mut out);
            let text = String::from_utf8(out).unwrap();
            assert!(
                ROWS[0].iter().all(|cell| text.contains(cell)),
                "{terminal}: {text}"
            );
        }
    }

    #[test]
    fn later_cells_begin_a_further_line_and_long_ones_break_between_words() {
        let headings = [
            ("Event", Align::Left),
            ("Peer", Align::Left),
            ("Sent", Align::Right),
            ("How", Align::Left),
        ];
        let headings = headings.map(|(text, align)| Heading::new(text, align));
        let mut table = Table::new(headings.into(), Style::Plain, Some(28));
        let mut out = Vec::new();
        push(&mut table, &mut out, ["open", "10.0.0.1:80", "-", ""]);
        table.settle(&mut out);
        for row in [
            ["fail", "10.0.0.1:80", "-", "reset-received ECONNREFUSED"],
            ["close", "[fd00::1:2:3:4]:443", "1200B", "fin"],
            ["close", "10.0.0.1:80", "7B", "fin"],
        ] {
            push(&mut table, &mut out, row);
        }
        let expected = "Event Peer        Sent How\n\
                        open  10.0.0.1:80    -\n\
                        fail  10.0.0.1:80    -\n  reset-received\n  ECONNREFUSED\n\
                        close [fd00::1:2:3:4]:443\n  1200B fin\n\
                        close 10.0.0.1:80    7B fin\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[track_caller]
    fn check_live(terminal: usize, expected: &str, left_out: usize) {
        let headings = [
            ("Local Address:Port", Align::Left),
            ("Connections", Align::Right),
            ("Retrans", Align::Right),
            ("Sent/s", Align::Right),
            ("Process", Align::Left),
        ];
        let headings = headings.map(|(text, align)| Heading::new(text, align));
        let mut table = Table::new(headings.into(), Style::Plain, Some(terminal));
        (table.live, table.drops_empty, table.buffers_all) = (true, true, true);
        let mut out = Vec::new();
        for row in [
            ["10.0.2.1:80", "24", "0", "17.1 KB/s", "nginx(21)"],
            ["[::1]:22", "120", "-", "0 B/s", ""],
        ] {
            push(&mut table, &mut out, row);
        }
        table.settle(&mut out);
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        assert_eq!(table.columns_left_out, left_out);
    }

    #[test]
    fn live_row_is_one_line_without_columns_of_zeros() {
        check_live(
            80,
            "Local Address:Port  Connections     Sent/s  Process\n\
             10.0.2.1:80                  24  17.1 KB/s  nginx(21)\n\
             [::1]:22                    120      0 B/s\n",
            0,
        );
        check_live(
            41,
            "Local       Connections    Sent/s Process\n\
             10.0.2.1:80          24 17.1 KB/s nginx(21)\n\
             [::1]:22            120     0 B/s\n",
            0,
        );
        check_live(
            34,
            "Local       Conn    Sent/s Process\n\
             10.0.2.1:80   24 17.1 KB/s nginx(21)\n\
             [::1]:22     120     0 B/s\n",
            0,
        );
        // A number is not cut: its column is left out.
        check_live(
            33,
            "Local       Conn Process\n\
             10.0.2.1:80   24 nginx(21)\n\
             [::1]:22     120\n",
            1,
        );
        check_live(
            5,
            "Local       Process\n\
             10.0.2.1:80 nginx(21)\n\
             [::1]:22\n",
            2,
        );
    }

    #[test]
    fn zero_with_a_unit_is_zero_and_small_is_not() {
        for text in ["", "-", "0", "0B", "0 B/s", "0bit/s"] {
            assert!(fit::is_zero(text.as_bytes()), "{text}");
        }
        for text in ["0.2", "0.2 B/s", "10", "0x1", "00"] {
            assert!(!fit::is_zero(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn divided_row_has_room_for_later_cells() {
        let headings = [("Class", 7), ("Reason", 16), ("Len", 0), ("Place", 12)];
        let headings = headings.map(|(text, later)| Heading::new(text, Align::Left).for_later(later));
        let mut table = Table::new(headings.into(), Style::Plain, Some(24));
        let mut out = Vec::new();
        push(&mut table, &mut out, ["loss", "QDISC_DROP", "50", "htb_enqueue"]);
        table.settle(&mut out);
        push(
            &mut table,
            &mut out,
            ["refusal", "NO_SOCKET", "1500", "tcp_v4_rcv"],
        );
        let expected = "Class   Reason\n  Len Place\nloss    QDISC_DROP\n  50  htb_enqueue\n\
                        refusal NO_SOCKET\n  1500 tcp_v4_rcv\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        // The last column is counted whole.
        let headings = [("Class", 7), ("Place", 1)];
        let headings = headings.map(|(text, later)| Heading::new(text, Align::Left).for_later(later));
        let mut table = Table::new(headings.into(), Style::Plain, Some(18));
        let mut out = Vec::new();
        push(&mut table, &mut out, ["refusal", "__udp4_lib_rcv"]);
        table.settle(&mut out);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "Class\n  Place\nrefusal\n  __udp4_lib_rcv\n"
        );
    }

    #[test]
    fn later_wider_cell_widens_its_column_up_to_a_limit() {
        let (mut table, mut out) = (table(None), Vec::new());
        for _ in 0..BUFFERED_ROWS_MAX {
            push(&mut table, &mut out, ["ESTAB", "0", "a", "p"]);
        }
        out.clear();
        let long = "x".repeat(200);
        push(&mut table, &mut out, ["ESTAB", "12345", "a", "p"]);
        push(&mut table, &mut out, ["ESTAB", "0", "a", "p"]);
        push(&mut table, &mut out, ["ESTAB", "0", &long, "p"]);
        push(&mut table, &mut out, ["ESTAB", "0", "a", "p"]);
        let blanks = " ".repeat(46);
        let expected = format!(
            "ESTAB  12345  a                   p\nESTAB      0  a                   p\n\
             ESTAB      0  {long}  p\nESTAB      0  a{blanks}  p\n"
        );
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        assert!(table.bytes.is_empty());
    }
}

//! Parquet files of flat columns: numbers, times and texts, each of which may be absent.
//!
//! Written here, since the crate of Apache Arrow brings 28 packages for what takes two hundred lines: of the format's encodings a file
//! needs one for numbers, one for texts and one for what is absent. <https://parquet.apache.org/docs/file-format/>

mod compact;

use compact::{Struct, push_number};
use std::collections::HashMap;
use std::io::{self, Write};

/// A column.
#[derive(Debug, Clone, Copy)]
pub struct ParquetColumn {
    /// Its name.
    pub name: &'static str,
    /// What its values are.
    pub kind: ParquetKind,
}

/// What the values of a column are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParquetKind {
    /// Whole numbers; one above 2^63 - 1 becomes that.
    Number,
    /// Times in milliseconds since 1970, in UTC.
    TimeMs,
    /// Texts.
    Text,
}

/// A value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParquetValue<'a> {
    /// There is none.
    Absent,
    /// A number or a time.
    Number(u64),
    /// A text.
    Text(&'a str),
}

/// Compresses a page with zstd.
pub type Compress<'a> = &'a dyn Fn(&[u8]) -> io::Result<Vec<u8>>;

/// A file that is written row by row. Rows are in memory until there are enough for a group.
pub struct ParquetWriter<'a, W> {
    out: W,
    written: u64,
    compress: Compress<'a>,
    columns: &'a [ParquetColumn],
    /// Values of the group in hand, by column.
    cells: Vec<Cells>,
    rows: usize,
    rows_total: usize,
    groups: Vec<Struct>,
}

/// The values of a column in a group.
#[derive(Debug, Default)]
struct Cells {
    /// Whether each is there.
    are_there: Vec<bool>,
    numbers: Vec<u64>,
    /// Places of texts in the dictionary.
    places: Vec<u32>,
    dictionary: HashMap<String, u32>,
    texts: Vec<u8>,
}

impl<W> std::fmt::Debug for ParquetWriter<'_, W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ParquetWriter").finish_non_exhaustive()
    }
}

impl<'a, W: Write> ParquetWriter<'a, W> {
    /// Begins a file.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn begin(mut out: W, columns: &'a [ParquetColumn], compress: Compress<'a>) -> io::Result<Self> {
        out.write_all(MAGIC)?;
        Ok(Self {
            out,
            written: MAGIC.len() as u64,
            compress,
            columns,
            cells: columns.iter().map(|_| Cells::default()).collect(),
            rows: 0,
            rows_total: 0,
            groups: Vec::new(),
        })
    }

    /// Adds a row: a value for each column, of its kind. What is missing or of another kind is absent.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn row(&mut self, values: &[ParquetValue<'_>]) -> io::Result<()> {
        for ((cells, column), nth) in self.cells.iter_mut().zip(self.columns).zip(0..) {
            cells.push(
                column.kind,
                values.get(nth).copied().unwrap_or(ParquetValue::Absent),
            );
        }
        self.rows += 1;
        self.rows_total += 1;
        if self.rows >= GROUP_ROWS {
            self.end_group()
        } else {
            Ok(())
        }
    }

    /// Writes what is in memory and the end of the file.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn finish(mut self) -> io::Result<W> {
        if self.rows > 0 {
            self.end_group()?;
        }
        let root = Struct::default()
            .text(4, "schema")
            .i32(5, self.columns.len() as i32);
        let mut schema = vec![root];
        schema.extend(self.columns.iter().map(ParquetColumn::schema));
        let metadata = Struct::default()
            .i32(1, 1)
            .structs(2, schema)
            .i64(3, self.rows_total as i64)
            .structs(4, self.groups)
            .text(6, "sockeye")
            .finish();
        self.out.write_all(&metadata)?;
        self.out.write_all(&(metadata.len() as u32).to_le_bytes())?;
        self.out.write_all(MAGIC)?;
        Ok(self.out)
    }

    fn end_group(&mut self) -> io::Result<()> {
        let begin = self.written;
        let (mut chunks, mut raw_total) = (Vec::new(), 0);
        for nth in 0..self.columns.len() {
            let (column, cells) = (self.columns[nth], std::mem::take(&mut self.cells[nth]));
            let count = cells.are_there.len();
            let first = self.written;
            let mut raw = 0;
            let is_text = column.kind == ParquetKind::Text;
            if is_text {
                let header = Struct::default()
                    .i32(1, cells.dictionary.len() as i32)
                    .i32(2, PLAIN);
                raw += self.page(DICTIONARY_PAGE, 7, header, &cells.texts)?;
            }
            let data = self.written;
            let encoding = if is_text { RLE_DICTIONARY } else { PLAIN };
            let header = Struct::default()
                .i32(1, count as i32)
                .i32(2, encoding)
                .i32(3, RLE)
                .i32(4, RLE);
            raw += self.page(DATA_PAGE, 5, header, &cells.page(is_text))?;
            raw_total += raw;
            let mut metadata = Struct::default()
                .i32(1, column.kind.physical())
                .integers(2, &[encoding, RLE, PLAIN])
                .texts(3, &[column.name])
                .i32(4, ZSTD)
                .i64(5, count as i64)
                .i64(6, raw)
                .i64(7, (self.written - first) as i64)
                .i64(9, data as i64);
            if is_text {
                metadata = metadata.i64(11, first as i64);
            }
            chunks.push(Struct::default().i64(2, first as i64).inner(3, metadata));
        }
        let group = Struct::default()
            .structs(1, chunks)
            .i64(2, raw_total)
            .i64(3, self.rows as i64)
            .i64(5, begin as i64);
        self.groups.push(group);
        self.rows = 0;
        Ok(())
    }

    /// Writes a page. Returns its bytes with its header, before they were compressed.
    fn page(&mut self, kind: i32, header_id: u8, header: Struct, data: &[u8]) -> io::Result<i64> {
        let compressed = (self.compress)(data)?;
        let header = Struct::default()
            .i32(1, kind)
            .i32(2, data.len() as i32)
            .i32(3, compressed.len() as i32)
            .inner(header_id, header)
            .finish();
        self.out.write_all(&header)?;
        self.out.write_all(&compressed)?;
        self.written += (header.len() + compressed.len()) as u64;
        Ok((header.len() + data.len()) as i64)
    }
}

impl Cells {
    fn push(&mut self, kind: ParquetKind, value: ParquetValue<'_>) {
        let is_there = match (kind, value) {
            (ParquetKind::Text, ParquetValue::Text(text)) => {
                self.push_text(text);
                true
            }
            (ParquetKind::Number | ParquetKind::TimeMs, ParquetValue::Number(number)) => {
                self.numbers.push(number);
                true
            }
            _ => false,
        };
        self.are_there.push(is_there);
    }

    fn push_text(&mut self, text: &str) {
        if let Some(place) = self.dictionary.get(text) {
            return self.places.push(*place);
        }
        let place = self.dictionary.len() as u32;
        self.dictionary.insert(text.to_owned(), place);
        self.texts.extend_from_slice(&(text.len() as u32).to_le_bytes());
        self.texts.extend_from_slice(text.as_bytes());
        self.places.push(place);
    }

    /// Returns the data page: which values are there, with its length, and the values.
    fn page(&self, is_text: bool) -> Vec<u8> {
        let levels = runs(&self.are_there);
        let mut page = (levels.len() as u32).to_le_bytes().to_vec();
        page.extend_from_slice(&levels);
        if is_text {
            push_packed(&mut page, &self.places, self.dictionary.len());
        } else {
            for number in &self.numbers {
                page.extend_from_slice(&i64::try_from(*number).unwrap_or(i64::MAX).to_le_bytes());
            }
        }
        page
    }
}

/// Returns bits as runs: twice the length, and the bit.
fn runs(bits: &[bool]) -> Vec<u8> {
    let mut out = Vec::new();
    for run in bits.chunk_by(|a, b| a == b) {
        push_number(&mut out, (run.len() as u64) << 1);
        out.push(run.first().copied().unwrap_or_default().into());
    }
    out
}

/// Appends places below `count`: the number of bits of each, and one run of eights, packed from the lowest bit on.
fn push_packed(out: &mut Vec<u8>, places: &[u32], count: usize) {
    let width = (usize::BITS - count.saturating_sub(1).leading_zeros()).max(1);
    out.push(width as u8);
    let eights = places.len().div_ceil(8);
    push_number(out, (eights as u64) << 1 | 1);
    let (mut bits, mut filled) = (0_u64, 0);
    for nth in 0..eights * 8 {
        let place = places.get(nth).copied().unwrap_or(0);
        bits |= u64::from(place) << filled;
        filled += width;
        while filled >= 8 {
            out.push(bits as u8);
            bits >>= 8;
            filled -= 8;
        }
    }
}

impl ParquetColumn {
    fn schema(&self) -> Struct {
        let element = Struct::default()
            .i32(1, self.kind.physical())
            .i32(3, OPTIONAL)
            .text(4, self.name);
        match self.kind {
            ParquetKind::Number => element,
            ParquetKind::Text => {
                let text = Struct::default().inner(1, Struct::default());
                element.i32(6, CONVERTED_TEXT).inner(10, text)
            }
            ParquetKind::TimeMs => {
                let unit = Struct::default().inner(1, Struct::default());
                let time = Struct::default().boolean(1, true).inner(2, unit);
                element
                    .i32(6, CONVERTED_TIME_MS)
                    .inner(10, Struct::default().inner(8, time))
            }
        }
    }
}

impl ParquetKind {
    const fn physical(self) -> i32 {
        match self {
            Self::Number | Self::TimeMs => 2,
            Self::Text => 6,
        }
    }
}

const MAGIC: &[u8] = b"PAR1";
/// Rows of a group: some megabytes of memory.
const GROUP_ROWS: usize = 65_536;

// Numbers of parquet.thrift: encodings, pages, a codec, a repetition, converted types.
const PLAIN: i32 = 0;
const RLE: i32 = 3;
const RLE_DICTIONARY: i32 = 8;
const DATA_PAGE: i32 = 0;
const DICTIONARY_PAGE: i32 = 2;
const ZSTD: i32 = 6;
const OPTIONAL: i32 = 1;
const CONVERTED_TEXT: i32 = 0;
const CONVERTED_TIME_MS: i32 = 9;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_packed_from_the_lowest_bit_on() {
        let mut out = Vec::new();
        push_packed(&mut out, &[0, 1, 2, 3, 4, 5, 6, 7, 1], 8);
        // The example of the format's description, and eight more.
        assert_eq!(out, [3, 5, 0b1000_1000, 0b1100_0110, 0b1111_1010, 1, 0, 0]);
        let mut one = Vec::new();
        push_packed(&mut one, &[0; 3], 1);
        assert_eq!(one, [1, 3, 0]);
    }

    #[test]
    fn runs_have_their_length_and_bit() {
        assert_eq!(runs(&[true, true, false]), [4, 1, 2, 0]);
        assert!(runs(&[]).is_empty());
        assert_eq!(runs(&[true; 64]), [0x80, 1, 1]);
    }

    #[test]
    fn file_begins_and_ends_with_its_magic_and_the_length_of_its_metadata() {
        let columns = [
            ParquetColumn {
                name: "peer",
                kind: ParquetKind::Text,
            },
            ParquetColumn {
                name: "bytes",
                kind: ParquetKind::Number,
            },
        ];
        let same = |page: &[u8]| Ok(page.to_vec());
        let mut writer = ParquetWriter::begin(Vec::new(), &columns, &same).unwrap();
        writer
            .row(&[ParquetValue::Text("a"), ParquetValue::Number(7)])
            .unwrap();
        writer
            .row(&[ParquetValue::Absent, ParquetValue::Number(u64::MAX)])
            .unwrap();
        writer.row(&[ParquetValue::Text("a")]).unwrap();
        let file = writer.finish().unwrap();
        assert!(file.starts_with(MAGIC) && file.ends_with(MAGIC));
        let place = file.len() - 8;
        let len = u32::from_le_bytes(file[place..place + 4].try_into().unwrap()) as usize;
        let metadata = &file[place - len..place];
        // Version 1, and a schema of three elements.
        assert_eq!(metadata[..5], [0x15, 2, 0x19, 0x3c, 0x48]);
        // The dictionary has the text once.
        let text = b"\x01\x00\x00\x00a";
        assert_eq!(file.windows(5).filter(|bytes| bytes == text).count(), 1);
        // The last of its numbers is absent; one is too large.
        let numbers = [
            &[4, 0, 0, 0, 4, 1, 2, 0, 7, 0, 0, 0, 0, 0, 0, 0][..],
            &[0xff; 7],
            &[0x7f],
        ]
        .concat();
        assert!(file.windows(numbers.len()).any(|bytes| bytes == numbers));
    }
}

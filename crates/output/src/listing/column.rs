//! The definition of a column.

use super::sort_value::SortValue;
use super::value::Value;
use crate::csv::Line;
use crate::json::{Key, Object};
use crate::table::{Align, Tint};
use crate::unit::Unit;
use sockeye_model::Detail;
use std::fmt;
use std::ops::Range;

/// A kind of record that can be listed.
pub trait Record: Sized + 'static {
    /// One record, and what its cells also need: names, values that were gathered before.
    type Row<'a>;

    /// Key of the array of records in a JSON document, and `type` of the document.
    const KEY: &'static str;

    /// `type` of a record in a JSON line.
    const ROW: &'static str;

    /// Every column, in the order of CSV and JSON.
    fn columns() -> &'static [Column<Self>];

    /// Writes the objects of a record that have a column for each field, like `tcp_info`.
    fn push_objects(_object: &mut Object<'_>, _row: &Self::Row<'_>) {}
}

/// The one definition of a column: its name, its heading, its value in every format, and what it needs.
pub struct Column<R: Record> {
    /// Name for `--columns`, `--sort`; also the only CSV field and JSON key, if there are no other `fields`.
    pub name: &'static str,
    /// Heading in a table.
    pub heading: &'static str,
    /// Alignment in a table.
    pub align: Align,
    /// Width of cells in a table that may come after its first rows, where rows are written as they come.
    pub(super) later_width: u8,
    pub(super) is_uncapped: bool,
    /// Unit of a number, which decides how a table shows it.
    pub unit: Unit,
    /// What the column shows, for `--columns help`.
    pub about: &'static str,
    /// Other names that `--columns` and `--sort` take.
    pub aliases: &'static [&'static str],
    /// What has to be asked of the kernel.
    pub needs: Detail,
    /// The value.
    pub cells: Cells<R>,
    /// Second argument of the function in [`Cells::Value`].
    pub index: u8,
    /// Writes the CSV fields of this and following columns of one structure, if their indices follow each other.
    pub(super) series: Option<Series<R>>,
    fields: &'static [&'static str],
    json: Option<&'static [&'static str]>,
    /// Whether its JSON field is in an object that something else writes.
    is_nested: bool,
}

/// Appends the CSV fields of columns with consecutive indices. A structure of many numbers, like tcp_info, is most of a
/// line: one call for all of its fields costs a fraction of one call for each.
pub type Series<R> = fn(&mut Line<'_>, &<R as Record>::Row<'_>, Range<u8>);

/// Where the value of a column comes from.
pub enum Cells<R: Record> {
    /// A simple value, which every format shows in its own way.
    Value(for<'r, 'a> fn(&'r R::Row<'a>, u8) -> Value<'r>),
    /// A value with parts, which shows itself.
    Composite(&'static dyn Composite<R>),
}

/// A value with parts: an address, a queue, a list of owners.
pub trait Composite<R: Record>: Sync {
    /// Appends the cell of a table; nothing if the value is absent.
    fn push_cell(&self, out: &mut Vec<u8>, row: &R::Row<'_>) -> Tint;

    /// Appends as many CSV fields as the column has.
    fn push_csv(&self, line: &mut Line<'_>, row: &R::Row<'_>);

    /// Appends the JSON fields; none if the value is absent.
    fn push_json(&self, object: &mut Object<'_>, row: &R::Row<'_>);

    /// Returns what rows are sorted by; `None` if the value is absent.
    fn sort_value(&self, row: &R::Row<'_>) -> Option<SortValue>;
}

impl<R: Record> Column<R> {
    /// Creates a column with a simple value.
    pub const fn value(
        name: &'static str,
        heading: &'static str,
        align: Align,
        about: &'static str,
        value: for<'r, 'a> fn(&'r R::Row<'a>, u8) -> Value<'r>,
    ) -> Self {
        Self::new(name, heading, align, about, Cells::Value(value))
    }

    /// Creates a column for a value with parts: the CSV fields `fields`, and the JSON fields `json` (paths from the
    /// record, with dots).
    pub const fn composite(
        name: &'static str,
        heading: &'static str,
        align: Align,
        about: &'static str,
        composite: &'static dyn Composite<R>,
        fields: &'static [&'static str],
        json: &'static [&'static str],
    ) -> Self {
        let mut column = Self::new(name, heading, align, about, Cells::Composite(composite));
        column.fields = fields;
        column.json = Some(json);
        column
    }

    const fn new(
        name: &'static str,
        heading: &'static str,
        align: Align,
        about: &'static str,
        cells: Cells<R>,
    ) -> Self {
        Self {
            name,
            heading,
            align,
            later_width: 0,
            is_uncapped: false,
            unit: Unit::None,
            about,
            aliases: &[],
            needs: Detail::NONE,
            cells,
            index: 0,
            series: None,
            fields: &[],
            json: None,
            is_nested: false,
        }
    }

    /// Sets the unit of its numbers.
    #[must_use]
    pub const fn unit(mut self, unit: Unit) -> Self {
        self.unit = unit;
        self
    }

    /// Sets what has to be asked of the kernel.
    #[must_use]
    pub const fn needs(mut self, needs: Detail) -> Self {
        self.needs = needs;
        self
    }

    /// Sets the width of cells that may come after the first rows.
    #[must_use]
    pub const fn for_later(mut self, later_width: u8) -> Self {
        self.later_width = later_width;
        self
    }

    /// Makes the column as wide as its cells: others come behind a long sentence.
    #[must_use]
    pub const fn uncapped(mut self) -> Self {
        self.is_uncapped = true;
        self
    }

    /// Sets further names.
    #[must_use]
    pub const fn aliases(mut self, aliases: &'static [&'static str]) -> Self {
        self.aliases = aliases;
        self
    }

    /// Sets the CSV fields and JSON keys, where the name is not the only one.
    #[must_use]
    pub const fn fields(mut self, fields: &'static [&'static str]) -> Self {
        self.fields = fields;
        self
    }

    /// Sets the JSON fields, where they are not the CSV fields. A path with a dot is written by the column, or by the
    /// [`Record::push_objects`], that writes the object.
    #[must_use]
    pub const fn json(mut self, json: &'static [&'static str]) -> Self {
        self.json = Some(json);
        self.is_nested = !json.is_empty() && has_dot(json[0]);
        self
    }

    /// Marks a part of another column, which can be chosen alone: JSON and the CSV of all columns have it there.
    #[must_use]
    pub const fn part(mut self) -> Self {
        self.json = Some(&[]);
        self
    }

    /// Whether JSON and the CSV of all columns have its value in another column.
    pub fn is_part(&self) -> bool {
        self.json_paths().is_empty()
    }

    /// Sets the second argument of the function for its value.
    #[must_use]
    pub const fn index(mut self, index: u8) -> Self {
        self.index = index;
        self
    }

    /// Sets what writes the CSV fields of several such columns.
    #[must_use]
    pub const fn series(mut self, series: Series<R>) -> Self {
        self.series = Some(series);
        self
    }

    /// Returns its CSV fields; none for a column that only tables show.
    pub fn csv_fields(&self) -> &[&'static str] {
        match self.cells {
            Cells::Value(_) if self.fields.is_empty() => std::slice::from_ref(&self.name),
            _ => self.fields,
        }
    }

    /// Returns the paths of its JSON fields, with dots.
    pub fn json_paths(&self) -> &[&'static str] {
        self.json.unwrap_or_else(|| self.csv_fields())
    }

    /// Whether this column writes JSON itself, and no object of the record does it.
    pub(super) const fn writes_json(&self) -> bool {
        matches!(self.cells, Cells::Composite(_)) || !self.is_nested
    }

    /// Appends the cell of a table; nothing if the value is absent.
    #[inline]
    pub fn push_cell(&self, out: &mut Vec<u8>, row: &R::Row<'_>) -> Tint {
        match &self.cells {
            Cells::Composite(composite) => composite.push_cell(out, row),
            Cells::Value(value) => value(row, self.index).push_cell(out, self.unit),
        }
    }

    /// Appends its CSV fields.
    pub(super) fn push_csv(&self, line: &mut Line<'_>, row: &R::Row<'_>) {
        match &self.cells {
            Cells::Composite(composite) => composite.push_csv(line, row),
            Cells::Value(value) => value(row, self.index).push_csv(line, self.csv_fields().len()),
        }
    }

    /// Appends its JSON fields.
    pub(super) fn push_json(&self, object: &mut Object<'_>, row: &R::Row<'_>) {
        match &self.cells {
            Cells::Composite(composite) => composite.push_json(object, row),
            Cells::Value(value) if self.writes_json() => {
                value(row, self.index).push_json(object, self.json_paths());
            }
            Cells::Value(_) => {}
        }
    }

    /// Returns its keys as rows have them; none if one is too long, or if it writes its JSON fields itself.
    pub(super) fn prepared_keys(&self) -> Vec<Key> {
        match self.cells {
            Cells::Composite(_) => Vec::new(),
            Cells::Value(_) => {
                let keys = self.json_paths().iter().map(|key| Key::new(key));
                keys.collect::<Option<_>>().unwrap_or_default()
            }
        }
    }

    /// Appends its JSON fields, with its keys as [`Self::prepared_keys`] returned them.
    #[inline]
    pub(super) fn push_prepared_json(&self, object: &mut Object<'_>, keys: &[Key], row: &R::Row<'_>) {
        match &self.cells {
            Cells::Value(value) if !keys.is_empty() => {
                value(row, self.index).push_prepared_json(object, keys, self.json_paths());
            }
            _ => self.push_json(object, row),
        }
    }

    /// Returns what rows are sorted by; `None` if the value is absent.
    pub fn sort_value(&self, row: &R::Row<'_>) -> Option<SortValue> {
        match &self.cells {
            Cells::Composite(composite) => composite.sort_value(row),
            Cells::Value(value) => value(row, self.index).sort_value(),
        }
    }
}

const fn has_dot(path: &str) -> bool {
    let bytes = path.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == b'.' {
            return true;
        }
        at += 1;
    }
    false
}

impl<R: Record> fmt::Debug for Column<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Columns are equal if their names are: a name is unique among the columns of a kind.
impl<R: Record> PartialEq for Column<R> {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl<R: Record> Eq for Column<R> {}

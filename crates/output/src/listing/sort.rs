//! Sorting of records by the value of a column.

use super::column::{Column, Record};
use super::find::{UnknownColumn, find_column};
use super::sort_value::SortValue;
use std::cmp::Ordering;
use std::fmt;

/// The column and direction that a listing is sorted by.
pub struct SortKey<R: Record> {
    /// The column, whether it is shown or not.
    pub column: &'static Column<R>,
    /// Largest first. Absent values come last in either direction; equal rows keep their order.
    pub descending: bool,
}

impl<R: Record> SortKey<R> {
    /// Parses the name of a column, which means ascending; with `-` before it descending, as in ps: `rtt`, `-rtt`.
    ///
    /// # Errors
    /// If there is no such column.
    pub fn parse(text: &str) -> Result<Self, UnknownColumn> {
        let text = text.trim();
        let descending = text.strip_prefix('-');
        Ok(Self {
            column: find_column(descending.unwrap_or(text))?,
            descending: descending.is_some(),
        })
    }

    /// Compares two values by this key.
    pub fn compare(&self, a: Option<&SortValue>, b: Option<&SortValue>) -> Ordering {
        match (a, b) {
            (Some(a), Some(b)) => a.compare(b, self.descending),
            (a, b) => b.is_some().cmp(&a.is_some()),
        }
    }

    /// Returns the order of rows with these values, as indices into `values`.
    pub fn order(&self, values: &[Option<SortValue>]) -> Vec<usize> {
        let mut order: Vec<usize> = (0..values.len()).collect();
        order.sort_by(|&a, &b| self.compare(values[a].as_ref(), values[b].as_ref()));
        order
    }
}

impl<R: Record> Clone for SortKey<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R: Record> Copy for SortKey<R> {}

impl<R: Record> fmt::Debug for SortKey<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", if self.descending { "-" } else { "" }, self.column)
    }
}

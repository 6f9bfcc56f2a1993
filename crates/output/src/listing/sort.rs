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
        SortValue::compare_known(a, b, self.descending)
    }

    /// Returns the order of rows with these values, as indices into `values`.
    pub fn order(&self, values: &[Option<SortValue>]) -> Vec<usize> {
        let mut order: Vec<usize> = (0..values.len()).collect();
        order.sort_by(|&a, &b| self.compare(values[a].as_ref(), values[b].as_ref()));
        order
    }

    /// Returns the order of rows with these values, as [`order`](Self::order) does. Numbers, which most columns have, are kept and
    /// compared without anything around them.
    pub fn order_of(&self, mut values: impl Iterator<Item = Option<SortValue>>) -> Vec<usize> {
        let (mut numbers, mut absent) = (Vec::with_capacity(values.size_hint().0), Vec::new());
        for index in 0.. {
            match values.next() {
                Some(Some(SortValue::Number(number))) if self.descending => numbers.push((!number, index)),
                Some(Some(SortValue::Number(number))) => numbers.push((number, index)),
                Some(None) => absent.push(index),
                Some(other) => return self.order_with(&numbers, index, other, values),
                None => break,
            }
        }
        numbers.sort_by_key(|(number, _)| *number);
        numbers
            .into_iter()
            .map(|(_, index)| index)
            .chain(absent)
            .collect()
    }

    /// Returns the order of rows of which the first `count` have these numbers or none, the next has `value`, and the rest `values`.
    fn order_with(
        &self,
        numbers: &[(u64, usize)],
        count: usize,
        value: Option<SortValue>,
        values: impl Iterator<Item = Option<SortValue>>,
    ) -> Vec<usize> {
        let mut all = vec![None; count];
        for (number, index) in numbers {
            let number = if self.descending { !number } else { *number };
            all[*index] = Some(SortValue::Number(number));
        }
        all.push(value);
        all.extend(values);
        self.order(&all)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::Sockets;

    #[test]
    fn both_ways_of_sorting_agree() {
        let number = |number| Some(SortValue::Number(number));
        let text = |text: &[u8]| Some(SortValue::Text(text.into()));
        for values in [
            vec![],
            vec![None, None],
            vec![
                number(3),
                None,
                number(1),
                number(3),
                number(0),
                number(u64::MAX),
                None,
            ],
            vec![number(3), None, text(b"b"), text(b"a"), None, number(1)],
            vec![text(b"b"), text(b"a")],
        ] {
            for descending in [false, true] {
                let key = SortKey::<Sockets> {
                    descending,
                    ..SortKey::parse("inode").unwrap()
                };
                let order = key.order_of(values.iter().cloned());
                assert_eq!(order, key.order(&values), "{values:?}, {descending}");
            }
        }
    }
}

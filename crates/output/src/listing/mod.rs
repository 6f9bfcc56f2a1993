//! Listings of records of any kind: each kind has one table of columns, from which tables, JSON, CSV, sorting, `--columns
//! help` and what has to be asked of the kernel follow.
//!
//! To add a column, add an entry to the table of its kind ([`Record::columns`]); a test compares it with the schema.

mod column;
mod find;
mod fitted_columns;
mod sort;
mod sort_value;
mod value;
mod writer;

pub use crate::table::Align;
pub use column::{Cells, Column, Composite, Record, Series};
pub use find::{
    ColumnNames, UnknownColumn, all_columns, check_columns, column_names, columns_help, find_column,
    named_columns, parse_columns,
};
pub use fitted_columns::FittedColumns;
pub use sort::SortKey;
pub use sort_value::SortValue;
pub use value::Value;
pub use writer::{Layout, ListingWriter, WAITING_BYTES, push_json_row};

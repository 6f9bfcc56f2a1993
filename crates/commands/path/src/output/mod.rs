//! The table of hops, and what follows it.
//!
//! - `columns`: columns of hops
//! - `text`: the picture for a terminal, and the sentences
//! - `picture`: the picture as SVG

mod columns;
mod picture;
mod text;

pub(crate) use columns::{HopRow, Hops, fit_columns, part_name, table_columns};
pub(crate) use picture::write_picture;
pub(crate) use text::push_text;

//! The table of hops, and what follows it.
//!
//! - `columns`: columns of hops
//! - `standing`: a queue that stands still, for both pictures
//! - `text`: the picture for a terminal, and the sentences
//! - `picture`: the picture as SVG

mod columns;
mod picture;
mod standing;
mod text;

pub(crate) use columns::{HopRow, Hops, fit_columns, netns_of, part_name, table_columns};
pub(crate) use picture::write_picture;
pub(crate) use text::push_text;

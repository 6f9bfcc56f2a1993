//! Columns of `history`.

mod count;
mod difference;
mod finding;
mod kept;
mod point;
mod sums;
mod timeline_picture;
mod top;

pub(crate) use count::{CountRow, CountRows};
pub(crate) use difference::{DifferenceRows, Ends};
pub(crate) use finding::{FindingRow, FindingRows};
pub(crate) use kept::{KeptRow, KeptRows, kept_rows};
pub(crate) use point::{PointRow, PointRows, SPARKLINE_MARGIN, push_sparklines};
pub(crate) use sums::{SUM_COLUMNS, SumRow, SumRows, sum_values};
pub(crate) use timeline_picture::timeline_picture;
pub(crate) use top::{TopRow, TopRows};

//! The columns of answers. Pure: times and rows are arguments.

mod blame;
mod edge;
mod finding;
mod host;
mod map_picture;
mod service;

pub(crate) use blame::{BlameRow, BlameRows};
pub(crate) use edge::{EdgeRow, EdgeRows};
pub(crate) use finding::{FindingRow, FindingRows};
pub(crate) use host::{HostRow, HostRows};
pub(crate) use map_picture::map_picture;
pub(crate) use service::ServiceRows;

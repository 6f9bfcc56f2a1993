//! Records that only `top` lists: drops, devices, findings and processes. Their columns are the one place that defines them.

mod device;
mod drop;
mod finding;
mod process;

pub(crate) use device::{DeviceRow, Devices};
pub(crate) use drop::{DropRow, Drops};
pub(crate) use finding::{FindingRow, Findings};
pub(crate) use process::{ProcessRow, Processes};

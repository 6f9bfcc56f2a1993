//! Requests of the OpenTelemetry protocol.

mod convert;
mod logs;
mod messages;
mod resource;

pub(crate) use convert::{Period, request};
pub(crate) use logs::{ended_record, finding_record, logs_request};
#[cfg(test)]
pub(crate) use messages::PartialSuccess;
pub(crate) use messages::{ExportResponse, LogRecord};
pub(crate) use resource::{HostAttributes, percent_decoded, resource};

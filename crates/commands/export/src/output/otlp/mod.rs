//! Requests of the OpenTelemetry protocol.

mod convert;
mod messages;
mod resource;

pub(crate) use convert::{Period, request};
pub(crate) use resource::{percent_decoded, resource};

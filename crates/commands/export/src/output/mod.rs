//! The formats; pure.

mod exposition;
pub(crate) mod otlp;

pub(crate) use exposition::{Exposition, Form};

//! What the reports of several benchmarks share.

pub(crate) mod figures;
mod rates;

pub(crate) use rates::{rate_columns, rate_values};

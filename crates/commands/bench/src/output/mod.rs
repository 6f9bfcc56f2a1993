//! Figures and rates that the reports of several benchmarks show in the same way. Pure: no file, socket or clock.

pub(crate) mod figures;
mod rates;

pub(crate) use rates::{rate_columns, rate_values};

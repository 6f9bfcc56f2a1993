//! `sockeye bench tun`: the cost of the queue of a tunnel's device.

mod args;
mod device;
mod device_report;
mod run;
mod sweep;
mod sweep_report;

pub(crate) use args::TunArgs;
pub(crate) use run::run;

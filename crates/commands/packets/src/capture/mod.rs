//! `sockeye capture`: packets of an interface, written to a file.

mod args;
mod counts;
mod filter;
mod interface;
mod owner_comments;
mod privileges;
mod progress;
mod recorder;
mod run;
mod session;
mod socket_table;
mod target;
mod values;

pub use args::CaptureArgs;
pub use run::run;

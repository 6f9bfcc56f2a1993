//! `sockeye drops`: packets that the kernel drops, why and whose, and the counters that they explain.
//!
//! - `args`, `run`: what can be typed, and what it does
//! - `sockets`: owners of sockets, by inode and by addresses
//! - `rows`: what the kernel counted, with names and owners
//! - `counters`: counters before and after
//! - `output`: columns

mod args;
mod counters;
mod output;
mod rows;
mod run;
mod sockets;

pub use args::DropsArgs;
pub use run::run;

//! `sockeye events` and `sockeye drops`: what happens to connections and packets, as it happens, with its owner.
//!
//! It deliberately does not change anything, keeps no history beyond its summary, and does not judge what it shows: `check` does.
//!
//! - `clock`: times of the kernel's records
//! - `drops`: dropped packets, and the counters that they explain
//! - `events`: opens, closes and what happens between; `args`, `run`, `output`

mod clock;
pub mod drops;
pub mod events;

//! `sockeye events`: what happens to connections, as it happens, with its owner.
//!
//! It deliberately does not change anything, keeps no history beyond its summary, and does not judge what it shows: `check` does.
//!
//! - `events`: opens, closes and what happens between; `args`, `run`, `output`

pub mod events;

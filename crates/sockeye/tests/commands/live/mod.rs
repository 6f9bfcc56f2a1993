//! `sockeye events` and `sockeye drops` on the live kernel.

mod drops;
mod events;

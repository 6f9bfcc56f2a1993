//! `sockeye events` on the live kernel.

mod events;

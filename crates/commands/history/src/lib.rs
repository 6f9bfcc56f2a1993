//! `sockeye record` keeps what happens in bounded space, and `sockeye history` answers from it.
//!
//! - `record/`: takes samples and adds them to a store
//! - `history/`: what is kept, who talked most, what differs between two times, a selection over time, copies
//! - `listing_args`: the options of a listing that both need
//! - `output/`: the columns of `history`
//!
//! Listings look back themselves: `flows --at`, by `sockeye_query::past`.
//!
//! What it deliberately does not do: read sockets (`sockeye_query`), write the file (`sockeye_store`), record packets.

mod history;
mod listing_args;
mod output;
mod record;
mod values;

pub use history::{HistoryArgs, run as history};
pub use record::{RecordArgs, run as record};

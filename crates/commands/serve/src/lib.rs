//! `sockeye serve`: a page in the browser with flows, findings, a map and a timeline, of now, of the last 15 minutes, and of what
//! `sockeye record` has kept.
//!
//! It deliberately changes nothing on the host and writes nothing to disk.
//!
//! - `args`, `run`: arguments, and the threads that they start
//! - `announce`: prints one-time URLs
//! - `sampler`: takes samples and looks for findings, and waits for no request
//! - `moments`: what memory keeps of the past, and the times of which nothing is known
//! - `fleet`: many hosts, which a ClickHouse server knows
//! - `recorded`: the same from the store of `record`; `history`: which of them answers for a time
//! - `view`: which flows are shown, in which order, and sums of them; pure
//! - `output`: documents and events for the page; pure
//! - `access`: who may read: host names, one-time URLs, secrets, cookies; the certificate
//! - `http`: answers and fields of requests; `routes`: from a request to its answer
//! - `program`: other commands, each in a process of its own
//! - `assets`: the files of the page, in `page/`
//!
//! # Who waits for whom
//! The sampler never waits: readers copy references to samples, which do not change. A stream of live data makes its next event when
//! its reader took the last one, from the newest sample. Every queue has a bound: connections, streams, answers that are computed at
//! a time, bytes and time of other commands.

mod access;
mod announce;
mod args;
mod assets;
mod fleet;
mod history;
mod http;
mod moments;
mod output;
mod program;
mod recorded;
mod routes;
mod run;
mod sampler;
mod view;

pub use args::ServeArgs;
pub use run::run;

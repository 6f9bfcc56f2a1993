//! `sockeye ss`, or a link of that name: the output of `ss` of iproute2 6.1, from better sources.
//!
//! `options.rs` reads the command line, `tables.rs` has the defaults of what is listed, `listing.rs` queries the kernel and
//! passes rows to `crate::output`. docs/dropins/ss.md compares both programs option by option.

mod events;
mod listing;
mod options;
mod resolver;
mod run;
mod summary;
mod tables;
mod threads;

pub(crate) use run::run;

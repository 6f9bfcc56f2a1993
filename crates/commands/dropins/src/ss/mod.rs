//! `sockeye ss`, or a link of that name: the output of `ss` of iproute2 6.1, 6.15 or 7.3, from better sources.
//!
//! `own_options.rs` and `options.rs` read the command line, `installed.rs` finds the level of the installed `ss`,
//! `tables.rs` has the defaults of what is listed, `listing.rs` queries the kernel and
//! passes rows to `crate::output`. docs/dropins/ss.md compares both programs option by option.

mod events;
mod installed;
mod listing;
mod options;
mod own_options;
mod resolver;
mod run;
mod summary;
mod tables;
mod threads;

pub(crate) use run::run;

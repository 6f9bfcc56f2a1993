//! `sockeye netstat`: the output of net-tools 2.10, byte for byte, from better sources.
//!
//! `options.rs` reads the command line; each other module is one kind of output. Sockets come from `sockeye_source`
//! (netlink or a walk over the kernel's tables), the rest from `/proc/net` and rtnetlink. The layouts are
//! `crate::output::netstat`. `docs/dropins/netstat.md` compares both programs option by option.

mod buffered_stdout;
mod groups;
mod help;
mod interfaces;
mod names;
mod options;
mod programs;
mod routes;
mod run;
mod sockets;
mod statistics;

pub(crate) use run::run;

//! The output of `netstat` of net-tools 2.10, byte for byte.
//!
//! A layout is a value made from the options. Each row is appended to a `Vec<u8>` that the caller writes and empties, so
//! that no row costs an allocation or a system call.
//!
//! Untrusted text (names of programs, paths of UNIX sockets) is written in a [`TextForm`]: unchanged to a pipe, with
//! visible control characters to a terminal.
//!
//! What it deliberately does not do: read; resolve names (it uses [`sockeye_model::Names`]); translate: it prints what the
//! original prints without a message catalogue.

mod counters;
mod field;
mod groups;
mod hardware;
mod inet;
mod interfaces;
mod routes;
mod sentences;
mod shown;
mod unix;

pub use counters::Counters;
pub use field::TextForm;
pub use groups::{GROUPS_HEADER, push_group};
pub use inet::{InetLayout, InetRow};
pub use interfaces::{
    INTERFACES_HEADER, INTERFACES_TITLE, Interface, Ipv4, Ipv6, Resources, Traffic, push_long, push_short,
};
pub use routes::{RouteColumns, RouteLayout, RouteV4, RouteV6};
pub use shown::Shown;
pub use unix::{UnixLayout, UnixRow};

//! What `netstat` of net-tools 2.10 prints, byte for byte: rows into a buffer.
//!
//! Each layout is a value made from what was asked for; each row is appended to a `Vec<u8>` that its owner
//! empties when it likes, so that no row costs an allocation or a system call.
//!
//! Text that others chose (names of programs, paths of UNIX sockets, hosts) goes through [`Text`]: a pipe gets
//! the bytes as the original writes them, a terminal gets control characters in a visible form.
//!
//! What it deliberately does not do: read, look names up (it asks [`sockeye_model::Names`]), or translate: it
//! prints what the original prints without a message catalogue.

mod counters;
mod field;
mod groups;
mod hardware;
mod inet;
mod interfaces;
mod routes;
mod sentences;
mod unix;

pub use counters::Counters;
pub use groups::{GROUPS_HEADER, push_group};
pub use inet::{InetLayout, InetRow};
pub use interfaces::{
    INTERFACES_HEADER, INTERFACES_TITLE, Interface, Ipv4, Ipv6, Resources, Traffic, push_long, push_short,
};
pub use routes::{Extent, RouteLayout, RouteV4, RouteV6};
pub use unix::{UnixLayout, UnixRow};

/// How text from outside is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Text {
    /// As it is.
    #[default]
    Raw,
    /// Control characters as `\x1b`.
    Clean,
}

/// Which sockets were asked for; it is in the titles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// Neither `-a` nor `-l`
    Connected,
    /// `-l`
    Listening,
    /// `-a`
    All,
}

impl Shown {
    const fn words(self) -> &'static [u8] {
        match self {
            Self::Connected => b"(w/o servers)",
            Self::Listening => b"(only servers)",
            Self::All => b"(servers and established)",
        }
    }
}

//! Our own protocol between a benchmark and its other end.
//!
//! One TCP port for everything, 5210 by default. Each connection begins with a [`Preamble`] of 40 bytes: the protocol
//! version, whether this is a control connection or one that carries data, and the token of its test. Control connections exchange [frames](Channel): a length (`u32`, big-endian, at most 64 KiB) and as
//! many bytes of JSON.
//!
//! ```text
//! control:  client  preamble, {"kind": "stream", "parameters": {...}}
//!           server  {"ok": {"token": "32 hex digits", ...}}   or   {"error": "reason"}
//! data:     client  preamble with the token and a number, then the data of the benchmark
//! ```
//!
//! The preamble and its refusal are the same in all versions, so that two versions that do not match can report it. The
//! preamble is longer than the 37 bytes that an iperf3 server waits for: an iperf3 server answers at once, and is
//! recognized. UDP begins with the same 40 bytes on the same port; the server answers from a socket that is connected to
//! the sender.
//!
//! Every wait has a timeout, and every length has a limit.

mod channel;
mod client;
mod error;
mod preamble;
mod server;
mod stop;
mod test;

pub use channel::Channel;
pub use client::{Connector, Prepare, Session, connect, own_address};
pub use error::{Error, hint};
pub use preamble::{PREAMBLE_LEN, Preamble, Role, Token, VERSION};
pub use server::{Handler, Server};
pub use stop::Stop;
pub use test::{DataSocket, Test};

/// The kind of test of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// As many bytes as possible.
    Stream,
    /// Requests and answers over persistent connections.
    Rr,
    /// Requests and answers with one connection each.
    Crr,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Stream, Self::Rr, Self::Crr];

    /// Returns the name in the protocol.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stream => "stream",
            Self::Rr => "rr",
            Self::Crr => "crr",
        }
    }

    /// Returns the kind with this name in the protocol.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// Default port of `bench serve`, TCP and UDP.
pub const PORT: u16 = 5210;

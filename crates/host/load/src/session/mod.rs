//! Our own protocol between a benchmark and its other end.
//!
//! One TCP port for everything, 5210 unless told otherwise. Whatever connects begins with a [`Preamble`] of 40 bytes; it
//! says which version it speaks, and whether it is a control connection or one that carries data, with the token of the
//! test it belongs to. Control connections exchange [frames](Channel): a length (`u32`, big-endian, at most 64 KiB) and as
//! many bytes of JSON.
//!
//! ```text
//! control:  client  preamble, {"kind": "stream", "parameters": {...}}
//!           server  {"ok": {"token": "32 hex digits", ...}}   or   {"error": "why not"}
//! data:     client  preamble with the token and a number, then whatever the benchmark says
//! ```
//!
//! The preamble and what refuses it are the same in all versions, so that two that do not match can say so. It is longer
//! than the 37 bytes that an iperf3 server waits for: that answers at once, and is recognized. UDP begins with the same 40
//! bytes on the same port, and the server answers from a socket that is connected to whoever sent them.
//!
//! Nobody waits without an end, and no length is believed beyond its bound.

mod channel;
mod client;
mod preamble;
mod server;
mod stop;
mod test;
mod trouble;

pub use channel::Channel;
pub use client::{Prepare, Reach, Session, connect, own_address};
pub use preamble::{PREAMBLE_LEN, Preamble, Role, Token, VERSION};
pub use server::{Host, Server};
pub use stop::Stop;
pub use test::{Data, Test};
pub use trouble::Trouble;
pub use trouble::hint;

/// What a session is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Bytes, as many as get through.
    Stream,
    /// Requests and answers over connections that stay.
    Rr,
    /// Each with a connection of its own.
    Crr,
}

impl Kind {
    /// Each of them.
    pub const ALL: [Self; 3] = [Self::Stream, Self::Rr, Self::Crr];

    /// Its name in the protocol.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stream => "stream",
            Self::Rr => "rr",
            Self::Crr => "crr",
        }
    }

    /// By its name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// Where `bench serve` listens.
pub const PORT: u16 = 5210;

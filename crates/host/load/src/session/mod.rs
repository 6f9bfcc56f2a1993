//! Our own protocol between a benchmark and its other end.
//!
//! One TCP port for everything, 5210 by default. Each connection begins with a `Preamble` of 40 bytes: the protocol
//! version, whether this is a control connection or one that carries data, and the token of its test. Control connections
//! exchange frames: a length (`u32`, big-endian, at most 64 KiB) and as many bytes of JSON.
//!
//! ```text
//! control:  client  preamble with a nonce
//!           server  {"challenge": "32 hex digits", "secret": true}
//!           client  32 bytes of proof, {"kind": "stream", "parameters": {...}}
//!           server  {"ok": {"token": "32 hex digits", "proof": "64 hex digits", ...}}   or   {"error": "reason"}
//! data:     client  preamble with the token, a number and a tag, then the data of the benchmark
//! ```
//!
//! The preamble and its refusal are the same in all versions, so that two versions that do not match can report it. The
//! preamble is longer than the 37 bytes that an iperf3 server waits for: an iperf3 server answers at once, and is
//! recognized. UDP begins with the same 40 bytes on the same port, and with an exchange that proves the client's address
//! (`pending_udp.rs`); the server answers from a socket that is connected to the sender. With a [`Secret`] both ends
//! prove that they know it (`secret.rs`); what they measure is not encrypted.
//!
//! Every wait has a timeout, every length a limit, and all that a client can ask for [one](limits), too.

mod acceptor;
mod channel;
mod client;
mod connection;
mod error;
/// Body of the fuzz target `session_messages`.
#[cfg(any(test, fuzzing))]
#[path = "../../../../../fuzz/session_body.rs"]
pub mod fuzz_body;
mod guesses;
mod kind;
pub mod limits;
mod nonce;
mod pace;
mod peer_text;
mod pending_udp;
mod preamble;
mod refusals;
mod registry;
mod secret;
mod server;
mod stop;
mod test;
mod waiting;

pub use client::{Connector, connect};
pub(crate) use client::{Session, bind_to, own_address};
pub use error::Error;
pub use kind::{Kind, PORT};
pub(crate) use limits::ServerLimits;
pub use pace::Pace;
pub(crate) use peer_text::PEER_VALUE_MAX;
pub use peer_text::{PEER_MESSAGE_MAX, peer_text};
pub(crate) use preamble::{PREAMBLE_LEN, Preamble, Role, TAG_LEN, Token, VERSION};
pub(crate) use registry::DataSocket;
pub use secret::{Secret, SecretError};
pub(crate) use server::{Handler, Server};
pub use stop::Stop;
pub(crate) use test::Test;

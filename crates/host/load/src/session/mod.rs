//! Our own protocol between a benchmark and its other end.
//!
//! One TCP port for everything, 5210 by default. Each connection begins with a [`Preamble`] of 40 bytes: the protocol
//! version, whether this is a control connection or one that carries data, and the token of its test. Control connections exchange frames: a length (`u32`, big-endian, at most 64 KiB) and as
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
mod kind;
mod preamble;
mod registry;
mod server;
mod stop;
mod test;

pub use client::{Connector, connect};
pub(crate) use client::{Session, own_address};
pub use error::Error;
pub use kind::{Kind, PORT};
pub(crate) use preamble::{PREAMBLE_LEN, Preamble, Role, Token, VERSION};
pub(crate) use registry::DataSocket;
pub(crate) use server::{Handler, Server};
pub use stop::Stop;
pub(crate) use test::Test;

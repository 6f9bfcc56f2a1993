//! iperf3's protocol, so that a measurement can be made against what is deployed already: as client and as server, TCP and
//! UDP, either direction or both.
//!
//! ```text
//! client                                    server, port 5201
//!   | -- 37 bytes of cookie ----------------> |    control connection
//!   | <---------------------- ParamExchange - |    states are one byte each
//!   | -- {"tcp": true, "time": 10, ...} ----> |    texts: u32 big-endian, then JSON
//!   | <---------------------- CreateStreams - |
//!   | == streams: TCP, cookie first; or UDP,  |
//!   |    "9876" and the answer "6789" ======> |
//!   | <---------- TestStart, TestRunning ---- |
//!   | <================ bytes ==============> |
//!   | -- TestEnd ---------------------------> |    the client's clock decides
//!   | <-------------------- ExchangeResults - |
//!   | -- {"streams": [...]} ----------------> |
//!   | <------------------ {"streams": [...]} -|
//!   | <--------------------- DisplayResults - |
//!   | -- Done ------------------------------> |
//! ```
//!
//! Spoken as iperf 3.12 does; what versions after it say beyond that is passed over. Not spoken: SCTP and authentication.
//! Zero copying (`-Z`), flow labels and titles that a client asks a server for are passed over.
//!
//! Nobody waits without an end, and no length is believed beyond its bound.

mod client;
mod command;
mod control;
mod datagram;
mod document;
mod lane;
mod message;
mod outcome;
mod refusal;
mod run;
mod server;
mod sockets;
mod transfer;
mod trouble;

pub use client::{Plan, run};
pub use command::Iperf3;
pub use document::{document, failed_document};
pub use lane::Manner;
pub use message::{Processor, Toward, Wishes};
pub use outcome::{Interval, Outcome, PeerCount, StreamInterval, StreamOutcome, TcpSample};
pub use refusal::Refusal;
pub use server::Desk;
pub use trouble::Trouble;

/// What carries the streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// Bytes in order.
    Tcp,
    /// Datagrams.
    Udp,
}

/// Where iperf3 listens.
pub const PORT: u16 = 5201;
/// For each direction.
pub const MAX_STREAMS: u32 = 128;
/// By which connections of a test know each other: 36 letters and digits, and a zero.
const COOKIE_LEN: usize = 37;
/// Bytes of a write over TCP where nobody says otherwise.
const LENGTH: u64 = 128 << 10;

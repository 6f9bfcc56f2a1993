//! The protocol of iperf3, as client and as server: TCP and UDP, one direction or both. It measures against hosts where
//! iperf3 is installed already.
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
//! The reference is iperf 3.12. Additions of later versions are ignored, and so are zero copy (`-Z`), flow labels and titles
//! that a client requests. Every wait has a timeout, and every length has a limit.
//!
//! What it deliberately does not do: SCTP, authentication, parsing of command lines (`bench` does that) and printing.
//!
//! | file | content |
//! |---|---|
//! | `run.rs` | the interface to `bench` |
//! | `client.rs`, `server.rs` | the two ends of a test |
//! | `places.rs` | which tests of a server are opening, and which one runs |
//! | `control.rs`, `message.rs`, `refusal.rs` | the control connection, its messages and error codes |
//! | `running_test.rs`, `stream.rs`, `datagram.rs`, `socket.rs` | moving and counting bytes |
//! | `outcome.rs`, `transfer.rs` | the results, also as [`sockeye_measure::Transfer`] |
//! | `output/` | iperf3's JSON, and lines of the server's log |

mod client;
mod control;
mod datagram;
mod error;
/// Body of the fuzz target `iperf3_messages`.
#[cfg(any(test, fuzzing))]
#[path = "../../../../fuzz/iperf3_body.rs"]
pub mod fuzz_body;
mod message;
mod outcome;
mod output;
mod places;
mod protocol;
mod refusal;
mod run;
mod running_test;
mod server;
mod socket;
mod stream;
mod transfer;

pub use client::{Plan, run};
pub use error::Error;
pub use message::{Direction, Parameters, Processor};
pub use outcome::{Interval, Outcome, PeerCount, Setup, StreamInterval, StreamOutcome, TcpSample};
pub use output::{document, failed_document};
pub use protocol::{MAX_STREAMS, PORT};
pub use refusal::Refusal;
pub use run::Iperf3;
pub use server::Server;
pub use stream::StreamOptions;

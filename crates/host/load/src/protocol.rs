//! The interface to another tool's protocol for streams, so that `bench stream` and `bench serve` can speak it.

use crate::session::{Connector, Stop};
use crate::stream::{Outcome, Plan, Progress};
use std::error::Error;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

/// A protocol that another tool speaks for the same measurement, as client and as server.
pub trait StreamProtocol: Sync {
    /// TCP and UDP port that its servers listen on by default.
    fn port(&self) -> u16;

    /// Checks that the protocol can express `plan`.
    ///
    /// # Errors
    /// What it cannot express, for a usage message.
    fn check(&self, plan: &Plan) -> Result<(), String>;

    /// Runs one transfer as a client. `progress` gets each interval.
    ///
    /// # Errors
    /// Why there is no outcome.
    fn run(
        &self,
        connector: &Connector,
        plan: &Plan,
        options: ProtocolOptions,
        stop: &Stop,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<Outcome, StreamError>;

    /// Runs one transfer as a client and returns the report that the other tool would print.
    fn run_for_document(
        &self,
        connector: &Connector,
        plan: &Plan,
        options: ProtocolOptions,
        stop: &Stop,
        progress: &mut dyn FnMut(&Progress),
    ) -> StreamDocument;

    /// Returns a server for clients of this protocol, whose tests may take `time_limit`.
    fn server(&self, time_limit: Duration) -> Box<dyn StreamServer>;
}

/// The server side of another tool's protocol. Its connections are accepted, and their first bytes read, by `bench serve`.
pub trait StreamServer: Sync {
    /// Returns the length of the first bytes of a connection, which identify its test.
    fn first_len(&self) -> usize;

    /// Returns whether a test with these first bytes expects streams.
    fn has_test(&self, first: &[u8]) -> bool;

    /// Takes a connection as a stream of the test with these first bytes. `number` counts connections in the order they
    /// came.
    fn stream(&self, number: u64, first: &[u8], connection: TcpStream);

    /// Runs the test of a new client, which is over when this returns. `say` gets a line for each event. Returns whether
    /// this was a test.
    fn test(&self, first: &[u8], connection: TcpStream, stop: &Stop, say: &(dyn Fn(&str) + Sync)) -> bool;

    /// Informs a client that it is not served because it does not know the secret.
    fn refuse(&self, connection: TcpStream);

    /// Returns the local address of the test that expects this first datagram of a UDP stream.
    fn expects_datagram(&self, bytes: &[u8], from: SocketAddr) -> Option<SocketAddr>;

    /// Takes the socket of a UDP stream, which is connected to the client.
    fn datagrams(&self, from: SocketAddr, socket: UdpSocket);
}

/// Options that only another tool's protocol has.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProtocolOptions {
    /// Blocks to send, instead of bytes or a time.
    pub blocks: Option<u64>,
    /// Largest TCP segment, in bytes.
    pub mss: Option<u64>,
    /// Whether to set `TCP_NODELAY`.
    pub no_delay: bool,
}

/// Why a transfer gave no outcome.
#[derive(Debug)]
pub struct StreamError {
    /// A stable word for reports.
    pub code: &'static str,
    /// What happened, for people.
    pub error: Box<dyn Error + Send + Sync>,
}

/// A transfer in the words of another tool.
#[derive(Debug)]
pub struct StreamDocument {
    /// The report, also of a transfer that failed.
    pub text: String,
    /// Whether the transfer came to its planned end; an error if there was none.
    pub outcome: Result<bool, Box<dyn Error + Send + Sync>>,
}

//! A row of a listing of sockets.

use super::tcp_field::TcpField;
use super::tcp_words;
use crate::listing::Value;
use sockeye_model::{Entry, Names, SocketRates};

/// A socket, and what its cells also need.
#[derive(Clone, Copy)]
pub struct SocketRow<'a> {
    /// The socket and its owners.
    pub entry: Entry<'a>,
    /// Names of hosts, services, users and others.
    pub names: &'a dyn Names,
    /// Values of the TCP fields, in the order of [`TcpField`]; `None` if unknown.
    pub tcp: &'a TcpValues,
    /// Changes since the sample before; `None` if there was none, or if nothing is known.
    pub rates: Option<SocketRates>,
    /// Values of columns that are not those of all sockets.
    pub more: &'a [Value<'a>],
}

/// Values of the TCP fields of a socket, gathered in one pass.
#[derive(Debug, Clone)]
pub struct TcpValues(pub(super) [Option<u64>; TcpField::COUNT]);

impl TcpValues {
    /// No value is known.
    pub const NONE: &'static Self = &Self([None; TcpField::COUNT]);

    /// Gathers the values of a socket.
    pub fn of(entry: &Entry<'_>) -> Self {
        Self(tcp_words::values(entry.socket.tcp_info.as_ref()))
    }
}

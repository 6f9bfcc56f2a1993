//! Constants and the transport of the protocol.

/// Transport protocol of the streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// Default port of iperf3 servers.
pub const PORT: u16 = 5201;
/// Most streams of one direction.
pub const MAX_STREAMS: u32 = 128;
/// Length of the identifier of a test: 36 letters and digits, and a zero.
pub(crate) const COOKIE_LEN: usize = 37;
/// Default bytes of a TCP write.
pub(crate) const LENGTH: u64 = 128 << 10;

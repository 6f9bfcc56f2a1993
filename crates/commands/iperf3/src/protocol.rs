//! Constants of the protocol.

/// Default port of iperf3 servers.
pub const PORT: u16 = 5201;
/// Most streams of one direction.
pub const MAX_STREAMS: u32 = 128;
/// Length of the identifier of a test: 36 letters and digits, and a zero.
pub(crate) const COOKIE_LEN: usize = 37;
/// Default bytes of a TCP write.
pub(crate) const LENGTH: u64 = 128 << 10;
/// Bytes of a datagram that fits into an Ethernet packet without tunnels.
pub(crate) const DATAGRAM: u64 = 1460;

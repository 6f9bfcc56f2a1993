//! Fields of `struct mptcp_info` with units in their names. The macro lists each field once, so that struct,
//! conversion and `visit` cannot differ. The renderers of `sockets` and of the `ss` drop-in use it.

use sockeye_wire::inet_diag::MptcpInfo as Wire;

macro_rules! mptcp_info {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $wire:ident;)*) => {
        /// The state of an MPTCP connection; `None` if this kernel does not report a field.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct MptcpInfo {
            $($(#[$doc])* pub $name: Option<$type>,)*
        }

        impl From<Wire<'_>> for MptcpInfo {
            fn from(wire: Wire<'_>) -> Self {
                Self { $($name: wire.$wire(),)* }
            }
        }

        impl MptcpInfo {
            /// Calls `visit` with each field's name and value, in the order of the struct.
            #[inline]
            pub fn visit(&self, mut visit: impl FnMut(&'static str, Option<u64>)) {
                $(visit(stringify!($name), self.$name.map(u64::from));)*
            }
        }
    };
}

mptcp_info! {
    /// Subflows beyond the first
    subflows: u8 = subflows;
    /// Addresses announced to the peer
    add_addr_signal: u8 = add_addr_signal;
    /// Announced addresses accepted
    add_addr_accepted: u8 = add_addr_accepted;
    /// Limit of `subflows`
    subflows_max: u8 = subflows_max;
    /// Limit of `add_addr_signal`
    add_addr_signal_max: u8 = add_addr_signal_max;
    /// Limit of `add_addr_accepted`
    add_addr_accepted_max: u8 = add_addr_accepted_max;
    /// Bit 0: fell back to TCP; bit 1: the peer's key was received
    flags: u32 = flags;
    /// Token that identifies the connection to the peer
    token: u32 = token;
    /// Next data sequence number to send
    write_seq: u64 = write_seq;
    /// Oldest data sequence number not acknowledged
    snd_una: u64 = snd_una;
    /// Next data sequence number expected
    rcv_nxt: u64 = rcv_nxt;
    /// Local addresses in use
    local_addr_used: u8 = local_addr_used;
    /// Limit of `local_addr_used`
    local_addr_max: u8 = local_addr_max;
    /// 1 when checksums are on
    csum_enabled: u8 = csum_enabled;
    /// Retransmissions by MPTCP
    retransmits: u32 = retransmits;
    /// Bytes of these
    bytes_retrans: u64 = bytes_retrans;
    /// Bytes sent
    bytes_sent: u64 = bytes_sent;
    /// Bytes received
    bytes_received: u64 = bytes_received;
    /// Bytes acknowledged
    bytes_acked: u64 = bytes_acked;
    /// Number of subflows
    subflows_total: u8 = subflows_total;
    /// Milliseconds since data was last sent
    last_data_sent_ms: u32 = last_data_sent;
    /// Milliseconds since data was last received
    last_data_recv_ms: u32 = last_data_recv;
    /// Milliseconds since an acknowledgement was last received
    last_ack_recv_ms: u32 = last_ack_recv;
}

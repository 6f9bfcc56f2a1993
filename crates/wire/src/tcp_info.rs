//! `struct tcp_info`: what the kernel knows about one TCP connection.
//!
//! The struct has grown at its end ever since Linux 2.4. A reader gets as much of it as the running
//! kernel has, so every field but the oldest may be absent. Source: `include/uapi/linux/tcp.h`,
//! filled by `tcp_get_info()` in `net/ipv4/tcp.c`.

use crate::bytes::{ne_u16, ne_u32, ne_u64};

/// `struct tcp_info`, as much of it as the kernel returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpInfo<'a>(&'a [u8]);

impl<'a> TcpInfo<'a> {
    /// Parses the payload of `INET_DIAG_INFO`, or what `getsockopt(TCP_INFO)` filled.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The unparsed bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.0
    }

    /// `tcpi_snd_wscale`: window scale the peer asked for. A bit field: the low half of byte 6 on
    /// little-endian kernels, the high half on big-endian ones.
    #[must_use]
    pub fn snd_wscale(&self) -> Option<u8> {
        self.0.get(6).map(|&byte| {
            if cfg!(target_endian = "big") {
                byte >> 4
            } else {
                byte & 0xf
            }
        })
    }

    /// `tcpi_rcv_wscale`: window scale we asked for; the other half of byte 6.
    #[must_use]
    pub fn rcv_wscale(&self) -> Option<u8> {
        self.0.get(6).map(|&byte| {
            if cfg!(target_endian = "big") {
                byte & 0xf
            } else {
                byte >> 4
            }
        })
    }

    /// `tcpi_delivery_rate_app_limited`: bit 0 of byte 7 (4.9).
    ///
    /// The byte was padding before, so it is present only together with `tcpi_delivery_rate`.
    #[must_use]
    pub fn delivery_rate_app_limited(&self) -> Option<bool> {
        self.delivery_rate()?;
        self.0.get(7).map(|&byte| if cfg!(target_endian = "big") { byte >> 7 } else { byte & 1 } == 1)
    }

    /// `tcpi_fastopen_client_fail`: bits 1 and 2 of byte 7 (5.5).
    ///
    /// Present only together with `tcpi_snd_wnd`, its neighbour in time (5.4).
    #[must_use]
    pub fn fastopen_client_fail(&self) -> Option<u8> {
        self.snd_wnd()?;
        self.0.get(7).map(|&byte| {
            if cfg!(target_endian = "big") {
                byte >> 5 & 3
            } else {
                byte >> 1 & 3
            }
        })
    }
}

macro_rules! fields {
    ($($name:ident: $int:ident @ $offset:literal, $since:literal;)*) => {
        impl TcpInfo<'_> {
            $(
                #[doc = concat!("`tcpi_", stringify!($name), "`, since Linux ", $since, ".")]
                #[must_use]
                #[inline]
                pub fn $name(&self) -> Option<$int> {
                    fields!(@read $int, self.0, $offset)
                }
            )*
        }

        /// Every field that is a whole integer, in the order of the struct: name, offset, size in bytes, first kernel.
        pub const FIELDS: &[(&str, usize, usize, &str)] =
            &[$((stringify!($name), $offset, size_of::<$int>(), $since)),*];
    };
    (@read u8, $bytes:expr, $offset:literal) => { $bytes.get($offset).copied() };
    (@read u16, $bytes:expr, $offset:literal) => { ne_u16($bytes, $offset) };
    (@read u32, $bytes:expr, $offset:literal) => { ne_u32($bytes, $offset) };
    (@read u64, $bytes:expr, $offset:literal) => { ne_u64($bytes, $offset) };
}

fields! {
    state: u8 @ 0, "2.4";
    ca_state: u8 @ 1, "2.4";
    retransmits: u8 @ 2, "2.4";
    probes: u8 @ 3, "2.4";
    backoff: u8 @ 4, "2.4";
    options: u8 @ 5, "2.4";
    rto: u32 @ 8, "2.4";
    ato: u32 @ 12, "2.4";
    snd_mss: u32 @ 16, "2.4";
    rcv_mss: u32 @ 20, "2.4";
    unacked: u32 @ 24, "2.4";
    sacked: u32 @ 28, "2.4";
    lost: u32 @ 32, "2.4";
    retrans: u32 @ 36, "2.4";
    fackets: u32 @ 40, "2.4";
    last_data_sent: u32 @ 44, "2.4";
    last_ack_sent: u32 @ 48, "2.4";
    last_data_recv: u32 @ 52, "2.4";
    last_ack_recv: u32 @ 56, "2.4";
    pmtu: u32 @ 60, "2.4";
    rcv_ssthresh: u32 @ 64, "2.4";
    rtt: u32 @ 68, "2.4";
    rttvar: u32 @ 72, "2.4";
    snd_ssthresh: u32 @ 76, "2.4";
    snd_cwnd: u32 @ 80, "2.4";
    advmss: u32 @ 84, "2.4";
    reordering: u32 @ 88, "2.4";
    rcv_rtt: u32 @ 92, "2.6";
    rcv_space: u32 @ 96, "2.6";
    total_retrans: u32 @ 100, "2.6";
    pacing_rate: u64 @ 104, "3.15";
    max_pacing_rate: u64 @ 112, "3.15";
    bytes_acked: u64 @ 120, "4.1";
    bytes_received: u64 @ 128, "4.1";
    segs_out: u32 @ 136, "4.2";
    segs_in: u32 @ 140, "4.2";
    notsent_bytes: u32 @ 144, "4.6";
    min_rtt: u32 @ 148, "4.6";
    data_segs_in: u32 @ 152, "4.6";
    data_segs_out: u32 @ 156, "4.6";
    delivery_rate: u64 @ 160, "4.9";
    busy_time: u64 @ 168, "4.10";
    rwnd_limited: u64 @ 176, "4.10";
    sndbuf_limited: u64 @ 184, "4.10";
    delivered: u32 @ 192, "4.18";
    delivered_ce: u32 @ 196, "4.18";
    bytes_sent: u64 @ 200, "4.19";
    bytes_retrans: u64 @ 208, "4.19";
    dsack_dups: u32 @ 216, "4.19";
    reord_seen: u32 @ 220, "4.19";
    rcv_ooopack: u32 @ 224, "5.4";
    snd_wnd: u32 @ 228, "5.4";
    rcv_wnd: u32 @ 232, "6.2";
    rehash: u32 @ 236, "6.2";
    total_rto: u16 @ 240, "6.7";
    total_rto_recoveries: u16 @ 242, "6.7";
    total_rto_time: u32 @ 244, "6.7";
    received_ce: u32 @ 248, "6.18";
    delivered_e1_bytes: u32 @ 252, "6.18";
    delivered_e0_bytes: u32 @ 256, "6.18";
    delivered_ce_bytes: u32 @ 260, "6.18";
    received_e1_bytes: u32 @ 264, "6.18";
    received_e0_bytes: u32 @ 268, "6.18";
    received_ce_bytes: u32 @ 272, "6.18";
    accecn_fail_mode: u16 @ 276, "6.18";
    accecn_opt_seen: u16 @ 278, "6.18";
}

/// Length of `struct tcp_info` in Linux 6.18, the longest this crate knows.
pub const LEN: usize = 280;

#[cfg(test)]
mod tests {
    use super::*;

    /// Each field holds its own offset, so that a field read from elsewhere shows.
    fn patterned() -> [u8; LEN] {
        let mut bytes = [0; LEN];
        for &(_, offset, size, _) in FIELDS {
            let value = (offset as u64).to_ne_bytes();
            let value = if cfg!(target_endian = "big") {
                &value[8 - size..]
            } else {
                &value[..size]
            };
            bytes[offset..offset + size].copy_from_slice(value);
        }
        bytes
    }

    #[test]
    fn fields_are_contiguous_up_to_the_end() {
        let mut end = 0;
        for &(name, offset, size, _) in FIELDS {
            // Bytes 6 and 7 are bit fields, with accessors of their own.
            let gap = if name == "rto" { 2 } else { 0 };
            assert_eq!(offset, end + gap, "{name}");
            assert_eq!(offset % size, 0, "{name} is aligned");
            end = offset + size;
        }
        assert_eq!(end, LEN);
    }

    #[test]
    fn each_accessor_reads_its_offset() {
        let bytes = patterned();
        let info = TcpInfo::new(&bytes);
        assert_eq!(info.ca_state(), Some(1));
        assert_eq!(info.rtt(), Some(68));
        assert_eq!(info.delivery_rate(), Some(160));
        assert_eq!(info.total_rto_recoveries(), Some(242));
        assert_eq!(info.accecn_opt_seen(), Some(278));
    }

    #[test]
    fn older_struct_lacks_newer_fields() {
        let bytes = patterned();
        let info = TcpInfo::new(&bytes[..232]); // 5.4
        assert_eq!((info.snd_wnd(), info.rcv_wnd()), (Some(228), None));
        let info = TcpInfo::new(&bytes[..104]); // 2.6
        assert_eq!((info.total_retrans(), info.pacing_rate()), (Some(100), None));
        assert_eq!(info.delivery_rate_app_limited(), None, "padding before 4.9");
        let cut = TcpInfo::new(&bytes[..70]); // in the middle of rtt
        assert_eq!((cut.rcv_ssthresh(), cut.rtt()), (Some(64), None));
    }

    #[test]
    fn bit_fields_are_read_in_both_byte_orders() {
        let mut bytes = [0; LEN];
        bytes[6] = if cfg!(target_endian = "big") { 0x7a } else { 0xa7 };
        bytes[7] = if cfg!(target_endian = "big") {
            0b1100_0000
        } else {
            0b011
        };
        let info = TcpInfo::new(&bytes);
        assert_eq!((info.snd_wscale(), info.rcv_wscale()), (Some(7), Some(10)));
        assert_eq!(info.delivery_rate_app_limited(), Some(true));
        assert_eq!(
            info.fastopen_client_fail(),
            Some(if cfg!(target_endian = "big") { 2 } else { 1 })
        );
    }
}

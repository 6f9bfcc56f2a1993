use crate::bytes::ne_u64;

/// Traffic and error counters of an interface (`IFLA_STATS64`).
///
/// ```text
/// struct rtnl_link_stats64 { u64 rx_packets, tx_packets, rx_bytes, tx_bytes, rx_errors, tx_errors, rx_dropped,
///     tx_dropped, multicast, collisions, rx_length_errors, rx_over_errors, rx_crc_errors, rx_frame_errors,
///     rx_fifo_errors, rx_missed_errors, tx_aborted_errors, tx_carrier_errors, tx_fifo_errors, ...; }
/// ```
/// It has grown at its end: 23 numbers in Linux 2.6.35, 24 since 4.6 and 25 since 5.19.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)] // the struct's names
pub struct LinkStats {
    pub rx_packets: u64,
    pub tx_packets: u64,
    pub rx_bytes: u64,
    pub tx_bytes: u64,
    pub rx_errors: u64,
    pub tx_errors: u64,
    pub rx_dropped: u64,
    pub tx_dropped: u64,
    pub collisions: u64,
    pub rx_crc_errors: u64,
    pub rx_fifo_errors: u64,
    pub rx_missed_errors: u64,
    pub tx_carrier_errors: u64,
}

impl LinkStats {
    /// Parses the attribute's payload; `None` if it ends before the last of these counters.
    pub(super) fn parse(payload: &[u8]) -> Option<Self> {
        let number = |place: usize| ne_u64(payload, 8 * place);
        Some(Self {
            rx_packets: number(0)?,
            tx_packets: number(1)?,
            rx_bytes: number(2)?,
            tx_bytes: number(3)?,
            rx_errors: number(4)?,
            tx_errors: number(5)?,
            rx_dropped: number(6)?,
            tx_dropped: number(7)?,
            collisions: number(9)?,
            rx_crc_errors: number(12)?,
            rx_fifo_errors: number(14)?,
            rx_missed_errors: number(15)?,
            tx_carrier_errors: number(17)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn counters_are_read_by_offset() {
        let bytes: Vec<u8> = (1..=23_u64).flat_map(u64::to_ne_bytes).collect();
        let stats = LinkStats::parse(&bytes).unwrap();
        assert_eq!((stats.rx_packets, stats.tx_dropped, stats.collisions), (1, 8, 10));
        assert_eq!((stats.rx_crc_errors, stats.rx_fifo_errors), (13, 15));
        assert_eq!((stats.rx_missed_errors, stats.tx_carrier_errors), (16, 18));
        assert_eq!(LinkStats::parse(&bytes[..17 * 8 + 7]), None);
    }
}

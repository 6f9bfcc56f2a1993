//! Interface counters in rtnetlink link messages (`IFLA_STATS64`). `Link::parse` decodes them; `model` turns
//! them into `Traffic`.

use crate::bytes::ne_u64;

attribute! {
    /// Traffic and error counters of an interface (`IFLA_STATS64`).
    ///
    /// ```text
    /// struct rtnl_link_stats64 { u64 rx_packets, tx_packets, rx_bytes, tx_bytes, rx_errors, tx_errors, rx_dropped,
    ///     tx_dropped, multicast, collisions, rx_length_errors, rx_over_errors, rx_crc_errors, rx_frame_errors,
    ///     rx_fifo_errors, rx_missed_errors, tx_aborted_errors, tx_carrier_errors, tx_fifo_errors, ...; }
    /// ```
    /// It has grown at its end: 23 numbers in Linux 2.6.35, 24 since 4.6 and 25 since 5.19.
    #[derive(Default)]
    #[allow(missing_docs)] // the struct's names
    pub struct LinkStats {
        rx_packets: u64 = ne_u64 @ 0;
        tx_packets: u64 = ne_u64 @ 8;
        rx_bytes: u64 = ne_u64 @ 16;
        tx_bytes: u64 = ne_u64 @ 24;
        rx_errors: u64 = ne_u64 @ 32;
        tx_errors: u64 = ne_u64 @ 40;
        rx_dropped: u64 = ne_u64 @ 48;
        tx_dropped: u64 = ne_u64 @ 56;
        collisions: u64 = ne_u64 @ 72;
        rx_crc_errors: u64 = ne_u64 @ 96;
        rx_fifo_errors: u64 = ne_u64 @ 112;
        rx_missed_errors: u64 = ne_u64 @ 120;
        tx_carrier_errors: u64 = ne_u64 @ 136;
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

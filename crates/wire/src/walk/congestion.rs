//! Congestion control of a socket as the BPF walk reports it: algorithm and BBR state. `model` makes
//! `CongestionInfo` of it.

use crate::bytes::{array, ne_u32};
use crate::inet_diag::BbrInfo;

/// A socket's congestion control: `struct congestion` of bpf/tables.h.
#[derive(Debug, Clone, Copy)]
pub struct Congestion<'a>(&'a [u8; BYTES]);

impl<'a> Congestion<'a> {
    /// Wraps the section; `None` if it is too short.
    #[must_use]
    #[inline]
    pub fn new(section: &'a [u8]) -> Option<Self> {
        section.first_chunk().map(Self)
    }

    /// The algorithm's name, padded with NULs.
    #[must_use]
    #[inline]
    pub fn algorithm(&self) -> [u8; 16] {
        array(self.0, 0).unwrap_or_default()
    }

    /// BBR's state, calculated as in `bbr_get_info()` of `net/ipv4/tcp_bbr.c`; `None` for other algorithms, and in
    /// states in which
    /// `sock_diag` would not report it.
    #[must_use]
    pub fn bbr(&self) -> Option<BbrInfo> {
        // All offsets are below the length.
        let word = |place: usize| ne_u32(self.0, 16 + place * 4).unwrap_or_default();
        // Packets per microsecond, times 2^24.
        let bandwidth = u64::from(word(1)).wrapping_mul(u64::from(word(2)));
        (word(0) != 0).then(|| BbrInfo {
            bandwidth: bandwidth.wrapping_mul(1_000_000) >> 24,
            min_rtt: word(3),
            pacing_gain: word(4),
            cwnd_gain: word(5),
        })
    }
}

/// `sizeof(struct congestion)`
pub(super) const BYTES: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(
        target_endian = "big",
        ignore = "our programs and their records are little-endian"
    )]
    fn bbr_calculates_as_the_kernel_does() {
        let mut section = [0; BYTES];
        section[..6].copy_from_slice(b"bbr\0\0\0");
        for (place, word) in [1_u32, 3_355_443, 1448, 43, 739, 256].into_iter().enumerate() {
            let at = 16 + place * 4;
            section[at..at + 4].copy_from_slice(&word.to_ne_bytes());
        }
        let congestion = Congestion::new(&section).unwrap();
        assert_eq!(&congestion.algorithm(), b"bbr\0\0\0\0\0\0\0\0\0\0\0\0\0");
        let bbr = congestion.bbr().unwrap();
        // a fifth of a packet of 1448 bytes per microsecond
        assert_eq!((bbr.bandwidth, bbr.min_rtt), (289_599_982, 43));
        assert_eq!((bbr.pacing_gain, bbr.cwnd_gain), (739, 256));
        section[16] = 0;
        assert_eq!(Congestion::new(&section).unwrap().bbr(), None);
        assert!(Congestion::new(&section[..BYTES - 1]).is_none());
    }
}

//! Congestion control of a TCP socket: algorithm and private data, from `inet_diag` or a BPF walk.
//! The columns of `sockets` and the `ss` drop-in print it.

use crate::ShortText;
use sockeye_wire::inet_diag::{BbrInfo, DctcpInfo, VegasInfo};
use sockeye_wire::walk::Congestion;

/// Name of a congestion control algorithm (`TCP_CA_NAME_MAX` is 16).
pub type Algorithm = ShortText<16>;

/// The private data of a congestion control algorithm. Gains and shares are in the kernel's fixed point; the field names
/// have the denominator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // named in the kernel's terms
pub enum CongestionInfo {
    Vegas {
        enabled: bool,
        rtt_count: u32,
        rtt_us: u32,
        min_rtt_us: u32,
    },
    Dctcp {
        enabled: bool,
        ce_state: u16,
        alpha_1024ths: u32,
        ecn_bytes: u32,
        total_bytes: u32,
    },
    Bbr {
        bandwidth_bytes_per_s: u64,
        min_rtt_us: u32,
        pacing_gain_256ths: u32,
        cwnd_gain_256ths: u32,
    },
}

impl CongestionInfo {
    /// Converts the congestion control of a walk's record: the algorithm's name, and its private data. Each is `None` if
    /// unknown.
    #[must_use]
    pub fn from_walk(congestion: &Congestion<'_>) -> (Option<Algorithm>, Option<Self>) {
        let name = Algorithm::from_c(&congestion.algorithm());
        (
            (!name.as_bytes().is_empty()).then_some(name),
            congestion.bbr().map(Self::from),
        )
    }
}

impl From<VegasInfo> for CongestionInfo {
    fn from(info: VegasInfo) -> Self {
        Self::Vegas {
            enabled: info.enabled != 0,
            rtt_count: info.rtt_count,
            rtt_us: info.rtt,
            min_rtt_us: info.min_rtt,
        }
    }
}

impl From<DctcpInfo> for CongestionInfo {
    fn from(info: DctcpInfo) -> Self {
        Self::Dctcp {
            enabled: info.enabled != 0,
            ce_state: info.ce_state,
            alpha_1024ths: info.alpha,
            ecn_bytes: info.ab_ecn,
            total_bytes: info.ab_tot,
        }
    }
}

impl From<BbrInfo> for CongestionInfo {
    fn from(info: BbrInfo) -> Self {
        Self::Bbr {
            bandwidth_bytes_per_s: info.bandwidth,
            min_rtt_us: info.min_rtt,
            pacing_gain_256ths: info.pacing_gain,
            cwnd_gain_256ths: info.cwnd_gain,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walk_record_has_algorithm_and_bbr() {
        let mut section = [0; 40];
        let read = |section: &[u8]| CongestionInfo::from_walk(&Congestion::new(section).unwrap());
        assert_eq!(read(&section), (None, None), "a socket without an algorithm");
        section[..6].copy_from_slice(b"cubic\0");
        assert_eq!(read(&section), (Some(Algorithm::from_c(b"cubic")), None));
        section[..6].copy_from_slice(b"bbr\0\0\0");
        for (place, word) in [1_u32, 1 << 24, 1000, 43, 739, 512].into_iter().enumerate() {
            section[16 + place * 4..][..4].copy_from_slice(&word.to_ne_bytes());
        }
        let bbr = CongestionInfo::Bbr {
            bandwidth_bytes_per_s: 1_000_000_000,
            min_rtt_us: 43,
            pacing_gain_256ths: 739,
            cwnd_gain_256ths: 512,
        };
        assert_eq!(read(&section), (Some(Algorithm::from_c(b"bbr")), Some(bbr)));
    }
}

use crate::ShortText;
use sockeye_wire::inet_diag::{BbrInfo, DctcpInfo, VegasInfo};

/// Name of a congestion control algorithm (`TCP_CA_NAME_MAX` is 16).
pub type Algorithm = ShortText<16>;

/// What an algorithm tells about itself. Gains and shares are in the kernel's fixed point, its
/// denominator in the name.
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

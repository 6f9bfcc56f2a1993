//! Parsers of option values of listings.

use sockeye_filter::Quantity;
use sockeye_model::ProtocolSet;

/// Parses the list of protocols of `-A`.
pub fn protocols(list: &str) -> Result<ProtocolSet, String> {
    list.split(',').try_fold(ProtocolSet::EMPTY, |all, name| {
        let found = ProtocolSet::from_name(name.trim()).ok_or_else(|| {
            let known: Vec<_> = ProtocolSet::NAMES.iter().map(|(known, _)| *known).collect();
            format!("no protocol {name:?}; there are {}", known.join(", "))
        })?;
        Ok(all.or(found))
    })
}

/// Parses the size of a ring between kernel and Sockeye: bytes, or with a unit, as `4Mi`. It is rounded up to a power of two.
pub fn ring_bytes(text: &str) -> Result<u32, String> {
    let bytes = Quantity::Bytes.parse(text);
    let bytes = bytes.and_then(|bytes| u32::try_from(bytes).ok()?.checked_next_power_of_two());
    bytes
        .filter(|bytes| (RING_BYTES_MIN..=RING_BYTES_MAX).contains(bytes))
        .ok_or_else(|| "expected a size from 4Ki to 512Mi".to_owned())
}

/// A share of a processor in millionths, as `--cpu` takes it; 0: no bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuShare(u64);

impl CpuShare {
    /// Returns the bound in millionths; `None` without one.
    #[must_use]
    pub const fn ppm_max(self) -> Option<u64> {
        match self.0 {
            0 => None,
            ppm => Some(ppm),
        }
    }
}

/// Parses a share of one processor: `5%`, `0.5`.
pub fn cpu_share(text: &str) -> Result<CpuShare, String> {
    let number = text.strip_suffix('%').unwrap_or(text).parse::<f64>().ok();
    let percent = number.filter(|percent| (0.0..=100.0).contains(percent));
    let percent = percent.ok_or("expected a percentage from 0 to 100")?;
    // Below this nothing could be counted.
    let ppm = (percent * 10_000.0)
        .round()
        .max(if percent > 0.0 { 1.0 } else { 0.0 });
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "from 0 to a million"
    )]
    let ppm = ppm as u64;
    Ok(CpuShare(ppm))
}

const RING_BYTES_MIN: u32 = 4 << 10;
const RING_BYTES_MAX: u32 = 512 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_model::Protocol;

    #[test]
    fn unknown_protocol_is_named_in_the_error() {
        let both = ProtocolSet::of(&[Protocol::Tcp, Protocol::Udp]);
        assert_eq!(protocols("tcp,udp"), Ok(both));
        assert!(protocols("tcp,sctp").unwrap_err().contains("\"sctp\""));
        assert!(protocols("").is_err());
    }

    #[test]
    fn ring_is_rounded_up_to_a_power_of_two_within_bounds() {
        for (text, bytes) in [
            ("4Mi", 4 << 20),
            ("4M", 4 << 20),
            ("256Ki", 256 << 10),
            ("4096", 4096),
            ("5000", 8192),
        ] {
            assert_eq!(ring_bytes(text), Ok(bytes), "{text}");
        }
        for bad in ["", "0", "2000", "1Gi", "4G", "-1", "4096Mi", "many"] {
            assert!(ring_bytes(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn share_is_a_percentage() {
        assert_eq!(cpu_share("5%"), Ok(CpuShare(50_000)));
        assert_eq!(cpu_share("0.5"), Ok(CpuShare(5_000)));
        assert_eq!(cpu_share("0.00001%"), Ok(CpuShare(1)));
        assert_eq!(cpu_share("0").map(CpuShare::ppm_max), Ok(None));
        for bad in ["", "%", "101", "-1", "NaN", "many"] {
            assert!(cpu_share(bad).is_err(), "{bad}");
        }
    }
}

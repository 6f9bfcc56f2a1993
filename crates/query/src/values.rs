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
}

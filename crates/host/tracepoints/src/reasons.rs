//! Reasons that programs have to know by their number.

use sockeye_source::{BpfEngine, Unavailable};

/// Returns the number of `SKB_DROP_REASON_UDP_CSUM`; 0 if this kernel has no such reason.
///
/// # Errors
/// When the kernel's types cannot be read.
pub(crate) fn checksum_reason(engine: &BpfEngine) -> Result<u32, Unavailable> {
    let reasons = engine.enumerators("skb_drop_reason")?;
    let reason = reasons
        .iter()
        .find(|(_, name)| name == "SKB_DROP_REASON_UDP_CSUM");
    Ok(reason
        .and_then(|(value, _)| u32::try_from(*value).ok())
        .unwrap_or(0))
}

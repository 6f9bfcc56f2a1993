//! Reasons that programs have to know by their number.

use sockeye_source::{BpfEngine, Unavailable};

/// Returns the number of `SKB_DROP_REASON_UDP_CSUM`; 0 if this kernel has no such reason.
///
/// # Errors
/// When the kernel's types cannot be read.
pub(crate) fn checksum_reason(engine: &BpfEngine) -> Result<u32, Unavailable> {
    numbers(engine, ["UDP_CSUM"]).map(|[number]| number)
}

/// Returns the numbers of these reasons, without `SKB_DROP_REASON_`; 0: this kernel has no such reason.
///
/// # Errors
/// When the kernel's types cannot be read.
pub(crate) fn numbers<const N: usize>(engine: &BpfEngine, names: [&str; N]) -> Result<[u32; N], Unavailable> {
    let reasons = engine.enumerators("skb_drop_reason")?;
    Ok(names.map(|wanted| {
        let is_it = |name: &str| name.strip_prefix("SKB_DROP_REASON_") == Some(wanted);
        let found = reasons.iter().find(|(_, name)| is_it(name));
        found
            .and_then(|(value, _)| u32::try_from(*value).ok())
            .unwrap_or(0)
    }))
}

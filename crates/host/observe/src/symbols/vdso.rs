//! The vDSO: code that the kernel maps into every process, an ELF file in memory, the same for all 64-bit processes.

use super::bytes::Bytes;
use crate::Mapping;
use std::fs::File;
use std::io::Read;

/// Returns the vDSO of our own process; `None` if there is none.
pub(super) fn own() -> Option<Bytes> {
    let mut maps = Vec::new();
    File::open("/proc/self/maps")
        .ok()?
        .take(MAX_MAPS)
        .read_to_end(&mut maps)
        .ok()?;
    let line = maps
        .split(|byte| *byte == b'\n')
        .find(|line| line.ends_with(b" [vdso]"))?;
    let (start, end) = std::str::from_utf8(line)
        .ok()?
        .split(' ')
        .next()?
        .split_once('-')?;
    let start = u64::from_str_radix(start, 16).ok()?;
    let end = u64::from_str_radix(end, 16).ok()?;
    let len = usize::try_from(end.checked_sub(start)?).ok()?.min(MAX_VDSO);
    let memory = Bytes::File(File::open("/proc/self/mem").ok()?);
    Some(Bytes::Memory(memory.read_some(start, len)))
}

/// Returns whether it is the vDSO of a process with our pointer size.
pub(super) const fn has_our_width(mapping: &Mapping) -> bool {
    cfg!(target_pointer_width = "32") == (mapping.end <= 1 << 32)
}

const MAX_MAPS: u64 = 16 << 20;
const MAX_VDSO: usize = 1 << 20;

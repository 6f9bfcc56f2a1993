//! Spellings of the names of entries. The build script indexes them, a lookup searches them.

use crate::{Entry, Kind};

/// All spellings of the name of an entry, as [`normal`] makes them.
pub(crate) fn spellings(entry: &Entry<'_>) -> Vec<String> {
    let mut spellings = vec![normal(&entry.name)];
    spellings.extend(entry.also.iter().map(|name| normal(name)));
    let name = entry.name.as_ref();
    match entry.kind {
        // `tcp_sack` of `net.ipv4.tcp_sack`; for settings per interface the part after `*.`.
        Kind::Setting => spellings.extend(name.match_indices('.').map(|(dot, _)| normal(&name[dot + 1..]))),
        Kind::DropReason => spellings.extend(name.strip_prefix(DROP_REASON).map(normal)),
        Kind::TcpInfo => spellings.extend(name.strip_prefix("tcpi_").map(normal)),
        // `Recv-Q` of `ss: Recv-Q`
        Kind::Column => spellings.extend(name.split_once(": ").map(|(_, column)| normal(column))),
        Kind::Message | Kind::Counter | Kind::State | Kind::Timer | Kind::Error | Kind::Term => {}
    }
    spellings.sort_unstable();
    spellings.dedup();
    spellings
}

/// The normal form of a name: lower case, `-` for `_` and blanks.
pub(crate) fn normal(name: &str) -> String {
    name.trim().replace(['_', ' '], "-").to_lowercase()
}

/// FNV-1a of a spelling: the key of the index. Two names may have the same, so that an entry found by it is compared.
pub(crate) fn key(spelling: &str) -> u32 {
    let bytes = spelling.bytes();
    bytes.fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

const DROP_REASON: &str = "SKB_DROP_REASON_";

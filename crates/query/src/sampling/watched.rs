//! Which events of connections are collected for a listing.

use crate::listing::Listing;
use sockeye_source::{Choice, Ends, Families, own_namespace, own_pid_namespace};
use sockeye_tracepoints::{ConnectionOptions, Protocols};

/// Events of the connections that a listing is about.
pub(super) struct Watched {
    pub(super) options: ConnectionOptions,
    /// Whether sockets carry no namespace, since only our own is listed.
    pub(super) is_here: bool,
}

/// Returns what to collect for a listing: events of these kinds, of TCP. `readers`: with what finds their owners.
///
/// # Errors
/// Why that is not possible.
pub(super) fn watched(listing: &Listing<'_>, kinds: Vec<u32>, readers: bool) -> Result<Watched, String> {
    let context = listing.context;
    if !matches!(context.choice, Choice::Auto | Choice::Bpf) {
        return Err("BPF programs would count them, and --source excludes these".to_owned());
    }
    let mut namespaces = context.namespaces.iter();
    let (first, others) = (namespaces.next(), namespaces.next());
    let only = match first {
        Some(Some(netns)) if others.is_none() && !context.namespaces.are_many() => Some(netns.inode()),
        Some(None) => Some(own_namespace().ok_or("our network namespace is not known")?),
        _ => None,
    };
    let options = ConnectionOptions {
        kinds,
        ends: Ends::ANYWHERE,
        families: Families::BOTH,
        netns: only.map(|netns| netns.0),
        ring_bytes: RING_BYTES,
        pid_namespace: own_pid_namespace(),
        readers,
        protocols: Protocols {
            tcp: true,
            udp: false,
            mptcp: false,
        },
        // What is left out would be missing in the sums.
        cpu_ppm_max: None,
    };
    Ok(Watched {
        options,
        is_here: matches!(first, Some(None)),
    })
}

const RING_BYTES: u32 = 4 << 20;

//! Connections whose addresses NAT changes. `CAP_NET_ADMIN` in the network namespace's user namespace is needed.

use crate::dump::run_here;
use crate::outcome::Reason;
use sockeye_model::{ConnectionEnds, Translation};
use sockeye_sys::netlink::NetlinkSocket;
use sockeye_wire::conntrack::Conntrack;
use std::fmt;
use std::fs;

/// TCP connections that NAT changes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Translations {
    /// The connections, at most as many as were asked for.
    pub all: Vec<Translation>,
    /// Connections that did not fit.
    pub left_out: u64,
    /// Whether the table changed meanwhile, or messages were lost: some may be missing.
    pub is_incomplete: bool,
}

/// Why they cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TranslationsError(Reason);

impl fmt::Display for TranslationsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ask for tracked connections: {}", self.0)
    }
}

impl std::error::Error for TranslationsError {}

/// Returns the TCP connections of the calling thread's network namespace that NAT changes, at most `max`. Where nothing is tracked the
/// kernel is not asked, since that would load its modules.
///
/// # Errors
/// When they may not be read.
pub fn translations(max: usize) -> Result<Translations, TranslationsError> {
    let mut found = Translations::default();
    if !is_tracking() {
        return Ok(found);
    }
    let socket = NetlinkSocket::open_netfilter();
    let socket = socket.map_err(|errno| TranslationsError(Reason::System("open a netlink socket", errno)))?;
    let mut buffer = Vec::new();
    for (status, sequence) in [(Conntrack::SOURCE_NAT, 1), (Conntrack::DESTINATION_NAT, 2)] {
        let request = Conntrack::dump(status, sequence);
        let outcome = run_here(&socket, &request, sequence, &mut buffer, &mut |message| {
            if message.kind != Conntrack::MESSAGE {
                return;
            }
            let Ok(parsed) = Conntrack::parse(message.payload) else {
                found.is_incomplete = true;
                return;
            };
            // The first dump had those of which the source changes, too.
            let is_again = |entry: &Conntrack| sequence == 2 && entry.status & Conntrack::SOURCE_NAT != 0;
            let entry = parsed.filter(|entry| entry.status & status == status && !is_again(entry));
            let Some(translation) = entry.and_then(|entry| translation(&entry)) else {
                return;
            };
            if found.all.len() < max {
                found.all.push(translation);
            } else {
                found.left_out += 1;
            }
        });
        if let Some(reason) = outcome.failure {
            return Err(TranslationsError(reason));
        }
        found.is_incomplete |= outcome.interrupted || outcome.overruns > 0 || outcome.truncated > 0;
    }
    Ok(found)
}

/// Whether this network namespace tracks any connection.
fn is_tracking() -> bool {
    let count = fs::read_to_string("/proc/sys/net/netfilter/nf_conntrack_count");
    count.is_ok_and(|count| count.trim() != "0")
}

/// Returns what NAT makes of an entry; `None`: it is no TCP, or nothing changes.
fn translation(entry: &Conntrack) -> Option<Translation> {
    let is_of_tcp = entry.original.protocol == IPPROTO_TCP && entry.reply.protocol == IPPROTO_TCP;
    (is_of_tcp && entry.is_translated()).then_some(Translation {
        zone: entry.original.zone.unwrap_or(entry.zone),
        original: ConnectionEnds {
            client: entry.original.source,
            server: entry.original.destination,
        },
        translated: ConnectionEnds {
            client: entry.reply.destination,
            server: entry.reply.source,
        },
    })
}

const IPPROTO_TCP: u8 = 6;

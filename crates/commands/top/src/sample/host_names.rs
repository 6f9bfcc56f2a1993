//! Reads names of hosts from packets: answers of DNS, and beginnings of TLS.

use crate::observed::{ObservedNames, WithObserved};
use sockeye_console::notes;
use sockeye_filter::NoResolve;
use sockeye_filter::pcap::{Link, PacketFilter};
use sockeye_model::{Names, Place, counted_were};
use sockeye_query::context::QueryContext;
use sockeye_query::packet_program;
use sockeye_sys::packet_ring::{PacketRing, RingOptions};
use sockeye_wire::packet::{Decoded, LinkType, Notice, decode, notice};
use sockeye_wire::tls::server_name;
use std::net::IpAddr;

/// Names of hosts from the packets of this host.
pub(super) struct HostNames {
    /// `None` if they are not observed.
    observer: Option<NameObserver>,
    /// Why not, if they were to be; empty otherwise.
    unseen: String,
    observed: ObservedNames,
}

impl HostNames {
    /// Begins to observe, unless names stay numbers.
    pub(super) fn begin(is_numeric: bool, context: &QueryContext) -> Self {
        let (observer, unseen) = match (!is_numeric).then(|| NameObserver::begin(context)) {
            None => (None, String::new()),
            Some(Ok(observer)) => (Some(observer), String::new()),
            Some(Err(error)) => (None, format!("no names from DNS and TLS: {error}")),
        };
        Self {
            observer,
            unseen,
            observed: ObservedNames::default(),
        }
    }

    /// Takes what has arrived, and says what is missing.
    pub(super) fn read(&mut self) {
        if !self.unseen.is_empty() {
            notes::say(&format!("sockeye: {}\n", self.unseen));
        }
        let Some(observer) = &mut self.observer else {
            return;
        };
        observer.read(&mut self.observed);
        if observer.lost > 0 {
            notes::say(&format!(
                "sockeye: {} not seen: names may be in them\n",
                counted_were(observer.lost, "packet")
            ));
        }
    }

    /// Returns names, with those that were observed for hosts that have none.
    pub(super) fn with<'a>(
        &'a self,
        names: &'a dyn Names,
        place_of: &'a dyn Fn(IpAddr) -> Option<Place>,
    ) -> WithObserved<'a> {
        WithObserved {
            names,
            observed: &self.observed,
            place_of,
        }
    }
}

/// A packet socket that gets them, in the network namespace that is listed; of several, in ours.
struct NameObserver {
    ring: PacketRing,
    /// Packets that found no space.
    lost: u64,
}

impl NameObserver {
    /// Opens the socket.
    ///
    /// # Errors
    /// Why it cannot be opened, in words.
    fn begin(context: &QueryContext) -> Result<Self, String> {
        let filter = PacketFilter::parse(FILTER, Link::CookedSocket, &NoResolve);
        let filter = filter.map_err(|error| error.to_string())?;
        let program = packet_program(&filter, SNAP_BYTES).map_err(|error| error.to_string())?;
        let open = || {
            PacketRing::open(&RingOptions {
                interface: None,
                is_cooked: true,
                // A client's side of TLS. What passes loopback twice has the same names twice.
                ignores_outgoing: false,
                is_promiscuous: false,
                filter: &program,
                block_bytes: BLOCK_BYTES,
                blocks: BLOCKS,
                wait_ms: WAIT_MS,
            })
        };
        let namespaces = &context.namespaces;
        let elsewhere = namespaces
            .iter()
            .flatten()
            .next()
            .filter(|_| !namespaces.are_many());
        let opened = match elsewhere {
            Some(namespace) => context
                .run_in(namespace, open)
                .ok_or("the network namespace cannot be entered")?,
            None => open(),
        };
        let ring = opened.map_err(|error| error.to_string())?;
        Ok(Self { ring, lost: 0 })
    }

    /// Adds the names in the packets that have arrived.
    fn read(&mut self, names: &mut ObservedNames) {
        // As many blocks as there are: packets that arrive meanwhile wait for the next call.
        for _ in 0..BLOCKS {
            let Some(block) = self.ring.block() else { break };
            for packet in block.packets() {
                add_names(packet.bytes, packet.original_len, names);
            }
        }
        if let Ok(statistics) = self.ring.statistics() {
            self.lost += u64::from(statistics.dropped);
        }
    }
}

/// Adds the names in a packet, which begins with its network header.
fn add_names(bytes: &[u8], original_len: u32, names: &mut ObservedNames) {
    let Ok(decoded) = decode(LinkType::RAW, bytes, original_len) else {
        return;
    };
    if let Some(Notice::Dns(message)) = notice(&decoded, bytes) {
        names.add_answer(&message);
    }
    if let Decoded::Segment(segment) = decoded {
        let payload = original_len.checked_sub(segment.payload_len);
        let payload = payload.and_then(|begin| bytes.get(begin as usize..));
        if let Some(name) = payload.and_then(server_name) {
            names.add_server(segment.destination, name);
        }
    }
}

/// Answers of DNS; and the first segments of clients of TLS, which are records of a handshake (22) with a ClientHello (1).
const FILTER: &str = "udp src port 53 or (tcp dst port 443 and tcp[((tcp[12] & 0xf0) >> 2)] = 22 and tcp[((tcp[12] & 0xf0) >> 2) + 5] = 1) \
     or (ip6 and tcp dst port 443 and ip6[((ip6[52] & 0xf0) >> 2) + 40] = 22 and ip6[((ip6[52] & 0xf0) >> 2) + 45] = 1)";
/// What is longer loses its last records.
const SNAP_BYTES: u32 = 1500;
const BLOCK_BYTES: u32 = 1 << 16;
const BLOCKS: u32 = 8;
const WAIT_MS: u32 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filter_is_right() {
        let filter = PacketFilter::parse(FILTER, Link::CookedSocket, &NoResolve).unwrap();
        assert!(packet_program(&filter, SNAP_BYTES).is_ok());
    }

    #[test]
    fn packets_without_names_and_cut_ones_add_nothing() {
        let mut names = ObservedNames::default();
        let mut packet = vec![0x45, 0, 0, 46, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 192, 0, 2, 7];
        packet.extend([
            0x30, 0x39, 1, 0xbb, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x18, 0, 1, 0, 0, 0, 0,
        ]);
        packet.extend([22, 3, 1, 0, 1, 1]);
        for length in 0..=packet.len() {
            add_names(&packet[..length], 46, &mut names);
        }
        assert_eq!(names.of([192, 0, 2, 7].into()), None);
    }
}

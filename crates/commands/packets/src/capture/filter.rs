//! From a filter expression to a BPF program.

use super::interface::{Interface, LOOPBACK_INDEX, Link};
use anyhow::anyhow;
use sockeye_console::notes;
use sockeye_console::usage::UsageError;
use sockeye_filter::Resolve;
use sockeye_filter::pcap::{self, PacketFilter};
use sockeye_model::{Port, Protocol};
use sockeye_query::packet_program;
use sockeye_source::names::{ResolveError, SystemNames, resolve};
use sockeye_sys::packet_ring::Instruction;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Compiles the filter for the interface's socket; the program passes `snaplen` bytes of a packet.
pub(super) fn program(text: &str, snaplen: u32, interface: &Interface) -> anyhow::Result<Vec<Instruction>> {
    let link = match interface.link {
        Link::Ethernet => pcap::Link::EthernetSocket,
        Link::Raw => pcap::Link::Raw,
        Link::Cooked => pcap::Link::CookedSocket,
    };
    let filter = PacketFilter::parse(text, link, &FilterNames(&interface.names))
        .map_err(|error| UsageError(error.render(text)))?;
    // On the loopback interface each packet passes twice: as it goes out, and as it comes in. tcpdump drops the first
    // of them as well, but only after the kernel has copied it.
    let filter = match interface.index {
        None => filter.without_echo(Some(LOOPBACK_INDEX)),
        Some(_) if interface.is_loopback => filter.without_echo(None),
        Some(_) => filter,
    };
    packet_program(&filter, snaplen).map_err(|error| anyhow!("capture: {error}"))
}

/// Names of services and hosts, for the filter.
#[derive(Debug)]
struct FilterNames<'a>(&'a SystemNames);

impl Resolve for FilterNames<'_> {
    fn service(&self, name: &str) -> Option<u16> {
        self.0.services().port(name, None).map(|Port(port)| port)
    }

    fn service_of(&self, protocol: Protocol, name: &str) -> Option<u16> {
        self.0
            .services()
            .port(name, Some(protocol))
            .map(|Port(port)| port)
    }

    fn host(&self, name: &str) -> Vec<IpAddr> {
        resolve(name, Instant::now() + RESOLVER_TIMEOUT).unwrap_or_else(|error| {
            if matches!(error, ResolveError::TimedOut) {
                notes::say(&format!("sockeye: the resolver does not answer for {name:?}\n"));
            }
            Vec::new()
        })
    }
}

const RESOLVER_TIMEOUT: Duration = Duration::from_secs(5);

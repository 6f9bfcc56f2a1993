//! The interface that is captured from: its namespace, and the link-layer header of its packets.

use super::args::CaptureArgs;
use anyhow::{Context, anyhow, bail};
use rustix::io::Errno;
use sockeye_filter::nearest;
use sockeye_model::Losses;
use sockeye_output::harmless;
use sockeye_query::namespaces::NetnsSelection;
use sockeye_source::names::{Interfaces, NameKinds, SystemNames};
use sockeye_source::{Devices, within};
use sockeye_sys::packet_ring::{Instruction, PacketRing, RingError, RingOptions};
use sockeye_sys::rights::{CheckedIn, remedy};
use sockeye_wire::packet::LinkType;

/// An interface, or all interfaces of a namespace.
#[derive(Debug)]
pub(super) struct Interface {
    /// Name as it was typed, or `any`.
    pub(super) name: String,
    /// Index; `None` for all interfaces.
    pub(super) index: Option<u32>,
    pub(super) link: Link,
    /// Whether packets that it sends are received again.
    pub(super) is_loopback: bool,
    pub(super) places: NetnsSelection,
    pub(super) names: SystemNames,
}

/// Link-layer header of packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Link {
    Ethernet,
    /// None: packets begin with the IP header.
    Raw,
    /// A synthetic header (`LINKTYPE_LINUX_SLL2`), for interfaces with other or different headers.
    Cooked,
}

impl Interface {
    pub(super) fn find(args: &CaptureArgs) -> anyhow::Result<Self> {
        let kinds = NameKinds {
            services: true,
            namespaces: true,
            ..NameKinds::NONE
        };
        let names = SystemNames::new(kinds);
        let places = NetnsSelection::find(args.netns.as_deref(), &names, None, &mut Losses::default())?;
        let mut interface = Self {
            name: args.interface.clone(),
            index: None,
            link: Link::Cooked,
            is_loopback: false,
            places,
            names,
        };
        if args.interface == ANY {
            return Ok(interface);
        }
        let (indices, devices) = interface.inside(|| (Interfaces::snapshot(), Devices::read()))?;
        let found = indices.index(&args.interface);
        let Some(index) = found else {
            let mut known: Vec<_> = match &devices {
                Ok(devices) => devices.links.iter().map(|link| harmless(&link.name)).collect(),
                Err(_) => Vec::new(),
            };
            known.sort_unstable();
            let nearest = nearest(&args.interface, known.iter().map(AsRef::as_ref).chain([ANY]));
            let guess = nearest.map_or(String::new(), |nearest| format!(" ({nearest})"));
            let more = if known.len() > LISTED_MAX { ", ..." } else { "" };
            known.truncate(LISTED_MAX);
            let location = match &args.netns {
                Some(netns) => format!("in network namespace {netns:?}"),
                None => "here".to_owned(),
            };
            bail!(
                "capture: no interface {:?} {location}{guess}; there are {}{more}, and 'any' for all of them",
                args.interface,
                known.join(", ")
            );
        };
        let devices = devices.map_err(|reason| anyhow!("capture: cannot list interfaces: {reason}"))?;
        let mut links = devices.links.iter();
        let kind = links.find(|link| link.name == args.interface.as_bytes());
        interface.index = Some(index.0);
        interface.link = Link::of(kind.map(|link| link.kind));
        interface.is_loopback = kind.is_some_and(|link| link.kind == ARPHRD_LOOPBACK);
        Ok(interface)
    }

    /// Returns whether it is in another network namespace than this process.
    pub(super) fn is_elsewhere(&self) -> bool {
        self.places.iter().next().flatten().is_some()
    }

    /// Runs `act` in the namespace of the interface.
    pub(super) fn inside<T: Send>(&self, act: impl FnOnce() -> T + Send) -> anyhow::Result<T> {
        match self.places.iter().next().flatten() {
            None => Ok(act()),
            Some(namespace) => self
                .places
                .open(namespace, |place| within(place, act))
                .context("capture: cannot open the network namespace")?
                .map_err(|error| anyhow!("capture: {error}; capturing there takes CAP_NET_RAW too")),
        }
    }

    /// Opens a ring of the requested size, or a smaller one if the kernel has too little memory.
    pub(super) fn open(&self, args: &CaptureArgs, filter: &[Instruction]) -> anyhow::Result<PacketRing> {
        let mut buffer = args.buffer;
        loop {
            let block_bytes =
                BLOCK_BYTES.min(u32::try_from(buffer / 2).unwrap_or(u32::MAX).next_power_of_two());
            let options = RingOptions {
                interface: self.index,
                is_cooked: self.link == Link::Cooked,
                ignores_outgoing: self.is_loopback,
                is_promiscuous: !args.no_promiscuous && self.link == Link::Ethernet,
                filter,
                block_bytes,
                blocks: u32::try_from(buffer / u64::from(block_bytes))
                    .unwrap_or(u32::MAX)
                    .max(2),
                wait_ms: BLOCK_WAIT_MS,
            };
            match self.inside(|| PacketRing::open(&options))? {
                Ok(ring) => return Ok(ring),
                // A smaller ring may still fit.
                Err(error) if error.is_out_of_memory() && buffer > 1 << 20 => buffer /= 2,
                Err(error) => return Err(self.with_remedy(error)),
            }
        }
    }

    fn with_remedy(&self, error: RingError) -> anyhow::Error {
        let name = harmless(self.name.as_bytes());
        match error.errno {
            Errno::PERM | Errno::ACCESS => anyhow!(
                "capture: {error}; it takes CAP_NET_RAW: {}; or `setcap cap_net_raw+ep` a copy of this binary",
                remedy("CAP_NET_RAW", CheckedIn::OwnerOfNetns)
            ),
            Errno::NETDOWN => anyhow!("capture: {name} is down; `ip link set {name} up` brings it up"),
            Errno::NODEV | Errno::NXIO => anyhow!("capture: {name} has just vanished"),
            _ if error.is_out_of_memory() => {
                anyhow!("capture: {error}; a smaller one may do: -B 1Mi")
            }
            Errno::NOMEM => anyhow!(
                "capture: {error}: the filter is too long for the sysctl net.core.optmem_max; a shorter one may do, such as a net \
                 instead of many hosts"
            ),
            _ => anyhow!("capture: {name}: {error}"),
        }
    }
}

impl Link {
    /// Returns the header for a kind of interface (`ARPHRD_*`), as libpcap does.
    fn of(kind: Option<u16>) -> Self {
        match kind {
            Some(ARPHRD_ETHER | ARPHRD_LOOPBACK) => Self::Ethernet,
            Some(ARPHRD_RAWIP | ARPHRD_TUNNEL | ARPHRD_TUNNEL6 | ARPHRD_SIT | ARPHRD_NONE) => Self::Raw,
            _ => Self::Cooked,
        }
    }

    pub(super) const fn kind(self) -> LinkType {
        match self {
            Self::Ethernet => LinkType::ETHERNET,
            Self::Raw => LinkType::RAW,
            Self::Cooked => LinkType::LINUX_SLL2,
        }
    }

    /// Returns its name in messages.
    pub(super) const fn description(self) -> &'static str {
        match self {
            Self::Ethernet => "Ethernet",
            Self::Raw => "raw IP",
            Self::Cooked => "Linux cooked v2",
        }
    }
}

/// The name for all interfaces, as in tcpdump.
pub(super) const ANY: &str = "any";

/// `LOOPBACK_IFINDEX` of `include/net/net_namespace.h`: the same in every namespace.
pub(super) const LOOPBACK_INDEX: u32 = 1;

/// The kernel hands a block over when it is full or after this time, which is short enough to find the owners of packets.
pub(super) const BLOCK_WAIT_MS: u32 = 20;
const BLOCK_BYTES: u32 = 1 << 20;
const LISTED_MAX: usize = 10;

/// `include/uapi/linux/if_arp.h`
const ARPHRD_ETHER: u16 = 1;
const ARPHRD_RAWIP: u16 = 519;
const ARPHRD_TUNNEL: u16 = 768;
const ARPHRD_TUNNEL6: u16 = 769;
pub(super) const ARPHRD_LOOPBACK: u16 = 772;
const ARPHRD_SIT: u16 = 776;
const ARPHRD_NONE: u16 = 0xfffe;

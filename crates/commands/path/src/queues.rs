//! Looks again and again at queues that packets' stamps do not show: classes, rings in bytes, accept queues.

use sockeye_model::{InterfaceIndex, NetnsInode, Port, Protocol, ProtocolSet, Queues, StateSet};
use sockeye_path::{Device, Part, QueueFold};
use sockeye_query::listing::{Listing, QueryOptions, Scope};
use sockeye_source::{Detail, End, Families, own_namespace, vitals};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// Looks at queues, seldom enough that it costs little.
pub(crate) struct QueueWatch<'a> {
    listing: &'a Listing<'a>,
    /// Of local ends, if the filter has some: the peers of a listener's connections may match, and the listener itself has none.
    bounds: Option<End>,
    fold: QueueFold,
    /// When to look next; `None`: not before the end, since a look takes long, and the ring fills meanwhile.
    next: Option<Instant>,
}

impl<'a> QueueWatch<'a> {
    /// Prepares looking at the queues of devices, and of listeners that match or have a local end within bounds.
    pub(crate) fn begin(listing: &'a Listing<'a>, bounds: End) -> Self {
        Self {
            listing,
            bounds: Some(bounds).filter(|bounds| *bounds != End::ANYWHERE),
            fold: QueueFold::default(),
            next: None,
        }
    }

    /// Looks at listeners; returns whether there are any.
    pub(crate) fn has_listeners(&mut self) -> anyhow::Result<bool> {
        self.look_at_listeners()?;
        Ok(self.fold.has_listeners())
    }

    /// Begins to look, when packets have been followed for a moment.
    pub(crate) fn start(&mut self) {
        self.next = Some(Instant::now() + INTERVAL_MIN);
    }

    /// Looks at the queues of devices, and of listeners that match, if it is time.
    pub(crate) fn look_in_time(&mut self, devices: impl Iterator<Item = Device>) -> anyhow::Result<()> {
        match self.next {
            Some(next) if Instant::now() >= next => self.look(devices),
            _ => Ok(()),
        }
    }

    /// Looks at the queues now.
    pub(crate) fn look(&mut self, devices: impl Iterator<Item = Device>) -> anyhow::Result<()> {
        let begin = Instant::now();
        self.look_at_devices(devices);
        self.look_at_listeners()?;
        let took = begin.elapsed();
        self.next = (took <= LOOK_MAX).then(|| Instant::now() + (took * PAUSE).max(INTERVAL_MIN));
        Ok(())
    }

    /// Returns what was seen.
    pub(crate) fn finish(self) -> QueueFold {
        self.fold
    }

    fn look_at_devices(&mut self, devices: impl Iterator<Item = Device>) {
        let mut of_namespaces: BTreeMap<u32, BTreeSet<Device>> = BTreeMap::new();
        for device in devices {
            of_namespaces.entry(device.netns).or_default().insert(device);
        }
        for (netns, devices) in of_namespaces.into_iter().take(NAMESPACES_MAX) {
            let devices: Vec<Device> = devices.into_iter().collect();
            let asked: Vec<_> = devices
                .iter()
                .map(|device| (InterfaceIndex(device.ifindex.cast_unsigned()), device.name))
                .collect();
            let is_ours = own_namespace() == Some(NetnsInode(netns));
            let read = || vitals::device_queues(&asked, is_ours);
            let namespaces = &self.listing.context.namespaces;
            let queues = match namespaces.with_inode(NetnsInode(netns)) {
                _ if is_ours => Some(read()),
                Some(namespace) => self.listing.context.run_in(namespace, read),
                None => None,
            };
            for (device, queues) in devices.iter().zip(queues.unwrap_or_default()) {
                self.fold.add_device(*device, &queues);
            }
        }
    }

    fn look_at_listeners(&mut self) -> anyhow::Result<()> {
        let options = QueryOptions {
            protocols: ProtocolSet::of(&[Protocol::Tcp]),
            families: Families::BOTH,
            states: StateSet::LISTENING,
            detail: Detail::QUEUES,
            scope: if self.bounds.is_some() {
                Scope::All
            } else {
                Scope::Matching
            },
        };
        let mut report = self.listing.begin();
        let owners = self.listing.owners(&mut report)?;
        // Several sockets can share an address (SO_REUSEPORT): the fullest of them is shown.
        let mut seen: BTreeMap<Part, u32> = BTreeMap::new();
        self.listing
            .run(&options, owners.as_ref(), &mut report, &mut |entry, matches| {
                let socket = entry.socket;
                let end = socket.local.ip().zip(socket.local.port());
                let is_within = |(ip, port): (IpAddr, Port)| {
                    self.bounds.is_some_and(|bounds| is_within(&bounds, ip, port.0))
                };
                if !matches && !end.is_some_and(is_within) {
                    return ControlFlow::Continue(());
                }
                if let (Some((ip, port)), Queues::Accept { waiting, backlog }) = (end, socket.queues) {
                    let listener = Part::Listener {
                        local: SocketAddr::new(ip, port.0),
                        netns: socket.netns.map(|netns| netns.0),
                        limit: backlog,
                    };
                    let most = seen.entry(listener).or_default();
                    *most = waiting.max(*most);
                }
                ControlFlow::Continue(())
            })?;
        for (listener, waiting) in seen {
            self.fold.add_listener(listener, waiting);
        }
        Ok(())
    }
}

/// Whether connections of a listener can have a local end within bounds.
fn is_within(bounds: &End, ip: IpAddr, port: u16) -> bool {
    let address = match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    };
    let mut bytes = address.iter().zip(bounds.prefix.iter().zip(&bounds.mask));
    (bounds.port_min..=bounds.port_max).contains(&port)
        && (ip.is_unspecified() || bytes.all(|(byte, (prefix, mask))| byte & mask == *prefix))
}

/// Shortest time between two looks; and how many times as long as one took.
const INTERVAL_MIN: Duration = Duration::from_millis(100);
const PAUSE: u32 = 50;
/// After a longer look the next one is at the end.
const LOOK_MAX: Duration = Duration::from_millis(50);
/// Namespaces whose devices are looked at.
const NAMESPACES_MAX: usize = 32;

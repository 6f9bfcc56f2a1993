//! Finds why this host cannot send: connections with data that does not leave it, tied to their route, the state of the
//! device and of the next hop.

use crate::finding::{Example, Facts, Subject};
use crate::suspects::EPHEMERAL_FIRST;
use crate::symptom::Symptom;
use crate::{Finding, Rule, Severity, shell_word};
use foldhash::fast::FixedState;
use sockeye_model::{
    BridgePort, Device, InterfaceIndex, NetnsInode, NextHop, Owner, PathQuery, Process, Queues, Route,
    SendPath, Socket, State, TcpInfo, TimerKind, Vitals,
};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::IpAddr;

/// The ways to the peers of connections that cannot send, and these connections by cause.
#[derive(Debug, Default)]
pub(crate) struct SendFaults {
    paths: HashMap<PathQuery, SendPath, FixedState>,
    /// Ways whose next hop did not answer in two looks
    unanswered_twice: HashSet<PathQuery, FixedState>,
    groups: BTreeMap<(Option<NetnsInode>, Cause), Group>,
}

/// Why this host cannot send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cause {
    NoRoute,
    RouteRejects,
    AddressGone(IpAddr),
    DeviceDown(InterfaceIndex),
    NoCarrier(InterfaceIndex),
    /// The next hop does not answer.
    Unanswered(InterfaceIndex, IpAddr),
    /// The next hop is the peer, and does not answer.
    PeerUnanswered(InterfaceIndex, IpAddr),
    /// The port of a bridge that leads to the next hop is down or has no carrier.
    BridgePort(InterfaceIndex),
    /// The way is open, but the packets do not leave.
    Dropped,
    /// The packets do not leave, and the way is not known.
    Unknown,
    /// Answers come in over another device, and `rp_filter` discards them.
    ReversePath(InterfaceIndex),
}

#[derive(Debug, Default)]
struct Group {
    sockets: u64,
    owners: BTreeSet<Option<Process>>,
    stalled_ms: Option<u64>,
    sendq_bytes: u64,
    /// Whether a process has one of the sockets
    has_file: bool,
    /// Whether they only try to connect
    only_connects: bool,
    examples: Vec<Example>,
}

/// Whether the packets of a socket do not leave this host, as its own state shows.
///
/// - Data waits, nothing is in flight, and the peer's window is open: it could be sent, but is not.
/// - A retransmission is due again and again, and none is under way (`tcp_retransmit_skb()` failed).
///
/// `tries`: timers that must have gone off.
fn does_not_leave(socket: &Socket, info: &TcpInfo, tries: u32) -> bool {
    let Some(timer) = socket.timer.filter(|timer| timer.retransmits >= tries) else {
        return false;
    };
    match timer.kind {
        TimerKind::ZeroWindowProbe => {
            info.unacked_segs == Some(0) && has_open_window(socket, info) == Some(true)
        }
        TimerKind::Retransmission => {
            info.retrans_segs == Some(0)
                && info.lost_segs.is_some_and(|lost| lost > 0)
                && info.sacked_segs == Some(0)
        }
        _ => false,
    }
}

/// Whether the peer's window has room for the next segment; `None` if the kernel does not report it (before Linux 5.18).
#[must_use]
pub fn has_open_window(socket: &Socket, info: &TcpInfo) -> Option<bool> {
    let window = info.snd_wnd_bytes?;
    let queued = match socket.queues {
        Queues::Data { send_bytes, .. } => Some(send_bytes),
        _ => None,
    };
    let next = info.notsent_bytes.or(queued)?.min(info.snd_mss_bytes?);
    Some(window > 0 && window >= next)
}

/// Whether the way of a socket to its peer should be looked up.
pub(crate) fn is_stuck(socket: &Socket, info: &TcpInfo) -> bool {
    does_not_leave(socket, info, 0)
        || socket.timer.is_some_and(|timer| {
            matches!(timer.kind, TimerKind::Retransmission | TimerKind::Keepalive) && timer.retransmits > 0
        })
}

/// Whether a socket connects, and did not have to repeat that yet. A next hop that does not answer ends such attempts
/// after three seconds.
pub(crate) fn is_connecting(socket: &Socket, info: &TcpInfo) -> bool {
    socket.state == State::SynSent && !is_stuck(socket, info)
}

/// Returns the question for the way of a socket to its peer; `None` if it has none.
#[must_use]
pub fn query(socket: &Socket) -> Option<PathQuery> {
    // Routing rules choose by the ports of services: with those that the kernel chooses each connection would be a
    // question of its own.
    let ports = [socket.local.port()?.0, socket.peer.port()?.0];
    let is_service = |port: u16| port < EPHEMERAL_FIRST;
    let ports = ports.map(|port| if is_service(port) { port } else { 0 });
    Some(PathQuery {
        netns: socket.netns,
        from: socket.local.ip()?.to_canonical(),
        to: socket.peer.ip()?.to_canonical(),
        mark: socket.mark.unwrap_or(0),
        uid: socket.uid,
        interface: socket.interface,
        ports,
    })
}

impl SendFaults {
    pub(crate) fn add_paths(&mut self, paths: Vec<SendPath>) {
        self.paths
            .extend(paths.into_iter().map(|path| (path.query, path)));
    }

    /// Adds another look at some of the ways.
    pub(crate) fn confirm(&mut self, paths: &[SendPath]) {
        let unanswered = paths.iter().filter(|path| is_unanswered(path));
        let twice = unanswered.filter(|path| self.paths.get(&path.query).is_some_and(is_unanswered));
        self.unanswered_twice.extend(twice.map(|path| path.query));
    }

    /// Adds what an earlier sample found.
    pub(crate) fn confirm_by(&mut self, earlier: &HashSet<PathQuery, FixedState>) {
        let twice = self.unanswered().filter(|query| earlier.contains(query));
        let twice: Vec<_> = twice.collect();
        self.unanswered_twice.extend(twice);
    }

    /// Ways whose next hop does not answer.
    pub(crate) fn unanswered(&self) -> impl Iterator<Item = PathQuery> {
        let all = self.paths.values().filter(|path| is_unanswered(path));
        all.map(|path| path.query)
    }

    /// The way of a socket to its peer, if it was looked up.
    pub(crate) fn path(&self, socket: &Socket) -> Option<&SendPath> {
        self.paths.get(&query(socket)?)
    }

    /// Returns why this host cannot send what the socket has to send; `None` if it is not known that it cannot.
    pub(crate) fn cause(&self, socket: &Socket, info: &TcpInfo, vitals: Option<&Vitals>) -> Option<Cause> {
        let path = query(socket).and_then(|query| self.paths.get(&query));
        if !is_stuck(socket, info) {
            let path = path
                .filter(|path| is_connecting(socket, info) && self.unanswered_twice.contains(&path.query))?;
            let Route::Via { device, gateway } = path.route else {
                return None;
            };
            return unanswered(socket, device, gateway);
        }
        // One timer may be bad luck; with a way that is known to be closed it is enough.
        let fails_here = does_not_leave(socket, info, 0);
        let is_dropped = does_not_leave(socket, info, TRIES_MIN);
        // Without loopback nothing of this host reaches this host.
        let loopback = vitals.and_then(|vitals| vitals.devices.iter().find(|device| device.is_loopback));
        if let (Some(loopback), Some(peer)) = (loopback.filter(|device| !device.is_up), socket.peer.ip()) {
            let peer = peer.to_canonical();
            let mut own = vitals.into_iter().flat_map(|vitals| &vitals.devices);
            if peer.is_loopback() || own.any(|device| has_address(device, peer)) {
                return Some(Cause::DeviceDown(loopback.index));
            }
        }
        match path.map(|path| path.route) {
            Some(Route::Via { device, gateway }) => {
                let found = vitals.and_then(|vitals| with_index(vitals, device));
                if let (Some(found), Some(vitals)) = (found, vitals)
                    && let Some(cause) = lost_device(found, vitals)
                {
                    return Some(cause);
                }
                if path.is_some_and(is_unanswered) {
                    return unanswered(socket, device, gateway);
                }
                if let (Some(found), Some(vitals), Some(path)) = (found, vitals, path)
                    && let Some(port) = lost_port(path, found, info, vitals)
                {
                    return Some(Cause::BridgePort(port));
                }
                is_dropped.then_some(Cause::Dropped)
            }
            Some(Route::Refused(errno)) => {
                // The look-up cannot see all that a socket's own route depends on: its own state must agree.
                let knows = info.retrans_segs.is_some() && info.lost_segs.is_some();
                let is_keepalive = socket
                    .timer
                    .is_some_and(|timer| timer.kind == TimerKind::Keepalive);
                if knows && !fails_here && !is_keepalive {
                    return None;
                }
                let local = socket.local.ip()?.to_canonical();
                let is_ours = vitals.is_none_or(|vitals| {
                    let mut all = vitals.devices.iter().flat_map(|device| &device.addresses);
                    // Loopback's addresses are not read.
                    vitals.devices.is_empty()
                        || local.is_loopback()
                        || all.any(|ip| ip.to_canonical() == local)
                });
                // A device that is switched off loses its routes.
                let switched_off = vitals
                    .iter()
                    .flat_map(|vitals| &vitals.devices)
                    .find(|device| !device.is_up && has_address(device, local));
                Some(match errno {
                    _ if switched_off.is_some() => Cause::DeviceDown(switched_off?.index),
                    _ if !is_ours => Cause::AddressGone(local),
                    ENETUNREACH => Cause::NoRoute,
                    _ => Cause::RouteRejects,
                })
            }
            Some(Route::Unknown) | None => is_dropped.then_some(Cause::Unknown),
        }
    }

    /// Adds a socket that cannot send for this cause.
    pub(crate) fn add(
        &mut self,
        socket: &Socket,
        owner: Option<&Owner>,
        cause: Cause,
        stalled_ms: Option<u64>,
    ) {
        let sendq = match socket.queues {
            Queues::Data { send_bytes, .. } => u64::from(send_bytes),
            _ => 0,
        };
        let group = self.groups.entry((socket.netns, cause)).or_insert_with(|| Group {
            only_connects: true,
            ..Group::default()
        });
        group.sockets += 1;
        group.has_file |= socket.inode.is_some();
        group.only_connects &= socket.state == State::SynSent;
        if group.owners.len() < OWNERS_MAX {
            group.owners.insert(owner.map(|owner| owner.process));
        }
        group.stalled_ms = group.stalled_ms.max(stalled_ms);
        group.sendq_bytes += sendq;
        if group.examples.len() < EXAMPLES_MAX {
            let tries = socket.timer.map(|timer| timer.retransmits);
            let facts = Facts::NONE
                .with("stalled_ms", stalled_ms)
                .with("sendq_bytes", sendq)
                .with("tries", tries);
            group.examples.push(Example::new(socket, facts));
        }
    }

    /// Devices that are the cause, by namespace.
    pub(crate) fn devices(&self) -> impl Iterator<Item = (Option<NetnsInode>, InterfaceIndex)> {
        self.groups.keys().filter_map(|(netns, cause)| match cause {
            Cause::NoCarrier(device) | Cause::DeviceDown(device) | Cause::BridgePort(device) => {
                Some((*netns, *device))
            }
            _ => None,
        })
    }

    /// Whether a symptom of this socket is an effect: everything through its device stands still.
    pub(crate) fn explains(&self, socket: &Socket, symptom: &Symptom, vitals: Option<&Vitals>) -> bool {
        let is_effect = matches!(
            symptom.rule,
            Rule::PeerSilent
                | Rule::SendStuck
                | Rule::ConnectUnanswered
                | Rule::KeepaliveUnanswered
                | Rule::MtuBlackHole
                | Rule::ZeroWindow
                | Rule::Retransmissions
                | Rule::CwndFloor
                | Rule::RttInflation
        );
        let (true, Some(local)) = (is_effect, socket.local.ip()) else {
            return false;
        };
        self.devices().any(|(netns, index)| {
            let device = vitals.and_then(|vitals| with_index(vitals, index));
            netns == socket.netns && device.is_some_and(|device| has_address(device, local.to_canonical()))
        })
    }

    pub(crate) fn findings<'a>(
        &'a self,
        vitals_of: &'a dyn Fn(Option<NetnsInode>) -> Option<&'a Vitals>,
    ) -> impl Iterator<Item = Finding> + 'a {
        self.groups
            .iter()
            .map(|(&(netns, cause), group)| group.finding(netns, cause, vitals_of(netns)))
    }
}

impl Group {
    fn finding(&self, netns: Option<NetnsInode>, cause: Cause, vitals: Option<&Vitals>) -> Finding {
        let device = match cause {
            Cause::DeviceDown(index)
            | Cause::NoCarrier(index)
            | Cause::BridgePort(index)
            | Cause::Unanswered(index, _)
            | Cause::PeerUnanswered(index, _)
            | Cause::ReversePath(index) => vitals.and_then(|vitals| with_index(vitals, index)),
            _ => None,
        };
        let subject = match (cause, device) {
            (Cause::Unanswered(_, ip) | Cause::PeerUnanswered(_, ip), _) => Subject::NextHop {
                ip,
                device: device.map(|device| device.name),
            },
            (
                Cause::DeviceDown(_) | Cause::NoCarrier(_) | Cause::BridgePort(_) | Cause::ReversePath(_),
                Some(device),
            ) => Subject::Device(device.name),
            _ => Subject::Sockets,
        };
        let peer = self.examples.first().and_then(|example| example.peer.ip());
        let local = self.examples.first().and_then(|example| example.local.ip());
        let mut finding = Finding {
            meaning: match device {
                Some(device) if cause == Cause::NoCarrier(device.index) && is_bridge(device) => {
                    NO_FORWARDING_PORT
                }
                Some(device) if cause == Cause::DeviceDown(device.index) && device.is_loopback => {
                    LOOPBACK_DOWN
                }
                _ => cause.meaning(),
            },
            owner: if self.owners.len() == 1 {
                self.owners.first().copied().flatten()
            } else {
                None
            },
            owners: self.owners.len() as u64,
            facts: Facts::NONE
                .with("stalled_ms", self.stalled_ms)
                .with("sendq_bytes", Some(self.sendq_bytes).filter(|bytes| *bytes > 0))
                .with(
                    "carrier_changes",
                    device
                        .filter(|_| matches!(cause, Cause::NoCarrier(_) | Cause::BridgePort(_)))
                        .and_then(|device| device.carrier_changes),
                ),
            sockets: self.sockets,
            examples: self.examples.clone(),
            ..Finding::about(cause.rule(), netns, subject)
        };
        if !self.has_file {
            // The kernel ends them by itself.
            finding.severity = Severity::Notice;
        } else if self.only_connects && matches!(cause, Cause::PeerUnanswered(..)) {
            // It may never have been there.
            finding.severity = Severity::Warning;
        }
        let name = device.map(|device| shell_word(&String::from_utf8_lossy(device.name.as_bytes())));
        if let (
            Cause::NoRoute | Cause::RouteRejects | Cause::AddressGone(_) | Cause::Dropped | Cause::Unknown,
            Some(peer),
        ) = (cause, peer)
        {
            let from = match (cause, local) {
                (Cause::AddressGone(_), _) | (_, None) => String::new(),
                (_, Some(local)) => format!(" from {}", local.to_canonical()),
            };
            let port = self.examples.first().and_then(|example| example.peer.port());
            let service = match (cause, port) {
                (Cause::NoRoute | Cause::RouteRejects, Some(port)) if port.0 < EPHEMERAL_FIRST => {
                    format!(" ipproto tcp dport {}", port.0)
                }
                _ => String::new(),
            };
            finding = finding.inside(format!("ip route get {}{from}{service}", peer.to_canonical()));
        }
        match (cause, name) {
            (Cause::NoRoute | Cause::RouteRejects, _) => finding
                .inside("ip route show table all")
                .inside("ip rule")
                .advice("set the route again; the connections go on by themselves"),
            (Cause::AddressGone(_), _) => finding
                .inside("ip address")
                .advice("set the address again, or let the programs connect anew from another one"),
            (Cause::DeviceDown(_), Some(name)) => finding.inside(format!("ip link set dev {name} up")),
            (Cause::NoCarrier(_), Some(name)) if device.is_some_and(is_bridge) => finding
                .inside("bridge link show")
                .inside(format!("ip link show master {name}"))
                .advice("look which of its ports is down, without a cable, or blocked by the spanning tree"),
            (Cause::ReversePath(_), Some(name)) => finding
                .inside(format!("sysctl net.ipv4.conf.all.rp_filter net.ipv4.conf.{name}.rp_filter"))
                .inside("nstat -az TcpExtIPReversePathFilter")
                .advice(
                    "let the answers come in over the device that the route uses, or set rp_filter to 2 (loose) where they come in",
                ),
            (Cause::NoCarrier(_), Some(name)) => {
                let finding = if device.is_some_and(|device| device.is_physical) {
                    finding.inside(format!("ethtool {name}"))
                } else {
                    finding.inside(format!("ip -d link show dev {name}"))
                };
                finding.advice("look at the cable, the other end, or the program that reads the tunnel")
            }
            (Cause::BridgePort(_), Some(name)) => finding
                .inside("bridge link show")
                .inside(format!("ip -d link show dev {name}"))
                .advice("look at the cable or the other end of this port"),
            (Cause::Unanswered(_, ip) | Cause::PeerUnanswered(_, ip), Some(name)) => finding
                .inside(format!("ip neigh show to {ip} dev {name}"))
                .inside(format!("ping -c 3 {ip}"))
                .advice("look whether that host is up and in this network, and whether the VLAN is right"),
            (Cause::Dropped, _) => finding
                .inside("nft list ruleset")
                .inside("tc -s qdisc")
                .advice(
                    "look for a rule that drops what goes out: netfilter (nft, iptables), a BPF program of the cgroup, a tc filter",
                ),
            _ => finding.inside("ip address"),
        }
    }
}

impl Cause {
    const fn rule(self) -> Rule {
        match self {
            Self::ReversePath(_) => Rule::ReversePath,
            _ => Rule::CannotSend,
        }
    }

    const fn meaning(self) -> &'static str {
        match self {
            Self::NoRoute => {
                "This host cannot send: it has no route to the peer any more. The data of these connections does not leave it."
            }
            Self::RouteRejects => {
                "This host cannot send: its route to the peer rejects packets (blackhole, unreachable or prohibit). The data of these connections does not leave it."
            }
            Self::AddressGone(_) => {
                "This host cannot send: the local address of these connections is not its own any more."
            }
            Self::DeviceDown(_) => {
                "This host cannot send: the device to the peer is down (it was switched off). The data of these connections does not leave it."
            }
            Self::NoCarrier(_) => {
                "This host cannot send: the device to the peer has no carrier (no cable, its other end is down, or no program reads the tunnel)."
            }
            Self::Unanswered(..) => {
                "This host cannot send: the next hop does not answer ARP or neighbour discovery, so its neighbour entry fails. The peer itself may be well."
            }
            Self::PeerUnanswered(..) => {
                "The peer should be in this network, but does not answer ARP or neighbour discovery: it is down, or not there. Nothing can be sent to it."
            }
            Self::BridgePort(_) => {
                "This host cannot send: the port of the bridge that leads to the peer is down or has no carrier. The other ports do not know the peer."
            }
            Self::Unknown => {
                "This host cannot send: the data of these connections does not leave it. The way to the peer could not be looked up."
            }
            Self::ReversePath(_) => Rule::ReversePath.meaning(),
            Self::Dropped => {
                "This host drops what these connections send: there is a route, and the peer's window is open, but the last tries did not leave. A firewall rule of its own (netfilter), a BPF program or a tc filter does it."
            }
        }
    }
}

/// The next hop that does not answer: a router, or the peer itself.
fn unanswered(socket: &Socket, device: InterfaceIndex, gateway: Option<IpAddr>) -> Option<Cause> {
    Some(match gateway {
        Some(router) => Cause::Unanswered(device, router.to_canonical()),
        None => Cause::PeerUnanswered(device, socket.peer.ip()?.to_canonical()),
    })
}

/// What a device lacks, or the one below it that carries it.
fn lost_device(device: &Device, vitals: &Vitals) -> Option<Cause> {
    let is_lost = |device: &Device| !device.is_up || device.has_carrier == Some(false);
    if !device.is_up {
        return Some(Cause::DeviceDown(device.index));
    }
    if !is_lost(device) || device.is_loopback {
        return None;
    }
    let mut lowest = device;
    for _ in 0..STACKED_MAX {
        let mut ports = vitals
            .devices
            .iter()
            .filter(|port| port.master == Some(lowest.index));
        let below = match (ports.next(), ports.next()) {
            (Some(port), None) => Some(port),
            (Some(_), Some(_)) => None,
            _ => lowest
                .lower
                .filter(|_| lowest.driver.as_bytes() != b"veth")
                .and_then(|index| with_index(vitals, index)),
        };
        match below.filter(|below| is_lost(below)) {
            Some(below) => lowest = below,
            None => break,
        }
    }
    Some(if lowest.is_up {
        Cause::NoCarrier(lowest.index)
    } else {
        Cause::DeviceDown(lowest.index)
    })
}

/// The port of a bridge through which the next hop was reached: the only one that went down, and the others have not seen
/// it since, though their entries would not have expired.
fn lost_port(path: &SendPath, bridge: &Device, info: &TcpInfo, vitals: &Vitals) -> Option<InterfaceIndex> {
    let is_recent = info.last_ack_recv_ms.is_some_and(|ms| ms < LEARNED_MS);
    if !is_bridge(bridge) || path.bridge_port != BridgePort::NotLearned || !is_recent {
        return None;
    }
    let ports = vitals
        .devices
        .iter()
        .filter(|port| port.master == Some(bridge.index));
    let mut lost = ports.filter(|port| {
        let had_carrier = port.carrier_changes.is_some_and(|changes| changes >= 2);
        had_carrier && (!port.is_up || port.has_carrier == Some(false))
    });
    let port = lost.next()?;
    lost.next().is_none().then_some(port.index)
}

fn with_index(vitals: &Vitals, index: InterfaceIndex) -> Option<&Device> {
    vitals.devices.iter().find(|device| device.index == index)
}

fn has_address(device: &Device, ip: IpAddr) -> bool {
    device.addresses.iter().any(|own| own.to_canonical() == ip)
}

fn is_unanswered(path: &SendPath) -> bool {
    path.next_hop == Some(NextHop::Unanswered)
}

fn is_bridge(device: &Device) -> bool {
    device.driver.as_bytes() == b"bridge"
}

const LOOPBACK_DOWN: &str = "The loopback device is down: connections of this host to itself, at 127.0.0.1 or at its other addresses, get no answer.";
const NO_FORWARDING_PORT: &str = "This host cannot send: no port of the bridge to the peer forwards. Each is down, without carrier, or disabled.";

/// `ENETUNREACH`: what the kernel answers without a route.
const ENETUNREACH: i32 = 101;
/// Timers that went off without data leaving this host: a paced connection runs the same timer once.
const TRIES_MIN: u32 = 2;
/// Devices on top of each other that are followed.
const STACKED_MAX: usize = 8;
/// A bridge forgets a neighbour after 300 s without a packet of it (`ageing_time`).
const LEARNED_MS: u32 = 280_000;
/// Owners that are counted.
const OWNERS_MAX: usize = 100;
/// Sockets that are shown.
const EXAMPLES_MAX: usize = 5;

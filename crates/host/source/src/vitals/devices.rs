//! The interfaces of a namespace with addresses, qdiscs and link speed, from dumps of rtnetlink and ethtool
//! netlink. `reader.rs` calls it for each namespace.

use crate::dump::run_here;
use sockeye_model::{Device, InterfaceIndex, Qdisc};
use sockeye_sys::netlink::NetlinkSocket;
use sockeye_wire::ethtool::{self, LinkModes};
use sockeye_wire::netlink::{Message, Messages, NLMSG_DONE, NLMSG_ERROR};
use sockeye_wire::rtnetlink::{self, InterfaceAddress, Link, RTM_NEWADDR, RTM_NEWLINK, RTM_NEWQDISC};

/// Reads the interfaces of the calling thread's network namespace, sorted by index; empty if netlink is forbidden. A dump
/// is not repeated when an interface was added or removed meanwhile.
pub(super) fn read(ethtool: &mut Ethtool, buffer: &mut Vec<u8>) -> Vec<Device> {
    let mut devices: Vec<Device> = Vec::new();
    let Ok(route) = NetlinkSocket::open_route() else {
        return devices;
    };
    let mut ask = |request: &[u8], take: &mut dyn FnMut(&Message<'_>)| {
        run_here(&route, request, SEQUENCE, buffer, take);
    };
    ask(&Link::dump(SEQUENCE), &mut |message| {
        if message.kind == RTM_NEWLINK
            && let Ok(link) = Link::parse(message.payload)
        {
            devices.push(Device::from(&link));
        }
    });
    devices.sort_by_key(|device| device.index);
    // Loopback has neither a queue nor a speed, and its addresses are known.
    if devices.iter().all(|device| device.is_loopback) {
        return devices;
    }
    ask(&InterfaceAddress::dump(SEQUENCE), &mut |message| {
        if message.kind == RTM_NEWADDR
            && let Ok(Some(address)) = InterfaceAddress::parse(message.payload)
            && let Some(device) = with_index(&mut devices, address.index)
        {
            device.addresses.push(address.ip);
            device.duplicate_addresses += u32::from(address.is_duplicate);
        }
    });
    ask(&rtnetlink::Qdisc::dump(SEQUENCE), &mut |message| {
        if message.kind == RTM_NEWQDISC
            && let Ok(wire) = rtnetlink::Qdisc::parse(message.payload)
            && let Some(qdisc) = Qdisc::from_wire(&wire)
            && let Some(device) = with_index(&mut devices, wire.index.cast_unsigned())
        {
            device.qdiscs.push(qdisc);
        }
    });
    for device in &mut devices {
        device.qdiscs.sort_by_key(|qdisc| !qdisc.is_root());
    }
    // The speed of a veth pair or a bridge is meaningless.
    let has_speed = |device: &Device| {
        !device.is_loopback && !matches!(device.driver.as_bytes(), b"veth" | b"bridge" | b"dummy")
    };
    if devices.iter().any(has_speed) {
        ethtool.ask(buffer, &mut |modes| {
            let device = modes.index.and_then(|index| with_index(&mut devices, index));
            if let Some(device) = device.filter(|device| has_speed(device)) {
                device.set_link_modes(modes);
            }
        });
    }
    devices
}

fn with_index(devices: &mut [Device], index: u32) -> Option<&mut Device> {
    devices
        .iter_mut()
        .find(|device| device.index == InterfaceIndex(index))
}

/// The generic netlink family of ethtool.
#[derive(Debug, Default)]
pub(super) enum Ethtool {
    #[default]
    NotAsked,
    Absent,
    Family(u16),
}

impl Ethtool {
    /// Reads the link modes of all interfaces that know their speed.
    fn ask(&mut self, buffer: &mut Vec<u8>, take: &mut dyn FnMut(&LinkModes)) {
        if matches!(self, Self::Absent) {
            return;
        }
        let Ok(socket) = NetlinkSocket::open_generic() else {
            return;
        };
        if matches!(self, Self::NotAsked) {
            let family = family(&socket);
            *self = family.map_or(Self::Absent, Self::Family);
        }
        let &mut Self::Family(family) = self else { return };
        run_here(
            &socket,
            &LinkModes::dump(family, SEQUENCE),
            SEQUENCE,
            buffer,
            &mut |message| {
                if message.kind == family
                    && let Ok(modes) = LinkModes::parse(message.payload)
                {
                    take(&modes);
                }
            },
        );
    }
}

/// The number of ethtool's family; `None`: a kernel before 5.6, or one without it.
fn family(socket: &NetlinkSocket) -> Option<u16> {
    socket.send(&ethtool::family_request(SEQUENCE)).ok()?;
    let mut buffer = [0; 4096];
    let received = socket.receive(&mut buffer).ok()?;
    let mut messages = Messages::new(buffer.get(..received.len)?).flatten();
    let answer = messages.find(|message| message.kind != NLMSG_DONE && message.kind != NLMSG_ERROR)?;
    ethtool::family(answer.payload).ok()?
}

const SEQUENCE: u32 = 1;

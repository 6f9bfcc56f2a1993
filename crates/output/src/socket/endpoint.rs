//! Endpoints as CSV, JSON and sort values; [`crate::address`] has their text.

use crate::address::{canonical, ethertype_name, netlink_name, push_ip};
use crate::csv::Line;
use crate::json::Object;
use crate::listing::SortValue;
use crate::place::push_place;
use sockeye_model::{Endpoint, Names, Socket};

/// Appends the 14 fields of an endpoint: [`super::LOCAL_FIELDS`] or [`super::PEER_FIELDS`].
pub fn push_endpoint_csv(line: &mut Line<'_>, endpoint: &Endpoint, socket: &Socket, names: &dyn Names) {
    match endpoint {
        Endpoint::None => line.empty(14),
        Endpoint::Inet { ip, port } => {
            push_ip(line.field(), *ip);
            line.number(Some(port.0));
            line.text(names.host(*ip));
            line.text(names.service(socket.protocol, *port).filter(|_| port.0 != 0));
            line.empty(10);
        }
        Endpoint::Unix { name, inode } => {
            line.empty(4);
            let name = name.as_ref().map(sockeye_model::ShortText::as_bytes);
            let abstract_name = name.and_then(|name| name.strip_prefix(b"\0"));
            line.bytes(abstract_name.or(name));
            line.boolean(name.map(|_| abstract_name.is_some()));
            line.number(inode.map(|inode| inode.0));
            line.empty(7);
        }
        Endpoint::Packet { ethertype, interface } => {
            line.empty(7);
            line.number(Some(*ethertype));
            line.word(if *ethertype == 3 {
                "all"
            } else {
                ethertype_name(*ethertype).unwrap_or_default()
            });
            match interface.map(|index| (index, names.interface(index, socket.netns))) {
                Some((_, Some(name))) => line.text(Some(name)),
                Some((index, None)) => line.number(Some(index.0)),
                None => line.empty(1),
            }
            line.empty(4);
        }
        Endpoint::Netlink {
            protocol,
            port,
            group,
        } => {
            line.empty(10);
            line.number(Some(*protocol));
            line.word(netlink_name(*protocol).unwrap_or_default());
            line.number(Some(*port));
            line.number(*group);
        }
    }
}

/// Appends an endpoint as an object under `name`.
pub fn push_endpoint(
    object: &mut Object<'_>,
    key: &str,
    endpoint: &Endpoint,
    socket: &Socket,
    names: &dyn Names,
) {
    match endpoint {
        Endpoint::None => {}
        Endpoint::Inet { ip, port } => {
            let mut fields = object.object(key);
            let out = fields.key("ip");
            out.push(b'"');
            push_ip(out, *ip);
            out.push(b'"');
            fields.number("port", Some(port.0));
            fields.text("host", names.host(*ip));
            if port.0 != 0 {
                fields.text("service", names.service(socket.protocol, *port));
            }
            push_place(&mut fields, names.place(*ip));
            fields.end();
        }
        Endpoint::Unix { name, inode } => {
            let mut fields = object.object(key);
            if let Some(name) = name {
                let (is_abstract, name) = match name.as_bytes().strip_prefix(b"\0") {
                    Some(rest) => (true, rest),
                    None => (false, name.as_bytes()),
                };
                fields.bytes("name", Some(name));
                fields.boolean("abstract", Some(is_abstract));
            }
            fields.number("inode", inode.map(|inode| inode.0));
            fields.end();
        }
        Endpoint::Packet { ethertype, interface } => {
            let mut fields = object.object(key);
            fields.number("ethertype", Some(*ethertype));
            // Tables show "*".
            let name = if *ethertype == 3 {
                Some("all")
            } else {
                ethertype_name(*ethertype)
            };
            fields.text("ethertype_name", name);
            if let Some(index) = interface {
                fields.number("interface_index", Some(index.0));
                fields.text("interface", names.interface(*index, socket.netns));
            }
            fields.end();
        }
        Endpoint::Netlink {
            protocol,
            port,
            group,
        } => {
            let mut fields = object.object(key);
            fields.number("netlink_protocol", Some(*protocol));
            fields.text("netlink_protocol_name", netlink_name(*protocol));
            fields.number("port_id", Some(*port));
            fields.number("group", *group);
            fields.end();
        }
    }
}

/// Returns what endpoints are sorted by.
pub(super) fn sort_value(endpoint: &Endpoint) -> Option<SortValue> {
    match endpoint {
        Endpoint::None => None,
        Endpoint::Inet { ip, port } => Some(SortValue::Address(canonical(*ip), port.0)),
        Endpoint::Unix { name, inode } => match name {
            Some(name) => Some(SortValue::Text(name.as_bytes().into())),
            None => inode.map(|inode| SortValue::Number(inode.0.into())),
        },
        Endpoint::Packet { ethertype, interface } => {
            let interface = interface.map_or(0, |interface| interface.0);
            Some(SortValue::Pair((*ethertype).into(), interface.into()))
        }
        Endpoint::Netlink { protocol, port, .. } => Some(SortValue::Pair((*protocol).into(), (*port).into())),
    }
}

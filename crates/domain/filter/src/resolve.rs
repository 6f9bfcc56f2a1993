//! Interface of the parsers (ours, `ss`'s and tcpdump's) to name look-ups, which keeps this crate pure.
//! `query`, the `ss` drop-in and the packet commands implement it.

use sockeye_model::{CgroupId, InterfaceIndex, NetnsInode, Protocol, Uid};
use std::net::IpAddr;
use std::ops::RangeInclusive;

/// A source of numbers for names, used only while an expression is parsed.
///
/// `None` or an empty list means that the name is unknown, which becomes a parse error at the name.
pub trait Resolve {
    /// Returns the port of a service (`/etc/services`). If UDP and TCP differ, the port for the listed protocol.
    fn service(&self, _name: &str) -> Option<u16> {
        None
    }
    /// Returns the port of a service for UDP or TCP, if the difference matters ([`crate::ss`]).
    fn service_of(&self, _protocol: Protocol, name: &str) -> Option<u16> {
        self.service(name)
    }
    /// Returns the addresses of a host; the condition matches each of them.
    fn host(&self, _name: &str) -> Vec<IpAddr> {
        Vec::new()
    }
    /// Returns the interface with this name, in the listed namespace.
    fn interface(&self, _name: &str) -> Option<InterfaceIndex> {
        None
    }
    /// Returns the cgroup v2 at this path, which may start at the root of the file system or of the cgroup mount.
    fn cgroup(&self, _path: &str) -> Option<CgroupId> {
        None
    }
    /// Returns the user with this name.
    fn user(&self, _name: &str) -> Option<Uid> {
        None
    }
    /// Returns the network namespaces with this name or label; the condition matches each of them.
    fn netns(&self, _name: &str) -> Vec<NetnsInode> {
        Vec::new()
    }
    /// Returns whether the listing has a column with this name; a condition on it does not exist.
    fn is_column(&self, _name: &str) -> bool {
        false
    }
    /// Returns the ephemeral ports (`net.ipv4.ip_local_port_range`), for `autobound`.
    fn ephemeral_ports(&self) -> RangeInclusive<u16> {
        32768..=60999
    }
}

/// A source without any name: only numbers are accepted.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoResolve;

impl Resolve for NoResolve {}

use sockeye_model::{CgroupId, InterfaceIndex, NetnsInode, Protocol, Uid};
use std::net::IpAddr;
use std::ops::RangeInclusive;

/// Numbers for names, asked for while an expression is parsed, never while it is judged.
///
/// `None`, or nothing in the list: there is no such thing, which the user is then told with a caret under the name.
pub trait Resolve {
    /// The port of a service (`/etc/services`). Where UDP's and TCP's differ, that of whatever is listed.
    fn service(&self, _name: &str) -> Option<u16> {
        None
    }
    /// The port of a service of UDP or of TCP, where it matters which ([`crate::ss`]).
    fn service_of(&self, _protocol: Protocol, name: &str) -> Option<u16> {
        self.service(name)
    }
    /// The addresses of a host; the condition holds for each of them.
    fn host(&self, _name: &str) -> Vec<IpAddr> {
        Vec::new()
    }
    /// The interface with this name, in the namespace that is listed.
    fn interface(&self, _name: &str) -> Option<InterfaceIndex> {
        None
    }
    /// The cgroup v2 at this path, which may start at the root of the file system or of the cgroup mount.
    fn cgroup(&self, _path: &str) -> Option<CgroupId> {
        None
    }
    /// The user with this name.
    fn user(&self, _name: &str) -> Option<Uid> {
        None
    }
    /// The network namespaces that are called so; the condition holds for each of them.
    fn netns(&self, _name: &str) -> Vec<NetnsInode> {
        Vec::new()
    }
    /// The ports the kernel chooses from (`net.ipv4.ip_local_port_range`), for `autobound`.
    fn ephemeral_ports(&self) -> RangeInclusive<u16> {
        32768..=60999
    }
}

/// Nobody knows any name: only numbers will do.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoResolve;

impl Resolve for NoResolve {}

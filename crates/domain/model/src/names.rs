//! Interface of the renderers to names of interfaces, services, hosts, users, cgroups and namespaces.
//! It keeps `output` pure: `host/source/src/names/`, `query` and the drop-ins implement it.

use crate::{CgroupId, InterfaceIndex, NetnsInode, Place, Port, Protocol, Uid, WorkloadId};
use std::net::IpAddr;

/// A source of names for numbers.
///
/// Pure crates use this trait; its implementations may read files or query a resolver or the kernel. Each method returns
/// `None` if the number is to be printed.
pub trait Names {
    /// Returns the name of this interface, in the namespace with this inode (`None`: our own).
    fn interface(&self, _index: InterfaceIndex, _netns: Option<NetnsInode>) -> Option<&str> {
        None
    }
    /// Returns the name of the service at this port.
    fn service(&self, _protocol: Protocol, _port: Port) -> Option<&str> {
        None
    }
    /// Returns the name of the host with this address.
    fn host(&self, _ip: IpAddr) -> Option<&str> {
        None
    }
    /// Returns where this address is.
    fn place(&self, _ip: IpAddr) -> Option<Place> {
        None
    }
    /// Returns the name of this user.
    fn user(&self, _uid: Uid) -> Option<&str> {
        None
    }
    /// Returns the path of this cgroup below the cgroup v2 mount: `/system.slice/nginx.service`.
    fn cgroup(&self, _id: CgroupId) -> Option<&str> {
        None
    }
    /// Returns the label of the network namespace with this inode.
    fn netns(&self, _inode: NetnsInode) -> Option<&str> {
        None
    }
    /// Returns the name of a container, cgroup, unit or executable.
    fn workload(&self, _id: WorkloadId) -> Option<&str> {
        None
    }
}

/// A source without any name.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoNames;

impl Names for NoNames {}

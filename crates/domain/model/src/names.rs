use crate::{CgroupId, InterfaceIndex, NetnsInode, Port, Protocol, Uid};
use std::net::IpAddr;

/// Names for numbers, where the reader wants names and somebody knows them.
///
/// The pure crates ask; who answers (files, resolver, kernel) is none of their business. `None`: print
/// the number.
pub trait Names {
    /// The interface with this index, in the namespace with this inode (`None`: our own).
    fn interface(&self, _index: InterfaceIndex, _netns: Option<NetnsInode>) -> Option<&str> {
        None
    }
    /// The service at this port.
    fn service(&self, _protocol: Protocol, _port: Port) -> Option<&str> {
        None
    }
    /// The host with this address.
    fn host(&self, _ip: IpAddr) -> Option<&str> {
        None
    }
    /// The user with this number.
    fn user(&self, _uid: Uid) -> Option<&str> {
        None
    }
    /// Path of this cgroup below the cgroup v2 mount: `/system.slice/nginx.service`.
    fn cgroup(&self, _id: CgroupId) -> Option<&str> {
        None
    }
    /// The network namespace with this inode.
    fn netns(&self, _inode: NetnsInode) -> Option<&str> {
        None
    }
}

/// Nobody knows any name.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoNames;

impl Names for NoNames {}

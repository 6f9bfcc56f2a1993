//! What stays the same while a socket lives: its addresses, its namespace, and what owns it.

use crate::bytes::{DecodeError, Reader, push_number, push_text};
use sockeye_model::{
    CgroupId, Comm, Cookie, Endpoint, Entry, Family, Fd, Inode, InterfaceIndex, NetnsInode, Owner, Pgid, Pid,
    Port, Process, Protocol, Socket, State, Uid, WorkloadId, WorkloadKind, WorkloadSource,
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// A socket with its owners, as a group of samples names it. If one of these changes, it is another entry of the dictionary.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Identity {
    /// Its protocol: of the internet families.
    pub protocol: Protocol,
    /// Number of its address family.
    pub family: u8,
    /// Local address; `None` if the socket has none.
    pub local: Option<(IpAddr, Port)>,
    /// The peer's address.
    pub peer: Option<(IpAddr, Port)>,
    /// The interface that it is bound to.
    pub interface: Option<InterfaceIndex>,
    /// Its network namespace.
    pub netns: Option<NetnsInode>,
    /// Its inode.
    pub inode: Option<Inode>,
    /// Its cookie.
    pub cookie: Option<Cookie>,
    /// Its user.
    pub uid: Option<Uid>,
    /// Its cgroup (v2), by the number that it had in that boot.
    pub cgroup: Option<CgroupId>,
    /// Whether it accepts only IPv6.
    pub v6only: Option<bool>,
    /// Its owners; `None` if they were not known.
    pub owners: Option<Vec<Owner>>,
    /// Its workloads.
    pub workloads: NamedWorkloads,
}

/// The workloads of a socket.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct NamedWorkloads {
    /// Their names, in the order of [`WorkloadKind::ALL`]; of several the first. Many sockets share one.
    pub names: [Option<Arc<str>>; WorkloadKind::ALL.len()],
    /// How they are known; `None` if none is.
    pub known_by: Option<WorkloadSource>,
}

/// A socket as [`Identity`] has it, without a copy of its owners and workloads: most sockets of a sample are known from the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct IdentityRef<'a> {
    pub(crate) protocol: Protocol,
    family: u8,
    pub(crate) local: Option<(IpAddr, Port)>,
    pub(crate) peer: Option<(IpAddr, Port)>,
    interface: Option<InterfaceIndex>,
    pub(crate) netns: Option<NetnsInode>,
    pub(crate) inode: Option<Inode>,
    pub(crate) cookie: Option<Cookie>,
    uid: Option<Uid>,
    cgroup: Option<CgroupId>,
    v6only: Option<bool>,
    pub(crate) owners: Option<&'a [Owner]>,
    pub(crate) workloads: &'a NamedWorkloads,
}

impl Identity {
    /// Takes over what is known of a socket. `name`: the name of a workload.
    pub fn of(entry: &Entry<'_>, name: &mut dyn FnMut(WorkloadId) -> Option<Arc<str>>) -> Self {
        IdentityRef::of(entry, &NamedWorkloads::of(entry, name)).to_identity()
    }

    /// Returns it as it is compared and encoded.
    #[must_use]
    pub fn borrowed(&self) -> IdentityRef<'_> {
        IdentityRef {
            protocol: self.protocol,
            family: self.family,
            local: self.local,
            peer: self.peer,
            interface: self.interface,
            netns: self.netns,
            inode: self.inode,
            cookie: self.cookie,
            uid: self.uid,
            cgroup: self.cgroup,
            v6only: self.v6only,
            owners: self.owners.as_deref(),
            workloads: &self.workloads,
        }
    }

    /// Returns a socket of which only these properties are known.
    #[must_use]
    pub fn socket(&self) -> Socket {
        let endpoint =
            |of: Option<(IpAddr, Port)>| of.map_or(Endpoint::None, |(ip, port)| Endpoint::inet(ip, port));
        let mut socket = Socket::new(self.protocol, State::Unknown(0));
        socket.family = Family::from_number(self.family);
        socket.local = endpoint(self.local);
        socket.peer = endpoint(self.peer);
        socket.interface = self.interface;
        socket.netns = self.netns;
        socket.inode = self.inode;
        socket.cookie = self.cookie;
        socket.uid = self.uid;
        socket.cgroup = self.cgroup;
        socket.v6only = self.v6only;
        socket
    }

    /// Returns the name of its workload of a kind.
    #[must_use]
    pub fn workload(&self, kind: WorkloadKind) -> Option<&str> {
        self.workloads.name(kind)
    }

    /// Returns the name of its first owner; `None` if there is none or it is unknown.
    #[must_use]
    pub fn first_owner(&self) -> Option<String> {
        let owner = self.owners.as_ref()?.first()?;
        Some(String::from_utf8_lossy(owner.process.comm.as_bytes()).into_owned())
    }

    pub(crate) fn push(&self, out: &mut Vec<u8>) {
        self.borrowed().push(out);
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let name = reader.text("a protocol")?;
        let protocol = PROTOCOLS
            .into_iter()
            .find(|protocol| protocol.name().as_bytes() == name)
            .ok_or(reader.error("an unknown protocol"))?;
        let family = reader.take(1, "a family")?[0];
        let mut identity = Self {
            protocol,
            family,
            local: read_address(reader)?,
            peer: read_address(reader)?,
            interface: read_option(reader, "an interface")?.map(InterfaceIndex),
            netns: read_option(reader, "a namespace")?.map(NetnsInode),
            inode: read_option(reader, "an inode")?.map(Inode),
            cookie: read_option(reader, "a cookie")?.map(Cookie),
            uid: read_option(reader, "a user")?.map(Uid),
            v6only: read_option::<u8>(reader, "an option")?.map(|set| set != 0),
            cgroup: read_option(reader, "a cgroup")?.map(CgroupId),
            owners: None,
            workloads: NamedWorkloads {
                names: [None, None, None, None],
                known_by: read_option::<u8>(reader, "a source of workloads")?.map(|by| match by {
                    0 => WorkloadSource::Socket,
                    _ => WorkloadSource::Owner,
                }),
            },
        };
        identity.owners = read_owners(reader)?;
        for name in &mut identity.workloads.names {
            *name = read_workload(reader)?;
        }
        Ok(identity)
    }
}

impl NamedWorkloads {
    /// Looks up the workloads of a socket. `name`: the name of one.
    pub fn of(entry: &Entry<'_>, name: &mut dyn FnMut(WorkloadId) -> Option<Arc<str>>) -> Self {
        let mut known_by = None;
        let names = WorkloadKind::ALL.map(|kind| {
            let mut first = None;
            let by = entry.visit_workloads(kind, &mut |id| first = first.take().or_else(|| name(id)));
            known_by = known_by.or(by);
            first
        });
        Self { names, known_by }
    }

    /// Returns the name of the workload of a kind.
    #[must_use]
    pub fn name(&self, kind: WorkloadKind) -> Option<&str> {
        let index = WorkloadKind::ALL.iter().position(|of| *of == kind)?;
        self.names.get(index)?.as_deref()
    }
}

impl<'a> IdentityRef<'a> {
    /// Takes over what is known of a socket.
    #[must_use]
    pub fn of(entry: &Entry<'a>, workloads: &'a NamedWorkloads) -> Self {
        let socket = entry.socket;
        let address = |endpoint: &Endpoint| Some((endpoint.ip()?, endpoint.port()?));
        Self {
            protocol: socket.protocol,
            family: socket.family.number(),
            local: address(&socket.local),
            peer: address(&socket.peer),
            interface: socket.interface,
            netns: socket.netns,
            inode: socket.inode,
            cookie: socket.cookie,
            uid: socket.uid,
            cgroup: socket.cgroup,
            v6only: socket.v6only,
            owners: entry.owners,
            workloads,
        }
    }

    /// Returns a copy of all.
    #[must_use]
    pub fn to_identity(self) -> Identity {
        Identity {
            protocol: self.protocol,
            family: self.family,
            local: self.local,
            peer: self.peer,
            interface: self.interface,
            netns: self.netns,
            inode: self.inode,
            cookie: self.cookie,
            uid: self.uid,
            cgroup: self.cgroup,
            v6only: self.v6only,
            owners: self.owners.map(<[Owner]>::to_vec),
            workloads: self.workloads.clone(),
        }
    }

    /// Returns which connection it is: old kernels number cookies per namespace. `None` if the kernel has given no cookie.
    #[must_use]
    pub fn connection(&self) -> Option<(Cookie, Option<NetnsInode>)> {
        Some((self.cookie?, self.netns))
    }

    pub(crate) fn push(&self, out: &mut Vec<u8>) {
        push_text(out, self.protocol.name().as_bytes());
        out.push(self.family);
        push_address(out, self.local);
        push_address(out, self.peer);
        let numbers = [
            self.interface.map(|interface| interface.0.into()),
            self.netns.map(|netns| netns.0.into()),
            self.inode.map(|inode| inode.0.into()),
            self.cookie.map(|cookie| cookie.0),
            self.uid.map(|uid| uid.0.into()),
            self.v6only.map(u64::from),
            self.cgroup.map(|cgroup| cgroup.0),
            self.workloads
                .known_by
                .map(|by| u64::from(by == WorkloadSource::Owner)),
        ];
        for number in numbers {
            push_option(out, number);
        }
        push_option(out, self.owners.map(|owners| owners.len() as u64));
        for owner in self.owners.unwrap_or_default() {
            push_number(out, owner.process.pid.0.into());
            push_option(out, owner.process.pgid.map(|pgid| pgid.0.into()));
            push_number(out, owner.fd.0.into());
            push_text(out, owner.process.comm.as_bytes());
        }
        for workload in &self.workloads.names {
            push_option(out, workload.as_ref().map(|name| name.len() as u64));
            out.extend_from_slice(workload.as_deref().unwrap_or_default().as_bytes());
        }
    }
}

/// 0: none, otherwise the number and one.
fn push_option(out: &mut Vec<u8>, number: Option<u64>) {
    push_number(out, number.map_or(0, |number| number.saturating_add(1)));
}

fn read_option<T: TryFrom<u64>>(
    reader: &mut Reader<'_>,
    what: &'static str,
) -> Result<Option<T>, DecodeError> {
    match reader.number(what)?.checked_sub(1) {
        None => Ok(None),
        Some(number) => T::try_from(number).map(Some).map_err(|_| reader.error(what)),
    }
}

/// The number of bytes of the address (0: none), the address, the port.
fn push_address(out: &mut Vec<u8>, address: Option<(IpAddr, Port)>) {
    match address {
        None => out.push(0),
        Some((IpAddr::V4(ip), _)) => push_text(out, &ip.octets()),
        Some((IpAddr::V6(ip), _)) => push_text(out, &ip.octets()),
    }
    if let Some((_, port)) = address {
        push_number(out, port.0.into());
    }
}

fn read_address(reader: &mut Reader<'_>) -> Result<Option<(IpAddr, Port)>, DecodeError> {
    let octets = reader.text("an address")?;
    let ip = if octets.is_empty() {
        return Ok(None);
    } else if let Ok(v4) = <[u8; 4]>::try_from(octets) {
        IpAddr::from(Ipv4Addr::from(v4))
    } else if let Ok(v6) = <[u8; 16]>::try_from(octets) {
        IpAddr::from(Ipv6Addr::from(v6))
    } else {
        return Err(reader.error("an address"));
    };
    Ok(Some((ip, Port(reader.small("a port")?))))
}

fn read_owners(reader: &mut Reader<'_>) -> Result<Option<Vec<Owner>>, DecodeError> {
    let Some(count) = read_option::<usize>(reader, "owners")? else {
        return Ok(None);
    };
    let mut owners = Vec::new();
    for _ in 0..count {
        let pid = Pid(reader.small("a process")?);
        let pgid = read_option(reader, "a process group")?.map(Pgid);
        let fd = Fd(reader.small("a descriptor")?);
        let comm = Comm::new(reader.text("the name of a process")?);
        let process = Process { pid, pgid, comm };
        owners.push(Owner { process, fd });
    }
    Ok(Some(owners))
}

fn read_workload(reader: &mut Reader<'_>) -> Result<Option<Arc<str>>, DecodeError> {
    let Some(len) = read_option(reader, "a workload")? else {
        return Ok(None);
    };
    let name = reader.take(len, "the name of a workload")?;
    Ok(Some(String::from_utf8_lossy(name).into()))
}

/// The protocols that are recorded.
const PROTOCOLS: [Protocol; 5] = [
    Protocol::Tcp,
    Protocol::Mptcp,
    Protocol::Udp,
    Protocol::UdpLite,
    Protocol::Raw,
];

#[cfg(test)]
mod tests {
    use super::*;

    fn identity() -> Identity {
        let process = Process {
            pid: Pid(77),
            pgid: None,
            comm: Comm::new(b"nginx"),
        };
        Identity {
            protocol: Protocol::Tcp,
            family: Family::Inet.number(),
            local: Some(([10, 0, 0, 1].into(), Port(443))),
            peer: None,
            interface: None,
            netns: Some(NetnsInode(4_026_531_840)),
            inode: Some(Inode(5)),
            cookie: Some(Cookie(u64::MAX - 1)),
            uid: Some(Uid(0)),
            v6only: Some(false),
            cgroup: Some(CgroupId(77)),
            owners: Some(vec![Owner { process, fd: Fd(3) }]),
            workloads: NamedWorkloads {
                names: [Some("web".into()), None, Some("nginx.service".into()), None],
                known_by: Some(WorkloadSource::Owner),
            },
        }
    }

    #[test]
    fn identity_survives_encoding() {
        let mut bytes = Vec::new();
        identity().push(&mut bytes);
        let mut reader = Reader::new(&bytes);
        assert_eq!(Identity::read(&mut reader), Ok(identity()));
        assert!(reader.is_empty());
        for len in 0..bytes.len() {
            assert!(Identity::read(&mut Reader::new(&bytes[..len])).is_err(), "{len}");
        }
    }

    #[test]
    fn owners_that_were_not_known_differ_from_none() {
        for owners in [None, Some(Vec::new())] {
            let identity = Identity { owners, ..identity() };
            let mut bytes = Vec::new();
            identity.push(&mut bytes);
            assert_eq!(Identity::read(&mut Reader::new(&bytes)), Ok(identity));
        }
    }
}

//! Entries of a dictionary as columns: what many sockets share (owner, workloads, namespace) once, as a profile; of each socket the
//! number of its profile, its addresses byte by byte, and its numbers.

use crate::bytes::{DecodeError, Reader, push_difference, push_number};
use crate::identity::Identity;
use sockeye_model::{Cookie, Fd, Inode, Port};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The columns of entries. All but the profiles are appended to with each of them.
#[derive(Debug)]
pub(crate) struct IdentityColumns {
    columns: Vec<Vec<u8>>,
    profiles: HashMap<Identity, u64>,
    before: Numbers,
}

/// Columns that are numbers of variable length.
pub(crate) const NUMBERS: std::ops::Range<usize> = 1..7;

/// Columns: profiles, numbers, and the bytes of the local and the peer's address. IPv4 has the last four of sixteen.
pub(crate) const COUNT: usize = LOCAL + 32;

const PROFILES: usize = 0;
/// 0: the next profile, otherwise the place of one, and one.
const PROFILE: usize = 1;
const LOCAL_PORT: usize = 2;
const PEER_PORT: usize = 3;
/// Differences to the entry before.
const INODE: usize = 4;
const COOKIE: usize = 5;
const DESCRIPTOR: usize = 6;
const LOCAL: usize = 7;
const PEER: usize = LOCAL + 16;

/// Numbers of the entry before.
#[derive(Debug, Clone, Copy, Default)]
struct Numbers {
    inode: u64,
    cookie: u64,
    descriptor: u64,
}

impl Default for IdentityColumns {
    fn default() -> Self {
        Self {
            columns: vec![Vec::new(); COUNT],
            profiles: HashMap::new(),
            before: Numbers::default(),
        }
    }
}

impl IdentityColumns {
    /// Appends an entry.
    pub(crate) fn push(&mut self, identity: &Identity) {
        let profile = profile(identity);
        let next = self.profiles.len() as u64 + 1;
        let place = *self.profiles.entry(profile).or_insert_with_key(|profile| {
            profile.push(&mut self.columns[PROFILES]);
            next
        });
        push_number(&mut self.columns[PROFILE], if place == next { 0 } else { place });
        for (address, port, octets) in [
            (identity.local, LOCAL_PORT, LOCAL),
            (identity.peer, PEER_PORT, PEER),
        ] {
            if let Some((ip, number)) = address {
                push_number(&mut self.columns[port], number.0.into());
                let (first, bytes) = match ip {
                    IpAddr::V4(ip) => (octets + 12, ip.octets().to_vec()),
                    IpAddr::V6(ip) => (octets, ip.octets().to_vec()),
                };
                for (column, byte) in self.columns[first..].iter_mut().zip(bytes) {
                    column.push(byte);
                }
            }
        }
        let descriptors = identity.owners.iter().flatten().map(|owner| owner.fd.0.into());
        let Numbers {
            inode,
            cookie,
            descriptor,
        } = &mut self.before;
        let mut push = |column: usize, before: &mut u64, now: u64| {
            push_difference(&mut self.columns[column], now, *before);
            *before = now;
        };
        identity
            .inode
            .iter()
            .for_each(|now| push(INODE, inode, now.0.into()));
        identity.cookie.iter().for_each(|now| push(COOKIE, cookie, now.0));
        descriptors.for_each(|now| push(DESCRIPTOR, descriptor, now));
    }

    /// Returns the columns.
    pub(crate) fn finish(self) -> Vec<Vec<u8>> {
        self.columns
    }
}

/// Returns what an entry shares with others: which numbers and addresses it has, and not their values.
fn profile(identity: &Identity) -> Identity {
    let any = |(ip, _): (IpAddr, Port)| match ip {
        IpAddr::V4(_) => (Ipv4Addr::UNSPECIFIED.into(), Port(0)),
        IpAddr::V6(_) => (Ipv6Addr::UNSPECIFIED.into(), Port(0)),
    };
    let mut profile = Identity {
        local: identity.local.map(any),
        peer: identity.peer.map(any),
        inode: identity.inode.map(|_| Inode(0)),
        cookie: identity.cookie.map(|_| Cookie(0)),
        ..identity.clone()
    };
    for owner in profile.owners.iter_mut().flatten() {
        owner.fd = Fd(0);
    }
    profile
}

/// Reads the columns again.
#[derive(Debug)]
pub(crate) struct IdentityReader<'a> {
    columns: Vec<Reader<'a>>,
    profiles: Vec<Identity>,
    before: Numbers,
}

impl<'a> IdentityReader<'a> {
    /// Returns a reader of [`COUNT`] columns.
    pub(crate) fn new(columns: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut columns: Vec<_> = columns.map(Reader::new).collect();
        columns.resize(columns.len().max(COUNT), Reader::new(&[]));
        Self {
            columns,
            profiles: Vec::new(),
            before: Numbers::default(),
        }
    }

    /// Reads the next entry.
    pub(crate) fn read(&mut self) -> Result<Identity, DecodeError> {
        let place: usize = self.columns[PROFILE].small("a profile")?;
        if place == 0 {
            let profile = Identity::read(&mut self.columns[PROFILES])?;
            self.profiles.push(profile);
        }
        let profile = match place.checked_sub(1) {
            None => self.profiles.last(),
            Some(place) => self.profiles.get(place),
        };
        let unknown = self.columns[PROFILE].error("an unknown profile");
        let mut identity = profile.cloned().ok_or(unknown)?;
        for (address, port, octets) in [
            (&mut identity.local, LOCAL_PORT, LOCAL),
            (&mut identity.peer, PEER_PORT, PEER),
        ] {
            if let Some((ip, number)) = address {
                *number = Port(self.columns[port].small("a port")?);
                *ip = match ip {
                    IpAddr::V4(_) => <[u8; 4]>::into(self.octets(octets + 12)?),
                    IpAddr::V6(_) => <[u8; 16]>::into(self.octets(octets)?),
                };
            }
        }
        let Numbers {
            inode,
            cookie,
            descriptor,
        } = &mut self.before;
        if let Some(number) = &mut identity.inode {
            *inode = self.columns[INODE].difference(*inode, "an inode")?;
            *number = Inode(u32::try_from(*inode).map_err(|_| unknown)?);
        }
        if let Some(number) = &mut identity.cookie {
            *cookie = self.columns[COOKIE].difference(*cookie, "a cookie")?;
            *number = Cookie(*cookie);
        }
        for owner in identity.owners.iter_mut().flatten() {
            *descriptor = self.columns[DESCRIPTOR].difference(*descriptor, "a descriptor")?;
            owner.fd = Fd(u32::try_from(*descriptor).map_err(|_| unknown)?);
        }
        Ok(identity)
    }

    fn octets<const N: usize>(&mut self, first: usize) -> Result<[u8; N], DecodeError> {
        let mut octets = [0; N];
        for (octet, column) in octets.iter_mut().zip(&mut self.columns[first..]) {
            *octet = column.take(1, "an address")?[0];
        }
        Ok(octets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_model::{Comm, Entry, Owner, Pid, Process, Protocol, Socket, State};

    fn identity(number: u32) -> Identity {
        let mut identity = Identity::of(
            &Entry::new(&Socket::new(Protocol::Tcp, State::Established)),
            &mut |_| None,
        );
        identity.cookie = Some(Cookie(u64::from(number) << 40));
        identity.inode = (number != 2).then_some(Inode(900 - number));
        identity.local = Some((Ipv4Addr::new(10, 0, 0, number as u8).into(), Port(443)));
        identity.peer =
            (number != 3).then(|| (Ipv6Addr::from(u128::MAX - u128::from(number)).into(), Port(7)));
        let owner = |pid, fd| Owner {
            process: Process {
                pid: Pid(pid),
                pgid: None,
                comm: Comm::new(b"nginx"),
            },
            fd: Fd(fd),
        };
        identity.owners = (number != 4).then(|| vec![owner(1, number), owner(number % 2, 3)]);
        identity.workloads.names[0] = Some("web".into());
        identity
    }

    fn columns(identities: &[Identity]) -> Vec<Vec<u8>> {
        let mut columns = IdentityColumns::default();
        identities.iter().for_each(|identity| columns.push(identity));
        columns.finish()
    }

    fn read(columns: &[Vec<u8>], count: usize) -> Result<Vec<Identity>, DecodeError> {
        let mut reader = IdentityReader::new(columns.iter().map(Vec::as_slice));
        (0..count).map(|_| reader.read()).collect()
    }

    #[test]
    fn entries_survive_and_share_their_profiles() {
        let all: Vec<_> = [0, 1, 2, 3, 4, 5, 7, 9].map(identity).into();
        let columns = columns(&all);
        assert_eq!(columns[PROFILE], [0, 0, 0, 0, 0, 2, 2, 2]);
        assert_eq!(read(&columns, all.len()), Ok(all));
    }

    #[test]
    fn damaged_columns_are_an_error() {
        let all: Vec<_> = (0..6).map(identity).collect();
        let columns = columns(&all);
        for (place, column) in columns.iter().enumerate() {
            for len in 0..column.len() {
                let mut damaged = columns.clone();
                damaged[place].truncate(len);
                assert!(read(&damaged, all.len()).is_err(), "{place} {len}");
            }
        }
        assert!(read(&[], 1).is_err());
        let mut unknown = columns;
        unknown[PROFILE] = vec![9; 6];
        assert!(read(&unknown, 1).is_err());
    }
}

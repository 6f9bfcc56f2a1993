use super::failure::{Act, Failure};
use super::make::OWN_NETNS;
use super::open_file;
use crate::route::{Refusal, Route};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use sockeye_model::NetnsName;
use sockeye_sys::netns;
use sockeye_wire::rtnetlink::change::{self, VethPair};
use sockeye_wire::rtnetlink::{InterfaceAddress, Link as WireLink, RTM_NEWADDR, RTM_NEWLINK};
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::PathBuf;

/// What new namespaces are joined to, each by a pair of interfaces: `eth0` in it, and [`interface_name`] there.
#[derive(Debug)]
pub struct Target {
    place: Place,
    name: String,
}

#[derive(Debug)]
enum Place {
    /// A bridge in our own namespace, by its index.
    Bridge(u32),
    /// Another namespace.
    Namespace(OwnedFd),
}

/// Why there is nothing to join to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoTarget {
    /// Neither an interface nor a namespace is called so.
    Nothing,
    /// An interface is, but it is no bridge, and no namespace is.
    NoBridge,
    /// The kernel did not tell.
    Refused(Refusal),
}

/// The ends of one pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addresses {
    /// Of the new namespace's end.
    pub inner: IpAddr,
    /// Of the other end, which has one unless it is a port of a bridge.
    pub outer: Option<IpAddr>,
    /// Bits of both that are the network's.
    pub prefix_len: u8,
}

/// One thread's way to the target.
#[derive(Debug)]
pub struct Link {
    route: Route,
    master: Option<u32>,
}

impl Target {
    /// The bridge of this name, else the namespace.
    ///
    /// # Errors
    /// When there is neither.
    pub fn find(name: &str) -> Result<Self, NoTarget> {
        let mut found = None;
        let asked = Route::open()?.ask(
            |sequence| change::find(name, sequence),
            |_, payload| {
                let link = WireLink::parse(payload).ok();
                found = link.map(|link| (link.index, link.info.driver == b"bridge"));
            },
        );
        match asked {
            Ok(())
            | Err(Refusal {
                errno: Errno::NODEV | Errno::INVAL | Errno::RANGE | Errno::MSGSIZE,
                ..
            }) => {}
            Err(refusal) => return Err(refusal.into()),
        }
        let place = match found {
            Some((index, true)) => Place::Bridge(u32::try_from(index).unwrap_or_default()),
            other => match namespace(name) {
                Some(fd) => Place::Namespace(fd),
                None if other.is_some() => return Err(NoTarget::NoBridge),
                None => return Err(NoTarget::Nothing),
            },
        };
        Ok(Self {
            place,
            name: name.to_owned(),
        })
    }

    /// Whether its ends have addresses of their own: a bridge's ports have none.
    #[must_use]
    pub const fn has_addresses(&self) -> bool {
        matches!(self.place, Place::Namespace(_))
    }

    /// A way to it, for a thread that is still in our own namespace.
    ///
    /// # Errors
    /// When the target cannot be entered, or has no room for a socket.
    pub fn open(&self) -> Result<Link, Failure> {
        let (route, master) = match &self.place {
            Place::Bridge(index) => (Route::open(), Some(*index)),
            Place::Namespace(fd) => {
                let opened = netns::within(fd.as_fd(), Route::open);
                (opened.unwrap_or_else(|errno| Err(errno.into())), None)
            }
        };
        let route = route.map_err(|refusal| Act::OpenNamespace.on(&self.name, refusal))?;
        Ok(Link { route, master })
    }

    /// Keeps others of us from choosing addresses around it, until what this gives is dropped; waits for those who do.
    ///
    /// # Errors
    /// When its namespace cannot be opened, or locked.
    pub fn lock(&self) -> Result<OwnedFd, Failure> {
        // All who open a namespace open the same file; each has to do so by itself, or would share the lock.
        let path = match &self.place {
            Place::Bridge(_) => PathBuf::from("/proc/self/ns/net"),
            Place::Namespace(fd) => format!("/proc/self/fd/{}", fd.as_raw_fd()).into(),
        };
        let failed = |errno| Act::OpenNamespace.on(&path, errno);
        let fd = open_file(&path).map_err(failed)?;
        loop {
            match flock(&fd, FlockOperation::LockExclusive) {
                Err(Errno::INTR) => {}
                done => return done.map(|()| fd).map_err(failed),
            }
        }
    }

    /// The addresses that are in use around it: those of its namespace's interfaces, and those that we noted at pairs
    /// which lead there.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn taken(&self) -> Result<BTreeSet<IpAddr>, Failure> {
        let mut taken = BTreeSet::new();
        let mut link = self.open()?;
        let failed = |refusal| Act::AddAddress.on(&self.name, refusal);
        let read = |kind, payload: &[u8]| {
            let found = (kind == RTM_NEWADDR).then(|| InterfaceAddress::parse(payload));
            taken.extend(found.and_then(|found| found.ok()?).map(|found| found.ip));
        };
        let ask = |sequence| Some(InterfaceAddress::dump(sequence));
        link.route.ask(ask, read).map_err(failed)?;
        let read = |kind, payload: &[u8]| {
            if let (RTM_NEWLINK, Ok(link)) = (kind, WireLink::parse(payload)) {
                taken.extend(noted(link.alias));
            }
        };
        link.route
            .ask(|sequence| Some(WireLink::dump(sequence)), read)
            .map_err(failed)?;
        Ok(taken)
    }
}

impl Link {
    /// Joins the namespace that the calling thread is in.
    pub(super) fn make(&mut self, name: &NetnsName, addresses: Option<Addresses>) -> Result<(), Failure> {
        let path = name.path();
        let own = open_file(OWN_NETNS).map_err(|errno| Act::OpenNamespace.on(OWN_NETNS, errno))?;
        let outer_name = interface_name(name);
        let pair = VethPair {
            name: &outer_name,
            master: self.master,
            peer_name: INNER_NAME,
            peer_netns: u32::try_from(own.as_raw_fd()).unwrap_or_default(),
        };
        self.route
            .act(|sequence| pair.request(sequence))
            .map_err(|refusal| Act::MakePair.on(&path, refusal))?;
        self.route
            .act(|sequence| change::annotate(&outer_name, &note(name, addresses), sequence))
            .map_err(|refusal| Act::MakePair.on(&path, refusal))?;
        let mut inside = Route::open().map_err(|refusal| Act::MakePair.on(&path, refusal))?;
        let inner = index(&mut inside, INNER_NAME).map_err(|refusal| Act::MakePair.on(&path, refusal))?;
        inside
            .act(|sequence| Some(change::bring_up(inner, sequence)))
            .map_err(|refusal| Act::MakePair.on(&path, refusal))?;
        let Some(Addresses {
            inner: inner_ip,
            outer: outer_ip,
            prefix_len,
        }) = addresses
        else {
            return Ok(());
        };
        let mut give = || -> Result<(), Refusal> {
            add(&mut inside, inner, inner_ip, prefix_len)?;
            let Some(outer_ip) = outer_ip else {
                return Ok(());
            };
            let outer = index(&mut self.route, &outer_name)?;
            add(&mut self.route, outer, outer_ip, prefix_len)
        };
        give().map_err(|refusal| Act::AddAddress.on(&path, refusal))
    }
}

/// What the other end of the pair of a namespace is called: `v-NAME` where that makes an interface's name, else `v-`
/// and eight digits that its name decides.
#[must_use]
pub fn interface_name(name: &NetnsName) -> String {
    let bytes = name.as_os_str().as_encoded_bytes();
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-+@".contains(byte);
    if bytes.len() <= IFNAME_MAX - 2 && bytes.iter().all(is_plain) {
        return format!("v-{name}");
    }
    // FNV-1a: the same for the same name, on every host and in every version.
    let hash = bytes.iter().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    });
    format!("v-{hash:08x}")
}

/// What `ip link` shows beside the outer end: whose it is, and which addresses belong to the pair.
fn note(name: &NetnsName, addresses: Option<Addresses>) -> String {
    // The kernel takes 255 bytes (`IFALIASZ`); the rest is for the addresses.
    let name: String = name.to_string().chars().take(40).collect();
    let mut note = format!("netns {name}");
    if let Some(addresses) = addresses {
        for ip in [Some(addresses.inner), addresses.outer].into_iter().flatten() {
            note.push_str(&format!(" {ip}/{}", addresses.prefix_len));
        }
    }
    note
}

/// The addresses in such a note.
fn noted(alias: &[u8]) -> impl Iterator<Item = IpAddr> {
    let text = std::str::from_utf8(alias).unwrap_or_default();
    let words = text.strip_prefix("netns ").unwrap_or_default().split(' ');
    words.filter_map(|word| word.split_once('/')?.0.parse().ok())
}

fn add(route: &mut Route, index: i32, ip: IpAddr, prefix_len: u8) -> Result<(), Refusal> {
    let index = u32::try_from(index).map_err(|_| Errno::NODEV)?;
    route.act(|sequence| change::add_address(index, ip, prefix_len, sequence))
}

fn index(route: &mut Route, name: &str) -> Result<i32, Refusal> {
    let mut index = None;
    route.ask(
        |sequence| change::find(name, sequence),
        |_, payload| index = WireLink::parse(payload).ok().map(|link| link.index),
    )?;
    index.ok_or_else(|| Errno::NODEV.into())
}

fn namespace(name: &str) -> Option<OwnedFd> {
    let path = NetnsName::of_file(name).ok()?.path();
    let fd = open_file(path).ok()?;
    netns::is_namespace(&fd).ok()?.then_some(fd)
}

impl From<Refusal> for NoTarget {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// In each new namespace.
const INNER_NAME: &str = "eth0";
/// `IFNAMSIZ` without the NUL.
const IFNAME_MAX: usize = 15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_outer_ends() {
        let check = |name: &str, expected: &str| {
            assert_eq!(interface_name(&NetnsName::new(name).unwrap()), expected);
        };
        check("web1", "v-web1");
        check("a123456789012", "v-a123456789012");
        check("a1234567890123", "v-abb725db");
        check("a b", "v-10a3f9f2");
    }

    #[test]
    fn notes_tell_which_addresses_are_taken() {
        let name = NetnsName::new("10.0.0.9/x".replace('/', "-")).unwrap();
        let addresses = Addresses {
            inner: [10, 0, 0, 2].into(),
            outer: Some([10, 0, 0, 3].into()),
            prefix_len: 31,
        };
        let text = note(&name, Some(addresses));
        assert_eq!(text, "netns 10.0.0.9-x 10.0.0.2/31 10.0.0.3/31");
        let found: Vec<IpAddr> = noted(text.as_bytes()).collect();
        assert_eq!(found, [addresses.inner, addresses.outer.unwrap()]);
        assert_eq!(noted(b"uplink 10.0.0.1/24").count(), 0);
        assert_eq!(noted(b"netns \xff").count(), 0);
        let long = NetnsName::new("\u{e9}".repeat(127)).unwrap();
        assert!(note(&long, Some(addresses)).len() < 255);
    }
}

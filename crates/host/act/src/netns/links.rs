//! Veth pairs from new namespaces to a bridge or another namespace, over rtnetlink; for `ns add` with a
//! target. `LinkTarget::lock` keeps two processes from choosing the same addresses.

use super::error::{NetnsError, NetnsStep};
use super::{OWN_NETNS, open_file};
use crate::route::{Route, RouteError};
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

/// The target that new namespaces are connected to, each by a veth pair: `eth0` inside, and [`interface_name`] at the
/// target.
#[derive(Debug)]
pub struct LinkTarget {
    place: TargetPlace,
    name: String,
}

#[derive(Debug)]
enum TargetPlace {
    /// A bridge in our namespace, by its index.
    Bridge(u32),
    /// Another namespace.
    Namespace(OwnedFd),
}

/// Why there is no target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetError {
    /// No interface and no namespace has this name.
    NotFound,
    /// An interface has this name but is not a bridge, and no namespace has it.
    NotABridge,
    /// The kernel's answer was an error.
    Refused(RouteError),
}

/// The addresses of a veth pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addresses {
    /// Address of the end in the new namespace.
    pub inner: IpAddr,
    /// Address of the other end; `None` for a bridge port.
    pub outer: Option<IpAddr>,
    /// Prefix length of both.
    pub prefix_len: u8,
}

/// One thread's connection to the target, with which it creates veth pairs.
#[derive(Debug)]
pub struct VethLink {
    route: Route,
    master: Option<u32>,
}

impl LinkTarget {
    /// Finds the bridge with this name, or else the namespace.
    ///
    /// # Errors
    /// If there is neither.
    pub fn find(name: &str) -> Result<Self, TargetError> {
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
            | Err(RouteError {
                errno: Errno::NODEV | Errno::INVAL | Errno::RANGE | Errno::MSGSIZE,
                ..
            }) => {}
            Err(error) => return Err(error.into()),
        }
        let place = match found {
            Some((index, true)) => TargetPlace::Bridge(u32::try_from(index).unwrap_or_default()),
            other => match namespace(name) {
                Some(fd) => TargetPlace::Namespace(fd),
                None if other.is_some() => return Err(TargetError::NotABridge),
                None => return Err(TargetError::NotFound),
            },
        };
        Ok(Self {
            place,
            name: name.to_owned(),
        })
    }

    /// Whether the ends at the target have addresses: bridge ports have none.
    #[must_use]
    pub const fn has_addresses(&self) -> bool {
        matches!(self.place, TargetPlace::Namespace(_))
    }

    /// Opens a connection to the target, on a thread that is still in our namespace.
    ///
    /// # Errors
    /// If the target cannot be entered, or a socket cannot be created there.
    pub fn open(&self) -> Result<VethLink, NetnsError> {
        let (route, master) = match &self.place {
            TargetPlace::Bridge(index) => (Route::open(), Some(*index)),
            TargetPlace::Namespace(fd) => {
                let opened = netns::within(fd.as_fd(), Route::open);
                (opened.unwrap_or_else(|errno| Err(errno.into())), None)
            }
        };
        let route = route.map_err(|error| NetnsStep::OpenNamespace.on(&self.name, error))?;
        Ok(VethLink { route, master })
    }

    /// Locks the target against other sockeye processes that choose addresses there; waits for them. Dropping the
    /// result unlocks.
    ///
    /// # Errors
    /// If its namespace cannot be opened or locked.
    pub fn lock(&self) -> Result<OwnedFd, NetnsError> {
        // All processes lock the same namespace file; each must open it anew, or they would share the lock.
        let path = match &self.place {
            TargetPlace::Bridge(_) => PathBuf::from("/proc/self/ns/net"),
            TargetPlace::Namespace(fd) => format!("/proc/self/fd/{}", fd.as_raw_fd()).into(),
        };
        let failed = |errno| NetnsStep::OpenNamespace.on(&path, errno);
        let fd = open_file(&path).map_err(failed)?;
        loop {
            match flock(&fd, FlockOperation::LockExclusive) {
                Err(Errno::INTR) => {}
                done => return done.map(|()| fd).map_err(failed),
            }
        }
    }

    /// Returns the addresses in use at the target: those of its namespace's interfaces, and those in the aliases of
    /// veth pairs that lead there.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn taken(&self) -> Result<BTreeSet<IpAddr>, NetnsError> {
        let mut taken = BTreeSet::new();
        let mut link = self.open()?;
        let failed = |error| NetnsStep::AddAddress.on(&self.name, error);
        let read = |kind, payload: &[u8]| {
            let found = (kind == RTM_NEWADDR).then(|| InterfaceAddress::parse(payload));
            taken.extend(found.and_then(|found| found.ok()?).map(|found| found.ip));
        };
        let ask = |sequence| Some(InterfaceAddress::dump(sequence));
        link.route.ask(ask, read).map_err(failed)?;
        let read = |kind, payload: &[u8]| {
            if let (RTM_NEWLINK, Ok(link)) = (kind, WireLink::parse(payload)) {
                taken.extend(addresses_in_alias(link.alias));
            }
        };
        link.route
            .ask(|sequence| Some(WireLink::dump(sequence)), read)
            .map_err(failed)?;
        Ok(taken)
    }
}

impl VethLink {
    /// Connects the namespace that the calling thread is in.
    pub(super) fn make(&mut self, name: &NetnsName, addresses: Option<Addresses>) -> Result<(), NetnsError> {
        let path = name.path();
        let own = open_file(OWN_NETNS).map_err(|errno| NetnsStep::OpenNamespace.on(OWN_NETNS, errno))?;
        let outer_name = interface_name(name);
        let pair = VethPair {
            name: &outer_name,
            master: self.master,
            peer_name: INNER_NAME,
            peer_netns: u32::try_from(own.as_raw_fd()).unwrap_or_default(),
        };
        let mut make_pair = || -> Result<(Route, i32), RouteError> {
            self.route.act(|sequence| pair.request(sequence))?;
            self.route
                .act(|sequence| change::set_alias(&outer_name, &alias(name, addresses), sequence))?;
            let mut inside = Route::open()?;
            let inner = index(&mut inside, INNER_NAME)?;
            inside.act(|sequence| Some(change::bring_up(inner, sequence)))?;
            Ok((inside, inner))
        };
        let (mut inside, inner) = make_pair().map_err(|error| NetnsStep::MakePair.on(&path, error))?;
        let Some(Addresses {
            inner: inner_ip,
            outer: outer_ip,
            prefix_len,
        }) = addresses
        else {
            return Ok(());
        };
        let mut add_addresses = || -> Result<(), RouteError> {
            add(&mut inside, inner, inner_ip, prefix_len)?;
            let Some(outer_ip) = outer_ip else {
                return Ok(());
            };
            let outer = index(&mut self.route, &outer_name)?;
            add(&mut self.route, outer, outer_ip, prefix_len)
        };
        add_addresses().map_err(|error| NetnsStep::AddAddress.on(&path, error))
    }
}

/// Returns the name of the outer end of a namespace's veth pair: `v-NAME` if that is a valid interface name, otherwise
/// `v-` and eight hexadecimal digits, a hash of the name.
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

/// Returns the alias of the outer end, which `ip link` shows: the namespace's name and the addresses of the pair.
fn alias(name: &NetnsName, addresses: Option<Addresses>) -> String {
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

/// Returns the addresses in such an alias.
fn addresses_in_alias(alias: &[u8]) -> impl Iterator<Item = IpAddr> {
    let text = std::str::from_utf8(alias).unwrap_or_default();
    let words = text.strip_prefix("netns ").unwrap_or_default().split(' ');
    words.filter_map(|word| word.split_once('/')?.0.parse().ok())
}

fn add(route: &mut Route, index: i32, ip: IpAddr, prefix_len: u8) -> Result<(), RouteError> {
    let index = u32::try_from(index).map_err(|_| Errno::NODEV)?;
    route.act(|sequence| change::add_address(index, ip, prefix_len, sequence))
}

fn index(route: &mut Route, name: &str) -> Result<i32, RouteError> {
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

impl From<RouteError> for TargetError {
    fn from(error: RouteError) -> Self {
        Self::Refused(error)
    }
}

/// Name of the inner end in each new namespace.
const INNER_NAME: &str = "eth0";
/// `IFNAMSIZ` without the NUL.
const IFNAME_MAX: usize = 15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outer_name_is_valid_and_stable() {
        let check = |name: &str, expected: &str| {
            assert_eq!(interface_name(&NetnsName::new(name).unwrap()), expected);
        };
        check("web1", "v-web1");
        check("a123456789012", "v-a123456789012");
        check("a1234567890123", "v-abb725db");
        check("a b", "v-10a3f9f2");
    }

    #[test]
    fn alias_lists_the_addresses_of_the_pair() {
        let name = NetnsName::new("10.0.0.9/x".replace('/', "-")).unwrap();
        let addresses = Addresses {
            inner: [10, 0, 0, 2].into(),
            outer: Some([10, 0, 0, 3].into()),
            prefix_len: 31,
        };
        let text = alias(&name, Some(addresses));
        assert_eq!(text, "netns 10.0.0.9-x 10.0.0.2/31 10.0.0.3/31");
        let found: Vec<IpAddr> = addresses_in_alias(text.as_bytes()).collect();
        assert_eq!(found, [addresses.inner, addresses.outer.unwrap()]);
        assert_eq!(addresses_in_alias(b"uplink 10.0.0.1/24").count(), 0);
        assert_eq!(addresses_in_alias(b"netns \xff").count(), 0);
        let long = NetnsName::new("\u{e9}".repeat(127)).unwrap();
        assert!(alias(&long, Some(addresses)).len() < 255);
    }
}

//! Interface index to name and back, for one network namespace. `SystemNames`, `query`, `ss` and `capture`
//! use it. Call `snapshot` on a thread that is in the namespace.

use crate::devices::Devices;
use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use sockeye_model::InterfaceIndex;
use std::fs;

/// The network interfaces of a namespace.
#[derive(Debug, Default, Clone)]
pub struct Interfaces {
    by_index: Vec<(InterfaceIndex, Box<str>)>,
}

impl Interfaces {
    /// Reads those of the calling thread's network namespace.
    ///
    /// Names come from `/proc/thread-self/net/dev`: unlike `/sys/class/net` it follows the thread, and
    /// unlike `/proc/net` it follows *this* thread. Indices come from `SIOCGIFINDEX`. Without `/proc`, both come from
    /// rtnetlink. If none can be read, interfaces have no names.
    #[must_use]
    pub fn snapshot() -> Self {
        let Ok(names) = fs::read("/proc/thread-self/net/dev") else {
            return Self::from_pairs(Devices::names().unwrap_or_default());
        };
        let names = String::from_utf8_lossy(&names);
        let Ok(socket) = socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
        else {
            return Self::default();
        };
        Self::from_pairs(names_in(&names).filter_map(|name| {
            // Removed meanwhile, or not UTF-8.
            let index = name_to_index(&socket, name).ok()?;
            Some((InterfaceIndex(index), name.to_owned()))
        }))
    }

    /// Creates it from known pairs.
    pub fn from_pairs(pairs: impl IntoIterator<Item = (InterfaceIndex, String)>) -> Self {
        let mut by_index: Vec<_> = pairs
            .into_iter()
            .map(|(index, name)| (index, name.into_boxed_str()))
            .collect();
        by_index.sort();
        Self { by_index }
    }

    /// Returns the name of this interface; `None` if unknown.
    #[must_use]
    pub fn name(&self, index: InterfaceIndex) -> Option<&str> {
        let place = self.by_index.binary_search_by_key(&index, |(other, _)| *other);
        place.ok().map(|place| &*self.by_index[place].1)
    }

    /// Returns the interface with this name; `None` if there is none.
    #[must_use]
    pub fn index(&self, name: &str) -> Option<InterfaceIndex> {
        let entry = self.by_index.iter().find(|(_, other)| **other == *name);
        entry.map(|(index, _)| *index)
    }
}

/// Returns the names in `/proc/net/dev`. Each line after the two header lines is `  name: numbers…`; no name contains a
/// colon or a space (net/core/dev.c, dev_valid_name).
fn names_in(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .skip(2)
        .filter_map(|line| line.split_once(':'))
        .map(|(name, _)| name.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_and_malformed_lines_have_no_name() {
        let text = "Inter-|   Receive  |  Transmit\n face |bytes    packets|bytes\n    lo: 1 2\nveth0@x:1 2\nbroken\n";
        assert_eq!(names_in(text).collect::<Vec<_>>(), ["lo", "veth0@x"]);
        assert_eq!(names_in("").count(), 0);
    }

    #[test]
    fn rtnetlink_has_the_same_names_as_proc() {
        let by_netlink = Interfaces::from_pairs(Devices::names().unwrap());
        assert_eq!(by_netlink.by_index, Interfaces::snapshot().by_index);
    }

    #[test]
    fn loopback_is_index_1() {
        let interfaces = Interfaces::snapshot();
        assert_eq!(interfaces.name(InterfaceIndex(1)), Some("lo"));
        assert_eq!(interfaces.index("lo"), Some(InterfaceIndex(1)));
        assert_eq!(interfaces.name(InterfaceIndex(0)), None);
        assert_eq!(interfaces.index("nosuch"), None);
    }
}

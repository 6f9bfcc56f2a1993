//! Record of a network namespace, its age and its holders. `host/source/src/netns/` fills it, `ns` prints it.
//! Each list of holders keeps `HOLDERS_MAX` items and the total.

use crate::{Fd, NetnsInode, NetnsName, Pid, Process};
use core::cmp::Ordering;

/// A network namespace: its names, its processes, and what keeps it alive.
#[derive(Debug, Clone, PartialEq)]
pub struct Namespace {
    /// Its inode.
    pub inode: NetnsInode,
    /// All names in `/run/netns` (`ip netns`): names given by a user before generated ones, each in natural order.
    pub names: Vec<NetnsName>,
    /// Name or short id of its container; `None` if there is none or it was not looked up.
    pub container: Option<Box<str>>,
    /// Label in listings: a given name, else that of its container, else a generated name, else that of its first process.
    /// `None` if it has none of these.
    pub label: Option<Box<str>>,
    /// Its nsid in our own namespace (`ip netns set`); `None` if it has none.
    #[doc(alias = "nsid")]
    pub id: Option<i32>,
    /// Number of processes whose first thread is in it. `None` if no readable process is, but some could not be read.
    pub processes: Option<u32>,
    /// Number of threads in it; `None` likewise.
    pub threads: Option<u32>,
    /// Number of user space sockets of all protocols, without TIME_WAIT and the kernel's own.
    pub sockets: Option<u64>,
    /// Number of network interfaces, including loopback.
    pub interfaces: Option<u32>,
    /// Its age; `None` if unknown.
    pub age: Option<Age>,
    /// Whether it is our own namespace.
    pub is_own: bool,
    /// What keeps it alive, apart from its names and its processes.
    pub holders: NetnsHolders,
}

/// The age of a namespace, as far as known: the kernel does not store the time of its creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Age {
    /// Age in seconds.
    pub seconds: u64,
    /// The evidence.
    pub from: AgeFrom,
}

/// The evidence for the age of a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgeFrom {
    /// Its name or another mount is that old. A persistent namespace is mounted at its creation, so that it is hardly older.
    Mount,
    /// A descriptor has held it open at least that long.
    Descriptor,
    /// Its oldest process is that old. A process that entered later may be older than the namespace.
    Process,
}

impl AgeFrom {
    /// The name in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mount => "mount",
            Self::Descriptor => "descriptor",
            Self::Process => "process",
        }
    }
}

/// What keeps a namespace alive, apart from its names and its processes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NetnsHolders {
    /// Mounts other than its names.
    pub mounts: TruncatedList<MountHolder>,
    /// Descriptors of the namespace.
    pub descriptors: TruncatedList<DescriptorHolder>,
    /// Threads whose process is in another namespace.
    pub threads: TruncatedList<ThreadHolder>,
    /// Processes of other namespaces with sockets in it; empty without BPF.
    pub sockets: TruncatedList<SocketHolder>,
}

/// A list that keeps only its first items, and the total.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TruncatedList<T> {
    /// The first items, at most [`HOLDERS_MAX`].
    pub first: Vec<T>,
    /// Number of all items.
    pub total: u64,
}

/// Maximum number of holders of each kind that are listed.
pub const HOLDERS_MAX: usize = 8;

/// A mount of a namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct MountHolder {
    /// A process of its mount namespace; `None` if that is ours.
    pub process: Option<Process>,
    /// Mount point, as that process sees it.
    pub path: Box<[u8]>,
}

/// A descriptor of a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DescriptorHolder {
    /// The owner.
    pub process: Process,
    /// The descriptor.
    pub fd: Fd,
}

/// A thread in another namespace than its process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ThreadHolder {
    /// The process.
    pub process: Process,
    /// The thread.
    pub tid: Pid,
}

/// A process with sockets in another namespace than its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SocketHolder {
    /// The owner.
    pub process: Process,
    /// Number of sockets.
    pub sockets: u64,
}

impl Namespace {
    /// Creates a namespace of which nothing else is known.
    #[must_use]
    pub fn new(inode: NetnsInode) -> Self {
        Self {
            inode,
            names: Vec::new(),
            container: None,
            label: None,
            id: None,
            processes: None,
            threads: None,
            sockets: None,
            interfaces: None,
            age: None,
            is_own: false,
            holders: NetnsHolders::default(),
        }
    }

    /// Whether it has neither a process nor a thread; `None` if our rights do not suffice to know. Our own is never
    /// leaked.
    #[must_use]
    pub fn is_leaked(&self) -> Option<bool> {
        if self.is_own {
            return Some(false);
        }
        match (self.processes, self.threads) {
            (Some(0), Some(0)) => Some(true),
            (Some(processes), _) if processes > 0 => Some(false),
            (_, Some(threads)) if threads > 0 => Some(false),
            _ => None,
        }
    }
}

impl NetnsHolders {
    /// Whether there is no holder.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.mounts.total == 0
            && self.descriptors.total == 0
            && self.threads.total == 0
            && self.sockets.total == 0
    }
}

impl<T> TruncatedList<T> {
    /// Adds an item; it is dropped but counted if the list is full.
    pub fn push(&mut self, one: T) {
        self.total += 1;
        if self.first.len() < HOLDERS_MAX {
            self.first.push(one);
        }
    }
}

impl<T> Default for TruncatedList<T> {
    fn default() -> Self {
        Self {
            first: Vec::new(),
            total: 0,
        }
    }
}

/// Compares names in natural order: digits compare as numbers, so that `web2` comes before `web10`.
#[must_use]
pub fn natural_order(a: &[u8], b: &[u8]) -> Ordering {
    let (mut left, mut right) = (a, b);
    loop {
        match (left, right) {
            ([], []) => return a.cmp(b), // `web02` and `web2`
            ([], _) => return Ordering::Less,
            (_, []) => return Ordering::Greater,
            ([x, ..], [y, ..]) if x.is_ascii_digit() && y.is_ascii_digit() => {
                let (x, after_x) = number(left);
                let (y, after_y) = number(right);
                let order = x.len().cmp(&y.len()).then_with(|| x.cmp(y));
                if order != Ordering::Equal {
                    return order;
                }
                (left, right) = (after_x, after_y);
            }
            ([x, after_x @ ..], [y, after_y @ ..]) => {
                if x != y {
                    return x.cmp(y);
                }
                (left, right) = (after_x, after_y);
            }
        }
    }
}

/// Splits off the leading digits, without leading zeros.
fn number(text: &[u8]) -> (&[u8], &[u8]) {
    let len = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = text.split_at(len);
    let zeros = digits.iter().take_while(|&&byte| byte == b'0').count();
    (&digits[zeros..], rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_compare_as_numbers() {
        let mut names = [
            "web10", "web2", "web", "web02", "a", "web2b", "web2a10", "web2a9", "1", "09", "10", "é", "web2",
        ];
        names.sort_by(|a, b| natural_order(a.as_bytes(), b.as_bytes()));
        assert_eq!(
            names,
            [
                "1", "09", "10", "a", "web", "web02", "web2", "web2", "web2a9", "web2a10", "web2b", "web10",
                "é"
            ]
        );
        // More digits than an integer type holds.
        let long = "9".repeat(400);
        assert_eq!(natural_order(long.as_bytes(), b"10"), Ordering::Greater);
        assert_eq!(natural_order(b"x0", b"x00"), Ordering::Less);
    }

    #[test]
    fn namespace_with_unknown_processes_is_not_judged() {
        let mut namespace = Namespace::new(NetnsInode(1));
        assert_eq!(namespace.is_leaked(), None);
        for (processes, threads, expected) in [
            (Some(0), Some(0), Some(true)),
            (Some(0), Some(1), Some(false)),
            (Some(1), None, Some(false)),
            (None, Some(1), Some(false)),
            (Some(0), None, None),
            (None, None, None),
        ] {
            (namespace.processes, namespace.threads) = (processes, threads);
            assert_eq!(namespace.is_leaked(), expected, "{processes:?} {threads:?}");
        }
        (namespace.processes, namespace.threads) = (Some(0), Some(0));
        namespace.is_own = true;
        assert_eq!(namespace.is_leaked(), Some(false));
    }

    #[test]
    fn items_beyond_the_maximum_are_counted_only() {
        let mut list = TruncatedList::default();
        for number in 0..100 {
            list.push(number);
        }
        assert_eq!(
            (list.first.len(), list.total, list.first[7]),
            (HOLDERS_MAX, 100, 7)
        );
    }
}

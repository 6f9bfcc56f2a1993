use crate::{Fd, NetnsInode, NetnsName, Pid, Process};
use core::cmp::Ordering;

/// A network namespace: what it is called, who lives in it, and what keeps it.
#[derive(Debug, Clone, PartialEq)]
pub struct Namespace {
    /// Which one.
    pub inode: NetnsInode,
    /// All names it was given (`ip netns`); what somebody chose before what a machine made up, then in their natural order.
    pub names: Vec<NetnsName>,
    /// The name or short id of the container that lives in it, where that was looked for and is known.
    pub container: Option<Box<str>>,
    /// What a listing calls it: a chosen name, else its container's, else a name that was made up, else its first
    /// process's. `None`: it has none of these.
    pub called: Option<Box<str>>,
    /// The number that our own namespace gave it (`ip netns set`).
    #[doc(alias = "nsid")]
    pub id: Option<i32>,
    /// Processes whose first thread lives in it, of those that could be read. `None`: none of these, but there are others.
    pub processes: Option<u32>,
    /// Threads that live in it, likewise.
    pub threads: Option<u32>,
    /// Sockets of user space, of all protocols. TIME_WAIT and the kernel's own are not counted.
    pub sockets: Option<u64>,
    /// Network interfaces, the loopback among them.
    pub interfaces: Option<u32>,
    /// How old it is.
    pub age: Option<Age>,
    /// Whether it is the one that we are in.
    pub is_own: bool,
    /// What holds it open, besides the processes that live in it.
    pub keepers: Keepers,
}

/// How old a namespace is, as far as anybody knows: the kernel keeps no time of its making.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Age {
    /// Seconds.
    pub seconds: u64,
    /// How it is known.
    pub from: AgeFrom,
}

/// How the age of a namespace is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgeFrom {
    /// It has a name or another mount since then. Whoever makes one to last mounts it at once, so that it is hardly older.
    Mount,
    /// Somebody holds it open since then, at the least.
    Held,
    /// Its oldest process began then. One that moved in later may be older than the namespace.
    Process,
}

impl AgeFrom {
    /// Its name in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mount => "mount",
            Self::Held => "held",
            Self::Process => "process",
        }
    }
}

/// What holds a namespace open besides its names and the processes that live in it: of each kind the first few, and how
/// many there are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Keepers {
    /// Mounts that are not its names.
    pub mounts: Few<MountKeeper>,
    /// Descriptors.
    pub descriptors: Few<DescriptorKeeper>,
    /// Threads of processes that live elsewhere.
    pub threads: Few<ThreadKeeper>,
    /// Processes elsewhere that hold sockets of it, if that could be seen.
    pub sockets: Few<SocketKeeper>,
}

/// The first few of many.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Few<T> {
    /// These, [`KEEPERS_MAX`] at most.
    pub first: Vec<T>,
    /// How many there are.
    pub total: u64,
}

/// So many keepers of each kind are told one by one.
pub const KEEPERS_MAX: usize = 8;

/// A mount of a namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct MountKeeper {
    /// Whose mount namespace it is in: one of the processes there. `None`: it is in ours.
    pub process: Option<Process>,
    /// Where, as that process sees it.
    pub path: Box<[u8]>,
}

/// A descriptor of a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DescriptorKeeper {
    /// Who has it.
    pub process: Process,
    /// Its number.
    pub fd: Fd,
}

/// A thread that lives in a namespace while its process lives in another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ThreadKeeper {
    /// The process.
    pub process: Process,
    /// The thread.
    pub tid: Pid,
}

/// A process that holds sockets of a namespace in which it does not live.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SocketKeeper {
    /// Who.
    pub process: Process,
    /// So many.
    pub sockets: u64,
}

impl Namespace {
    /// One of which nothing else is known.
    #[must_use]
    pub fn new(inode: NetnsInode) -> Self {
        Self {
            inode,
            names: Vec::new(),
            container: None,
            called: None,
            id: None,
            processes: None,
            threads: None,
            sockets: None,
            interfaces: None,
            age: None,
            is_own: false,
            keepers: Keepers::default(),
        }
    }

    /// Whether nobody lives in it: no process and no thread. `None`: it could not be judged for want of rights. Ours is
    /// never leaked.
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

impl Keepers {
    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.mounts.total == 0
            && self.descriptors.total == 0
            && self.threads.total == 0
            && self.sockets.total == 0
    }
}

impl<T> Few<T> {
    /// One more, which is kept if it is among the first.
    pub fn push(&mut self, one: T) {
        self.total += 1;
        if self.first.len() < KEEPERS_MAX {
            self.first.push(one);
        }
    }
}

impl<T> Default for Few<T> {
    fn default() -> Self {
        Self {
            first: Vec::new(),
            total: 0,
        }
    }
}

/// The order of names in which `web2` comes before `web10`: digits count as the number they are.
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

/// The digits in front, without leading zeros, and what follows them.
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
    fn names_are_in_their_natural_order() {
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
        // More digits than any number has.
        let long = "9".repeat(400);
        assert_eq!(natural_order(long.as_bytes(), b"10"), Ordering::Greater);
        assert_eq!(natural_order(b"x0", b"x00"), Ordering::Less);
    }

    #[test]
    fn only_what_could_be_judged_is_leaked() {
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
    fn few_of_many() {
        let mut few = Few::default();
        for number in 0..100 {
            few.push(number);
        }
        assert_eq!((few.first.len(), few.total, few.first[7]), (KEEPERS_MAX, 100, 7));
    }
}

//! Numbers that could be swapped by mistake, each with a type of its own.

use core::fmt;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident($int:ty);)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $int);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

ids! {
    /// A TCP or UDP port; of a RAW socket, the protocol number it listens to.
    Port(u16);
    /// Inode of a socket in sockfs: what `/proc/PID/fd` shows as `socket:[N]`.
    Inode(u32);
    /// The kernel's name for a socket, never reused while the host is up (`SO_COOKIE`).
    Cookie(u64);
    /// Index of a network interface within its namespace.
    InterfaceIndex(u32);
    /// Inode of a network namespace in nsfs: what `/proc/PID/ns/net` shows as `net:[N]`.
    NetnsInode(u32);
    /// A user, as our own user namespace names him.
    Uid(u32);
    /// A process (the kernel's thread group), as our own pid namespace names it.
    Pid(u32);
    /// A process group.
    Pgid(u32);
    /// A file descriptor of some process.
    Fd(u32);
    /// A cgroup v2: the inode of its folder in cgroupfs.
    CgroupId(u64);
}

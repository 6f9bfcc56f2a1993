//! Newtypes for numbers that could be mixed up.

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
    /// Inode of a socket in sockfs: `/proc/PID/fd` shows it as `socket:[N]`.
    Inode(u32);
    /// Identifier of a socket, never reused until reboot (`SO_COOKIE`).
    Cookie(u64);
    /// Index of a network interface within its namespace.
    InterfaceIndex(u32);
    /// Inode of a network namespace in nsfs: `/proc/PID/ns/net` shows it as `net:[N]`.
    NetnsInode(u32);
    /// A user id in our user namespace.
    Uid(u32);
    /// A process id (the kernel's thread group id) in our pid namespace.
    Pid(u32);
    /// A process group id.
    Pgid(u32);
    /// A file descriptor number of a process.
    Fd(u32);
    /// Id of a cgroup v2: the inode of its folder in cgroupfs.
    CgroupId(u64);
}

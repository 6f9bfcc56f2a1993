//! Records before names are resolved: process ids and addresses.

/// A process between two execs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Incarnation {
    /// The process id in our pid namespace.
    pub(crate) pid: u32,
    /// Number of execs since the observation began; 0: the program it was at first.
    pub(crate) execs: u32,
}

/// A thread's stack: addresses, the innermost first, as the kernel returns them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct RawStack {
    /// Addresses in the kernel; empty if the thread was not in it.
    pub(crate) kernel: Vec<u64>,
    /// Addresses in its program and libraries.
    pub(crate) user: Vec<u64>,
}

//! What was seen, before there are names for it: numbers of processes and calls, and addresses.

/// A process while it is one program: the number changes with every exec that was seen, 0 is the one it was at first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Incarnation {
    /// The process, as we see it.
    pub pid: u32,
    /// How many programs it was before, since we look.
    pub execs: u32,
}

/// Where a thread was: addresses, the innermost first, as the kernel gives them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct RawStack {
    /// In the kernel.
    pub kernel: Vec<u64>,
    /// In its own program and libraries.
    pub user: Vec<u64>,
}

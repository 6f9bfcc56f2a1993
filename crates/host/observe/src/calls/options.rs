//! Options of `Calls::start`, from `session.rs` and `support.rs`. `programs.rs` loads and attaches only the
//! BPF programs that they require.

/// What to count, and from when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CallOptions {
    /// Whether to count and time system calls.
    pub(crate) syscalls: bool,
    /// Whether to measure time off the processors.
    pub(crate) waits: bool,
    /// Whether the named processes count only from their next exec: until then they are stopped.
    pub(crate) from_exec: bool,
}

/// What to count, and from when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallOptions {
    /// Whether to count and time system calls.
    pub syscalls: bool,
    /// Whether to measure time off the processors.
    pub waits: bool,
    /// Whether the named processes count only from their next exec: until then they are stopped.
    pub from_exec: bool,
}

//! The methods to send a file.

/// A method to send a file to a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Method {
    /// `read` into a buffer of 128 KiB, `send` out of it.
    Read,
    /// `sendfile`
    Sendfile,
    /// `splice` into a pipe of a MiB, and out of it.
    Splice,
    /// `mmap`, and `send` from there.
    Mmap,
    /// `mmap`, and `send` from there with `MSG_ZEROCOPY`, a MiB at a time.
    ZeroCopy,
    /// io_uring: chains of reads and sends, up to a MiB a call.
    Ring,
    /// `mmap`, and from there io_uring's send without a copy, a MiB at a time.
    RingZeroCopy,
}

impl Method {
    /// All methods.
    pub const ALL: [Self; 7] = [
        Self::Read,
        Self::Sendfile,
        Self::Splice,
        Self::Mmap,
        Self::ZeroCopy,
        Self::Ring,
        Self::RingZeroCopy,
    ];

    /// Returns the name in options and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Sendfile => "sendfile",
            Self::Splice => "splice",
            Self::Mmap => "mmap",
            Self::ZeroCopy => "zerocopy",
            Self::Ring => "uring",
            Self::RingZeroCopy => "uring_zc",
        }
    }
}

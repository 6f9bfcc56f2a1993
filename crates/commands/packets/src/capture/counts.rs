//! Counts of a capture.

/// Packets of a capture so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    /// Packets handed to the file.
    pub(super) captured: u64,
    /// Packets in our buffer, which are in no file yet.
    pub(super) buffered: u64,
    /// Packets that are in the files.
    pub(super) written: u64,
    /// Packets that passed the filter, including dropped ones.
    pub(super) passed: u64,
    /// Packets that the kernel dropped because the ring was full.
    pub(super) dropped: u64,
    /// Packets in the ring that could not be read.
    pub(super) unreadable: u64,
    /// Packets taken out of the ring.
    pub(super) taken: u64,
}

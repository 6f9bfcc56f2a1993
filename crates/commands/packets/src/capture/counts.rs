//! Counts of a capture.

/// Packets of a capture so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    /// Packets handed to the file.
    pub(super) captured: u64,
    /// Packets that are in the file; the others are in our buffer.
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

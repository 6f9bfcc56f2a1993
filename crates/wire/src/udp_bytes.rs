//! Bytes of UDP by process: mirrors `bpf/udp_bytes.h`, in native byte order.
//!
//! ```
//! use sockeye_wire::udp_bytes::Key;
//!
//! assert_eq!(Key::read(&[0; 7]), None);
//! ```

use crate::bytes::{array, ne_u32, ne_u64};

/// The table of [`Key`] and [`Totals`].
pub const UDP_BYTES: &str = "udp_bytes";
/// The map of two 64-bit numbers, one of each for each processor: entries that were added, and calls whose entry found no room.
pub const UDP_COUNTS: &str = "udp_counts";

record! {
    /// What bytes are counted by: `struct key`.
    #[derive(PartialOrd, Ord, Hash)]
    pub struct Key {
        /// The process; 0 in another pid namespace.
        pid: u32 = ne_u32 @ 0;
        /// Inode of the network namespace of its sockets.
        netns: u32 = ne_u32 @ 4;
    }
}

record! {
    /// Bytes since the process was first seen: `struct value`.
    pub struct Totals {
        /// Payload that was sent.
        sent: u64 = ne_u64 @ 0;
        /// Payload that was received.
        received: u64 = ne_u64 @ 8;
        /// Name of the process, NUL-terminated.
        comm: [u8; 16] = array @ 16;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn entry_is_decoded_and_a_short_one_is_none() {
        let key = [7_u32.to_ne_bytes(), 4_026_531_840_u32.to_ne_bytes()].concat();
        let expected = Key {
            pid: 7,
            netns: 4_026_531_840,
        };
        assert_eq!(Key::read(&key), Some(expected));
        let mut totals: Vec<u8> = [100_u64.to_ne_bytes(), 200_u64.to_ne_bytes()].concat();
        totals.extend(b"unbound\0\0\0\0\0\0\0\0\0");
        let read = Totals::read(&totals).unwrap();
        assert_eq!(
            (read.sent, read.received, &read.comm[..8]),
            (100, 200, &b"unbound\0"[..])
        );
        assert_eq!(Totals::read(&totals[..31]), None);
    }
}

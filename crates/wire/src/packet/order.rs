//! Integers in the byte order of a capture file. `pcap` and `pcapng` detect the order and read all their fields through it;
//! packets themselves are in network byte order and do not use it.

/// A byte order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Little-endian
    Little,
    /// Big-endian
    Big,
}

macro_rules! read {
    ($($name:ident: $int:ty;)*) => {$(
        #[inline]
        pub(super) fn $name(self, bytes: &[u8], at: usize) -> Option<$int> {
            let end = at.checked_add(size_of::<$int>())?;
            let bytes = bytes.get(at..end)?.try_into().ok()?;
            Some(match self {
                Self::Little => <$int>::from_le_bytes(bytes),
                Self::Big => <$int>::from_be_bytes(bytes),
            })
        }
    )*};
}

impl Order {
    read! {
        u16: u16;
        u32: u32;
        u64: u64;
        i64: i64;
    }
}

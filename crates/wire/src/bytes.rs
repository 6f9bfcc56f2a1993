//! Integers out of slices, with their byte order in the name of the function.
//!
//! Every function gives `None` when the slice ends too early: the caller decides whether that is an
//! older kernel or a broken message.

macro_rules! read {
    ($($name:ident: $int:ty, $from:ident;)*) => {$(
        #[inline]
        pub(crate) fn $name(bytes: &[u8], at: usize) -> Option<$int> {
            let end = at.checked_add(size_of::<$int>())?;
            Some(<$int>::$from(bytes.get(at..end)?.try_into().ok()?))
        }
    )*};
}

read! {
    ne_u16: u16, from_ne_bytes;
    ne_u32: u32, from_ne_bytes;
    ne_u64: u64, from_ne_bytes;
    ne_i32: i32, from_ne_bytes;
    be_u16: u16, from_be_bytes;
}

/// The first `N` bytes at `at`, as an array.
#[inline]
pub(crate) fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

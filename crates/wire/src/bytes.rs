//! Reading integers from slices, with the byte order in the function's name.
//!
//! Every function returns `None` if the slice is too short: the caller decides whether that means an
//! older kernel or a broken message.

use crate::{Error, Layer};

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
    be_u32: u32, from_be_bytes;
}

/// Reads one byte.
#[inline]
pub(crate) fn byte(bytes: &[u8], at: usize) -> Option<u8> {
    bytes.get(at).copied()
}

/// Reads a 64-bit number stored as two 32-bit ones, the low half first.
#[inline]
pub(crate) fn ne_halves(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from(ne_u32(bytes, at)?) | u64::from(ne_u32(bytes, at.checked_add(4)?)?) << 32)
}

/// Returns the `N` bytes at `at` as an array.
#[inline]
pub(crate) fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

/// Splits a message into its fixed part and the rest.
///
/// # Errors
/// If the message is shorter than its fixed part.
#[inline]
pub(crate) fn split_fixed<const N: usize>(payload: &[u8], layer: Layer) -> Result<(&[u8; N], &[u8]), Error> {
    payload.split_first_chunk().ok_or(Error {
        layer,
        offset: 0,
        needed: N,
        got: payload.len(),
    })
}

//! Random bytes that are used once.

use super::Error;
use rustix::rand::{GetRandomFlags, getrandom};

/// Random bytes of one end of a session.
pub(super) type Nonce = [u8; 16];

/// Returns `N` random bytes of the kernel.
pub(super) fn random<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    getrandom(&mut bytes, GetRandomFlags::empty()).map_err(|errno| Error::System("getrandom", errno))?;
    Ok(bytes)
}

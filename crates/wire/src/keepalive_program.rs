//! Maps of the BPF program that enables keepalive on the connections of a cgroup: mirrors `bpf/keepalive.bpf.c`, in
//! native byte order.
//!
//! ```
//! use sockeye_wire::keepalive_program::{Counts, Settings};
//!
//! let settings = Settings { time_s: 60, interval_s: 10, probes: 6, ..Settings::default() };
//! assert_eq!(Settings::read(&settings.bytes()), settings);
//! assert_eq!(Counts::read(&[0; Counts::BYTES]), Counts::default());
//! ```

use crate::bytes::{ne_u32, ne_u64};

/// The name of the program, by which attached programs are found.
pub const PROGRAM: &str = "sockeye_keep";
/// The name of the map with its [`Settings`].
pub const SETTINGS: &str = "keep_settings";
/// The name of the map with its [`Counts`].
pub const COUNTS: &str = "keep_counts";

/// The socket options to set: `struct settings`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Settings {
    /// `TCP_KEEPIDLE`
    pub time_s: u32,
    /// `TCP_KEEPINTVL`
    pub interval_s: u32,
    /// `TCP_KEEPCNT`
    pub probes: u32,
    /// `TCP_USER_TIMEOUT`; `None` to leave it unchanged.
    pub user_timeout_ms: Option<u32>,
    /// The counts of the programs that this one replaced.
    pub earlier: Counts,
}

/// Counts of connections and options: `struct counts`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Connections that had all of the times at the end of the handshake; the application may have changed them since.
    pub given: u64,
    /// Connections that had another time then, set earlier by the application, its listener, or the program of a cgroup
    /// below.
    pub other: u64,
    /// Options that the kernel refused to set.
    pub refused: u64,
}

impl Settings {
    /// The size of the map's value.
    pub const BYTES: usize = 24 + Counts::BYTES;

    /// Encodes the settings as the map's value.
    #[must_use]
    pub fn bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let numbers = [
            self.time_s,
            self.interval_s,
            self.probes,
            u32::from(self.user_timeout_ms.is_some()),
            self.user_timeout_ms.unwrap_or(0),
        ];
        for (to, from) in bytes.chunks_exact_mut(4).zip(numbers) {
            to.copy_from_slice(&from.to_ne_bytes());
        }
        let Counts {
            given,
            other,
            refused,
        } = self.earlier;
        for (to, from) in bytes[24..].chunks_exact_mut(8).zip([given, other, refused]) {
            to.copy_from_slice(&from.to_ne_bytes());
        }
        bytes
    }

    /// Decodes the map's value.
    #[must_use]
    pub fn read(bytes: &[u8; Self::BYTES]) -> Self {
        let number = |offset| ne_u32(bytes, offset).unwrap_or(0);
        Self {
            time_s: number(0),
            interval_s: number(4),
            probes: number(8),
            user_timeout_ms: (number(12) != 0).then(|| number(16)),
            earlier: Counts::at(bytes, 24),
        }
    }
}

impl Counts {
    /// The size of the map's value.
    pub const BYTES: usize = 24;

    /// Decodes the map's value.
    #[must_use]
    pub fn read(bytes: &[u8; Self::BYTES]) -> Self {
        Self::at(bytes, 0)
    }

    fn at(bytes: &[u8], offset: usize) -> Self {
        let number = |place: usize| ne_u64(bytes, offset + 8 * place).unwrap_or(0);
        Self {
            given: number(0),
            other: number(1),
            refused: number(2),
        }
    }
}

impl core::ops::Add for Counts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            given: self.given.saturating_add(other.given),
            other: self.other.saturating_add(other.other),
            refused: self.refused.saturating_add(other.refused),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_encoded_and_decoded() {
        let settings = Settings {
            time_s: 1,
            interval_s: 2,
            probes: 3,
            user_timeout_ms: Some(0),
            earlier: Counts {
                given: 4,
                other: 5,
                refused: u64::MAX,
            },
        };
        let bytes = settings.bytes();
        let numbers: [u32; 6] = core::array::from_fn(|place| ne_u32(&bytes, 4 * place).unwrap());
        assert_eq!(numbers, [1, 2, 3, 1, 0, 0]);
        assert_eq!(Settings::read(&bytes), settings);
        let silent = Settings {
            user_timeout_ms: None,
            ..settings
        };
        assert_eq!(Settings::read(&silent.bytes()), silent);
        let sum = settings.earlier + settings.earlier;
        assert_eq!((sum.given, sum.other, sum.refused), (8, 10, u64::MAX));
    }
}

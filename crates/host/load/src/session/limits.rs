//! Limits of a server, and the groups of addresses that they apply to.
//!
//! A limit per address keeps one host from locking out all others. Where a limit is reached, what is idle or slowest makes
//! room for what is new, so that an attack from the address of an honest client does not lock that one out either. A test
//! that moves more than a [minimum](RATE_MIN) keeps its place until its time is over.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

/// Addresses that one host can choose from freely: an IPv4 address, or the /64 of an IPv6 address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AddressGroup {
    /// An IPv4 address.
    V4(Ipv4Addr),
    /// The first eight bytes of an IPv6 address.
    V6([u8; 8]),
}

impl AddressGroup {
    /// Returns the group of an address. An IPv4-mapped address is one of IPv4.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::V4(address),
            IpAddr::V6(address) => {
                let [a, b, c, d, e, f, g, h, ..] = address.octets();
                Self::V6([a, b, c, d, e, f, g, h])
            }
        }
    }
}

/// What a client can ask for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ServerLimits {
    /// Longest test.
    pub(crate) time: Duration,
    /// Whether threads may poll without sleeping.
    pub(crate) busy_poll: bool,
}

/// Most connections that have not been admitted yet; each is a descriptor and some bytes, not a thread.
pub const WAITING_MAX: usize = 512;
/// Most of them per address.
pub const WAITING_PER_ADDRESS_MAX: usize = 256;
/// Time from accepting a connection until its request is complete.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest request of a client that has not been admitted yet, in bytes.
pub const REQUEST_MAX: usize = 4096;
/// Most tests at once.
pub const TESTS_MAX: usize = 64;
/// Most tests at once per address.
pub const TESTS_PER_ADDRESS_MAX: usize = 32;
/// Streams of each test that need no part of the common ones: a small test fits while large ones run.
pub const STREAMS_PER_TEST: usize = 8;
/// Most further streams of all tests together. Each stream is a thread.
pub const STREAMS_MAX: usize = 1536;
/// Most further streams of all tests of an address.
pub const STREAMS_PER_ADDRESS_MAX: usize = 1024;
/// Most threads for tests of another tool's protocol.
pub const FOREIGN_TESTS_MAX: usize = 24;
/// A test that has not begun is idle if nothing arrived for this long.
pub const OPENING_IDLE: Duration = Duration::from_millis(250);
/// A test that has not begun after this long is idle, even if its streams come one by one.
pub const OPENING_MAX: Duration = Duration::from_secs(5);
/// A running test that moves fewer bytes per second makes room for others.
pub const RATE_MIN: u64 = 64 * 1024;
/// A test that has run for less is not judged by its rate.
pub const RATE_GRACE: Duration = Duration::from_secs(1);
/// Bytes that a request and its answer count in addition to their own: the work for a packet does not depend on its length.
pub const EXCHANGE_BYTES: u64 = 1024;
/// Longest test of a server that everybody can use.
pub const TIME_MAX: Duration = Duration::from_secs(3600);
/// Longest test of a server with a secret.
pub const TIME_MAX_WITH_SECRET: Duration = Duration::from_secs(86_400);
/// Wrong secrets that an address can try at once.
pub const GUESSES_BURST: f64 = 20.0;
/// Wrong secrets that an address can try per second after that.
pub const GUESSES_PER_S: f64 = 10.0;
/// Units of work that a client's messages can cause at once: one for each message, each read, and each further 4 KiB.
pub const MESSAGES_BURST: f64 = 400.0;
/// Units of work per second after that. A client sends at most 25 messages a second.
pub const MESSAGES_PER_S: f64 = 100.0;
/// Longest wait of a request for an idle test to end.
pub const ROOM_TIMEOUT: Duration = Duration::from_millis(800);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_of_a_64_are_one_group() {
        let group = |text: &str| AddressGroup::of(text.parse().unwrap());
        assert_eq!(group("2001:db8::1"), group("2001:db8::ffff:1"));
        assert_ne!(group("2001:db8::1"), group("2001:db8:0:1::1"));
        assert_eq!(group("::ffff:10.0.0.1"), group("10.0.0.1"));
        assert_ne!(group("10.0.0.1"), group("10.0.0.2"));
    }
}

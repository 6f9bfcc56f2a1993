//! Error codes of iperf3 servers, and their meanings.

use std::fmt;

/// An `i_errno` of iperf3, with which a server refuses a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal(pub(crate) i32);

impl Refusal {
    pub(crate) const DURATION: Self = Self(5);
    pub(crate) const STREAMS: Self = Self(6);
    pub(crate) const LENGTH: Self = Self(7);
    pub(crate) const WINDOW: Self = Self(8);
    pub(crate) const SEGMENT: Self = Self(10);
    pub(crate) const OMIT: Self = Self(12);
    pub(crate) const BURST: Self = Self(15);
    pub(crate) const SCTP: Self = Self(18);
    pub(crate) const DATAGRAM: Self = Self(20);
    pub(crate) const TYPE_OF_SERVICE: Self = Self(21);
    pub(crate) const REVERSE_AND_BOTH: Self = Self(24);
    pub(crate) const SERVER_DURATION: Self = Self(37);
    pub(crate) const PARAMETERS: Self = Self(114);
    pub(crate) const CONGESTION: Self = Self(134);
    pub(crate) const AUTHENTICATION: Self = Self(142);
    pub(crate) const WINDOW_NOT_SET: Self = Self(141);

    /// Returns the meaning; `None` if the code is unknown here.
    #[must_use]
    pub fn meaning(self) -> Option<&'static str> {
        let found = MEANINGS.iter().find(|(code, _)| *code == self.0);
        found.map(|&(_, meaning)| meaning)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.meaning() {
            Some(meaning) => f.write_str(meaning),
            None => write!(f, "iperf3's error {}", self.0),
        }
    }
}

const MEANINGS: [(i32, &str); 25] = [
    (
        5,
        "the test would take too long (at most 86400 s; without a secret `sockeye bench serve` permits 3600 s)",
    ),
    (6, "too many streams (at most 128)"),
    (7, "writes are too long (at most 1 MiB, datagrams 65507 bytes)"),
    (8, "socket buffers are too large (at most 512 MiB)"),
    (10, "the largest segment is too large (at most 32767)"),
    (12, "the omitted time is too long (at most 600 s)"),
    (15, "bursts are too long (at most 1000)"),
    (18, "SCTP is not supported there"),
    (20, "datagrams are too short (at least 16 bytes)"),
    (21, "the type of service is invalid"),
    (24, "both --reverse and --bidir were asked for"),
    (27, "the rate is above the server's limit"),
    (37, "the test would take longer than the server allows"),
    (114, "the parameters could not be read"),
    (122, "TCP_NODELAY could not be set"),
    (123, "the largest segment could not be set"),
    (124, "the socket buffers could not be set"),
    (125, "the type of service could not be set"),
    (134, "the congestion control could not be set"),
    (140, "the pacing rate could not be set"),
    (141, "socket buffers of this size are not available"),
    (142, "authentication failed"),
    (145, "fragments could not be forbidden"),
    (160, "the test took longer than the server allows"),
    (202, "it could not listen for streams"),
];

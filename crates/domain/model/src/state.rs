//! Socket states with their names, and the set of states that a dump requests from the kernel.
//! Filters, sources and renderers use both; `StateSet` has the bits of the kernel's request.

use core::fmt;

/// The kernel's socket states, which are TCP's. UDP, RAW and UNIX sockets use some of them:
/// `Established` for connected ones, `Close` for the others, `Listen` for UNIX listeners.
///
/// Source: `include/net/tcp_states.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // the states have the names and meanings of RFC 9293
pub enum State {
    Established,
    SynSent,
    SynRecv,
    FinWait1,
    FinWait2,
    TimeWait,
    /// Neither connected nor listening (`ss`: UNCONN)
    Close,
    CloseWait,
    LastAck,
    Listen,
    Closing,
    /// A request not yet promoted to a socket; the kernel reports it as `SynRecv`
    NewSynRecv,
    /// Bound to a port, neither listening nor connected (Linux 6.8)
    BoundInactive,
    /// An unknown number
    Unknown(u8),
}

impl State {
    /// All known states, in the order of their numbers.
    pub const ALL: [Self; 13] = [
        Self::Established,
        Self::SynSent,
        Self::SynRecv,
        Self::FinWait1,
        Self::FinWait2,
        Self::TimeWait,
        Self::Close,
        Self::CloseWait,
        Self::LastAck,
        Self::Listen,
        Self::Closing,
        Self::NewSynRecv,
        Self::BoundInactive,
    ];

    /// Converts from the kernel's number.
    #[must_use]
    pub const fn from_number(number: u8) -> Self {
        match number {
            1..=13 => Self::ALL[number as usize - 1],
            _ => Self::Unknown(number),
        }
    }

    /// Returns the kernel's number.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::Established => 1,
            Self::SynSent => 2,
            Self::SynRecv => 3,
            Self::FinWait1 => 4,
            Self::FinWait2 => 5,
            Self::TimeWait => 6,
            Self::Close => 7,
            Self::CloseWait => 8,
            Self::LastAck => 9,
            Self::Listen => 10,
            Self::Closing => 11,
            Self::NewSynRecv => 12,
            Self::BoundInactive => 13,
            Self::Unknown(number) => number,
        }
    }

    /// The name in the State column of `ss`.
    #[must_use]
    pub const fn short_name(self) -> &'static str {
        match self {
            Self::Established => "ESTAB",
            Self::SynSent => "SYN-SENT",
            Self::SynRecv | Self::NewSynRecv => "SYN-RECV",
            Self::FinWait1 => "FIN-WAIT-1",
            Self::FinWait2 => "FIN-WAIT-2",
            Self::TimeWait => "TIME-WAIT",
            Self::Close => "UNCONN",
            Self::CloseWait => "CLOSE-WAIT",
            Self::LastAck => "LAST-ACK",
            Self::Listen => "LISTEN",
            Self::Closing => "CLOSING",
            Self::BoundInactive => "BOUND",
            Self::Unknown(_) => "UNKNOWN",
        }
    }

    /// The name in JSON and in filters: `time_wait`.
    #[must_use]
    pub const fn snake_name(self) -> &'static str {
        match self {
            Self::Established => "established",
            Self::SynSent => "syn_sent",
            Self::SynRecv | Self::NewSynRecv => "syn_recv",
            Self::FinWait1 => "fin_wait_1",
            Self::FinWait2 => "fin_wait_2",
            Self::TimeWait => "time_wait",
            Self::Close => "unconnected",
            Self::CloseWait => "close_wait",
            Self::LastAck => "last_ack",
            Self::Listen => "listen",
            Self::Closing => "closing",
            Self::BoundInactive => "bound",
            Self::Unknown(_) => "unknown",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(number) => write!(f, "UNKNOWN({number})"),
            named => f.pad(named.short_name()),
        }
    }
}

/// A set of states: bit `1 << number` for each, as in requests to the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StateSet(u32);

impl StateSet {
    /// No state.
    pub const EMPTY: Self = Self(0);
    /// All states of TCP, without bound sockets.
    pub const ALL: Self = Self(0x1fff & !1);
    /// [`StateSet::ALL`] and bound sockets (Linux 6.8; older kernels ignore the bit).
    pub const ALL_AND_BOUND: Self = Self(0x3fff & !1);
    /// The default of `ss`: all but listening, unconnected, TIME_WAIT and SYN_RECV.
    pub const SS_DEFAULT: Self = Self::ALL
        .without(State::Listen)
        .without(State::Close)
        .without(State::TimeWait)
        .without(State::SynRecv)
        .without(State::NewSynRecv);
    /// The states of `ss -l`: listening and unconnected.
    pub const LISTENING: Self = Self::EMPTY.with(State::Listen).with(State::Close);
    /// The states of connections in flows: neither half-open, nor listening, nor unconnected.
    pub const FLOWS: Self = Self::ALL
        .without(State::Listen)
        .without(State::Close)
        .without(State::SynSent)
        .without(State::SynRecv)
        .without(State::NewSynRecv);

    /// Creates a set from bits `1 << number`.
    #[must_use]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// Returns the bits `1 << number`.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Returns this set with `state`.
    #[must_use]
    pub const fn with(self, state: State) -> Self {
        Self(self.0 | Self::bit(state))
    }

    /// Returns this set without `state`.
    #[must_use]
    pub const fn without(self, state: State) -> Self {
        Self(self.0 & !Self::bit(state))
    }

    /// Whether it contains `state`. An unknown state is contained in a set that has all known states.
    #[must_use]
    pub const fn contains(self, state: State) -> bool {
        match state {
            State::Unknown(_) => self.0 & Self::ALL.0 == Self::ALL.0,
            named => self.0 & Self::bit(named) != 0,
        }
    }

    /// Returns the intersection of both sets.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns the union of both sets.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the states of [`StateSet::ALL_AND_BOUND`] that are not in it.
    #[must_use]
    pub const fn complement(self) -> Self {
        Self(!self.0 & Self::ALL_AND_BOUND.0)
    }

    /// Whether it is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    const fn bit(state: State) -> u32 {
        match state {
            State::Unknown(_) => 0,
            named => 1 << named.number(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_round_trip() {
        for number in 0..=u8::MAX {
            assert_eq!(State::from_number(number).number(), number);
        }
        assert_eq!(State::from_number(99).to_string(), "UNKNOWN(99)");
    }

    #[test]
    fn sets_have_the_bits_of_the_kernel() {
        assert_eq!(
            StateSet::EMPTY
                .with(State::Established)
                .with(State::Listen)
                .bits(),
            1 << 1 | 1 << 10
        );
        assert_eq!(
            StateSet::SS_DEFAULT.bits(),
            0xfff & !1 & !(1 << 10 | 1 << 7 | 1 << 6 | 1 << 3)
        );
        assert!(!StateSet::FLOWS.contains(State::SynSent) && StateSet::FLOWS.contains(State::TimeWait));
        assert!(StateSet::ALL.contains(State::Unknown(200)) && !StateSet::FLOWS.contains(State::Unknown(2)));
        assert_eq!(
            StateSet::LISTENING.complement().and(StateSet::LISTENING),
            StateSet::EMPTY
        );
    }
}

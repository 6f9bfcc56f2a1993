//! Socket timer, from diag messages, BPF walks or `/proc/net`. Filters, `check` and the renderers use it.
//! The conversion corrects overdue timers, for which the kernel's number wraps.

use core::fmt;

/// The running timer of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timer {
    /// Its kind.
    pub kind: TimerKind,
    /// Milliseconds until it fires; 0 if it is due.
    pub expires_ms: u32,
    /// Retransmissions or unanswered probes so far.
    pub retransmits: u32,
}

/// The kind of a socket's timer. With "off", the absence of a [`Timer`], these are the six kinds
/// that `ss -o` and `netstat -o` distinguish.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TimerKind {
    /// Retransmission, tail loss probe or reordering timer (`on`)
    Retransmission,
    /// Keepalive; also the wait for a FIN in FIN_WAIT2 (`keepalive`)
    Keepalive,
    /// The two minutes of a TIME_WAIT socket, or less (`timewait`)
    TimeWait,
    /// Zero window probe (`persist`, netstat: `probe`)
    ZeroWindowProbe,
    /// An unknown number
    Unknown(u8),
}

impl Timer {
    /// Converts the kernel's three numbers; `None` if no timer runs.
    #[must_use]
    pub const fn from_numbers(kind: u8, expires_ms: u32, retransmits: u32) -> Option<Self> {
        let kind = match kind {
            0 => return None,
            1 => TimerKind::Retransmission,
            2 => TimerKind::Keepalive,
            3 => TimerKind::TimeWait,
            4 => TimerKind::ZeroWindowProbe,
            unknown => TimerKind::Unknown(unknown),
        };
        // The kernel's subtraction of jiffies wraps: a timer overdue by a tick shows as 49 days.
        let overdue = expires_ms > u32::MAX / 2;
        Some(Self {
            kind,
            expires_ms: if overdue { 0 } else { expires_ms },
            retransmits,
        })
    }
}

impl TimerKind {
    /// The name in `ss -o`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Retransmission => "on",
            Self::Keepalive => "keepalive",
            Self::TimeWait => "timewait",
            Self::ZeroWindowProbe => "persist",
            Self::Unknown(_) => "unknown",
        }
    }
}

impl fmt::Display for TimerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overdue_timer_is_zero() {
        assert_eq!(Timer::from_numbers(0, 5, 5), None);
        assert_eq!(
            Timer::from_numbers(1, 200, 2).map(|t| (t.expires_ms, t.retransmits)),
            Some((200, 2))
        );
        assert_eq!(
            Timer::from_numbers(1, u32::MAX - 3, 0).map(|t| t.expires_ms),
            Some(0)
        );
        assert_eq!(
            Timer::from_numbers(9, 1, 0).map(|t| t.kind),
            Some(TimerKind::Unknown(9))
        );
    }
}

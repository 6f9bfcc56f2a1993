//! Our own opinion of what happened, with its evidence.

/// What happened, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// Since the first packet of the capture, in nanoseconds
    pub time_ns: u64,
    /// Which frame shows it, counted from 1
    pub frame: u64,
    /// Whether the side that opened the connection sent it (else, the other)
    pub from_client: bool,
    /// What it is
    pub kind: EventKind,
    /// How sure that is
    pub confidence: Confidence,
    /// What it is based on, in a few words: `never SACKed, sent again, ACK jumped`
    pub evidence: &'static str,
}

/// What can happen to segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventKind {
    /// It was lost on the path behind where it was captured, and sent again
    Lost,
    /// It came later than what was sent after it
    Reordered,
    /// It was sent again, and had not been lost
    Spurious,
    /// It was sent again, and the capture does not tell whether it had been lost or only its acknowledgement
    Unclear,
    /// The network delivered it twice
    DuplicatedByNetwork,
    /// The capture has it twice
    DuplicatedByCapture,
    /// The capture lacks it: its peer acknowledged it
    MissingInCapture,
    /// A retransmission timeout
    Timeout,
    /// Several were lost at once: the first of them
    LossBurst {
        /// How many segments
        segments: u32,
    },
    /// Nothing moved for long
    Stall {
        /// How long, in nanoseconds
        duration_ns: u64,
    },
    /// The receiver's window was closed
    WindowClosed {
        /// How long, in nanoseconds
        duration_ns: u64,
    },
}

impl EventKind {
    /// Its name in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Reordered => "reordered",
            Self::Spurious => "spurious",
            Self::Unclear => "unclear",
            Self::DuplicatedByNetwork => "duplicated_by_network",
            Self::DuplicatedByCapture => "duplicated_by_capture",
            Self::MissingInCapture => "missing_in_capture",
            Self::Timeout => "timeout",
            Self::LossBurst { .. } => "loss_burst",
            Self::Stall { .. } => "stall",
            Self::WindowClosed { .. } => "window_closed",
        }
    }
}

/// How sure an opinion is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Confidence {
    /// It looks like it
    Likely,
    /// The other end said so (SACK, DSACK, timestamps)
    Proven,
}

impl Confidence {
    /// Its name in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Likely => "likely",
            Self::Proven => "proven",
        }
    }
}

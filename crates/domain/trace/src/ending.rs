//! How a connection ended, as far as the capture shows.

use crate::named::named;

named! {
    /// How a connection ended.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
    pub enum Ending {
        /// Still open at the end of the capture
        #[default]
        Open = "open",
        /// Both ends closed it, and both FINs were acknowledged
        Closed = "closed",
        /// The SYN was answered by RST
        Refused = "refused",
        /// The SYN was not answered
        Unanswered = "unanswered",
        /// The client sent RST
        ResetByClient = "reset_by_client",
        /// The server sent RST
        ResetByServer = "reset_by_server",
        /// The client did not answer repeated retransmissions
        ClientVanished = "client_vanished",
        /// The server did not answer repeated retransmissions
        ServerVanished = "server_vanished",
    }
}

/// Evidence for the ending. Arrays are indexed by end, in the order of the connection's tuple.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct EndingEvidence {
    /// End that sent RST first
    reset_by: Option<u8>,
    /// Retransmissions of this end since the last segment of the other
    unanswered: [u8; 2],
    /// Of these, keepalives
    keepalives: [u8; 2],
    has_syn: bool,
    has_answer: bool,
}

impl EndingEvidence {
    /// Records a segment of this end.
    pub(crate) fn segment(&mut self, from: usize, is_syn: bool, is_reset: bool, is_again: bool) {
        self.unanswered[1 - from] = 0;
        self.keepalives[1 - from] = 0;
        if is_again {
            self.unanswered[from] = self.unanswered[from].saturating_add(1);
        }
        if is_reset {
            self.reset_by.get_or_insert(from as u8);
        } else if is_syn {
            self.has_syn = true;
        } else {
            self.has_answer = true;
        }
    }

    /// Records that the segment of this end is a keepalive.
    pub(crate) fn keepalive(&mut self, from: usize) {
        self.keepalives[from] = self.keepalives[from].saturating_add(1);
    }

    /// Keepalives of this end since the last segment of the other.
    pub(crate) fn unanswered_keepalives(&self, end: usize) -> u32 {
        self.keepalives[end].into()
    }

    /// The ending; `is_closed`: both FINs were acknowledged.
    pub(crate) fn ending(&self, client: usize, is_closed: bool) -> Ending {
        let is_mute = self.has_syn && !self.has_answer;
        let by_client = self.reset_by.map(|end| usize::from(end) == client);
        if by_client == Some(false) && is_mute {
            return Ending::Refused;
        }
        if self.unanswered[client] >= UNANSWERED_MIN && !is_mute {
            return Ending::ServerVanished;
        }
        if self.unanswered[1 - client] >= UNANSWERED_MIN && !is_mute {
            return Ending::ClientVanished;
        }
        match by_client {
            Some(true) => Ending::ResetByClient,
            Some(false) => Ending::ResetByServer,
            None if is_closed => Ending::Closed,
            None if is_mute => Ending::Unanswered,
            None => Ending::Open,
        }
    }
}

/// Retransmissions without an answer that show a dead peer. Fewer may be a lossy path.
const UNANSWERED_MIN: u8 = 3;

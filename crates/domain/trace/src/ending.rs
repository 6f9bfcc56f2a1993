//! How a connection ended, as far as the capture tells.

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Ending {
    /// It did not, while it was captured
    #[default]
    Open,
    /// Both ends closed it, and both knew
    Closed,
    /// Who was to answer the SYN sent RST
    Refused,
    /// Nobody answered the SYN
    Unanswered,
    /// Whoever opened it sent RST
    ResetByClient,
    /// The other end sent RST
    ResetByServer,
    /// Whoever opened it was sent things again and again, and did not answer any more
    ClientVanished,
    /// The same of the other end
    ServerVanished,
}

impl Ending {
    /// Each of them.
    pub const ALL: [Self; 8] = [
        Self::Open,
        Self::Closed,
        Self::Refused,
        Self::Unanswered,
        Self::ResetByClient,
        Self::ResetByServer,
        Self::ClientVanished,
        Self::ServerVanished,
    ];

    /// Its name in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Closed => "closed",
            Self::Refused => "refused",
            Self::Unanswered => "unanswered",
            Self::ResetByClient => "reset_by_client",
            Self::ResetByServer => "reset_by_server",
            Self::ClientVanished => "client_vanished",
            Self::ServerVanished => "server_vanished",
        }
    }
}

/// What decides it. Of two, the first is of the end that the connection's tuple has first.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Farewell {
    /// Who sent RST first
    reset_by: Option<u8>,
    /// Sent again by this end since the other was heard
    unheard: [u8; 2],
    has_syn: bool,
    has_answer: bool,
}

impl Farewell {
    /// A segment of this end.
    pub(crate) fn segment(&mut self, from: usize, is_syn: bool, is_reset: bool, is_again: bool) {
        self.unheard[1 - from] = 0;
        if is_again {
            self.unheard[from] = self.unheard[from].saturating_add(1);
        }
        if is_reset {
            self.reset_by.get_or_insert(from as u8);
        } else if is_syn {
            self.has_syn = true;
        } else {
            self.has_answer = true;
        }
    }

    /// How it ended; `is_closed`: both FINs were acknowledged.
    pub(crate) fn ending(&self, client: usize, is_closed: bool) -> Ending {
        let is_mute = self.has_syn && !self.has_answer;
        let by_client = self.reset_by.map(|end| usize::from(end) == client);
        if by_client == Some(false) && is_mute {
            return Ending::Refused;
        }
        if self.unheard[client] >= UNHEARD && !is_mute {
            return Ending::ServerVanished;
        }
        if self.unheard[1 - client] >= UNHEARD && !is_mute {
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

/// Sent again so often without any answer: whoever was to answer is gone. Fewer may be a path that loses much.
const UNHEARD: u8 = 3;

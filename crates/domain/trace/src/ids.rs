//! What IP identifications tell of packets that were lost before they got to the capture.
//!
//! Linux counts the packets of each connection, so that each one's number is that of the last and one. Other systems
//! count all packets of the host together, or choose numbers by chance; their numbers tell nothing here.

/// The identifications of one direction.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Ids {
    last: Option<u16>,
    in_turn: u32,
    skips: u32,
}

impl Ids {
    /// The next packet; gives how many were skipped before it.
    pub(crate) fn next(&mut self, id: Option<u16>) -> Option<u16> {
        // What is sent without a connection, as the answer to a SYN, has none.
        let id = id.filter(|id| *id != 0)?;
        let step = id.wrapping_sub(self.last.unwrap_or(id.wrapping_sub(1)));
        if step > u16::MAX / 2 {
            // It was overtaken.
            return None;
        }
        self.last = Some(id);
        if step == 1 {
            self.in_turn = self.in_turn.saturating_add(1);
        } else {
            self.skips = self.skips.saturating_add(1);
        }
        Some(step.saturating_sub(1))
    }

    /// Whether the connection has numbers of its own.
    pub(crate) fn is_own(&self) -> bool {
        self.in_turn >= IN_TURN.max(IN_TURN * self.skips)
    }
}

/// So many are in turn for each that is not.
const IN_TURN: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_what_is_missing() {
        let mut ids = Ids::default();
        let skipped: Vec<_> = [65_533, 65_534, 65_535, 0, 2, 1, 3]
            .into_iter()
            .map(|id| ids.next(Some(id)))
            .collect();
        let none = Some(0);
        assert_eq!(skipped, [none, none, none, None, Some(2), None, none]);
        assert!(ids.is_own());
        assert_eq!(ids.next(None), None);
        ids.next(Some(900));
        assert!(!ids.is_own());
    }
}

//! IP identifications, which show packets that were lost before the capture point.
//!
//! Linux numbers the packets of each connection consecutively. Other systems count all packets of the host
//! together, or use random numbers; these say nothing here.

/// The IP identifications of one direction.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct IpIds {
    last: Option<u16>,
    in_turn: u32,
    skips: u32,
}

impl IpIds {
    /// Takes the next packet; returns the number of skipped identifications before it.
    pub(crate) fn next(&mut self, id: Option<u16>) -> Option<u16> {
        // Packets without a connection, such as the answer to a SYN, have none.
        let id = id.filter(|id| *id != 0)?;
        let step = id.wrapping_sub(self.last.unwrap_or(id.wrapping_sub(1)));
        if step > u16::MAX / 2 {
            // This packet was reordered.
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

    /// Whether the connection counts its own packets.
    pub(crate) fn is_per_connection(&self) -> bool {
        self.in_turn >= CONSECUTIVE_MIN.max(CONSECUTIVE_MIN * self.skips)
    }
}

/// Consecutive identifications per other one that show a counter per connection.
const CONSECUTIVE_MIN: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skipped_ids_are_counted() {
        let mut ids = IpIds::default();
        let skipped: Vec<_> = [65_533, 65_534, 65_535, 0, 2, 1, 3]
            .into_iter()
            .map(|id| ids.next(Some(id)))
            .collect();
        let none = Some(0);
        assert_eq!(skipped, [none, none, none, None, Some(2), None, none]);
        assert!(ids.is_per_connection());
        assert_eq!(ids.next(None), None);
        ids.next(Some(900));
        assert!(!ids.is_per_connection());
    }
}

//! IP identifications, which show packets that were lost before the capture point.
//!
//! Linux numbers the packets of each connection consecutively. Other systems count all packets of the host together, or use
//! random numbers. A counter is the connection's own only if the sequence numbers prove it: what is missing among them is
//! missing among the identifications, the same number of packets; nothing is missing elsewhere; and no packets of others
//! are counted while the connection is silent.

/// The IP identifications of one direction.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct IpIds {
    last: Option<u16>,
    /// Packets that the last captured one was sent as: more than one before segmentation, or after reassembly
    last_segs: u16,
    in_turn: u32,
    proofs: u32,
    contradictions: u32,
}

impl IpIds {
    /// Takes the next packet, of `segs` segments; returns the number of skipped identifications before it.
    ///
    /// `missing_segs` is the number of segments that are missing before it by their sequence numbers; `is_after_silence`:
    /// the connection was silent before it.
    pub(crate) fn next(
        &mut self,
        id: Option<u16>,
        segs: u32,
        missing_segs: u32,
        is_after_silence: bool,
    ) -> Option<u16> {
        // Packets without a connection, such as the answer to a SYN, have none.
        let id = id.filter(|id| *id != 0)?;
        let segs = u16::try_from(segs).unwrap_or(u16::MAX).max(1);
        let Some(last) = self.last else {
            (self.last, self.last_segs) = (Some(id), segs);
            return Some(0);
        };
        let step = id.wrapping_sub(last);
        if step == 0 || step > u16::MAX / 2 {
            // This packet was reordered.
            return None;
        }
        // Number 0 means none: a counter that wraps leaves it out, or it was not seen.
        let passes_zero = u16::from(id < last);
        let skipped = match step.saturating_sub(self.last_segs) {
            skipped if skipped <= passes_zero => 0,
            skipped => skipped,
        };
        (self.last, self.last_segs) = (Some(id), segs);
        let (is_in_turn, is_silent) = (skipped == 0 && missing_segs == 0, is_after_silence);
        if is_in_turn && is_silent {
            self.proofs = self.proofs.saturating_add(1);
        } else if is_in_turn {
            self.in_turn = self.in_turn.saturating_add(1);
        } else if u32::from(skipped) == missing_segs {
            self.proofs = self.proofs.saturating_add(PROOFS_MIN);
        } else if missing_segs > 0 || !is_silent {
            self.contradictions = self.contradictions.saturating_add(1);
        } // else a packet of this connection was lost, or packets of others were counted: that is the question
        Some(skipped)
    }

    /// Begins anew with the next packet.
    pub(crate) fn restart(&mut self) {
        self.last = None;
    }

    /// Whether nothing is missing except after silences.
    pub(crate) fn is_in_turn(&self) -> bool {
        self.contradictions == 0 && self.in_turn >= IN_TURN_MIN
    }

    /// Whether the sequence numbers prove that the connection counts its own packets.
    pub(crate) fn is_per_connection(&self) -> bool {
        self.is_in_turn() && self.proofs >= PROOFS_MIN
    }
}

/// Silences without a skipped identification that prove a counter per connection.
const PROOFS_MIN: u32 = 3;

/// Consecutive identifications of a counter.
const IN_TURN_MIN: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    /// Identification, missing segments, and whether it follows a silence.
    fn ids(packets: &[(u16, u32, bool)]) -> (IpIds, Vec<Option<u16>>) {
        let mut ids = IpIds::default();
        let skipped = packets
            .iter()
            .map(|(id, missing, is_after_silence)| ids.next(Some(*id), 1, *missing, *is_after_silence))
            .collect();
        (ids, skipped)
    }

    #[test]
    fn gap_of_the_same_size_is_proof() {
        let packets = [65_533, 65_534, 65_535, 0, 1, 2, 5].map(|id| (id, u32::from(id == 5) * 2, false));
        let (ids, skipped) = ids(&packets);
        let none = Some(0);
        assert_eq!(skipped, [none, none, none, None, none, none, Some(2)]);
        assert!(ids.is_per_connection());
        let packets = [11, 12, 13, 14, 15, 18].map(|id| (id, u32::from(id == 18) * 2, false));
        assert!(self::ids(&packets).0.is_per_connection());
    }

    #[test]
    fn counter_shared_with_other_connections_is_no_proof() {
        // Other connections send only between the bursts.
        let mut packets = Vec::new();
        for burst in 0..10 {
            packets.extend((0..6).map(|number| (burst * 40 + number + 1, 0, number == 0)));
        }
        assert!(!ids(&packets).0.is_per_connection());
        let packets: Vec<_> = (1..50).map(|number| (number * 3, 0, false)).collect();
        assert!(!ids(&packets).0.is_per_connection());
    }

    #[test]
    fn silences_without_a_step_are_proof() {
        let packets: Vec<_> = (1..40).map(|number| (number, 0, number % 10 == 0)).collect();
        let (mut ids, _) = ids(&packets);
        assert!(ids.is_per_connection());
        // A retransmission after a silence: its first copy was lost before the capture.
        assert_eq!(ids.next(Some(41), 1, 0, true), Some(1));
        assert!(ids.is_per_connection());
    }

    #[test]
    fn segments_of_one_captured_packet_count_each() {
        let mut ids = IpIds::default();
        for number in 0..10_u16 {
            assert_eq!(ids.next(Some(100 + 10 * number), 10, 0, number % 3 == 1), Some(0));
        }
        assert!(ids.is_per_connection());
        assert_eq!(ids.next(None, 1, 0, false), None);
    }
}

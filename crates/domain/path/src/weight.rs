//! What the time in a hop weighs: shares of hops can be compared although each has seen other packets.

use crate::hop::HopKind;
use sockeye_wire::path::{Journey, Point};

/// What has gone in one direction.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Passed {
    /// Packets, and their bytes. Segments of a packet are not counted as well.
    packets: u64,
    bytes: u64,
    /// Bytes that TCP of this host has sent.
    sent_bytes: u64,
    /// Bytes that have come to a socket.
    received_bytes: u64,
}

impl Passed {
    pub(crate) fn add(&mut self, journey: &Journey, is_merged: bool) {
        let bytes = u64::from(journey.bytes);
        let is_before = |point: &Point| matches!(point, Point::ReadBefore | Point::Written | Point::Handed);
        let mut points = journey.stamps.iter().map(|stamp| stamp.point);
        if !journey.is_segment {
            self.packets += 1;
            self.bytes += bytes;
            if journey.payload.is_some() && points.find(|point| !is_before(point)) == Some(Point::Queued) {
                self.sent_bytes += bytes;
            }
        }
        let is_in_stack = |point| {
            matches!(
                point,
                Point::Received
                    | Point::Routed
                    | Point::Arrived
                    | Point::Disordered
                    | Point::Ordered
                    | Point::Delivered
            )
        };
        let mut last = journey.stamps.iter().rev().map(|stamp| stamp.point);
        let is_received = match last.next() {
            Some(Point::Read) => last.next().is_some_and(is_in_stack),
            Some(point) => {
                is_in_stack(point)
                    && (is_merged || journey.end == Some(Point::Consumed) && !journey.is_first_fragment)
            }
            None => false,
        };
        if is_received {
            self.received_bytes += bytes;
        }
    }

    /// Returns the time of all packets in a hop, for which the times of some are known: so many bytes, and the sum of each packet's
    /// nanoseconds times its bytes. A packet of many segments weighs as much as these.
    pub(crate) fn weight_ns(&self, kind: HopKind, bytes: u64, byte_ns: u128) -> u64 {
        let all = match kind {
            HopKind::Send | HopKind::Output => self.sent_bytes,
            HopKind::Socket => self.received_bytes,
            _ => bytes,
        };
        let of_all = (byte_ns * u128::from(all.max(bytes))).checked_div(bytes.into());
        let of_packets =
            of_all.and_then(|sum| (sum * u128::from(self.packets)).checked_div(self.bytes.into()));
        u64::try_from(of_packets.unwrap_or(0)).unwrap_or(u64::MAX)
    }
}

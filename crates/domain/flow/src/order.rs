//! Sort keys of `flows --sort`: their names, what each requires the fold to measure, and the comparison.

use sockeye_model::{Flow, Rates};
use std::cmp::Ordering;

/// Keys to sort flows by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // each is the column of that name
pub enum SortKey {
    Connections,
    Direction,
    Local,
    Peer,
    Port,
    Process,
    Uid,
    Netns,
    Sent,
    Received,
    Rtt,
    Retransmits,
    DeliveryRate,
    SentRate,
    ReceivedRate,
    Opened,
    Closed,
}

/// What a fold has to measure for a sort key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// Nothing.
    Nothing,
    /// Sums and medians of tcp_info.
    Totals,
    /// Changes between two samples.
    Rates,
}

impl SortKey {
    /// All keys with their names on the command line.
    pub const NAMES: [(&'static str, Self); 17] = [
        ("connections", Self::Connections),
        ("direction", Self::Direction),
        ("local", Self::Local),
        ("peer", Self::Peer),
        ("port", Self::Port),
        ("process", Self::Process),
        ("uid", Self::Uid),
        ("netns", Self::Netns),
        ("sent", Self::Sent),
        ("received", Self::Received),
        ("rtt", Self::Rtt),
        ("retrans", Self::Retransmits),
        ("delivery-rate", Self::DeliveryRate),
        ("sent-rate", Self::SentRate),
        ("received-rate", Self::ReceivedRate),
        ("opened", Self::Opened),
        ("closed", Self::Closed),
    ];

    /// Whether the largest come first by default: true for counts and measured values.
    #[must_use]
    pub const fn largest_first(self) -> bool {
        !matches!(
            self,
            Self::Direction | Self::Local | Self::Peer | Self::Port | Self::Process | Self::Uid | Self::Netns
        )
    }

    /// What a fold has to measure for this key.
    #[must_use]
    pub const fn measure(self) -> Measure {
        match self {
            Self::Sent | Self::Received | Self::Rtt | Self::Retransmits | Self::DeliveryRate => {
                Measure::Totals
            }
            Self::SentRate | Self::ReceivedRate | Self::Opened | Self::Closed => Measure::Rates,
            _ => Measure::Nothing,
        }
    }

    fn compare(self, a: &Flow, b: &Flow) -> Ordering {
        let total = |flow: &Flow| flow.totals.unwrap_or_default();
        // An unknown rate is the lowest.
        let by_rate = |a: &Flow, b: &Flow, of: fn(Rates) -> Option<f64>| {
            let rate = |flow: &Flow| flow.rates.and_then(of).unwrap_or(f64::NEG_INFINITY);
            rate(a).total_cmp(&rate(b))
        };
        match self {
            Self::Connections => a.connections.cmp(&b.connections),
            Self::Direction => a.key.direction.cmp(&b.key.direction),
            Self::Local => a.key.local.cmp(&b.key.local),
            Self::Peer => a.key.peer.cmp(&b.key.peer),
            Self::Port => a.key.port.cmp(&b.key.port),
            Self::Process => process(a).cmp(&process(b)),
            Self::Uid => a.key.uid.cmp(&b.key.uid),
            Self::Netns => a.key.netns.cmp(&b.key.netns),
            Self::Sent => total(a).bytes_acked.cmp(&total(b).bytes_acked),
            Self::Received => total(a).bytes_received.cmp(&total(b).bytes_received),
            Self::Rtt => total(a).rtt_us_median.cmp(&total(b).rtt_us_median),
            Self::Retransmits => total(a).retrans_segs.cmp(&total(b).retrans_segs),
            Self::DeliveryRate => total(a)
                .delivery_rate_bytes_per_s_sum
                .cmp(&total(b).delivery_rate_bytes_per_s_sum),
            Self::SentRate => by_rate(a, b, |rates| rates.sent_bytes_per_s),
            Self::ReceivedRate => by_rate(a, b, |rates| rates.received_bytes_per_s),
            Self::Opened => by_rate(a, b, |rates| rates.opened_per_s),
            Self::Closed => by_rate(a, b, |rates| rates.closed_per_s),
        }
    }
}

/// By name, then by number.
fn process(flow: &Flow) -> Option<(&[u8], u32)> {
    let process = flow.key.process.as_ref().or(flow.owners.first())?;
    Some((process.comm.as_bytes(), process.pid.0))
}

/// Sorts flows by `key`, and equal ones by their flow keys, so that the order is stable.
pub fn sort(flows: &mut [Flow], key: SortKey, descending: bool) {
    flows.sort_unstable_by(|a, b| {
        let by_key = key.compare(a, b);
        if descending { by_key.reverse() } else { by_key }.then_with(|| a.key.cmp(&b.key))
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_model::{Direction, FlowKey, Port};

    #[test]
    fn equal_flows_have_a_stable_order() {
        let flow = |port, connections| {
            let mut flow = Flow::new(FlowKey {
                netns: None,
                direction: Direction::Active,
                local: None,
                peer: None,
                peer_prefix: None,
                port: Some(Port(port)),
                process: None,
                uid: None,
            });
            flow.connections = connections;
            flow
        };
        let mut flows = vec![flow(3, 1), flow(1, 5), flow(2, 5)];
        let ports = |flows: &[Flow]| flows.iter().map(|f| f.key.port.unwrap().0).collect::<Vec<_>>();
        sort(&mut flows, SortKey::Connections, true);
        assert_eq!(ports(&flows), [1, 2, 3]);
        sort(&mut flows, SortKey::Connections, false);
        assert_eq!(ports(&flows), [3, 1, 2]);
        for (_, key) in SortKey::NAMES {
            sort(&mut flows, key, true);
        }
    }
}

//! Sums over the flows of one moment.

use crate::moments::Moment;
use crate::view::selection::PROTOCOL;
use sockeye_filter::Filter;
use sockeye_model::Flow;

/// The sums of one moment; `None`: no flow has the value.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Point {
    pub(crate) connections: u64,
    pub(crate) sent_bytes_per_s: Option<f64>,
    pub(crate) received_bytes_per_s: Option<f64>,
    pub(crate) retrans_segs_per_s: Option<f64>,
    /// Median of the flows' medians, each with the weight of its connections.
    pub(crate) rtt_us_median: Option<u32>,
}

/// Sums up the flows of a moment that match a filter.
pub(crate) fn point(moment: &Moment, filter: &Filter) -> Point {
    let mut reader = moment.flows.reader();
    let mut sums = Sums::default();
    for place in moment.flows.places() {
        let flow = reader.read(place);
        if filter.is_empty() || filter.matches_flow(flow, PROTOCOL) == Some(true) {
            sums.add(flow);
        }
    }
    sums.finish()
}

#[derive(Default)]
struct Sums {
    point: Point,
    /// Round trip times, each with the number of connections that have it.
    rtts: Vec<(u32, u32)>,
}

impl Sums {
    fn add(&mut self, flow: &Flow) {
        let point = &mut self.point;
        point.connections += u64::from(flow.connections);
        if let Some(rates) = &flow.rates {
            add(&mut point.sent_bytes_per_s, rates.sent_bytes_per_s);
            add(&mut point.received_bytes_per_s, rates.received_bytes_per_s);
            add(&mut point.retrans_segs_per_s, rates.retrans_segs_per_s);
        }
        if let Some(totals) = &flow.totals
            && let Some(rtt_us) = totals.rtt_us_median
        {
            self.rtts.push((rtt_us, totals.measured));
        }
    }

    fn finish(mut self) -> Point {
        self.rtts.sort_unstable();
        let all: u64 = self.rtts.iter().map(|(_, weight)| u64::from(*weight)).sum();
        let mut before = 0;
        let median = self.rtts.iter().find(|(_, weight)| {
            before += u64::from(*weight);
            before * 2 >= all
        });
        self.point.rtt_us_median = median.map(|(rtt_us, _)| *rtt_us);
        self.point
    }
}

fn add(sum: &mut Option<f64>, value: Option<f64>) {
    if let Some(value) = value {
        *sum = Some(sum.unwrap_or(0.0) + value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_model::{Direction, FlowKey, Rates, Totals};

    fn flow(connections: u32, rtt_us: Option<u32>, sent: Option<f64>) -> Flow {
        let mut flow = Flow::new(FlowKey {
            netns: None,
            direction: Direction::Active,
            local: None,
            peer: None,
            peer_prefix: None,
            port: None,
            process: None,
            uid: None,
            workload: None,
        });
        flow.connections = connections;
        flow.totals = Some(Totals {
            measured: connections,
            rtt_us_median: rtt_us,
            ..Totals::default()
        });
        flow.rates = Some(Rates {
            sent_bytes_per_s: sent,
            ..Rates::default()
        });
        flow
    }

    #[test]
    fn unknown_values_stay_unknown() {
        let mut sums = Sums::default();
        sums.add(&flow(2, None, None));
        let expected = Point {
            connections: 2,
            ..Point::default()
        };
        assert_eq!(sums.finish(), expected);
    }

    #[test]
    fn median_has_the_weight_of_connections() {
        let mut sums = Sums::default();
        for one in [
            flow(1, Some(10), Some(1.0)),
            flow(5, Some(900), None),
            flow(2, Some(20), Some(2.5)),
        ] {
            sums.add(&one);
        }
        let point = sums.finish();
        assert_eq!(
            (point.connections, point.rtt_us_median, point.sent_bytes_per_s),
            (8, Some(900), Some(3.5))
        );
    }
}

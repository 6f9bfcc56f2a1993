//! Metrics as a request of OTLP, with the names of OpenTelemetry's semantic conventions where these have one.

use super::messages::{
    CUMULATIVE, Data, Distribution, DistributionPoint, ExportRequest, Gauge, KeyValue, Metric, Number,
    NumberPoint, Resource, ResourceMetrics, Scope, ScopeMetrics, Sum,
};
use prost::Message;
use sockeye_metrics::{FAMILIES, Family, Histogram, HostMetrics, Kind, Labels, Unit, Value};

/// When metrics were counted, in nanoseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Period {
    /// When the totals were 0.
    pub(crate) begun_ns: u64,
    /// When the last sample was taken.
    pub(crate) time_ns: u64,
}

/// Returns the bytes of a request with all metrics. `resource`: attributes of the host.
pub(crate) fn request(metrics: &HostMetrics, resource: &[(String, String)], period: Period) -> Vec<u8> {
    let attributes = resource.iter().map(|(key, text)| KeyValue::new(key, text));
    let converted = FAMILIES
        .iter()
        .filter_map(|family| metric(family, metrics, period));
    let scope_metrics = ScopeMetrics {
        scope: Some(Scope {
            name: "sockeye".to_owned(),
            version: metrics.exporter.version.to_owned(),
        }),
        metrics: converted.collect(),
    };
    let request = ExportRequest {
        resource_metrics: vec![ResourceMetrics {
            resource: Some(Resource {
                attributes: attributes.collect(),
            }),
            scope_metrics: vec![scope_metrics],
        }],
    };
    request.encode_to_vec()
}

/// Returns a metric; `None` if it has no values.
fn metric(family: &Family, metrics: &HostMetrics, period: Period) -> Option<Metric> {
    let (mut numbers, mut distributions) = (Vec::new(), Vec::new());
    family.values(metrics, &mut |labels, value| {
        let attributes = attributes(labels);
        match value {
            Value::Count(count) => {
                let count = i64::try_from(count).unwrap_or(i64::MAX);
                numbers.push(number_point(attributes, Number::Integer(count), period));
            }
            Value::Amount(amount) => numbers.push(number_point(attributes, Number::Double(amount), period)),
            Value::Histogram(times) => distributions.push(distribution_point(attributes, times, period)),
        }
    });
    if numbers.is_empty() && distributions.is_empty() {
        return None;
    }
    let is_connections = family.name == CONNECTIONS;
    Some(Metric {
        name: name(family),
        description: family.help.to_owned(),
        unit: unit(family).to_owned(),
        data: Some(match family.kind {
            Kind::Counter => sum(numbers, true),
            // Connections of several services and hosts can be added up.
            Kind::Gauge if is_connections => sum(numbers, false),
            Kind::Gauge => Data::Gauge(Gauge { points: numbers }),
            Kind::Histogram => Data::Histogram(Distribution {
                points: distributions,
                temporality: CUMULATIVE,
            }),
        }),
    })
}

const fn sum(points: Vec<NumberPoint>, is_monotonic: bool) -> Data {
    Data::Sum(Sum {
        points,
        temporality: CUMULATIVE,
        is_monotonic,
    })
}

const fn number_point(attributes: Vec<KeyValue>, value: Number, period: Period) -> NumberPoint {
    NumberPoint {
        attributes,
        begun_ns: period.begun_ns,
        time_ns: period.time_ns,
        value: Some(value),
    }
}

fn distribution_point(attributes: Vec<KeyValue>, times: &Histogram, period: Period) -> DistributionPoint {
    DistributionPoint {
        attributes,
        begun_ns: period.begun_ns,
        time_ns: period.time_ns,
        count: times.count(),
        sum: Some(times.sum_seconds()),
        bucket_counts: times.buckets().map(|(_, count)| count).collect(),
        bounds: times.buckets().filter_map(|(bound, _)| bound).collect(),
    }
}

/// Returns the name: that of the conventions, or one of ours with dots and without unit.
fn name(family: &Family) -> String {
    if family.name == CONNECTIONS {
        return "system.network.connection.count".to_owned();
    }
    let ours = family.base_name();
    for part in [
        "sockeye_tcp_",
        "sockeye_exporter_",
        "sockeye_recorder_",
        "sockeye_",
    ] {
        if let Some(rest) = ours.strip_prefix(part) {
            return format!("{}{rest}", part.replace('_', "."));
        }
    }
    ours.to_owned()
}

/// Returns the unit, in the notation of UCUM.
fn unit(family: &Family) -> &'static str {
    match family.unit {
        Some(Unit::Bytes) => "By",
        Some(Unit::Seconds) => "s",
        Some(Unit::Ratio) => "1",
        None if family.name.contains("connections") => "{connection}",
        None if family.name.contains("segments") => "{segment}",
        None if family.name.contains("packets") => "{packet}",
        None => "1",
    }
}

fn attributes(labels: Labels<'_>) -> Vec<KeyValue> {
    let mut attributes = Vec::new();
    for (name, text) in labels {
        let name = match *name {
            "state" => {
                attributes.push(KeyValue::new("network.transport", "tcp"));
                "network.connection.state"
            }
            name => name,
        };
        // What is not known has no value.
        if !text.is_empty() {
            attributes.push(KeyValue::new(name, text));
        }
    }
    attributes
}

/// The one metric that the conventions have.
const CONNECTIONS: &str = "sockeye_tcp_connections";

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_metrics::{Counted, Service, ServiceSample};
    use sockeye_model::{Direction, State};

    fn metrics() -> HostMetrics {
        let mut metrics = HostMetrics::new(10, "1.2.3");
        let service = Service {
            direction: Direction::Passive,
            name: "nginx".into(),
        };
        let mut sample = ServiceSample {
            counted: Counted {
                sent_bytes: Some(7),
                ..Counted::default()
            },
            ..ServiceSample::default()
        };
        sample.states[usize::from(State::TimeWait.number())] = 3;
        sample.rtt.observe(200);
        metrics.add([(service, sample)].into(), None);
        metrics
    }

    fn found(name: &str) -> Metric {
        let period = Period {
            begun_ns: 1,
            time_ns: 2,
        };
        let bytes = request(&metrics(), &[("host.name".to_owned(), "db1".to_owned())], period);
        let request = ExportRequest::decode(&bytes[..]).unwrap();
        let of_host = &request.resource_metrics[0];
        let host = KeyValue::new("host.name", "db1");
        assert_eq!(of_host.resource.as_ref().unwrap().attributes, [host]);
        let metrics = &of_host.scope_metrics[0].metrics;
        metrics.iter().find(|metric| metric.name == name).unwrap().clone()
    }

    #[test]
    fn connections_have_the_name_of_the_conventions() {
        let metric = found("system.network.connection.count");
        assert_eq!(metric.unit, "{connection}");
        let Some(Data::Sum(sum)) = metric.data else {
            panic!("{metric:?}");
        };
        assert!(!sum.is_monotonic && sum.temporality == CUMULATIVE);
        let state = KeyValue::new("network.connection.state", "time_wait");
        let point = sum
            .points
            .iter()
            .find(|point| point.attributes.contains(&state))
            .unwrap();
        assert_eq!(point.value, Some(Number::Integer(3)));
        assert!(
            point
                .attributes
                .contains(&KeyValue::new("network.transport", "tcp"))
        );
    }

    #[test]
    fn counters_are_monotonic_sums_since_the_begin() {
        let metric = found("sockeye.tcp.sent");
        let Some(Data::Sum(sum)) = metric.data else {
            panic!("{metric:?}");
        };
        assert!(sum.is_monotonic && metric.unit == "By");
        let point = &sum.points[0];
        assert_eq!((point.begun_ns, point.time_ns), (1, 2));
        assert_eq!(point.value, Some(Number::Integer(7)));
    }

    #[test]
    fn histogram_has_a_count_more_than_bounds() {
        let metric = found("sockeye.tcp.rtt");
        let Some(Data::Histogram(times)) = metric.data else {
            panic!("{metric:?}");
        };
        let point = &times.points[0];
        assert_eq!(point.bucket_counts.len(), point.bounds.len() + 1);
        assert_eq!((point.count, point.bucket_counts[1]), (1, 1));
    }

    #[test]
    fn value_that_is_not_known_is_no_attribute() {
        let labels = [("side", "received"), ("reason", "")];
        assert_eq!(attributes(&labels), [KeyValue::new("side", "received")]);
    }
}

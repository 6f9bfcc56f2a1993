//! The text formats of Prometheus: OpenMetrics 1.0, and 0.0.4, which `node_exporter` reads from files.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, prometheus_text, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry;
use sockeye_metrics::{FAMILIES, Family, Histogram, HostMetrics, Kind, Labels, Value};
use std::fmt;

/// Metrics as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// OpenMetrics 1.0
    OpenMetrics,
    /// The text format 0.0.4 of Prometheus
    Text,
}

/// Metrics in both forms.
#[derive(Debug)]
pub(crate) struct Exposition {
    pub(crate) open_metrics: String,
    pub(crate) text: String,
}

impl Form {
    /// Returns the media type.
    pub(crate) const fn media_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Text => prometheus_text::CONTENT_TYPE,
        }
    }

    /// Returns the form that a client prefers, by its header `Accept`.
    pub(crate) fn preferred(accept: &str) -> Self {
        let is_named = accept.split(',').any(|range| {
            range.split(';').next().unwrap_or_default().trim() == "application/openmetrics-text"
        });
        if is_named { Self::OpenMetrics } else { Self::Text }
    }
}

impl Exposition {
    /// Writes metrics.
    pub(crate) fn of(metrics: &HostMetrics) -> Result<Self, fmt::Error> {
        let mut registry = registry::Registry::default();
        registry.register_collector(Box::new(Metrics(metrics.clone())));
        let (mut open_metrics, mut text) = (String::new(), String::new());
        text::encode(&mut open_metrics, &registry)?;
        prometheus_text::encode(&mut text, &registry)?;
        Ok(Self { open_metrics, text })
    }
}

#[derive(Debug)]
struct Metrics(HostMetrics);

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for family in FAMILIES {
            encode_family(family, &self.0, &mut encoder)?;
        }
        Ok(())
    }
}

/// Writes a metric; nothing if it has no values.
fn encode_family(
    family: &Family,
    metrics: &HostMetrics,
    encoder: &mut DescriptorEncoder<'_>,
) -> Result<(), fmt::Error> {
    let mut has_values = false;
    family.values(metrics, &mut |_, _| has_values = true);
    if !has_values {
        return Ok(());
    }
    let unit = family
        .unit
        .map(|unit| registry::Unit::Other(unit.name().to_owned()));
    let kind = match family.kind {
        Kind::Counter => MetricType::Counter,
        Kind::Gauge => MetricType::Gauge,
        Kind::Histogram => MetricType::Histogram,
    };
    let mut encoder = encoder.encode_descriptor(family.base_name(), family.help, unit.as_ref(), kind)?;
    let mut written = Ok(());
    family.values(metrics, &mut |labels, value| {
        if written.is_ok() {
            written = encode_labelled(&mut encoder, labels, family.kind, value);
        }
    });
    written
}

fn encode_labelled(
    encoder: &mut MetricEncoder<'_>,
    labels: Labels<'_>,
    kind: Kind,
    value: Value<'_>,
) -> Result<(), fmt::Error> {
    if labels.is_empty() {
        return encode_value(encoder, kind, value);
    }
    encode_value(&mut encoder.encode_family(&labels)?, kind, value)
}

fn encode_value(encoder: &mut MetricEncoder<'_>, kind: Kind, value: Value<'_>) -> Result<(), fmt::Error> {
    const NO_EXEMPLAR: Option<&prometheus_client::metrics::exemplar::Exemplar<NoLabelSet, f64>> = None;
    match (kind, value) {
        (Kind::Counter, Value::Count(count)) => encoder.encode_counter(&count, NO_EXEMPLAR),
        (Kind::Counter, Value::Amount(amount)) => encoder.encode_counter(&amount, NO_EXEMPLAR),
        (_, Value::Count(count)) => encoder.encode_gauge(&count),
        (_, Value::Amount(amount)) => encoder.encode_gauge(&amount),
        (_, Value::Histogram(times)) => encode_histogram(encoder, times),
    }
}

fn encode_histogram(encoder: &mut MetricEncoder<'_>, times: &Histogram) -> Result<(), fmt::Error> {
    // The encoder adds up the counts.
    let buckets: Vec<_> = times
        .buckets()
        .map(|(bound, count)| (bound.unwrap_or(f64::INFINITY), count))
        .collect();
    encoder.encode_histogram::<NoLabelSet>(times.sum_seconds(), times.count(), &buckets, None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_metrics::{Counted, Service, ServiceSample};
    use sockeye_model::{Direction, State};

    fn exposition() -> Exposition {
        let mut metrics = HostMetrics::new(10, "1.2.3");
        let service = Service {
            direction: Direction::Passive,
            name: "a\"b\\c\nd".into(),
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
        sample.rtt.observe(9_000_000);
        metrics.add([(service, sample)].into(), None);
        Exposition::of(&metrics).unwrap()
    }

    #[track_caller]
    fn check(text: &str, lines: &[&str]) {
        for line in lines {
            assert!(text.lines().any(|one| one == *line), "{line}\nis not in\n{text}");
        }
    }

    #[test]
    fn open_metrics_has_units_and_an_end() {
        let service = r#"direction="passive",service="a\"b\\c\nd""#;
        check(
            &exposition().open_metrics,
            &[
                "# TYPE sockeye_tcp_sent_bytes counter",
                "# UNIT sockeye_tcp_sent_bytes bytes",
                &format!("sockeye_tcp_sent_bytes_total{{{service}}} 7"),
                &format!("sockeye_tcp_connections{{{service},state=\"time_wait\"}} 3"),
                &format!("sockeye_tcp_rtt_seconds_bucket{{le=\"0.00025\",{service}}} 1"),
                &format!("sockeye_tcp_rtt_seconds_bucket{{le=\"+Inf\",{service}}} 2"),
                "# EOF",
            ],
        );
    }

    #[test]
    fn text_format_names_the_samples_of_counters() {
        let text = exposition().text;
        check(
            &text,
            &[
                "# TYPE sockeye_tcp_sent_bytes_total counter",
                "sockeye_exporter_samples_total 0",
                "sockeye_exporter_build_info{version=\"1.2.3\"} 1",
            ],
        );
        assert!(!text.contains("# UNIT") && !text.contains("# EOF"), "{text}");
    }

    #[test]
    fn unknown_values_are_absent() {
        assert!(!exposition().text.contains("sockeye_tcp_opened_connections"));
    }

    #[test]
    fn client_gets_open_metrics_if_it_names_it() {
        let prometheus =
            "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2,*/*;q=0.1";
        for (accept, expected) in [
            (prometheus, Form::OpenMetrics),
            ("text/plain", Form::Text),
            ("*/*", Form::Text),
            ("", Form::Text),
        ] {
            assert_eq!(Form::preferred(accept), expected, "{accept}");
        }
    }
}

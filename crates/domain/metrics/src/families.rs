//! Every metric, in the order of output.

use crate::family::{Visit, VisitValue};
use crate::service_metrics::ListenerQueues;
use crate::{Counted, Family, HostMetrics, Kind, Service, ServiceMetrics, Unit, Value};

/// All metrics.
pub const FAMILIES: &[Family] = &[
    Family {
        name: "sockeye_tcp_connections",
        help: "TCP connections, by state and service",
        kind: Kind::Gauge,
        unit: None,
        labels: &["direction", "service", "state"],
        visit: |metrics, visit| {
            for (service, of_service) in metrics.services.iter() {
                for (state, count) in of_service.last.by_state() {
                    let labels = [
                        ("direction", service.direction_name()),
                        ("service", &*service.name),
                        ("state", state.snake_name()),
                    ];
                    visit(&labels, Value::Count(count));
                }
            }
        },
    },
    counter(
        "sockeye_tcp_opened_connections",
        "TCP connections that were opened",
        None,
        |metrics, visit| counted(metrics, visit, |counted| counted.opened),
    ),
    counter(
        "sockeye_tcp_closed_connections",
        "TCP connections that ended",
        None,
        |metrics, visit| counted(metrics, visit, |counted| counted.closed),
    ),
    counter(
        "sockeye_tcp_sent_bytes",
        "Data that peers acknowledged",
        Some(Unit::Bytes),
        |metrics, visit| counted(metrics, visit, |counted| counted.sent_bytes),
    ),
    counter(
        "sockeye_tcp_received_bytes",
        "Data that was received",
        Some(Unit::Bytes),
        |metrics, visit| counted(metrics, visit, |counted| counted.received_bytes),
    ),
    counter(
        "sockeye_tcp_retransmitted_segments",
        "TCP segments that were sent again",
        None,
        |metrics, visit| counted(metrics, visit, |counted| counted.retrans_segs),
    ),
    Family {
        name: "sockeye_tcp_rtt_seconds",
        help: "Smoothed round trip times of established connections, once a sample for each from which an acknowledgement came",
        kind: Kind::Histogram,
        unit: Some(Unit::Seconds),
        labels: SERVICE,
        visit: |metrics, visit| {
            each_service(metrics, visit, |service| {
                // Without tcp_info there are none.
                let is_known = service.counted.sent_bytes.is_some() || service.rtt.count() > 0;
                is_known.then_some(Value::Histogram(&service.rtt))
            });
        },
    },
    queue(
        "sockeye_tcp_listeners",
        "Sockets that listen",
        None,
        |metrics, visit| queues(metrics, visit, |queues| Some(Value::Count(queues.listeners))),
    ),
    queue(
        "sockeye_tcp_accept_queue_connections",
        "Established connections that wait for accept(2)",
        None,
        |metrics, visit| queues(metrics, visit, |queues| queues.waiting.map(Value::Count)),
    ),
    queue(
        "sockeye_tcp_accept_queue_limit_connections",
        "The most connections that may wait for accept(2)",
        None,
        |metrics, visit| queues(metrics, visit, |queues| queues.backlog.map(Value::Count)),
    ),
    queue(
        "sockeye_tcp_accept_queue_fullest_ratio",
        "How full the fullest accept queue of a service is",
        Some(Unit::Ratio),
        |metrics, visit| queues(metrics, visit, |queues| queues.fullest.map(Value::Amount)),
    ),
    queue(
        "sockeye_tcp_syn_queue_connections",
        "Connection requests that are not established yet",
        None,
        |metrics, visit| queues(metrics, visit, |queues| Some(Value::Count(queues.requests))),
    ),
    Family {
        name: "sockeye_tcp_opens",
        help: "Connections as the kernel counts them: begun from here (active), and come in (passive)",
        kind: Kind::Counter,
        unit: None,
        labels: &["direction"],
        visit: |metrics, visit| {
            if let Some(totals) = &metrics.connections {
                visit(&[("direction", "active")], Value::Count(totals.active_opens));
                visit(&[("direction", "passive")], Value::Count(totals.passive_opens));
            }
        },
    },
    Family {
        name: "sockeye_tcp_failed_attempts",
        help: "Connections that were not established, as the kernel counts them",
        kind: Kind::Counter,
        unit: None,
        labels: &[],
        visit: |metrics, visit| {
            if let Some(totals) = &metrics.connections {
                visit(&[], Value::Count(totals.attempt_fails));
            }
        },
    },
    Family {
        name: "sockeye_tcp_reset_connections",
        help: "Established connections that were reset, as the kernel counts them",
        kind: Kind::Counter,
        unit: None,
        labels: &[],
        visit: |metrics, visit| {
            if let Some(totals) = &metrics.connections {
                visit(&[], Value::Count(totals.resets));
            }
        },
    },
    Family {
        name: "sockeye_tcp_resets",
        help: "RSTs of connections that were sent or received, by reason: the kernel knows one of those that it sends",
        kind: Kind::Counter,
        unit: None,
        labels: &["side", "reason"],
        visit: |metrics, visit| {
            for ((side, reason), count) in &metrics.resets {
                visit(&[("side", side), ("reason", reason)], Value::Count(*count));
            }
        },
    },
    Family {
        name: "sockeye_dropped_packets",
        help: "Packets that the kernel dropped, by its reason and by what that means: loss, policy or normal",
        kind: Kind::Counter,
        unit: None,
        labels: &["reason", "class"],
        visit: |metrics, visit| {
            for ((reason, class), count) in &metrics.drops {
                visit(&[("reason", reason), ("class", class)], Value::Count(*count));
            }
        },
    },
    Family {
        name: "sockeye_findings",
        help: "Findings of `sockeye check` at its last run",
        kind: Kind::Gauge,
        unit: None,
        labels: &["rule", "severity"],
        visit: |metrics, visit| {
            for (kind, count) in metrics.findings.iter().flatten() {
                let labels = [("rule", kind.rule), ("severity", kind.severity)];
                visit(&labels, Value::Count(*count));
            }
        },
    },
    Family {
        name: "sockeye_exporter_build_info",
        help: "The version of the exporter; always 1",
        kind: Kind::Gauge,
        unit: None,
        labels: &["version"],
        visit: |metrics, visit| visit(&[("version", metrics.exporter.version)], Value::Count(1)),
    },
    Family {
        name: "sockeye_exporter_samples",
        help: "Samples that were taken",
        kind: Kind::Counter,
        unit: None,
        labels: &[],
        visit: |metrics, visit| visit(&[], Value::Count(metrics.exporter.samples)),
    },
    Family {
        name: "sockeye_exporter_failed_samples",
        help: "Samples that failed",
        kind: Kind::Counter,
        unit: None,
        labels: &[],
        visit: |metrics, visit| visit(&[], Value::Count(metrics.exporter.failed_samples)),
    },
    Family {
        name: "sockeye_exporter_sample_duration_seconds",
        help: "How long the last sample took",
        kind: Kind::Gauge,
        unit: Some(Unit::Seconds),
        labels: &[],
        visit: |metrics, visit| {
            if let Some(duration) = metrics.exporter.duration {
                visit(&[], Value::Amount(duration.as_secs_f64()));
            }
        },
    },
    Family {
        name: "sockeye_exporter_last_sample_timestamp_seconds",
        help: "When the last sample was taken, since 1970",
        kind: Kind::Gauge,
        unit: Some(Unit::Seconds),
        labels: &[],
        visit: |metrics, visit| {
            if let Some(time) = metrics.exporter.sampled_at_s {
                visit(&[], Value::Amount(time));
            }
        },
    },
    Family {
        name: "sockeye_exporter_losses",
        help: "What samples could not read, or events that were lost, by kind: other metrics lack it",
        kind: Kind::Counter,
        unit: None,
        labels: &["kind"],
        visit: |metrics, visit| {
            for (kind, count) in &metrics.exporter.losses {
                visit(&[("kind", kind)], Value::Count(*count));
            }
        },
    },
    Family {
        name: "sockeye_exporter_source_available",
        help: "Whether what metrics are made of can be read: 0 if the kernel or the rights do not suffice",
        kind: Kind::Gauge,
        unit: None,
        labels: &["source"],
        visit: |metrics, visit| {
            for (source, is_available) in &metrics.exporter.sources {
                visit(
                    &[("source", source.name())],
                    Value::Count(u64::from(*is_available)),
                );
            }
        },
    },
    Family {
        name: "sockeye_exporter_folded_services",
        help: "Services of the last sample that are counted as service \"other\", since there are too many",
        kind: Kind::Gauge,
        unit: None,
        labels: &[],
        visit: |metrics, visit| visit(&[], Value::Count(metrics.services.folded() as u64)),
    },
    Family {
        name: "sockeye_recorder_last_sample_timestamp_seconds",
        help: "When `sockeye record` took its last sample, since 1970",
        kind: Kind::Gauge,
        unit: Some(Unit::Seconds),
        labels: &[],
        visit: |metrics, visit| {
            if let Some(recorder) = &metrics.exporter.recorder
                && let Some(ms) = recorder.last_sample_ms
            {
                visit(&[], Value::Amount(ms as f64 / 1e3));
            }
        },
    },
    Family {
        name: "sockeye_recorder_gaps_seconds",
        help: "Time of the last 24 hours of which `sockeye record` has no samples",
        kind: Kind::Gauge,
        unit: Some(Unit::Seconds),
        labels: &[],
        visit: |metrics, visit| {
            if let Some(recorder) = &metrics.exporter.recorder {
                visit(&[], Value::Amount(recorder.gaps_ms as f64 / 1e3));
            }
        },
    },
    Family {
        name: "sockeye_recorder_store_bytes",
        help: "Size of the store of `sockeye record`",
        kind: Kind::Gauge,
        unit: Some(Unit::Bytes),
        labels: &[],
        visit: |metrics, visit| {
            if let Some(recorder) = &metrics.exporter.recorder {
                visit(&[], Value::Count(recorder.bytes));
            }
        },
    },
];

const SERVICE: &[&str] = &["direction", "service"];

const fn counter(name: &'static str, help: &'static str, unit: Option<Unit>, visit: Visit) -> Family {
    Family {
        name,
        help,
        kind: Kind::Counter,
        unit,
        labels: SERVICE,
        visit,
    }
}

const fn queue(name: &'static str, help: &'static str, unit: Option<Unit>, visit: Visit) -> Family {
    Family {
        name,
        help,
        kind: Kind::Gauge,
        unit,
        labels: &["service"],
        visit,
    }
}

fn each_service<'a>(
    metrics: &'a HostMetrics,
    visit: &mut VisitValue<'_>,
    value: impl Fn(&'a ServiceMetrics) -> Option<Value<'a>>,
) {
    for (service, of_service) in metrics.services.iter() {
        if let Some(value) = value(of_service) {
            visit(&labels(service), value);
        }
    }
}

fn counted(metrics: &HostMetrics, visit: &mut VisitValue<'_>, count: fn(&Counted) -> Option<u64>) {
    each_service(metrics, visit, |service| {
        count(&service.counted).map(Value::Count)
    });
}

fn queues(
    metrics: &HostMetrics,
    visit: &mut VisitValue<'_>,
    value: fn(&ListenerQueues) -> Option<Value<'static>>,
) {
    for (service, of_service) in metrics.services.iter() {
        if let Some(value) = of_service.last.listeners.as_ref().and_then(value) {
            visit(&[("service", &service.name)], value);
        }
    }
}

fn labels(service: &Service) -> [(&'static str, &str); 2] {
    [
        ("direction", service.direction_name()),
        ("service", &service.name),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FindingCount, RecorderHealth, ServiceSample, Source};
    use sockeye_model::{ConnectionTotals, Direction, Losses};

    /// A host of which everything is known.
    fn metrics() -> HostMetrics {
        let mut metrics = HostMetrics::new(1, "0.1.0");
        let service = Service {
            direction: Direction::Passive,
            name: "nginx".into(),
        };
        let mut sample = ServiceSample {
            listeners: Some(ListenerQueues {
                waiting: Some(1),
                backlog: Some(128),
                fullest: Some(0.0),
                ..ListenerQueues::default()
            }),
            counted: Counted::ZERO,
            ..ServiceSample::default()
        };
        sample.rtt.observe(1_000);
        metrics.add([(service, sample)].into(), Some(&ConnectionTotals::default()));
        metrics.resets.insert(("sent", "TCP_STATE".into()), 1);
        metrics.drops.insert(("NO_SOCKET".into(), "normal"), 1);
        let finding = FindingCount {
            rule: "accept-queue",
            severity: "warning",
        };
        metrics.set_findings([finding].into_iter());
        let exporter = &mut metrics.exporter;
        (exporter.duration, exporter.sampled_at_s) = (Some(std::time::Duration::ZERO), Some(0.0));
        exporter.add_losses(&Losses::default(), 0, 0);
        exporter.sources.insert(Source::Owners, true);
        exporter.recorder = Some(RecorderHealth {
            last_sample_ms: Some(1),
            gaps_ms: 0,
            bytes: 1,
        });
        metrics
    }

    #[test]
    fn every_value_has_the_labels_and_the_kind_of_its_family() {
        let metrics = metrics();
        for family in FAMILIES {
            let mut values = 0;
            family.values(&metrics, &mut |labels, value| {
                values += 1;
                let names: Vec<_> = labels.iter().map(|(name, _)| *name).collect();
                assert_eq!(names, family.labels, "{family:?}");
                let is_histogram = matches!(value, Value::Histogram(_));
                assert_eq!(is_histogram, family.kind == Kind::Histogram, "{family:?}");
            });
            assert!(values > 0, "{family:?}");
        }
    }

    #[test]
    fn unknown_values_are_absent() {
        let metrics = HostMetrics::new(1, "0.1.0");
        let absent = FAMILIES.iter().filter(|family| {
            let mut is_absent = true;
            family.values(&metrics, &mut |_, _| is_absent = false);
            is_absent
        });
        assert_eq!(absent.count(), FAMILIES.len() - 4);
    }

    #[test]
    fn names_are_unique_and_end_in_their_unit() {
        for (place, family) in FAMILIES.iter().enumerate() {
            let is_again = FAMILIES[..place].iter().any(|other| other.name == family.name);
            assert!(!is_again && !family.name.ends_with("_total"), "{family:?}");
            if let Some(unit) = family.unit {
                assert_eq!(
                    family.base_name(),
                    family.name.strip_suffix(&format!("_{}", unit.name())).unwrap()
                );
            }
        }
    }
}

//! Hands each sample to the sender.

use super::args::{LogKind, OtlpArgs};
use super::environment;
use super::queue::Signal;
use super::sender::{Collector, Sender};
use crate::output::otlp::{LogRecord, Period, ended_record, finding_record, logs_request, request};
use crate::sampling::{EventSelection, HostEvents, repeat};
use sockeye_console::envelope;
use sockeye_console::notes::say;

/// Exports until it is ended.
pub(crate) fn run(args: &OtlpArgs) -> anyhow::Result<()> {
    let resource = environment::attributes()?;
    let protocol = environment::protocol(args)?;
    let endpoint = environment::endpoint(args, protocol)?;
    let collector = Collector {
        protocol,
        metrics: endpoint.join("v1/metrics"),
        logs: endpoint.join("v1/logs"),
        endpoint: endpoint.clone(),
        tls: environment::tls(&args.tls, &endpoint).client(&endpoint)?,
        headers: environment::headers(args.headers_file.as_deref())?,
    };
    say(&format!(
        "sockeye: metrics go to {}\n",
        collector.target(Signal::Metrics)
    ));
    let sender = Sender::start(collector)?;
    let begun_ns = now_ns();
    let selection = EventSelection {
        findings: args.logs.contains(&LogKind::Findings),
        ended: args.logs.contains(&LogKind::Closes),
    };
    repeat(&args.samples, false, selection, &mut |metrics, events| {
        let period = Period {
            begun_ns,
            time_ns: now_ns(),
        };
        let mut metrics = metrics.clone();
        let lost = metrics.exporter.losses.entry("log_records").or_default();
        *lost += sender.lost_records();
        sender.send_metrics(request(&metrics, &resource, period));
        for records in chunks(&events, period.time_ns) {
            let count = records.len() as u64;
            sender.send_logs(logs_request(records, &resource, metrics.exporter.version), count);
        }
        Ok(())
    })
}

/// Returns the log records of what happened, for one request each.
fn chunks(events: &HostEvents, now_ns: u64) -> Vec<Vec<LogRecord>> {
    let findings = events.findings.iter().map(|event| finding_record(event, now_ns));
    let ended = events.ended.iter().map(|ended| ended_record(ended, now_ns));
    let all: Vec<_> = findings.chain(ended).collect();
    all.chunks(RECORDS_MAX).map(<[_]>::to_vec).collect()
}

fn now_ns() -> u64 {
    envelope::now().time_us.saturating_mul(1000)
}

/// Log records of a request: some 0.5 MB.
const RECORDS_MAX: usize = 1_000;

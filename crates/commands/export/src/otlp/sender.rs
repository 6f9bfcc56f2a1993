//! Sends requests on a thread of its own: a collector that is slow or away delays no sample.

use super::args::Protocol;
use super::grpc;
use super::outcome::{Outcome, TEXT_MAX, taken};
use super::queue::{Queue, Request, Signal};
use anyhow::Context;
use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{HeaderMap, RETRY_AFTER};
use prost::Message;
use sockeye_console::notes::say;
use sockeye_http::{PostLimits, Reply, Target, TlsClient, call, post};
use sockeye_output::text::harmless_start;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime};
use tokio::runtime::{Builder, Runtime};

/// Takes requests for the thread that sends them.
pub(super) struct Sender(Arc<Queue>);

/// A collector.
pub(super) struct Collector {
    pub(super) protocol: Protocol,
    /// What its URL names: by gRPC all is sent there.
    pub(super) endpoint: Target,
    pub(super) metrics: Target,
    pub(super) logs: Target,
    pub(super) tls: Option<TlsClient>,
    pub(super) headers: HeaderMap,
}

impl Sender {
    /// Starts the thread, which ends with the process.
    pub(super) fn start(collector: Collector) -> anyhow::Result<Self> {
        let queue = Arc::new(Queue::default());
        let runtime = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .context("start the sender")?;
        let requests = Arc::clone(&queue);
        let work = move || send_all(&runtime, &collector, &requests);
        let started = thread::Builder::new().name("sender".to_owned()).spawn(work);
        started.context("start the thread of the sender")?;
        Ok(Self(queue))
    }

    /// Hands over metrics. Those that still wait are left out: these have the same totals, and more.
    pub(super) fn send_metrics(&self, body: Vec<u8>) {
        self.0.add(Request {
            signal: Signal::Metrics,
            body,
            records: 0,
        });
    }

    /// Hands over log records.
    pub(super) fn send_logs(&self, body: Vec<u8>, records: u64) {
        self.0.add(Request {
            signal: Signal::Logs,
            body,
            records,
        });
    }

    /// Returns how many log records were lost: they found no place, or the collector refused them.
    pub(super) fn lost_records(&self) -> u64 {
        self.0.lost_records()
    }
}

impl Collector {
    /// Returns where requests go.
    pub(super) const fn target(&self, signal: Signal) -> &Target {
        match (self.protocol, signal) {
            (Protocol::Grpc, _) => &self.endpoint,
            (Protocol::Http, Signal::Metrics) => &self.metrics,
            (Protocol::Http, Signal::Logs) => &self.logs,
        }
    }

    async fn send(&self, request: &Request) -> Outcome {
        let (target, tls) = (self.target(request.signal), self.tls.as_ref());
        let (headers, body) = (self.headers.clone(), Bytes::from(request.body.clone()));
        let sent = match self.protocol {
            Protocol::Http => post(target, tls, headers, body, PostLimits::SMALL)
                .await
                .map(|reply| outcome(&reply)),
            Protocol::Grpc => {
                let method = grpc::method(request.signal);
                call(target, tls, method, headers, body, PostLimits::SMALL)
                    .await
                    .map(|reply| grpc::outcome(&reply))
            }
        };
        sent.unwrap_or_else(|error| Outcome::Later(format!("{:#}", anyhow::Error::from(error)), None))
    }
}

/// Sends requests, and notes when that begins to fail and when it works again.
fn send_all(runtime: &Runtime, collector: &Collector, queue: &Queue) {
    let (mut metrics_problem, mut logs_problem) = (None, None);
    let random = RandomState::new();
    let mut number = 0_u64;
    loop {
        let request = queue.next();
        number += 1;
        let target = collector.target(request.signal);
        let (last_problem, what) = match request.signal {
            Signal::Metrics => (&mut metrics_problem, "metrics"),
            Signal::Logs => (&mut logs_problem, "log records"),
        };
        let outcome = runtime.block_on(collector.send(&request));
        let problem = match outcome {
            Outcome::Taken => {
                queue.taken(&request, 0);
                None
            }
            Outcome::Partly(rejected, why) => {
                queue.taken(&request, rejected);
                Some(why)
            }
            Outcome::Later(why, retry_after) => {
                queue.put_back(request, retry_after, random.hash_one(number));
                Some(format!("{why}; trying again"))
            }
            Outcome::Refused(why) => {
                queue.refused(&request);
                Some(match request.signal {
                    Signal::Metrics => format!("{why}; trying again with the next sample"),
                    Signal::Logs => format!("{why}; these are lost"),
                })
            }
        };
        if problem != *last_problem {
            say(&match &problem {
                Some(problem) => format!("sockeye: {target}: {problem}\n"),
                None => format!("sockeye: {target}: {what} are taken again\n"),
            });
            *last_problem = problem;
        }
    }
}

/// Returns what an answer means, by OTLP's rules.
fn outcome(reply: &Reply) -> Outcome {
    if reply.status.is_success() {
        return taken(&reply.body);
    }
    let text = text(&reply.body);
    let why = format!("the collector answered {}: {text}", reply.status);
    let is_passing = matches!(
        reply.status,
        StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT
    );
    if is_passing {
        let after = reply.headers.get(RETRY_AFTER);
        let after = after.and_then(|value| value.to_str().ok());
        Outcome::Later(why, after.and_then(|text| retry_after(text, SystemTime::now())))
    } else {
        Outcome::Refused(why)
    }
}

/// Returns the text of an answer: what a collector sends with an error is a `google.rpc.Status`, of which this is the message, or plain text.
fn text(body: &[u8]) -> String {
    match Status::decode(body) {
        Ok(status) if !status.message.is_empty() => harmless_start(status.message.as_bytes(), TEXT_MAX),
        _ => harmless_start(body.trim_ascii(), TEXT_MAX),
    }
}

/// `google.rpc.Status`
#[derive(Clone, PartialEq, Message)]
struct Status {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
}

/// Returns the time of a header `Retry-After`: seconds, or a date.
fn retry_after(text: &str, now: SystemTime) -> Option<Duration> {
    if let Ok(seconds) = text.trim().parse() {
        return Some(Duration::from_secs(seconds));
    }
    let until = httpdate::parse_http_date(text.trim()).ok()?;
    Some(until.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::otlp::{ExportResponse, PartialSuccess};
    use hyper::header::HeaderValue;

    fn reply(status: u16, body: &[u8]) -> Reply {
        Reply {
            status: StatusCode::from_u16(status).unwrap(),
            headers: HeaderMap::new(),
            body: body.to_vec(),
            is_cut: false,
        }
    }

    #[test]
    fn only_passing_failures_are_tried_again() {
        for (status, is_later) in [
            (429, true),
            (502, true),
            (503, true),
            (504, true),
            (400, false),
            (500, false),
        ] {
            let outcome = outcome(&reply(status, b"busy\n"));
            assert_eq!(matches!(outcome, Outcome::Later(..)), is_later, "{status}");
        }
        assert_eq!(outcome(&reply(200, b"")), Outcome::Taken);
    }

    #[test]
    fn time_that_the_collector_asks_for_is_kept() {
        let mut busy = reply(429, b"");
        busy.headers.insert(RETRY_AFTER, HeaderValue::from_static("7"));
        assert!(matches!(outcome(&busy), Outcome::Later(_, Some(after)) if after.as_secs() == 7));
        let now = httpdate::parse_http_date("Fri, 27 Nov 2026 03:00:00 GMT").unwrap();
        let at = |text| retry_after(text, now).map(|after| after.as_secs());
        assert_eq!(at("Fri, 27 Nov 2026 03:00:09 GMT"), Some(9));
        assert_eq!(at("Fri, 27 Nov 2026 02:00:00 GMT"), Some(0));
        assert_eq!(at("soon"), None);
    }

    #[test]
    fn part_that_was_left_out_is_named_and_not_sent_again() {
        let response = ExportResponse {
            partial_success: Some(PartialSuccess {
                rejected: 3,
                message: "too old".to_owned(),
            }),
        };
        let expected = "the collector left out 3: too old".to_owned();
        assert_eq!(
            outcome(&reply(200, &response.encode_to_vec())),
            Outcome::Partly(3, expected)
        );
    }

    #[test]
    fn message_of_a_status_is_shown_without_its_bytes() {
        let status = Status {
            code: 3,
            message: "no such tenant".to_owned(),
        };
        assert_eq!(text(&status.encode_to_vec()), "no such tenant");
        assert_eq!(text(b"busy\n"), "busy");
    }
}

//! What answers by gRPC mean: <https://opentelemetry.io/docs/specs/otlp/#otlpgrpc-response>

use super::outcome::{Outcome, TEXT_MAX, taken};
use super::queue::Signal;
use crate::output::otlp::percent_decoded;
use prost::Message;
use sockeye_http::GrpcReply;
use sockeye_output::text::harmless_start;
use std::time::Duration;

/// Returns the method that takes requests of a kind.
pub(super) const fn method(signal: Signal) -> &'static str {
    match signal {
        Signal::Metrics => "opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
        Signal::Logs => "opentelemetry.proto.collector.logs.v1.LogsService/Export",
    }
}

/// Returns what an answer means.
pub(super) fn outcome(reply: &GrpcReply) -> Outcome {
    let Some(status) = reply.status else {
        let why = format!(
            "the collector answered {} and no status of gRPC",
            reply.http_status
        );
        // A proxy without a server, for example.
        return if reply.http_status.is_server_error() || reply.http_status.as_u16() == 429 {
            Outcome::Later(why, None)
        } else {
            Outcome::Refused(why)
        };
    };
    if status == OK {
        return taken(&reply.message);
    }
    let text = percent_decoded(&reply.text);
    let text = harmless_start(text.as_bytes(), TEXT_MAX);
    let name = usize::try_from(status).ok().and_then(|status| NAMES.get(status));
    let why = format!(
        "the collector answered {}: {text}",
        name.unwrap_or(&"an unknown status")
    );
    let retry_after = reply.details.as_deref().and_then(retry_after);
    match status {
        CANCELLED | DEADLINE_EXCEEDED | ABORTED | OUT_OF_RANGE | UNAVAILABLE | DATA_LOSS => {
            Outcome::Later(why, retry_after)
        }
        RESOURCE_EXHAUSTED if retry_after.is_some() => Outcome::Later(why, retry_after),
        _ => Outcome::Refused(why),
    }
}

/// Returns when to try again, if the details of a status say so.
fn retry_after(details: &str) -> Option<Duration> {
    let status = Status::decode(base64_decoded(details)?.as_slice()).ok()?;
    let info = status
        .details
        .iter()
        .find(|any| any.type_url.ends_with("/google.rpc.RetryInfo"))?;
    let delay = RetryInfo::decode(info.value.as_slice()).ok()?.delay?;
    Some(Duration::new(
        u64::try_from(delay.seconds).ok()?,
        u32::try_from(delay.nanos).ok()?,
    ))
}

/// Decodes base64, with or without `=` at its end.
fn base64_decoded(text: &str) -> Option<Vec<u8>> {
    let (mut bits, mut count, mut bytes) = (0_u32, 0, Vec::new());
    for character in text.trim_end_matches('=').bytes() {
        let value = match character {
            b'A'..=b'Z' => character - b'A',
            b'a'..=b'z' => character - b'a' + 26,
            b'0'..=b'9' => character - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    Some(bytes)
}

/// `google.rpc.Status`
#[derive(Clone, PartialEq, Message)]
struct Status {
    #[prost(message, repeated, tag = "3")]
    details: Vec<Any>,
}

/// `google.protobuf.Any`
#[derive(Clone, PartialEq, Message)]
struct Any {
    #[prost(string, tag = "1")]
    type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

/// `google.rpc.RetryInfo`
#[derive(Clone, PartialEq, Message)]
struct RetryInfo {
    #[prost(message, optional, tag = "1")]
    delay: Option<Delay>,
}

/// `google.protobuf.Duration`
#[derive(Clone, PartialEq, Message)]
struct Delay {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanos: i32,
}

/// Numbers of `google.rpc.Code`.
const OK: u32 = 0;
const CANCELLED: u32 = 1;
const DEADLINE_EXCEEDED: u32 = 4;
const RESOURCE_EXHAUSTED: u32 = 8;
const ABORTED: u32 = 10;
const OUT_OF_RANGE: u32 = 11;
const UNAVAILABLE: u32 = 14;
const DATA_LOSS: u32 = 15;

/// Their names.
const NAMES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(status: Option<u32>, details: Option<&str>) -> GrpcReply {
        GrpcReply {
            status,
            text: "slow%20down".to_owned(),
            details: details.map(str::to_owned),
            http_status: hyper::StatusCode::OK,
            message: Vec::new(),
        }
    }

    #[test]
    fn only_passing_failures_are_tried_again() {
        for (status, is_later) in [
            (1, true),
            (4, true),
            (8, false),
            (14, true),
            (3, false),
            (12, false),
            (16, false),
        ] {
            let outcome = outcome(&reply(Some(status), None));
            assert_eq!(matches!(outcome, Outcome::Later(..)), is_later, "{status}");
        }
        assert_eq!(outcome(&reply(Some(0), None)), Outcome::Taken);
        assert!(matches!(outcome(&reply(None, None)), Outcome::Refused(_)));
    }

    #[test]
    fn time_that_the_collector_asks_for_is_kept() {
        let status = Status {
            details: vec![Any {
                type_url: "type.googleapis.com/google.rpc.RetryInfo".to_owned(),
                value: RetryInfo {
                    delay: Some(Delay {
                        seconds: 7,
                        nanos: 500_000_000,
                    }),
                }
                .encode_to_vec(),
            }],
        };
        let details = base64(&status.encode_to_vec());
        for details in [details.as_str(), details.trim_end_matches('=')] {
            let busy = reply(Some(RESOURCE_EXHAUSTED), Some(details));
            let Outcome::Later(why, Some(after)) = outcome(&busy) else {
                panic!("it is to be tried again");
            };
            assert_eq!(why, "the collector answered RESOURCE_EXHAUSTED: slow down");
            assert_eq!(after, Duration::from_millis(7_500));
        }
        assert_eq!(retry_after("!"), None);
    }

    fn base64(bytes: &[u8]) -> String {
        let letters: Vec<char> = ('A'..='Z')
            .chain('a'..='z')
            .chain('0'..='9')
            .chain("+/".chars())
            .collect();
        let mut text = String::new();
        for chunk in bytes.chunks(3) {
            let all = [chunk[0], *chunk.get(1).unwrap_or(&0), *chunk.get(2).unwrap_or(&0)];
            let bits = u32::from_be_bytes([0, all[0], all[1], all[2]]);
            for place in 0..4 {
                let is_there = place <= chunk.len();
                let letter = letters[(bits >> (18 - 6 * place)) as usize & 63];
                text.push(if is_there { letter } else { '=' });
            }
        }
        text
    }
}

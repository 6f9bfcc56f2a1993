//! Answers requests for metrics.

use super::hosts::Hosts;
use super::published::Published;
use crate::output::Form;
use bytes::Bytes;
use hyper::header::{ACCEPT, ALLOW, CONTENT_TYPE, HOST, HeaderMap, HeaderValue};
use hyper::{Method, Response, StatusCode};
use sockeye_http::{Answer, AnswerBody};

/// Returns the answer to a request.
pub(super) fn answer(
    published: &Published,
    hosts: &Hosts,
    method: &Method,
    path: &str,
    headers: &HeaderMap,
) -> Answer {
    if !hosts.permits(headers.get(HOST).map(HeaderValue::as_bytes)) {
        return plain(
            StatusCode::MISDIRECTED_REQUEST,
            "sockeye: ask for an address or localhost; --allow-host NAME permits another name\n",
        );
    }
    if ![Method::GET, Method::HEAD].contains(method) {
        let mut answer = plain(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n");
        answer
            .headers_mut()
            .insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return answer;
    }
    match path {
        "/metrics" => {
            let accepted: Vec<_> = headers
                .get_all(ACCEPT)
                .iter()
                .filter_map(|value| value.to_str().ok())
                .collect();
            let form = Form::preferred(&accepted.join(","));
            whole(StatusCode::OK, form.media_type(), published.text(form))
        }
        "/" => plain(
            StatusCode::OK,
            "sockeye export prometheus: the metrics are at /metrics\n",
        ),
        _ => plain(StatusCode::NOT_FOUND, "the metrics are at /metrics\n"),
    }
}

fn plain(status: StatusCode, text: &'static str) -> Answer {
    whole(
        status,
        "text/plain; charset=utf-8",
        Bytes::from_static(text.as_bytes()),
    )
}

fn whole(status: StatusCode, media_type: &'static str, body: Bytes) -> Answer {
    let mut answer = Response::new(AnswerBody::Whole(Some(body)));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Exposition;

    #[track_caller]
    fn check(method: &Method, path: &str, accept: &'static str, status: u16, media_type: &str) {
        let published = Published::default();
        published.set(Exposition {
            open_metrics: "open".to_owned(),
            text: "text".to_owned(),
        });
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static(accept));
        let answer = answer(&published, &Hosts::default(), method, path, &headers);
        assert_eq!(answer.status().as_u16(), status);
        assert!(
            answer.headers()[CONTENT_TYPE]
                .to_str()
                .unwrap()
                .starts_with(media_type)
        );
    }

    #[test]
    fn metrics_have_the_form_that_the_client_reads() {
        let open_metrics = "application/openmetrics-text";
        check(&Method::GET, "/metrics", open_metrics, 200, open_metrics);
        check(&Method::HEAD, "/metrics", "*/*", 200, "text/plain; version=0.0.4");
    }

    #[test]
    fn other_requests_are_refused() {
        check(&Method::GET, "/other", "*/*", 404, "text/plain");
        check(&Method::POST, "/metrics", "*/*", 405, "text/plain");
    }
}

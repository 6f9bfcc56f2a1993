//! Answers, with the headers that all of them have.

use bytes::Bytes;
use hyper::header::{CONTENT_DISPOSITION, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION, SET_COOKIE};
use hyper::{Response, StatusCode};
pub(crate) use sockeye_http::Answer;
use sockeye_http::AnswerBody;
use sockeye_output::JsonObject;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

/// Media types of answers.
pub(crate) const JSON: &str = "application/json; charset=utf-8";
pub(crate) const CSV: &str = "text/csv; charset=utf-8; header=present";
pub(crate) const TEXT: &str = "text/plain; charset=utf-8";
pub(crate) const HTML: &str = "text/html; charset=utf-8";
const EVENTS: &str = "text/event-stream; charset=utf-8";

/// Returns an answer that is known as a whole.
pub(crate) fn whole(status: StatusCode, media_type: &'static str, body: impl Into<Bytes>) -> Answer {
    with_headers(status, media_type, AnswerBody::Whole(Some(body.into())))
}

/// Makes an answer keep its place in memory until it is sent.
pub(crate) fn in_place(answer: Answer, place: OwnedSemaphorePermit) -> Answer {
    answer.map(|body| match body {
        AnswerBody::Whole(Some(rest)) if !rest.is_empty() => AnswerBody::Large { rest, _place: place },
        other => other,
    })
}

/// Returns an answer without a page: its reason as text.
pub(crate) fn refusal(status: StatusCode, reason: &str) -> Answer {
    whole(status, TEXT, format!("{reason}\n"))
}

/// Returns an error of a request for data: `docs/schema/serve.schema.json`, `$defs/error`.
pub(crate) fn error(status: StatusCode, message: &str) -> Answer {
    let mut out = Vec::new();
    let mut document = JsonObject::begin(&mut out);
    document.word("type", "error");
    document.text("message", Some(message));
    document.end();
    whole(status, JSON, out)
}

/// Gives an error the status 200, and a header with its own: a browser logs every other status as an error of the page.
pub(crate) fn marked_as_error(mut answer: Answer) -> Answer {
    let status = HeaderValue::from(answer.status().as_u16());
    answer
        .headers_mut()
        .insert(HeaderName::from_static("x-error"), status);
    *answer.status_mut() = StatusCode::OK;
    answer
}

/// Returns an answer that sends events as they come.
pub(crate) fn events(pieces: mpsc::Receiver<Bytes>) -> Answer {
    with_headers(StatusCode::OK, EVENTS, AnswerBody::Stream(pieces))
}

/// Returns an answer that sends the browser to a path of this server, with a cookie.
pub(crate) fn redirect(path: &'static str, cookie: &str) -> Answer {
    let mut answer = whole(StatusCode::SEE_OTHER, TEXT, "");
    let headers = answer.headers_mut();
    headers.insert(LOCATION, HeaderValue::from_static(path));
    if let Ok(cookie) = HeaderValue::from_str(cookie) {
        headers.insert(SET_COOKIE, cookie);
    }
    answer
}

/// Makes the browser save the answer in a file with this name.
pub(crate) fn as_download(mut answer: Answer, name: &str) -> Answer {
    if let Ok(value) = HeaderValue::from_str(&format!("attachment; filename=\"{name}\"")) {
        answer.headers_mut().insert(CONTENT_DISPOSITION, value);
    }
    answer
}

fn with_headers(status: StatusCode, media_type: &'static str, body: AnswerBody) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    for (name, value) in EVERYWHERE {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    answer
}

/// Headers of every answer. No script and no style but those of this server, no markup from text (trusted types), no frame, no
/// referrer; and none that lets pages of other origins read anything.
const EVERYWHERE: [(&str, &str); 8] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; \
         base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cache-control", "no-store"),
    ("permissions-policy", "camera=(), geolocation=(), microphone=()"),
];

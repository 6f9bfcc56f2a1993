//! Sends a request to a server, within limits.

use crate::body::AnswerBody;
use crate::stream::TimedStream;
use bytes::Bytes;
use http_body::Body;
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, HOST, HeaderMap, HeaderValue};
use hyper::{Method, Request, StatusCode, Uri};
use std::future::poll_fn;
use std::pin::pin;
use std::time::Duration;
use std::{fmt, io};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Where requests go: `http://HOST[:PORT][/PATH]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    authority: String,
    /// Address or name, and port.
    host: String,
    port: u16,
    path: String,
}

/// What a server answered.
#[derive(Debug)]
pub struct Reply {
    /// Its status.
    pub status: StatusCode,
    /// The first bytes of its body, at most [`REPLY_BYTES`].
    pub body: Vec<u8>,
}

/// Why there is no answer.
#[derive(Debug)]
pub enum PostError {
    /// The server could not be reached.
    Connect(io::Error),
    /// It answered no HTTP, or its connection ended.
    Http(hyper::Error),
    /// It took longer than [`TIMEOUT`].
    TimedOut,
}

impl Target {
    /// Parses a URL.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(url: &str) -> Result<Self, String> {
        let uri: Uri = url
            .parse()
            .map_err(|_| "expected a URL, such as http://127.0.0.1:4318")?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => {
                return Err(
                    "TLS is not spoken: name a collector or proxy on this host with http://".to_owned(),
                );
            }
            _ => return Err("expected a URL that begins with http://".to_owned()),
        }
        let authority = uri.authority().ok_or("expected a host behind http://")?;
        if authority.as_str().contains('@') {
            return Err("a URL has no password here: options have it".to_owned());
        }
        let host = authority.host();
        Ok(Self {
            authority: authority.as_str().to_owned(),
            host: host.trim_start_matches('[').trim_end_matches(']').to_owned(),
            port: authority.port_u16().unwrap_or(80),
            path: uri.path_and_query().map_or("/", |path| path.as_str()).to_owned(),
        })
    }

    /// Returns the same with a path appended.
    #[must_use]
    pub fn join(&self, path: &str) -> Self {
        Self {
            path: format!("{}/{path}", self.path.trim_end_matches('/')),
            ..self.clone()
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.authority, self.path)
    }
}

/// Sends a request with a body, and returns the answer.
///
/// # Errors
/// Why there is none.
pub async fn post(target: &Target, headers: HeaderMap, body: Bytes) -> Result<Reply, PostError> {
    let exchanged = timeout(TIMEOUT, exchange(target, headers, body)).await;
    exchanged.unwrap_or(Err(PostError::TimedOut))
}

async fn exchange(target: &Target, headers: HeaderMap, body: Bytes) -> Result<Reply, PostError> {
    let stream = TcpStream::connect((target.host.as_str(), target.port))
        .await
        .map_err(PostError::Connect)?;
    let (mut sender, connection) = http1::handshake(TimedStream::new(stream))
        .await
        .map_err(PostError::Http)?;
    // It ends when the answer was read.
    tokio::spawn(connection);
    let mut request = Request::new(AnswerBody::Whole(Some(body)));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = target.path.parse().unwrap_or_default();
    *request.headers_mut() = headers;
    let own = [(HOST, target.authority.as_str()), (CONNECTION, "close")];
    for (name, value) in own {
        if let Ok(value) = HeaderValue::from_str(value) {
            request.headers_mut().insert(name, value);
        }
    }
    let answer = sender.send_request(request).await.map_err(PostError::Http)?;
    let status = answer.status();
    let mut incoming = pin!(answer.into_body());
    let mut body = Vec::new();
    while body.len() < REPLY_BYTES
        && let Some(frame) = poll_fn(|cx| incoming.as_mut().poll_frame(cx)).await
    {
        if let Ok(bytes) = frame.map_err(PostError::Http)?.into_data() {
            body.extend_from_slice(&bytes[..bytes.len().min(REPLY_BYTES - body.len())]);
        }
    }
    Ok(Reply { status, body })
}

impl fmt::Display for PostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(_) => f.write_str("connect"),
            Self::Http(_) => f.write_str("exchange HTTP"),
            Self::TimedOut => write!(f, "no answer within {TIMEOUT:?}"),
        }
    }
}

impl std::error::Error for PostError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Connect(error) => Some(error),
            Self::Http(error) => Some(error),
            Self::TimedOut => None,
        }
    }
}

/// Time for a connection, a request and its answer.
pub const TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of an answer that are read: servers send a few.
pub const REPLY_BYTES: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_is_appended_to_that_of_the_url() {
        for (url, expected) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/metrics"),
            ("http://[::1]/otlp/", "http://[::1]/otlp/v1/metrics"),
        ] {
            let target = Target::parse(url).unwrap().join("v1/metrics");
            assert_eq!(target.to_string(), expected);
        }
        let target = Target::parse("http://[::1]").unwrap();
        assert_eq!((target.host.as_str(), target.port), ("::1", 80));
    }

    #[test]
    fn other_urls_are_refused_with_a_reason() {
        for (url, reason) in [
            ("https://a.example", "TLS"),
            ("a.example:4318", "http://"),
            ("http://user:secret@a.example", "password"),
            ("", "URL"),
        ] {
            let error = Target::parse(url).unwrap_err();
            assert!(error.contains(reason), "{url}: {error}");
        }
    }
}

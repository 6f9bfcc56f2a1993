//! Sends a request to a server, within limits.

use crate::TlsClient;
use crate::body::AnswerBody;
use crate::stream::TimedStream;
use crate::tls_client::reason;
use bytes::Bytes;
use http_body::Body;
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, HOST, HeaderMap, HeaderValue};
use hyper::rt::{Read, Write};
use hyper::{Method, Request, StatusCode, Uri};
use std::future::poll_fn;
use std::pin::pin;
use std::time::Duration;
use std::{fmt, io};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;

/// Where requests go: `http://HOST[:PORT][/PATH]`, or the same with `https`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    is_tls: bool,
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
    /// Its headers.
    pub headers: HeaderMap,
    /// The first bytes of its body, at most [`PostLimits::reply_bytes`].
    pub body: Vec<u8>,
    /// Whether the body is longer.
    pub is_cut: bool,
}

/// How long to wait for a server, and how much of its answer to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PostLimits {
    /// Time for a connection, a request and its answer.
    pub timeout: Duration,
    /// Bytes of an answer that are read.
    pub reply_bytes: usize,
}

impl PostLimits {
    /// For servers that take what is sent, and answer little: [`TIMEOUT`], [`REPLY_BYTES`].
    pub const SMALL: Self = Self {
        timeout: TIMEOUT,
        reply_bytes: REPLY_BYTES,
    };
}

/// Why there is no answer.
#[derive(Debug)]
pub enum PostError {
    /// The server could not be reached.
    Connect(io::Error),
    /// TLS failed, as with a certificate that is not trusted: why, in words.
    Tls(String),
    /// It answered no HTTP, or its connection ended.
    Http(hyper::Error),
    /// It took longer than this.
    TimedOut(Duration),
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
        let is_tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err("expected a URL that begins with http:// or https://".to_owned()),
        };
        let authority = uri.authority().ok_or("expected a host behind ://")?;
        if authority.as_str().contains('@') {
            return Err("a URL has no password here: options have it".to_owned());
        }
        let host = authority.host();
        Ok(Self {
            is_tls,
            authority: authority.as_str().to_owned(),
            host: host.trim_start_matches('[').trim_end_matches(']').to_owned(),
            port: authority.port_u16().unwrap_or(if is_tls { 443 } else { 80 }),
            path: uri.path_and_query().map_or("/", |path| path.as_str()).to_owned(),
        })
    }

    /// Whether TLS is spoken there.
    #[must_use]
    pub const fn is_tls(&self) -> bool {
        self.is_tls
    }

    /// Returns the same with a path appended.
    #[must_use]
    pub fn join(&self, path: &str) -> Self {
        Self {
            path: format!("{}/{path}", self.path.trim_end_matches('/')),
            ..self.clone()
        }
    }

    pub(crate) async fn connect(&self) -> Result<TcpStream, PostError> {
        TcpStream::connect((self.host.as_str(), self.port))
            .await
            .map_err(PostError::Connect)
    }

    /// Returns whom to trust; `None`: TLS is not spoken there.
    pub(crate) fn tls<'a>(&self, tls: Option<&'a TlsClient>) -> Result<Option<&'a TlsClient>, PostError> {
        match tls {
            _ if !self.is_tls => Ok(None),
            Some(tls) => Ok(Some(tls)),
            None => Err(PostError::Tls("no authorities are known".to_owned())),
        }
    }

    /// Makes the handshake of TLS.
    pub(crate) async fn secure(
        &self,
        tls: &TlsClient,
        stream: TcpStream,
    ) -> Result<TimedStream<TlsStream<TcpStream>>, PostError> {
        let connected = tls.connect(&self.host, stream).await;
        connected.map_err(|error| {
            PostError::Tls(reason(&error, tls.options()).unwrap_or_else(|| error.to_string()))
        })
    }

    /// Returns the whole URL.
    pub(crate) fn uri(&self) -> Uri {
        self.to_string().parse().unwrap_or_default()
    }

    /// Returns the same with parameters appended to its query.
    #[must_use]
    pub fn with_query(&self, pairs: &[(&str, &str)]) -> Self {
        let mut path = self.path.clone();
        for (name, value) in pairs {
            path.push(if path.contains('?') { '&' } else { '?' });
            push_encoded(&mut path, name);
            path.push('=');
            push_encoded(&mut path, value);
        }
        Self { path, ..self.clone() }
    }
}

/// Appends text as a query has it: all but letters, digits and a few signs as `%` and two digits.
fn push_encoded(out: &mut String, text: &str) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority, self.path)
    }
}

/// Sends a request with a body, and returns the answer. `tls`: whom to trust, if the target speaks TLS.
///
/// # Errors
/// Why there is none.
pub async fn post(
    target: &Target,
    tls: Option<&TlsClient>,
    headers: HeaderMap,
    body: Bytes,
    limits: PostLimits,
) -> Result<Reply, PostError> {
    let exchanged = timeout(limits.timeout, async {
        let stream = target.connect().await?;
        match target.tls(tls)? {
            None => {
                let stream = TimedStream::new(stream);
                exchange(target, None, stream, headers, body, limits.reply_bytes).await
            }
            Some(tls) => {
                let stream = target.secure(tls, stream).await?;
                exchange(target, Some(tls), stream, headers, body, limits.reply_bytes).await
            }
        }
    })
    .await;
    exchanged.unwrap_or(Err(PostError::TimedOut(limits.timeout)))
}

async fn exchange(
    target: &Target,
    tls: Option<&TlsClient>,
    stream: impl Read + Write + Unpin + Send + 'static,
    headers: HeaderMap,
    body: Bytes,
    reply_bytes: usize,
) -> Result<Reply, PostError> {
    let failed = |error| failed(error, tls);
    let (mut sender, connection) = http1::handshake(stream).await.map_err(failed)?;
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
    let answer = sender.send_request(request).await.map_err(failed)?;
    let (status, headers) = (answer.status(), answer.headers().clone());
    let mut incoming = pin!(answer.into_body());
    let (mut body, mut is_cut) = (Vec::new(), false);
    while !is_cut && let Some(frame) = poll_fn(|cx| incoming.as_mut().poll_frame(cx)).await {
        if let Ok(bytes) = frame.map_err(failed)?.into_data() {
            let taken = bytes.len().min(reply_bytes - body.len());
            body.extend_from_slice(&bytes[..taken]);
            is_cut = taken < bytes.len();
        }
    }
    Ok(Reply {
        status,
        headers,
        body,
        is_cut,
    })
}

/// Returns why an exchange failed: a server that does not accept a client's certificate may say so after the handshake.
pub(crate) fn failed(error: hyper::Error, tls: Option<&TlsClient>) -> PostError {
    match tls.and_then(|tls| reason(&error, tls.options())) {
        Some(reason) => PostError::Tls(reason),
        None => PostError::Http(error),
    }
}

impl fmt::Display for PostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(_) => f.write_str("connect"),
            Self::Tls(reason) => f.write_str(reason),
            Self::Http(_) => f.write_str("exchange HTTP"),
            Self::TimedOut(limit) => write!(f, "no answer within {limit:?}"),
        }
    }
}

impl std::error::Error for PostError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Connect(error) => Some(error),
            Self::Http(error) => Some(error),
            Self::Tls(_) | Self::TimedOut(_) => None,
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
        let target = Target::parse("https://a.example/x").unwrap();
        assert_eq!((target.port, target.is_tls()), (443, true));
        assert_eq!(target.to_string(), "https://a.example/x");
    }

    #[test]
    fn query_is_encoded() {
        let target = Target::parse("http://a:1/x?a=b").unwrap();
        let target = target.with_query(&[("query", "SELECT 'é' + 1"), ("n", "5")]);
        assert_eq!(
            target.to_string(),
            "http://a:1/x?a=b&query=SELECT%20%27%C3%A9%27%20%2B%201&n=5"
        );
    }

    #[test]
    fn other_urls_are_refused_with_a_reason() {
        for (url, reason) in [
            ("ftp://a.example", "https://"),
            ("a.example:4318", "http://"),
            ("http://user:secret@a.example", "password"),
            ("", "URL"),
        ] {
            let error = Target::parse(url).unwrap_err();
            assert!(error.contains(reason), "{url}: {error}");
        }
    }
}

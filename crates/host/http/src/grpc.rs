//! Calls a method by gRPC: a message with five bytes before it, over HTTP/2, and a status behind the answer.
//! <https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md>

use crate::TlsClient;
use crate::body::AnswerBody;
use crate::client::{PostError, PostLimits, Target, failed};
use crate::stream::TimedStream;
use bytes::{BufMut, Bytes, BytesMut};
use http_body::Body;
use hyper::client::conn::http2;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, TE};
use hyper::rt::{Executor, Read, Write};
use hyper::{Method, Request, StatusCode};
use std::future::{Future, poll_fn};
use std::pin::pin;
use tokio::time::timeout;

/// What a server answered to a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrpcReply {
    /// The status: 0 is success; `None`: the server sent none, and speaks no gRPC.
    pub status: Option<u32>,
    /// What the server says of it, with `%` and two digits for bytes that are no plain text.
    pub text: String,
    /// Details of it, as the header `grpc-status-details-bin` has them: a `google.rpc.Status` in base64.
    pub details: Option<String>,
    /// The status of HTTP.
    pub http_status: StatusCode,
    /// The message of the answer; empty without one.
    pub message: Vec<u8>,
}

/// Calls a method, `package.Service/Method`, with a message, and returns the answer. `tls`: whom to trust, if the target speaks TLS.
///
/// # Errors
/// Why there is none.
pub async fn call(
    target: &Target,
    tls: Option<&TlsClient>,
    method: &str,
    headers: HeaderMap,
    message: Bytes,
    limits: PostLimits,
) -> Result<GrpcReply, PostError> {
    let called = timeout(limits.timeout, async {
        let request = request(target, method, headers, &message);
        let stream = target.connect().await?;
        match target.tls(tls)? {
            None => exchange(None, TimedStream::new(stream), request, limits.reply_bytes).await,
            Some(tls) => {
                let stream = target.secure(&tls.with_http2(), stream).await?;
                exchange(Some(tls), stream, request, limits.reply_bytes).await
            }
        }
    })
    .await;
    called.unwrap_or(Err(PostError::TimedOut(limits.timeout)))
}

fn request(target: &Target, method: &str, headers: HeaderMap, message: &Bytes) -> Request<AnswerBody> {
    let mut body = BytesMut::with_capacity(PREFIX_BYTES + message.len());
    // Not compressed.
    body.put_u8(0);
    body.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    body.extend_from_slice(message);
    let mut request = Request::new(AnswerBody::Whole(Some(body.freeze())));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = target.join(method).uri();
    *request.headers_mut() = headers;
    let own = [
        (CONTENT_TYPE, HeaderValue::from_static("application/grpc")),
        (TE, HeaderValue::from_static("trailers")),
    ];
    for (name, value) in own {
        request.headers_mut().insert(name, value);
    }
    request
}

async fn exchange(
    tls: Option<&TlsClient>,
    stream: impl Read + Write + Unpin + Send + 'static,
    request: Request<AnswerBody>,
    reply_bytes: usize,
) -> Result<GrpcReply, PostError> {
    let failed = |error| failed(error, tls);
    let (mut sender, connection) = http2::handshake(Tasks, stream).await.map_err(failed)?;
    // It ends when the sender is dropped.
    tokio::spawn(connection);
    let answer = sender.send_request(request).await.map_err(failed)?;
    let (http_status, mut last) = (answer.status(), answer.headers().clone());
    let mut incoming = pin!(answer.into_body());
    let mut body = Vec::new();
    while let Some(frame) = poll_fn(|cx| incoming.as_mut().poll_frame(cx)).await {
        match frame.map_err(failed)?.into_data() {
            Ok(bytes) => {
                let taken = bytes.len().min(reply_bytes - body.len());
                body.extend_from_slice(&bytes[..taken]);
            }
            // An error without an answer has its status in the head.
            Err(frame) => last = frame.into_trailers().unwrap_or(last),
        }
    }
    let text = |name: &'static str| last.get(HeaderName::from_static(name))?.to_str().ok();
    Ok(GrpcReply {
        status: text("grpc-status").and_then(|status| status.parse().ok()),
        text: text("grpc-message").unwrap_or_default().to_owned(),
        details: text("grpc-status-details-bin").map(str::to_owned),
        http_status,
        message: body.get(PREFIX_BYTES..).unwrap_or_default().to_vec(),
    })
}

/// Tasks of a connection run on their own.
#[derive(Clone, Copy)]
struct Tasks;

impl<F: Future<Output: Send> + Send + 'static> Executor<F> for Tasks {
    fn execute(&self, task: F) {
        tokio::spawn(task);
    }
}

/// Whether the message is compressed, and its length.
const PREFIX_BYTES: usize = 5;

//! Accepts connections and answers their requests, within limits.

use crate::body::{Answer, AnswerBody};
use crate::listener::Listener;
use crate::places::{Answering, Place, Places};
use crate::stream::TimedStream;
use crate::timer::TokioTimer;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::task::yield_now;
use tokio::time::sleep;

/// Accepts connections until the task is dropped. When `CONNECTIONS_MAX` are there, one that waits for a request makes room for the
/// next. Each request has its [`Place`] among its extensions.
pub async fn serve<F>(
    listener: impl Listener,
    answer: impl Fn(Request<Incoming>) -> F + Clone + Send + 'static,
) where
    F: Future<Output = Answer> + Send + 'static,
{
    let places = Places::new(CONNECTIONS_MAX);
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer)
        .header_read_timeout(HEADER_TIMEOUT)
        .max_headers(HEADERS_MAX)
        .max_buf_size(BUFFER_BYTES);
    loop {
        let Ok((stream, peer)) = listener.next().await else {
            // Out of descriptors or memory, or the peer is gone: a moment later there may be some.
            sleep(Duration::from_millis(50)).await;
            continue;
        };
        let place = Arc::new(places.enter(peer).await);
        let (id, answer) = (place.id(), answer.clone());
        let service = service_fn(move |mut request: Request<Incoming>| {
            let answering = place.answer();
            request.extensions_mut().insert(Arc::clone(&place));
            let answer = answer(request);
            async {
                let answer = answer.await;
                Ok::<_, Infallible>(answer.map(|body| AnsweredBody {
                    body,
                    _answering: answering,
                }))
            }
        });
        let connection = builder.serve_connection(TimedStream::new(stream), service);
        let task = tokio::spawn(async move {
            // An error is the peer's: it sent no HTTP, or went away.
            drop(connection.await);
        });
        Place::set_task(&places, id, task.abort_handle());
        // It reads what its client has sent already, before further ones can take its place.
        yield_now().await;
    }
}

/// The body of an answer, with the place of its connection until it is sent.
struct AnsweredBody {
    body: AnswerBody,
    _answering: Answering,
}

impl Body for AnsweredBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Pin::new(&mut self.get_mut().body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Connections at the same time. A browser opens up to six, and one more for each page with live data.
const CONNECTIONS_MAX: usize = 64;
/// Time in which the head of a request has to arrive.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);
/// Headers of a request. Browsers send some 20.
const HEADERS_MAX: usize = 64;
/// Bytes of the head of a request, and of an answer that waits to be written.
const BUFFER_BYTES: usize = 16 << 10;

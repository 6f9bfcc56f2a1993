//! Accepts connections and answers their requests, within limits.

use crate::body::Answer;
use crate::listener::Listener;
use crate::stream::TimedStream;
use crate::timer::TokioTimer;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::sleep;

/// Accepts connections until the task is dropped. Further ones than `CONNECTIONS_MAX` wait in the kernel's queue.
pub async fn serve<F>(
    listener: impl Listener,
    answer: impl Fn(Request<Incoming>) -> F + Clone + Send + 'static,
) where
    F: Future<Output = Answer> + Send + 'static,
{
    let free = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer)
        .header_read_timeout(HEADER_TIMEOUT)
        .max_headers(HEADERS_MAX)
        .max_buf_size(BUFFER_BYTES);
    loop {
        // Never closed.
        let Ok(slot) = Arc::clone(&free).acquire_owned().await else {
            return;
        };
        let Ok(stream) = listener.next().await else {
            // Out of descriptors or memory, or the peer is gone: a moment later there may be some.
            sleep(Duration::from_millis(50)).await;
            continue;
        };
        let answer = answer.clone();
        let service = service_fn(move |request| {
            let answer = answer(request);
            async { Ok::<_, Infallible>(answer.await) }
        });
        let connection = builder.serve_connection(TimedStream::new(stream), service);
        tokio::spawn(async move {
            // An error is the peer's: it sent no HTTP, or went away.
            drop(connection.await);
            drop(slot);
        });
    }
}

/// Connections at the same time. A browser opens up to six, and one more for each page with live data.
const CONNECTIONS_MAX: usize = 64;
/// Time in which the head of a request has to arrive.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// Headers of a request. Browsers send some 20.
const HEADERS_MAX: usize = 64;
/// Bytes of the head of a request, and of an answer that waits to be written.
const BUFFER_BYTES: usize = 16 << 10;

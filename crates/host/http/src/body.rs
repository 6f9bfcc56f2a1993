//! Bodies of answers: whole ones, and streams of events.

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::Response;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

/// An answer to a request.
pub type Answer = Response<AnswerBody>;

/// The body of an answer.
#[derive(Debug)]
pub enum AnswerBody {
    /// Known as a whole; `None` once it is sent.
    Whole(Option<Bytes>),
    /// A large one that is known as a whole.
    Large {
        /// What is not sent yet.
        rest: Bytes,
        /// Its turn, until all is sent: only a few are in memory at once.
        _place: OwnedSemaphorePermit,
    },
    /// Pieces that a task sends, one at a time.
    Stream(mpsc::Receiver<Bytes>),
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take()),
            // In pieces: the connection takes the next one when the last was written, and keeps this body until the end.
            Self::Large { rest, .. } if rest.is_empty() => Poll::Ready(None),
            Self::Large { rest, .. } => Poll::Ready(Some(rest.split_to(rest.len().min(PIECE_BYTES)))),
            Self::Stream(pieces) => pieces.poll_recv(cx),
        };
        piece.map(|piece| piece.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_none(),
            Self::Large { rest, .. } => rest.is_empty(),
            Self::Stream(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Self::Large { rest, .. } => SizeHint::with_exact(rest.len() as u64),
            Self::Stream(_) => SizeHint::default(),
        }
    }
}

/// Bytes of a large answer that are written at a time.
const PIECE_BYTES: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::task::Waker;
    use tokio::sync::Semaphore;

    #[test]
    fn large_body_has_its_place_until_the_last_piece() {
        let places = Arc::new(Semaphore::new(1));
        let place = Arc::clone(&places).try_acquire_owned().unwrap();
        let mut body = AnswerBody::Large {
            rest: Bytes::from(vec![7; PIECE_BYTES + 1]),
            _place: place,
        };
        let mut cx = Context::from_waker(Waker::noop());
        for (piece, rest) in [(PIECE_BYTES, 1), (1, 0)] {
            assert_eq!(places.available_permits(), 0);
            let Poll::Ready(Some(Ok(frame))) = Pin::new(&mut body).poll_frame(&mut cx) else {
                panic!("a piece");
            };
            assert_eq!(frame.into_data().map(|bytes| bytes.len()).ok(), Some(piece));
            assert_eq!(body.size_hint().exact(), Some(rest));
        }
        assert!(body.is_end_stream());
        drop(body);
        assert_eq!(places.available_permits(), 1);
    }
}

//! The newest flows, as they come. A reader that is slow misses samples: each event is made when the one before was taken, and then
//! from the newest sample.

use super::flows::render;
use super::turns::Work;
use super::{Page, request};
use crate::http::answer::{Answer, error, events};
use crate::output::{KEEP_ALIVE, event, push_page};
use crate::view::{Selection, Window};
use bytes::Bytes;
use hyper::StatusCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// Begins a stream of events.
pub(super) fn stream(page: &Arc<Page>, query: &str) -> Answer {
    let window = match request::window(query) {
        Ok(window) => window,
        Err(message) => return error(StatusCode::BAD_REQUEST, &message),
    };
    let Ok(slot) = Arc::clone(&page.streams).try_acquire_owned() else {
        return error(
            StatusCode::SERVICE_UNAVAILABLE,
            "too many pages show live data: close some",
        );
    };
    let (sender, pieces) = mpsc::channel(1);
    let (page, query) = (Arc::clone(page), query.to_owned());
    tokio::spawn(async move {
        // The names in the filter may have to be looked up.
        let work = if request::has_host_names(&query) {
            Work::Slow
        } else {
            Work::Quick
        };
        let Some(turn) = page.turns.take(work).await else {
            return;
        };
        let parsed = {
            let page = Arc::clone(&page);
            spawn_blocking(move || {
                let selection = request::selection(&query, &page.context.resolver(None));
                drop(turn);
                selection.map(Arc::new)
            })
            .await
        };
        match parsed {
            Ok(Ok(selection)) => send(&page, &selection, window, &sender, slot).await,
            Ok(Err(message)) => {
                let data = sockeye_output::json_string(&message);
                drop(sender.send(event("refused", 0, data.as_bytes()).into()).await);
            }
            Err(_) => {}
        }
    });
    events(pieces)
}

/// Sends events until the reader ends.
async fn send(
    page: &Arc<Page>,
    selection: &Arc<Selection>,
    window: Window,
    sender: &mpsc::Sender<Bytes>,
    _slot: OwnedSemaphorePermit,
) {
    let mut newest = page.history.moments.subscribe();
    newest.mark_changed();
    loop {
        let has_changed = timeout(SILENCE_MAX, newest.changed()).await;
        // The one before was taken.
        let Ok(place) = sender.reserve().await else {
            return;
        };
        match has_changed {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return,
            Err(_) => {
                place.send(Bytes::from_static(KEEP_ALIVE));
                continue;
            }
        }
        let sample = *newest.borrow_and_update();
        let Some(turn) = page.turns.take(Work::Quick).await else {
            return;
        };
        let rendered = {
            let (page, selection) = (Arc::clone(page), Arc::clone(selection));
            spawn_blocking(move || {
                let moment = page.history.moment(None);
                let rendered =
                    moment.and_then(|moment| render(&page, &moment, true, &selection, window, push_page));
                drop(turn);
                rendered
            })
            .await
        };
        match rendered {
            Ok(Ok(document)) => place.send(event("flows", sample, &document).into()),
            Ok(Err(_)) => place.send(Bytes::from_static(KEEP_ALIVE)),
            Err(_) => return,
        }
    }
}

/// Time after which a stream without a sample shows that it is there.
const SILENCE_MAX: Duration = Duration::from_secs(15);

//! From requests to answers. Everything is read; nothing here changes the host.

mod commands;
mod data;
mod fleet;
mod flows;
mod live;
mod request;
mod turns;

use crate::access::{Gate, Head, Verdict};
use crate::assets;
use crate::fleet::Fleet;
use crate::history::{History, NoMoment};
use crate::http::answer::{Answer, HTML, TEXT, error, redirect, refusal, whole};
use crate::http::query;
use crate::moments::Moment;
use hyper::body::{Body, Incoming};
use hyper::header::{AUTHORIZATION, COOKIE, HOST, HeaderName};
use hyper::http::request::Parts;
use hyper::{Method, Request, StatusCode};
use sockeye_http::Place;
use sockeye_query::context::QueryContext;
use sockeye_query::look_back::NamesOfTime;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use turns::Turns;

/// What all requests share.
pub(crate) struct Page {
    pub(crate) gate: Gate,
    pub(crate) history: History,
    pub(crate) context: Arc<QueryContext>,
    /// `None` without --fleet.
    pub(crate) fleet: Option<Fleet>,
    /// Flags of commands that list what is sampled.
    listing_words: Vec<String>,
    /// Streams of live data at the same time.
    streams: Arc<Semaphore>,
    /// Answers that are computed, and large ones, at the same time.
    turns: Turns,
}

impl Page {
    pub(crate) fn new(
        gate: Gate,
        history: History,
        context: Arc<QueryContext>,
        fleet: Option<Fleet>,
        listing_words: Vec<String>,
    ) -> Self {
        Self {
            listing_words,
            gate,
            history,
            context,
            fleet,
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
            turns: Turns::new(),
        }
    }

    /// Returns the names of a moment's time.
    pub(crate) fn names_of<'a>(&'a self, moment: Option<&'a Moment>) -> NamesOfTime<'a> {
        NamesOfTime {
            context: &self.context,
            netns_names: moment.and_then(|moment| moment.netns_names.as_ref()),
        }
    }
}

/// Answers a request.
pub(crate) async fn answer(page: Arc<Page>, request: Request<Incoming>) -> Answer {
    let size = request.body().size_hint().upper();
    if size.is_none_or(|bytes| bytes > BODY_BYTES_MAX) {
        return refusal(
            StatusCode::PAYLOAD_TOO_LARGE,
            "the body of the request is too large",
        );
    }
    let (head, body) = request.into_parts();
    let path = head.uri.path();
    let query = head.uri.query().unwrap_or_default();
    let sent = headers(&head);
    // A secret that is sent with a request is a guess as well: it is compared in its turn.
    let turn = match sent.authorization {
        Some(_) if page.gate.has_secret() => guess(&page).await,
        _ => None,
    };
    let verdict = page.gate.verdict(&sent);
    // Those that are logged in are served before others.
    if verdict != Verdict::Allowed
        && let Some(place) = head.extensions.get::<Arc<Place>>()
    {
        place.give_way();
    }
    match turn {
        Some(turn) if verdict == Verdict::Unknown => take_guess_time(turn).await,
        turn => drop(turn),
    }
    if verdict == Verdict::WrongHost {
        let url = page.gate.origin().url("/");
        return refusal(
            StatusCode::MISDIRECTED_REQUEST,
            &format!("this page is at {url}, under no other name"),
        );
    }
    match (&head.method, path) {
        (&Method::POST, "/login") if verdict != Verdict::OtherSite => return log_in(&page, body).await,
        (&Method::GET | &Method::HEAD, _) => {}
        _ => return refusal(StatusCode::METHOD_NOT_ALLOWED, "everything here is read with GET"),
    }
    if path == "/"
        && let Some(token) = query::field(query, "token")
    {
        // A preview of the link must not use it up.
        if head.method == Method::HEAD {
            return whole(StatusCode::OK, TEXT, "");
        }
        return open(&page, &token, verdict);
    }
    // They are the same for everyone, and part of the program.
    if let Some(asset) = assets::find(path) {
        return whole(StatusCode::OK, asset.media_type, asset.bytes);
    }
    match verdict {
        Verdict::Allowed => {}
        // A link to a state, from a wiki or a chat. The browser keeps the cookie back; the page, which is the same for everyone, then asks
        // with it.
        Verdict::OtherSite if path == "/" && is_navigation(&head) => {
            return whole(StatusCode::OK, HTML, assets::PAGE);
        }
        Verdict::OtherSite => {
            return refusal(StatusCode::FORBIDDEN, "pages of other sites may not ask for this");
        }
        Verdict::WrongHost | Verdict::Unknown => return unknown(&page, path),
    }
    match path {
        "/" => whole(StatusCode::OK, HTML, assets::PAGE),
        "/api/live" => live::stream(&page, query),
        _ => data::answer(&page, path, query).await,
    }
}

/// Turns the token of a one-time URL into a cookie.
fn open(page: &Arc<Page>, token: &str, verdict: Verdict) -> Answer {
    match page.gate.redeem(token) {
        Some(cookie) => {
            let page = Arc::clone(page);
            // A terminal may be stopped: on a thread of its own. Without standard output there is no further URL.
            let announce = move || drop(crate::announce::print_url(&page.gate));
            drop(thread::Builder::new().name("announce".to_owned()).spawn(announce));
            redirect("/", &cookie)
        }
        None if verdict == Verdict::Allowed => redirect("/", ""),
        None => refusal(
            StatusCode::UNAUTHORIZED,
            "this URL was used before, or is not the last one: sockeye serve has printed another",
        ),
    }
}

/// Answers who is not logged in.
fn unknown(page: &Page, path: &str) -> Answer {
    if page.gate.has_secret() && path == "/" {
        return whole(StatusCode::UNAUTHORIZED, HTML, assets::LOGIN);
    }
    refusal(
        StatusCode::UNAUTHORIZED,
        "open the URL that sockeye serve has printed: it works once, and gives the browser a cookie",
    )
}

/// Turns the secret, sent as a form, into a cookie.
async fn log_in(page: &Page, body: Incoming) -> Answer {
    // It comes before a login: a client that sends nothing more must not keep its connection.
    let form = tokio::time::timeout(BODY_TIMEOUT, read_body(body)).await;
    let form = form.ok().flatten();
    let secret = form.as_deref().and_then(|form| query::field(form, "secret"));
    let turn = guess(page).await;
    if let Some(cookie) = secret.and_then(|secret| page.gate.log_in(&secret)) {
        return redirect("/", &cookie);
    }
    if let Some(turn) = turn {
        take_guess_time(turn).await;
    }
    whole(StatusCode::UNAUTHORIZED, HTML, assets::LOGIN)
}

/// Waits for the turn to compare a secret: one guess a second.
async fn guess(page: &Page) -> Option<OwnedSemaphorePermit> {
    Arc::clone(page.gate.guesses()).acquire_owned().await.ok()
}

/// Keeps the turn for the time that a wrong guess costs, also if its client goes away early.
async fn take_guess_time(turn: OwnedSemaphorePermit) {
    let waiting = tokio::spawn(async move {
        tokio::time::sleep(GUESS_TIME).await;
        drop(turn);
    });
    drop(waiting.await);
}

/// Reads a body, which the server has limited; `None`: it is no text or broken.
async fn read_body(mut body: Incoming) -> Option<String> {
    let mut bytes = Vec::new();
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        bytes.extend_from_slice(frame.ok()?.data_ref()?);
    }
    String::from_utf8(bytes).ok()
}

fn headers(head: &Parts) -> Head<'_> {
    // Two of them are none: a proxy may look at the other.
    let text = |name: HeaderName| {
        let mut values = head.headers.get_all(name).iter();
        let value = values.next().filter(|_| values.next().is_none());
        value.and_then(|value| value.to_str().ok())
    };
    Head {
        host: text(HOST),
        cookies: text(COOKIE),
        authorization: text(AUTHORIZATION),
        fetch_site: text(HeaderName::from_static("sec-fetch-site")),
    }
}

/// Whether a browser opens a page of its own for this, not a part of another page.
fn is_navigation(head: &Parts) -> bool {
    let destination = head.headers.get("sec-fetch-dest");
    destination.is_some_and(|value| value == "document")
}

/// Answers why there is no moment.
fn no_moment(reason: &NoMoment) -> Answer {
    match reason {
        NoMoment::NotYet => error(StatusCode::SERVICE_UNAVAILABLE, "there is no sample yet"),
        NoMoment::Unknown(reason) => error(StatusCode::NOT_FOUND, reason),
    }
}

/// Returns an answer for an unknown path.
fn not_found() -> Answer {
    whole(StatusCode::NOT_FOUND, TEXT, "there is no such page\n")
}

/// Bytes of the body of a request: the form with the secret.
const BODY_BYTES_MAX: u64 = 4 << 10;
/// Time in which it has to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(5);
/// What a wrong secret costs.
const GUESS_TIME: Duration = Duration::from_secs(1);
/// Streams of live data.
const STREAMS_MAX: usize = 16;

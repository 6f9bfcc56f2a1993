//! Everything that is computed for an answer, on threads of its own.

use super::turns::{Work, may_be_large};
use super::{Page, commands, fleet, flows, no_moment, not_found, request};
use crate::http::answer::{Answer, JSON, error, in_place, marked_as_error, whole};
use crate::http::query::field;
use crate::output::{MomentsPage, push_map, push_moments, push_recorded_findings, push_step, push_timeline};
use crate::view::{self, MapBy};
use hyper::StatusCode;
use sockeye_console::envelope;
use std::sync::Arc;
use tokio::task::spawn_blocking;

/// Answers a request for data.
pub(super) async fn answer(page: &Arc<Page>, path: &str, query: &str) -> Answer {
    let answer: fn(&Page, &str) -> Answer = match path {
        "/api/flows" => flows::answer,
        "/api/moments" => moments,
        "/api/timeline" => timeline,
        "/api/step" => step,
        "/api/findings" => findings,
        "/api/map" => map,
        "/api/fleet" => fleet::known,
        "/api/fleet/map" => fleet::map,
        "/api/sockets" => commands::sockets,
        "/api/explain" => commands::explain,
        _ => return not_found(),
    };
    let place = if may_be_large(path, query) {
        let Some(place) = page.turns.place().await else {
            return error(
                StatusCode::SERVICE_UNAVAILABLE,
                "too many large answers are being read: try again",
            );
        };
        Some(place)
    } else {
        None
    };
    let Some(turn) = page.turns.take(work(page, path, query)).await else {
        return error(StatusCode::SERVICE_UNAVAILABLE, "the server ends");
    };
    let (page, query) = (Arc::clone(page), query.to_owned());
    let is_ok_wanted = field(&query, "errors").is_some_and(|errors| errors == "ok");
    let answered = spawn_blocking(move || {
        let answer = answer(&page, &query);
        drop(turn);
        answer
    });
    let mut answer = answered
        .await
        .unwrap_or_else(|_| error(StatusCode::INTERNAL_SERVER_ERROR, "the answer could not be made"));
    if is_ok_wanted && !answer.status().is_success() {
        answer = marked_as_error(answer);
    }
    match place {
        Some(place) => in_place(answer, place),
        None => answer,
    }
}

/// Returns how an answer is computed.
fn work(page: &Page, path: &str, query: &str) -> Work {
    let is_command = ["/api/sockets", "/api/explain"].contains(&path);
    let asks_server = path == "/api/fleet/map" && page.fleet.is_some();
    let time = request::time(query).unwrap_or_default();
    let is_recorded = page.history.store_of(time).is_some();
    let has_recorded = path == "/api/timeline" && field(query, "from").is_some();
    if is_command || asks_server || is_recorded || has_recorded || request::has_host_names(query) {
        Work::Slow
    } else {
        Work::Quick
    }
}

/// Answers which times are kept.
fn moments(page: &Page, _query: &str) -> Answer {
    let now = envelope::now();
    let moments = &page.history.moments;
    let mut out = Vec::new();
    push_moments(
        &mut out,
        &now,
        &MomentsPage {
            times_us: &moments.times_us(),
            recorded_us: page.history.recorded_span(),
            checks: &moments.check_marks(),
            gaps: &moments.gaps(now.time_us),
            interval: moments.interval(),
        },
    );
    whole(StatusCode::OK, JSON, out)
}

/// Answers sums over time.
fn timeline(page: &Page, query: &str) -> Answer {
    let now = envelope::now();
    let asked = request::filter(query, &page.context.resolver(None))
        .and_then(|filter| Ok((filter, request::times(query, now.time_us)?)));
    let (filter, times_us) = match asked {
        Ok(asked) => asked,
        Err(message) => return error(StatusCode::BAD_REQUEST, &message),
    };
    match page.history.stretch(times_us, &filter, now.time_us) {
        Err(message) => error(StatusCode::BAD_GATEWAY, &message),
        Ok(stretch) => {
            let mut out = Vec::new();
            let recorded_us = page.history.recorded_span();
            push_timeline(&mut out, &now, &stretch, recorded_us);
            whole(StatusCode::OK, JSON, out)
        }
    }
}

/// Answers which sample is some samples later or earlier.
fn step(page: &Page, query: &str) -> Answer {
    let by = field(query, "by").and_then(|by| by.parse().ok());
    let asked =
        request::time(query).and_then(|time| Ok((time, by.ok_or("by: expected a number of samples")?)));
    match asked.map(|(time, by)| page.history.step(time, by)) {
        Err(message) => error(StatusCode::BAD_REQUEST, &message),
        Ok(Err(message)) => error(StatusCode::BAD_GATEWAY, &message),
        Ok(Ok(time_us)) => {
            let mut out = Vec::new();
            push_step(&mut out, time_us);
            whole(StatusCode::OK, JSON, out)
        }
    }
}

/// Answers who talks to whom.
fn map(page: &Page, query: &str) -> Answer {
    let by = field(query, "by");
    let Some(by) = MapBy::from_name(by.as_deref().unwrap_or("owner")) else {
        return error(StatusCode::BAD_REQUEST, "by: expected owner, container or port");
    };
    let time = match request::time(query) {
        Ok(time) => time,
        Err(message) => return error(StatusCode::BAD_REQUEST, &message),
    };
    let moment = page.history.moment(time);
    let names = page.names_of(moment.as_deref().ok());
    let filter = match request::filter(query, &page.context.resolver_of_time(names.netns_names)) {
        Ok(filter) => filter,
        Err(message) => return error(StatusCode::BAD_REQUEST, &message),
    };
    let moment = match &moment {
        Ok(moment) => moment,
        Err(reason) => return no_moment(reason),
    };
    let map = view::map(moment, &filter, by);
    let mut out = Vec::new();
    push_map(&mut out, moment, &map, &names);
    whole(StatusCode::OK, JSON, out)
}

/// Answers the document of the last check at a time, or what one found that was recorded.
fn findings(page: &Page, query: &str) -> Answer {
    let time = match request::time(query) {
        Err(message) => return error(StatusCode::BAD_REQUEST, &message),
        Ok(time) => time,
    };
    let is_recorded = page.history.store_of(time).is_some();
    let in_memory = page.history.moments.checked_at(time).filter(|_| !is_recorded);
    if let Some(checked) = in_memory {
        return whole(StatusCode::OK, JSON, checked.document.clone());
    }
    let Some(time_us) = time else {
        // The first check takes its time: that is no error.
        return whole(StatusCode::NO_CONTENT, JSON, "");
    };
    // Before the first check in memory a recorder may have made one.
    let Some(store) = page.history.store() else {
        return error(StatusCode::NOT_FOUND, NOT_CHECKED);
    };
    match store.findings(time_us) {
        Err(reason) => error(StatusCode::NOT_FOUND, &reason),
        Ok(recorded) => {
            let mut out = Vec::new();
            push_recorded_findings(&mut out, &envelope::now(), &recorded);
            whole(StatusCode::OK, JSON, out)
        }
    }
}

const NOT_CHECKED: &str = "nothing was checked at that time";

//! Flows of a moment.

use super::{Page, no_moment, request};
use crate::history::NoMoment;
use crate::http::answer::{Answer, CSV, JSON, as_download, error, whole};
use crate::http::query::field;
use crate::moments::Moment;
use crate::output::{FlowsPage, push_csv, push_document, push_page};
use crate::view::{Selection, Window};
use hyper::StatusCode;

/// Answers with a part of the flows of a moment, or all of them as a file.
pub(super) fn answer(page: &Page, query: &str) -> Answer {
    let time = match request::time(query) {
        Ok(time) => time,
        Err(message) => return error(StatusCode::BAD_REQUEST, &message),
    };
    // Names of network namespaces are those of its time. A filter that is wrong is so at any time.
    let moment = page.history.moment(time);
    let names = page.names_of(moment.as_deref().ok());
    let asked = request::selection(query, &page.context.resolver_of_time(names.netns_names))
        .and_then(|selection| Ok((selection, request::window(query)?)));
    let (selection, window) = match asked {
        Ok(asked) => asked,
        Err(message) => return error(StatusCode::BAD_REQUEST, &message),
    };
    let moment = match &moment {
        Ok(moment) => moment,
        Err(reason) => return no_moment(reason),
    };
    let download = field(query, "download");
    let all = Window {
        offset: 0,
        limit: usize::MAX,
    };
    let answered = match download.as_deref() {
        None => render(page, moment, time.is_none(), &selection, window, push_page)
            .map(|body| whole(StatusCode::OK, JSON, body)),
        Some("csv") => render(page, moment, time.is_none(), &selection, all, push_csv)
            .map(|body| as_download(whole(StatusCode::OK, CSV, body), "flows.csv")),
        Some("json") => render(page, moment, time.is_none(), &selection, all, push_document)
            .map(|body| as_download(whole(StatusCode::OK, JSON, body), "flows.json")),
        Some(_) => return error(StatusCode::BAD_REQUEST, "download: expected json or csv"),
    };
    answered.unwrap_or_else(|reason| no_moment(&reason))
}

/// Returns a document about a moment. `is_newest`: it is shown as long as it is the last one.
///
/// # Errors
/// If it cannot be written.
pub(super) fn render(
    page: &Page,
    moment: &Moment,
    is_newest: bool,
    selection: &Selection,
    window: Window,
    push: impl FnOnce(&mut Vec<u8>, &FlowsPage<'_>) -> std::io::Result<()>,
) -> Result<Vec<u8>, NoMoment> {
    let names = &page.names_of(Some(moment));
    let selected = selection.of(moment, names);
    let mut out = Vec::new();
    let pushed = push(
        &mut out,
        &FlowsPage {
            moment,
            selected: &selected,
            window,
            names,
            is_newest,
        },
    );
    // Memory takes everything.
    pushed.map(|()| out).map_err(|_| NoMoment::NotYet)
}

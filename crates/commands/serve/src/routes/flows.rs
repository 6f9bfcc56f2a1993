//! Flows of a moment.

use super::{Page, no_moment, request};
use crate::history::NoMoment;
use crate::http::answer::{Answer, CSV, JSON, as_download, error, whole};
use crate::http::query::field;
use crate::output::{FlowsPage, push_csv, push_document, push_page};
use crate::view::{Selection, Window};
use hyper::StatusCode;

/// Answers with a part of the flows of a moment, or all of them as a file.
pub(super) fn answer(page: &Page, query: &str) -> Answer {
    let asked = request::time(query).and_then(|time| {
        let selection = request::selection(query, &page.context)?;
        Ok((time, selection))
    });
    let (time, selection) = match asked {
        Ok(asked) => asked,
        Err(message) => return error(StatusCode::BAD_REQUEST, &message),
    };
    let download = field(query, "download");
    let all = Window {
        offset: 0,
        limit: usize::MAX,
    };
    let answered = match download.as_deref() {
        None => render(page, time, &selection, request::window(query), push_page)
            .map(|body| whole(StatusCode::OK, JSON, body)),
        Some("csv") => render(page, time, &selection, all, push_csv)
            .map(|body| as_download(whole(StatusCode::OK, CSV, body), "flows.csv")),
        Some("json") => render(page, time, &selection, all, push_document)
            .map(|body| as_download(whole(StatusCode::OK, JSON, body), "flows.json")),
        Some(_) => return error(StatusCode::BAD_REQUEST, "download: expected json or csv"),
    };
    answered.unwrap_or_else(|reason| no_moment(&reason))
}

/// Returns a document about a moment.
///
/// # Errors
/// If there is none.
pub(super) fn render(
    page: &Page,
    time: Option<u64>,
    selection: &Selection,
    window: Window,
    push: impl FnOnce(&mut Vec<u8>, &FlowsPage<'_>) -> std::io::Result<()>,
) -> Result<Vec<u8>, NoMoment> {
    let moment = page.history.moment(time)?;
    let names = &*page.context;
    let selected = selection.of(&moment, names);
    let mut out = Vec::new();
    let pushed = push(
        &mut out,
        &FlowsPage {
            moment: &moment,
            selected: &selected,
            window,
            names,
            is_newest: time.is_none(),
        },
    );
    // Memory takes everything.
    pushed.map(|()| out).map_err(|_| NoMoment::NotYet)
}

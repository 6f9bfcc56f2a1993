//! Answers that other commands give: connections, one connection, explanations.

use super::{Page, request};
use crate::http::answer::{Answer, CSV, JSON, as_download, error, whole};
use crate::http::query::field;
use crate::program::{self, CommandOutput, Limits};
use hyper::StatusCode;
use sockeye_output::date::push_rfc3339_us;
use std::time::Duration;

/// Answers with all connections that match a filter, now or at a recorded time: as CSV, or one or some with every known value as
/// JSON.
pub(super) fn sockets(page: &Page, query: &str) -> Answer {
    let asked = request::filter_text(query).and_then(|filter| Ok((filter, request::time(query)?)));
    let (filter, time) = match asked {
        Ok(asked) => asked,
        Err(message) => return error(StatusCode::BAD_REQUEST, &message),
    };
    let past = match past_words(page, time) {
        Ok(words) => words,
        Err(message) => return error(StatusCode::NOT_FOUND, message),
    };
    let download = field(query, "download");
    let Some((format, form, media_type)) = form(download.as_deref(), field(query, "details").is_some())
    else {
        return error(StatusCode::BAD_REQUEST, "download: expected json or csv");
    };
    let mut words = vec!["sockets", "--format", format];
    words.extend(form);
    words.extend(page.listing_words.iter().map(String::as_str));
    words.extend(past.iter().map(String::as_str));
    words.extend(["--", &filter]);
    let answer = answered(program::run(&words, LISTING_LIMITS), media_type);
    match download {
        // An error is shown, not saved.
        Some(_) if answer.status().is_success() => as_download(answer, &format!("sockets.{format}")),
        _ => answer,
    }
}

/// Returns the words by which a command lists a recorded time. Memory has flows, not connections: the store has to have them.
fn past_words(page: &Page, time: Option<u64>) -> Result<Vec<String>, &'static str> {
    let Some(time_us) = time else {
        return Ok(Vec::new());
    };
    let path = page.history.store_path();
    let path = path.ok_or("connections of the past are not recorded: `sockeye record` does")?;
    let path = path.to_str().ok_or("the path of the store is not UTF-8")?;
    let mut at = String::new();
    push_rfc3339_us(&mut at, time_us);
    Ok(["--at", &at, "--store", path].map(str::to_owned).to_vec())
}

/// Returns the format of connections, the words that ask for it, and its media type; `None` if there is no such download.
fn form(
    download: Option<&str>,
    is_detailed: bool,
) -> Option<(&'static str, [&'static str; 3], &'static str)> {
    Some(match download {
        None if is_detailed => ("json", ["-tanepimo", "--top", DETAILED_ROWS], JSON),
        None | Some("csv") => ("csv", ["-tnp", "--columns", COLUMNS], CSV),
        Some("json") => ("json", ["-tnp", "--columns", COLUMNS], JSON),
        Some(_) => return None,
    })
}

/// Answers what a message, a counter, a setting or a finding means.
pub(super) fn explain(_page: &Page, query: &str) -> Answer {
    let Some(text) = field(query, "text").filter(|text| text.len() <= TEXT_BYTES_MAX && !text.contains('\0'))
    else {
        return error(StatusCode::BAD_REQUEST, "text: expected what to explain");
    };
    answered(
        program::run(&["explain", "--format", "json", "--", &text], EXPLAIN_LIMITS),
        JSON,
    )
}

/// Returns what a command wrote, or its error.
fn answered(output: Result<CommandOutput, String>, media_type: &'static str) -> Answer {
    match output {
        // `explain` also has an answer when it knows only something similar.
        Ok(output)
            if output.code == Some(0) || (output.code == Some(1) && output.stdout.starts_with(b"{")) =>
        {
            whole(StatusCode::OK, media_type, output.stdout)
        }
        // A wrong filter, for example.
        Ok(output) if output.code == Some(2) => error(StatusCode::BAD_REQUEST, output.notes.trim_end()),
        Ok(output) => error(StatusCode::BAD_GATEWAY, output.notes.trim_end()),
        Err(message) => error(StatusCode::GATEWAY_TIMEOUT, &message),
    }
}

/// Columns of the table of connections.
const COLUMNS: &str = "netns,state,recv_queue_bytes,send_queue_bytes,local,peer,rtt_us,total_retrans_segs,bytes_acked,bytes_received,cookie,owners";
/// Connections with all values in one answer.
const DETAILED_ROWS: &str = "20";
/// The longest text to explain.
const TEXT_BYTES_MAX: usize = 1024;

/// What a listing may take: some 100,000 connections.
const LISTING_LIMITS: Limits = Limits {
    time: Duration::from_secs(15),
    bytes: 48 << 20,
};
/// What an explanation may take.
const EXPLAIN_LIMITS: Limits = Limits {
    time: Duration::from_secs(5),
    bytes: 4 << 20,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn download_has_the_format_that_was_asked_for() {
        for is_detailed in [false, true] {
            let format = |download| form(Some(download), is_detailed).map(|(format, ..)| format);
            assert_eq!(
                ["json", "csv", "xml"].map(format),
                [Some("json"), Some("csv"), None]
            );
        }
        let formats = [true, false].map(|is_detailed| form(None, is_detailed).map(|(format, ..)| format));
        assert_eq!(formats, [Some("json"), Some("csv")]);
    }
}

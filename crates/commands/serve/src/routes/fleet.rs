//! Answers about many hosts.

use super::{Page, request};
use crate::fleet::FleetQuestion;
use crate::http::answer::{Answer, JSON, error, whole};
use crate::http::query::field;
use crate::output::push_fleet_map;
use crate::view::FleetBy;
use hyper::StatusCode;
use sockeye_console::envelope;
use sockeye_fleet::Filter;
use sockeye_fleet::question::TimeRange;

/// Answers whether there is a server that knows many hosts.
pub(super) fn known(page: &Page, _query: &str) -> Answer {
    match &page.fleet {
        // That is no error.
        None => whole(StatusCode::NO_CONTENT, JSON, ""),
        Some(_) => whole(StatusCode::OK, JSON, r#"{"type":"fleet"}"#),
    }
}

/// Answers which services, or hosts, use which.
pub(super) fn map(page: &Page, query: &str) -> Answer {
    let Some(fleet) = &page.fleet else {
        return error(StatusCode::NOT_FOUND, "sockeye serve was started without --fleet");
    };
    let now = envelope::now();
    let asked = match question(query, now.time_us) {
        Ok(asked) => asked,
        Err(message) => return error(StatusCode::BAD_REQUEST, &message),
    };
    let range = asked.range;
    match fleet.map(asked) {
        Err(message) => error(StatusCode::BAD_GATEWAY, &message),
        Ok(map) => {
            let mut out = Vec::new();
            push_fleet_map(&mut out, &now, &range, &map);
            whole(StatusCode::OK, JSON, out)
        }
    }
}

fn question(query: &str, now_us: u64) -> Result<FleetQuestion, String> {
    let by = field(query, "by");
    let by = FleetBy::from_name(by.as_deref().unwrap_or("service")).ok_or("by: expected service or host")?;
    let (from_us, until_us) = request::times(query, now_us)?;
    let text = request::filter_text(query)?;
    let filter = (!text.trim().is_empty())
        .then(|| Filter::parse(&text))
        .transpose();
    Ok(FleetQuestion {
        range: TimeRange {
            since_s: from_us / 1_000_000,
            until_s: until_us.div_ceil(1_000_000).max(from_us / 1_000_000 + 1),
            now_s: now_us / 1_000_000,
        },
        filter: filter.map_err(|error| error.to_string())?,
        by,
    })
}

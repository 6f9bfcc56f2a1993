//! What a request for data asks, from the fields of its URL.

use crate::http::query::field;
use crate::view::{Selection, Window};
use sockeye_filter::Resolve;
use sockeye_output::SortKey;
use std::net::IpAddr;

/// Returns the time that is asked for, in microseconds since 1970; `None`: now.
///
/// # Errors
/// If it is no such number.
pub(super) fn time(query: &str) -> Result<Option<u64>, String> {
    match field(query, "at").filter(|at| !at.is_empty()) {
        None => Ok(None),
        Some(at) => match at.parse() {
            Ok(time_us) => Ok(Some(time_us)),
            Err(_) => Err("at: expected microseconds since 1970".to_owned()),
        },
    }
}

/// Returns the times between which something is asked for; without them all that memory has.
///
/// # Errors
/// If they are no such numbers, or in the wrong order.
pub(super) fn times(query: &str, now_us: u64) -> Result<(u64, u64), String> {
    let time = |name: &str, default: u64| match field(query, name).filter(|text| !text.is_empty()) {
        None => Ok(default),
        Some(text) => text
            .parse()
            .map_err(|_| format!("{name}: expected microseconds since 1970")),
    };
    let until_us = time("until", now_us)?.min(now_us);
    let from_us = time("from", now_us.saturating_sub(MEMORY_US))?;
    if from_us > until_us {
        return Err("from: expected a time before that of until".to_owned());
    }
    Ok((from_us, until_us))
}

/// Returns the filter and the order. Names in the filter are looked up, which may take a while.
///
/// # Errors
/// The error in the filter with the place where it is, or an unknown column.
pub(super) fn selection(query: &str, resolver: &impl Resolve) -> Result<Selection, String> {
    let sort = field(query, "sort").filter(|sort| !sort.is_empty());
    let sort = SortKey::parse(sort.as_deref().unwrap_or(SORT)).map_err(|error| error.message())?;
    Ok(Selection {
        filter: filter(query, resolver)?,
        sort,
    })
}

/// Returns the filter alone.
///
/// # Errors
/// The error in it with the place where it is.
pub(super) fn filter(query: &str, resolver: &impl Resolve) -> Result<sockeye_filter::Filter, String> {
    let text = filter_text(query)?;
    if host_names(&text) > HOST_NAMES_MAX {
        return Err(format!(
            "the filter has more than {HOST_NAMES_MAX} names of hosts"
        ));
    }
    sockeye_filter::parse(&text, resolver).map_err(|error| error.render(&text))
}

/// Whether names in the filter have to be looked up.
pub(super) fn has_host_names(query: &str) -> bool {
    field(query, "filter").is_some_and(|text| host_names(&text) > 0)
}

/// Returns how many words of a filter may be names of hosts: those behind `src`, `dst` and the like that are no address.
fn host_names(text: &str) -> usize {
    let mut words = text
        .split(|of: char| of.is_whitespace() || "()=!".contains(of))
        .filter(|word| !word.is_empty());
    let mut count = 0;
    while let Some(word) = words.next() {
        if ["src", "local", "dst", "peer"].contains(&word) {
            let host = words.next().unwrap_or_default();
            let is_address =
                host.starts_with(['[', ':', '*']) || !host.bytes().any(|byte| byte.is_ascii_alphabetic());
            count += usize::from(!is_address && host.parse::<IpAddr>().is_err());
        }
    }
    count
}

/// Returns the text of the filter.
///
/// # Errors
/// If it is too long.
pub(super) fn filter_text(query: &str) -> Result<String, String> {
    let text = field(query, "filter").unwrap_or_default();
    if text.len() > FILTER_BYTES_MAX {
        return Err(format!("the filter is longer than {FILTER_BYTES_MAX} bytes"));
    }
    // No command can be given one.
    if text.contains('\0') {
        return Err("the filter has a NUL byte".to_owned());
    }
    Ok(text)
}

/// Returns the rows that are asked for: [`ROWS_MAX`] at most.
///
/// # Errors
/// If they are no numbers.
pub(super) fn window(query: &str) -> Result<Window, String> {
    let number = |name: &str, default: usize| match field(query, name).filter(|text| !text.is_empty()) {
        None => Ok(default),
        Some(text) => text
            .parse()
            .map_err(|_| format!("{name}: expected a number of rows")),
    };
    Ok(Window {
        offset: number("offset", 0)?,
        limit: number("limit", ROWS)?.min(ROWS_MAX),
    })
}

/// The order of flows without another.
const SORT: &str = "-connections";
/// Rows without another number.
const ROWS: usize = 200;
/// The most rows of one answer.
const ROWS_MAX: usize = 1000;
/// Time that memory keeps, in microseconds.
const MEMORY_US: u64 = 15 * 60 * 1_000_000;
/// Names of hosts in a filter: each may take seconds.
const HOST_NAMES_MAX: usize = 4;
/// The longest filter.
const FILTER_BYTES_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::{Window, host_names, window};

    #[track_caller]
    fn check(filter: &str, expected: usize) {
        assert_eq!(host_names(filter), expected, "{filter}");
    }

    #[test]
    fn rows_that_are_no_number_are_refused() {
        let rows = |offset, limit| Ok(Window { offset, limit });
        assert_eq!(window(""), rows(0, 200));
        assert_eq!(window("limit=&offset="), rows(0, 200));
        assert_eq!(window("limit=5&offset=10"), rows(10, 5));
        assert_eq!(window("limit=0"), rows(0, 0));
        assert_eq!(window("limit=5000"), rows(0, 1000));
        for query in [
            "limit=abc",
            "limit=-1",
            "limit=1.5",
            "limit=99999999999999999999",
            "offset=1x",
        ] {
            let name = query.split('=').next().unwrap();
            assert_eq!(
                window(query),
                Err(format!("{name}: expected a number of rows")),
                "{query}"
            );
        }
    }

    #[test]
    fn names_of_hosts_are_counted() {
        check("", 0);
        check("dport = :443 and owner = nginx", 0);
        check("src 10.0.0.1 and dst 10.0.0.0/8", 0);
        check("src ::1 or dst [fe80::1]:22 or dst fe80::1", 0);
        check("src db1 or (dst web1.example:80)", 2);
        check("not src = db1", 1);
    }
}

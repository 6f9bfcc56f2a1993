//! Small tables for tests.

use super::sample::Sample;
use super::table::{Cell, Heading, Row, SocketId, Table};
use super::view::View;
use sockeye_filter::Resolve;
use sockeye_model::Cookie;
use sockeye_output::listing::SortValue;
use sockeye_output::table::Tint;
use std::net::IpAddr;
use std::time::Duration;

/// Knows the service `https`, no other name but those of hosts, which are looked up later.
pub(crate) struct Services;

impl Resolve for Services {
    fn service(&self, name: &str) -> Option<u16> {
        (name == "https").then_some(443)
    }

    fn host(&self, _: &str) -> Vec<IpAddr> {
        vec![[127, 0, 0, 1].into()]
    }
}

/// A row with a name and a number; its socket has the cookie `id`.
pub(crate) fn row(id: u64, name: &str, number: Option<u64>) -> Row {
    let cell = |text: String, value| Cell {
        text: text.into(),
        value,
        tint: Tint::None,
    };
    let text = number.map(|number| number.to_string()).unwrap_or_default();
    Row {
        id,
        cells: Box::new([
            cell(name.to_owned(), Some(SortValue::Text(name.as_bytes().into()))),
            cell(text, number.map(SortValue::Number)),
        ]),
        filter: Some(format!("cookie = {id}").into()),
        socket: Some(SocketId {
            netns: None,
            cookie: Cookie(id),
        }),
        capture: Some(format!("port {id}").into()),
        no_keepalive: None,
        text: None,
        explained: None,
        rtt_us: number.and_then(|number| u32::try_from(number).ok()),
    }
}

/// A table of such rows.
pub(crate) fn table(rows: &[Row]) -> Table {
    let heading = |name, text, is_right| Heading { name, text, is_right };
    Table {
        headings: vec![heading("name", "Name", false), heading("number", "Number", true)],
        rows: rows.to_vec(),
        left_out: 0,
    }
}

/// A sample of the view of sockets.
pub(crate) fn sample(number: u64, rows: &[Row]) -> Sample {
    Sample {
        number,
        at: Duration::from_secs(2 * number),
        clock: format!("12:00:{:02}", 2 * number).into(),
        view: Some(View::Sockets),
        table: table(rows),
        interval: Duration::from_secs(2),
        ..Sample::default()
    }
}

//! Namespaces as JSON follow their schema.

use super::fixtures::{self, LOSSY};
use super::schema_check::{check, check_columns, check_keys};
use crate::output::{Namespaces, NetnsGaps, layout};
use sockeye_output::listing::ListingWriter;
use sockeye_output::{Format, Summary};

const NAMESPACES: &str = include_str!("../../../../../docs/schema/namespaces.schema.json");

fn namespaces(format: Format, summary: &Summary<'_>, gaps: &NetnsGaps) -> String {
    let mut out = Vec::new();
    let mut listing = ListingWriter::new(&mut out, layout(format, None, false));
    listing.begin().unwrap();
    for namespace in [fixtures::full_namespace(), fixtures::bare_namespace()] {
        listing.row(&&namespace).unwrap();
    }
    listing
        .finish_with(summary, |fields| gaps.push_fields(fields))
        .unwrap();
    String::from_utf8(out).unwrap()
}

const GAPS: NetnsGaps = NetnsGaps {
    stale_names: 1,
    unread_mount_namespaces: 2,
    processes_hidden: true,
    sockets_seen: false,
};

/// Listings of namespaces have no such keys: each is entered, or counted as unreadable, and there is no `--top`.
const NETNS_SUMMARY: Summary<'_> = Summary {
    coverage: None,
    rows_left_out: 0,
    ..LOSSY
};

#[test]
fn namespaces_follow_their_schema() {
    for (summary, gaps) in [(NETNS_SUMMARY, GAPS), (Summary::default(), NetnsGaps::default())] {
        let document = namespaces(Format::Json, &summary, &gaps);
        let lines = namespaces(Format::Jsonl, &summary, &gaps);
        check(NAMESPACES, "namespace", &document, &lines);
    }
}

#[test]
fn schema_describes_exactly_the_keys_that_are_written() {
    let documents = [Format::Json, Format::Jsonl].map(|format| namespaces(format, &NETNS_SUMMARY, &GAPS));
    check_keys(NAMESPACES, &documents);
}

#[test]
fn every_column_has_its_fields_in_the_schema() {
    check_columns::<Namespaces>(NAMESPACES, "namespace");
}

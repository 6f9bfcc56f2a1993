//! Flows as JSON follow their schema.

use super::fixtures::{self, AllNames, EvilNames, LOSSY};
use super::flows::row;
use super::schema_check::{check, check_columns, check_keys};
use crate::flow::{FlowLayout, Flows};
use crate::listing::ListingWriter;
use crate::{Format, Summary};
use sockeye_model::{ConnectionTotals, Direction, Names, NoNames, Workload, WorkloadId, WorkloadKind};

const FLOWS: &str = include_str!("../../../../docs/schema/flows.schema.json");

fn flows(format: Format, names: &dyn Names, summary: &Summary<'_>) -> String {
    let mut out = Vec::new();
    let layout = FlowLayout {
        format,
        sample: Some(2),
        ..FlowLayout::default()
    };
    let mut listing = ListingWriter::new(&mut out, layout.listing());
    listing.begin().unwrap();
    // The place of a peer is known of one address only.
    let of_one_peer = fixtures::flow(fixtures::key(Direction::Active), 1);
    for flow in [fixtures::full_flow(), fixtures::bare_flow(), of_one_peer] {
        listing.row(&row(&flow, names, false)).unwrap();
    }
    for kind in WorkloadKind::ALL {
        let mut flow = fixtures::bare_flow();
        let id = WorkloadId(1);
        flow.key.workload = Some(Workload { kind, id });
        listing.row(&row(&flow, names, false)).unwrap();
    }
    listing.finish(summary).unwrap();
    String::from_utf8(out).unwrap()
}

/// A summary with everything that flows can have.
fn counted() -> Summary<'static> {
    Summary {
        connections: Some(ConnectionTotals {
            short: Some(2),
            lost_events: Some(0),
            ..ConnectionTotals::default()
        }),
        ..LOSSY
    }
}

#[test]
fn flows_follow_their_schema() {
    for names in [&NoNames as &dyn Names, &AllNames, &EvilNames] {
        for summary in [counted(), Summary::default()] {
            let (document, lines) = (
                flows(Format::Json, names, &summary),
                flows(Format::Jsonl, names, &summary),
            );
            check(FLOWS, "flow", &document, &lines);
        }
    }
}

#[test]
fn schema_describes_exactly_the_keys_that_are_written() {
    let mut documents = Vec::new();
    for format in [Format::Json, Format::Jsonl] {
        for names in [&NoNames as &dyn Names, &AllNames] {
            documents.push(flows(format, names, &counted()));
        }
    }
    check_keys(FLOWS, &documents);
}

#[test]
fn every_column_has_its_fields_in_the_schema() {
    check_columns::<Flows>(FLOWS, "flow");
}

//! Sockets as JSON follow their schema, and the schema follows the model.

use super::fixtures::{self, AllNames, AllWorkloads, EvilNames, LOSSY};
use super::schema_check::{check, check_columns, check_keys, compiled};
use super::schema_file;
use crate::socket::Sockets;
use crate::{Format, SocketLayout, SocketWriter, SortKey, Summary};
use sockeye_model::{Entry, Losses, Memory, MptcpInfo, Names, NoNames, SocketRates, TcpInfo};
use std::collections::BTreeSet;

const SOCKETS: &str = include_str!("../../../../docs/schema/sockets.schema.json");

fn sockets(
    format: Format,
    sort: Option<SortKey<Sockets>>,
    names: &dyn Names,
    summary: &Summary<'_>,
) -> String {
    let owners = fixtures::odd_owners();
    let mut out = Vec::new();
    let layout = SocketLayout {
        format,
        sort,
        sample: Some(2),
        ..SocketLayout::default()
    };
    let mut listing = SocketWriter::new(&mut out, layout);
    listing.begin().unwrap();
    for (nth, socket) in fixtures::sockets().iter().enumerate() {
        let owners = [None, Some(owners.as_slice()), Some(&[])][nth % 3];
        let entry = Entry {
            workloads: Some(&AllWorkloads),
            ..Entry::with_owners(socket, owners)
        };
        let rates = SocketRates {
            sent_bytes_per_s: Some(0.5),
            received_bytes_per_s: Some(12_345.0),
            retrans_segs_per_s: Some(0.0),
        };
        listing.row_with_rates(&entry, names, Some(rates)).unwrap();
    }
    listing
        .finish_with(summary, |object| {
            let mut changes = object.object("changes");
            for name in ["sockets_opened", "sockets_closed", "interval_ms"] {
                changes.number(name, Some(1_u64));
            }
            changes.end();
        })
        .unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn sockets_follow_their_schema() {
    let sort = SortKey::parse("-cookie").unwrap();
    for names in [&NoNames as &dyn Names, &AllNames, &EvilNames] {
        for (sort, summary) in [(None, LOSSY), (Some(sort), Summary::default())] {
            let document = sockets(Format::Json, sort, names, &summary);
            let lines = sockets(Format::Jsonl, sort, names, &summary);
            check(SOCKETS, "socket", &document, &lines);
        }
    }
}

#[test]
fn wrong_document_fails_validation() {
    let validator = compiled(&schema_file::load(SOCKETS));
    let document = sockets(Format::Json, None, &AllNames, &LOSSY);
    assert!(validator.is_valid(&serde_json::from_str(&document).unwrap()));
    for (from, to) in [
        ("\"rtt_us\":", "\"rtt\":"),
        ("\"established\"", "\"ESTAB\""),
        ("\"port\":80,", ""),
        ("\"overruns\":3", "\"overruns\":-3"),
        ("\"cookie\":", "\"no_such_key\":"),
    ] {
        let wrong = document.replacen(from, to, 1);
        assert_ne!(wrong, document, "{from} is not there");
        assert!(
            !validator.is_valid(&serde_json::from_str(&wrong).unwrap()),
            "{from} -> {to} is let through"
        );
    }
}

#[test]
fn the_schemas_have_every_field_of_the_model_and_no_other() {
    let schema = schema_file::load(SOCKETS);
    let names = |pointer: &str| -> BTreeSet<String> {
        let properties = schema.pointer(pointer).unwrap().as_object().unwrap();
        properties.keys().cloned().collect()
    };
    let tcp: BTreeSet<String> = TcpInfo::NAMES.iter().map(ToString::to_string).collect();
    assert_eq!(names("/$defs/tcp_info/properties"), tcp);
    let mut mptcp = BTreeSet::new();
    MptcpInfo::default().visit(|name, _| {
        mptcp.insert(name.to_owned());
    });
    assert_eq!(names("/$defs/mptcp_info/properties"), mptcp);
    let losses: BTreeSet<String> = Losses::default()
        .counters()
        .map(|(name, _)| name.to_owned())
        .into();
    assert_eq!(names("/$defs/losses/properties"), losses);
    // The names of the others are those of `Debug`: there is no list of them in the model.
    let memory = format!("{:?}", Memory::default());
    for name in names("/$defs/memory/properties") {
        assert!(memory.contains(&format!("{name}: ")), "{name}");
    }
}

#[test]
fn schema_describes_exactly_the_keys_that_are_written() {
    let mut documents = Vec::new();
    for format in [Format::Json, Format::Jsonl] {
        for names in [&NoNames as &dyn Names, &AllNames] {
            documents.push(sockets(format, None, names, &LOSSY));
        }
    }
    check_keys(SOCKETS, &documents);
}

#[test]
fn every_column_has_its_fields_in_the_schema() {
    check_columns::<Sockets>(SOCKETS, "socket");
}

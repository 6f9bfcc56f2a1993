//! What is written follows the schemas in docs/schema, and these follow the model.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // the crate is pure, its tests are not
#![allow(clippy::unwrap_used, reason = "a test that panics has failed, as it should")]

mod made;

use jsonschema::{Draft, JSONSchema};
use made::{AllNames, EvilNames};
use serde_json::{Value, json};
use sockeye_model::{Entry, Losses, Memory, MptcpInfo, Names, NoNames, TcpInfo};
use sockeye_render::{
    Coverage, FlowLayout, FlowWriter, Format, NetnsGaps, NetnsLayout, NetnsWriter, SocketLayout,
    SocketWriter, SortKey, Summary,
};
use std::collections::BTreeSet;

const SOCKETS: &str = include_str!("../../../docs/schema/sockets.schema.json");
const NAMESPACES: &str = include_str!("../../../docs/schema/namespaces.schema.json");
const FLOWS: &str = include_str!("../../../docs/schema/flows.schema.json");

const LOSSY: Summary<'_> = Summary {
    losses: Losses {
        repeated_dumps: 1,
        incomplete_dumps: 2,
        overruns: 3,
        truncated_messages: 4,
        broken_records: 5,
        unlisted_protocols: 9,
        unsettled_chains: 1,
        unreadable_processes: u64::MAX,
        vanished_processes: 6,
        unreadable_namespaces: 7,
    },
    sources: &[("tcp", "sock_diag"), ("udp", "pro\x1bcfs")],
    coverage: Some(Coverage::Held),
    interrupted: true,
};

fn sockets(format: Format, sort: Option<SortKey>, names: &dyn Names, summary: &Summary<'_>) -> String {
    let owners = made::odd_owners();
    let mut out = Vec::new();
    let layout = SocketLayout {
        format,
        sort,
        ..SocketLayout::default()
    };
    let mut listing = SocketWriter::new(&mut out, layout);
    listing.begin().unwrap();
    for (nth, socket) in made::sockets().iter().enumerate() {
        let owners = [None, Some(owners.as_slice()), Some(&[])][nth % 3];
        listing.row(&Entry { socket, owners }, names).unwrap();
    }
    listing.finish(summary).unwrap();
    String::from_utf8(out).unwrap()
}

fn flows(format: Format, names: &dyn Names, summary: &Summary<'_>) -> String {
    let mut out = Vec::new();
    let mut listing = FlowWriter::new(
        &mut out,
        FlowLayout {
            format,
            sample: Some(2),
            ..FlowLayout::default()
        },
    );
    listing.begin().unwrap();
    for flow in [made::full_flow(), made::bare_flow()] {
        listing.row(&flow, names).unwrap();
    }
    listing.finish(summary).unwrap();
    String::from_utf8(out).unwrap()
}

fn namespaces(format: Format, summary: &Summary<'_>, gaps: &NetnsGaps) -> String {
    let mut out = Vec::new();
    let layout = NetnsLayout {
        format,
        ..NetnsLayout::default()
    };
    let mut listing = NetnsWriter::new(&mut out, layout);
    listing.begin().unwrap();
    for namespace in [made::full_namespace(), made::bare_namespace()] {
        listing.row(&namespace).unwrap();
    }
    listing.finish(summary, gaps).unwrap();
    String::from_utf8(out).unwrap()
}

const GAPS: NetnsGaps = NetnsGaps {
    remains: 1,
    unread_mount_namespaces: 2,
    processes_hidden: true,
    sockets_seen: false,
};

/// Listings of namespaces have no such key: each is entered, or counted as unreadable.
const NETNS_SUMMARY: Summary<'_> = Summary {
    coverage: None,
    ..LOSSY
};

fn compiled(schema: &Value) -> JSONSchema {
    JSONSchema::options()
        .with_draft(Draft::Draft202012)
        .compile(schema)
        .unwrap()
}

/// The whole document against the schema, each line against the row or the summary.
fn check(schema: &str, row: &str, document: &str, lines: &str) {
    let schema: Value = serde_json::from_str(schema).unwrap();
    let part = |name: &str| {
        let part = json!({"$ref": format!("#/$defs/{name}"), "$defs": schema["$defs"]});
        compiled(&part)
    };
    let (whole, row, last) = (compiled(&schema), part(row), part("summary_line"));
    let assert = |validator: &JSONSchema, text: &str| {
        let value: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
        let errors = validator.validate(&value).err().into_iter().flatten();
        let errors: Vec<String> = errors.map(|e| format!("{e} at {}", e.instance_path)).collect();
        assert!(errors.is_empty(), "{errors:#?}\n{text}");
    };
    assert(&whole, document);
    assert!(!lines.is_empty());
    for line in lines.lines() {
        assert(
            if line.starts_with("{\"summary\"") {
                &last
            } else {
                &row
            },
            line,
        );
    }
}

#[test]
fn sockets_follow_their_schema() {
    let sort = SortKey::parse("-cookie").unwrap();
    for names in [&NoNames as &dyn Names, &AllNames, &EvilNames] {
        for (sort, summary) in [(None, LOSSY), (Some(sort), Summary::default())] {
            let document = sockets(Format::Json, sort, names, &summary);
            let lines = sockets(Format::Jsonl, sort, names, &summary);
            assert_eq!(lines.contains("{\"summary\":"), summary == LOSSY);
            check(SOCKETS, "socket", &document, &lines);
        }
    }
}

#[test]
fn flows_follow_their_schema() {
    for names in [&NoNames as &dyn Names, &AllNames, &EvilNames] {
        for summary in [LOSSY, Summary::default()] {
            let (document, lines) = (
                flows(Format::Json, names, &summary),
                flows(Format::Jsonl, names, &summary),
            );
            check(FLOWS, "flow", &document, &lines);
        }
    }
}

#[test]
fn namespaces_follow_their_schema() {
    for (summary, gaps) in [(NETNS_SUMMARY, GAPS), (Summary::default(), NetnsGaps::default())] {
        let document = namespaces(Format::Json, &summary, &gaps);
        let lines = namespaces(Format::Jsonl, &summary, &gaps);
        assert_eq!(lines.contains("{\"summary\":"), gaps == GAPS);
        check(NAMESPACES, "namespace", &document, &lines);
    }
}

#[test]
fn a_wrong_document_does_not_follow_the_schema() {
    let validator = compiled(&serde_json::from_str(SOCKETS).unwrap());
    let document = sockets(Format::Json, None, &AllNames, &LOSSY);
    assert!(validator.is_valid(&serde_json::from_str(&document).unwrap()));
    for (from, to) in [
        ("\"rtt_us\":", "\"rtt\":"),
        ("\"established\"", "\"ESTAB\""),
        ("\"port\":80,", ""),
        ("\"overruns\":3", "\"overruns\":-3"),
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
    let schema: Value = serde_json::from_str(SOCKETS).unwrap();
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
    for name in names("/$defs/socket/properties/memory/properties") {
        assert!(memory.contains(&format!("{name}: ")), "{name}");
    }
}

#[test]
fn every_key_of_the_schemas_is_written_and_every_written_key_is_described() {
    let written = |documents: &[String]| {
        let mut keys = BTreeSet::new();
        for document in documents {
            for line in document.lines().filter(|line| line.starts_with('{')) {
                gather_keys(
                    &serde_json::from_str(line.trim_end_matches(',')).unwrap_or_default(),
                    &mut keys,
                );
            }
            gather_keys(&serde_json::from_str(document).unwrap_or_default(), &mut keys);
        }
        keys
    };
    let all = [&NoNames as &dyn Names, &AllNames];
    let formats = [Format::Json, Format::Jsonl];
    let both = |render: &dyn Fn(Format, &dyn Names) -> String| {
        let each = formats
            .iter()
            .flat_map(|format| all.iter().map(|names| render(*format, *names)));
        written(&each.collect::<Vec<_>>())
    };
    for (schema, keys) in [
        (
            SOCKETS,
            both(&|format, names| sockets(format, None, names, &LOSSY)),
        ),
        (FLOWS, both(&|format, names| flows(format, names, &LOSSY))),
        (
            NAMESPACES,
            both(&|format, _| namespaces(format, &NETNS_SUMMARY, &GAPS)),
        ),
    ] {
        let mut described = BTreeSet::new();
        gather_properties(&serde_json::from_str(schema).unwrap(), &mut described);
        assert_eq!(described, keys);
    }
}

fn gather_keys(value: &Value, keys: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                keys.insert(key.clone());
                gather_keys(value, keys);
            }
        }
        Value::Array(values) => values.iter().for_each(|value| gather_keys(value, keys)),
        _ => {}
    }
}

/// Names of all properties; checks on the way that each is described and no object is open.
fn gather_properties(schema: &Value, names: &mut BTreeSet<String>) {
    let Value::Object(fields) = schema else {
        if let Value::Array(values) = schema {
            values.iter().for_each(|value| gather_properties(value, names));
        }
        return;
    };
    if let Some(properties) = fields.get("properties").and_then(Value::as_object) {
        assert_eq!(fields["additionalProperties"], json!(false), "{fields:?}");
        for (name, property) in properties {
            let is_told = property.get("description").is_some() || property.get("$ref").is_some();
            assert!(is_told, "{name} has no description");
            if property["type"] == "integer" || property["type"] == "number" {
                assert!(
                    property["description"].as_str().unwrap().contains("Unit: "),
                    "{name} has no unit"
                );
            }
            names.insert(name.clone());
            gather_properties(property, names);
        }
    }
    for (_, value) in fields.iter().filter(|(key, _)| *key != "properties") {
        gather_properties(value, names);
    }
}

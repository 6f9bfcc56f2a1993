//! `sockeye events --summary SECS`.

use super::events::{Running, connect, events};
use crate::fixtures::schema_file;
use jsonschema::{Draft, JSONSchema};
use rustix::process::Signal;
use serde_json::Value;
use sockeye_lab::{Lab, Namespace, Skip, need};
use std::time::{Duration, Instant};

/// Makes connections for longer than some intervals. Returns how many ends were closed.
fn connect_for_a_while(namespace: &Namespace) -> u64 {
    let begin = Instant::now();
    let mut closed = 0;
    while begin.elapsed() < Duration::from_millis(700) {
        connect(namespace, "many", "127.0.0.1", 0);
        closed += 400;
    }
    closed
}

#[test]
fn each_summary_has_what_happened_since_the_last() {
    need!(sockeye_lab::program("python3"));
    let lab = need!(Lab::new("es_jsonl"));
    let namespace = lab.namespace("alone");
    let running = need!(Running::start(&format!(
        "-n -N {} --format jsonl --summary 0.2",
        namespace.name()
    )));
    let expected = connect_for_a_while(&namespace);
    let (outcome, _) = running.end();
    let schema = schema_file::load(include_str!("../../../../../docs/schema/events.schema.json"));
    let schema = JSONSchema::options()
        .with_draft(Draft::Draft202012)
        .compile(&schema)
        .expect("a schema");
    let lines: Vec<Value> = outcome
        .ok()
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert!(lines.len() >= 3, "{lines:#?}");
    let (mut closed, mut lives, mut read) = (0, 0, 0);
    for (nth, line) in lines.iter().enumerate() {
        assert!(schema.is_valid(line), "{line:#}");
        let summary = &line["summary"];
        assert_eq!(
            (&line["type"], &summary["sample"]),
            (&"events_summary".into(), &(nth + 1).into())
        );
        let is_last = nth + 1 == lines.len();
        let millis = summary["interval_ms"].as_u64().expect("a number");
        assert!(is_last || millis >= 200, "{line:#}");
        assert_eq!(summary["interrupted"], is_last);
        let number = |value: &Value| value.as_u64().expect("a number");
        let records = &summary["records"];
        assert_eq!(
            number(&records["read"]) + number(&records["lost"]) + number(&records["left_out"]),
            number(&records["made"])
        );
        closed += number(&summary["counts"]["close_events"]);
        read += number(&records["read"]);
        let of_line: u64 = summary["lives"]
            .as_array()
            .expect("an array")
            .iter()
            .map(|life| number(&life["count"]))
            .sum();
        assert_eq!(of_line, number(&summary["counts"]["close_events"]));
        lives += of_line;
    }
    assert_eq!((closed, lives), (expected, expected), "{lines:#?}");
    // They also open.
    assert!(read > 2 * expected, "{lines:#?}");
}

/// Of what is not watched it is not known that there was none.
#[test]
fn kinds_that_are_not_watched_have_no_numbers() {
    need!(sockeye_lab::program("python3"));
    let lab = need!(Lab::new("es_kinds"));
    let namespace = lab.namespace("alone");
    let summary_of = |options: &str| {
        let running = Running::start(&format!("-n -N {} {options}", namespace.name()))?;
        connect(&namespace, "transfer", "127.0.0.1", 0);
        Ok::<_, Skip>(running.end())
    };
    let (jsonl, _) = need!(summary_of("--kinds close --summary --format jsonl"));
    let summary: Value = serde_json::from_str(jsonl.ok().lines().last().expect("a line")).expect("JSON");
    let summary = &summary["summary"];
    let counts = summary["counts"].as_object().expect("an object");
    assert_eq!(counts.keys().collect::<Vec<_>>(), ["close_events"], "{summary:#}");
    assert_eq!(counts["close_events"], 2, "{summary:#}");
    let owner = &summary["by_owner"][0];
    assert!(
        owner["closed"] == 2 && owner["sent_bytes"].is_u64(),
        "{summary:#}"
    );
    assert!(
        owner.get("opened").is_none() && owner.get("retransmitted").is_none(),
        "{summary:#}"
    );
    let (text, _) = need!(summary_of("--kinds close --summary"));
    assert!(text.ok().contains("\n2 closed; no event was lost"), "{text}");
    let (_, notes) = need!(summary_of("--kinds retransmit"));
    assert!(notes.contains("sockeye: 0 retransmissions; no event"), "{notes}");
    let (_, notes) = need!(summary_of("--kinds zero-window"));
    assert!(notes.contains("sockeye: 0 zero-windows; no event"), "{notes}");
}

#[test]
fn summary_as_csv_has_a_line_for_each_group() {
    need!(sockeye_lab::program("python3"));
    let lab = need!(Lab::new("es_csv"));
    let namespace = lab.namespace("alone");
    for interval in ["", "0.3"] {
        let running = need!(Running::start(&format!(
            "-n -N {} --format csv --summary {interval}",
            namespace.name()
        )));
        let expected = connect_for_a_while(&namespace);
        let (outcome, _) = running.end();
        let mut lines = outcome.ok().lines();
        let header: Vec<&str> = lines.next().expect("a header").split(',').collect();
        let column = |name: &str| {
            let place = header.iter().position(|one| *one == name);
            place.unwrap_or_else(|| panic!("{name}: {header:?}"))
        };
        let rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
        assert!(rows.iter().all(|row| row.len() == header.len()), "{outcome}");
        let sum = |group: &str, key: &str, name: &str| -> u64 {
            rows.iter()
                .filter(|row| row[column("group")] == group && row[column("key")].starts_with(key))
                .map(|row| row[column(name)].parse::<u64>().expect("a number"))
                .sum()
        };
        assert_eq!(sum("owner", "python3", "closed"), expected, "{outcome}");
        assert_eq!(sum("peer", "127.0.0.1", "opened"), expected, "{outcome}");
        assert_eq!(sum("end", "close fin", "count"), expected, "{outcome}");
        assert_eq!(sum("life", "", "count"), expected, "{outcome}");
        let last: usize = rows.last().expect("a row")[column("sample")]
            .parse()
            .expect("a number");
        assert_eq!(last > 1, !interval.is_empty(), "{outcome}");
    }
}

#[test]
fn words_after_summary_are_a_filter() {
    need!(sockeye_lab::program("python3"));
    let lab = need!(Lab::new("es_filter"));
    let namespace = lab.namespace("alone");
    for (filter, closed) in [("dst 127.0.0.1", 2), ("dst 127.0.0.2", 0)] {
        let running = need!(Running::start(&format!(
            "-n -N {} --summary {filter}",
            namespace.name()
        )));
        connect(&namespace, "transfer", "127.0.0.1", 0);
        let (outcome, _) = running.end();
        assert!(
            outcome.ok().contains(&format!("{closed} closed")),
            "{filter}: {outcome}"
        );
    }
    let running = need!(Running::start(&format!(
        "-n -N {} --summary 0.2",
        namespace.name()
    )));
    connect_for_a_while(&namespace);
    let (outcome, _) = running.end();
    let headings = outcome.ok().lines().filter(|line| line.ends_with(" s")).count();
    assert!(headings >= 3, "{outcome}");
}

#[test]
fn lost_events_make_numbers_lower_bounds() {
    need!(sockeye_lab::program("python3"));
    let lab = need!(Lab::new("es_lost"));
    let namespace = lab.namespace("alone");
    for format in ["table", "jsonl", "csv"] {
        let running = need!(Running::start(&format!(
            "-n -N {} --format {format} --summary --ring 4096",
            namespace.name()
        )));
        running.signal(Signal::STOP);
        connect(&namespace, "many", "127.0.0.1", 0);
        running.signal(Signal::CONT);
        let (outcome, _) = running.end();
        if format == "jsonl" {
            let (_, summary) = events(&outcome);
            let names: Vec<&str> = summary["at_least"]
                .as_array()
                .expect("an array")
                .iter()
                .map(|name| name.as_str().expect("text"))
                .collect();
            for name in [
                "open_events",
                "close_events",
                "opened",
                "closed",
                "sent_bytes",
                "lives",
            ] {
                assert!(names.contains(&name), "{name}: {names:?}");
            }
            // None was lost, since there was none.
            assert!(!names.contains(&"failed"), "{names:?}");
        } else {
            let bounds = match format {
                "table" => [" >=", "numbers with >= may be larger"],
                _ => ["opened closed sent_bytes received_bytes", ",count\r\n"],
            };
            for text in bounds {
                assert!(outcome.ok().contains(text), "{text}: {outcome}");
            }
        }
    }
    let running = need!(Running::start(&format!(
        "-n -N {} --format jsonl --summary",
        namespace.name()
    )));
    connect(&namespace, "many", "127.0.0.1", 0);
    let (outcome, _) = running.end();
    let (_, summary) = events(&outcome);
    assert_eq!(summary["at_least"], serde_json::json!([]), "{summary:#}");
}

#[test]
fn owners_of_any_name_are_distinct_and_harmless() {
    need!(sockeye_lab::program("python3"));
    let lab = need!(Lab::new("es_named"));
    let namespace = lab.namespace("alone");
    for (format, text) in [
        ("table", "\n\\x9b31m\\xff"),
        ("csv", ",owner,\\x9b31m\\xff,"),
        ("jsonl", "\"comm_hex\":\"9b33316dff\""),
    ] {
        let running = need!(Running::start(&format!(
            "-n -N {} --format {format} --summary",
            namespace.name()
        )));
        connect(&namespace, "named", "127.0.0.1", 0);
        let (outcome, _) = running.end();
        let out = format!("\n{}", outcome.ok());
        assert!(out.contains(text), "{format}: {outcome}");
    }
}

#[test]
fn header_is_as_wide_as_the_first_rows() {
    need!(sockeye_lab::program("python3"));
    let lab = need!(Lab::new("es_header"));
    let namespace = lab.namespace("alone");
    // The listener is an event that is not shown, and comes first.
    let running = need!(Running::start(&format!(
        "-n -N {} --kinds close",
        namespace.name()
    )));
    connect(&namespace, "transfer", "127.0.0.1", 0);
    let (outcome, _) = running.end();
    let mut lines = outcome.ok().lines();
    let place = |line: Option<&str>, word: &str| line.and_then(|line| line.find(word)).expect("a column");
    let (header, row) = (lines.next(), lines.next());
    assert_eq!(place(header, "Event"), place(row, "close"), "{outcome}");
    assert_eq!(place(header, "Local"), place(row, "127."), "{outcome}");
}

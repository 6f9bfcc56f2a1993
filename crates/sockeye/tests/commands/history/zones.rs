//! Times as text: zones, and the forms of rows.

use super::Store;
use crate::fixtures::binary::{command, run};
use sockeye_lab::Skip;
use std::process::Command;

/// `date` is the peer: it reads the same zones.
#[test]
fn local_times_are_those_of_tz_as_date_has_them() {
    if !std::path::Path::new("/usr/share/zoneinfo/America/New_York").exists() {
        return Skip::new("no tzdata here").print();
    }
    let store = Store::new("zones");
    store.succeed("record --once");
    for zone in [
        "Europe/Berlin",
        "America/New_York",
        ":America/New_York",
        "Asia/Kathmandu",
        "EST5EDT",
        "EST5",
        "CET-1CEST",
        "CET-1CEST,M3.5.0,M10.5.0/3",
        "<+03>-3",
        "/usr/share/zoneinfo/America/New_York",
        "",
    ] {
        for day in ["2026-01-15", "2020-07-15"] {
            let mut listing = command();
            let words = ["flows", "--at", &format!("{day} 12:30"), "--store", &store.path()];
            let outcome = run(listing.args(words).env("TZ", zone));
            let error = String::from_utf8_lossy(&outcome.stderr).into_owned();
            let date = Command::new("date")
                .args(["-d", &format!("{day} 12:30"), "+%Y-%m-%d %H:%M:%S %:z"])
                .env("TZ", zone)
                .output()
                .unwrap();
            let expected = String::from_utf8(date.stdout).unwrap();
            assert!(
                error.contains(&format!("nothing is recorded of {}", expected.trim_end())),
                "{zone}: {error}, date: {expected}"
            );
            assert!(!error.contains("is not known here"), "{zone}: {error}");
        }
    }
    let mut listing = command();
    let words = ["flows", "--at", "2020-07-15 12:30", "--store", &store.path()];
    let outcome = run(listing.args(words).env("TZ", "Nowhere/City"));
    let error = String::from_utf8_lossy(&outcome.stderr);
    assert_eq!(
        error.matches("TZ=Nowhere/City is not known here").count(),
        1,
        "{error}"
    );
    assert!(error.contains("12:30:00 +00:00"), "{error}");
}

/// Programs read the times of rows as they read `time` of the same document; people read local time.
#[test]
fn times_of_rows_are_rfc_3339_for_programs() {
    let store = Store::new("row-times");
    store.succeed("record --once");
    let row = &store.rows("history list")[0];
    for key in ["from", "to"] {
        let time = row[key].as_str().unwrap();
        assert!(
            time.len() == 27 && time.as_bytes()[10] == b'T' && time.ends_with('Z'),
            "{row}"
        );
    }
    let csv = store.succeed("history list --format csv");
    assert!(csv.contains(row["from"].as_str().unwrap()), "{csv}");
    let mut table = command();
    let words = ["history", "list", "--store", &store.path()];
    let outcome = run(table.args(words).env("TZ", "EST5"));
    let table = String::from_utf8_lossy(&outcome.stdout).into_owned();
    assert!(table.contains(" -05:00"), "{table}");
}

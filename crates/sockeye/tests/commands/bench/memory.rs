//! `sockeye bench memory`: every size is reported, in few columns; an interrupted run is marked as partial.

use crate::fixtures::binary::wait_for_sigint_handler;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::process::{Command, Output, Stdio};

#[test]
fn every_size_is_reported() {
    let json = json(&["--sizes", "64,100,4Ki-8Ki", "--repeats", "3", "-d", "0.2"]);
    assert!(
        json["settings"]["libc"].as_str().unwrap().contains("libc") || json["settings"]["libc"] == "musl"
    );
    let rates = json["rates"].as_array().unwrap();
    for function in ["memset", "memcpy", "memmove", "overlap"] {
        let own: Vec<&Value> = rates
            .iter()
            .filter(|row| row["function"] == function && row["method"] == "libc")
            .collect();
        let sizes: Vec<u64> = own
            .iter()
            .map(|row| row["size_bytes"].as_u64().unwrap())
            .collect();
        assert_eq!(sizes, [64, 100, 4096, 4871, 5793, 6889, 8192], "{function}");
        for row in own {
            let rate = |key: &str| row[key].as_f64().unwrap();
            assert_eq!(row["repeats"], 3);
            // Nothing that computes is slower than that.
            assert!(rate("bytes_per_s") > 1e6, "{row}");
            assert!(rate("lowest_bytes_per_s") <= rate("bytes_per_s"), "{row}");
            assert!(rate("highest_bytes_per_s") >= rate("bytes_per_s"), "{row}");
        }
    }
    if cfg!(target_arch = "x86_64") {
        for method in ["rep", "nt"] {
            assert!(
                rates
                    .iter()
                    .any(|row| row["function"] == "memset" && row["method"] == method)
            );
        }
    }
    assert!(
        json["sentences"]
            .as_array()
            .unwrap()
            .iter()
            .any(|one| one["code"] == "which-libc")
    );
    assert!(json.get("partial").is_none_or(Value::is_null), "{json}");
}

#[test]
fn table_fits_into_80_columns() {
    let output = bench(&[
        "--methods",
        "memset",
        "--sizes",
        "64-64Ki",
        "--repeats",
        "1",
        "-d",
        "0.1",
    ]);
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let rows: Vec<&str> = text
        .lines()
        .skip_while(|line| !line.starts_with("size"))
        .take_while(|line| !line.is_empty())
        .collect();
    assert_eq!(rows.len(), 12, "{text}");
    assert!(rows.iter().all(|row| row.chars().count() <= 80), "{text}");
    assert!(!text.contains("memcpy"), "{text}");
}

#[test]
fn interrupted_run_reports_a_partial_result() {
    let arguments = ["--sizes", "64-1Mi", "--repeats", "1000", "-d", "600", "--json"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_sockeye"));
    command.args(["bench", "memory"]).args(arguments);
    let child = command.stdout(Stdio::piped()).spawn().unwrap();
    let pid = Pid::from_child(&child);
    // The handler is there before the first measurement.
    wait_for_sigint_handler(child.id());
    kill_process(pid, Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["partial"]["code"], "interrupted", "{json}");
    assert!(json["rates"].is_array());
}

#[test]
fn wrong_options_are_explained() {
    for (arguments, words) in [
        (&["--sizes", "63"][..], "64"),
        (&["--sizes", "1Ki,x"], "size"),
        (&["--sizes", "8Ki-4Ki"], "begins above its end"),
        (&["--sizes", "900T"], "available"),
        (&["--methods", "memchr"], "memchr"),
        (&["--repeats", "0"], "repeats"),
        (&["-d", "0"], "0"),
    ] {
        let output = bench(arguments);
        let outcome = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {outcome}");
        assert!(outcome.contains(words), "{arguments:?}: {outcome}");
        assert!(output.stdout.is_empty());
    }
}

fn json(arguments: &[&str]) -> Value {
    let output = bench(&[arguments, &["--json"]].concat());
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn bench(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sockeye"));
    command
        .args(["bench", "memory"])
        .args(arguments)
        .output()
        .unwrap()
}

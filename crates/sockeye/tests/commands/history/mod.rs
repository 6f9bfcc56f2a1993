//! `record`, `history` and `--at`: what was recorded is what was there, also after the recorder was killed.

mod checks;
mod ending;
mod errors;
mod killed;
mod namespaces;
mod narrow;
mod power_loss;
mod ranges;
mod zones;

use crate::fixtures::binary::{Outcome, command, run};
use crate::fixtures::envelope::rows;
use crate::fixtures::schema_file;
use jsonschema::{Draft, JSONSchema};
use serde_json::Value;
use sockeye_lab::Skip;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant, UNIX_EPOCH};

const SCHEMA: &str = include_str!("../../../../../docs/schema/history.schema.json");

/// A store in a folder of its own, which is removed in the end.
struct Store {
    folder: PathBuf,
}

impl Store {
    fn new(test: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("sockeye-history-{}-{test}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("create a folder");
        Self { folder }
    }

    fn path(&self) -> String {
        self.folder.join("record.db").to_string_lossy().into_owned()
    }

    /// Runs the binary with this store.
    #[track_caller]
    fn run(&self, words: &str) -> Outcome {
        run(command().args(words.split(' ')).args(["--store", &self.path()]))
    }

    #[track_caller]
    fn succeed(&self, words: &str) -> String {
        let outcome = self.run(words);
        let error = String::from_utf8_lossy(&outcome.stderr);
        assert_eq!(outcome.code, Some(0), "{words}: {error}");
        String::from_utf8(outcome.stdout).expect("UTF-8")
    }

    /// Starts a recorder with a short interval.
    fn record(&self) -> Recorder {
        let mut command = command();
        command.args([
            "record",
            "--interval",
            "0.05",
            "--check-interval",
            "0.2",
            "--store",
            &self.path(),
        ]);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Recorder(command.spawn().expect("the program starts"))
    }

    /// Rows of JSON lines; none if the recorder has not created the store yet.
    #[track_caller]
    fn rows(&self, words: &str) -> Vec<Value> {
        let outcome = self.run(&format!("{words} --format jsonl"));
        if outcome.code != Some(0) {
            return Vec::new();
        }
        rows(&String::from_utf8_lossy(&outcome.stdout))
    }

    /// Number of samples that are kept.
    fn samples(&self) -> u64 {
        let kept = self.rows("history list");
        kept.iter().filter_map(|row| row["samples"].as_u64()).sum()
    }

    /// Waits until more samples are kept than there were.
    fn wait_for_more_than(&self, before: u64) -> u64 {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let samples = self.samples();
            if samples > before {
                return samples;
            }
            assert!(Instant::now() < deadline, "no sample within a minute");
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A recorder that is killed at the end.
struct Recorder(Child);

impl Drop for Recorder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A connection of this process to itself, and the port that it was made to.
fn connection() -> (TcpListener, TcpStream, TcpStream, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let client = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    let (server, _) = listener.accept().expect("a connection");
    (listener, client, server, port)
}

#[track_caller]
fn check_schema(document: &str) {
    let schema = JSONSchema::options()
        .with_draft(Draft::Draft202012)
        .compile(&schema_file::load(SCHEMA))
        .expect("a schema");
    let value: Value = serde_json::from_str(document).expect("JSON");
    if let Err(errors) = schema.validate(&value) {
        panic!("{:?}", errors.map(|error| error.to_string()).collect::<Vec<_>>());
    }
}

#[test]
fn listing_of_a_recorded_moment_equals_the_one_of_then() {
    let store = Store::new("moment");
    let (listener, client, server, port) = connection();
    let flows = format!("flows -np --format jsonl dport = :{port} or sport = :{port}");
    let listening = format!("sockets -tlnp --format jsonl sport = :{port}");
    let now = |line: &str| {
        let outcome = run(command().args(line.split(' ')));
        rows(&String::from_utf8_lossy(&outcome.stdout))
    };
    store.succeed("record --once");
    let (flows_then, listening_then) = (now(&flows), now(&listening));
    assert_eq!((flows_then.len(), listening_then.len()), (2, 1));
    drop((listener, client, server));
    assert_eq!(now(&listening).len(), 0);
    let ends = |rows: Vec<Value>, keys: &[&str]| -> Vec<Vec<Value>> {
        let of_row = |row: &Value| keys.iter().map(|key| row[*key].clone()).collect();
        rows.iter().map(of_row).collect()
    };
    let keys = ["local", "direction", "peer", "connections", "owners"];
    let recorded = rows(&store.succeed(&format!("flows --at now {}", &flows[6..])));
    assert_eq!(ends(recorded, &keys), ends(flows_then, &keys));
    let keys = [
        "netid", "state", "local", "peer", "recv_q", "send_q", "owners", "inode", "uid",
    ];
    let recorded = rows(&store.succeed(&format!("sockets --at now {}", &listening[8..])));
    assert_eq!(ends(recorded, &keys), ends(listening_then, &keys));
    let by_port = store.succeed(&format!(
        "flows -n --group-by port --at now dport = :{port} --format csv"
    ));
    assert!(by_port.contains(&port.to_string()), "{by_port}");
    let document: Value = serde_json::from_str(&store.succeed("flows --at now --format json")).expect("JSON");
    assert_eq!(document["sources"][0]["source"], "store");
}

#[test]
fn times_without_samples_are_errors_that_say_what_there_is() {
    let store = Store::new("times");
    let outcome = store.run("flows --at now");
    assert_eq!(outcome.code, Some(1));
    assert!(String::from_utf8_lossy(&outcome.stderr).contains("`sockeye record` records"));
    store.succeed("record --once");
    let outcome = store.run("flows --at 2001-01-01");
    assert_eq!(outcome.code, Some(1));
    assert!(String::from_utf8_lossy(&outcome.stderr).contains("the first sample is of"));
    for words in [
        "flows --at soon",
        "history top --since now",
        "record --max-size 1",
        "flows --at now --watch 1",
    ] {
        assert_eq!(store.run(words).code, Some(2), "{words}");
    }
}

#[test]
fn history_follows_its_schema() {
    let store = Store::new("schema");
    let (_listener, _client, _server, port) = connection();
    store.succeed("record --once --interval 60");
    // In whole seconds, after the first sample and before the second.
    let first = UNIX_EPOCH.elapsed().expect("after 1970").as_secs() + 1;
    while UNIX_EPOCH.elapsed().expect("after 1970") < Duration::from_secs(first + 1) {
        std::thread::yield_now();
    }
    store.succeed("record --once --interval 60");
    for words in [
        "history list --format json",
        "history top --format json",
        "history top --by port --format json --top 1",
        &format!("history diff @{first} now --format json"),
        "history timeline --since 1m --points 9 --format json",
    ] {
        check_schema(&store.succeed(words));
    }
    let backwards = store.run(&format!("history diff now @{first}"));
    assert!(backwards.failed(2).contains("FROM is "), "{backwards:?}");
    let sums = rows(&store.succeed("history export --format jsonl"));
    assert!(sums.iter().any(|row| row["port"] == port), "{sums:?}");
    let parquet = store.folder.join("sums.parquet");
    store.succeed(&format!(
        "history export --format parquet -o {}",
        parquet.display()
    ));
    check_parquet(&parquet, &sums);
    let copy = store.folder.join("copy.db");
    store.succeed(&format!("history export --format sqlite -o {}", copy.display()));
    let list = run(command().args(["history", "list", "--store"]).arg(&copy));
    assert_eq!(list.code, Some(0));
    let picture = store.folder.join("timeline.svg");
    let text = store.succeed(&format!(
        "history timeline --since 1m --points 9 --svg {}",
        picture.display()
    ));
    let svg = std::fs::read_to_string(picture).expect("a picture");
    assert!(svg.starts_with("<svg") && svg.contains("Retrans"), "{svg}");
    // The store is younger than a minute: it is no gap that nothing was recorded before.
    assert!(text.contains("Connections") && !text.contains("Gaps"), "{text}");
    let note = store.run("history timeline --since 1m --points 9").stderr;
    let note = String::from_utf8_lossy(&note);
    assert!(note.contains("the timeline begins there"), "{note}");
    let check: Value = serde_json::from_str(&store.succeed("check --at now --format json")).expect("JSON");
    assert!(check["findings"].is_array(), "{check}");
}

#[test]
fn second_recorder_is_refused() {
    let store = Store::new("second");
    let _recorder = store.record();
    store.wait_for_more_than(0);
    let outcome = store.run("record --once");
    // A service is not started again after that.
    assert_eq!(outcome.code, Some(2));
    assert!(String::from_utf8_lossy(&outcome.stderr).contains("another `sockeye record`"));
}

/// Compares a Parquet file, as pyarrow reads it, with the rows of an export.
fn check_parquet(file: &Path, sums: &[Value]) {
    let program = "import json, sys, pyarrow.parquet as pq\nt = pq.read_table(sys.argv[1])\n\
                   print(json.dumps([{k: v for k, v in r.items() if k != 'start_time'} for r in t.to_pylist()]))\n\
                   print(t.schema.field('start_time').type)";
    let read = std::process::Command::new("python3")
        .args(["-c", program])
        .arg(file)
        .output()
        .expect("python3");
    let error = String::from_utf8_lossy(&read.stderr);
    if error.contains("No module named") {
        return Skip::new("pyarrow is not installed: the Parquet file is not read").print();
    }
    assert!(read.status.success(), "{error}");
    let text = String::from_utf8_lossy(&read.stdout);
    let (table, kind) = text.trim().split_once('\n').expect("two lines");
    assert_eq!(kind, "timestamp[ms, tz=UTC]");
    let table: Vec<Value> = serde_json::from_str(table).expect("JSON");
    assert_eq!(table.len(), sums.len());
    for (row, sum) in table.iter().zip(sums) {
        for (name, value) in row.as_object().expect("a row") {
            // What is absent has no key in JSON lines.
            assert_eq!(
                value,
                sum.get(name).unwrap_or(&Value::Null),
                "{name}: {row} {sum}"
            );
        }
    }
}

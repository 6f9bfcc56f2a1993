//! `export clickhouse` and `fleet`: hosts send to ClickHouse (chdb behind a small HTTP server), whatever fails between them, and the
//! questions are answered from what they sent.

mod deployment;
mod engine;
mod host;
mod page;
mod questions;
mod recorded;
mod tls;

use crate::fixtures::binary::{Outcome, command, run};
use engine::Engine;
use host::{Connection, SAMPLES, SimulatedHost, begin_ms};
use sockeye_lab::{Skip, need, wait_within};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Duration;

/// A folder that is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("sockeye-fleet-{}-{test}", std::process::id()));
        std::fs::create_dir_all(&path).expect("create a folder");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A process that is killed at the end.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server with the tables, and the hosts that send to it.
struct Fleet {
    engine: Engine,
    web: SimulatedHost,
    db: SimulatedHost,
    begin_ms: u64,
    folder: Folder,
}

/// A web server's connection to the database, as it sees it.
const TO_DATABASE: Connection = Connection {
    cookie: 10,
    local: ([10, 0, 0, 1], 40_000),
    peer: ([10, 0, 0, 2], 5_432),
    owner: "webshop",
    sent: 1_000,
    received: 5_000,
    retrans: 1,
    rtt_us: 900,
    unread: 0,
};

/// The same, as the database sees it.
const FROM_WEB: Connection = Connection {
    cookie: 20,
    local: ([10, 0, 0, 2], 5_432),
    peer: ([10, 0, 0, 1], 40_000),
    owner: "postgres",
    sent: 5_000,
    received: 1_000,
    retrans: 2,
    rtt_us: 840,
    unread: 0,
};

/// An idle connection of the web server to itself.
const TO_ITSELF: Connection = Connection {
    cookie: 11,
    local: ([127, 0, 0, 1], 40_001),
    peer: ([127, 0, 0, 1], 6_379),
    owner: "webshop",
    sent: 0,
    received: 0,
    retrans: 0,
    rtt_us: 20,
    unread: 0,
};

/// A client that sends no rows of its own, by telnet.
const FROM_OUTSIDE: Connection = Connection {
    cookie: 21,
    local: ([10, 0, 0, 2], 23),
    peer: ([192, 0, 2, 9], 50_000),
    owner: "telnetd",
    sent: 10,
    received: 20,
    retrans: 0,
    rtt_us: 30_000,
    unread: 0,
};

/// Samples with a difference to the one before. The last interval is over, too, though no sample follows it.
const SENT_SAMPLES: u64 = SAMPLES - 1;

impl Fleet {
    fn new(test: &str) -> Result<Self, Skip> {
        let database = [FROM_WEB, FROM_OUTSIDE];
        Self::of(test, &[TO_DATABASE, TO_ITSELF], &[(5_432, 3), (23, 0)], &database)
    }

    /// Returns one with these connections of both hosts; `listeners` of the database: port, and connections that wait.
    fn of(
        test: &str,
        web: &[Connection],
        listeners: &[(u16, u32)],
        database: &[Connection],
    ) -> Result<Self, Skip> {
        let folder = Folder::new(test);
        let engine = Engine::start(&folder.0)?;
        let begin_ms = begin_ms();
        let fleet = Self {
            web: SimulatedHost::record(&folder.0, "web1", begin_ms, &[], web),
            db: SimulatedHost::record(&folder.0, "db1", begin_ms, listeners, database),
            engine,
            begin_ms,
            folder,
        };
        let outcome = fleet.ask("schema --apply --hosts 10");
        assert_eq!(outcome.code, Some(0), "{outcome}");
        Ok(fleet)
    }

    /// Runs `sockeye fleet` with these words.
    fn ask(&self, words: &str) -> Outcome {
        let url = self.engine.url();
        run(command()
            .arg("fleet")
            .args(words.split(' '))
            .args(["--url", &url]))
    }

    #[track_caller]
    fn send(&self, host: &SimulatedHost) {
        let outcome = run(host.export(&self.engine.url()).arg("--once"));
        assert_eq!(outcome.code, Some(0), "{outcome}");
    }

    /// Starts an exporter that goes on.
    fn start(&self, host: &SimulatedHost) -> Process {
        let mut exporter = host.export(&self.engine.url());
        Process(
            exporter
                .stderr(Stdio::null())
                .spawn()
                .expect("the program starts"),
        )
    }

    /// Returns what a table of flows has of a host: bytes sent and received, segments, connections opened.
    #[track_caller]
    fn sums(&self, table: &str, host: &str) -> String {
        self.engine.query(&format!(
            "SELECT sum(sent_bytes), sum(received_bytes), sum(retrans_segs), sum(opened) FROM {table} WHERE host = '{host}'"
        ))
    }

    /// Asserts that each table has each row once.
    #[track_caller]
    fn check_sums(&self) {
        let sums = |connections: &[Connection]| {
            let sum =
                |value: fn(&Connection) -> u64| SENT_SAMPLES * connections.iter().map(value).sum::<u64>();
            let retrans = sum(|connection| connection.retrans.into());
            format!(
                "{}\t{}\t{retrans}\t0",
                sum(|connection| connection.sent),
                sum(|connection| connection.received)
            )
        };
        for table in ["flows", "flows_5m", "flows_1h"] {
            assert_eq!(
                self.sums(table, "web1"),
                sums(&[TO_DATABASE, TO_ITSELF]),
                "{table}"
            );
            assert_eq!(
                self.sums(table, "db1"),
                sums(&[FROM_WEB, FROM_OUTSIDE]),
                "{table}"
            );
        }
        let samples = self
            .engine
            .query("SELECT host, count(), sum(samples) FROM hosts GROUP BY host ORDER BY host");
        assert_eq!(samples, "db1\t12\t70\nweb1\t12\t70");
        let findings = self
            .engine
            .query("SELECT host, count(), min(state) FROM findings FINAL GROUP BY host ORDER BY host");
        assert_eq!(findings, "db1\t1\tended\nweb1\t1\tended");
    }
}

#[test]
fn what_was_recorded_is_stored_once_however_often_it_is_sent() {
    let fleet = need!(Fleet::new("stored"));
    for _ in 0..3 {
        fleet.send(&fleet.web);
        fleet.send(&fleet.db);
        fleet.check_sums();
        for host in [&fleet.web, &fleet.db] {
            std::fs::remove_file(host.cursor()).expect("it was sent");
        }
    }
    // An idle flow is sent every fifth minute, and at the begin.
    let idle = fleet
        .engine
        .query("SELECT count(), sum(connections) FROM flows WHERE port = 6379 AND zone = 'web1'");
    assert_eq!(idle, "3\t3");
    let listeners = fleet.engine.query(
        "SELECT host, port, max(waiting_max), max(backlog), count() FROM listeners GROUP BY host, port ORDER BY port",
    );
    assert_eq!(listeners, "db1\t23\t0\t128\t3\ndb1\t5432\t3\t128\t12");
}

#[test]
fn server_that_is_away_gets_all_when_it_is_back() {
    let mut fleet = need!(Fleet::new("away"));
    let url = fleet.engine.url();
    fleet.engine.kill();
    let outcome = run(fleet.web.export(&url).arg("--once"));
    assert!(outcome.failed(1).contains("connect"), "{outcome}");
    let (_web, _db) = (fleet.start(&fleet.web), fleet.start(&fleet.db));
    std::thread::sleep(Duration::from_millis(500));
    fleet.engine.restart();
    // Without an answer, or with one that says no, rows may be stored or not.
    fleet.engine.fail("unavailable=2&forget=3");
    wait_within(Duration::from_secs(120), "all rows", || {
        (fleet.engine.query("SELECT count() FROM hosts") == "24").then_some(())
    });
    fleet.check_sums();
}

#[test]
fn exporter_that_is_killed_between_any_two_inserts_repeats_none() {
    let fleet = need!(Fleet::new("killed"));
    let mut before = 0;
    for host in [&fleet.web, &fleet.db] {
        for further in [1, 2, 3, 1, 5, 4] {
            let mut exporter = fleet.start(host);
            wait_within(Duration::from_secs(60), "an insert", || {
                let inserts = fleet.engine.inserts();
                let is_over = exporter.0.try_wait().expect("a status").is_some();
                (inserts >= before + further || is_over).then_some(())
            });
            drop(exporter);
            before = fleet.engine.inserts();
        }
        fleet.send(host);
        before = fleet.engine.inserts();
    }
    fleet.check_sums();
}

#[test]
fn wrong_password_is_an_error_and_the_right_one_is_not() {
    let fleet = need!(Fleet::new("password"));
    let file = fleet.folder.0.join("password");
    let export = |password: &str| {
        std::fs::write(&file, format!("{password}\n")).expect("a file");
        let mut exporter = fleet.web.export(&fleet.engine.url());
        exporter.args(["--user", "shipper", "--password-file"]).arg(&file);
        exporter
    };
    // Also without --once: what is refused at first is refused later, too.
    let outcome = run(&mut export("wrong"));
    let error = outcome.failed(1);
    assert!(error.contains("Authentication failed"), "{outcome}");
    assert!(!error.contains("wrong"), "{outcome}");
    assert_eq!(fleet.engine.query("SELECT count() FROM flows"), "0");
    let outcome = run(export("correct horse").arg("--once"));
    assert_eq!(outcome.code, Some(0), "{outcome}");
    assert_eq!(fleet.engine.query("SELECT count() FROM hosts"), "12");
}

#[test]
fn tables_are_needed_and_created_once() {
    let folder = Folder::new("schema");
    let engine = need!(Engine::start(&folder.0));
    let host = SimulatedHost::record(&folder.0, "web1", begin_ms(), &[], &[TO_DATABASE]);
    let outcome = run(host.export(&engine.url()).arg("--once"));
    assert!(outcome.failed(1).contains("fleet schema --apply"), "{outcome}");
    for before in [0, 1] {
        let outcome = run(command().args(["fleet", "schema", "--apply", "--url", &engine.url()]));
        assert_eq!(outcome.code, Some(0), "{outcome}");
        let note = String::from_utf8_lossy(&outcome.stderr).into_owned();
        assert!(note.contains(&format!("version 1 (before: {before})")), "{note}");
    }
    let window = "SELECT count() FROM system.tables WHERE database = 'sockeye' AND create_table_query LIKE '%deduplication_window = 144000%'";
    assert_eq!(engine.query(window), "9");
}

#[test]
fn what_was_deleted_before_it_was_sent_is_a_gap() {
    let folder = Folder::new("deleted");
    let engine = need!(Engine::start(&folder.0));
    let outcome = run(command().args(["fleet", "schema", "--apply", "--url", &engine.url()]));
    assert_eq!(outcome.code, Some(0), "{outcome}");
    let (begin_ms, kept) = (begin_ms(), Some(Duration::from_mins(1)));
    let host = SimulatedHost::record_within(kept, &folder.0, "web1", begin_ms, &[], &[TO_DATABASE]);
    // The first sample was sent; the group of the store that it was in, ten minutes, is gone.
    let cursor = format!("sockeye-clickhouse-cursor 1 sample=1 at_ms={begin_ms}\n");
    std::fs::write(host.cursor(), cursor).expect("a file");
    let outcome = run(host.export(&engine.url()).arg("--once"));
    assert_eq!(outcome.code, Some(0), "{outcome}");
    let note = String::from_utf8_lossy(&outcome.stderr);
    assert!(note.contains("samples of 600 s were deleted"), "{note}");
    let gaps = engine.query("SELECT host, reason, dateDiff('second', begin, end) FROM gaps");
    assert_eq!(gaps, "web1\tnot-sent\t600");
    // Of the first minute that is kept the begin may be missing: it is left out, and four samples follow.
    let sums = engine.query("SELECT count(), sum(sent_bytes), sum(received_bytes) FROM flows");
    assert_eq!(sums, "1\t4000\t20000");
}

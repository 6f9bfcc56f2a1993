//! `export clickhouse` and `fleet`: hosts send to ClickHouse (chdb behind a small HTTP server), whatever fails between them, and the
//! questions are answered from what they sent.

mod deployment;
mod engine;
mod host;
mod network;
mod not_stored;
mod old_server;
mod page;
mod questions;
mod recorded;
mod services;
mod skew;
mod tls;
mod translated;

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
    rtt_us: 844,
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
    // An idle flow is sent every fifth minute, and at the beginning.
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
    for before in [0, 2] {
        let outcome = run(command().args(["fleet", "schema", "--apply", "--url", &engine.url()]));
        assert_eq!(outcome.code, Some(0), "{outcome}");
        let note = String::from_utf8_lossy(&outcome.stderr).into_owned();
        assert!(note.contains(&format!("version 2 (before: {before})")), "{note}");
    }
    let window = "SELECT count() FROM system.tables WHERE database = 'sockeye' AND create_table_query LIKE '%deduplication_window = 144000%'";
    assert_eq!(engine.query(window), "11");
    // More hosts than at first: the tables that they send to remember more.
    let outcome = run(command().args([
        "fleet",
        "schema",
        "--apply",
        "--hosts",
        "200",
        "--url",
        &engine.url(),
    ]));
    assert_eq!(outcome.code, Some(0), "{outcome}");
    assert_eq!(engine.query(&window.replace("144000", "288000")), "10");
}

#[test]
fn server_before_26_1_gets_inserts_that_it_need_not_collect() {
    let fleet = need!(Fleet::new("older"));
    fleet.engine.fail("collect=0");
    for _ in 0..2 {
        fleet.send(&fleet.web);
        fleet.send(&fleet.db);
        fleet.check_sums();
        for host in [&fleet.web, &fleet.db] {
            std::fs::remove_file(host.cursor()).expect("it was sent");
        }
    }
}

#[test]
fn tables_of_version_1_are_upgraded_with_their_rows() {
    let folder = Folder::new("upgraded");
    let engine = need!(Engine::start(&folder.0));
    for statement in include_str!("schema_1.sql").split(";\n") {
        if !statement.trim().is_empty() {
            engine.execute(statement);
        }
    }
    engine.execute(
        "INSERT INTO sockeye.flows (t, length_s, host, side, client, server, port, connections, sent_bytes)
         VALUES (now() - 600, 60, 'old', 'client', toIPv6('10.0.0.1'), toIPv6('10.0.0.2'), 22, 1, 77)",
    );
    let host = SimulatedHost::record(&folder.0, "web1", begin_ms(), &[], &[TO_DATABASE]);
    let outcome = run(host.export(&engine.url()).arg("--once"));
    assert!(outcome.failed(1).contains("fleet schema --apply"), "{outcome}");
    let outcome = run(command().args(["fleet", "schema", "--apply", "--url", &engine.url()]));
    assert_eq!(outcome.code, Some(0), "{outcome}");
    let note = String::from_utf8_lossy(&outcome.stderr).into_owned();
    assert!(note.contains("version 2 (before: 1)"), "{note}");
    let outcome = run(host.export(&engine.url()).arg("--once"));
    assert_eq!(outcome.code, Some(0), "{outcome}");
    for table in ["flows", "flows_5m", "flows_1h"] {
        let sums = engine.query(&format!(
            "SELECT host, sum(sent_bytes), sum(failed), sum(rwnd_limited_ms) FROM {table} GROUP BY host ORDER BY host"
        ));
        let sent = 1_000 * SENT_SAMPLES;
        assert_eq!(sums, format!("old\t77\t0\t0\nweb1\t{sent}\t0\t0"), "{table}");
    }
    // What is created anew has the same columns and keys.
    let described = "SELECT table, name, type, is_in_sorting_key FROM system.columns WHERE database = 'sockeye' ORDER BY table, name";
    let upgraded = engine.query(described);
    engine.execute("DROP DATABASE sockeye");
    let outcome = run(command().args(["fleet", "schema", "--apply", "--url", &engine.url()]));
    assert_eq!(outcome.code, Some(0), "{outcome}");
    assert_eq!(engine.query(described), upgraded);
}

#[test]
fn flows_that_do_not_fit_are_one_row_with_their_sums() {
    let folder = Folder::new("folded");
    let engine = need!(Engine::start(&folder.0));
    let outcome = run(command().args(["fleet", "schema", "--apply", "--url", &engine.url()]));
    assert_eq!(outcome.code, Some(0), "{outcome}");
    let connections: Vec<Connection> = (0..300_u64)
        .map(|number| Connection {
            cookie: 100 + number,
            local: ([10, 0, 0, 1], 30_000 + number as u16),
            peer: (
                [10, 1, (number / 200) as u8, (number % 200) as u8],
                if number % 3 == 0 { 443 } else { 80 },
            ),
            owner: if number % 2 == 0 { "webshop" } else { "worker" },
            sent: 10 + number,
            received: 1_000 - number,
            retrans: u32::from(number == 7) * 5,
            ..TO_DATABASE
        })
        .collect();
    let host = SimulatedHost::record(&folder.0, "web1", begin_ms(), &[], &connections);
    let outcome = run(host.export(&engine.url()).args(["--once", "--flows", "10"]));
    assert_eq!(outcome.code, Some(0), "{outcome}");
    let sum = |value: fn(&Connection) -> u64| connections.iter().map(value).sum::<u64>() * SENT_SAMPLES;
    let expected = format!(
        "{}\t{}\t{}",
        sum(|one| one.sent),
        sum(|one| one.received),
        sum(|one| one.retrans.into())
    );
    for table in ["flows", "flows_5m", "flows_1h"] {
        let sums = format!("SELECT sum(sent_bytes), sum(received_bytes), sum(retrans_segs) FROM {table}");
        assert_eq!(engine.query(&sums), expected, "{table}");
    }
    // In each of twelve intervals: ten flows, and two ports of two services, with how many they are.
    let counts = engine.query(
        "SELECT countIf(folded = 0), countIf(folded > 0), sum(folded), sumIf(connections, folded > 0),
             uniqExactIf((port, owner, side), folded > 0), countIf(folded > 0 AND server != toIPv6('::')) FROM flows",
    );
    assert_eq!(counts, "120\t48\t3480\t3480\t4\t0");
    // The one with retransmissions is among those that are kept.
    let troubled = engine.query("SELECT count() FROM flows WHERE retrans_segs > 0 AND folded = 0");
    assert_eq!(troubled, "12");
}

/// Kills exporter and server in turns, at any time, and asserts that nothing is missing or twice. `SOCKEYE_FLEET_KILLS` says how often.
#[test]
fn kills_of_exporter_and_server_in_turns_change_no_sum() {
    let kills: u64 = std::env::var("SOCKEYE_FLEET_KILLS").map_or(8, |count| count.parse().expect("a number"));
    let mut fleet = need!(Fleet::new("kills"));
    let mut random = 27_u64;
    let mut next = move |below: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % below
    };
    let mut finished = 0;
    for kill in 0..kills {
        let host = if next(2) == 0 { &fleet.web } else { &fleet.db };
        let mut exporter = fleet.start(host);
        std::thread::sleep(Duration::from_millis(20 + next(900)));
        if kill % 2 == 0 {
            drop(exporter);
        } else {
            fleet.engine.restart();
            // It goes on with the one that was started.
            std::thread::sleep(Duration::from_millis(next(300)));
            let status = exporter.0.try_wait().expect("a status");
            assert!(status.is_none(), "an exporter outlives its server: {status:?}");
            drop(exporter);
        }
        // What was sent is sent again, now and then.
        if next(4) == 0 {
            for host in [&fleet.web, &fleet.db] {
                finished += u64::from(std::fs::remove_file(host.cursor()).is_ok());
            }
        }
        if kill % 100 == 99 {
            fleet.send(&fleet.web);
            fleet.send(&fleet.db);
            fleet.check_sums();
            eprintln!("{} kills, begun again {finished} times: sums are equal", kill + 1);
        }
    }
    fleet.send(&fleet.web);
    fleet.send(&fleet.db);
    fleet.check_sums();
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

//! The page over recorded time: what the store of `record` has is shown as it was.

use super::browser::Browser;
use super::data::assert_follows;
use super::{Answer, Server, line};
use crate::fixtures::binary::{command, run};
use crate::fixtures::envelope::rows;
use serde_json::Value;
use sockeye_lab::{Lab, need, wait_until};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Stdio};

/// A store in a folder of its own, which is removed at the end.
struct Store(PathBuf);

/// A recorder that is ended.
struct Recorder(Child);

impl Store {
    /// Records some samples of connections to a port of this process, which are closed at the end.
    fn with_connections(purpose: &str) -> (Self, u16) {
        let folder = std::env::temp_dir().join(format!("sockeye-serve-{purpose}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let store = Self(folder);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let clients: Vec<_> = (0..3).map(|_| TcpStream::connect(address).unwrap()).collect();
        let servers: Vec<_> = clients.iter().map(|_| listener.accept().unwrap()).collect();
        store.record(4);
        drop((clients, servers));
        (store, address.port())
    }

    fn path(&self) -> String {
        self.0.join("record.db").to_string_lossy().into_owned()
    }

    /// Records until there are so many samples.
    fn record(&self, samples: u64) {
        let child = command()
            .args(["record", "--interval", "0.2", "--store", &self.path()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let _recorder = Recorder(child.expect("the program starts"));
        wait_until("samples are recorded", || {
            self.kept()
                .iter()
                .filter_map(|row| row["samples"].as_u64())
                .sum::<u64>()
                >= samples
        });
    }

    /// What `history list` shows.
    fn kept(&self) -> Vec<Value> {
        let words = ["history", "list", "--format", "jsonl", "--store", &self.path()];
        let listed = run(command().args(words));
        // The recorder has not created it yet.
        if listed.code != Some(0) {
            return Vec::new();
        }
        rows(&String::from_utf8_lossy(&listed.stdout))
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn get(server: &Server, cookie: &str, path: &str) -> Answer {
    server.get(path, &format!("Cookie: {cookie}\r\n"))
}

/// Starts a server that has its first sample.
fn started(store: &Store) -> (Server, String) {
    let server = Server::start(&["--store", &store.path()]);
    let cookie = server.log_in();
    wait_until("there is a sample", || {
        get(&server, &cookie, "/api/flows").status == 200
    });
    (server, cookie)
}

/// The kernel gives the inode of a namespace that is gone to the next one, mostly: the name of now would be that of another one.
#[test]
fn namespaces_of_a_recorded_time_have_the_names_of_then() {
    let folder = std::env::temp_dir().join(format!("sockeye-serve-netns-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let store = Store(folder);
    let once = |words: &[&str]| {
        let outcome = run(command().args(words).args(["--store", &store.path()]));
        assert_eq!(outcome.code, Some(0), "{outcome}");
    };
    let old = {
        let lab = need!(Lab::new("serve_old"));
        let netns = lab.namespace("old");
        let _pair = netns.loopback().established();
        once(&["record", "--once", "-N", netns.name()]);
        netns.name().to_owned()
    };
    let lab = need!(Lab::new("serve_new"));
    let new = lab.namespace("new");
    let _pair = new.loopback().established();
    let server = Server::start(&["--store", &store.path(), "-N", new.name()]);
    let cookie = server.log_in();
    wait_until("there is a sample", || {
        get(&server, &cookie, "/api/flows").status == 200
    });
    let moments = server.json("/api/moments", &cookie);
    let at_us = moments["recorded_until_us"].as_u64().expect("a recorded sample");
    let answer = get(&server, &cookie, &format!("/api/flows?at={at_us}"));
    assert_eq!(answer.status, 404, "{answer:?}");
    assert!(answer.body.contains(&format!("there are {old}")), "{answer:?}");
    drop(server);
    let all = Server::start(&["--store", &store.path(), "-N", "all"]);
    let cookie = all.log_in();
    let of = |name: &str| format!("/api/flows?filter=netns+%3D+{name}&at={at_us}");
    let page = all.json(&of(&old), &cookie);
    let flows = page["document"]["flows"].as_array().expect("flows");
    assert!(!flows.is_empty());
    assert!(
        flows.iter().all(|flow| flow["netns"] == old.as_str()),
        "{flows:#?}"
    );
    // It was not there yet.
    let answer = get(&all, &cookie, &of(new.name()));
    assert_eq!(answer.status, 400, "{answer:?}");
}

#[test]
fn recorded_moment_has_what_was_there() {
    let (store, port) = Store::with_connections("moment");
    let (server, cookie) = started(&store);
    let moments = server.json("/api/moments", &cookie);
    assert_follows(&moments, "moments");
    let last_us = moments["recorded_until_us"].as_u64().expect("a recorded sample");
    assert!(last_us > moments["recorded_from_us"].as_u64().unwrap());
    let filter = format!("filter=dport+%3D+%3A{port}+and+state+established");
    let page = server.json(&format!("/api/flows?{filter}&at={last_us}"), &cookie);
    assert_follows(&page, "page");
    assert_eq!(page["time_us"], last_us, "{page}");
    assert_eq!(page["document"]["flows"][0]["connections"], 3, "{page}");
    let own = std::process::id();
    assert_eq!(page["document"]["flows"][0]["owners"][0]["pid"], own, "{page}");
    assert!(page["document"]["flows"][0]["rates"].is_object(), "{page}");
    // They are closed now.
    let now = server.json(&format!("/api/flows?{filter}"), &cookie);
    assert_eq!(now["flows_matching"], 0, "{now}");
    let sockets = get(&server, &cookie, &format!("/api/sockets?{filter}&at={last_us}"));
    assert_eq!(
        (sockets.status, sockets.body.lines().count()),
        (200, 4),
        "{sockets:?}"
    );
    let map = server.json(&format!("/api/map?by=port&{filter}&at={last_us}"), &cookie);
    assert_follows(&map, "map");
    assert_eq!(map["edges"][0]["connections"], 3, "{map}");
}

/// Rates of the first sample are not known, since there is none before it; those of the last one are 0 and known.
#[test]
fn page_shows_what_is_not_recorded_as_a_dash_and_not_as_zero() {
    let (store, port) = Store::with_connections("unknown");
    let (mut server, cookie) = started(&store);
    let moments = server.json("/api/moments", &cookie);
    let mut browser = need!(Browser::start("unknown"));
    browser.resize(1440, 900);
    let url = line(&mut server.lines);
    browser.open(&url);
    browser.run(
        "return until(() => document.querySelector('#view-flows .space .row [data-col=local]')?.textContent)",
    );
    let mut shown = |at: &Value| {
        browser.run(&format!(
            "const filter = 'filter=dport+%3D+%3A{port}+and+state+established&at={at}'; \
             const {{ json }} = await import('/api.js'); \
             const page = await json('/api/flows', Object.fromEntries(new URLSearchParams(filter))); \
             const isKnown = page.document.flows[0].rates?.sent_bytes_per_s !== undefined; \
             location.hash = filter; \
             const cell = await until(() => {{ \
               const row = document.querySelector('#view-flows .space .row:not([hidden]):not(.waiting)'); \
               const sent = row?.querySelector('[data-col=sent_bytes_per_s]'); \
               return row?.querySelector('[data-col=connections]').textContent === '3' && (sent.textContent === '–') !== isKnown && sent; }}); \
             const table = [cell.textContent, cell.title]; \
             location.hash = filter + '&view=map'; \
             const edge = await until(() => {{ \
               const lines = document.querySelectorAll('#view-map svg path'); \
               const words = lines[0]?.querySelector('title').textContent ?? ''; \
               return lines.length === 1 && words.includes('bytes not recorded') !== isKnown && lines[0]; }}); \
             const legend = document.querySelector('#view-map .legend').textContent; \
             return {{ table, dashed: edge.hasAttribute('stroke-dasharray'), width: edge.getAttribute('stroke-width'), \
               words: edge.textContent.split(': ')[1].split(', ').slice(0, 3), legend: legend.includes('dashes: bytes not recorded') }};"
        ))
    };
    let first = shown(&moments["recorded_from_us"]);
    let last = shown(&moments["recorded_until_us"]);
    let unknown = serde_json::json!({
        "table": ["–", "not recorded"], "dashed": true, "width": "2",
        "words": ["3 connections", "bytes not recorded", "retransmits not recorded"], "legend": true
    });
    let zero = serde_json::json!({
        "table": ["0B/s", ""], "dashed": false, "width": "0.6",
        "words": ["3 connections", "0B/s", "0 retransmits/s"], "legend": false
    });
    assert_eq!((first, last), (unknown, zero));
    assert_eq!(browser.errors(), Vec::<String>::new());
}

#[test]
fn steps_cross_from_the_store_to_memory_and_back() {
    let (store, _) = Store::with_connections("steps");
    let (server, cookie) = started(&store);
    let moments = server.json("/api/moments", &cookie);
    let (first_us, last_us) = (&moments["recorded_from_us"], &moments["recorded_until_us"]);
    let step = |at: &Value, by: i64| {
        let step = server.json(&format!("/api/step?at={at}&by={by}"), &cookie);
        assert_follows(&step, "step");
        step["time_us"].clone()
    };
    let memory_us = server.json("/api/moments", &cookie)["times_us"][0].clone();
    wait_until("there is a second sample", || {
        server.json("/api/moments", &cookie)["times_us"]
            .as_array()
            .unwrap()
            .len()
            > 1
    });
    assert_eq!(step(last_us, 1), memory_us);
    assert_eq!(step(&memory_us, -1), *last_us);
    assert_eq!(step(first_us, -1), *first_us);
    assert_eq!(step(last_us, -1000), *first_us);
    let after_first = step(first_us, 1);
    assert!(after_first.as_u64() > first_us.as_u64(), "{after_first}");
    assert_eq!(step(&after_first, -1), *first_us);
}

#[test]
fn time_without_samples_is_refused_with_its_reason() {
    let (store, _) = Store::with_connections("gap");
    store.record(8);
    let (server, cookie) = started(&store);
    let before_us = server.json("/api/moments", &cookie)["recorded_from_us"]
        .as_u64()
        .unwrap()
        - 1_000_000;
    let answer = get(&server, &cookie, &format!("/api/flows?at={before_us}"));
    assert_eq!(answer.status, 404, "{answer:?}");
    assert!(answer.body.contains("nothing is recorded of"), "{answer:?}");
    let timeline = server.json(&format!("/api/timeline?from={before_us}"), &cookie);
    assert_follows(&timeline, "timeline");
    let points = timeline["points"].as_array().unwrap();
    assert!(
        points.iter().any(|point| point["sent_bytes_per_s"].is_number()),
        "{timeline}"
    );
    // Nothing is drawn where nothing was recorded: before the first sample there is a gap.
    let gap = &timeline["gaps"][0];
    assert_eq!(gap["reason"], "before the first sample", "{timeline}");
    let first_us = timeline["recorded_from_us"].as_u64().unwrap();
    assert_eq!(
        (gap["from_us"].as_u64(), gap["to_us"].as_u64()),
        (Some(before_us), Some(first_us))
    );
    assert!(
        points
            .iter()
            .all(|point| point["time_us"].as_u64() >= Some(first_us)),
        "{timeline}"
    );
    let marked = get(&server, &cookie, &format!("/api/flows?at={before_us}&errors=ok"));
    assert_eq!(
        (marked.status, marked.header("x-error")),
        (200, Some("404")),
        "{marked:?}"
    );
    assert!(marked.body.contains("nothing is recorded of"), "{marked:?}");
    let findings = get(&server, &cookie, &format!("/api/findings?at={before_us}"));
    assert_eq!(findings.status, 404, "{findings:?}");
    assert!(findings.body.contains("nothing is recorded of"), "{findings:?}");
}

/// Datagrams that a UDP socket of this process never reads, more than fit.
fn overflow(receiver: &UdpSocket) {
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    for _ in 0..300 {
        sender
            .send_to(&[0; 8192], receiver.local_addr().unwrap())
            .unwrap();
    }
}

/// Records until there is a finding about sockets of this process, which the last check has found too.
fn record_a_finding(store: &Store) {
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    let child = command()
        .args(["record", "--interval", "0.5", "--check-interval", "1", "--store"])
        .arg(store.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    // It ends before the socket does.
    let _recorder = Recorder(child.expect("the program starts"));
    wait_until("a finding is recorded", || {
        overflow(&receiver);
        let words = [
            "history",
            "findings",
            "--format",
            "jsonl",
            "--store",
            &store.path(),
        ];
        let found = run(command().args(words));
        let mut found = rows(&String::from_utf8_lossy(&found.stdout)).into_iter();
        found.any(|row| row["pid"] == std::process::id())
    });
}

#[test]
fn recorded_findings_have_evidence_remedy_and_time() {
    let (store, _) = Store::with_connections("findings");
    let unchecked_us = {
        let (server, cookie) = started(&store);
        server.json("/api/moments", &cookie)["recorded_until_us"]
            .as_u64()
            .unwrap()
    };
    record_a_finding(&store);
    let (mut server, cookie) = started(&store);
    // The last sample: a check answers for two seconds.
    let found_us = server.json("/api/moments", &cookie)["recorded_until_us"]
        .as_u64()
        .unwrap();
    let findings = server.json(&format!("/api/findings?at={found_us}"), &cookie);
    assert_follows(&findings, "recorded_findings");
    let all = findings["findings"].as_array().unwrap();
    let own = all.iter().find(|one| one["pid"] == std::process::id());
    let own = own.unwrap_or_else(|| panic!("{findings}"));
    assert!(!own["facts"].as_object().unwrap().is_empty(), "{own}");
    assert!(own["remedies"][0].is_object(), "{own}");
    assert!(findings["checked_us"].as_u64().unwrap() <= found_us, "{findings}");
    let timeline = server.json(&format!("/api/timeline?from={unchecked_us}"), &cookie);
    assert_follows(&timeline, "timeline");
    let checks = timeline["check_times"].as_array().unwrap();
    assert!(
        checks
            .iter()
            .any(|check| check["finding_count"].as_u64() > Some(0) && check["worst"].is_string()),
        "{timeline}"
    );
    // The first recorder made no check: that differs from one without findings.
    let unchecked = get(&server, &cookie, &format!("/api/findings?at={unchecked_us}"));
    assert_eq!(unchecked.status, 404, "{unchecked:?}");
    assert!(unchecked.body.contains("nothing was checked"), "{unchecked:?}");
    let mut browser = need!(Browser::start("recorded-findings"));
    browser.resize(1440, 900);
    let url = line(&mut server.lines);
    browser.open(&url);
    let shown = browser.run(&format!(
        "location.hash = 'view=findings&at={found_us}'; \
         const card = await until(() => [...document.querySelectorAll('#view-findings article')].find((one) => one.textContent.includes('({})'))); \
         const explain = [...card.querySelectorAll('button')].find((one) => one.textContent.startsWith('Explain')); \
         explain.click(); \
         await until(() => card.querySelector('.explanation h3, .explanation p')); \
         return {{ lasted: card.querySelector('.lasted').textContent.startsWith('First found at'), evidence: card.querySelectorAll('details dd, details td').length > 0, \
           remedy: Boolean(card.querySelector('ul li').textContent), explained: card.querySelector('.explanation').textContent.length > 20 }};",
        std::process::id()
    ));
    assert_eq!(
        shown,
        serde_json::json!({ "lasted": true, "evidence": true, "remedy": true, "explained": true })
    );
    assert_eq!(browser.errors(), Vec::<String>::new());
}

#[test]
fn page_scrubs_through_recorded_time_and_returns_with_a_key() {
    let (store, port) = Store::with_connections("scrub");
    let (mut server, cookie) = started(&store);
    let last_us = server.json("/api/moments", &cookie)["recorded_until_us"]
        .as_u64()
        .unwrap();
    let first_us = server.json("/api/moments", &cookie)["recorded_from_us"]
        .as_u64()
        .unwrap();
    let mut browser = need!(Browser::start("scrub"));
    browser.resize(1440, 900);
    // The first one was used for the cookie.
    let url = line(&mut server.lines);
    browser.open(&url);
    browser.run(
        "return until(() => document.querySelector('#view-flows .space .row [data-col=local]')?.textContent)",
    );
    let seen = browser.run(&format!(
        "location.hash = 'range=1h&filter=dport+%3D+%3A{port}+and+state+established&at={last_us}'; \
         await until(() => document.querySelector('#view-flows .space .row:not([hidden]) [data-col=connections]')?.textContent === '3'); \
         location.hash += '&view=sockets'; \
         await until(() => document.querySelectorAll('#view-sockets .space .row:not([hidden])').length === 3); \
         return [document.getElementById('live').ariaPressed, document.getElementById('range').value];"
    ));
    assert_eq!(seen, serde_json::json!(["false", "1h"]));
    browser.key("1");
    let before = browser.run(&format!(
        "location.hash = 'at={}'; \
         return until(() => !document.getElementById('filter-error').hidden && document.getElementById('filter-error').textContent)",
        first_us - 1_000_000
    ));
    assert!(
        before.as_str().unwrap().contains("nothing is recorded of"),
        "{before}"
    );
    // In a gap no view counts what is not known, and the console has no error.
    for view in ["map", "sockets", "findings", "flows"] {
        let status = browser.run(&format!(
            "location.hash = 'view={view}&at={}'; \
             await until(() => document.querySelector('nav [aria-current]').dataset.view === '{view}' && \
               (document.getElementById('filter-error').textContent + (document.querySelector('#view-findings .empty')?.textContent ?? '')).includes('nothing is recorded of')); \
             return document.getElementById('status').textContent",
            first_us - 1_000_000
        ));
        assert_eq!(status, "", "{view}");
    }
    browser.run(&format!(
        "location.hash = 'filter=dport+%3D+%3A{port}+and+state+established&at={last_us}'; return 1"
    ));
    assert_eq!(browser.errors(), Vec::<String>::new());
    browser.key("l");
    browser.run(
        "await until(() => !location.hash.includes('at=') && document.getElementById('live').ariaPressed === 'true'); \
         return until(() => document.getElementById('status').textContent.startsWith('0 of'))",
    );
    assert_eq!(browser.errors(), Vec::<String>::new());
}

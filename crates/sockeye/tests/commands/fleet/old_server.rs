//! Debian's clickhouse-server 18.16: another server than the one of `engine`, and one without deduplication tokens, zstd, and most types of
//! the schema. It gets the tables with simpler types of the same bytes.

use super::host::{SAMPLES, SimulatedHost, begin_ms};
use super::{FROM_OUTSIDE, FROM_WEB, Folder, Process, SENT_SAMPLES, TO_DATABASE, TO_ITSELF};
use crate::fixtures::binary::{command, run};
use crate::fixtures::http::Answer;
use sockeye_lab::{Skip, need, program, wait_within};
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// A running server.
struct OldServer {
    process: Process,
    program: PathBuf,
    folder: PathBuf,
    port: u16,
}

impl OldServer {
    fn start(folder: &Path) -> Result<Self, Skip> {
        let program = program("clickhouse-server")?;
        let folder = folder.join("old-server");
        std::fs::create_dir_all(folder.join("data")).expect("a folder");
        let free = || {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
            listener.local_addr().expect("an address").port()
        };
        let (port, tcp_port) = (free(), free());
        let path = folder.display();
        let config = format!(
            "<yandex><logger><level>error</level><console>1</console></logger><listen_host>127.0.0.1</listen_host>\
             <http_port>{port}</http_port><tcp_port>{tcp_port}</tcp_port><path>{path}/data/</path><tmp_path>{path}/data/tmp/</tmp_path>\
             <users_config>{path}/users.xml</users_config><default_profile>default</default_profile>\
             <default_database>default</default_database><mark_cache_size>100000000</mark_cache_size></yandex>"
        );
        let users = "<yandex><profiles><default></default></profiles><quotas><default></default></quotas><users><default>\
                     <password></password><networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota>\
                     </default></users></yandex>";
        std::fs::write(folder.join("config.xml"), config).expect("a file");
        std::fs::write(folder.join("users.xml"), users).expect("a file");
        let process = spawn(&program, &folder);
        let server = Self {
            process,
            program,
            folder,
            port,
        };
        server.wait();
        Ok(server)
    }

    /// Kills it, and starts it again with its data.
    fn restart(&mut self) {
        self.process.0.kill().expect("it runs");
        self.process.0.wait().expect("it ends");
        self.process = spawn(&self.program, &self.folder);
        self.wait();
    }

    fn wait(&self) {
        wait_within(Duration::from_secs(60), "the server's answer", || {
            TcpStream::connect(("127.0.0.1", self.port)).ok()
        });
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Returns the answer to a statement, with its columns between tabs.
    #[track_caller]
    fn query(&self, statement: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("it listens");
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .expect("a timeout");
        let request = format!(
            "POST / HTTP/1.0\r\nHost: x\r\nContent-Length: {}\r\n\r\n{statement}",
            statement.len()
        );
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("an answer");
        let answer = Answer::parse(&text);
        assert_eq!(answer.status, 200, "{statement}: {}", answer.body);
        answer.body.trim_end().to_owned()
    }
}

fn spawn(program: &Path, folder: &Path) -> Process {
    let mut server = Command::new(program);
    server
        .arg("--config-file")
        .arg(folder.join("config.xml"))
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    Process(server.spawn().expect("the server starts"))
}

/// Returns the statements that make the tables of the schema with types that this server has, whose bytes in `RowBinary` are the same.
fn reduced(schema: &str) -> Vec<String> {
    let mut all = vec!["CREATE DATABASE sockeye".to_owned()];
    for statement in schema.split(";\n") {
        let statement = statement.trim();
        let Some(rest) = statement.strip_prefix("CREATE TABLE IF NOT EXISTS `sockeye`.") else {
            continue;
        };
        let name = rest.split(' ').next().expect("a name");
        if statement.contains("AggregatingMergeTree") {
            continue;
        }
        let mut columns = String::new();
        for line in rest.lines().skip(1).take_while(|line| *line != ")") {
            let (column, of_type) = line.trim().split_once(' ').expect("a column with its type");
            // Not sent.
            if line.contains(" ALIAS ") || line.contains(" DEFAULT now64") {
                continue;
            }
            let separator = if columns.is_empty() { "" } else { ", " };
            write!(columns, "{separator}{column} {}", simple(of_type)).expect("a string");
        }
        all.push(format!(
            "CREATE TABLE sockeye.{name} ({columns}) ENGINE = MergeTree ORDER BY tuple()"
        ));
    }
    all
}

/// Returns the type at the begin of a column's definition, as this server has it.
fn simple(definition: &str) -> String {
    let mut depth = 0;
    let end = definition.find(|char| {
        match char {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        depth == 0 && matches!(char, ' ' | ',')
    });
    let of_type = &definition[..end.unwrap_or(definition.len())];
    match of_type {
        "IPv6" => "FixedString(16)".to_owned(),
        of_type if of_type.starts_with("DateTime64") => "Int64".to_owned(),
        of_type => of_type.replace("LowCardinality(String)", "String"),
    }
}

#[test]
fn clickhouse_of_2018_stores_what_is_sent_and_says_what_it_lacks() {
    let folder = Folder::new("old-server");
    let mut server = need!(OldServer::start(&folder.0));
    let schema = run(command().args(["fleet", "schema"]));
    assert_eq!(schema.code, Some(0), "{schema}");
    for statement in reduced(&String::from_utf8_lossy(&schema.stdout)) {
        server.query(&statement);
    }
    server.query("INSERT INTO sockeye.migrations (version) VALUES (2)");
    let begin_ms = begin_ms();
    let web = SimulatedHost::record(&folder.0, "web1", begin_ms, &[], &[TO_DATABASE, TO_ITSELF]);
    let db = SimulatedHost::record(
        &folder.0,
        "db1",
        begin_ms,
        &[(5_432, 3), (23, 0)],
        &[FROM_WEB, FROM_OUTSIDE],
    );
    let outcome = run(web.export(&server.url()).arg("--once"));
    assert_eq!(outcome.code, Some(0), "{outcome}");
    let notes = String::from_utf8_lossy(&outcome.stderr).into_owned();
    assert!(notes.contains("no deduplication tokens"), "{notes}");
    // What was answered stays, and the exporter of the other host goes on where it was when the server comes back.
    let mut exporter = db.export(&server.url());
    let exporter = Process(
        exporter
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts"),
    );
    wait_within(Duration::from_secs(60), "an insert of the other host", || {
        (server.query("SELECT count() > 0 FROM sockeye.hosts WHERE host = 'db1'") == "1").then_some(())
    });
    server.restart();
    wait_within(Duration::from_secs(120), "all rows", || {
        (server.query("SELECT uniqExact(t) FROM sockeye.hosts WHERE host = 'db1'") == "12").then_some(())
    });
    drop(exporter);
    // An insert that the kill left without an answer may be there twice: each row is counted once.
    let sums = server.query(
        "SELECT host, sum(s), sum(r), sum(n) FROM (SELECT DISTINCT host, t, port, client_port, owner, sent_bytes AS s, \
         received_bytes AS r, retrans_segs AS n FROM sockeye.flows) GROUP BY host ORDER BY host",
    );
    let of = |one: super::Connection, other: super::Connection| {
        let times = SENT_SAMPLES;
        format!(
            "{}\t{}\t{}",
            times * (one.sent + other.sent),
            times * (one.received + other.received),
            times * u64::from(one.retrans + other.retrans)
        )
    };
    assert_eq!(
        sums,
        format!(
            "db1\t{}\nweb1\t{}",
            of(FROM_WEB, FROM_OUTSIDE),
            of(TO_DATABASE, TO_ITSELF)
        )
    );
    let samples = server.query("SELECT sum(samples) FROM sockeye.hosts WHERE host = 'web1'");
    assert_eq!(samples, SAMPLES.to_string());
    // Addresses are the bytes of IPv6: 10.0.0.2 is ::ffff:10.0.0.2.
    let addresses = server.query(
        "SELECT DISTINCT IPv6NumToString(server) FROM sockeye.flows WHERE host = 'web1' AND port = 5432",
    );
    assert_eq!(addresses, "::ffff:10.0.0.2");
}

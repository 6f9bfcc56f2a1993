//! `sockeye events` with a filter: each word of the language selects what it selects in `sockets`, or is refused.

use super::events::{Running, events};
use crate::fixtures::binary::sockeye;
use serde_json::Value;
use sockeye_filter::words;
use sockeye_lab::{Lab, Namespace, need, program};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Stdio};

/// A process that listens, and makes one connection to itself for each line that it reads.
struct Echo {
    child: Child,
    answers: BufReader<std::process::ChildStdout>,
    port: u64,
}

const ECHO: &str = "import os, socket, sys
server = socket.create_server(('127.0.0.1', 0))
print(server.getsockname()[1], flush=True)
for _ in sys.stdin:
    client = socket.create_connection(server.getsockname())
    accepted, _ = server.accept()
    client.sendall(b'question')
    accepted.sendall(accepted.recv(8))
    client.recv(8)
    client.close()
    accepted.recv(1)
    accepted.close()
    print('made', flush=True)
";

impl Echo {
    fn start(namespace: &Namespace) -> Self {
        let mut command = namespace.command("python3", &["-c", ECHO]);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python starts");
        let mut answers = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        answers.read_line(&mut line).expect("a line");
        let port = line.trim().parse().expect("a port");
        Self { child, answers, port }
    }

    /// Makes a connection, and waits until it is closed.
    fn connect(&mut self) {
        let input = self.child.stdin.as_mut().expect("a pipe");
        input.write_all(b"go\n").expect("it reads");
        self.answers.read_line(&mut String::new()).expect("a line");
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A condition with a word, which holds for the closes of the connection of [`Echo`]; `None`: events do not have that.
fn condition(word: &str, echo: &Echo, namespace: &Namespace) -> Option<String> {
    let (pid, port) = (echo.child.id(), echo.port);
    Some(match word {
        "state" => "state closed".to_owned(),
        "exclude" => "exclude established".to_owned(),
        "src" | "dst" => format!("{word} 127.0.0.0/8"),
        "sport" | "dport" => format!("{word} = :{port}"),
        "dev" | "mark" | "fwmark" => format!("{word} = 0"),
        "cgroup" => format!("cgroup = {}", cgroup()?),
        "autobound" => word.to_owned(),
        "owner" => "owner ~ python*".to_owned(),
        "container" | "unit" | "exe" => {
            let value = of_listener(word, echo, namespace);
            format!("{word} = {value}")
        }
        "proto" => "proto = tcp".to_owned(),
        "family" => "family = inet".to_owned(),
        "peers" => "peers = loopback".to_owned(),
        "pid" => format!("pid = {pid}"),
        "pgid" => format!("pgid = {}", process_group(pid)),
        "uid" => "uid = root".to_owned(),
        "netns" => format!("netns = {}", namespace.name()),
        "inode" => "inode > 0".to_owned(),
        // The kernel gives a socket one when it is asked for it, mostly by a listing.
        "cookie" => "not cookie = 1".to_owned(),
        "rtt" | "min_rtt" => format!("{word} > 0us and {word} < 1s"),
        "bytes_sent" | "bytes_acked" | "bytes_received" => format!("{word} >= 8"),
        "segs_out" | "segs_in" | "data_segs_out" | "data_segs_in" => format!("{word} > 0"),
        "bytes_retrans" | "retrans" | "dsack_dups" => format!("{word} = 0"),
        _ => return None,
    })
}

/// The process group of a process: the third field behind its name.
fn process_group(pid: u32) -> String {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let behind = stat.rsplit_once(')').expect("a name").1;
    behind.split_whitespace().nth(2).expect("a group").to_owned()
}

/// The path of our cgroup of v2, where children are, too.
fn cgroup() -> Option<String> {
    let file = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = file.lines().find_map(|line| line.strip_prefix("0::"))?;
    Some(path.to_owned())
}

/// What `sockets` shows of the listener: the executable, or whether it is in a container or a unit.
fn of_listener(word: &str, echo: &Echo, namespace: &Namespace) -> String {
    let port = format!("sport = :{}", echo.port);
    let list = |filter: &str| {
        let arguments = ["sockets", "-tln", "-H", "-N", namespace.name(), filter];
        sockeye(&arguments).ok().to_owned()
    };
    if word == "exe" {
        let path = std::fs::read_link(format!("/proc/{}/exe", echo.child.id())).expect("its executable");
        let path = path.to_str().expect("UTF-8").to_owned();
        assert!(!list(&format!("{port} and exe = {path}")).is_empty());
        return path;
    }
    assert!(
        !list(&format!("{port} and {word} = none")).is_empty(),
        "the test runs in a {word}"
    );
    "none".to_owned()
}

#[test]
fn each_word_selects_a_live_connection_or_is_refused() {
    need!(program("python3"));
    let lab = need!(Lab::new("ev_words"));
    let namespace = lab.namespace("alone");
    let mut echo = Echo::start(&namespace);
    let (mut decided, mut refused) = (Vec::new(), Vec::new());
    for word in words::conditions() {
        match condition(word.name, &echo, &namespace) {
            Some(condition) => decided.push(condition),
            None if word.name != "cgroup" => refused.push(word),
            None => {}
        }
    }
    assert!(
        decided.len() > 30 && refused.len() > 30,
        "{decided:?} {refused:?}"
    );
    for filters in decided.chunks(12) {
        let running: Vec<_> = filters
            .iter()
            .map(|filter| {
                let line = format!("-n -N {} --format jsonl --kinds close", namespace.name());
                let words = format!("{line} {filter}");
                (filter, Running::start(&words))
            })
            .collect();
        echo.connect();
        for (filter, running) in running {
            let running = need!(running);
            let (outcome, notes) = running.end();
            let (events, summary) = events(&outcome);
            assert!(!events.is_empty(), "{filter}: {notes} {summary:#}");
        }
    }
    for word in refused {
        // A value of each kind of word.
        let conditions =
            ["= 1", "= 1s", "= 1Mbit", "= cubic", "= off"].map(|value| format!("{} {value}", word.name));
        let condition = conditions.iter().find(|condition| is_condition(condition));
        let condition = condition.unwrap_or_else(|| panic!("no value for {}: add one", word.name));
        for filter in [
            condition.clone(),
            format!("not ( sport = :1 and not {condition} )"),
            format!("sport = :1 or {condition}"),
        ] {
            let outcome = sockeye(&["events", "-d", "0.01", &filter]);
            assert_eq!(outcome.code, Some(2), "{filter}: {outcome}");
            let error = String::from_utf8_lossy(&outcome.stderr);
            assert!(
                error.contains(word.name) && error.contains("cannot be decided"),
                "{error}"
            );
        }
    }
}

fn is_condition(text: &str) -> bool {
    sockeye_filter::parse(text, &sockeye_filter::NoResolve).is_ok()
}

#[test]
fn counters_of_a_close_are_refused_where_closes_are_not_watched() {
    let outcome = sockeye(&["events", "--kinds", "open", "-d", "0.01", "rtt > 1ms"]);
    assert_eq!(outcome.code, Some(2), "{outcome}");
    assert!(
        String::from_utf8_lossy(&outcome.stderr).contains("--kinds close"),
        "{outcome}"
    );
}

#[test]
fn events_of_processes_that_ended_too_early_are_counted() {
    need!(program("python3"));
    let lab = need!(Lab::new("ev_ended"));
    let namespace = lab.namespace("alone");
    let line = format!("-n -N {} --format jsonl exe = /no/such/program", namespace.name());
    let running = need!(Running::start(&line));
    let code = "import os, socket
server = socket.create_server(('127.0.0.1', 0))
for _ in range(50):
    if os.fork() == 0:
        socket.create_connection(server.getsockname())
        os._exit(0)
    server.accept()
    os.wait()
";
    namespace.output("python3", &["-c", code]);
    let (outcome, notes) = running.end();
    let (events, summary): (Vec<Value>, Value) = events(&outcome);
    assert!(events.is_empty(), "{events:#?}");
    assert!(summary["owner_unknown"].as_u64() > Some(0), "{summary:#}");
    assert!(notes.contains("although the filter may mean them"), "{notes}");
}

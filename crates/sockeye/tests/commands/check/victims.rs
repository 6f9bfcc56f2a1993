//! `sockeye check --watch`: findings about drops name whom they hit.

use super::diagnosis::check;
use super::faults::Script;
use crate::fixtures::binary::{SOCKEYE, command, words_in};
use crate::fixtures::processes::words_unprivileged;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use sockeye_lab::{Lab, Namespace, need, program, wait_until};
use sockeye_sys::bpf::Program;
use std::fs;
use std::process::Stdio;

/// A receiver of datagrams that is overrun again and again, and one that is not.
const OVERRUN: &str = "
receiver = udp()
receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
receiver.bind(('127.0.0.1', 5140))
innocent = udp()
innocent.bind(('127.0.0.1', 5141))
def again():
    while True:
        for _ in range(100): udp().sendto(bytes(500), receiver.getsockname())
        udp().sendto(b'x', innocent.getsockname())
        innocent.recv(10)
        receiver.setblocking(False)
        try:
            while True: receiver.recv(1000)
        except BlockingIOError: pass
        time.sleep(0.05)
threading.Thread(target=again, daemon=True).start()
ready()
sys.stdin.read()
";

/// A listener that accepts nothing.
const LISTENER: &str = "
listener = socket.socket()
listener.bind((ADDRESS, 8081))
listener.listen(4)
ready()
sys.stdin.read()
";

/// Clients that fill its queue, and then more at the same time: what is sent waits in a queue, so that all SYNs arrive before the first
/// ACK, which finds the accept queue full. The kernel sends the SYN-ACKs again and again, and gets an ACK each time.
const CLIENTS: &str = "
import subprocess
clients = [socket.create_connection((ADDRESS, 8081)) for _ in range(4)]
subprocess.check_call(f'tc qdisc add dev {DEVICE} root tbf rate 16kbit burst 128 limit 30000'.split())
udp().sendto(bytes(80), (ADDRESS, 9))
for _ in range(4):
    client = socket.socket()
    client.setblocking(False)
    try: client.connect((ADDRESS, 8081))
    except BlockingIOError: pass
    clients.append(client)
ready()
sys.stdin.read()
";

/// Sends more than its device takes.
const SENDER: &str = "
sender = udp()
def again():
    while True:
        for _ in range(20):
            try: sender.sendto(bytes(1000), (ADDRESS, 4000))
            except OSError: pass
        time.sleep(0.02)
threading.Thread(target=again, daemon=True).start()
ready()
sys.stdin.read()
";

/// Sends to two ports that no socket has.
const REFUSED: &str = "
sender = udp()
def again():
    while True:
        for port in (5300, 5399):
            for _ in range(5): sender.sendto(b'x', ('127.0.0.1', port))
        time.sleep(0.02)
threading.Thread(target=again, daemon=True).start()
ready()
sys.stdin.read()
";

#[track_caller]
fn victims<'a>(finding: &'a Value, reason: &str) -> Vec<&'a Value> {
    let all = finding["victims"].as_array();
    let all = all.unwrap_or_else(|| panic!("no victims: {finding:#}"));
    all.iter().filter(|victim| victim["reason"] == reason).collect()
}

#[test]
fn full_receive_buffer_names_its_socket_and_owner() {
    let lab = need!(Lab::new("victims_udp"));
    let here = lab.namespace("here");
    here.ip("link set lo up");
    let script = Script::start(&here, OVERRUN);
    let words = [
        "--only",
        "socket-drops,udp-unread,counters",
        "--watch",
        "0.5",
        "--count",
        "1",
    ];
    let found = check(&here, &words);
    let with_victims: Vec<&Value> = found
        .findings
        .iter()
        .filter(|finding| finding.get("victims").is_some())
        .collect();
    let [finding] = with_victims[..] else {
        panic!("{found}");
    };
    let all = victims(finding, "SOCKET_RCVBUFF");
    let [victim] = all[..] else {
        panic!("{finding:#}");
    };
    assert_eq!(finding["victims"].as_array().unwrap().len(), 1, "{finding:#}");
    assert_eq!(
        (&victim["local"]["ip"], &victim["local"]["port"]),
        (&"127.0.0.1".into(), &5140.into()),
        "{finding:#}"
    );
    assert_eq!(victim["owners"][0]["pid"], script.pid(), "{finding:#}");
    assert!(victim["count"].as_u64().unwrap() > 10, "{finding:#}");
    // A single look has none.
    let found = check(&here, &["--only", "socket-drops,udp-unread,counters"]);
    assert!(
        found
            .findings
            .iter()
            .all(|finding| finding.get("victims").is_none()),
        "{found}"
    );
}

#[test]
fn refused_packets_have_the_ends_of_the_latest_one() {
    let lab = need!(Lab::new("victims_refused"));
    let here = lab.namespace("here");
    here.ip("link set lo up");
    let _script = Script::start(&here, REFUSED);
    let found = words_in(&here, "check -n --only counters --watch 2 --count 1");
    let text = String::from_utf8_lossy(&found.stdout);
    let line = text.lines().find(|line| line.contains(" NO_SOCKET "));
    let line = line.unwrap_or_else(|| panic!("{found:?}"));
    // They are counted together, and the address is of one of them.
    let is_of_one = ["5300", "5399"]
        .iter()
        .any(|port| line.contains(&format!(" the latest 127.0.0.1:{port} <-> ")));
    assert!(is_of_one, "{line}");
    let found = check(&here, &["--only", "counters", "--watch", "2", "--count", "1"]);
    let with_victims = found
        .findings
        .iter()
        .filter(|finding| finding.get("victims").is_some());
    let refused = with_victims.flat_map(|finding| victims(finding, "NO_SOCKET"));
    let all: Vec<_> = refused.collect();
    let refused = all.first().unwrap_or_else(|| panic!("{found}"));
    assert_eq!(refused["latest_only"], true, "{found}");
}

#[test]
fn full_accept_queue_names_the_clients_that_it_turned_away() {
    need!(program("tc"));
    let lab = need!(Lab::new("victims_accept"));
    let (here, there) = (lab.namespace("here"), lab.namespace("there"));
    let link = lab.link(&here, &there);
    let address = link.server_addresses().0.to_string();
    let with_address = format!("ADDRESS = '{address}'\nDEVICE = '{}'\n", link.devices().0);
    let listener = Script::start(&there, &format!("{with_address}{LISTENER}"));
    let _clients = Script::start(&here, &format!("{with_address}{CLIENTS}"));
    let words = [
        "--only",
        "accept-queue,listener-drops",
        "--watch",
        "3",
        "--count",
        "1",
    ];
    let found = check(&there, &words);
    let [finding] = &found.findings[..] else {
        panic!("{found}");
    };
    let all = refused(finding, "accept");
    assert!(
        all.iter().any(|victim| victim["refusal"] == "ack-dropped"),
        "{finding:#}"
    );
    for victim in all {
        assert_eq!(victim["local"]["port"], 8081, "{finding:#}");
        assert_eq!(
            victim["peer"]["ip"],
            link.client_addresses().0.to_string(),
            "{finding:#}"
        );
        assert_eq!(victim["owners"][0]["pid"], listener.pid(), "{finding:#}");
    }
}

/// A listener with a backlog of 1 that accepts nothing.
const SHORT: &str = "
listener = socket.socket(FAMILY)
listener.bind((ANY, 8082))
listener.listen(1)
ready()
sys.stdin.read()
";

/// Two clients from an address fill its queue; then others come from two addresses: one of them twice, at different ports. The first
/// segments of all of them are dropped, again and again.
const TURNED_AWAY: &str = "
def client(source, port):
    client = socket.socket(FAMILY)
    client.bind((source, port))
    client.setblocking(False)
    try: client.connect((ADDRESS, 8082))
    except BlockingIOError: pass
    return client
first = [client(SOURCES[0], port) for port in (5001, 5002)]
time.sleep(0.5)
others = [client(SOURCES[0], 5003), client(SOURCES[1], 5004), client(SOURCES[1], 5005)]
ready()
sys.stdin.read()
";

/// The SYNs that a full accept queue drops are no dropped packets for the kernel: only counters move.
#[test]
fn full_accept_queue_names_the_clients_whose_first_segment_it_dropped() {
    for (family, any, address, sources, length) in [
        ("AF_INET", "0.0.0.0", "127.0.0.1", ["127.0.0.2", "127.0.0.3"], 32),
        ("AF_INET6", "::", "fd82::1", ["fd82::2", "fd82::3"], 128),
    ] {
        let lab = need!(Lab::new("victims_syn"));
        let here = lab.namespace("here");
        here.ip("link set lo up");
        for address in [address, sources[0], sources[1]] {
            if family == "AF_INET6" {
                here.ip(&format!("address add {address}/{length} dev lo nodad"));
            }
        }
        let names = format!(
            "FAMILY = socket.{family}\nANY = '{any}'\nADDRESS = '{address}'\nSOURCES = ['{}', '{}']\n",
            sources[0], sources[1]
        );
        let listener = Script::start(&here, &format!("{names}{SHORT}"));
        let _clients = Script::start(&here, &format!("{names}{TURNED_AWAY}"));
        // Their SYNs come again after 1 s, 2 s and 4 s.
        let words = ["--only", "accept-queue", "--watch", "5", "--count", "1"];
        let found = check(&here, &words);
        let [finding] = &found.findings[..] else {
            panic!("{found}");
        };
        let all = refused(finding, "accept");
        let mut peers: Vec<(&str, bool)> = all
            .iter()
            .map(|victim| {
                let is_of_latest = victim["latest_only"] == true;
                (victim["peer"]["ip"].as_str().unwrap(), is_of_latest)
            })
            .collect();
        peers.sort_unstable();
        assert_eq!(peers, [(sources[0], false), (sources[1], true)], "{finding:#}");
        for victim in &all {
            assert_eq!(victim["refusal"], "syn-dropped", "{finding:#}");
            assert_eq!(victim["local"]["ip"], address, "{finding:#}");
            assert_eq!(victim["owners"][0]["pid"], listener.pid(), "{finding:#}");
            assert!(victim.get("at_least").is_none(), "{finding:#}");
        }
        assert_eq!(
            all.len(),
            finding["victims"].as_array().unwrap().len(),
            "{finding:#}"
        );
    }
}

/// The victims that a full queue of a listener turned away.
#[track_caller]
fn refused<'a>(finding: &'a Value, queue: &str) -> Vec<&'a Value> {
    let all = finding["victims"].as_array();
    let all = all.unwrap_or_else(|| panic!("no victims: {finding:#}"));
    all.iter()
        .filter(|victim| victim["full_queue"] == queue)
        .collect()
}

#[test]
fn full_queueing_discipline_names_the_sender() {
    need!(program("tc"));
    let lab = need!(Lab::new("victims_qdisc"));
    let (here, there) = (lab.namespace("here"), lab.namespace("there"));
    let link = lab.link(&here, &there);
    let device = link.devices().0;
    let tbf = [
        "qdisc", "add", "dev", device, "root", "tbf", "rate", "8kbit", "burst", "1600", "limit", "3000",
    ];
    here.output("tc", &tbf);
    let script = Script::start(
        &here,
        &format!("ADDRESS = '{}'\n{SENDER}", link.server_addresses().0),
    );
    let found = check(
        &here,
        &["--only", "qdisc-drops", "--watch", "0.5", "--count", "1"],
    );
    let finding = found.the("qdisc-drops").0;
    let all = victims(finding, "QDISC_DROP");
    assert_eq!(all[0]["device"], device, "{finding:#}");
    assert_eq!(all[0]["owners"][0]["pid"], script.pid(), "{finding:#}");
    assert_eq!(all[0]["peer"]["port"], 4000, "{finding:#}");
}

#[test]
fn without_rights_a_note_says_that_no_victim_is_named() {
    let lab = need!(Lab::new("victims_rights"));
    let here = lab.namespace("here");
    let binary = lab.copy_for_all_users(SOCKEYE.as_ref());
    let outcome = words_unprivileged(&here, &binary, "check --watch 0.2 --count 1 --format json");
    assert_eq!(outcome.json()["checked"]["drops_watched"], false, "{outcome}");
    assert!(outcome.error().contains("do not name whose packets"), "{outcome}");
    let outcome = words_unprivileged(&here, &binary, "check --second-look 0 --format json");
    assert_eq!(outcome.json()["checked"].get("drops_watched"), None, "{outcome}");
    assert!(!outcome.error().contains("whose packets"), "{outcome}");
}

#[test]
fn nothing_stays_attached_after_a_killed_check() {
    let lab = need!(Lab::new("victims_killed"));
    let here: Namespace = lab.namespace("here");
    let mut command = command();
    command.args(["check", "--watch", "60", "--netns", here.name()]);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    let mut ids: Vec<u32> = Vec::new();
    wait_until("the program that counts drops", || {
        ids = attached(pid);
        !ids.is_empty()
    });
    let is_there = |id: &u32| Program::by_id(*id).is_ok();
    let were_there = ids.iter().all(is_there);
    kill_process(pid, Signal::KILL).unwrap();
    child.wait().unwrap();
    assert!(were_there, "{ids:?}");
    wait_until("the end of the programs", || !ids.iter().any(is_there));
}

/// The programs that a process has attached to something.
fn attached(pid: Pid) -> Vec<u32> {
    let folder = format!("/proc/{}/fdinfo", pid.as_raw_nonzero());
    let Ok(files) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let texts = files
        .flatten()
        .filter_map(|file| fs::read_to_string(file.path()).ok())
        .filter(|text| text.contains("link_type:"));
    let ids = texts.filter_map(|text| {
        text.lines()
            .find_map(|line| line.strip_prefix("prog_id:")?.trim().parse().ok())
    });
    ids.collect()
}

//! Hostile names, and sockets that are created and closed during a listing.

use crate::fixtures::binary::{assert_harmless, command, run, sockets, words_in};
use rustix::net::sockopt::set_socket_linger;
use serde_json::Value;
use sockeye_lab::{Lab, UnixKind, UnixName, need};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

#[test]
fn process_names_are_escaped_in_tables_and_exact_in_json() {
    let lab = need!(Lab::new("names"));
    let here = lab.namespace("here");
    let start = |name: &&[u8]| {
        lab.process(name)
            .in_namespace(&here)
            .tcp_pair("127.0.0.1:0")
            .start()
    };
    let processes: Vec<_> = NAMES.iter().map(start).collect();
    for line in [
        "sockets -tanpH",
        "sockets -tanpH --sort process",
        "sockets -tanpH --format csv",
        "sockets -tanp --format json",
        "sockets -tanp --format jsonl",
        "flows -np",
        "flows -n --group-by process",
        "flows -n --group-by process --format csv",
    ] {
        let outcome = words_in(&here, line);
        outcome.ok();
        assert_harmless(&without_csv_line_ends(&outcome.stdout));
        assert_harmless(&outcome.stderr);
        for process in &processes {
            assert!(
                outcome.ok().contains(&process.pid().to_string()),
                "{line}: {outcome}"
            );
        }
        // One socket is one row, whatever the name of its owner is.
        if line.starts_with("sockets -tanpH") {
            assert_eq!(
                outcome.ok().lines().count(),
                3 * processes.len(),
                "{line}: {outcome}"
            );
        }
    }
    let listed = words_in(&here, "sockets -tanp --format json").json();
    let flows = words_in(&here, "flows -np --format json").json();
    let flows = flows["flows"].as_array().expect("flows");
    for (name, process) in NAMES.iter().zip(&processes) {
        assert_eq!(process.comm(), *name);
        for held in process.sockets() {
            let socket = sockets(&listed)
                .iter()
                .find(|socket| socket["inode"] == held.inode);
            let owner = &socket.expect("the socket is listed")["owners"][0];
            assert_eq!(owner["pid"], process.pid());
            assert_eq!(exact(owner, "comm"), *name, "{owner}");
        }
        let mut owners = flows
            .iter()
            .filter_map(|flow| flow["owners"].as_array())
            .flatten();
        let owner = owners.find(|owner| owner["pid"] == process.pid());
        assert_eq!(exact(owner.expect("an owner"), "comm"), *name);
    }
}

#[test]
fn unix_names_are_escaped_in_tables_and_exact_in_json() {
    let lab = need!(Lab::new("unixnames"));
    let here = lab.namespace("here");
    let names = NAMES
        .iter()
        .enumerate()
        .flat_map(|(place, tail)| [lab.unix_abstract(tail), lab.unix_path(file_name(place, tail))]);
    let bound: Vec<_> = names
        .map(|name| (here.unix_bound(UnixKind::Stream, &name), name))
        .collect();
    for source in ["diag", "procfs"] {
        for format in ["table", "csv", "json", "jsonl"] {
            let outcome = words_in(
                &here,
                &format!("sockets -xanH --source {source} --format {format}"),
            );
            outcome.ok();
            assert_harmless(&without_csv_line_ends(&outcome.stdout));
            assert_harmless(&outcome.stderr);
            if source == "diag" && matches!(format, "table" | "csv") {
                assert_eq!(outcome.ok().lines().count(), bound.len(), "{format}: {outcome}");
            }
        }
    }
    let listed = words_in(&here, "sockets -xan --source diag --format json").json();
    for (held, name) in &bound {
        let socket = sockets(&listed)
            .iter()
            .find(|socket| socket["inode"] == held.inode);
        let local = &socket.expect("the socket is listed")["local"];
        let expected = match name {
            UnixName::Path(path) => path.as_os_str().as_encoded_bytes(),
            UnixName::Abstract(name) => name,
            UnixName::Unnamed => unreachable!("it has a name"),
        };
        assert_eq!(exact(local, "name"), expected, "{local}");
        assert_eq!(
            local["abstract"] == true,
            matches!(name, UnixName::Abstract(_)),
            "{local}"
        );
    }
}

/// `/proc/net/unix` has the names as they are: one with a line feed and a row behind it looks like two sockets.
#[test]
fn imitated_row_of_proc_net_unix_is_noted() {
    let lab = need!(Lab::new("imitated"));
    let here = lab.namespace("here");
    let tail = "\n0000000000000000: 00000002 00000000 00010000 0001 01 424242 /run/x";
    let bound = here.unix_bound(UnixKind::Stream, &lab.unix_abstract(tail));
    let note = "1 row of /proc/net/unix is more than there are UNIX sockets";
    let outcome = words_in(&here, "sockets -xan --source procfs --format json");
    let listed = outcome.json();
    assert_eq!(listed["losses"]["surplus_rows"], 1, "{outcome}");
    assert!(outcome.error().contains(note), "{outcome}");
    for line in ["sockets -xan --source procfs", "netstat -xan"] {
        let outcome = words_in(&here, line);
        outcome.ok();
        assert!(outcome.error().contains(note), "{line}: {outcome}");
    }
    // Netlink has one socket, with its true name.
    let outcome = words_in(&here, "sockets -xanH --source diag");
    assert_eq!(outcome.quiet().lines().count(), 1, "{outcome}");
    assert!(outcome.ok().contains("\\x0a0000000000000000: "), "{outcome}");
    drop(bound);
    // An ordinary name is no reason for a note.
    let _bound = here.unix_bound(UnixKind::Stream, &lab.unix_abstract("ordinary"));
    words_in(&here, "netstat -xan").quiet();
}

#[test]
fn listing_during_socket_churn_is_complete() {
    let lab = need!(Lab::new("churn"));
    let here = lab.namespace("here");
    let net_path = here.loopback();
    let steady = net_path.established();
    // More than procfs hands out at once.
    let _others: Vec<_> = (0..40).map(|_| net_path.established()).collect();
    let steady_port = steady.client.port();
    let (stop, made) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let churn = || {
            here.run(|| {
                let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("bind");
                let address = listener.local_addr().expect("an address");
                while !stop.load(Ordering::Relaxed) {
                    let clients: Vec<_> = (0..8).filter_map(|_| TcpStream::connect(address).ok()).collect();
                    let servers: Vec<_> = clients.iter().map(|_| listener.accept()).collect();
                    let datagrams: Vec<_> = (0..8)
                        .map(|_| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)))
                        .collect();
                    made.fetch_add(1, Ordering::Relaxed);
                    // By RST: thousands of sockets in TIME_WAIT would only make this slow.
                    for client in &clients {
                        set_socket_linger(client, Some(Duration::ZERO)).expect("linger");
                    }
                    drop((clients, servers, datagrams));
                }
            });
        };
        scope.spawn(churn);
        scope.spawn(churn);
        // A failure below must not leave the threads running.
        let listings = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for round in 0..3 {
                for line in [
                    "sockets -anp --format json",
                    "sockets -an --source procfs --format json",
                    "sockets -tani --source diag-v2 --format json",
                ] {
                    let outcome = words_in(&here, line);
                    let listed = outcome.json();
                    assert!(listed["losses"].is_object(), "{outcome}");
                    let steady = sockets(&listed)
                        .iter()
                        .filter(|socket| {
                            socket["local"]["port"] == steady_port && socket["state"] == "established"
                        })
                        .count();
                    // procfs listed the same connection a hundred times: the kernel does, when others are opened.
                    let mut ends: Vec<_> = sockets(&listed)
                        .iter()
                        .filter(|socket| socket["netid"] == "tcp")
                        .map(|socket| format!("{} {} {}", socket["local"], socket["peer"], socket["inode"]))
                        .collect();
                    ends.sort();
                    let twice = ends.windows(2).find(|two| two[0] == two[1]);
                    assert_eq!(twice, None, "{line}");
                    let lost = listed["losses"]["incomplete_dumps"].as_u64().expect("a number");
                    assert!(
                        steady == 1 || (steady == 0 && lost > 0),
                        "round {round}, {steady}: {outcome}"
                    );
                }
                let outcome = words_in(&here, "flows -np --format json");
                assert!(
                    outcome.json()["flows"]
                        .as_array()
                        .is_some_and(|flows| !flows.is_empty()),
                    "{outcome}"
                );
                words_in(&here, "sockets -an").ok();
            }
            made.load(Ordering::Relaxed)
        }));
        stop.store(true, Ordering::Relaxed);
        let made = listings.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        assert!(made > 10, "{made}");
    });
}

#[test]
fn process_churn_does_not_lose_owners() {
    let lab = need!(Lab::new("processes"));
    let here = lab.namespace("here");
    let steady = lab
        .process("steady")
        .in_namespace(&here)
        .tcp_pair("127.0.0.1:0")
        .start();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                drop(std::process::Command::new("true").status());
            }
        });
        let listings = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for _ in 0..6 {
                let outcome = words_in(&here, "sockets -tanp --format json");
                let listed = outcome.json();
                for socket in sockets(&listed) {
                    assert_eq!(socket["owners"][0]["pid"], steady.pid(), "{outcome}");
                    assert_eq!(socket["owners"][0]["comm"], "steady", "{outcome}");
                }
                assert_eq!(sockets(&listed).len(), 3, "{outcome}");
            }
        }));
        stop.store(true, Ordering::Relaxed);
        listings.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

#[test]
fn namespace_deleted_during_a_listing_is_counted() {
    let lab = need!(Lab::new("gone"));
    let here = lab.namespace("here");
    let pair = here.loopback().established();
    // A name whose namespace is gone: an empty file.
    let name = format!("{}-dead", lab.name());
    let dead = Removed(std::path::Path::new("/run/netns").join(&name));
    std::fs::write(&dead.0, "").expect("write");
    // Sources that enter each namespace miss this one; a source that reads all at once does not.
    let all = [
        "sockets", "-tan", "--netns", "all", "--format", "json", "--source", "diag",
    ];
    let outcome = run(command().args(all));
    let listed = outcome.json();
    assert!(
        listed["losses"]["unreadable_namespaces"].as_u64() >= Some(1),
        "{outcome}"
    );
    assert!(outcome.error().contains("could not be entered"), "{outcome}");
    let ports: Vec<_> = sockets(&listed)
        .iter()
        .map(|socket| &socket["local"]["port"])
        .collect();
    assert!(ports.contains(&&Value::from(pair.client.port())), "{outcome}");
    let outcome = run(command().args(["flows", "--netns", &name]));
    assert!(outcome.failed(1).contains("it is no namespace"), "{outcome}");
}

/// Names with control characters, line feeds, separators, or invalid UTF-8. At most 15 bytes.
const NAMES: &[&[u8]] = &[
    b"\x1b[2J\x1b[31mroot",
    b"\x1b]0;title\x07",
    b"a\nESTAB 0 0",
    b"a\r\n\t\x0b\x0cb",
    b"a,b;\"c'\"\"",
    b"=cmd|' /C'!A0",
    b"\\x1b\\n\\",
    b"\xff\xfe\x80\xc3(",
    b"\xc2\x9b2J\xc2\x85x",
    "\u{202e}gpj\u{200b}".as_bytes(),
    b")) S 1 (",
    b"{\"pid\":1}",
    b" ",
    b"<script>&amp;",
    b"%s%n%d",
];

/// A unique name that is valid for a file.
fn file_name(place: usize, name: &[u8]) -> Vec<u8> {
    let fit = name.iter().map(|&byte| if byte == b'/' { b'|' } else { byte });
    place.to_string().into_bytes().into_iter().chain(fit).collect()
}

/// The exact bytes in JSON: a text that is not UTF-8 has a second key with its bytes in hexadecimal.
#[track_caller]
fn exact(object: &Value, key: &str) -> Vec<u8> {
    let Some(hex) = object[format!("{key}_hex")].as_str() else {
        let text = object[key].as_str();
        return text
            .unwrap_or_else(|| panic!("no {key} in {object}"))
            .as_bytes()
            .to_vec();
    };
    let digits = |place: usize| u8::from_str_radix(&hex[place..place + 2], 16).expect("hexadecimal");
    (0..hex.len()).step_by(2).map(digits).collect()
}

/// A file that is removed at the end of the test.
struct Removed(std::path::PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// RFC 4180 ends its lines with CR and LF.
fn without_csv_line_ends(text: &[u8]) -> Vec<u8> {
    String::from_utf8_lossy(text).replace("\r\n", "\n").into_bytes()
}

//! Queues of which only is known what waits there.

use super::{Following, alone, hop};
use crate::fixtures::terminal::Terminal;
use serde_json::Value;
use sockeye_lab::{Lab, Namespace, need, program};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Stdio;
use std::time::Duration;

#[test]
fn accept_queue_of_a_listener_has_a_row() {
    let (lab, here) = need!(alone("path_accept"));
    let address = "127.0.0.1:5450";
    let listener = here.run(|| TcpListener::bind(address).unwrap());
    let following = Following::start(&lab, &format!("--format json --port 5450 -N {}", here.name()));
    let clients: Vec<_> = (0..3)
        .map(|_| here.run(|| TcpStream::connect(address).unwrap()))
        .collect();
    let document = following.document();
    let row = hop(&document, "in", "accept");
    assert_eq!(row["listener"], address, "{document:#}");
    assert_eq!((&row["queued_now"], &row["queued_max"]), (&3.into(), &3.into()));
    assert!(row["queue_limit"].as_u64().unwrap() >= 3);
    // What is not known has no key: nothing was accepted.
    assert_eq!(document["accepts_measured"], true, "{document:#}");
    assert!(
        row.get("packets").is_none() && row.get("median_ns").is_none(),
        "{row:#}"
    );
    drop((clients, listener));
}

/// Connects three times, and accepts each connection so long after it is there.
fn accept_late(here: &Namespace, listener: &TcpListener, delay: Duration) {
    let address = listener.local_addr().unwrap();
    for _ in 0..3 {
        let mut client = here.run(|| TcpStream::connect(address).unwrap());
        std::thread::sleep(delay);
        let (mut accepted, _) = listener.accept().unwrap();
        client.write_all(&[7; 64]).unwrap();
        accepted.read_exact(&mut [0; 64]).unwrap();
    }
}

/// Asserts that connections waited at least so long, and not much longer.
#[track_caller]
fn assert_waits(document: &Value, row: &Value, delay: Duration) {
    let least = u64::try_from(delay.as_nanos()).unwrap();
    let median = row["median_ns"].as_u64().unwrap();
    assert!((least..5 * least).contains(&median), "{document:#}");
    assert!(row["max_ns"].as_u64().unwrap() >= median, "{document:#}");
}

#[test]
fn connections_wait_in_the_accept_queue_until_they_are_accepted() {
    let lab = need!(Lab::new("path_late"));
    let here = lab.namespace("here");
    here.ip("link set lo up");
    let cases = [
        ("127.0.0.1:5452", Duration::from_millis(50)),
        ("[::1]:5453", Duration::from_millis(200)),
    ];
    for (address, delay) in cases {
        let listener = here.run(|| TcpListener::bind(address).unwrap());
        let port = listener.local_addr().unwrap().port();
        let following = Following::start(&lab, &format!("--format json --port {port} -N {}", here.name()));
        accept_late(&here, &listener, delay);
        let document = following.document();
        let row = hop(&document, "in", "accept");
        assert_eq!((&row["listener"], &row["packets"]), (&address.into(), &3.into()));
        assert_waits(&document, row, delay);
        assert_eq!(row["reader"]["pid"], std::process::id(), "{document:#}");
        assert_eq!((&row["drops"], &row["queued_max"]), (&0.into(), &1.into()));
        // No part of the way of packets.
        assert!(row.get("share_percent").is_none() && row.get("bytes").is_none());
        let sentences = document["sentences"].as_array().unwrap();
        let late = sentences
            .iter()
            .find(|sentence| sentence["code"] == "accept-queue");
        let text = late.unwrap()["text"].as_str().unwrap();
        assert!(text.contains(address), "{text}");
    }
}

/// Two processes with one listener, each of which accepts by another call, 50 ms after a connection is there.
const PREFORK: &str = "
import ctypes, os, select, socket, sys, time
libc = ctypes.CDLL(None)
listener = socket.create_server(('0.0.0.0', 5454))
calls = [lambda: libc.accept(listener.fileno(), None, None), lambda: libc.accept4(listener.fileno(), None, None, 0)]
for number, call in enumerate(calls):
    pid = os.fork()
    if pid:
        print(pid, flush=True)
        continue
    os.read(0, 1) # its turn
    select.select([listener], [], [])
    time.sleep(0.05)
    connection = call()
    os.write(connection, b'x')
    os.read(connection, 1)
    os._exit(0)
for _ in calls:
    os.wait()
";

#[test]
fn worker_that_accepts_is_the_reader_of_the_accept_queue() {
    let (lab, here) = need!(alone("path_prefork"));
    need!(program("python3"));
    let mut server = here
        .command("python3", &["-c", PREFORK])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let workers: Vec<u32> = (0..2)
        .map(|_| lines.next().unwrap().unwrap().parse().unwrap())
        .collect();
    let following = Following::start(&lab, &format!("--format json --port 5454 -N {}", here.name()));
    for _ in 0..2 {
        server.stdin.as_mut().unwrap().write_all(b"x").unwrap();
        let mut client = here.run(|| TcpStream::connect("127.0.0.1:5454").unwrap());
        client.read_exact(&mut [0]).unwrap();
        client.write_all(b"x").unwrap();
    }
    server.wait().unwrap();
    let document = following.document();
    let row = hop(&document, "in", "accept");
    assert_eq!(
        (&row["listener"], &row["packets"]),
        (&"0.0.0.0:5454".into(), &2.into()),
        "{document:#}"
    );
    assert_waits(&document, row, Duration::from_millis(50));
    let reader = row["reader"]["pid"].as_u64().unwrap();
    assert!(
        workers.iter().any(|worker| u64::from(*worker) == reader),
        "{document:#}"
    );
    assert_eq!(row["other_readers"], 1, "{document:#}");
}

#[test]
fn connection_that_is_closed_before_it_is_accepted_is_a_drop() {
    let (lab, here) = need!(alone("path_unaccepted"));
    let address = "127.0.0.1:5455";
    let listener = here.run(|| TcpListener::bind(address).unwrap());
    let following = Following::start(&lab, &format!("--format json --port 5455 -N {}", here.name()));
    let client = here.run(|| TcpStream::connect(address).unwrap());
    // Its end is a reset.
    rustix::net::sockopt::set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
    drop(client);
    let document = following.document();
    let row = hop(&document, "in", "accept");
    assert_eq!(
        (&row["packets"], &row["drops"]),
        (&0.into(), &1.into()),
        "{document:#}"
    );
    drop(listener);
}

#[test]
fn classes_in_which_packets_wait_have_rows() {
    let lab = need!(Lab::new("path_classes"));
    need!(program("tc"));
    let (client, server) = (lab.namespace("client"), lab.namespace("server"));
    let link = lab.link(&client, &server);
    let device = link.devices().0;
    let tc = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        client.output("tc", &words)
    };
    tc(&format!(
        "qdisc replace dev {device} root handle 1: htb default 10"
    ));
    tc(&format!(
        "class add dev {device} parent 1: classid 1:10 htb rate 80kbit burst 2k"
    ));
    let address = SocketAddr::new(link.server_addresses().0, 5451);
    let following = Following::start(
        &lab,
        &format!("--format json dst {} and dport = :5451", address.ip()),
    );
    let _receiving = server.run(|| UdpSocket::bind(address).unwrap());
    let sending = client.run(|| UdpSocket::bind("0.0.0.0:0").unwrap());
    for _ in 0..20 {
        sending.send_to(&[1; 1000], address).unwrap();
    }
    let document = following.document();
    let class = hop(&document, "out", "class");
    assert_eq!(
        (&class["class"], &class["device"]),
        (&"1:10".into(), &device.into())
    );
    assert!(class["queued_max"].as_u64().unwrap() >= 10, "{document:#}");
}

/// A pid and a pace of many digits: the columns that are left out leave room for them.
#[test]
fn row_is_one_line_of_a_terminal_whatever_its_reader() {
    let (lab, here) = need!(alone("path_terminal"));
    let [receiving, sending] =
        [5486, 0].map(|port| here.run(|| UdpSocket::bind(("127.0.0.1", port)).unwrap()));
    for columns in [80, 84, 90, 100] {
        let terminal = Terminal::new(columns);
        let following = Following::start_on(
            &lab,
            &format!("--color never --port 5486 -N {}", here.name()),
            terminal.stdio(),
        );
        for _ in 0..50 {
            for _ in 0..8 {
                sending.send_to(&[7; 64], "127.0.0.1:5486").unwrap();
            }
            for _ in 0..8 {
                receiving.recv(&mut [0; 64]).unwrap();
                std::thread::sleep(Duration::from_micros(200));
            }
        }
        following.end();
        let text = String::from_utf8(terminal.read_to_end()).unwrap();
        let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("in ")).collect();
        assert!(rows.len() >= 4, "{text}");
        let longest = text.lines().map(|line| line.trim_end().chars().count()).max();
        assert!(longest <= Some(columns.into()), "{columns}: {longest:?}\n{text}");
    }
}

//! `sockeye drops`: faults made for real in namespaces; what is reported is compared with the kernel's own counters.

use crate::fixtures::binary::{Outcome, SOCKEYE, clean, words_in};
use crate::fixtures::processes::words_unprivileged;
use crate::fixtures::schema_file;
use jsonschema::{Draft, JSONSchema};
use rustix::net::{AddressFamily, SocketType, bind, listen, socket};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use sockeye_lab::{Lab, Namespace, Skip, need, program, wait_until};
use sockeye_sys::bpf::Program;
use std::fs;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// A running `sockeye drops`.
pub(super) struct Watching {
    child: Option<Child>,
    stderr: PathBuf,
}

impl Watching {
    /// Starts it in a namespace, and waits until it counts.
    #[track_caller]
    pub(super) fn start(lab: &Lab, namespace: &Namespace, line: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let stderr = lab.directory().join(format!("drops{number}"));
        let arguments: Vec<_> = line.split_whitespace().collect();
        let mut command = namespace.command(SOCKEYE, &[&["drops", "-v"], &arguments[..]].concat());
        clean(&mut command);
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(fs::File::create(&stderr).unwrap())
            .spawn()
            .unwrap();
        let watching = Self {
            child: Some(child),
            stderr,
        };
        wait_until("the start of drops", || {
            watching.error().contains("drops are counted")
        });
        watching
    }

    fn error(&self) -> String {
        fs::read_to_string(&self.stderr).unwrap()
    }

    fn pid(&self) -> Pid {
        let id = self.child.as_ref().unwrap().id();
        Pid::from_raw(i32::try_from(id).unwrap()).unwrap()
    }

    /// Ends it by a signal; returns what it printed.
    #[track_caller]
    pub(super) fn end_by(mut self, signal: Signal) -> Outcome {
        kill_process(self.pid(), signal).unwrap();
        let mut outcome: Outcome = self.child.take().unwrap().wait_with_output().unwrap().into();
        outcome.stderr = self.error().into_bytes();
        outcome
    }

    /// Ends it; returns its document.
    #[track_caller]
    pub(super) fn end(self) -> Value {
        self.end_with_notes().0
    }

    /// Ends it; returns its document, and what it noted on standard error.
    #[track_caller]
    pub(super) fn end_with_notes(self) -> (Value, String) {
        let outcome = self.end_by(Signal::INT);
        let document = outcome.json();
        check_schema(&document);
        (document, String::from_utf8_lossy(&outcome.stderr).into_owned())
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Panics unless the document follows its schema.
#[track_caller]
fn check_schema(document: &Value) {
    let schema = schema_file::load(include_str!("../../../../../docs/schema/drops.schema.json"));
    let schema = JSONSchema::options()
        .with_draft(Draft::Draft202012)
        .compile(&schema)
        .unwrap();
    let errors: Vec<_> = match schema.validate(document) {
        Ok(()) => return,
        Err(errors) => errors
            .map(|error| format!("{}: {error}", error.instance_path))
            .collect(),
    };
    panic!("{errors:#?}\n{document:#}");
}

/// A lab with one namespace, whose loopback is up.
pub(super) fn alone(purpose: &str) -> Result<(Lab, Namespace), Skip> {
    let lab = Lab::new(purpose)?;
    let here = lab.namespace("here");
    here.sysctl("ipv6/conf/default/disable_ipv6", "1");
    here.ip("link set lo up");
    Ok((lab, here))
}

/// The rows of this namespace with a reason.
pub(super) fn rows<'a>(document: &'a Value, namespace: &Namespace, reason: &str) -> Vec<&'a Value> {
    let all = document["drops"].as_array().unwrap();
    all.iter()
        .filter(|row| row["netns_inode"] == namespace.inode() && row["reason"] == reason)
        .collect()
}

pub(super) fn sum(rows: &[&Value]) -> u64 {
    rows.iter().map(|row| row["count"].as_u64().unwrap()).sum()
}

/// The line of a counter of this namespace.
#[track_caller]
pub(super) fn counter<'a>(document: &'a Value, namespace: &Namespace, name: &str) -> &'a Value {
    let all = document["counters"].as_array().unwrap();
    let is_it = |line: &&Value| line["netns_inode"] == namespace.inode() && line["counter"] == name;
    all.iter()
        .find(is_it)
        .unwrap_or_else(|| panic!("no {name}: {document:#}"))
}

/// The value of a counter in `/proc/net/snmp` or `netstat`.
pub(super) fn value(namespace: &Namespace, file: &str, table: &str, name: &str) -> u64 {
    let text = namespace.proc_net(file);
    let lines: Vec<_> = text
        .lines()
        .filter(|line| line.starts_with(&format!("{table}:")))
        .collect();
    let place = lines[0].split_whitespace().position(|word| word == name).unwrap();
    lines[1].split_whitespace().nth(place).unwrap().parse().unwrap()
}

/// Sends as many datagrams.
pub(super) fn send(from: &UdpSocket, to: SocketAddr, bytes: usize, times: u32) {
    let data = vec![7; bytes];
    for _ in 0..times {
        from.send_to(&data, to).unwrap();
    }
}

/// A listener whose accept queue takes one connection.
fn narrow_listener() -> (OwnedFd, SocketAddr) {
    let listener = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&listener, &"127.0.0.1:0".parse::<SocketAddr>().unwrap()).unwrap();
    listen(&listener, 0).unwrap();
    let address = rustix::net::getsockname(&listener).unwrap();
    (listener, SocketAddr::try_from(address).unwrap())
}

#[test]
fn full_udp_receive_buffer_is_a_loss_of_its_owner() {
    let (lab, here) = need!(alone("drops-udp"));
    let receiver = here.run(|| UdpSocket::bind("127.0.0.1:0").unwrap());
    let sender = here.run(|| UdpSocket::bind("127.0.0.1:0").unwrap());
    rustix::net::sockopt::set_socket_recv_buffer_size(&receiver, 4096).unwrap();
    let before = value(&here, "snmp", "Udp", "RcvbufErrors");
    let watching = Watching::start(&lab, &here, "--format json");
    send(&sender, receiver.local_addr().unwrap(), 100, 500);
    let dropped = value(&here, "snmp", "Udp", "RcvbufErrors") - before;
    assert!(dropped > 100, "{dropped}");
    let document = watching.end();
    let rows = rows(&document, &here, "SOCKET_RCVBUFF");
    assert_eq!((rows.len(), sum(&rows)), (1, dropped), "{document:#}");
    let row = rows[0];
    assert_eq!(row["class"], "loss");
    assert_eq!(row["process"]["pid"], std::process::id());
    assert_eq!(row["protocol"], "udp");
    assert_eq!(row["local"]["port"], receiver.local_addr().unwrap().port());
    assert_eq!(
        row["seen_packets"][0]["source"]["port"],
        sender.local_addr().unwrap().port()
    );
    for name in ["UdpRcvbufErrors", "UdpInErrors"] {
        let line = counter(&document, &here, name);
        assert_eq!(
            (&line["moved"], &line["remainder"]),
            (&dropped.into(), &0.into()),
            "{line}"
        );
        assert_eq!(line["explained_by"][0]["cause"], "SOCKET_RCVBUFF");
    }
    assert_eq!(counter(&document, &here, "sk_drops")["remainder"], 0);
}

#[test]
fn refused_connections_are_refusals() {
    let (lab, here) = need!(alone("drops-refused"));
    let before = value(&here, "snmp", "Tcp", "OutRsts");
    let watching = Watching::start(&lab, &here, "--format json");
    here.run(|| {
        for _ in 0..20 {
            let error = TcpStream::connect("127.0.0.1:9").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        }
    });
    assert_eq!(value(&here, "snmp", "Tcp", "OutRsts") - before, 20);
    let document = watching.end();
    let rows = rows(&document, &here, "NO_SOCKET");
    assert_eq!(sum(&rows), 20, "{document:#}");
    assert!(
        rows.iter()
            .all(|row| row["class"] == "refusal" && row.get("process").is_none()),
        "{document:#}"
    );
    assert_eq!(rows[0]["seen_packets"][0]["destination"]["port"], 9);
    let line = counter(&document, &here, "TcpOutRsts");
    assert_eq!((&line["moved"], &line["remainder"]), (&20.into(), &0.into()));
}

#[test]
fn full_accept_queue_is_explained_by_its_listener() {
    let (lab, here) = need!(alone("drops-listen"));
    let (_listener, address) = here.run(narrow_listener);
    let before = value(&here, "netstat", "TcpExt", "ListenDrops");
    let watching = Watching::start(&lab, &here, "--format json");
    let _clients: Vec<_> = here.run(|| {
        let connect = |_| {
            let client = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
            rustix::io::ioctl_fionbio(&client, true).unwrap();
            let _ = rustix::net::connect(&client, &address);
            client
        };
        (0..6).map(connect).collect()
    });
    wait_until("dropped SYNs", || {
        value(&here, "netstat", "TcpExt", "ListenDrops") > before + 2
    });
    let document = watching.end();
    for name in ["TcpExtListenDrops", "TcpExtListenOverflows"] {
        let line = counter(&document, &here, name);
        assert_eq!(line["remainder"], 0, "{line}");
        let part = &line["explained_by"][0];
        assert_eq!(
            (&part["cause"], &part["count"]),
            (&"accept queue".into(), &line["moved"]),
            "{line}"
        );
        assert!(
            part["owner_name"]
                .as_str()
                .unwrap()
                .contains(&std::process::id().to_string()),
            "{line}"
        );
        assert_eq!(line["explain"], name);
    }
}

#[test]
fn refused_connection_requests_are_not_called_no_drop() {
    let (lab, here) = need!(alone("drops-requests"));
    let (_listener, address) = here.run(narrow_listener);
    let watching = Watching::start(&lab, &here, &format!("-N {}", here.name()));
    let before = value(&here, "netstat", "TcpExt", "ListenDrops");
    let connect = || {
        let client = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        rustix::io::ioctl_fionbio(&client, true).unwrap();
        let _ = rustix::net::connect(&client, &address);
        client
    };
    // One after the other: a request that waits would be dropped with a reason.
    let _clients: Vec<_> = here.run(|| (0..7).map(|_| connect()).collect());
    wait_until("dropped SYNs", || {
        value(&here, "netstat", "TcpExt", "ListenDrops") > before + 2
    });
    let outcome = watching.end_by(Signal::INT);
    let text = outcome.ok();
    assert!(!text.contains("No packet was dropped"), "{text}");
    assert!(
        text.contains(
            "connection requests were refused by listeners, which the kernel reports by counters only"
        ),
        "{text}"
    );
    let line = text
        .lines()
        .find(|line| line.starts_with("TcpExtListenDrops"))
        .unwrap();
    assert!(line.contains("by accept queue of "), "{text}");
}

#[test]
fn drops_of_a_qdisc_are_those_that_it_counts() {
    need!(program("tc"));
    let lab = need!(Lab::new("drops-tbf"));
    let (here, there) = (lab.namespace("here"), lab.namespace("there"));
    let link = lab.link(&here, &there);
    let device = link.devices().0.to_owned();
    let tbf = [
        "qdisc", "add", "dev", &device, "root", "tbf", "rate", "8kbit", "burst", "1600", "limit", "3000",
    ];
    here.output("tc", &tbf);
    let sender = here.run(|| UdpSocket::bind("0.0.0.0:0").unwrap());
    let to = SocketAddr::new(link.server_addresses().0, 4000);
    let watching = Watching::start(&lab, &here, "--format json");
    let data = [7; 1000];
    for _ in 0..100 {
        // The kernel may report that the queue is full.
        let _ = sender.send_to(&data, to);
    }
    let document = watching.end();
    let rows = rows(&document, &here, "QDISC_DROP");
    let dropped = sum(&rows);
    assert!(dropped > 50, "{document:#}");
    let of_sender: Vec<_> = rows
        .into_iter()
        .filter(|row| row["process"]["pid"] == std::process::id())
        .collect();
    assert!(sum(&of_sender) > 50, "{document:#}");
    assert_eq!(
        (&of_sender[0]["owner_by"], &of_sender[0]["device"]),
        (&"packet".into(), &device.as_str().into())
    );
    let line = counter(&document, &here, "qdisc drops");
    assert_eq!(
        (&line["moved"], &line["remainder"], &line["of"]),
        (&dropped.into(), &0.into(), &device.as_str().into())
    );
}

#[test]
fn drop_of_the_firewall_is_policy_and_names_who_waits() {
    need!(program("nft"));
    let (lab, here) = need!(alone("drops-nft"));
    let receiver = here.run(|| UdpSocket::bind("127.0.0.1:0").unwrap());
    let sender = here.run(|| UdpSocket::bind("127.0.0.1:0").unwrap());
    let port = receiver.local_addr().unwrap().port();
    let rules = format!(
        "add table inet t; add chain inet t in {{ type filter hook input priority 0; }}; add rule inet t in udp dport {port} drop"
    );
    here.output("nft", &[rules]);
    let watching = Watching::start(&lab, &here, "--format json");
    send(&sender, receiver.local_addr().unwrap(), 10, 30);
    let document = watching.end();
    let rows = rows(&document, &here, "NETFILTER_DROP");
    assert_eq!(sum(&rows), 30, "{document:#}");
    assert_eq!(
        (&rows[0]["class"], &rows[0]["process"]["pid"]),
        (&"policy".into(), &std::process::id().into()),
        "{document:#}"
    );
}

#[test]
fn reverse_path_filter_is_policy_that_its_counter_counts() {
    let lab = need!(Lab::new("drops-rpf"));
    let (here, there) = (lab.namespace("here"), lab.namespace("there"));
    let link = lab.link(&there, &here);
    here.sysctl("ipv4/conf/all/rp_filter", "1");
    there.ip(&format!("addr add 192.0.2.77/32 dev {}", link.devices().0));
    let sender = there.run(|| UdpSocket::bind("192.0.2.77:0").unwrap());
    let to = SocketAddr::new(link.server_addresses().0, 4000);
    let watching = Watching::start(&lab, &here, "--format json");
    send(&sender, to, 10, 25);
    wait_until("dropped packets", || {
        value(&here, "netstat", "TcpExt", "IPReversePathFilter") >= 25
    });
    let document = watching.end();
    let rows = rows(&document, &here, "IP_RPFILTER");
    assert_eq!(
        (sum(&rows), &rows[0]["class"]),
        (25, &"policy".into()),
        "{document:#}"
    );
    assert_eq!(rows[0]["device"], link.devices().1);
    let line = counter(&document, &here, "TcpExtIPReversePathFilter");
    assert_eq!((&line["moved"], &line["remainder"]), (&25.into(), &0.into()));
}

#[test]
fn counter_without_a_packet_has_a_remainder() {
    let (lab, here) = need!(alone("drops-route"));
    let sender = here.run(|| UdpSocket::bind("0.0.0.0:0").unwrap());
    let watching = Watching::start(&lab, &here, "--format json");
    for _ in 0..3 {
        sender.send_to(b"x", "203.0.113.1:9").unwrap_err();
    }
    let document = watching.end();
    let line = counter(&document, &here, "IpOutNoRoutes");
    assert_eq!(
        (&line["moved"], &line["remainder"]),
        (&3.into(), &3.into()),
        "{line}"
    );
}

#[test]
fn closed_sockets_are_no_loss() {
    let (lab, here) = need!(alone("drops-close"));
    let purge = |namespace: &Namespace| {
        namespace.run(|| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            for _ in 0..40 {
                let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
                drop((listener.accept().unwrap(), client));
            }
        });
    };
    // Packets in queues of sockets may name neither device nor socket: their namespace is unknown.
    let normal = |document: &Value| {
        let all = document["drops"].as_array().unwrap().iter();
        let normal = all.filter(|row| row["class"] == "normal");
        normal.map(|row| row["count"].as_u64().unwrap()).sum::<u64>()
    };
    let watching = Watching::start(&lab, &here, "--format json");
    purge(&here);
    let document = watching.end();
    assert_eq!(normal(&document), 0, "{document:#}");
    assert!(
        document["normal_not_shown"].as_u64().unwrap() >= 30,
        "{document:#}"
    );
    let watching = Watching::start(&lab, &here, "--all --format json");
    purge(&here);
    let document = watching.end();
    assert!(normal(&document) >= 30, "{document:#}");
    assert_eq!(document["normal_not_shown"], 0);
}

#[test]
fn segment_that_a_connection_in_time_wait_takes_is_no_loss() {
    let (lab, here) = need!(alone("drops-time-wait"));
    let watching = Watching::start(&lab, &here, "--format json");
    here.run(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        drop(client);
        // The socket of the client is gone, and only its addresses are kept, in the state FIN_WAIT2 (05).
        wait_until("the end of the client", || {
            let all = here.proc_net("tcp");
            let mut states = all.lines().filter_map(|line| line.split_whitespace().nth(3));
            states.any(|state| state == "05")
        });
        drop(accepted);
    });
    let document = watching.end();
    let all = document["drops"].as_array().unwrap().iter();
    let of_here: Vec<_> = all.filter(|row| row["netns_inode"] == here.inode()).collect();
    assert_eq!(of_here.len(), 0, "{document:#}");
}

#[test]
fn process_that_has_ended_owns_its_drops() {
    need!(program("python3"));
    let (lab, here) = need!(alone("drops-ended"));
    let watching = Watching::start(&lab, &here, "--format json");
    let code = "import os, socket, time
receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
receiver.bind(('127.0.0.1', 0))
for _ in range(200):
    receiver.sendto(b'x' * 100, receiver.getsockname())
time.sleep(6)
print(os.getpid())
";
    let pid: u64 = here.output("python3", &["-c", code]).trim().parse().unwrap();
    let document = watching.end();
    let rows = rows(&document, &here, "SOCKET_RCVBUFF");
    assert!(sum(&rows) > 100, "{document:#}");
    for row in rows {
        assert_eq!(row["process"]["pid"], pid, "{document:#}");
    }
}

#[test]
fn evicted_drops_are_counted_by_reason() {
    let (lab, here) = need!(alone("drops-evicted"));
    let before = value(&here, "snmp", "Udp", "RcvbufErrors");
    let watching = Watching::start(&lab, &here, "--keys 16 --format json");
    let _receivers: Vec<_> = here.run(|| {
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        let fill = |_| {
            let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
            rustix::net::sockopt::set_socket_recv_buffer_size(&receiver, 4096).unwrap();
            send(&sender, receiver.local_addr().unwrap(), 100, 40);
            receiver
        };
        (0..300).map(fill).collect()
    });
    let dropped = value(&here, "snmp", "Udp", "RcvbufErrors") - before;
    let document = watching.end();
    let all = document["drops"].as_array().unwrap();
    let of_reason: Vec<_> = all
        .iter()
        .filter(|row| row["reason"] == "SOCKET_RCVBUFF")
        .collect();
    let evicted: Vec<_> = of_reason
        .iter()
        .copied()
        .filter(|row| row["evicted"] == true)
        .collect();
    assert!(
        sum(&evicted) > 0 && document["evicted_keys"].as_u64().unwrap() > 0,
        "{document:#}"
    );
    // Others on this host may have full sockets, too.
    assert!(sum(&of_reason) >= dropped, "{dropped}: {document:#}");
}

#[test]
fn each_packet_is_printed() {
    let (lab, here) = need!(alone("drops-packets"));
    let watching = Watching::start(&lab, &here, "--packets --format json");
    here.run(|| {
        for _ in 0..50 {
            TcpStream::connect("127.0.0.1:9").unwrap_err();
        }
    });
    let document = watching.end_by(Signal::TERM).json();
    check_schema(&document);
    let all = document["dropped_packets"].as_array().unwrap();
    let of_here = all.iter().filter(|packet| packet["netns_inode"] == here.inode());
    let refused =
        of_here.filter(|packet| packet["reason"] == "NO_SOCKET" && packet["destination"]["port"] == 9);
    assert_eq!(refused.count(), 50, "{document:#}");
    assert_eq!((&document["lost"], &document["missed"]), (&0.into(), &0.into()));
    adds_up(&document, all.len());
}

/// Every packet that the kernel was to report is shown, or counted as what it is.
#[track_caller]
fn adds_up(summary: &Value, lines: usize) {
    let number = |key: &str| summary[key].as_u64().expect(key);
    assert_eq!(number("shown"), lines as u64, "{summary:#}");
    assert_eq!(
        number("made"),
        number("lost") + number("shown") + number("normal_not_shown") + number("not_selected"),
        "{summary:#}"
    );
}

#[test]
fn lines_of_packets_have_their_times_and_add_up() {
    let (lab, here) = need!(alone("drops-lines"));
    let filter = format!("--packets --format jsonl -N {} dport = :9", here.name());
    let watching = Watching::start(&lab, &here, &filter);
    here.run(|| {
        for port in [9, 7, 9] {
            TcpStream::connect(("127.0.0.1", port)).unwrap_err();
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    let outcome = watching.end_by(Signal::TERM);
    let mut lines: Vec<Value> = outcome
        .ok()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let summary = lines.pop().unwrap();
    assert_eq!(lines.len(), 2, "{outcome}");
    adds_up(&summary["summary"], 2);
    assert!(
        summary["summary"]["not_selected"].as_u64() >= Some(1),
        "{outcome}"
    );
    for line in &lines {
        assert_eq!(line["time"], line["dropped_at"], "{outcome}");
    }
    assert!(lines[0]["time"].as_str() < lines[1]["time"].as_str(), "{outcome}");
}

/// The kernel moves the begin of a packet behind a header when it has read it.
#[test]
fn length_counts_from_the_network_header_at_every_place() {
    let (lab, here) = need!(alone("drops-length"));
    let has_nft = program("nft").is_ok();
    if has_nft {
        here.run(|| {
            let rules = "add table inet len; add chain inet len in { type filter hook input priority 0; }; \
                         add rule inet len in udp dport 99 drop";
            let status = std::process::Command::new("nft").arg(rules).status();
            assert!(status.expect("nft starts").success());
        });
    }
    let watching = Watching::start(
        &lab,
        &here,
        &format!("--packets --format jsonl -N {}", here.name()),
    );
    here.run(|| {
        for (host, payload) in [("127.0.0.1", 100), ("::1", 300)] {
            let sender = UdpSocket::bind((host, 0)).unwrap();
            let closed = UdpSocket::bind((host, 0)).unwrap().local_addr().unwrap();
            // Errors of earlier datagrams are reported here.
            let _ = sender.send_to(&vec![0; payload], closed);
            let _ = sender.send_to(&vec![0; payload], (host, 99));
            let full = UdpSocket::bind((host, 98)).unwrap();
            for _ in 0..3000 {
                let _ = sender.send_to(&vec![0; payload], full.local_addr().unwrap());
            }
            TcpStream::connect((host, 97)).unwrap_err();
        }
    });
    let outcome = watching.end_by(Signal::TERM);
    let lines: Vec<Value> = outcome
        .ok()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let lengths = |reason: &str, ip: &str, protocol: &str| {
        let of = lines.iter().filter(|line| {
            line["reason"] == reason && line["destination"]["ip"] == ip && line["protocol"] == protocol
        });
        let mut lengths: Vec<_> = of.filter_map(|line| line["len_bytes"].as_u64()).collect();
        lengths.sort_unstable();
        lengths.dedup();
        lengths
    };
    let mut reasons = vec!["NO_SOCKET", "SOCKET_RCVBUFF"];
    reasons.extend(has_nft.then_some("NETFILTER_DROP"));
    for reason in reasons {
        assert_eq!(
            lengths(reason, "127.0.0.1", "udp"),
            [20 + 8 + 100],
            "{reason}: {outcome}"
        );
        assert_eq!(
            lengths(reason, "::1", "udp"),
            [40 + 8 + 300],
            "{reason}: {outcome}"
        );
    }
    // The headers of a SYN with all options: those of TCP have 40 bytes.
    assert_eq!(lengths("NO_SOCKET", "127.0.0.1", "tcp"), [20 + 40], "{outcome}");
    assert_eq!(lengths("NO_SOCKET", "::1", "tcp"), [40 + 40], "{outcome}");
}

#[test]
fn columns_of_packets_do_not_move() {
    let (lab, here) = need!(alone("drops-table"));
    let watching = Watching::start(&lab, &here, &format!("--packets -n -N {}", here.name()));
    here.run(|| {
        TcpStream::connect("127.0.0.1:9").unwrap_err();
        std::thread::sleep(Duration::from_millis(300));
        let sender = UdpSocket::bind("127.200.200.200:0").unwrap();
        let full = UdpSocket::bind("127.100.100.100:0").unwrap();
        for _ in 0..2000 {
            sender.send_to(&[0; 1000], full.local_addr().unwrap()).unwrap();
        }
    });
    let outcome = watching.end_by(Signal::TERM);
    let mut lines = outcome.ok().lines();
    let header = lines.next().unwrap();
    let rows: Vec<&str> = lines.collect();
    assert!(
        rows.iter().any(|row| row.contains("NO_SOCKET"))
            && rows.iter().any(|row| row.contains("SOCKET_RCVBUFF")),
        "{outcome}"
    );
    for heading in ["Class", "Reason", "Proto", "Packet"] {
        let at = header.find(heading).unwrap();
        for row in &rows {
            assert!(
                row[..at].ends_with("  ") && !row[at..].starts_with(' '),
                "{heading}: {row}\n{header}"
            );
        }
    }
}

#[test]
fn filter_and_namespace_select() {
    let (lab, here) = need!(alone("drops-filter"));
    let refuse = || {
        here.run(|| {
            for port in [7, 9] {
                TcpStream::connect(("127.0.0.1", port)).unwrap_err();
            }
        });
    };
    let watching = Watching::start(&lab, &here, "--format json dport = :9 or sport = :9");
    refuse();
    let document = watching.end();
    let shown = rows(&document, &here, "NO_SOCKET");
    assert!(!shown.is_empty(), "{document:#}");
    let has = |port: u16| {
        let is_it = |row: &&Value| {
            row["seen_packets"]
                .as_array()
                .unwrap()
                .iter()
                .any(|one| one["destination"]["port"] == port)
        };
        shown.iter().copied().filter(|row| is_it(row)).count()
    };
    assert_eq!(has(9), 1, "{document:#}");
    assert_eq!(document["counters"].as_array().unwrap().len(), 0);
    let elsewhere = lab.namespace("elsewhere");
    let watching = Watching::start(&lab, &here, &format!("-N {} --format json", elsewhere.name()));
    refuse();
    assert_eq!(rows(&watching.end(), &here, "NO_SOCKET").len(), 0);
}

#[test]
fn reports_repeat_and_end_by_count() {
    let (_lab, here) = need!(alone("drops-watch"));
    let outcome = words_in(&here, "drops -w 0.2 -c 2 --format jsonl");
    let lines: Vec<Value> = outcome
        .ok()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let ends: Vec<_> = lines
        .iter()
        .filter(|line| line["type"] == "drops_summary")
        .collect();
    assert_eq!(ends.len(), 2, "{outcome}");
    assert_eq!(ends[1]["summary"]["sample"], 2, "{outcome}");
}

#[test]
fn without_rights_there_are_counters_only() {
    let (lab, here) = need!(alone("drops-rights"));
    let binary = lab.copy_for_all_users(SOCKEYE.as_ref());
    let outcome = words_unprivileged(&here, &binary, "drops -d 0.2");
    assert!(outcome.ok().contains("were not watched"), "{outcome}");
    assert!(
        outcome.error().contains("reasons and owners cannot be seen"),
        "{outcome}"
    );
    let outcome = words_unprivileged(&here, &binary, "drops --packets");
    assert!(
        outcome.failed(1).contains("packets cannot be watched"),
        "{outcome}"
    );
}

#[test]
fn nothing_stays_attached_after_a_kill() {
    let (lab, here) = need!(alone("drops-killed"));
    let watching = Watching::start(&lab, &here, "--format json");
    let folder = format!("/proc/{}/fdinfo", watching.pid().as_raw_nonzero());
    let infos = fs::read_dir(folder).unwrap().flatten();
    let ids: Vec<u32> = infos
        .filter_map(|file| fs::read_to_string(file.path()).ok())
        .filter_map(|text| {
            text.lines()
                .find_map(|line| line.strip_prefix("prog_id:")?.trim().parse().ok())
        })
        .collect();
    let is_there = |id: &u32| Program::by_id(*id).is_ok();
    assert!(!ids.is_empty() && ids.iter().all(is_there), "{ids:?}");
    drop(watching.end_by(Signal::KILL));
    wait_until("the end of the programs", || !ids.iter().any(is_there));
}

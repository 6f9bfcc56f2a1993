//! `sockeye events` of connections through a router that is another network namespace of this host, as of every container.

use super::drops::value;
use super::events::{Running, events};
use serde_json::Value;
use sockeye_lab::{Lab, Link, Namespace, Skip, need, program};
use std::net::IpAddr;

struct Routed {
    _lab: Lab,
    client: Namespace,
    router: Namespace,
    server: Namespace,
    links: [Link; 2],
}

impl Routed {
    fn new(purpose: &str) -> Result<Self, Skip> {
        for needed in ["nft", "python3"] {
            program(needed)?;
        }
        let lab = Lab::new(purpose)?;
        let [client, router, server] = ["client", "router", "server"].map(|name| lab.namespace(name));
        let links = [lab.link(&client, &router), lab.link(&router, &server)];
        router.sysctl("ipv4/ip_forward", "1");
        client.ip(&format!(
            "route add default via {}",
            links[0].server_addresses().0
        ));
        server.ip(&format!(
            "route add default via {}",
            links[1].client_addresses().0
        ));
        Ok(Self {
            _lab: lab,
            client,
            router,
            server,
            links,
        })
    }

    fn server_address(&self) -> IpAddr {
        self.links[1].server_addresses().0
    }
}

/// Connects without waiting in connect(2), as programs with a timeout do, and prints the errno of each.
const CONNECT: &str = "import json, socket, sys
errnos = []
for end in sys.argv[1:]:
    address, port = end.split(' ')
    client = socket.socket()
    client.settimeout(3)
    try:
        client.connect((address, int(port)))
        errnos.append(0)
    except OSError as error:
        errnos.append(error.errno)
    client.close()
print(json.dumps(errnos))
";

#[test]
fn open_that_a_router_rejects_has_its_errno() {
    let routed = need!(Routed::new("ev_routed"));
    let rules = "add table ip t; add chain ip t f { type filter hook forward priority 0; }; \
                 add rule ip t f tcp dport 9201 reject; add rule ip t f tcp dport 9202 reject with icmp type admin-prohibited";
    routed.router.output("nft", &[rules]);
    // The router has a route neither to the last one nor by default.
    let server = routed.server_address();
    let ends = [
        format!("{server} 9201"),
        format!("{server} 9202"),
        "192.0.2.20 9203".to_owned(),
    ];
    let line = format!("-n -N {} --format jsonl --kinds fail", routed.client.name());
    let running = need!(Running::start(&line));
    let words: Vec<&str> = ["-c", CONNECT]
        .into_iter()
        .chain(ends.iter().map(String::as_str))
        .collect();
    let errnos: Vec<Value> = serde_json::from_str(&routed.client.output("python3", &words)).expect("JSON");
    let (outcome, notes) = running.end();
    let (events, _) = events(&outcome);
    assert_eq!(events.len(), ends.len(), "{notes} {events:#?}");
    for (event, errno) in events.iter().zip(&errnos) {
        assert_ne!(errno, 0);
        assert_eq!(
            (&event["ended_how"], &event["errno"]),
            (&"error".into(), errno),
            "{event:#}"
        );
    }
}

/// Accepts one connection and reads it to its end.
const READ: &str = "import socket
server = socket.create_server(('', 8400))
print('ready', flush=True)
accepted, _ = server.accept()
while accepted.recv(1 << 20):
    pass
";
const WRITE: &str = "import socket, sys, time
client = socket.create_connection((sys.argv[1], 8400))
client.sendall(b'z' * 200000)
time.sleep(.5)
";

/// A process of [`READ`], which ends with its test.
struct Reader(std::process::Child);

impl Drop for Reader {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn segments_that_are_too_long_for_a_router_are_sent_again_without_a_timeout() {
    use std::io::BufRead as _;
    let routed = need!(Routed::new("ev_mtu"));
    let device = routed.links[1].devices().0;
    routed.router.ip(&format!("link set {device} mtu 1280"));
    let mut reader = routed.server.command("python3", &["-c", READ]);
    let reader = reader.stdout(std::process::Stdio::piped()).spawn();
    let mut reader = Reader(reader.expect("python starts"));
    let mut ready = String::new();
    let stdout = reader.0.stdout.take().expect("a pipe");
    std::io::BufReader::new(stdout)
        .read_line(&mut ready)
        .expect("a line");
    let line = format!(
        "-n -N {} --format jsonl --kinds retransmit,close",
        routed.client.name()
    );
    let running = need!(Running::start(&line));
    let timeouts = || value(&routed.client, "netstat", "TcpExt", "TCPTimeouts");
    let before = timeouts();
    routed
        .client
        .output("python3", &["-c", WRITE, &routed.server_address().to_string()]);
    reader.0.wait().expect("it ends");
    let expired = timeouts() - before;
    let (outcome, notes) = running.end();
    let (events, _) = events(&outcome);
    let by = |way: &str| {
        events
            .iter()
            .filter(|event| event["retransmitted_by"] == way)
            .count() as u64
    };
    assert!(by("mtu") > 0, "{notes} {events:#?}");
    assert!(by("rto") <= expired, "{expired} {events:#?}");
}

//! `sockeye drops`: devices that go down, tunnels, and queues of listeners.

use super::drops::{Watching, alone, counter, rows, send, sum};
use rustix::net::{AddressFamily, SocketType, socket};
use serde_json::Value;
use sockeye_lab::{Lab, Skip, need, program, wait_until};
use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;

#[test]
fn packets_in_the_queue_of_a_device_that_goes_down_are_a_loss_of_their_sender() {
    need!(program("tc"));
    let lab = need!(Lab::new("drops-down"));
    let (here, there) = (lab.namespace("here"), lab.namespace("there"));
    let link = lab.link(&here, &there);
    let device = link.devices().0.to_owned();
    let tbf = [
        "qdisc", "add", "dev", &device, "root", "tbf", "rate", "8kbit", "burst", "1600", "limit", "30000",
    ];
    here.output("tc", &tbf);
    let sender = here.run(|| UdpSocket::bind("0.0.0.0:0").unwrap());
    let to = SocketAddr::new(link.server_addresses().0, 4000);
    let watching = Watching::start(&lab, &here, "--format json");
    send(&sender, to, 1000, 20);
    here.ip(&format!("link set {device} down"));
    let document = watching.end();
    let all = document["drops"].as_array().unwrap();
    let down: Vec<&Value> = all
        .iter()
        .filter(|row| row["netns_inode"] == here.inode() && row["process"]["pid"] == std::process::id())
        .filter(|row| row["class"] == "loss" && row["device"] == device.as_str())
        .collect();
    // The first one or two left before.
    let count = sum(&down);
    assert!((15..=20).contains(&count), "{count}: {document:#}");
    assert_eq!(down[0]["owner_by"], "packet", "{document:#}");
}

#[test]
fn packet_for_an_unknown_network_is_refused_by_its_tunnel() {
    let (lab, here) = need!(alone("drops-tunnel"));
    need!(vxlan(&here));
    let sender = here.run(|| UdpSocket::bind("127.0.0.1:0").unwrap());
    let watching = Watching::start(&lab, &here, "--format json");
    // VXLAN, network 9: there is only 5.
    let mut packet = vec![0_u8; 80];
    (packet[0], packet[6]) = (8, 9);
    for _ in 0..6 {
        sender.send_to(&packet, "127.0.0.1:4789").unwrap();
    }
    let document = watching.end();
    let all = document["drops"].as_array().unwrap();
    let tunnel: Vec<&Value> = all
        .iter()
        .filter(|row| row["netns_inode"] == here.inode() && row["function"] == "vxlan_rcv")
        .collect();
    assert_eq!(sum(&tunnel), 6, "{document:#}");
    assert_eq!(tunnel[0]["device"], "lo", "{document:#}");
    if has_reason("SKB_DROP_REASON_VXLAN_VNI_NOT_FOUND") {
        assert_eq!(
            (&tunnel[0]["reason"], &tunnel[0]["class"]),
            (&"VXLAN_VNI_NOT_FOUND".into(), &"refusal".into()),
            "{document:#}"
        );
    }
}

/// Makes a tunnel of the network 5.
fn vxlan(here: &sockeye_lab::Namespace) -> Result<(), Skip> {
    let line = "link add tunnel type vxlan id 5 local 127.0.0.1 remote 127.0.0.2 dstport 4789";
    let words: Vec<_> = line.split(' ').collect();
    let made = here.command("ip", &words).output();
    if !made.is_ok_and(|made| made.status.success()) {
        return Err(Skip::new("no VXLAN in this kernel"));
    }
    here.ip("link set tunnel up");
    Ok(())
}

#[test]
fn handshakes_that_end_at_a_full_accept_queue_name_the_clients() {
    need!(program("tc"));
    if !has_reason("SKB_DROP_REASON_TCP_LISTEN_OVERFLOW") {
        need!(Err::<(), _>(Skip::new(
            "Linux 6.15, for the reason of these drops"
        )));
    }
    let lab = need!(Lab::new("drops-acks"));
    let (here, there) = (lab.namespace("here"), lab.namespace("there"));
    let link = lab.link(&here, &there);
    let ip = link.server_addresses().0;
    let listener = there.run(|| {
        let listener = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        rustix::net::bind(&listener, &SocketAddr::new(ip, 0)).unwrap();
        rustix::net::listen(&listener, 4).unwrap();
        listener
    });
    let address = SocketAddr::try_from(rustix::net::getsockname(&listener).unwrap()).unwrap();
    let watching = Watching::start(&lab, &there, "--format json");
    let _accepted: Vec<_> = here.run(|| (0..4).map(|_| TcpStream::connect(address).unwrap()).collect());
    // What is sent waits in a queue, so that all SYNs arrive before the first ACK.
    let tbf = [
        "qdisc",
        "add",
        "dev",
        link.devices().0,
        "root",
        "tbf",
        "rate",
        "16kbit",
        "burst",
        "128",
        "limit",
        "30000",
    ];
    here.output("tc", &tbf);
    let sender = here.run(|| UdpSocket::bind("0.0.0.0:0").unwrap());
    send(&sender, SocketAddr::new(ip, 9), 80, 1);
    let _clients: Vec<OwnedFd> = here.run(|| {
        let connect = |_| {
            let client = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
            rustix::io::ioctl_fionbio(&client, true).unwrap();
            let _ = rustix::net::connect(&client, &address);
            client
        };
        (0..4).map(connect).collect()
    });
    wait_until("dropped handshakes", || {
        super::drops::value(&there, "netstat", "TcpExt", "ListenOverflows") >= 3
    });
    let document = watching.end();
    let rows = rows(&document, &there, "TCP_LISTEN_OVERFLOW");
    assert!(sum(&rows) >= 3, "{document:#}");
    assert_eq!(rows[0]["process"]["pid"], std::process::id(), "{document:#}");
    assert_eq!(
        rows[0]["seen_packets"][0]["source"]["ip"],
        link.client_addresses().0.to_string(),
        "{document:#}"
    );
    let line = counter(&document, &there, "TcpExtListenOverflows");
    let parts = line["explained_by"].as_array().unwrap();
    assert!(
        parts.iter().any(|part| part["cause"] == "TCP_LISTEN_OVERFLOW"),
        "{line:#}"
    );
}

/// Whether this kernel has a reason.
fn has_reason(name: &str) -> bool {
    let types = fs::read("/sys/kernel/btf/vmlinux").unwrap_or_default();
    types.windows(name.len()).any(|window| window == name.as_bytes())
}

/// Sends SYNs from addresses without a host.
const SPOOFED: &str = "
import socket, struct, sys
server, port = sys.argv[1], int(sys.argv[2])
out = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
def sum16(data):
    words = sum(struct.unpack('!%dH' % (len(data) // 2), data))
    words = (words & 0xffff) + (words >> 16)
    return ~((words & 0xffff) + (words >> 16)) & 0xffff
for number in range(40):
    ends = socket.inet_aton(server.rsplit('.', 1)[0] + '.%d' % (100 + number)) + socket.inet_aton(server)
    def segment(check):
        return struct.pack('!HHLLBBHHH', 20000 + number, port, 7, 0, 0x50, 2, 1000, check, 0)
    tcp = segment(sum16(ends + struct.pack('!BBH', 0, 6, 20) + segment(0)))
    out.sendto(struct.pack('!BBHHHBBH', 0x45, 0, 40, 0, 0, 64, 6, 0) + ends + tcp, (server, 0))
";

#[test]
fn answers_to_spoofed_syns_are_those_of_their_listener() {
    need!(program("python3"));
    let lab = need!(Lab::new("drops-spoofed"));
    let (here, there) = (lab.namespace("here"), lab.namespace("there"));
    let link = lab.link(&there, &here);
    let server = link.server_addresses().0;
    let listener = here.run(|| TcpListener::bind((server, 0)).unwrap());
    let port = listener.local_addr().unwrap().port();
    let watching = Watching::start(&lab, &here, &format!("-N {} --format json", here.name()));
    there.output(
        "python3",
        &["-c", SPOOFED, &server.to_string(), &port.to_string()],
    );
    // The kernel asks three times for the link address of a neighbor, a second apart.
    std::thread::sleep(std::time::Duration::from_millis(4500));
    let document = watching.end();
    let rows = rows(&document, &here, "NEIGH_FAILED");
    assert!(sum(&rows) >= 40, "{document:#}");
    for row in &rows {
        assert_eq!(row["process"]["pid"], std::process::id(), "{document:#}");
        assert_eq!(row["local"]["port"], port, "{document:#}");
    }
    assert!(rows.len() < 10, "{document:#}");
}

#[test]
fn packet_that_the_other_end_of_a_veth_does_not_take_is_a_loss() {
    let lab = need!(Lab::new("drops-veth-mtu"));
    let (here, there) = (lab.namespace("here"), lab.namespace("there"));
    let link = lab.link(&here, &there);
    there.ip(&format!("link set {} mtu 600", link.devices().1));
    let sender = here.run(|| UdpSocket::bind("0.0.0.0:0").unwrap());
    let to = SocketAddr::new(link.server_addresses().0, 4000);
    // The neighbor is known then.
    send(&sender, to, 10, 1);
    let watching = Watching::start(&lab, &here, "--format json");
    for _ in 0..6 {
        let _ = sender.send_to(&[7; 1000], to);
    }
    let document = watching.end();
    let all = document["drops"].as_array().unwrap().iter();
    let lost: Vec<&Value> = all
        .filter(|row| {
            row["netns_inode"] == here.inode() && row["protocol"] == "udp" && row["class"] == "loss"
        })
        .collect();
    assert_eq!(sum(&lost), 6, "{document:#}");
    for name in ["UdpSndbufErrors", "IpOutDiscards", "tx_dropped"] {
        let line = counter(&document, &here, name);
        assert_eq!(
            (&line["moved"], &line["remainder"]),
            (&6.into(), &0.into()),
            "{line:#}"
        );
    }
    // Each counter has one line.
    let lines = document["counters"].as_array().unwrap().iter();
    let of_errors =
        lines.filter(|line| line["netns_inode"] == here.inode() && line["counter"] == "UdpSndbufErrors");
    assert_eq!(of_errors.count(), 1, "{document:#}");
}

#[test]
fn multicast_packet_of_a_group_that_is_not_joined_is_no_loss() {
    let lab = need!(Lab::new("drops-group"));
    let (here, there) = (lab.namespace("here"), lab.namespace("there"));
    let link = lab.link(&here, &there);
    let sender = here.run(|| UdpSocket::bind("0.0.0.0:0").unwrap());
    here.ip(&format!("route add 239.1.0.0/16 dev {}", link.devices().0));
    let watching = Watching::start(&lab, &there, "-a --format json");
    send(&sender, "239.1.2.3:4000".parse().unwrap(), 10, 5);
    let document = watching.end();
    let all = document["drops"].as_array().unwrap().iter();
    let of_group: Vec<&Value> = all
        .filter(|row| {
            row["netns_inode"] == there.inode() && row["seen_packets"][0]["destination"]["ip"] == "239.1.2.3"
        })
        .collect();
    assert_eq!(sum(&of_group), 5, "{document:#}");
    assert!(
        of_group.iter().all(|row| row["class"] == "normal"),
        "{document:#}"
    );
}

/// A raw socket without room that does not read.
const RAW: &str = "
import socket, time
here = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_UDP)
here.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
time.sleep(1.2)
out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(60):
    out.sendto(b'x' * 200, ('127.0.0.1', 9))
time.sleep(1.5)
";

#[test]
fn full_raw_socket_has_its_counter_also_without_an_event() {
    need!(program("python3"));
    let (lab, here) = need!(alone("drops-raw"));
    let mut reader = here.command("python3", &["-c", RAW]).spawn().unwrap();
    let watching = Watching::start(&lab, &here, "--format json");
    wait_until("a full raw socket", || {
        let text = here.proc_net("raw");
        let drops = text
            .lines()
            .skip(1)
            .filter_map(|line| line.split_whitespace().last());
        drops.filter_map(|drops| drops.parse::<u64>().ok()).sum::<u64>() > 30
    });
    let document = watching.end();
    let line = counter(&document, &here, "sk_drops");
    reader.wait().unwrap();
    assert!(line["moved"].as_u64() > Some(30), "{line:#}");
    let of = line["of"].as_str().unwrap();
    assert!(
        of.starts_with("raw 0.0.0.0") && of.contains("python3("),
        "{line:#}"
    );
}

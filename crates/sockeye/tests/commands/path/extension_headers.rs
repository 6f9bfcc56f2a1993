//! IPv6 has headers between that of the network layer and that of the transport.

use super::round_trips::sent_again;
use super::{Following, hop};
use serde_json::Value;
use sockeye_lab::{Lab, Namespace, need, program};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::process::{Child, Stdio};
use std::time::Duration;

const MESSAGES: u32 = 20;

/// Sends messages with extension headers, each after the answer to the one before: protocol, address, port, bytes of a message, headers.
const SENDER: &str = "
import socket, sys
protocol, address, port, bytes_each, headers = sys.argv[1:]
kind = {'tcp': socket.SOCK_STREAM, 'udp': socket.SOCK_DGRAM}[protocol]
sending = socket.socket(socket.AF_INET6, kind)
sending.settimeout(60)
# The next header, which the kernel fills in, the length, and six bytes of padding.
padding = bytes([0, 0, 1, 4, 0, 0, 0, 0])
for name in headers.split():
    sending.setsockopt(socket.IPPROTO_IPV6, getattr(socket, 'IPV6_' + name), padding)
sending.connect((address, int(port)))
for _ in range(20):
    sending.send(bytes(int(bytes_each)))
    assert sending.recv(1)
";

fn sender(client: &Namespace, protocol: &str, to: SocketAddr, bytes: usize, headers: &str) -> Child {
    let words = [
        "-c",
        SENDER,
        protocol,
        &to.ip().to_string(),
        &to.port().to_string(),
        &bytes.to_string(),
        headers,
    ];
    client
        .command("python3", &words)
        .stdin(Stdio::null())
        .spawn()
        .unwrap()
}

/// Receives the messages of a sender and answers each with a byte.
fn exchange_datagrams(client: &Namespace, server: &Namespace, at: SocketAddr, bytes: usize, headers: &str) {
    let receiving = server.run(|| UdpSocket::bind(at).unwrap());
    receiving.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut sender = sender(client, "udp", at, bytes, headers);
    let mut buffer = vec![0; 65_536];
    for _ in 0..MESSAGES {
        let (received, from) = receiving.recv_from(&mut buffer).unwrap();
        assert_eq!(received, bytes);
        receiving.send_to(b"x", from).unwrap();
    }
    assert!(sender.wait().unwrap().success());
}

/// Follows such datagrams to a port. Other tests at the same time have the same addresses.
fn followed_datagrams(
    port: u16,
    bytes: usize,
    headers: &str,
    variables: &[(&str, &str)],
) -> Result<Value, sockeye_lab::Skip> {
    program("python3")?;
    let lab = Lab::new("path_extensions")?;
    let (client, server) = (lab.namespace("client"), lab.namespace("server"));
    let link = lab.link(&client, &server);
    let address = SocketAddr::new(link.server_addresses().1, port);
    let following = Following::start_with(
        &lab,
        &format!(
            "--format json dst {} and dport = :{}",
            address.ip(),
            address.port()
        ),
        variables,
    );
    exchange_datagrams(&client, &server, address, bytes, headers);
    Ok(following.document())
}

#[test]
fn datagrams_with_options_are_followed_to_their_reader() {
    for headers in ["HOPOPTS", "DSTOPTS", "HOPOPTS DSTOPTS"] {
        let document = need!(followed_datagrams(5470, 64, headers, &[]));
        assert_eq!(document["followed"], 2 * MESSAGES, "{headers}: {document:#}");
        assert_eq!(document["complete"], 2 * MESSAGES, "{headers}: {document:#}");
        for kind in ["qdisc", "device"] {
            assert_eq!(hop(&document, "out", kind)["packets"], MESSAGES, "{document:#}");
        }
    }
}

/// Kernels before Linux 6.2 get other objects.
#[test]
fn datagrams_with_options_are_followed_on_older_kernels() {
    let old = [("SOCKEYE_BPF", "5.10")];
    let document = need!(followed_datagrams(5472, 64, "HOPOPTS DSTOPTS", &old));
    assert_eq!(document["followed"], 2 * MESSAGES, "{document:#}");
    assert_eq!(document["complete"], 2 * MESSAGES, "{document:#}");
}

/// The later fragments have no ports: what is in their place must not be taken for some.
#[test]
fn first_fragment_of_a_datagram_is_followed() {
    for headers in ["", "HOPOPTS DSTOPTS"] {
        let document = need!(followed_datagrams(5473, 4000, headers, &[]));
        assert_eq!(document["followed"], 2 * MESSAGES, "{headers}: {document:#}");
        for kind in ["qdisc", "device"] {
            let row = hop(&document, "out", kind);
            assert_eq!(row["packets"], MESSAGES, "{headers}: {document:#}");
        }
    }
}

/// Whether a segment has data depends on where its header is.
#[test]
fn segments_with_options_are_followed_if_they_have_data() {
    need!(program("python3"));
    let lab = need!(Lab::new("path_extensions_tcp"));
    let (client, server) = (lab.namespace("client"), lab.namespace("server"));
    let link = lab.link(&client, &server);
    let address = SocketAddr::new(link.server_addresses().1, 5471);
    let listener = server.run(|| TcpListener::bind(address).unwrap());
    let following = Following::start(
        &lab,
        &format!(
            "--format json dst {} and dport = :{}",
            address.ip(),
            address.port()
        ),
    );
    let mut sender = sender(&client, "tcp", address, 64, "HOPOPTS DSTOPTS");
    let (mut accepted, _) = listener.accept().unwrap();
    for _ in 0..MESSAGES {
        accepted.read_exact(&mut [0; 64]).unwrap();
        accepted.write_all(b"x").unwrap();
    }
    assert!(sender.wait().unwrap().success());
    let document = following.document();
    let sent = u64::from(2 * MESSAGES) + sent_again(&client) + sent_again(&server);
    assert_eq!(document["followed"], sent, "{document:#}");
    assert!(document["without_data"].as_u64().unwrap() > 0, "{document:#}");
    assert_eq!(
        hop(&document, "out", "socket")["packets"],
        MESSAGES,
        "{document:#}"
    );
}

//! Captures on the way: what a packet socket cannot keep is no loss of the packet.

use super::Following;
use sockeye_lab::{Lab, need, program};

/// A capture that nothing reads, and datagrams that are read one by one.
const SCRIPT: &str = "
import socket
capture = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.ntohs(3))
capture.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
receiving = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
receiving.bind(('127.0.0.1', 5480))
receiving.settimeout(60)
sending = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(100):
    sending.sendto(bytes(100), receiving.getsockname())
    assert receiving.recv(200)
";

#[test]
fn full_capture_ends_no_packet() {
    need!(program("python3"));
    let lab = need!(Lab::new("path_capture"));
    let here = lab.namespace("here");
    here.ip("link set lo up");
    let following = Following::start(&lab, "--format json dport = :5480");
    assert!(
        here.command("python3", &["-c", SCRIPT])
            .status()
            .unwrap()
            .success()
    );
    let document = following.document();
    assert_eq!(document["followed"], 100, "{document:#}");
    // Of some kernels the capture has a part of the packet, so that one may be lost sight of.
    let number = |key: &str| document[key].as_u64().unwrap();
    assert_eq!(number("complete") + number("lost"), 100, "{document:#}");
    assert!(number("complete") >= 95, "{document:#}");
    assert_eq!(document["dropped"], 0, "{document:#}");
}

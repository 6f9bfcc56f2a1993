//! Queues of which only is known what waits there.

use super::{Following, alone, hop};
use sockeye_lab::{Lab, need, program};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};

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
    // What is not known has no key.
    assert!(
        row.get("packets").is_none() && row.get("median_ns").is_none(),
        "{row:#}"
    );
    drop((clients, listener));
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
    let following = Following::start(&lab, &format!("--format json dst {}", address.ip()));
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

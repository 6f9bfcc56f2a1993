//! Listings of sockets, whole.

mod made;

use made::{AllNames, EVIL, EvilNames, connection, inet, owner};
use sockeye_model::*;
use sockeye_render::*;
use std::io::{self, Write};

type Row = (Socket, Option<Vec<Owner>>);

fn render(layout: SocketLayout, rows: &[Row], names: &dyn Names) -> String {
    let mut out = Vec::new();
    let mut listing = SocketWriter::new(&mut out, layout);
    listing.begin().unwrap();
    for (socket, owners) in rows {
        listing.row(&Entry { socket, owners: owners.as_deref() }, names).unwrap();
    }
    listing.finish(&Summary::default()).unwrap();
    String::from_utf8(out).unwrap()
}

#[track_caller]
fn check(layout: SocketLayout, rows: &[Row], expected: &str) {
    let text = render(layout, rows, &NoNames);
    assert!(text == expected, "expected:\n{expected}\ngot:\n{text}");
}

fn ordinary() -> Vec<Row> {
    let listener = connection(State::Listen, inet("::", 80), inet("::", 0));
    let mut client = connection(State::Established, inet("10.0.1.9", 45_678), inet("10.0.1.10", 3306));
    client.timer = Some(Timer { kind: TimerKind::Keepalive, expires_ms: 7_130_000, retransmits: 0 });
    client.uid = Some(Uid(33));
    client.inode = Some(Inode(22_016));
    client.cookie = Some(Cookie(0x1001));
    client.cgroup = Some(CgroupId(4711));
    let mut info = TcpInfo { rtt_us: Some(1234), rttvar_us: Some(500), ..TcpInfo::default() };
    info.snd_cwnd_segs = Some(10);
    client.tcp_info = Some(info);
    client.congestion = Some(Algorithm::new(b"cubic"));
    client.memory = Some(Memory {
        rmem_alloc_bytes: Some(0),
        rcvbuf_bytes: Some(131_072),
        wmem_alloc_bytes: Some(0),
        sndbuf_bytes: Some(87_040),
        drops: Some(3),
        ..Memory::default()
    });
    let waiting = connection(State::TimeWait, inet("10.0.1.9", 45_679), inet("10.0.1.10", 3306));
    vec![
        (listener, Some(vec![owner(b"nginx", 812, 6), owner(b"nginx", 813, 6)])),
        (client, Some(vec![owner(b"php\x1b[2J", 99, 12)])),
        (waiting, Some(vec![])),
    ]
}

fn table(details: Details) -> SocketLayout {
    SocketLayout { details, ..SocketLayout::default() }
}

#[test]
fn a_table() {
    let details = Details { netid: true, owners: true, ..Details::default() };
    check(
        table(details),
        &ordinary(),
        r"
",
    );
}

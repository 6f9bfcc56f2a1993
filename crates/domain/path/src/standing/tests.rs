//! What is said of connections that stand still.

use crate::hop::{Direction, HopKind};
use crate::report::PathReport;
use crate::stuck::{FindingWords, Idle, Observed, PeerHere, Program, SegmentsSeen, Stuck, StuckCause, Way};
use sockeye_measure::Sentence;
use sockeye_model::{
    Comm, Device, Endpoint, Inode, InterfaceIndex, Memory, NetnsInode, NextHop, Pid, Port, Process,
    ProcessState, Protocol, Queues, ShortText, Socket, State, TcpInfo, Timer, TimerKind,
};
use sockeye_verdict::Rule;

const SECOND: u64 = 1_000_000_000;

fn socket(info: TcpInfo) -> Socket {
    let mut socket = Socket::new(Protocol::Tcp, State::Established);
    socket.local = Endpoint::inet([10, 0, 0, 1].into(), Port(5000));
    socket.peer = Endpoint::inet([10, 0, 0, 2].into(), Port(80));
    socket.netns = Some(NetnsInode(7));
    socket.inode = Some(Inode(1));
    socket.queues = Queues::Data {
        receive_bytes: 300,
        send_bytes: 5_000,
    };
    socket.memory = Some(Memory {
        wmem_alloc_bytes: Some(2_304),
        wmem_queued_bytes: Some(6_000),
        sndbuf_bytes: Some(12_000),
        ..Memory::default()
    });
    socket.tcp_info = Some(info);
    socket
}

fn stuck(cause: StuckCause, info: TcpInfo) -> Stuck {
    Stuck {
        socket: socket(info),
        cause,
        waits_ns: 65 * SECOND,
        observed: Observed {
            receive_max: 400,
            send_max: 6_000,
            ..Observed::default()
        },
        program: None,
        other_owners: 0,
        peer: None,
        way: None,
        sent: None,
        finding: None,
        is_effect: false,
        more: 0,
    }
}

fn program(letter: u8) -> Program {
    Program {
        process: Process {
            pid: Pid(812),
            pgid: None,
            comm: Comm::new(b"reader"),
        },
        state: Some(ProcessState::new(letter, ShortText::new(b"do_nanosleep"))),
    }
}

fn way(queued_packets: u64, next_hop: NextHop) -> Way {
    Way {
        device: Device {
            index: InterfaceIndex(2),
            name: ShortText::new(b"eth0"),
            driver: ShortText::new(b""),
            is_physical: true,
            is_loopback: false,
            is_up: true,
            has_carrier: Some(true),
            carrier_changes: None,
            mtu_bytes: Some(1_500),
            queue_packets: None,
            traffic: None,
            speed_mbit_per_s: None,
            duplex: None,
            master: None,
            lower: None,
            bond: None,
            bond_port: None,
            qdiscs: Vec::new(),
            addresses: Vec::new(),
            duplicate_addresses: 0,
        },
        gateway: None,
        next_hop: Some(next_hop),
        queued_packets: Some(queued_packets),
        passed_packets: Some(0),
        tunnel: None,
    }
}

fn finding(rule: Rule, untried_mtu: Option<u32>) -> FindingWords {
    FindingWords {
        rule,
        meaning: "A filter does it.".to_owned(),
        subject: None,
        commands: vec!["nft list ruleset".to_owned()],
        advice: vec!["look for a rule".to_owned()],
        untried_mtu,
    }
}

fn sentences(stuck: Vec<Stuck>) -> Vec<Sentence> {
    let mut report = PathReport::default();
    report.add_stuck(stuck);
    report.sentences_with(&|netns, command| Some(format!("in {netns}: {command}")))
}

/// The only sentence.
#[track_caller]
fn said(stuck: Stuck) -> Sentence {
    let mut all = sentences(vec![stuck]);
    assert_eq!(all.len(), 1, "{all:#?}");
    all.remove(0)
}

#[test]
fn reader_is_said_with_what_it_does() {
    let info = TcpInfo {
        last_data_recv_ms: Some(3_000),
        rcv_wnd_bytes: Some(0),
        ..TcpInfo::default()
    };
    let mut unread = stuck(StuckCause::Unread, info);
    unread.program = Some(program(b'T'));
    let sentence = said(unread.clone());
    assert_eq!(
        sentence.text,
        "300 bytes have waited in the receive queue of 10.0.0.1:5000 from 10.0.0.2:80 for at least 1m 5s, and its program (reader, 812) does \
         not read them: it is stopped by a signal (state T). Data came in last 3.00s ago. The window that is announced to the peer is 0: it \
         cannot send more."
    );
    assert_eq!(sentence.remedies, ["kill -CONT 812"]);
    unread.other_owners = 1;
    assert!(
        said(unread.clone())
            .text
            .ends_with("1 more process has the socket, too.")
    );
    (unread.program, unread.other_owners) = (Some(program(b'S')), 0);
    let text = said(unread.clone()).text;
    assert!(
        text.contains("does not read them; it is asleep (state S in do_nanosleep)."),
        "{text}"
    );
    // It is in the accept queue of its listener.
    (unread.program, unread.socket.inode) = (None, None);
    let text = said(unread).text;
    assert!(
        text.contains(", and no program has accepted the connection."),
        "{text}"
    );
}

#[test]
fn row_has_what_waits_and_how_full_its_buffer_is() {
    let mut report = PathReport::default();
    report.add_stuck(vec![stuck(StuckCause::PeerWindow, TcpInfo::default())]);
    let [hop] = &report.hops[..] else {
        panic!("{:#?}", report.hops)
    };
    assert_eq!((hop.key.direction, hop.key.kind), (Direction::Out, HopKind::Send));
    let waiting = hop.waiting.as_ref().unwrap();
    let bytes = waiting.bytes.unwrap();
    assert_eq!(
        (bytes.now, bytes.max, waiting.full_percent),
        (5_000, 6_000, Some(50))
    );
    assert!(!hop.is_timed());
    // Both directions of a connection can stand still.
    let both = [StuckCause::Unread, StuckCause::PeerWindow];
    let mut report = PathReport::default();
    report.add_stuck(both.map(|cause| stuck(cause, TcpInfo::default())).into());
    let causes = report.hops.iter().map(|hop| hop.waiting.as_ref().unwrap().cause);
    assert_eq!(causes.collect::<Vec<_>>(), both);
}

#[test]
fn queue_of_this_host_is_no_filter() {
    let mut below = stuck(StuckCause::HostQueue, TcpInfo::default());
    below.finding = Some(finding(Rule::CannotSend, None));
    below.way = Some(way(12, NextHop::Known));
    let sentence = said(below.clone());
    let expected = "2.3 KB of memory are in queues below the socket (sk_wmem_alloc): 12 packets wait in the qdisc of eth0, which let none pass meanwhile.";
    assert!(sentence.text.ends_with(expected), "{}", sentence.text);
    assert_eq!(sentence.remedies, ["in 7: tc -s qdisc show dev eth0"]);
    // Before that queue is another one.
    below.way = Some(way(0, NextHop::Unanswered));
    let mut report = PathReport::default();
    report.add_stuck(vec![below]);
    assert_eq!(report.hops[0].key.kind, HopKind::Output);
}

#[test]
fn size_of_segments_decides_about_the_mtu() {
    let info = TcpInfo {
        unacked_segs: Some(3),
        rtt_us: Some(700_000),
        snd_mss_bytes: Some(1_448),
        pmtu_bytes: Some(1_500),
        ..TcpInfo::default()
    };
    let mut silent = stuck(StuckCause::Unanswered, info);
    silent.way = Some(way(0, NextHop::Known));
    // Nothing was sent again: it is no proof of a loss.
    let text = said(silent.clone()).text;
    assert!(
        text.ends_with("It may still be under way (a round trip took 700.0ms), or be lost."),
        "{text}"
    );
    silent.socket.timer = Some(Timer {
        kind: TimerKind::Retransmission,
        expires_ms: 800,
        retransmits: 4,
    });
    let text = said(silent.clone()).text;
    assert!(text.ends_with("No fault of this host is known: the peer is gone, or the network loses what is sent, or the answers."), "{text}");
    silent.finding = Some(finding(Rule::PeerSilent, Some(1_500)));
    silent.way = Some(way(0, NextHop::Known));
    let sentence = said(silent.clone());
    assert!(
        sentence.text.contains("(path MTU 1500, MTU of eth0 1500)"),
        "{}",
        sentence.text
    );
    assert!(sentence.remedies[0].starts_with("in 7: ping -c 3 -M do -s 1472 10.0.0.2    # "));
    // What was sent again is short.
    silent.sent = Some(SegmentsSeen {
        count: 2,
        bytes_max: 600,
        device: None,
        dropped: 0,
    });
    let sentence = said(silent.clone());
    assert!(!sentence.text.contains("MTU"), "{}", sentence.text);
    assert!(
        sentence
            .text
            .contains("2 segments of up to 600 bytes left the socket."),
        "{}",
        sentence.text
    );
    assert_eq!(sentence.remedies, ["nft list ruleset"]);
    // And this host has dropped it.
    silent.sent = silent.sent.map(|sent| SegmentsSeen { dropped: 2, ..sent });
    let sentence = said(silent);
    assert!(
        sentence.text.ends_with(
            "and were dropped on this host. This host drops them: what is said of drops says where."
        ),
        "{}",
        sentence.text
    );
}

#[test]
fn reader_on_this_host_is_the_cause_of_a_closed_window() {
    let info = TcpInfo {
        snd_wnd_bytes: Some(0),
        last_ack_recv_ms: Some(1_000),
        backoff: Some(4),
        ..TcpInfo::default()
    };
    let mut closed = stuck(StuckCause::PeerWindow, info);
    closed.socket.timer = Some(Timer {
        kind: TimerKind::ZeroWindowProbe,
        expires_ms: 2_500,
        retransmits: 0,
    });
    let text = said(closed.clone()).text;
    let expected = "the peer does not read, its receive window is closed (0 bytes). The next probe of the window (timer persist) is due in 2.50s \
                    after 4 others (backoff). Its host is alive: it acknowledged last 1.00s ago.";
    assert!(text.ends_with(expected), "{text}");
    closed.peer = Some(PeerHere {
        netns: Some(NetnsInode(9)),
        netns_name: Some("web".to_owned()),
        unread: 700,
        is_full_listener: false,
        program: Some(program(b'T')),
    });
    let sentence = said(closed.clone());
    let expected = "The peer is on this host, in network namespace web: 700 bytes wait in its receive queue, and its program (reader, 812) does not read them: it is stopped by a signal (state T).";
    assert!(sentence.text.ends_with(expected), "{}", sentence.text);
    assert_eq!(sentence.remedies, ["kill -CONT 812"]);
    // Nothing has come from it since: it may be gone.
    closed.peer = None;
    closed.socket.tcp_info.as_mut().unwrap().last_ack_recv_ms = Some(65_000);
    let text = said(closed.clone()).text;
    assert!(
        text.ends_with("either its program does not read, or its host is gone since."),
        "{text}"
    );
    closed.is_effect = true;
    assert_eq!(sentences(vec![closed]), []);
}

#[test]
fn connection_without_a_program_ends_by_itself() {
    let mut closed = stuck(StuckCause::NotSent, TcpInfo::default());
    closed.socket.inode = None;
    closed.finding = Some(finding(Rule::CannotSend, None));
    closed.more = 2;
    let sentence = said(closed);
    assert_eq!((sentence.code, sentence.remedies.len()), ("abandoned", 0));
    assert!(
        sentence.text.contains("the kernel ends by itself"),
        "{}",
        sentence.text
    );
    assert!(
        sentence.text.ends_with("The same is so of 2 more connections."),
        "{}",
        sentence.text
    );
}

#[test]
fn sockets_without_packets_are_counted() {
    let said = |report: PathReport| {
        let sentences = report.sentences().into_iter();
        sentences
            .map(|sentence| (sentence.code, sentence.text))
            .collect::<Vec<_>>()
    };
    let report = |sockets| PathReport {
        sockets: Some(sockets),
        ..PathReport::default()
    };
    assert_eq!(said(report(0))[0].0, "no-socket");
    assert_eq!(
        said(report(1))[0].1,
        "1 socket matches at the end, and nothing has waited for long in its queues."
    );
    let latest = socket(TcpInfo {
        last_data_sent_ms: Some(7_200_000),
        last_data_recv_ms: Some(9_000_000),
        data_segs_in: Some(0),
        data_segs_out: Some(3),
        ..TcpInfo::default()
    });
    let idle = PathReport {
        idle: Some(Idle {
            connections: 3,
            latest,
            program: None,
        }),
        ..report(3)
    };
    let sentences = said(idle);
    assert_eq!(sentences.len(), 1);
    assert_eq!(
        sentences[0].1,
        "3 connections are idle; the latest is 10.0.0.1:5000 to 10.0.0.2:80: both queues are empty, so that nothing waits here or for the peer: \
         data was sent last 2h 0m ago, and nothing came in in the 2h 30m of the connection. No program has written anything since. Look at the application."
    );
}

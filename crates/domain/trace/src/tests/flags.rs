//! Each of tshark's flags, on segments made by hand.

use super::hand::{Hand, analysed, check, from_client, from_server, handshake};
use sockeye_trace::{Completeness, Flag};
use sockeye_wire::packet::TcpFlags;

/// The handshake, and what follows it.
fn with(more: &[Hand]) -> Vec<Hand> {
    [handshake(), more.to_vec()].concat()
}

#[test]
fn plain_transfer_has_no_flags() {
    let notes = check(
        &with(&[
            from_client(20_000, 1_001, 5_001, 500),
            from_client(20_100, 1_501, 5_001, 400),
        ]),
        &[],
    );
    assert_eq!(
        (notes.bytes_in_flight, notes.push_bytes_sent),
        (Some(900), Some(900))
    );
    let notes = check(
        &with(&[
            from_client(20_000, 1_001, 5_001, 500),
            from_client(20_100, 1_501, 5_001, 400),
            from_server(30_100, 5_001, 1_901, 0),
        ]),
        &[],
    );
    assert_eq!((notes.acks_frame, notes.ack_rtt_ns), (Some(5), Some(10_000_000)));
}

#[test]
fn closed_window_is_flagged() {
    let closed = [
        from_client(20_000, 1_001, 5_001, 500),
        from_server(30_000, 5_001, 1_501, 0).window(0),
    ];
    check(&with(&closed), &[Flag::ZeroWindow]);
    let probed = [&closed[..], &[from_client(40_000, 1_501, 5_001, 1)]].concat();
    check(&with(&probed), &[Flag::ZeroWindowProbe]);
    let answered = [&probed[..], &[from_server(50_000, 5_001, 1_501, 0).window(0)]].concat();
    check(&with(&answered), &[Flag::ZeroWindow, Flag::ZeroWindowProbeAck]);
    let opened = [&answered[..], &[from_server(60_000, 5_001, 1_501, 0).window(900)]].concat();
    check(&with(&opened), &[Flag::WindowUpdate]);
}

#[test]
fn full_window_is_flagged() {
    let full = [
        from_server(15_000, 5_001, 1_001, 0).window(800),
        from_client(20_000, 1_001, 5_001, 800),
    ];
    check(&with(&full), &[Flag::WindowFull]);
}

#[test]
fn keep_alive_and_its_answer_are_flagged() {
    let alive = [
        from_client(20_000, 1_001, 5_001, 500),
        from_server(30_000, 5_001, 1_501, 0),
    ];
    let probe = [&alive[..], &[from_client(9_000_000, 1_500, 5_001, 0)]].concat();
    check(&with(&probe), &[Flag::KeepAlive]);
    let answer = [&probe[..], &[from_server(9_010_000, 5_001, 1_501, 0)]].concat();
    check(&with(&answer), &[Flag::KeepAliveAck]);
}

#[test]
fn lost_segment_and_its_repetition_are_flagged() {
    let gap = [
        from_client(20_000, 1_001, 5_001, 500),
        from_client(20_100, 2_001, 5_001, 500),
    ];
    let notes = check(&with(&gap), &[Flag::LostSegment]);
    assert_eq!(notes.bytes_in_flight, None, "unknown until an acknowledgement");
    let late = [&gap[..], &[from_client(20_500, 1_501, 5_001, 500)]].concat();
    check(&with(&late), &[Flag::OutOfOrder]);
    let again = [&gap[..], &[from_client(90_000, 1_501, 5_001, 500)]].concat();
    let notes = check(&with(&again), &[Flag::Retransmission]);
    assert_eq!((notes.rto_ns, notes.rto_frame), (Some(70_000_000), Some(4)));
}

#[test]
fn duplicates_make_a_fast_retransmission() {
    let sent = [
        from_client(20_000, 1_001, 5_001, 500),
        from_client(20_100, 1_501, 5_001, 500),
        from_client(20_200, 2_001, 5_001, 500),
        from_server(30_000, 5_001, 1_501, 0),
        from_server(30_100, 5_001, 1_501, 0),
    ];
    let notes = check(&with(&sent), &[Flag::DuplicateAck]);
    assert_eq!(notes.duplicate_ack, Some((1, 7)));
    let fast = [
        &sent[..],
        &[
            from_server(30_200, 5_001, 1_501, 0),
            from_client(45_000, 1_501, 5_001, 500),
        ],
    ]
    .concat();
    check(&with(&fast), &[Flag::FastRetransmission]);
}

#[test]
fn spurious_and_unseen_segments_are_flagged() {
    let acked = [
        from_client(20_000, 1_001, 5_001, 500),
        from_server(30_000, 5_001, 1_501, 0),
    ];
    let again = [&acked[..], &[from_client(300_000, 1_001, 5_001, 500)]].concat();
    check(&with(&again), &[Flag::SpuriousRetransmission]);
    let unseen = [&acked[..], &[from_server(40_000, 5_001, 2_501, 0)]].concat();
    check(&with(&unseen), &[Flag::AckLostSegment]);
}

#[test]
fn reused_ports_begin_another_connection() {
    let again = with(&[from_client(9_000_000, 77_000, 0, 0).flags(TcpFlags::SYN)]);
    let notes = check(&again, &[Flag::ReusedPorts]);
    assert_eq!(notes.connection, 1);
    let same = with(&[from_client(3_000_000, 1_000, 0, 0).flags(TcpFlags::SYN)]);
    assert_eq!(check(&same, &[Flag::Retransmission]).connection, 0);
}

#[test]
fn sequence_numbers_may_wrap() {
    let begin = u32::MAX - 700;
    let mut around = vec![
        from_client(0, begin.wrapping_sub(1), 0, 0).flags(TcpFlags::SYN),
        from_server(10_000, 5_000, begin, 0).flags(TcpFlags::SYN.or(TcpFlags::ACK)),
        from_client(10_010, begin, 5_001, 0),
    ];
    for number in 0..4_u32 {
        let sequence = begin.wrapping_add(number * 500);
        around.push(from_client(20_000 + u64::from(number), sequence, 5_001, 500));
    }
    let notes = check(&around, &[]);
    assert_eq!(notes.bytes_in_flight, Some(2_000));
    around.push(from_server(30_000, 5_001, begin.wrapping_add(2_000), 0));
    assert_eq!(check(&around, &[]).acks_frame, Some(7));
    assert_eq!(analysed(&around).1[0].forward.bytes, 2_000);
}

#[test]
fn time_may_go_backwards() {
    let segments = with(&[
        from_client(5_000, 1_001, 5_001, 500),
        from_server(4_000, 5_001, 1_501, 0),
    ]);
    let notes = check(&segments, &[]);
    assert_eq!((notes.acks_frame, notes.ack_rtt_ns), (Some(4), None));
}

#[test]
fn completeness_has_the_bits_of_tshark() {
    let fin = TcpFlags::FIN.or(TcpFlags::ACK);
    let all = with(&[
        from_client(20_000, 1_001, 5_001, 500),
        from_server(30_000, 5_001, 1_501, 0),
        from_client(40_000, 1_501, 5_001, 0).flags(fin),
        from_server(50_000, 5_001, 1_502, 0).flags(fin),
        from_client(60_000, 1_502, 5_002, 0),
    ]);
    assert_eq!(analysed(&all).1[0].completeness, Completeness(31));
    let middle = [
        from_client(0, 7, 9, 100),
        from_server(1, 9, 107, 0).flags(TcpFlags::RST),
    ];
    assert_eq!(
        analysed(&middle).1[0].completeness,
        Completeness(Completeness::RST)
    );
}

#[test]
fn simultaneous_open_is_one_connection() {
    let both = TcpFlags::SYN.or(TcpFlags::ACK);
    let segments = [
        from_client(0, 1_000, 0, 0).flags(TcpFlags::SYN),
        from_server(5, 5_000, 0, 0).flags(TcpFlags::SYN),
        from_client(10_000, 1_000, 5_001, 0).flags(both),
        from_server(10_010, 5_000, 1_001, 0).flags(both),
        from_client(20_000, 1_001, 5_001, 100),
    ];
    check(&segments, &[]);
    assert_eq!(analysed(&segments).1.len(), 1);
}

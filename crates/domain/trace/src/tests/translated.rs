//! Two captures between which addresses were translated: what is the same connection, and what only looks like it.

use super::hand::{Hand, from_client, from_server, handshake};
use sockeye_trace::{Paired, Pairing};
use sockeye_wire::packet::TcpFlags;
use std::net::{IpAddr, Ipv4Addr};

const OUTSIDE: (IpAddr, u16) = (IpAddr::V4(Ipv4Addr::new(203, 0, 113, 9)), 61_000);

/// As it is called behind a translator, three seconds later by another clock.
fn outside(hand: &Hand) -> Hand {
    let mut hand = *hand;
    hand.time_us += 3_000_000;
    let segment = &mut hand.segment;
    if segment.destination_port == 443 {
        (segment.source, segment.source_port) = OUTSIDE;
    } else {
        (segment.destination, segment.destination_port) = OUTSIDE;
    }
    hand
}

fn transfer() -> Vec<Hand> {
    let mut all = handshake();
    for nth in 0..10 {
        let at_us = 50_000 + u64::from(nth) * 10_000;
        all.push(from_client(at_us, 1_001 + nth * 500, 5_001, 500));
        all.push(from_server(at_us + 5_000, 5_001, 1_501 + nth * 500, 0));
    }
    all
}

fn paired(first: &[Hand], second: &[Hand]) -> Paired {
    let mut pairing = Pairing::new();
    for (frame, hand) in (1..).zip(first) {
        pairing.first(frame, hand.time_us * 1_000, &hand.segment);
    }
    for (frame, hand) in (1..).zip(second) {
        pairing.second(frame, hand.time_us * 1_000, &hand.segment);
    }
    pairing.finish()
}

#[test]
fn handshake_identifies_a_translated_connection() {
    let first = transfer();
    let mut second: Vec<Hand> = first.iter().map(outside).collect();
    // One is lost between them, and routers lower the MSS.
    let lost = second.remove(7);
    assert_eq!(lost.segment.payload_len, 500);
    second[0].segment.options.mss = Some(1_360);
    let paired = paired(&first, &second);
    assert_eq!(
        (paired.offset_ns, paired.is_offset_measured),
        (3_000_000_000, true)
    );
    assert_eq!(paired.directions.len(), 2);
    let there = &paired.directions[0];
    assert_eq!((there.both, there.lost, there.unseen), (11, 1, 0));
    assert_eq!(there.translated.map(|[source, _]| source), Some(OUTSIDE));
    assert_eq!(paired.directions[1].translated.map(|[_, to]| to), Some(OUTSIDE));
    assert_eq!((paired.directions[1].both, paired.directions[1].lost), (11, 0));
}

#[test]
fn similar_handshake_is_not_paired() {
    let first = transfer();
    let check = |change: fn(&mut Vec<Hand>)| {
        let mut second: Vec<Hand> = first.iter().map(outside).collect();
        change(&mut second);
        let paired = paired(&first, &second);
        assert!(
            paired
                .directions
                .iter()
                .all(|direction| direction.both == 0 && direction.translated.is_none())
        );
        let unseen: u64 = paired
            .directions
            .iter()
            .map(|direction| direction.unseen + direction.lost)
            .sum();
        assert!(unseen <= (first.len() + second.len()) as u64);
    };
    // Without the handshake.
    check(|second| drop(second.drain(..3)));
    // The SYN is of another connection, its answer is, or they offer something else.
    check(|second| second[0].segment.sequence += 1);
    check(|second| second[1].segment.sequence += 1);
    check(|second| second[1].segment.options.window_scale = Some(13));
    check(|second| second[0].segment.options.sack_permitted ^= true);
    // No answer at all.
    check(|second| {
        second.truncate(1);
        second.push(second[0]);
    });
}

/// Both sides of the translator in one capture: it is ambiguous which one is meant.
#[test]
fn ambiguous_handshakes_are_not_paired() {
    let first = transfer();
    let elsewhere = |hand: &Hand| {
        let mut hand = outside(hand);
        hand.segment.source_port = hand
            .segment
            .source_port
            .wrapping_add(u16::from(hand.segment.source_port != 443));
        hand.segment.destination_port = hand
            .segment
            .destination_port
            .wrapping_add(u16::from(hand.segment.destination_port != 443));
        hand
    };
    let both: Vec<Hand> = first
        .iter()
        .chain(&first.iter().map(outside).collect::<Vec<_>>())
        .copied()
        .collect();
    let second: Vec<Hand> = first.iter().map(elsewhere).collect();
    assert!(
        paired(&both, &second)
            .directions
            .iter()
            .all(|direction| direction.translated.is_none())
    );
}

#[test]
fn repeated_syn_is_paired() {
    let mut first = transfer();
    first.insert(1, first[0]);
    let second: Vec<Hand> = first.iter().map(outside).collect();
    assert!(first[0].segment.flags.has(TcpFlags::SYN));
    let paired = paired(&first, &second);
    assert_eq!((paired.directions[0].both, paired.directions[0].lost), (13, 0));
}

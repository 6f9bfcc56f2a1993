//! Simulated transfers: what happened to them is known.

use super::world::{Truth, World};
use sockeye_trace::{Connection, EventKind, Limit, Vantage};

/// Shares of the client's time, in per cent.
fn share(connection: &Connection, limit: Limit) -> u64 {
    let shares = connection.forward.shares;
    shares.of(limit) * 100 / shares.total().max(1)
}

/// Checks the analysis of a capture at each end.
fn at_both_ends(world: World, check: impl Fn(&Connection, Truth)) {
    for is_receiver in [false, true] {
        let (finished, truth) = World { is_receiver, ..world }.analysed();
        let vantage = if is_receiver {
            Vantage::Receiver
        } else {
            Vantage::Sender
        };
        assert_eq!(finished.connection.forward.vantage, vantage);
        check(&finished.connection, truth);
    }
}

#[test]
fn same_seed_gives_the_same_analysis() {
    let world = World {
        loss_permille: 20,
        late_permille: 10,
        ..World::default()
    };
    assert_eq!(world.analysed(), world.analysed());
    assert_ne!(world.analysed().1, World { seed: 2, ..world }.analysed().1);
}

#[test]
fn full_window_counts_for_the_receiver() {
    let world = World {
        window: 20_000,
        delay_ns: 30_000_000,
        ..World::default()
    };
    at_both_ends(world, |connection, truth| {
        assert_eq!(truth, Truth::default());
        assert!(
            share(connection, Limit::ReceiverWindow) > 85,
            "{:?}",
            connection.forward
        );
        assert!(connection.events.is_empty(), "{:?}", connection.events);
    });
}

#[test]
fn slow_reader_closes_the_window() {
    let world = World {
        window: 20_000,
        reads_bytes_per_s: 200_000,
        bytes: 400_000,
        ..World::default()
    };
    at_both_ends(world, |connection, _| {
        assert!(
            share(connection, Limit::ReceiverWindow) > 80,
            "{:?}",
            connection.forward
        );
    });
}

#[test]
fn pauses_count_for_the_application() {
    let world = World {
        writes: 15_500,
        bytes: 300_000,
        ..World::default()
    };
    at_both_ends(world, |connection, truth| {
        assert_eq!(truth, Truth::default());
        assert!(
            share(connection, Limit::Application) > 55,
            "{:?}",
            connection.forward
        );
        assert_eq!(connection.forward.verdict.limit, Some(Limit::Application));
    });
}

#[test]
fn overflowing_queue_is_measured() {
    let world = World {
        bytes: 3_000_000,
        delay_ns: 40_000_000,
        bytes_per_s: 100_000,
        queue: 4,
        ..World::default()
    };
    let (finished, truth) = world.analysed();
    let verdict = finished.connection.forward.verdict;
    assert!(truth.lost > 10, "{truth:?}");
    assert_eq!(verdict.lost_segs, truth.lost, "{verdict:?}");
    assert!(
        verdict.lost_after_growth_segs * 10 > verdict.lost_segs * 8,
        "{verdict:?}"
    );
    let (least, most) = verdict.queue_segs.expect("a queue");
    assert!(least <= 5 && (4..=8).contains(&most), "{verdict:?}");
    assert!(verdict.window_segs > verdict.in_flight_segs, "{verdict:?}");
}

#[test]
fn each_loss_is_an_event() {
    for seed in 1..6 {
        let world = World {
            seed,
            loss_permille: 15,
            bytes: 2_000_000,
            ..World::default()
        };
        at_both_ends(world, |connection, truth| {
            let judgements = connection.forward.judgements;
            assert!(truth.lost > 10, "{truth:?}");
            // One that was lost twice is seen once at the receiver.
            let is_receiver = connection.forward.vantage == Vantage::Receiver;
            let most_off = if is_receiver { truth.lost / 10 + 1 } else { 0 };
            assert!(
                judgements.lost.abs_diff(truth.lost) <= most_off,
                "{judgements:?} {truth:?}"
            );
            assert_eq!(
                (judgements.reordered, judgements.duplicated_by_network),
                (0, 0),
                "{judgements:?}"
            );
            if !is_receiver {
                assert_eq!(judgements.timeouts, truth.timeouts, "{judgements:?} {truth:?}");
            }
        });
    }
}

#[test]
fn late_segment_is_not_lost() {
    let world = World {
        late_permille: 10,
        bytes: 2_000_000,
        ..World::default()
    };
    at_both_ends(world, |connection, truth| {
        let judgements = connection.forward.judgements;
        assert!(truth.late > 10, "{truth:?}");
        assert_eq!(judgements.lost, 0, "{judgements:?}");
        let is_receiver = connection.forward.vantage == Vantage::Receiver;
        let seen = judgements.reordered + if is_receiver { 0 } else { judgements.spurious };
        assert!(seen * 10 >= truth.late * 6, "{judgements:?} {truth:?}");
        assert_eq!(judgements.loss_bursts, 0, "{judgements:?}");
        // All that was retransmitted because of it was unnecessary.
        assert!(
            judgements.spurious.abs_diff(truth.sent_again) <= 1,
            "{judgements:?} {truth:?}"
        );
    });
}

#[test]
fn duplicate_is_no_retransmission() {
    let world = World {
        duplicate_permille: 20,
        bytes: 1_000_000,
        ..World::default()
    };
    at_both_ends(world, |connection, truth| {
        let judgements = connection.forward.judgements;
        assert!(truth.twice > 10, "{truth:?}");
        assert_eq!((judgements.lost, judgements.spurious), (0, 0), "{judgements:?}");
        assert!(
            judgements.duplicated_by_network.abs_diff(truth.twice) <= 1,
            "{judgements:?} {truth:?}"
        );
    });
}

#[test]
fn timeouts_have_their_share() {
    let world = World {
        loss_permille: 250,
        bytes: 200_000,
        ..World::default()
    };
    let (finished, truth) = world.analysed();
    let connection = finished.connection;
    assert!(truth.timeouts > 2, "{truth:?}");
    assert!(
        connection.forward.verdict.timeouts.abs_diff(truth.timeouts) <= 1 + truth.timeouts / 5,
        "{connection:?} {truth:?}"
    );
    assert!(share(&connection, Limit::Timeout) > 40, "{connection:?}");
    assert!(
        connection
            .events
            .iter()
            .any(|event| event.kind == EventKind::Timeout)
    );
}

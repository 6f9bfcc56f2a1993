//! Long times: samples next to a time, gaps, totals.

use super::{BEGIN_MS, Folder, clocks, connection, open};
use crate::{Lost, StoreReader, Toward};
use sockeye_history::GapReason;

#[test]
fn totals_add_up_all_connections_by_five_minutes_and_hours() {
    let folder = Folder::new("totals");
    let mut writer = open(&folder.store());
    for number in 0..60 {
        let sockets = vec![connection(1, number * 100), connection(2, number)];
        writer.add(clocks(number), sockets, Lost::default()).unwrap();
    }
    let reader = StoreReader::open(&folder.store()).unwrap();
    let begin_s = BEGIN_MS / 1000;
    let totals = |by_hour| reader.totals((begin_s, begin_s + 600), by_hour).unwrap();
    let five = totals(false);
    let sent: Vec<_> = five
        .iter()
        .map(|one| (one.start_s, one.sums.sent_bytes))
        .collect();
    // The first sample has nothing to be compared with.
    assert_eq!(sent, [(begin_s, 29 * 101), (begin_s + 300, 30 * 101)]);
    assert_eq!(five[1].sums.connections, 2);
    let hours: Vec<_> = totals(true).iter().map(|one| one.sums.sent_bytes).collect();
    assert_eq!(hours, [59 * 101]);
}

/// Samples every ten seconds: twelve, a gap of 100 seconds in which nothing recorded, and five.
#[test]
fn sums_are_of_the_time_that_was_recorded() {
    let folder = Folder::new("coverage");
    for numbers in [6..18, 28..33] {
        let mut writer = open(&folder.store());
        for number in numbers {
            let sockets = vec![connection(1, number * 1000)];
            writer.add(clocks(number), sockets, Lost::default()).unwrap();
        }
    }
    let reader = StoreReader::open(&folder.store()).unwrap();
    let begin_s = BEGIN_MS / 1000;
    let times_s = (begin_s, begin_s + 600);
    let at = |number: u64| BEGIN_MS + number * 10_000;
    let five = reader.coverage(times_s, false).unwrap();
    let found: Vec<_> = five
        .iter()
        .map(|one| (one.start_s, one.last_ms, one.summed_ms, one.parts.clone()))
        .collect();
    assert_eq!(
        found,
        [
            (begin_s, at(29), 120_000, vec![(at(6), at(17)), (at(28), at(29))]),
            (begin_s + 300, at(32), 30_000, vec![(at(29), at(32))])
        ]
    );
    // The rate is the same in each of them.
    for (totals, coverage) in reader.totals(times_s, false).unwrap().iter().zip(&five) {
        assert_eq!(totals.sums.sent_bytes * 1000 / coverage.summed_ms, 100);
    }
    let hours = reader.coverage(times_s, true).unwrap();
    assert_eq!(
        hours.iter().map(|one| one.summed_ms).collect::<Vec<_>>(),
        [150_000]
    );
    assert_eq!(
        reader.coverage((begin_s + 600, begin_s + 900), false).unwrap(),
        []
    );
}

#[test]
fn next_sample_is_never_the_one_at_the_time() {
    let folder = Folder::new("next");
    let mut writer = open(&folder.store());
    for number in [0, 1, 9] {
        writer
            .add(clocks(number), vec![connection(1, number)], Lost::default())
            .unwrap();
    }
    let reader = StoreReader::open(&folder.store()).unwrap();
    let at = |number: u64| BEGIN_MS + number * 10_000;
    let next = |at_ms, toward| reader.next_sample(at_ms, toward).unwrap();
    assert_eq!(next(at(1), Toward::Past), Some(at(0)));
    assert_eq!(next(at(1), Toward::Future), Some(at(9)));
    assert_eq!(
        (next(at(0), Toward::Past), next(at(9), Toward::Future)),
        (None, None)
    );
    assert_eq!(next(u64::MAX, Toward::Past), Some(at(9)));
    let gaps = |from, to| reader.gaps_within((from, to)).unwrap();
    let reasons: Vec<_> = gaps(at(2), at(3))
        .iter()
        .map(|gap| (gap.from_ms, gap.reason))
        .collect();
    assert_eq!(reasons, [(at(1), GapReason::Late)]);
    assert!(gaps(at(0), at(1)).is_empty() && gaps(at(9), at(10)).is_empty());
}

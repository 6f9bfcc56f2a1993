//! Samples one after the other, while they are written, sealed and deleted.

use super::{Folder, UNBOUNDED, clocks, connection, open, run};
use crate::{Limits, Lost, Observed, Resumed, StoreFollower, StoreWriter};
use sockeye_history::{GapReason, SeenTranslation};
use sockeye_model::{ConnectionEnds, Translation};

fn add(writer: &mut StoreWriter, number: u64) {
    let sockets = [connection(1, number * 100), connection(number + 2, 5)];
    writer.add(clocks(number), sockets, Lost::default()).unwrap();
}

/// Reads all that is there: the number of each sample, and what its first connection has sent.
fn read(follower: &mut StoreFollower) -> Vec<(i64, u64)> {
    let mut all = Vec::new();
    while let Some(sample) = follower.next_sample().unwrap() {
        let mut sockets = follower.sockets().sockets();
        let sent = sockets.find_map(|(identity, values)| {
            (identity.cookie.map(|cookie| cookie.0) == Some(1)).then(|| values.number("bytes_acked"))
        });
        all.push((sample.id, sent.flatten().unwrap()));
    }
    all
}

fn expected(numbers: std::ops::Range<u64>) -> Vec<(i64, u64)> {
    numbers.map(|number| (number as i64 + 1, number * 100)).collect()
}

#[test]
fn samples_come_once_each_also_while_groups_are_sealed() {
    let folder = Folder::new("follow");
    let mut writer = open(&folder.store());
    let mut follower = StoreFollower::open(&folder.store()).unwrap();
    assert_eq!(read(&mut follower), []);
    let mut before = 0;
    // A group has 60: within one, over its end, over several.
    for until in [1, 20, 21, 59, 60, 61, 130, 250] {
        (before..until).for_each(|number| add(&mut writer, number));
        assert_eq!(read(&mut follower), expected(before..until), "until {until}");
        before = until;
    }
    let mut second = StoreFollower::open(&folder.store()).unwrap();
    assert_eq!(read(&mut second), expected(0..250));
}

#[test]
fn group_that_is_sealed_between_two_of_its_samples_is_read_on() {
    let folder = Folder::new("follow-sealed");
    let mut writer = open(&folder.store());
    (0..60).for_each(|number| add(&mut writer, number));
    let mut follower = StoreFollower::open(&folder.store()).unwrap();
    for _ in 0..30 {
        follower.next_sample().unwrap().unwrap();
    }
    (60..70).for_each(|number| add(&mut writer, number));
    assert_eq!(read(&mut follower), expected(30..70));
}

#[test]
fn follower_resumes_after_any_sample() {
    let folder = Folder::new("follow-resumed");
    let mut writer = open(&folder.store());
    (0..90).for_each(|number| add(&mut writer, number));
    for number in [0, 1, 58, 59, 60, 88, 89] {
        let mut follower = StoreFollower::open(&folder.store()).unwrap();
        let resumed = follower.resume(number as i64 + 1, clocks(number).at_ms).unwrap();
        assert_eq!(resumed, Resumed::After);
        assert_eq!(read(&mut follower), expected(number + 1..90), "{number}");
    }
    let mut follower = StoreFollower::open(&folder.store()).unwrap();
    assert_eq!(follower.resume(5, 77).unwrap(), Resumed::Other);
    assert_eq!(read(&mut follower).len(), 90);
}

#[test]
fn sample_that_was_deleted_is_reported() {
    let folder = Folder::new("follow-lost");
    let limits = Limits {
        max_age: Some(std::time::Duration::from_mins(15)),
        ..UNBOUNDED
    };
    let mut writer = StoreWriter::open(&folder.store(), limits, run()).unwrap();
    (0..300).for_each(|number| add(&mut writer, number));
    let mut follower = StoreFollower::open(&folder.store()).unwrap();
    let Resumed::Lost(oldest_ms) = follower.resume(1, clocks(0).at_ms).unwrap() else {
        panic!("it is there");
    };
    let all = read(&mut follower);
    assert_eq!(oldest_ms, clocks(all[0].0 as u64 - 1).at_ms);
    assert_eq!(all.last(), Some(&(300, 29_900)));
    assert!(follower.lacks_begin().unwrap());
}

#[test]
fn gap_comes_with_the_sample_after_it() {
    let folder = Folder::new("follow-gap");
    let mut writer = open(&folder.store());
    add(&mut writer, 0);
    writer.skip(GapReason::NotRead);
    add(&mut writer, 5);
    let mut follower = StoreFollower::open(&folder.store()).unwrap();
    assert_eq!(follower.next_sample().unwrap().unwrap().gap, None);
    let gap = follower.next_sample().unwrap().unwrap().gap.unwrap();
    assert_eq!(gap.reason, GapReason::NotRead);
    assert_eq!((gap.from_ms, gap.to_ms), (clocks(0).at_ms, clocks(5).at_ms));
}

#[test]
fn observations_come_once_and_go_with_their_samples() {
    let folder = Folder::new("follow-observed");
    let limits = Limits {
        max_age: Some(std::time::Duration::from_mins(15)),
        ..UNBOUNDED
    };
    let mut writer = StoreWriter::open(&folder.store(), limits, run()).unwrap();
    let follower = StoreFollower::open(&folder.store()).unwrap();
    let seen = |number: u64| {
        let ends = |port| ConnectionEnds {
            client: ([10, 0, 0, 1].into(), number as u16),
            server: ([10, 0, 0, 2].into(), port),
        };
        SeenTranslation {
            netns: None,
            translation: Translation {
                zone: 0,
                original: ends(80),
                translated: ends(8_080),
            },
        }
    };
    let mut add = |number: u64| {
        let mut sample = writer.begin(clocks(number)).unwrap();
        let recorded = connection(1, number);
        sample.push(&recorded.identity.borrowed(), recorded.values);
        sample.observe(Observed::Translations(vec![seen(number), seen(number + 1_000)]));
        sample.observe(Observed::Exchanges(Vec::new()));
        sample.finish(Lost::default()).unwrap();
    };
    (0..90).for_each(&mut add);
    let at_ms = |number: u64| clocks(number).at_ms;
    let found = follower.translations((at_ms(3), at_ms(5))).unwrap();
    let expected =
        [4, 5].map(|number| [seen(number), seen(number + 1_000)].map(|seen| (at_ms(number), seen)));
    assert_eq!(found, expected.concat());
    assert_eq!(follower.exchanges((0, u64::MAX >> 1)).unwrap(), []);
    // The first group is too old then, and its observations with it.
    (90..190).for_each(&mut add);
    let (oldest, _) = follower.translations((0, u64::MAX >> 1)).unwrap()[0];
    assert_eq!(oldest, at_ms(60));
}

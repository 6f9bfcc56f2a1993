//! What was written is read back.

use super::{BEGIN_MS, Folder, clocks, connection, open};
use crate::{By, Lost, Moment, Nearest, StoreError, StoreReader, Toward};
use sockeye_history::GapReason;
use std::os::unix::fs::PermissionsExt;

fn moment(reader: &StoreReader, at_ms: u64) -> Moment {
    match reader.at(at_ms).unwrap() {
        Nearest::Sample(moment) => moment,
        other => panic!("{other:?}"),
    }
}

fn bytes(moment: &Moment) -> Vec<Option<u64>> {
    moment
        .sockets
        .sockets()
        .map(|(_, values)| values.number("bytes_acked"))
        .collect()
}

#[test]
fn sample_before_a_time_answers_also_when_sealed() {
    let folder = Folder::new("moments");
    let mut writer = open(&folder.store());
    // Two groups are sealed, the third is not.
    for number in 0..130 {
        let sockets = vec![connection(1, number), connection(2, 7)];
        assert_eq!(
            writer.add(clocks(number), sockets, Lost::default()).unwrap(),
            None
        );
    }
    let reader = StoreReader::open(&folder.store()).unwrap();
    let kept = reader.kept().unwrap();
    let groups: Vec<_> = kept
        .groups
        .iter()
        .map(|group| (group.samples, group.is_sealed))
        .collect();
    assert_eq!(groups, [(60, true), (60, true), (10, false)]);
    for number in [0, 1, 59, 60, 125, 129] {
        for late_ms in [0, 9_999] {
            let moment = moment(&reader, BEGIN_MS + number * 10_000 + late_ms);
            assert_eq!(moment.at_ms, BEGIN_MS + number * 10_000);
            assert_eq!(bytes(&moment), [Some(number), Some(7)]);
            assert_eq!(moment.host.as_deref(), Some("web1"));
        }
    }
    assert!(matches!(reader.at(BEGIN_MS - 1), Ok(Nearest::Before(BEGIN_MS))));
    assert!(matches!(reader.at(BEGIN_MS + 1_320_000), Ok(Nearest::After(_))));
    assert_eq!(bytes(&reader.last().unwrap().unwrap()), [Some(129), Some(7)]);
}

#[test]
fn restart_is_a_gap_and_the_old_group_is_sealed() {
    let folder = Folder::new("restart");
    let mut writer = open(&folder.store());
    writer
        .add(clocks(0), vec![connection(1, 1)], Lost::default())
        .unwrap();
    writer
        .add(clocks(1), vec![connection(1, 2)], Lost::default())
        .unwrap();
    assert!(matches!(
        crate::StoreWriter::open(&folder.store(), super::UNBOUNDED, super::run()),
        Err(StoreError::InUse(_))
    ));
    drop(writer);
    let mut writer = open(&folder.store());
    let gap = writer
        .add(clocks(9), vec![connection(1, 3)], Lost::default())
        .unwrap()
        .unwrap();
    assert_eq!(
        (gap.reason, gap.from_ms),
        (GapReason::NotRunning, BEGIN_MS + 10_000)
    );
    let reader = StoreReader::open(&folder.store()).unwrap();
    let kept = reader.kept().unwrap();
    assert_eq!(kept.gaps, [gap]);
    assert_eq!(
        kept.groups
            .iter()
            .map(|group| group.is_sealed)
            .collect::<Vec<_>>(),
        [true, false]
    );
    assert!(matches!(reader.at(BEGIN_MS + 30_000), Ok(Nearest::Gap(_))));
    assert_eq!(bytes(&moment(&reader, BEGIN_MS + 10_000)), [Some(2)]);
    assert_eq!(bytes(&moment(&reader, BEGIN_MS + 90_000)), [Some(3)]);
}

#[test]
fn restart_in_time_continues_group_and_sums() {
    let folder = Folder::new("resume");
    for number in 0..5 {
        let mut writer = open(&folder.store());
        let gap = writer.add(clocks(number), vec![connection(1, 100 * number)], Lost::default());
        assert_eq!(gap.unwrap(), None);
    }
    let reader = StoreReader::open(&folder.store()).unwrap();
    assert_eq!(reader.kept().unwrap().groups.len(), 1);
    assert_eq!(bytes(&moment(&reader, BEGIN_MS + 30_000)), [Some(300)]);
    let top = reader
        .top((BEGIN_MS, BEGIN_MS + 300_000), By::Peer, 1)
        .unwrap()
        .talkers;
    assert_eq!(top[0].sums.sent_bytes, 400);
}

#[test]
fn sample_answers_until_the_next_was_due_also_before_a_gap() {
    let folder = Folder::new("late");
    let mut writer = open(&folder.store());
    for number in [0, 4, 5] {
        let sockets = vec![connection(1, number)];
        writer.add(clocks(number), sockets, Lost::default()).unwrap();
    }
    let reader = StoreReader::open(&folder.store()).unwrap();
    assert_eq!(reader.kept().unwrap().gaps.len(), 1);
    for late_ms in [0, 1, 9_999] {
        assert_eq!(moment(&reader, BEGIN_MS + late_ms).at_ms, BEGIN_MS);
    }
    for late_ms in [10_000, 39_999] {
        assert!(matches!(reader.at(BEGIN_MS + late_ms), Ok(Nearest::Gap(_))));
    }
    assert_eq!(moment(&reader, BEGIN_MS + 40_000).at_ms, BEGIN_MS + 40_000);
}

#[test]
fn only_the_owner_may_read_the_files_of_a_store() {
    let folder = Folder::new("modes");
    let mut writer = open(&folder.store());
    writer
        .add(clocks(0), vec![connection(1, 1)], Lost::default())
        .unwrap();
    let copy = folder.0.join("copy.db");
    let reader = StoreReader::open(&folder.store()).unwrap();
    reader.copy_to(&copy).unwrap();
    for file in std::fs::read_dir(&folder.0).unwrap().map(Result::unwrap) {
        let mode = file.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{:?}", file.path());
    }
    assert_eq!(StoreReader::open(&copy).unwrap().kept().unwrap().groups.len(), 1);
    // What is there stays, and what failed is removed.
    let len = std::fs::metadata(&copy).unwrap().len();
    assert!(matches!(reader.copy_to(&copy), Err(StoreError::File(..))));
    assert_eq!(std::fs::metadata(&copy).unwrap().len(), len);
    let link = folder.0.join("link.db");
    std::os::unix::fs::symlink(folder.0.join("target.db"), &link).unwrap();
    assert!(matches!(reader.copy_to(&link), Err(StoreError::File(..))));
    assert!(!folder.0.join("target.db").exists());
}

#[test]
fn file_that_is_being_written_is_locked_before_it_is_changed() {
    let folder = Folder::new("locked");
    drop(open(&folder.store()));
    let mut lock = folder.store().into_os_string();
    lock.push("-lock");
    let lock = std::fs::File::open(lock).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let store = rusqlite::Connection::open(folder.store()).unwrap();
    store.execute_batch("PRAGMA user_version = 0").unwrap();
    let opened = crate::StoreWriter::open(&folder.store(), super::UNBOUNDED, super::run());
    assert!(matches!(opened, Err(StoreError::InUse(_))), "{opened:?}");
}

#[test]
fn missing_samples_have_the_reason_that_was_noted() {
    let folder = Folder::new("reason");
    let mut writer = open(&folder.store());
    writer
        .add(clocks(0), vec![connection(1, 1)], Lost::default())
        .unwrap();
    writer.skip(GapReason::NotRead);
    let gap = writer
        .add(clocks(3), vec![connection(1, 5)], Lost::default())
        .unwrap()
        .unwrap();
    assert_eq!(gap.reason, GapReason::NotRead);
}

#[test]
fn talkers_are_summed_up() {
    let folder = Folder::new("talkers");
    let mut writer = open(&folder.store());
    for number in 0..40 {
        // The first sends 100 bytes between two samples, the second ten times as much.
        let sockets = vec![connection(1, 1_000 + 100 * number), connection(2, 1_000 * number)];
        writer.add(clocks(number), sockets, Lost::default()).unwrap();
    }
    let reader = StoreReader::open(&folder.store()).unwrap();
    let times = (BEGIN_MS, BEGIN_MS + 600_000);
    let found = reader.top(times, By::Peer, 1).unwrap();
    assert_eq!((found.times_ms, found.is_wider), (times, false));
    let (top, number) = (found.talkers, found.number);
    assert_eq!((number, top.len()), (2, 1));
    assert_eq!(
        (top[0].name.as_deref(), top[0].sums.sent_bytes),
        (Some("10.0.0.2"), 39_000)
    );
    let top = reader.top(times, By::Port, 9).unwrap().talkers;
    assert_eq!(
        (top[0].name.as_deref(), top[0].sums.sent_bytes),
        (Some("5432"), 42_900)
    );
    let top = reader.top(times, By::Owner, 9).unwrap().talkers;
    assert_eq!(top[0].name, None);
}

#[test]
fn whole_hours_and_their_edges_add_up() {
    let folder = Folder::new("hours");
    let mut writer = open(&folder.store());
    for number in 0..1_000 {
        writer
            .add(clocks(number), vec![connection(1, 10 * number)], Lost::default())
            .unwrap();
    }
    let reader = StoreReader::open(&folder.store()).unwrap();
    for (from_s, to_s) in [
        (0, 10_000),
        (300, 9_900),
        (600, 1_200),
        (4_000, 5_000),
        (3_600, 7_200),
        // Within five minutes, over their border, and the rest of the last ones.
        (4_010, 4_040),
        (4_150, 4_250),
        (9_901, 20_000),
    ] {
        let samples = (0..1_000).filter(|number| (from_s..to_s).contains(&(number * 10)));
        // The first sample has nothing before it.
        let expected = samples.filter(|number| *number > 0).count() as u64 * 10;
        let times_ms = (BEGIN_MS + from_s * 1000, BEGIN_MS + to_s * 1000);
        let found = reader.top(times_ms, By::Peer, 9).unwrap();
        assert_eq!(
            (found.number, found.talkers[0].sums.sent_bytes),
            (1, expected),
            "{from_s} {to_s}"
        );
        assert_eq!(found.talkers[0].sums.connections, 1);
        assert_eq!((found.times_ms, found.is_wider), (times_ms, false));
    }
    // Between two samples nothing was counted.
    let found = reader
        .top((BEGIN_MS + 4_001_000, BEGIN_MS + 4_009_000), By::Peer, 9)
        .unwrap();
    assert_eq!(found.talkers, []);
}

#[test]
fn sums_are_of_whole_five_minutes_where_samples_are_gone() {
    let folder = Folder::new("gone");
    let mut writer = open(&folder.store());
    for number in 0..200 {
        let sockets = vec![connection(1, 10 * number)];
        writer.add(clocks(number), sockets, Lost::default()).unwrap();
    }
    drop(writer);
    let other = rusqlite::Connection::open(folder.store()).unwrap();
    // As a store does that has reached its size: the oldest group goes first, its sums stay.
    other
        .execute_batch("DELETE FROM block WHERE group_id = 1; DELETE FROM sample WHERE group_id = 1;")
        .unwrap();
    drop(other);
    let reader = StoreReader::open(&folder.store()).unwrap();
    let oldest_ms = reader.next_sample(0, Toward::Future).unwrap().unwrap();
    assert!(oldest_ms > BEGIN_MS + 300_000, "{oldest_ms}");
    let found = reader
        .top((BEGIN_MS + 310_000, BEGIN_MS + 320_000), By::Peer, 9)
        .unwrap();
    assert!(found.is_wider);
    assert_eq!(found.times_ms, (BEGIN_MS + 300_000, BEGIN_MS + 600_000));
    assert_eq!(found.talkers[0].sums.sent_bytes, 300);
    let found = reader
        .top((BEGIN_MS + 1_510_000, BEGIN_MS + 1_530_000), By::Peer, 9)
        .unwrap();
    assert_eq!((found.is_wider, found.talkers[0].sums.sent_bytes), (false, 20));
}

#[test]
fn other_files_are_refused() {
    let folder = Folder::new("foreign");
    assert!(matches!(
        StoreReader::open(&folder.store()),
        Err(StoreError::Missing(_))
    ));
    std::fs::write(
        folder.store(),
        "not a database, and longer than the header of one: ".repeat(9),
    )
    .unwrap();
    assert!(matches!(
        StoreReader::open(&folder.store()),
        Err(StoreError::Foreign(..))
    ));
    std::fs::remove_file(folder.store()).unwrap();
    let other = rusqlite::Connection::open(folder.store()).unwrap();
    other
        .execute_batch("CREATE TABLE t (a); PRAGMA user_version = 1;")
        .unwrap();
    drop(other);
    for error in [
        StoreReader::open(&folder.store()).map(|_| ()),
        crate::StoreWriter::open(&folder.store(), super::UNBOUNDED, super::run()).map(|_| ()),
    ] {
        assert!(matches!(error, Err(StoreError::Foreign(..))), "{error:?}");
    }
}

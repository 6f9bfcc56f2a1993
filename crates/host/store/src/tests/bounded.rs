//! The size limit holds, with the log and while a reader has it open.

use super::{BEGIN_MS, Folder, clocks, connection, run};
use crate::{By, Limits, Lost, StoreError, StoreReader, StoreWriter};
use sockeye_history::Values;
use sockeye_model::{Cookie, Port, Protocol, Socket, State, TcpInfo};
use std::time::Duration;

/// Connections that all transfer something in each sample. Its 40 bits look random, so that nothing compresses them (`SplitMix64`).
fn sample(number: u64) -> Vec<sockeye_history::Recorded> {
    let mixed = |cookie: u64| {
        let bits = (number << 32 | cookie).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ bits >> 31) >> 24
    };
    (0..2_000)
        .map(|cookie| connection(cookie, mixed(cookie)))
        .collect()
}

#[test]
fn oldest_groups_go_before_the_limit_is_exceeded() {
    let folder = Folder::new("bounded");
    let limits = Limits {
        max_bytes: Limits::BYTES_MIN,
        max_age: None,
    };
    let mut writer = StoreWriter::open(&folder.store(), limits, run()).unwrap();
    let mut largest = 0;
    for number in 0..600 {
        writer
            .add(clocks(number), sample(number), Lost::default())
            .unwrap();
        largest = largest.max(folder.bytes());
    }
    assert!(largest <= Limits::BYTES_MIN, "{largest}");
    assert!(
        largest > Limits::BYTES_MIN / 3,
        "{largest}: the limit was never near"
    );
    let kept = StoreReader::open(&folder.store()).unwrap().kept().unwrap();
    let (first, last) = (&kept.groups[0], kept.groups.last().unwrap());
    assert!(first.first_ms > BEGIN_MS && kept.groups.len() > 1, "{kept:?}");
    assert_eq!(last.last_ms, clocks(599).at_ms);
}

#[test]
fn reader_that_stays_makes_samples_fail_and_not_the_limit() {
    let folder = Folder::new("busy");
    let limits = Limits {
        max_bytes: Limits::BYTES_MIN,
        max_age: None,
    };
    let mut writer = StoreWriter::open(&folder.store(), limits, run()).unwrap();
    writer.add(clocks(0), sample(0), Lost::default()).unwrap();
    let reader = rusqlite::Connection::open(folder.store()).unwrap();
    let begin = || {
        reader.execute_batch("BEGIN").unwrap();
        let _: i64 = reader
            .query_row("SELECT count(*) FROM sample", [], |row| row.get(0))
            .unwrap();
    };
    begin();
    let refused = (1..300).find_map(|number| {
        let added = writer.add(clocks(number), sample(number), Lost::default());
        assert!(folder.bytes() <= Limits::BYTES_MIN);
        added.err()
    });
    assert!(
        matches!(refused, Some(StoreError::Busy | StoreError::Sqlite(..))),
        "{refused:?}"
    );
    reader.execute_batch("COMMIT").unwrap();
    let gap = writer
        .add(clocks(400), sample(400), Lost::default())
        .unwrap()
        .unwrap();
    assert_eq!(gap.reason, sockeye_history::GapReason::NotWritten);
}

/// Decodes every sample that is kept, and returns the times of those that fail.
fn undecodable(folder: &Folder) -> Vec<u64> {
    let reader = StoreReader::open(&folder.store()).unwrap();
    let store = rusqlite::Connection::open(folder.store()).unwrap();
    let mut rows = store.prepare("SELECT at_ms FROM sample").unwrap();
    let times = rows.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap);
    times.filter(|at_ms| reader.at(*at_ms).is_err()).collect()
}

#[test]
fn group_that_is_written_is_kept_whatever_its_age() {
    let folder = Folder::new("young");
    let limits = Limits {
        max_bytes: Limits::BYTES_MIN,
        max_age: Some(Duration::from_secs(5)),
    };
    let mut writer = StoreWriter::open(&folder.store(), limits, run()).unwrap();
    for number in 0..130 {
        let sockets = vec![connection(1, number), connection(number + 2, 1)];
        writer.add(clocks(number), sockets, Lost::default()).unwrap();
    }
    assert_eq!(undecodable(&folder), []);
    let kept = StoreReader::open(&folder.store()).unwrap().kept().unwrap();
    let samples: Vec<_> = kept.groups.iter().map(|group| group.samples).collect();
    assert_eq!(samples, [10]);
}

#[test]
fn group_that_would_not_fit_ends_early() {
    let folder = Folder::new("full");
    let limits = Limits {
        max_bytes: Limits::BYTES_MIN,
        max_age: None,
    };
    let mut writer = StoreWriter::open(&folder.store(), limits, run()).unwrap();
    let mut random = 1_u64;
    for number in 0..70 {
        let mut sockets: Vec<_> = (0..5).flat_map(|_| sample(number)).collect();
        for (cookie, socket) in sockets.iter_mut().enumerate() {
            // One talker, whose sums are small.
            socket.identity.cookie = Some(Cookie(cookie as u64));
            socket.identity.peer = Some(([10, 0, 0, 1].into(), Port(5432)));
            // Numbers that do not compress.
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let mut now = Socket::new(Protocol::Tcp, State::Established);
            now.tcp_info = Some(TcpInfo {
                bytes_acked: Some(random >> 24),
                ..TcpInfo::default()
            });
            socket.values = Values::of(&now, 0);
        }
        let added = writer.add(clocks(number), sockets, Lost::default());
        assert!(matches!(added, Ok(None)), "{number}: {added:?}");
        assert!(folder.bytes() <= Limits::BYTES_MIN);
    }
    let kept = StoreReader::open(&folder.store()).unwrap().kept().unwrap();
    assert!(kept.groups.len() > 2, "{kept:?}");
    assert_eq!(undecodable(&folder), []);
}

#[test]
fn what_nothing_refers_to_is_deleted() {
    let folder = Folder::new("talkers-go");
    let limits = Limits {
        max_bytes: Limits::BYTES_MIN,
        max_age: Some(Duration::from_secs(1_200)),
    };
    let count = |table: &str| {
        let store = rusqlite::Connection::open(folder.store()).unwrap();
        store
            .query_row(&format!("SELECT count(*) FROM {table}"), [], |row| {
                row.get::<_, u64>(0)
            })
            .unwrap()
    };
    for begin in (0..1_200).step_by(100) {
        let mut writer = StoreWriter::open(&folder.store(), limits, run()).unwrap();
        for number in begin..begin + 100 {
            // One talker that stays, and a new one in each sample.
            let sockets = vec![connection(0, 100 * number), connection(number + 1, 1)];
            writer.add(clocks(number), sockets, Lost::default()).unwrap();
        }
    }
    assert!(
        count("run") < 6 && count("talker") < 400,
        "{} {}",
        count("run"),
        count("talker")
    );
    // The sums are still those of their talkers.
    let reader = StoreReader::open(&folder.store()).unwrap();
    let end_s = clocks(1_200).at_ms / 1000;
    let times_ms = ((end_s - 1_200) * 1000, end_s * 1000);
    let top = reader.top(times_ms, By::Peer, 1).unwrap().talkers;
    assert_eq!(
        (top[0].name.as_deref(), top[0].sums.sent_bytes),
        (Some("10.0.0.0"), 12_000)
    );
}

#[test]
fn smaller_limit_makes_the_file_smaller() {
    let folder = Folder::new("smaller");
    let mut limits = Limits {
        max_bytes: 4 * Limits::BYTES_MIN,
        max_age: None,
    };
    let mut writer = StoreWriter::open(&folder.store(), limits, run()).unwrap();
    for number in 0..250 {
        writer
            .add(clocks(number), sample(number), Lost::default())
            .unwrap();
    }
    drop(writer);
    limits.max_bytes = 3 << 20;
    assert!(folder.bytes() > limits.max_bytes, "{}", folder.bytes());
    let _writer = StoreWriter::open(&folder.store(), limits, run()).unwrap();
    assert!(folder.bytes() <= limits.max_bytes, "{}", folder.bytes());
    assert_eq!(undecodable(&folder), []);
}

#[test]
fn age_limit_deletes_groups() {
    let folder = Folder::new("age");
    let limits = Limits {
        max_bytes: 64 << 20,
        max_age: Some(Duration::from_secs(1_200)),
    };
    let mut writer = StoreWriter::open(&folder.store(), limits, run()).unwrap();
    for number in 0..400 {
        writer
            .add(clocks(number), vec![connection(1, number)], Lost::default())
            .unwrap();
    }
    let kept = StoreReader::open(&folder.store()).unwrap().kept().unwrap();
    assert_eq!(kept.groups.len(), 3);
}

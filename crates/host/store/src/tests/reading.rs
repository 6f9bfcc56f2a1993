//! What a slow reader and many short connections may not do to a recorder.

use super::{BEGIN_MS, Folder, clocks, connection, open, run};
use crate::{Limits, Lost, StoreReader, StoreWriter};
use std::ops::ControlFlow;

#[test]
fn reader_of_sums_that_waits_does_not_stop_the_recorder() {
    let folder = Folder::new("pager");
    let limits = Limits {
        max_bytes: Limits::BYTES_MIN,
        max_age: None,
    };
    let mut writer = StoreWriter::open(&folder.store(), limits, run()).unwrap();
    let sample = |number: u64| (0..2_500).map(move |cookie| connection(cookie, number));
    writer.add(clocks(0), sample(0), Lost::default()).unwrap();
    let other = rusqlite::Connection::open(folder.store()).unwrap();
    let reader = StoreReader::open(&folder.store()).unwrap();
    let (mut number, mut visited) = (0, 0);
    reader
        .visit_sums((BEGIN_MS / 1000, BEGIN_MS / 1000 + 300), &mut |_| {
            visited += 1;
            // As a pager that waits: after each part much is recorded.
            if visited % 1_000 == 1 {
                for _ in 0..10 {
                    number += 1;
                    writer
                        .add(clocks(number), sample(number), Lost::default())
                        .unwrap();
                }
                let is_busy: bool = other
                    .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))
                    .unwrap();
                assert!(!is_busy, "something is being read");
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(visited, 2_500);
}

#[test]
fn short_connections_end_a_group_early() {
    let folder = Folder::new("short");
    let mut writer = open(&folder.store());
    for number in 0..12 {
        let sockets = (0..1_000).map(|cookie| connection(number * 1_000 + cookie, 1));
        writer.add(clocks(number), sockets, Lost::default()).unwrap();
    }
    let kept = StoreReader::open(&folder.store()).unwrap().kept().unwrap();
    let samples: Vec<_> = kept.groups.iter().map(|group| group.samples).collect();
    assert_eq!(samples.iter().sum::<u64>(), 12);
    assert_eq!(samples.len(), 1, "12,000 are within the bound");
    for number in 12..14 {
        let sockets = (0..1_000).map(|cookie| connection(number * 1_000 + cookie, 1));
        writer.add(clocks(number), sockets, Lost::default()).unwrap();
    }
    let kept = StoreReader::open(&folder.store()).unwrap().kept().unwrap();
    assert_eq!(kept.groups.len(), 2, "{kept:?}");
    assert!(kept.groups[0].is_sealed && kept.gaps.is_empty());
}

//! Findings, counts and what is not seen: written with samples, read back, deleted with their group.

use super::{BEGIN_MS, Folder, clocks, connection, open, run};
use crate::{Check, Limits, Lost, StoreFollower, StoreReader, StoreWriter};
use sockeye_history::{
    CountKey, CountKind, DataKind, FindingRecord, FindingSeverity, PeriodEnd, RemedyText, Unseen,
};
use sockeye_model::{NetnsInode, Pid};
use std::time::Duration;

fn finding(rule: &str) -> FindingRecord {
    FindingRecord {
        rule: rule.to_owned(),
        severity: FindingSeverity {
            rank: 2,
            name: "warning".to_owned(),
        },
        netns: Some(NetnsInode(4_026_531_840)),
        subject: "listener 0.0.0.0:80".to_owned(),
        owner: Some((Pid(812), "nginx".to_owned())),
        sockets: 1,
        example: Some("0.0.0.0:80".to_owned()),
        facts: vec![("waiting".to_owned(), 129)],
        meaning: "Connections wait.".to_owned(),
        remedies: vec![RemedyText {
            text: "sysctl -w net.core.somaxconn=4096".to_owned(),
            is_command: true,
        }],
    }
}

fn count(name: &str, count: u64) -> (CountKey, u64) {
    let key = CountKey {
        kind: CountKind::Drop,
        name: name.to_owned(),
        netns: None,
        function: None,
        device: Some("eth0".to_owned()),
        owner: Some("nginx".to_owned()),
    };
    (key, count)
}

fn add(writer: &mut StoreWriter, number: u64, check: Check) {
    writer.take_check(check);
    writer
        .add(clocks(number), vec![connection(1, number)], Lost::default())
        .unwrap();
}

fn found(rules: &[&str]) -> Check {
    Check {
        findings: rules.iter().map(|rule| finding(rule)).collect(),
        ..Check::default()
    }
}

/// Rule, begin and end of all findings.
fn periods(folder: &Folder, times_ms: (u64, u64)) -> Vec<(String, u64, PeriodEnd)> {
    let reader = StoreReader::open(&folder.store()).unwrap();
    let all = reader.findings(times_ms).unwrap().into_iter();
    all.map(|period| (period.what.rule, period.began_ms, period.end))
        .collect()
}

#[test]
fn findings_have_begin_and_end_also_after_a_restart() {
    let folder = Folder::new("findings");
    let mut writer = open(&folder.store());
    add(&mut writer, 0, found(&["a", "b"]));
    add(&mut writer, 1, found(&["b"]));
    drop(writer);
    // The next sample is in time: the finding goes on.
    let mut writer = open(&folder.store());
    add(&mut writer, 2, found(&["b"]));
    let at = |number: u64| BEGIN_MS + number * 10_000;
    let all = (0, u64::MAX >> 1);
    let first = ("a".to_owned(), at(0), PeriodEnd::At(at(1)));
    assert_eq!(
        periods(&folder, all),
        [first.clone(), ("b".to_owned(), at(0), PeriodEnd::There)]
    );
    // After a gap it is not known when it ended.
    add(&mut writer, 99, found(&["b"]));
    let (cut, again) = (
        ("b".to_owned(), at(0), PeriodEnd::Unknown),
        ("b".to_owned(), at(99), PeriodEnd::There),
    );
    assert_eq!(periods(&folder, all), [first.clone(), cut.clone(), again.clone()]);
    assert_eq!(periods(&folder, (at(1) + 1, at(2))), [cut]);
    assert_eq!(periods(&folder, (at(3), at(98))), []);
    assert_eq!(periods(&folder, (at(99), at(99))), [again]);
    let reader = StoreReader::open(&folder.store()).unwrap();
    assert_eq!(reader.findings(all).unwrap()[0].what, finding("a"));
}

#[test]
fn time_without_a_check_differs_from_one_without_findings() {
    let folder = Folder::new("check-times");
    let mut writer = open(&folder.store());
    let failed = Unseen {
        kind: DataKind::Findings,
        part: None,
        why: "no memory".to_owned(),
    };
    let checks = [
        Some(found(&["a", "b"])),
        Some(found(&[])),
        None,
        None,
        Some(Check {
            unseen: vec![failed],
            ..Check::default()
        }),
    ];
    for (number, check) in checks.into_iter().enumerate() {
        if let Some(check) = check {
            writer.take_check(Check {
                interval_ms: 10_000,
                ..check
            });
        }
        writer
            .add(clocks(number as u64), vec![connection(1, 1)], Lost::default())
            .unwrap();
    }
    let reader = StoreReader::open(&folder.store()).unwrap();
    let at = |number: u64| {
        let check = reader.checked_at(BEGIN_MS + number * 10_000 + 1).unwrap();
        check.map(|check| (check.at_ms - BEGIN_MS, check.findings, check.worst))
    };
    let first = (0, 2, Some("warning".to_owned()));
    let second = (10_000, 0, None);
    // The one that is missing was due at 20 s; one that failed is none.
    let expected = [Some(first), Some(second.clone()), Some(second), None, None];
    assert_eq!([0, 1, 2, 3, 4].map(at), expected);
    let of = |times_ms| {
        let checks = reader.checks(times_ms).unwrap().into_iter();
        checks.map(|check| check.at_ms - BEGIN_MS).collect::<Vec<_>>()
    };
    assert_eq!(of((BEGIN_MS, BEGIN_MS + 99_000)), [0, 10_000]);
    assert_eq!(of((BEGIN_MS + 25_000, BEGIN_MS + 99_000)), [10_000]);
    assert_eq!(of((BEGIN_MS + 30_000, BEGIN_MS + 99_000)), []);
}

#[test]
fn counts_are_sums_of_minutes() {
    let folder = Folder::new("counts");
    let mut writer = open(&folder.store());
    for number in 0..12 {
        let check = Check {
            counts: vec![count("SOCKET_RCVBUFF", 5), count("NO_SOCKET", number)],
            unseen: vec![Unseen {
                kind: DataKind::Ends,
                part: None,
                why: "no right".to_owned(),
            }],
            ..Check::default()
        };
        add(&mut writer, number, check);
    }
    let reader = StoreReader::open(&folder.store()).unwrap();
    let begin_s = BEGIN_MS / 1000;
    let counts = |times_s| {
        let all = reader.counts(times_s).unwrap().into_iter();
        all.map(|counted| (counted.key.name, counted.count))
            .collect::<Vec<_>>()
    };
    let named = |name: &str, count| (name.to_owned(), count);
    assert_eq!(
        counts((begin_s, begin_s + 120)),
        [named("NO_SOCKET", 66), named("SOCKET_RCVBUFF", 60)]
    );
    assert_eq!(
        counts((begin_s, begin_s + 60)),
        [named("SOCKET_RCVBUFF", 30), named("NO_SOCKET", 15)]
    );
    let unseen = reader.unseen((0, u64::MAX >> 1)).unwrap();
    let shown: Vec<_> = unseen
        .iter()
        .map(|period| (period.what.kind, period.began_ms, period.last_ms))
        .collect();
    assert_eq!(shown, [(DataKind::Ends, BEGIN_MS, BEGIN_MS + 110_000)]);
}

#[test]
fn old_findings_and_counts_go_with_their_group() {
    let folder = Folder::new("old-checks");
    let limits = Limits {
        max_bytes: 1 << 30,
        max_age: Some(Duration::from_secs(600)),
    };
    let mut writer = StoreWriter::open(&folder.store(), limits, run()).unwrap();
    let check = Check {
        counts: vec![count("NO_SOCKET", 1)],
        ..found(&["a"])
    };
    add(&mut writer, 0, check);
    for number in 1..800 {
        let check = found(if number < 790 { &[] } else { &["b"] });
        add(&mut writer, number, check);
    }
    let rules: Vec<_> = periods(&folder, (0, u64::MAX >> 1))
        .into_iter()
        .map(|(rule, ..)| rule)
        .collect();
    assert_eq!(rules, ["b"]);
    let reader = StoreReader::open(&folder.store()).unwrap();
    assert_eq!(reader.counts((0, u64::MAX >> 1)).unwrap(), []);
    let store = rusqlite::Connection::open(folder.store()).unwrap();
    let number = |sql: &str| -> u64 { store.query_row(sql, [], |row| row.get(0)).unwrap() };
    assert_eq!(number("SELECT count(*) FROM counted"), 0);
    assert_eq!(
        number("SELECT count(*) FROM checked WHERE at_ms < (SELECT min(at_ms) FROM sample)"),
        0
    );
    assert!(number("SELECT count(*) FROM checked") > 10);
}

#[test]
fn store_of_version_1_is_upgraded_and_read() {
    let folder = Folder::new("version-1");
    drop(open(&folder.store()));
    let store = rusqlite::Connection::open(folder.store()).unwrap();
    store
        .execute_batch("DROP TABLE finding; DROP TABLE unseen; DROP TABLE counted; DROP TABLE count_1m; DROP TABLE checked; DROP TABLE observed; PRAGMA user_version = 1;")
        .unwrap();
    drop(store);
    // A reader does not change it.
    let reader = StoreReader::open(&folder.store()).unwrap();
    assert_eq!(reader.findings((0, 1)).unwrap(), []);
    assert_eq!(reader.counts((0, 1)).unwrap(), []);
    assert_eq!(reader.checked_at(1).unwrap(), None);
    assert_eq!(reader.checks((0, 1)).unwrap(), []);
    let follower = StoreFollower::open(&folder.store()).unwrap();
    assert_eq!(follower.translations((0, 1)).unwrap(), []);
    add(&mut open(&folder.store()), 0, found(&["a"]));
    assert_eq!(periods(&folder, (0, u64::MAX >> 1)).len(), 1);
}

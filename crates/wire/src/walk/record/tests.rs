use super::super::{Outcome, Reply};
use super::*;
use alloc::vec;
use alloc::vec::Vec;

/// A record in which every byte is its offset, except for length and sections.
fn record(bytes: u16, sections: u16) -> Vec<u8> {
    let mut record: Vec<u8> = (0..bytes).map(|at| at as u8).collect();
    record[..2].copy_from_slice(&bytes.to_ne_bytes());
    record[6..8].copy_from_slice(&sections.to_ne_bytes());
    record
}

fn slot(records_bytes: &[u8], used: u32) -> (Vec<u8>, Reply) {
    let mut slot = vec![0xee; RECORDS_AT];
    slot.extend(records_bytes);
    let mut reply = Reply::read(&[0; 512]).unwrap();
    (reply.outcome, reply.used) = (Outcome::Done, used);
    (slot, reply)
}

/// Checks the number of records that are read from these bytes, and whether an invalid record ended them.
#[track_caller]
fn check(bytes: &[u8], used: u32, expected: (usize, bool)) {
    let (slot, reply) = slot(bytes, used);
    let mut all = records(&slot, &reply);
    let mut count = 0;
    for record in &mut all {
        count += 1;
        assert!(record.has(detail::MEMORY) == record.memory().is_some());
    }
    assert_eq!(
        (count, all.is_broken()),
        expected,
        "{} of {} bytes",
        used,
        bytes.len()
    );
    assert_eq!(all.next().map(|record| record.identity()), None, "it has ended");
}

#[test]
fn record_has_the_programs_layout() {
    let bytes = record(168, detail::MEMORY as u16);
    let (slot, reply) = slot(&bytes, 168);
    let record = records(&slot, &reply).next().unwrap();
    let number = |at: u8, bytes: u8| {
        let bytes: Vec<u8> = (at..at + bytes).collect();
        ne_u64(&[&bytes[..], &[0; 8]].concat(), 0).unwrap()
    };
    if cfg!(target_endian = "little") {
        assert_eq!(record.identity(), number(8, 8));
        assert_eq!(record.cookie(), number(16, 8));
        assert_eq!(u64::from(record.netns()), number(24, 4));
        assert_eq!(u64::from(record.bucket()), number(28, 4));
        assert_eq!(u64::from(record.local_port()), number(64, 2));
        assert_eq!(u64::from(record.interface()), number(68, 4));
        assert_eq!(u64::from(record.receive_queue()), number(72, 4));
        assert_eq!(u64::from(record.send_queue()), number(76, 4));
        assert_eq!(u64::from(record.expires_jiffies()), number(84, 4));
        assert_eq!(u64::from(record.inode()), number(88, 4));
        assert_eq!(u64::from(record.uid()), number(92, 4));
        assert_eq!(u64::from(record.mark()), number(96, 4));
        assert_eq!(u64::from(record.class_id()), number(100, 4));
        assert_eq!(record.cgroup(), number(104, 8));
        assert_eq!(record.inet_flags(), number(112, 8));
        let memory = record.memory().unwrap();
        for (place, word) in memory.0.iter().enumerate() {
            assert_eq!(u64::from(*word), number(128 + 4 * place as u8, 4));
        }
    }
    assert_eq!(record.kind(), Kind::TimeWait);
    assert_eq!(
        (record.state(), record.timer(), record.retransmits()),
        (3, 80, 81)
    );
    assert_eq!(record.family().to_ne_bytes(), [4, 5]);
    assert_eq!(record.local().octets(), core::array::from_fn(|at| 32 + at as u8));
    assert_eq!(record.peer().octets(), core::array::from_fn(|at| 48 + at as u8));
    // The peer's port is in network byte order on every host.
    assert_eq!(record.peer_port(), 66 << 8 | 67);
    assert_eq!(
        (record.shutdown(), record.tos(), record.tclass()),
        (120, 122, 123)
    );
    assert!(record.v6only() && record.needs_diag());
}

#[test]
fn due_timer_has_no_time_left() {
    let mut bytes = record(128, 1);
    bytes[84..88].copy_from_slice(&(-5_i32).to_ne_bytes());
    let (slot, reply) = slot(&bytes, 128);
    assert_eq!(records(&slot, &reply).next().unwrap().expires_jiffies(), 0);
}

#[test]
fn unknown_kinds_and_states_are_kept() {
    for (number, kind) in [
        (0, Kind::Unknown(0)),
        (1, Kind::Full),
        (3, Kind::Request),
        (200, Kind::Unknown(200)),
    ] {
        let mut bytes = record(128, 0);
        (bytes[2], bytes[3]) = (number, 255);
        let (slot, reply) = slot(&bytes, 128);
        let read = records(&slot, &reply).next().unwrap();
        assert_eq!((read.kind(), read.state()), (kind, 255));
    }
}

#[test]
fn iteration_ends_with_the_records() {
    let (plain, with_memory) = (record(128, 0), record(168, detail::MEMORY as u16));
    let both = [&plain[..], &with_memory, &plain].concat();
    check(&[], 0, (0, false));
    check(&both, 128, (1, false));
    check(&both, 296, (2, false));
    check(&both, 424, (3, false));
    // Unknown sections of a newer program are skipped.
    check(&record(600, 0x8000), 600, (1, false));
    check(&[record(4096, 0), plain].concat(), 4224, (2, false));
}

#[test]
fn invalid_record_ends_iteration_and_is_reported() {
    let plain = record(128, 0);
    // 1. Truncated anywhere.
    let three = [&plain[..], &record(168, detail::MEMORY as u16), &plain].concat();
    for used in (0..=three.len() as u32).step_by(if cfg!(miri) { 8 } else { 1 }) {
        let whole = [0, 128, 296, 424].iter().filter(|end| **end <= used).count() - 1;
        check(&three, used, (whole, ![0, 128, 296, 424].contains(&used)));
    }
    // 2. Invalid lengths.
    for bytes in [0_u16, 1, 2, 127, 129, u16::MAX] {
        let mut broken = plain.clone();
        broken[..2].copy_from_slice(&bytes.to_ne_bytes());
        check(&[&plain[..], &broken].concat(), 256, (1, true));
    }
    // 3. A missing section.
    check(&record(128, detail::MEMORY as u16), 128, (0, true));
    check(&record(167, detail::MEMORY as u16), 167, (0, true));
}

#[test]
#[cfg_attr(miri, ignore = "half a megabyte takes Miri minutes")]
fn reply_beyond_the_slot_is_bounded() {
    let full: Vec<u8> = (0..RECORDS_BYTES / 128).flat_map(|_| record(128, 0)).collect();
    check(&full, RECORDS_BYTES as u32, (RECORDS_BYTES / 128, false));
    check(&full, u32::MAX, (RECORDS_BYTES / 128, false));
    // A slot that is too short has no records.
    let (slot, reply) = slot(&full, 128);
    assert_eq!(records(&slot[..RECORDS_AT + 127], &reply).count(), 0);
    assert_eq!(records(&[], &reply).count(), 0);
}

#[test]
fn quiet_connection_is_between_whole_records() {
    let mut quiet = record(32, 0);
    quiet[2] = QUIET_SOCKET;
    let bytes = [record(128, 0), quiet.clone(), record(128, 0)].concat();
    let (slot, reply) = slot(&bytes, bytes.len() as u32);
    assert_eq!(records(&slot, &reply).count(), 2);
    let all: Vec<_> = found_records(&slot, &reply).collect();
    let Found::Quiet(found) = all[1] else {
        panic!("{all:?}");
    };
    let number = |at: usize| ne_u64(&quiet, at).unwrap();
    assert_eq!((found.identity, found.cookie), (number(8), number(16)));
    assert_eq!(
        (Some(found.netns), Some(found.bucket)),
        (ne_u32(&quiet, 24), ne_u32(&quiet, 28))
    );
    assert!(matches!(all[..], [Found::Whole(_), _, Found::Whole(_)]));
    // One that is cut off, or has no length.
    check(&bytes[..159], 159, (1, true));
    quiet[..2].fill(0);
    check(&quiet, 32, (0, true));
}

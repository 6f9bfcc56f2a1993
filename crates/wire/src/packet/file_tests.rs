//! snoop and ERF files, byte by byte.

use super::{FileError, LinkType, Reader, Record, Step};
use alloc::vec::Vec;

/// Version 2 with Ethernet, two packets: of the first 5 of 60 bytes were captured, and 7 were lost before the second.
const SNOOP: &[u8] = &[
    b's', b'n', b'o', b'o', b'p', 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 4, // file
    0, 0, 0, 60, 0, 0, 0, 5, 0, 0, 0, 32, 0, 0, 0, 0, 0x65, 0x53, 0xf1, 0, 0, 0, 0, 9, // packet
    1, 2, 3, 4, 5, 0, 0, 0, // and its padding
    0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 26, 0, 0, 0, 7, 0x65, 0x53, 0xf1, 1, 0, 0, 0, 0, 8, 9,
];

/// Three records: Ethernet with padding, 2 lost packets and an extension; padding; IPv4, cut to 4 of 60 bytes.
const ERF: &[u8] = &[
    0, 0, 0, 0x80, 0, 0xf1, 0x53, 0x65, 0x82, 4, 0, 32, 0, 2, 0, 3, // half a second
    4, 0, 0, 0, 0, 0, 0, 0, // extension
    0, 0, 7, 8, 9, 0, 0, 0, // offset, pad, frame, padding
    0, 0, 0, 0x80, 0, 0xf1, 0x53, 0x65, 48, 4, 0, 16, 0, 0, 0, 0, // padding
    0, 0, 0, 0, 1, 0xf1, 0x53, 0x65, 22, 12, 0, 20, 0, 0, 0, 60, 0x45, 0, 0, 60,
];

const TIME_S: u64 = 0x6553_f100;

/// A packet's bytes with its record
type Packet = (Vec<u8>, Record);

/// Reads a file to its end, or to the first error.
fn read(file: &[u8]) -> (Vec<Packet>, Option<FileError>, Option<Reader>) {
    let mut reader = match Reader::new(file) {
        Ok(Some(reader)) => reader,
        Ok(None) => return (Vec::new(), None, None),
        Err(error) => return (Vec::new(), Some(error), None),
    };
    let (mut at, mut records) = (0, Vec::new());
    while at < file.len() {
        match reader.step(&file[at..]) {
            Ok(Step::Packet(record)) => {
                let bytes = file[at..][record.captured.clone()].to_vec();
                at += record.used;
                records.push((bytes, record));
            }
            Ok(Step::Skip(used) | Step::NotAPacket(used)) => at += used as usize,
            Ok(Step::Needs(_)) => break,
            Err(error) => return (records, Some(error), Some(reader)),
        }
    }
    (records, None, Some(reader))
}

#[test]
fn snoop_packets_are_read() {
    let (records, error, reader) = read(SNOOP);
    assert_eq!(error, None);
    let [(first, record), (second, last)] = &records[..] else {
        panic!("{records:?}");
    };
    assert_eq!((&first[..], record.original_len), (&[1, 2, 3, 4, 5][..], 60));
    assert_eq!(record.time_ns, TIME_S * 1_000_000_000 + 9_000);
    assert_eq!((record.link_type, record.used), (LinkType::ETHERNET, 32));
    assert_eq!((&second[..], last.original_len), (&[8, 9][..], 2));
    let reader = reader.expect("a reader");
    assert_eq!(reader.interfaces()[0].dropped, Some(7));
    assert_eq!(reader.offset(), SNOOP.len() as u64);
}

#[test]
fn snoop_numbers_of_link_types_are_translated() {
    for (datalink, link_type) in [(0, LinkType::ETHERNET), (8, LinkType::FDDI), (2, LinkType(6))] {
        let mut file = SNOOP.to_vec();
        file[15] = datalink;
        assert_eq!(read(&file).0[0].1.link_type, link_type);
    }
    let mut file = SNOOP.to_vec();
    file[15] = 17;
    let error = read(&file).1.expect("an error");
    assert_eq!(
        alloc::string::ToString::to_string(&error),
        "has packets of snoop's datalink type 17 (ATM), which is not supported"
    );
}

#[test]
fn broken_snoop_files_are_errors() {
    let broken = |at: usize, value: u8| {
        let mut file = SNOOP.to_vec();
        file[at] = value;
        read(&file).1
    };
    assert!(matches!(broken(6, 1), Some(FileError::Unknown { .. })), "magic");
    assert_eq!(broken(11, 3), Some(FileError::Version { major: 3, minor: 0 }));
    assert!(
        matches!(broken(27, 23), Some(FileError::Broken(_))),
        "record too short"
    );
    assert!(
        matches!(broken(23, 99), Some(FileError::Broken(_))),
        "more captured than there is"
    );
    assert!(matches!(broken(24, 0x7f), Some(FileError::Broken(_))), "2 GB");
    for len in 4..SNOOP.len() {
        let (records, error, _) = read(&SNOOP[..len]);
        assert_eq!(error, None, "{len}: a cut file is no error");
        assert!(records.len() < 2);
    }
}

#[test]
#[cfg_attr(miri, ignore = "the packet is longer than Miri reads in half a minute")]
fn too_long_snoop_packet_is_skipped() {
    let mut file = SNOOP[..16].to_vec();
    let len = super::PACKET_LEN_MAX as u32 + 1;
    for word in [len, len, len + 24, 0, TIME_S as u32, 0] {
        file.extend_from_slice(&word.to_be_bytes());
    }
    file.resize(file.len() + len as usize, 0);
    file.extend_from_slice(&SNOOP[16..48]);
    let (records, error, reader) = read(&file);
    assert_eq!((records.len(), error), (1, None));
    assert_eq!(reader.expect("a reader").skipped().too_long, 1);
}

#[test]
fn erf_packets_are_read() {
    let (records, error, reader) = read(ERF);
    assert_eq!(error, None);
    let [(ethernet, record), (ip, last)] = &records[..] else {
        panic!("{records:?}");
    };
    assert_eq!((&ethernet[..], record.original_len), (&[7, 8, 9][..], 3));
    assert_eq!(record.time_ns, TIME_S * 1_000_000_000 + 500_000_000);
    assert_eq!(record.link_type, LinkType::ETHERNET);
    assert_eq!((&ip[..], last.original_len), (&[0x45, 0, 0, 60][..], 60));
    assert_eq!(
        (last.link_type, last.time_ns),
        (LinkType::IPV4, (TIME_S + 1) * 1_000_000_000)
    );
    assert_eq!(reader.expect("a reader").interfaces()[0].dropped, Some(2));
}

#[test]
fn unsupported_erf_record_keeps_its_header() {
    let mut file = ERF[48..].to_vec();
    file[8] = 3; // ATM
    let records = read(&file).0;
    assert_eq!((records[0].1.link_type, records[0].0.len()), (LinkType::ERF, 20));
    assert_eq!(records[0].1.original_len, 76);
}

#[test]
fn implausible_files_are_not_erf() {
    let changed = |at: usize, value: u8| {
        let mut file = ERF.to_vec();
        file[at] = value;
        read(&file).1
    };
    for (at, value) in [(8, 48), (8, 99), (9, 0x40), (11, 15), (7, 0xff), (7, 0)] {
        assert!(
            matches!(changed(at, value), Some(FileError::Unknown { .. })),
            "{at} {value}"
        );
    }
    assert!(
        changed(32 + 10, 0xff).is_none(),
        "only the first two headers are examined"
    );
    assert!(
        matches!(changed(32 + 8, 99), Some(FileError::Unknown { .. })),
        "the second record"
    );
    assert!(
        matches!(changed(16, 0x84), Some(FileError::Broken(_))),
        "an extension without end"
    );
    for len in 0..ERF.len() {
        let (records, error, _) = read(&ERF[..len]);
        assert_eq!(error, None, "{len}");
        assert!(records.len() < 2);
    }
}

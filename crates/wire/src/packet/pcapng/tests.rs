use super::*;
use crate::packet::{FileError, LinkType, Reader, Record, Step};
use alloc::vec;
use alloc::vec::Vec;

/// The packets of a file, each with its place in the file.
fn records(file: &[u8]) -> (Vec<(usize, Record)>, super::super::Reader) {
    let mut reader = Reader::new(file).unwrap().unwrap();
    let (mut at, mut records) = (0, vec![]);
    while at < file.len() {
        match reader.step(&file[at..]) {
            Ok(Step::Packet(record)) => {
                let used = record.used;
                records.push((at, record));
                at += used;
            }
            Ok(Step::Pass(used)) => at += used as usize,
            other => panic!("{at}: {other:?}"),
        }
    }
    (records, reader)
}

#[test]
fn what_is_written_is_read() {
    let mut file = vec![];
    let about = Section {
        hardware: Some("x86_64"),
        os: Some("Linux 6.18"),
        application: Some("sockeye"),
    };
    section(&mut file, &about);
    for (link_type, name) in [(LinkType::ETHERNET, "eth0"), (LinkType::LINUX_SLL2, "any")] {
        let described = Interface {
            name: Some(name),
            description: Some("of a test"),
            filter: Some("port 443"),
            os: Some("Linux"),
            ..Interface::new(link_type, 96)
        };
        interface(&mut file, &described);
    }
    let told = Packet {
        original_len: 1514,
        direction: Some(Direction::Outbound),
        dropped: Some(3),
        comment: Some("nginx(25011) \u{1f41f}"),
        ..Packet::new(1, 1_700_000_000_123_456_789, &[1, 2, 3, 4, 5])
    };
    packet(&mut file, &told);
    packet(&mut file, &Packet::new(0, 0, &[]));
    let counted = Statistics {
        interface: 1,
        received: Some(100),
        interface_dropped: Some(2),
        kernel_dropped: Some(5),
        accepted: Some(90),
        delivered: Some(85),
        begin_ns: Some(1),
        end_ns: Some(2),
        ..Statistics::default()
    };
    statistics(&mut file, &counted);
    let (records, reader) = records(&file);
    let [(at, first), (_, second)] = &records[..] else {
        panic!("{records:?}");
    };
    assert_eq!(
        (first.time_ns, first.original_len, first.interface),
        (told.time_ns, 1514, 1)
    );
    assert_eq!(
        &file[at + first.captured.start..at + first.captured.end],
        told.captured
    );
    let options = Options::new(
        &file[at + first.options.start..at + first.options.end],
        first.is_big_endian,
    );
    assert_eq!(options.comment(), told.comment);
    assert_eq!(
        (options.direction(), options.dropped()),
        (told.direction, told.dropped)
    );
    assert_eq!(
        (second.time_ns, second.link_type, second.captured.len()),
        (0, LinkType::ETHERNET, 0)
    );
    let [eth0, any] = reader.interfaces() else {
        panic!("{:?}", reader.interfaces());
    };
    assert_eq!((eth0.name.as_deref(), eth0.dropped), (Some("eth0"), None));
    assert_eq!((any.name.as_deref(), any.snaplen), (Some("any"), 96));
    assert_eq!((any.received, any.dropped), (Some(100), Some(7)));
}

#[test]
fn a_packet_of_no_interface_is_counted() {
    let mut file = vec![];
    section(&mut file, &Section::default());
    packet(&mut file, &Packet::new(0, 1, &[1]));
    interface(&mut file, &Interface::new(LinkType::RAW, 0));
    packet(&mut file, &Packet::new(0, 2, &[1]));
    packet(&mut file, &Packet::new(1, 3, &[1]));
    // Those of the section before are not those of this one, and keep their numbers.
    section(&mut file, &Section::default());
    packet(&mut file, &Packet::new(0, 4, &[1]));
    interface(&mut file, &Interface::new(LinkType::ETHERNET, 0));
    packet(&mut file, &Packet::new(0, 5, &[1]));
    let (records, reader) = records(&file);
    let told: Vec<_> = records
        .iter()
        .map(|(_, record)| (record.time_ns, record.interface))
        .collect();
    assert_eq!(told, [(2, 0), (5, 1)]);
    assert_eq!(reader.passed_over().of_unknown_interfaces, 3);
}

#[test]
fn a_packet_that_is_too_long_is_counted() {
    let mut file = vec![];
    section(&mut file, &Section::default());
    interface(&mut file, &Interface::new(LinkType::RAW, 0));
    packet(&mut file, &Packet::new(0, 1, &vec![0; 262_145]));
    packet(&mut file, &Packet::new(0, 2, &vec![0; 400_000]));
    packet(&mut file, &Packet::new(0, 3, &vec![0; 262_144]));
    let (records, reader) = records(&file);
    assert_eq!(records.len(), 1);
    assert_eq!(reader.passed_over().too_long, 2);
}

#[test]
fn lengths_that_cannot_be() {
    let mut whole = vec![];
    section(&mut whole, &Section::default());
    interface(&mut whole, &Interface::new(LinkType::RAW, 0));
    let begin = whole.len();
    packet(&mut whole, &Packet::new(0, 1, &[1, 2, 3, 4]));
    for (at, value) in [
        (4, 0_u32),
        (4, 11),
        (4, 35),
        (4, 0x7fff_fffc),
        (20, 9),
        (whole.len() - begin - 4, 40),
    ] {
        let mut file = whole.clone();
        file[begin + at..begin + at + 4].copy_from_slice(&value.to_le_bytes());
        let mut reader = Reader::new(&file).unwrap().unwrap();
        let mut place = 0;
        let error = loop {
            match reader.step(&file[place..]) {
                Ok(Step::Pass(used)) => place += used as usize,
                Err(FileError::Broken(error)) => break error,
                other => panic!("{at} {value}: {other:?}"),
            }
        };
        assert_eq!(error.offset, begin, "{at} {value}: {error}");
    }
}

#[test]
fn text_that_is_too_long_is_cut_between_characters() {
    let long = "\u{1f41f}".repeat(20_000);
    let mut file = vec![];
    section(&mut file, &Section::default());
    interface(&mut file, &Interface::new(LinkType::RAW, 0));
    let told = Packet {
        comment: Some(&long),
        ..Packet::new(0, 1, &[1])
    };
    packet(&mut file, &told);
    let (records, _) = records(&file);
    let (at, record) = &records[0];
    let options = Options::new(&file[at + record.options.start..at + record.options.end], false);
    assert_eq!(options.comment().map(str::len), Some(65_532));
}

#[test]
fn packets_of_every_length_come_back() {
    let most = if cfg!(miri) { 70_u32 } else { 700 };
    let bytes: Vec<u8> = (0..most).map(|place| (place * 7) as u8).collect();
    let mut file = vec![];
    section(&mut file, &Section::default());
    interface(&mut file, &Interface::new(LinkType::ETHERNET, 0));
    for len in 0..bytes.len() {
        let block = Packet {
            direction: (len % 3 > 0).then_some(Direction::Inbound),
            comment: (len % 5 == 0).then_some("whose"),
            ..Packet::new(0, len as u64, &bytes[..len])
        };
        packet(&mut file, &block);
    }
    let (records, _) = records(&file);
    assert_eq!(records.len(), bytes.len());
    for (len, (at, record)) in records.iter().enumerate() {
        let captured = &file[at + record.captured.start..at + record.captured.end];
        assert_eq!(captured, &bytes[..len]);
    }
}

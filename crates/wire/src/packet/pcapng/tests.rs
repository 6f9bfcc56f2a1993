use super::*;
use crate::packet::{FileError, LinkType, Reader, Record, Step};
use alloc::vec;
use alloc::vec::Vec;

/// Returns the packets of a file, each with its offset in the file.
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
            Ok(Step::Skip(used)) => at += used as usize,
            other => panic!("{at}: {other:?}"),
        }
    }
    (records, reader)
}

#[test]
fn written_file_is_read_back() {
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
    let written = Packet {
        original_len: 1514,
        direction: Some(Direction::Outbound),
        dropped: Some(3),
        comment: Some("nginx(25011) \u{1f41f}"),
        ..Packet::new(1, 1_700_000_000_123_456_789, &[1, 2, 3, 4, 5])
    };
    packet(&mut file, &written);
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
        (written.time_ns, 1514, 1)
    );
    assert_eq!(
        &file[at + first.captured.start..at + first.captured.end],
        written.captured
    );
    let options = Options::new(
        &file[at + first.options.start..at + first.options.end],
        first.is_big_endian,
    );
    assert_eq!(options.comment(), written.comment);
    assert_eq!(
        (options.direction(), options.dropped()),
        (written.direction, written.dropped)
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
fn packet_of_unknown_interface_is_counted() {
    let mut file = vec![];
    section(&mut file, &Section::default());
    packet(&mut file, &Packet::new(0, 1, &[1]));
    interface(&mut file, &Interface::new(LinkType::RAW, 0));
    packet(&mut file, &Packet::new(0, 2, &[1]));
    packet(&mut file, &Packet::new(1, 3, &[1]));
    // Interfaces of the previous section are not those of this one, and keep their indexes.
    section(&mut file, &Section::default());
    packet(&mut file, &Packet::new(0, 4, &[1]));
    interface(&mut file, &Interface::new(LinkType::ETHERNET, 0));
    packet(&mut file, &Packet::new(0, 5, &[1]));
    let (records, reader) = records(&file);
    let found: Vec<_> = records
        .iter()
        .map(|(_, record)| (record.time_ns, record.interface))
        .collect();
    assert_eq!(found, [(2, 0), (5, 1)]);
    assert_eq!(reader.skipped().of_unknown_interfaces, 3);
}

#[test]
fn too_long_packet_is_counted() {
    let mut file = vec![];
    section(&mut file, &Section::default());
    interface(&mut file, &Interface::new(LinkType::RAW, 0));
    packet(&mut file, &Packet::new(0, 1, &vec![0; 262_145]));
    packet(&mut file, &Packet::new(0, 2, &vec![0; 400_000]));
    packet(&mut file, &Packet::new(0, 3, &vec![0; 262_144]));
    let (records, reader) = records(&file);
    assert_eq!(records.len(), 1);
    assert_eq!(reader.skipped().too_long, 2);
}

#[test]
fn impossible_lengths_are_errors() {
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
                Ok(Step::Skip(used)) => place += used as usize,
                Err(FileError::Broken(error)) => break error,
                other => panic!("{at} {value}: {other:?}"),
            }
        };
        assert_eq!(error.offset, begin, "{at} {value}: {error}");
    }
}

#[test]
fn too_long_text_is_cut_between_characters() {
    let long = "\u{1f41f}".repeat(20_000);
    let mut file = vec![];
    section(&mut file, &Section::default());
    interface(&mut file, &Interface::new(LinkType::RAW, 0));
    let written = Packet {
        comment: Some(&long),
        ..Packet::new(0, 1, &[1])
    };
    packet(&mut file, &written);
    let (records, _) = records(&file);
    let (at, record) = &records[0];
    let options = Options::new(&file[at + record.options.start..at + record.options.end], false);
    assert_eq!(options.comment().map(str::len), Some(65_532));
}

#[test]
fn packets_of_every_length_are_read_back() {
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

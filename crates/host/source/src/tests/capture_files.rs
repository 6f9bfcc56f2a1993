//! Capture files of every kind of packing and damage.

use sockeye_source::capture::{Capture, Error, Packing};
use sockeye_wire::packet::pcap::{self, Resolution};
use sockeye_wire::packet::{LinkType, pcapng};
use std::io::{self, Cursor, Read, Write};
use std::process::{Command, Stdio};

const PACKETS: usize = 20_000;

/// A file of many packets, longer than any buffer.
fn long_pcap() -> Vec<u8> {
    let mut file = vec![];
    pcap::header(&mut file, LinkType::RAW, 0, Resolution::Nanoseconds);
    for at in 0..PACKETS {
        let bytes = [at as u8; 100];
        pcap::packet(
            &mut file,
            Resolution::Nanoseconds,
            at as u64 * 1_000,
            &bytes[..at % 100],
            1_500,
        );
    }
    file
}

/// As [`long_pcap`], in the other format, with statistics at the end.
fn long_pcapng() -> Vec<u8> {
    let mut file = vec![];
    pcapng::section(&mut file, &pcapng::Section::default());
    let interface = pcapng::Interface {
        name: Some("veth0"),
        ..pcapng::Interface::new(LinkType::RAW, 0)
    };
    pcapng::interface(&mut file, &interface);
    for at in 0..PACKETS {
        let bytes = [at as u8; 100];
        let packet = pcapng::Packet {
            original_len: 1_500,
            comment: (at % 1_000 == 0).then_some("a comment"),
            ..pcapng::Packet::new(0, at as u64 * 1_000, &bytes[..at % 100])
        };
        pcapng::packet(&mut file, &packet);
    }
    let statistics = pcapng::Statistics {
        kernel_dropped: Some(7),
        ..pcapng::Statistics::default()
    };
    pcapng::statistics(&mut file, &statistics);
    file
}

/// Reads to the end; how many packets, and whether the end came too early.
fn read(source: impl Read + Send + 'static) -> Result<(u64, Capture), Error> {
    let mut capture = Capture::new("a file".to_owned(), source)?;
    let mut packets = 0;
    while let Some(packet) = capture.next()? {
        assert_eq!(packet.frame, packets + 1);
        assert_eq!(packet.time_ns, packets * 1_000);
        assert_eq!(packet.captured, &[packets as u8; 100][..packets as usize % 100]);
        assert_eq!(packet.original_len, 1_500);
        packets += 1;
    }
    assert!(capture.next()?.is_none(), "the end stays the end");
    assert_eq!(capture.packets(), packets);
    Ok((packets, capture))
}

fn packed(program: &str, bytes: &[u8]) -> Vec<u8> {
    let mut child = Command::new(program)
        .arg("-c")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect(program);
    let mut stdin = child.stdin.take().expect("a pipe");
    let bytes = bytes.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&bytes));
    let output = child.wait_with_output().expect(program);
    writer.join().expect("a thread").expect("written");
    output.stdout
}

/// Hands out as few bytes as it can.
struct Drops(Cursor<Vec<u8>>);

impl Read for Drops {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let len = into.len().min(7);
        self.0.read(&mut into[..len])
    }
}

#[test]
fn both_formats_are_read_whole_and_in_small_pieces() {
    for file in [long_pcap(), long_pcapng()] {
        assert!(file.len() > 1 << 20);
        let (packets, capture) = read(Cursor::new(file.clone())).expect("readable");
        assert_eq!((packets, capture.cut()), (PACKETS as u64, None));
        assert_eq!(capture.packing(), Packing::None);
        assert_eq!(
            read(Drops(Cursor::new(file))).expect("readable").0,
            PACKETS as u64
        );
    }
    let (_, capture) = read(Cursor::new(long_pcapng())).expect("readable");
    assert_eq!(capture.interfaces()[0].name.as_deref(), Some("veth0"));
    assert_eq!(capture.interfaces()[0].dropped, Some(7));
}

#[test]
fn compressed_files_are_read_and_damage_is_an_error() {
    for (program, packing) in [("gzip", Packing::Gzip), ("zstd", Packing::Zstd)] {
        sockeye_lab::need!(sockeye_lab::program(program));
        for file in [long_pcap(), long_pcapng()] {
            let once = packed(program, &file);
            let (packets, capture) = read(Cursor::new(once.clone())).expect("readable");
            assert_eq!((packets, capture.packing()), (PACKETS as u64, packing));
            assert!(!capture.is_packing_cut() && capture.cut().is_none());
            // In two pieces, each packed by itself.
            let (front, back) = file.split_at(file.len() / 3);
            let twice = [packed(program, front), packed(program, back)].concat();
            assert_eq!(read(Cursor::new(twice)).expect("readable").0, PACKETS as u64);
            // Truncated: the packets before the cut are returned.
            let (packets, capture) =
                read(Cursor::new(once[..once.len() * 3 / 4].to_vec())).expect("readable");
            assert!(packets > 0 && packets < PACKETS as u64, "{program}: {packets}");
            assert!(capture.is_packing_cut(), "{program}");
            // Damaged in the middle: an error, after what came before.
            let mut damaged = once;
            let middle = damaged.len() / 2;
            damaged[middle..middle + 64].fill(0xa5);
            let mut capture = Capture::new("a file".to_owned(), Cursor::new(damaged)).expect("a capture");
            let error = loop {
                match capture.next() {
                    Ok(Some(_)) => {}
                    Ok(None) => panic!("{program}: damage was not seen"),
                    Err(error) => break error,
                }
            };
            assert!(error.to_string().contains("a file"), "{error}");
        }
    }
}

#[test]
fn truncated_file_reports_the_cut() {
    for file in [long_pcap(), long_pcapng()] {
        for len in (24..600).chain(file.len() - 60..file.len()) {
            let (packets, capture) = match read(Cursor::new(file[..len].to_vec())) {
                Ok(read) => read,
                Err(error) => panic!("{len}: {error}"),
            };
            assert!(packets <= PACKETS as u64);
            if let Some(cut) = capture.cut() {
                assert_eq!(cut.offset + cut.got, len, "{cut}");
                assert!(cut.needed > cut.got, "{cut}");
            }
        }
    }
}

#[test]
fn non_capture_is_an_error_with_remedy() {
    let error = |bytes: &[u8]| match Capture::new("x".to_owned(), Cursor::new(bytes.to_vec())) {
        Ok(_) => panic!("{bytes:?}"),
        Err(error) => error.to_string(),
    };
    assert_eq!(error(b""), "x is empty: no capture");
    assert_eq!(error(b"ab"), "x has only 2 bytes: no capture");
    assert!(error(b"<?xml version").contains("neither pcap, pcapng, snoop nor ERF"));
    assert!(error(b"\xfd7zXZ\0").contains("xz -dc FILE"));
    assert!(error(&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0]).contains("no capture"));
    let mut old = long_pcap();
    old[4] = 9;
    let error = read(Cursor::new(old))
        .map(|_| ())
        .expect_err("version 9")
        .to_string();
    assert!(error.contains("version 9.4"), "{error}");
    let missing = Capture::open("/no/such/file".as_ref())
        .map(|_| ())
        .expect_err("no file")
        .to_string();
    assert!(missing.starts_with("cannot open /no/such/file: "), "{missing}");
    let folder = Capture::open("/".as_ref())
        .map(|_| ())
        .expect_err("a folder")
        .to_string();
    assert!(folder.starts_with("cannot read /: "), "{folder}");
}

#[test]
fn packet_over_the_limit_is_skipped_and_counted() {
    let mut file = vec![];
    pcap::header(&mut file, LinkType::RAW, 0, Resolution::Microseconds);
    pcap::packet(&mut file, Resolution::Microseconds, 0, &[], 1_500);
    pcap::packet(&mut file, Resolution::Microseconds, 0, &vec![0; 3 << 20], 3 << 20);
    pcap::packet(&mut file, Resolution::Microseconds, 1_000, &[1], 1_500);
    let (packets, capture) = read(Cursor::new(file.clone())).expect("readable");
    assert_eq!((packets, capture.skipped().too_long, capture.cut()), (2, 1, None));
    // It ends within the skipped packet.
    file.truncate(1 << 20);
    let (packets, capture) = read(Cursor::new(file)).expect("readable");
    assert_eq!(packets, 1);
    let cut = capture.cut().expect("it ends early");
    assert_eq!((cut.offset, cut.got), (40, (1 << 20) - 40));
}

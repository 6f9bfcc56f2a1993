//! Body of the fuzz target `compressed_files`, and of the test that replays its corpus: gzip and zstd. It is a module of
//! `sockeye_source::capture`.

use super::packing::{Packing, decompress};
use std::io::{Cursor, ErrorKind, Read};

/// A file that is unpacked in pieces of several lengths; and the bytes as the content of one.
pub fn compressed_files(bytes: &[u8]) {
    let packing = Packing::of(bytes);
    let whole = unpack(packing, bytes, 64 << 10);
    let (in_pieces, error) = unpack(packing, bytes, 1000);
    assert_eq!(error, whole.1);
    if packing == Packing::Gzip && error.is_some() {
        // Of damaged data, the decoder loses what it had unpacked in its last step.
        assert!(in_pieces.starts_with(&whole.0));
    } else {
        assert_eq!(in_pieces, whole.0, "pieces make no difference");
    }
    match packing {
        Packing::None => assert_eq!(whole, (bytes.to_vec(), None)),
        // No format makes more of it: deflate has at least two bits for 258 bytes, a block of zstd four bytes for 128 KiB.
        Packing::Gzip => assert!(whole.0.len() <= bytes.len() * 1032),
        Packing::Zstd => assert!(whole.0.len() <= bytes.len() * (32 << 10)),
    }
    assert!(whole.0.len() <= OUTPUT_MAX + (64 << 10));
    // A file that ends early has the beginning of the same data.
    if packing != Packing::None && whole.1.is_none() && whole.0.len() < OUTPUT_MAX {
        let half = &bytes[..bytes.len() / 2];
        if Packing::of(half) == packing {
            let (part, _) = unpack(packing, half, 64 << 10);
            assert!(whole.0.starts_with(&part));
        }
    }
    for stored in [gzip(bytes), zstd(bytes)] {
        let packing = Packing::of(&stored);
        assert_ne!(packing, Packing::None);
        assert_eq!(unpack(packing, &stored, 777), (bytes.to_vec(), None));
        // Two members or frames follow each other.
        let twice = [&stored[..], &stored].concat();
        assert_eq!(unpack(packing, &twice, 64 << 10).0, [bytes, bytes].concat());
        // One that is cut is an early end, not something else.
        let (part, error) = unpack(packing, &stored[..stored.len() - 1], 64 << 10);
        assert!(bytes.starts_with(&part));
        assert_eq!(error, Some(ErrorKind::UnexpectedEof));
    }
}

/// Unpacks up to a limit. The error is that after the data.
fn unpack(packing: Packing, bytes: &[u8], piece: usize) -> (Vec<u8>, Option<ErrorKind>) {
    let mut source = decompress(packing, Cursor::new(bytes.to_vec()));
    let (mut out, mut buffer) = (Vec::new(), vec![0; piece]);
    while out.len() < OUTPUT_MAX {
        match source.read(&mut buffer) {
            Ok(0) => return (out, None),
            Ok(len) => out.extend_from_slice(&buffer[..len]),
            Err(error) => return (out, Some(error.kind())),
        }
    }
    out.truncate(OUTPUT_MAX);
    (out, None)
}

/// Stores bytes without compression: header, blocks, checksum and length (RFC 1951, 1952).
fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut file = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    let mut blocks = bytes.chunks(usize::from(u16::MAX)).peekable();
    if blocks.peek().is_none() {
        file.extend([1, 0, 0, 0xff, 0xff]);
    }
    while let Some(block) = blocks.next() {
        file.push(u8::from(blocks.peek().is_none()));
        let len = block.len() as u16;
        file.extend(len.to_le_bytes());
        file.extend((!len).to_le_bytes());
        file.extend_from_slice(block);
    }
    let mut checksum = flate2::Crc::new();
    checksum.update(bytes);
    file.extend(checksum.sum().to_le_bytes());
    file.extend((bytes.len() as u32).to_le_bytes());
    file
}

/// Stores bytes without compression: a frame with a window of 1 KiB, of unknown length, and raw blocks (RFC 8878).
fn zstd(bytes: &[u8]) -> Vec<u8> {
    let mut file = vec![0x28, 0xb5, 0x2f, 0xfd, 0, 0];
    let mut blocks = bytes.chunks(1024).peekable();
    if blocks.peek().is_none() {
        file.extend([1, 0, 0]);
    }
    while let Some(block) = blocks.next() {
        let head = (block.len() as u32) << 3 | u32::from(blocks.peek().is_none());
        file.extend_from_slice(&head.to_le_bytes()[..3]);
        file.extend_from_slice(block);
    }
    file
}

/// Data that is read of one input.
const OUTPUT_MAX: usize = 1 << 20;

#[test]
fn corpus_is_unpacked_without_panics() {
    crate::replay::replay(env!("CARGO_MANIFEST_DIR"), "compressed_files", compressed_files);
}

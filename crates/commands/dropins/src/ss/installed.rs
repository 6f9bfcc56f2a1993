//! The level of the `ss` that is installed: by default its output is reproduced.
//!
//! Its version is a text of its own among the program's constants, as is the format `iproute2-%s`. Only the segment with the
//! constants is read, some 40 KiB: running `ss -V` would take as long as a listing.

use crate::output::SsLevel;
use std::fs::{File, Metadata};
use std::os::unix::fs::FileExt;

/// Returns the level of the first of the usual places that has an `ss` of iproute2; the newest if none has.
pub(super) fn level() -> SsLevel {
    let found = PLACES.iter().find_map(|place| installed_version(place));
    found.map_or_else(SsLevel::default, |(major, minor)| {
        SsLevel::of_version(major, minor)
    })
}

fn installed_version(path: &str) -> Option<(u32, u32)> {
    let file = File::open(path).ok()?;
    let metadata = file.metadata().ok().filter(Metadata::is_file)?;
    // Sockeye itself, under this name, is larger.
    if metadata.len() > PROGRAM_MAX {
        return None;
    }
    let mut head = [0; HEAD_BYTES];
    let len = file.read_at(&mut head, 0).ok()?;
    constants(&head[..len]).into_iter().find_map(|segment| {
        let mut bytes = vec![0; segment.len.min(PROGRAM_MAX) as usize];
        file.read_exact_at(&mut bytes, segment.offset).ok()?;
        version(&bytes)
    })
}

/// A part of a program's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Segment {
    offset: u64,
    len: u64,
}

/// Returns where a program that begins with `head` has constants, the likeliest place first: the last segment that is only
/// readable, and those before it; then code, with which old linkers put constants. Empty unless it is an ELF file of 64 bits.
fn constants(head: &[u8]) -> Vec<Segment> {
    // `Elf64_Ehdr`: e_phoff at 32, e_phentsize at 54, e_phnum at 56; of this machine's byte order.
    let number = |at: usize| Some(u64::from_ne_bytes(*head.get(at..)?.first_chunk()?));
    let short = |at: usize| Some(u16::from_ne_bytes(*head.get(at..)?.first_chunk()?));
    let word = |at: usize| Some(u32::from_ne_bytes(*head.get(at..)?.first_chunk()?));
    if !head.starts_with(ELF_64) {
        return Vec::new();
    }
    let (Some(start), Some(size), Some(count)) = (number(32), short(54), short(56)) else {
        return Vec::new();
    };
    // `Elf64_Phdr`: p_type at 0, p_flags at 4, p_offset at 8, p_filesz at 32.
    let segments = (0..usize::from(count)).map_while(|nth| {
        let at = usize::try_from(start)
            .ok()?
            .checked_add(nth * usize::from(size))?;
        let (kind, flags) = (word(at)?, word(at.checked_add(4)?)?);
        let segment = Segment {
            offset: number(at.checked_add(8)?)?,
            len: number(at.checked_add(32)?)?,
        };
        Some((kind, flags, segment))
    });
    let mut found: Vec<(u32, Segment)> = segments
        .filter(|&(kind, flags, _)| kind == PT_LOAD && flags & PF_W == 0)
        .map(|(_, flags, segment)| (flags & PF_X, segment))
        .collect();
    found.reverse();
    found.sort_by_key(|&(is_code, _)| is_code);
    found.into_iter().map(|(_, segment)| segment).collect()
}

/// Finds the version among the constants of an `ss`: the only text of the form `6.1.0`.
fn version(constants: &[u8]) -> Option<(u32, u32)> {
    let (mut found, mut has_format) = (None, false);
    let mut texts = constants.split(|&byte| byte == 0);
    // What follows the last NUL is no text.
    texts.next_back();
    for text in texts {
        if text.first().is_some_and(u8::is_ascii_digit) && found.is_none() {
            found = numbers(text);
        }
        has_format |= text.ends_with(FORMAT);
        if has_format && found.is_some() {
            break;
        }
    }
    found.filter(|_| has_format)
}

/// Parses `6.1.0`.
fn numbers(text: &[u8]) -> Option<(u32, u32)> {
    let mut parts = std::str::from_utf8(text).ok()?.split('.');
    let mut number = || {
        let part = parts.next()?;
        let is_number = part.bytes().all(|byte| byte.is_ascii_digit());
        part.parse::<u32>().ok().filter(|_| is_number)
    };
    let (major, minor, _) = (number()?, number()?, number()?);
    parts.next().is_none().then_some((major, minor))
}

/// Where distributions install it; `.distrib` is what `dpkg-divert` renames it to where Sockeye has its place.
const PLACES: [&str; 6] = [
    "/usr/bin/ss",
    "/bin/ss",
    "/usr/sbin/ss",
    "/sbin/ss",
    "/usr/bin/ss.distrib",
    "/bin/ss.distrib",
];
/// Most bytes of a program that are read: `ss` has 0.2 MiB, statically linked about 1.
const PROGRAM_MAX: u64 = 2 * 1024 * 1024;
/// `e_ident` of a file of class `ELFCLASS64`.
const ELF_64: &[u8] = b"\x7fELF\x02";
/// Bytes at the beginning that hold the ELF header and the program headers.
const HEAD_BYTES: usize = 2048;
const PT_LOAD: u32 = 1;
const PF_X: u32 = 1;
const PF_W: u32 = 2;
/// The format of `ss -V`.
const FORMAT: &[u8] = b"iproute2-%s\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_a_text_of_its_own() {
        let check = |constants: &[u8], expected| {
            assert_eq!(version(constants), expected, "{}", constants.escape_ascii());
        };
        check(b"ss utility, iproute2-%s\n\0x\x006.15.0\0", Some((6, 15)));
        check(
            b"iproute2-%s\n\0\0 0.0.0.0.%d.%d\0ss-1.2.3\x007.3.0\0",
            Some((7, 3)),
        );
        check(b"iproute2-%s\n\0\x007.3.0", None);
        check(b"iproute2-%s\n\0\x007.3\0", None);
        check(b"iproute2-%s\n\0\x00127.0.0.1\0", None);
        check(b"\x006.15.0\0", None);
        check(b"", None);
    }

    #[test]
    fn constants_are_in_segments_that_are_not_writable() {
        let mut head = vec![0; 64];
        head[..5].copy_from_slice(ELF_64);
        head[32] = 64;
        head[54] = 56;
        head[56] = 5;
        for (kind, flags, offset, len) in [
            (1_u32, 4_u32, 0_u64, 0x1000_u64),
            (1, 5, 0x1000, 0x2000),
            (1, 4, 0x3000, 0x500),
            (1, 6, 0x4000, 0x600),
            (2, 4, 0x5000, 0x700),
        ] {
            head.extend(kind.to_ne_bytes());
            head.extend(flags.to_ne_bytes());
            head.extend(offset.to_ne_bytes());
            head.extend([0; 16]);
            head.extend(len.to_ne_bytes());
            head.extend([0; 16]);
        }
        let segment = |offset, len| Segment { offset, len };
        assert_eq!(
            constants(&head),
            [
                segment(0x3000, 0x500),
                segment(0, 0x1000),
                segment(0x1000, 0x2000)
            ]
        );
        // Cut, or with absurd numbers, it has fewer, and no file is read beyond its end.
        for len in 0..head.len() {
            assert!(constants(&head[..len]).len() <= 3);
        }
        head[32..40].fill(0xff);
        assert_eq!(constants(&head), []);
        assert_eq!(constants(b"#!/bin/sh\n"), []);
    }
}

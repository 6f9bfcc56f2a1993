//! Memory mappings: the lines of `/proc/PID/maps`.
//!
//! Source: `show_map_vma` of `fs/proc/task_mmu.c`, proc_pid_maps(5).
//!
//! ```
//! use sockeye_wire::proc_maps::executable;
//!
//! let file = b"55d0c6a00000-55d0c6a02000 r--p 00000000 fe:01 1310 /usr/bin/cat\n\
//!              55d0c6a02000-55d0c6a07000 r-xp 00002000 fe:01 1310                       /usr/bin/cat\n";
//! let code: Vec<_> = executable(file).collect();
//! assert_eq!(code.len(), 1);
//! assert_eq!((code[0].start, code[0].offset, code[0].device), (0x55d0c6a02000, 0x2000, (0xfe, 1)));
//! assert_eq!(code[0].path(), b"/usr/bin/cat");
//! ```

use alloc::vec::Vec;

/// A mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    /// Start address
    pub start: u64,
    /// End address, exclusive
    pub end: u64,
    /// Offset in the file
    pub offset: u64,
    /// Device of the file: major, minor
    pub device: (u32, u32),
    /// Inode of the file; 0 without a file
    pub inode: u64,
    path: &'a [u8],
}

/// Iterates over the executable mappings, in order of address; invalid lines are skipped.
pub fn executable(maps: &[u8]) -> impl Iterator<Item = Line<'_>> {
    maps.split(|&byte| byte == b'\n')
        .filter_map(Line::parse_executable)
}

impl<'a> Line<'a> {
    fn parse_executable(line: &'a [u8]) -> Option<Self> {
        let (range, rest) = word(line)?;
        let (rights, rest) = word(rest)?;
        if rights.get(2) != Some(&b'x') {
            return None;
        }
        let (offset, rest) = word(rest)?;
        let (device, rest) = word(rest)?;
        let (inode, rest) = word(rest)?;
        let (start, end) = halves(range, b'-')?;
        let (major, minor) = halves(device, b':')?;
        let blanks = rest.iter().take_while(|&&byte| byte == b' ').count();
        Some(Self {
            start,
            end: Some(end).filter(|&end| end > start)?,
            offset: number(offset, 16)?,
            device: (u32::try_from(major).ok()?, u32::try_from(minor).ok()?),
            inode: number(inode, 10)?,
            path: &rest[blanks..],
        })
    }

    /// Returns the path as the process sees it; `[vdso]` and similar; empty for anonymous memory.
    #[must_use]
    pub fn path(&self) -> Vec<u8> {
        // The kernel escapes only newlines.
        let mut path = Vec::with_capacity(self.path.len());
        let mut rest = self.path;
        while let Some((&first, after)) = rest.split_first() {
            let (byte, after) = match rest.strip_prefix(b"\\012") {
                Some(after) => (b'\n', after),
                None => (first, after),
            };
            path.push(byte);
            rest = after;
        }
        path
    }
}

fn word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = text.iter().position(|&byte| byte == b' ').unwrap_or(text.len());
    let word = text.get(..end).filter(|word| !word.is_empty())?;
    Some((word, text.get(end + 1..).unwrap_or_default()))
}

fn halves(text: &[u8], between: u8) -> Option<(u64, u64)> {
    let at = text.iter().position(|&byte| byte == between)?;
    Some((number(&text[..at], 16)?, number(text.get(at + 1..)?, 16)?))
}

fn number(digits: &[u8], radix: u32) -> Option<u64> {
    let digits = core::str::from_utf8(digits).ok()?;
    if digits.starts_with('+') {
        return None;
    }
    u64::from_str_radix(digits, radix).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn files_vdso_and_anonymous_memory_are_listed() {
        let file = b"00400000-00401000 r-xp 00000000 00:2f 9 /tmp/a\\012b c (deleted)\n\
            7f0000000000-7f0000001000 rwxp 00000000 00:00 0 \n\
            7f0000002000-7f0000003000 rw-p 00000000 00:00 0\n\
            7ffc00000000-7ffc00002000 r-xp 00000000 00:00 0                          [vdso]\n\
            ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]\n";
        let all: Vec<_> = executable(file)
            .map(|line| (line.start, line.inode, line.path()))
            .collect();
        assert_eq!(
            all,
            [
                (0x40_0000, 9, b"/tmp/a\nb c (deleted)".to_vec()),
                (0x7f00_0000_0000, 0, vec![]),
                (0x7ffc_0000_0000, 0, b"[vdso]".to_vec()),
                (0xffff_ffff_ff60_0000, 0, b"[vsyscall]".to_vec()),
            ]
        );
    }

    #[test]
    fn invalid_line_is_skipped() {
        for line in [
            "",
            " ",
            "00400000",
            "00400000-",
            "00400000-00401000",
            "00400000-00401000 r-xp",
            "00400000-00401000 r-xp 0",
            "00400000-00401000 r-xp 0 00:00",
            "00401000-00400000 r-xp 0 00:00 0",
            "g-h r-xp 0 00:00 0",
            "00400000-+0401000 r-xp 0 00:00 0",
            "00400000-00401000 r-xp 0 100000000:00 0",
            "00400000-10000000000000000 r-xp 0 00:00 0",
        ] {
            assert_eq!(executable(line.as_bytes()).count(), 0, "{line}");
        }
        assert_eq!(executable(b"00400000-00401000 r-xp 0 00:00 0").count(), 1);
    }
}

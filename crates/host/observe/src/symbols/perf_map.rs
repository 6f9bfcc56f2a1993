//! Perf maps: JIT compilers write the names of their functions to `/tmp/perf-PID.map`, with the pid in the innermost pid
//! namespace of the process.

use super::bytes::Bytes;
use super::open::{Root, open_regular};
use rustix::fs::{Mode, OFlags, openat};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The perf map of a process.
#[derive(Debug)]
pub(super) struct PerfMap {
    /// `/tmp` of the process; `None` if it could not be opened.
    folder: Option<OwnedFd>,
    /// The pid in its own pid namespace.
    pid: u32,
    uid: u32,
    contents: Contents,
}

/// The parsed file.
#[derive(Debug, Default)]
pub(super) struct Contents {
    /// Length of the file when it was read, in bytes.
    len: u64,
    exists: bool,
    /// Start, end, and offset of the name in `text`; sorted by start, then in the order of the file.
    ranges: Vec<(u64, u64, u32)>,
    text: Vec<u8>,
}

impl PerfMap {
    /// Prepares to read the map of a running process.
    pub(super) fn new(pid: u32, root: &Root) -> Self {
        let folder = Path::new("/proc").join(pid.to_string());
        let status = File::open(folder.join("status"))
            .map(|file| Bytes::File(file).read_some(0, MAX_STATUS))
            .unwrap_or_default();
        Self {
            folder: root.folder(Path::new("/tmp")),
            pid: innermost_pid(&status).unwrap_or(pid),
            uid: std::fs::metadata(folder).map_or(u32::MAX, |meta| meta.uid()),
            contents: Contents::default(),
        }
    }

    /// Returns whether the file exists and was read.
    pub(super) const fn exists(&self) -> bool {
        self.contents.exists
    }

    /// Returns the function at an address.
    pub(super) fn name(&mut self, address: u64) -> Option<String> {
        if let Some(name) = self.contents.name(address) {
            return Some(name);
        }
        // The file may have grown.
        self.read_again();
        self.contents.name(address)
    }

    fn read_again(&mut self) {
        let Some(file) = self.open() else {
            return;
        };
        let Ok(meta) = file.metadata() else {
            return;
        };
        // Like perf: only files of the process's user or root, so that other users cannot inject names.
        if meta.uid() != self.uid && meta.uid() != 0 {
            return;
        }
        if self.contents.exists && meta.len() == self.contents.len {
            return;
        }
        let text =
            Bytes::File(file).read_some(0, usize::try_from(meta.len()).unwrap_or(MAX_MAP).min(MAX_MAP));
        self.contents = Contents::read(text, meta.len());
    }

    fn open(&self) -> Option<File> {
        let folder = self.folder.as_ref()?;
        // Other users can write to /tmp: do not follow links.
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let located = openat(folder, format!("perf-{}.map", self.pid), flags, Mode::empty()).ok()?;
        open_regular(located).ok()
    }
}

impl Contents {
    /// Parses the text of a map.
    pub(super) fn read(text: Vec<u8>, len: u64) -> Self {
        let mut ranges = Vec::new();
        let mut at = 0;
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            let begin = at;
            at += line.len();
            if ranges.len() == MAX_RANGES {
                break;
            }
            // `START SIZE NAME`; the name may contain spaces.
            let mut words = line.splitn(3, |byte| *byte == b' ');
            let (Some(start), Some(size), Some(name)) = (
                words.next().and_then(hexadecimal),
                words.next().and_then(hexadecimal),
                words.next(),
            ) else {
                continue;
            };
            let offset = u32::try_from(begin + line.len() - name.len()).unwrap_or(u32::MAX);
            ranges.push((start, start.saturating_add(size), offset));
        }
        ranges.sort_by_key(|(start, ..)| *start);
        Self {
            len,
            exists: true,
            ranges,
            text,
        }
    }

    pub(super) fn name(&self, address: u64) -> Option<String> {
        let behind = self.ranges.partition_point(|(start, ..)| *start <= address);
        let (.., offset) = self.ranges[..behind]
            .iter()
            .rev()
            .take(MAX_STEPS)
            .find(|(_, end, _)| address < *end)?;
        let rest = self.text.get(*offset as usize..)?;
        let name = rest[..rest.len().min(MAX_NAME)]
            .split(|byte| *byte == b'\n')
            .next()?;
        (!name.is_empty()).then(|| String::from_utf8_lossy(name).into_owned())
    }
}

fn hexadecimal(word: &[u8]) -> Option<u64> {
    let word = word.strip_prefix(b"0x").unwrap_or(word);
    u64::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok()
}

/// Returns the last pid of the line `NSpid:`, since Linux 4.1.
pub(super) fn innermost_pid(status: &[u8]) -> Option<u32> {
    let line = status
        .split(|byte| *byte == b'\n')
        .find_map(|line| line.strip_prefix(b"NSpid:"))?;
    let last = line
        .rsplit(u8::is_ascii_whitespace)
        .find(|word| !word.is_empty())?;
    std::str::from_utf8(last).ok()?.parse().ok()
}

const MAX_STATUS: usize = 64 << 10;
const MAX_MAP: usize = 256 << 20;
const MAX_RANGES: usize = 2_000_000;
const MAX_STEPS: usize = 64;
const MAX_NAME: usize = 4_096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_ranges_take_precedence() {
        let text =
            b"1000 10 old\n0x2000 20 LazyCompile:~f /a b.js:1\nnonsense\n1000 10 new\n1004 2 inner\n3000"
                .to_vec();
        let contents = Contents::read(text, 0);
        let name = |address| contents.name(address);
        assert_eq!(name(0x1000).as_deref(), Some("new"));
        assert_eq!(name(0x1005).as_deref(), Some("inner"));
        assert_eq!(name(0x100f).as_deref(), Some("new"));
        assert_eq!(name(0x1010), None);
        assert_eq!(name(0x201f).as_deref(), Some("LazyCompile:~f /a b.js:1"));
        assert_eq!(name(0xfff), None);
        assert_eq!(name(u64::MAX), None);
    }

    #[test]
    fn innermost_pid_is_last_of_nspid() {
        assert_eq!(
            innermost_pid(b"Name:\tx\nNSpid:\t4711\t12\t1\nNSpgid:\t9\n"),
            Some(1)
        );
        assert_eq!(innermost_pid(b"Name:\tx\nNSpid:\t4711\n"), Some(4711));
        assert_eq!(innermost_pid(b"Name:\tx\n"), None);
    }
}

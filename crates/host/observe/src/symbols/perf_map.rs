//! Code that a process made at run time: compilers write down what they made in `/tmp/perf-PID.map`, by the number that the
//! process has in its own namespace.

use super::bytes::Bytes;
use super::opened::{Root, regular};
use rustix::fs::{Mode, OFlags, openat};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The memory without a file of one process.
#[derive(Debug)]
pub(super) struct Made {
    /// Its `/tmp`.
    folder: Option<OwnedFd>,
    /// Its number there.
    pid: u32,
    uid: u32,
    known: Known,
}

/// What the file said when it was so long.
#[derive(Debug, Default)]
struct Known {
    len: u64,
    is_there: bool,
    /// Start, end, and the place of the name; sorted, the later written behind at the same start.
    pieces: Vec<(u64, u64, u32)>,
    text: Vec<u8>,
}

impl Made {
    /// Of a process that lives.
    pub(super) fn of(pid: u32, root: &Root) -> Self {
        let folder = Path::new("/proc").join(pid.to_string());
        let status = File::open(folder.join("status"))
            .map(|file| Bytes::File(file).read_some(0, MAX_STATUS))
            .unwrap_or_default();
        Self {
            folder: root.folder(Path::new("/tmp")),
            pid: innermost_pid(&status).unwrap_or(pid),
            uid: std::fs::metadata(folder).map_or(u32::MAX, |meta| meta.uid()),
            known: Known::default(),
        }
    }

    /// Whether the process says what it made.
    pub(super) const fn is_told(&self) -> bool {
        self.known.is_there
    }

    /// The function at an address.
    pub(super) fn name(&mut self, address: u64) -> Option<String> {
        if let Some(name) = self.known.name(address) {
            return Some(name);
        }
        // It may have grown since.
        self.read_again();
        self.known.name(address)
    }

    fn read_again(&mut self) {
        let Some(file) = self.open() else {
            return;
        };
        let Ok(meta) = file.metadata() else {
            return;
        };
        // As perf does: nobody may put words into another's mouth.
        if meta.uid() != self.uid && meta.uid() != 0 {
            return;
        }
        if self.known.is_there && meta.len() == self.known.len {
            return;
        }
        let text =
            Bytes::File(file).read_some(0, usize::try_from(meta.len()).unwrap_or(MAX_MAP).min(MAX_MAP));
        self.known = Known::read(text, meta.len());
    }

    fn open(&self) -> Option<File> {
        let folder = self.folder.as_ref()?;
        // /tmp is everybody's: no links there.
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let located = openat(folder, format!("perf-{}.map", self.pid), flags, Mode::empty()).ok()?;
        regular(located).ok()
    }
}

impl Known {
    fn read(text: Vec<u8>, len: u64) -> Self {
        let mut pieces = Vec::new();
        let mut at = 0;
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            let begin = at;
            at += line.len();
            if pieces.len() == MAX_PIECES {
                break;
            }
            // `START SIZE NAME`, the name to the end of the line.
            let mut words = line.splitn(3, |byte| *byte == b' ');
            let (Some(start), Some(size), Some(name)) = (
                words.next().and_then(hexadecimal),
                words.next().and_then(hexadecimal),
                words.next(),
            ) else {
                continue;
            };
            let place = u32::try_from(begin + line.len() - name.len()).unwrap_or(u32::MAX);
            pieces.push((start, start.saturating_add(size), place));
        }
        pieces.sort_by_key(|(start, ..)| *start);
        Self {
            len,
            is_there: true,
            pieces,
            text,
        }
    }

    fn name(&self, address: u64) -> Option<String> {
        let behind = self.pieces.partition_point(|(start, ..)| *start <= address);
        let (.., place) = self.pieces[..behind]
            .iter()
            .rev()
            .take(MAX_STEPS)
            .find(|(_, end, _)| address < *end)?;
        let rest = self.text.get(*place as usize..)?;
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

/// The last of `NSpid:`, since Linux 4.1.
fn innermost_pid(status: &[u8]) -> Option<u32> {
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
const MAX_PIECES: usize = 2_000_000;
const MAX_STEPS: usize = 64;
const MAX_NAME: usize = 4_096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_written_counts() {
        let text =
            b"1000 10 old\n0x2000 20 LazyCompile:~f /a b.js:1\nnonsense\n1000 10 new\n1004 2 inner\n3000"
                .to_vec();
        let known = Known::read(text, 0);
        let name = |address| known.name(address);
        assert_eq!(name(0x1000).as_deref(), Some("new"));
        assert_eq!(name(0x1005).as_deref(), Some("inner"));
        assert_eq!(name(0x100f).as_deref(), Some("new"));
        assert_eq!(name(0x1010), None);
        assert_eq!(name(0x201f).as_deref(), Some("LazyCompile:~f /a b.js:1"));
        assert_eq!(name(0xfff), None);
        assert_eq!(name(u64::MAX), None);
    }

    #[test]
    fn its_number_in_the_innermost_namespace() {
        assert_eq!(
            innermost_pid(b"Name:\tx\nNSpid:\t4711\t12\t1\nNSpgid:\t9\n"),
            Some(1)
        );
        assert_eq!(innermost_pid(b"Name:\tx\nNSpid:\t4711\n"), Some(4711));
        assert_eq!(innermost_pid(b"Name:\tx\n"), None);
    }
}

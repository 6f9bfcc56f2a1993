//! Open descriptors of all processes and their limits (`RLIMIT_NOFILE`), from `/proc/PID/fd` and
//! `/proc/PID/limits`. `check` judges with it how close a process is to its limit, and by what.

use super::number_set::NumberSet;
use crate::proc_folder::{Decimal, number, open_folder, open_proc, open_to_list, processes, read};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, Mode, OFlags, openat, readlinkat, statat};
use rustix::io::Errno;
use sockeye_model::{Comm, DescriptorKinds, Fd, Fill, Inode, NetnsInode, OpenFiles, Pgid, Pid, Process};
use sockeye_wire::proc_pid::{Stat, open_files_max};

/// The processes that use much of their limit of open files.
#[derive(Debug, Clone, Default)]
pub struct OpenFilesScan {
    /// Processes at or above the share, each with its network namespace if we may know it.
    pub files: Vec<(OpenFiles, Option<NetnsInode>)>,
    /// Processes whose number of descriptors or limit could not be read.
    pub unreadable: u64,
}

/// Finds the processes with at least `share_permille` thousandths of their limit of open files, and what their
/// descriptors are. Processes that have ended or have no limit are left out.
#[must_use]
pub fn open_files(share_permille: u64) -> OpenFilesScan {
    let crowded = crowded_processes(share_permille);
    let mut listed = ListedSockets::default();
    let files = crowded.processes.iter().map(|one| {
        let kinds = kinds(one.folder.as_fd()).map(|(mut kinds, sockets)| {
            kinds.unlisted_sockets =
                listed.unlisted(one.folder.as_fd(), one.netns, &sockets, &mut Vec::new());
            kinds
        });
        (one.with(kinds), one.netns)
    });
    OpenFilesScan {
        files: files.collect(),
        unreadable: crowded.unreadable,
    }
}

/// The processes that use much of their limit of open files, whose descriptors are not looked at yet.
#[derive(Debug, Default)]
pub struct CrowdedScan {
    /// Processes at or above the share.
    pub processes: Vec<CrowdedProcess>,
    /// Processes whose number of descriptors or limit could not be read.
    pub unreadable: u64,
}

/// A process that uses much of its limit of open files.
#[derive(Debug)]
pub struct CrowdedProcess {
    folder: OwnedFd,
    process: Process,
    fill: Fill,
    hard_max: Option<u64>,
    /// Its network namespace, if we may know it.
    pub netns: Option<NetnsInode>,
}

/// What is known of the sockets of a process from a pass over descriptors and a walk over the tables of TCP and UDP.
#[derive(Debug, Clone, Default)]
pub struct KnownSockets {
    descriptors: NumberSet,
    /// Inodes of those that were in none of these tables.
    unlisted: NumberSet,
}

impl KnownSockets {
    /// Adds a descriptor.
    pub fn add(&mut self, descriptor: Fd, socket: Inode) {
        self.descriptors.insert(descriptor.0);
        self.unlisted.insert(socket.0);
    }

    /// Notes that a table has a socket.
    pub fn set_listed(&mut self, socket: Inode) {
        self.unlisted.remove(socket.0);
    }
}

/// Finds the processes with at least `share_permille` thousandths of their limit of open files.
#[must_use]
pub fn crowded_processes(share_permille: u64) -> CrowdedScan {
    let mut scan = CrowdedScan::default();
    let Ok(proc) = open_proc() else {
        scan.unreadable = 1;
        return scan;
    };
    let mut buffer = Vec::new();
    let sizes_are_counts = statat(&proc, c"self/fd", AtFlags::empty()).is_ok_and(|stat| stat.st_size > 0);
    for pid in processes(proc.as_fd()).unwrap_or_default() {
        let used = match used(proc.as_fd(), pid, sizes_are_counts) {
            Ok(used) => used,
            Err(Errno::NOENT | Errno::SRCH) => continue,
            Err(_) => {
                scan.unreadable += 1;
                continue;
            }
        };
        // Few processes have a limit that is so low.
        if used < USED_MIN {
            continue;
        }
        let Ok(folder) = open_folder(proc.as_fd(), Decimal::new(pid.0).as_c_str()) else {
            continue;
        };
        let (max, hard_max) = match read(folder.as_fd(), c"limits", &mut buffer) {
            Ok(limits) => match open_files_max(limits) {
                Some(limits) => limits,
                None => continue,
            },
            Err(Errno::NOENT | Errno::SRCH) => continue,
            Err(_) => {
                scan.unreadable += 1;
                continue;
            }
        };
        if used.saturating_mul(1000) < max.saturating_mul(share_permille) {
            continue;
        }
        let Some(process) = process(folder.as_fd(), &mut buffer) else {
            continue;
        };
        scan.processes.push(CrowdedProcess {
            netns: netns(folder.as_fd()),
            folder,
            process,
            fill: Fill { used, max },
            hard_max,
        });
    }
    scan
}

impl CrowdedProcess {
    /// Returns its number.
    #[must_use]
    pub const fn pid(&self) -> Pid {
        self.process.pid
    }

    /// Returns what its descriptors are. `known`: what is known of its sockets; of `None` all its descriptors are read, and the
    /// tables of its namespace.
    #[must_use]
    pub fn files(&self, known: Option<&KnownSockets>) -> OpenFiles {
        let folder = self.folder.as_fd();
        let Some(known) = known else {
            let kinds = kinds(folder).map(|(mut kinds, sockets)| {
                let mut listed = ListedSockets::default();
                kinds.unlisted_sockets = listed.unlisted(folder, self.netns, &sockets, &mut Vec::new());
                kinds
            });
            return self.with(kinds);
        };
        let sockets = known.descriptors.len();
        let others = self.fill.used.saturating_sub(sockets);
        let kinds = other_kinds(folder, &known.descriptors, others).map(|kinds| DescriptorKinds {
            sockets,
            unlisted_sockets: in_small_tables(folder, &known.unlisted),
            ..kinds
        });
        self.with(kinds)
    }

    const fn with(&self, kinds: Option<DescriptorKinds>) -> OpenFiles {
        OpenFiles {
            process: self.process,
            fill: self.fill,
            hard_max: self.hard_max,
            kinds,
        }
    }
}

/// Counts the descriptors of a process. Since Linux 6.2 the size of the folder is their number (`fs/proc/fd.c`,
/// `proc_fd_getattr()`); before, it was 0, and they have to be listed.
fn used(proc: BorrowedFd<'_>, pid: Pid, sizes_are_counts: bool) -> Result<u64, Errno> {
    let path = Decimal::with_suffix(pid.0, "/fd");
    if sizes_are_counts {
        let size = statat(proc, path.as_c_str(), AtFlags::empty())?.st_size;
        return Ok(u64::try_from(size).unwrap_or(0));
    }
    let all = Dir::new(open_to_list(proc, path.as_c_str())?)?.flatten();
    let is_descriptor = |name: &[u8]| name.first().is_some_and(u8::is_ascii_digit);
    Ok(all
        .filter(|file| is_descriptor(file.file_name().to_bytes()))
        .count() as u64)
}

fn process(folder: BorrowedFd<'_>, buffer: &mut Vec<u8>) -> Option<Process> {
    let stat = Stat::parse(read(folder, c"stat", buffer).ok()?).ok()?;
    Some(Process {
        pid: Pid(stat.pid),
        pgid: (stat.group != 0).then_some(Pgid(stat.group)),
        comm: Comm::new(stat.comm),
    })
}

/// The network namespace of a process; `None` if we may not know it.
fn netns(folder: BorrowedFd<'_>) -> Option<NetnsInode> {
    let link = readlinkat(folder, c"ns/net", Vec::new()).ok()?;
    inode_in(link.to_bytes(), b"net:[").map(NetnsInode)
}

/// Counts the descriptors of a process by kind, and returns the inodes of its sockets; `None` if they may not be read.
fn kinds(folder: BorrowedFd<'_>) -> Option<(DescriptorKinds, NumberSet)> {
    let descriptors = open_to_list(folder, c"fd").ok()?;
    let names = Dir::read_from(&descriptors).ok()?.flatten();
    let mut kinds = DescriptorKinds::default();
    let mut sockets = NumberSet::default();
    for name in names.filter(|name| number(name.file_name()).is_some()) {
        // It may have been closed meanwhile.
        let Ok(link) = readlinkat(&descriptors, name.file_name(), Vec::new()) else {
            continue;
        };
        sockets.extend(count_kind(&mut kinds, link.to_bytes()));
    }
    if kinds.sockets + kinds.pipes + kinds.files + kinds.others == 0 {
        return None;
    }
    Some((kinds, sockets))
}

/// Counts the descriptors of a process that are no sockets, by kind: those that are not `known`, of which there are `count`. To list
/// all takes a microsecond for each, and the kernel gives the lowest free number, so that there are few between them.
/// `None` if they may not be read.
fn other_kinds(folder: BorrowedFd<'_>, known: &NumberSet, count: u64) -> Option<DescriptorKinds> {
    let descriptors = open_to_list(folder, c"fd").ok()?;
    let last = known.last().unwrap_or(0);
    let mut kinds = DescriptorKinds::default();
    // Those without a descriptor, and of these the ones behind the last socket.
    let (mut found, mut missing, mut missing_behind) = (0, 0, 0);
    for number in (0..u32::MAX).filter(|number| !known.contains(*number)) {
        if found == count || missing == MISSING_MAX || missing_behind == MISSING_BEHIND_MAX {
            break;
        }
        match readlinkat(&descriptors, Decimal::new(number).as_c_str(), Vec::new()) {
            Ok(link) => {
                count_kind(&mut kinds, link.to_bytes());
                found += 1;
            }
            Err(Errno::NOENT) => {
                missing += 1;
                missing_behind += u32::from(number > last);
            }
            Err(_) => return None,
        }
    }
    // Those that were not found.
    kinds.others += count - found;
    Some(kinds)
}

/// Counts what a descriptor leads to. Returns the inode if it is a socket.
fn count_kind(kinds: &mut DescriptorKinds, link: &[u8]) -> Option<u32> {
    let socket = inode_in(link, b"socket:[");
    let counter = if socket.is_some() {
        &mut kinds.sockets
    } else if link.starts_with(b"pipe:[") {
        &mut kinds.pipes
    } else if link.starts_with(b"/") {
        &mut kinds.files
    } else {
        &mut kinds.others
    };
    *counter += 1;
    socket
}

/// Counts the sockets that none of the tables has but those of TCP and UDP, which are large; `None` if one cannot be read.
fn in_small_tables(folder: BorrowedFd<'_>, sockets: &NumberSet) -> Option<u64> {
    if sockets.is_empty() {
        return Some(0);
    }
    let mut inodes = NumberSet::default();
    let is_large = |name: &str| name.starts_with("tcp") || name.starts_with("udp");
    read_tables(folder, &|name| !is_large(name), &mut Vec::new(), &mut inodes)?;
    Some(sockets.without(&inodes))
}

/// The sockets in the tables of the network namespace that was read last: processes of one namespace share them.
#[derive(Debug, Default)]
struct ListedSockets {
    netns: Option<NetnsInode>,
    inodes: NumberSet,
}

impl ListedSockets {
    /// Counts the sockets of a process that none of the tables of its network namespace has; `None` if a table cannot be read.
    fn unlisted(
        &mut self,
        folder: BorrowedFd<'_>,
        netns: Option<NetnsInode>,
        sockets: &NumberSet,
        buffer: &mut Vec<u8>,
    ) -> Option<u64> {
        let count = |listed: &NumberSet| sockets.without(listed);
        if netns.is_some() && self.netns == netns && count(&self.inodes) == 0 {
            return Some(0);
        }
        // Also if the tables are older than one of the sockets.
        (self.netns, self.inodes) = (None, NumberSet::default());
        read_tables(folder, &|_| true, buffer, &mut self.inodes)?;
        self.netns = netns;
        Some(count(&self.inodes))
    }
}

/// Adds the inodes of the tables whose names are selected; `None` if one cannot be read.
fn read_tables(
    folder: BorrowedFd<'_>,
    selects: &dyn Fn(&str) -> bool,
    buffer: &mut Vec<u8>,
    inodes: &mut NumberSet,
) -> Option<()> {
    for (file, column) in TABLES.iter().filter(|(name, _)| selects(name)) {
        let path = format!("net/{file}\0");
        let path = std::ffi::CStr::from_bytes_until_nul(path.as_bytes()).ok()?;
        match read_table(folder, path, column, buffer, inodes) {
            // Without the protocol, this kernel has no such file.
            Ok(()) | Err(Errno::NOENT) => {}
            Err(_) => return None,
        }
    }
    Some(())
}

/// Adds the inodes of a table. It is read to its end: the kernel returns a page at a time.
fn read_table(
    folder: BorrowedFd<'_>,
    path: &std::ffi::CStr,
    column: &Column,
    buffer: &mut Vec<u8>,
    inodes: &mut NumberSet,
) -> Result<(), Errno> {
    let file = openat(folder, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    buffer.resize(buffer.len().max(TABLE_BUFFER_LEN), 0);
    let mut filled = 0;
    loop {
        if filled == buffer.len() {
            buffer.resize(filled * 2, 0);
        }
        let got = match rustix::io::read(&file, &mut buffer[filled..]) {
            Err(Errno::INTR) => continue,
            got => got?,
        };
        filled += got;
        let is_newline = |&byte: &u8| byte == b'\n';
        let whole = match buffer[..filled].iter().rposition(is_newline) {
            _ if got == 0 => filled,
            Some(newline) => newline + 1,
            None => 0,
        };
        // The header has a word where lines have the number.
        inodes.extend(
            buffer[..whole]
                .split(is_newline)
                .filter_map(|line| column.number(line)),
        );
        if got == 0 {
            return Ok(());
        }
        buffer.copy_within(whole..filled, 0);
        filled -= whole;
    }
}

/// Reads the number in `socket:[12345]`.
fn inode_in(link: &[u8], kind: &[u8]) -> Option<u32> {
    let number = link.strip_prefix(kind)?.strip_suffix(b"]")?;
    std::str::from_utf8(number).ok()?.parse().ok()
}

/// Where a table has the inode of a socket.
enum Column {
    Nth(usize),
    Last,
}

impl Column {
    fn number(&self, line: &[u8]) -> Option<u32> {
        let mut words = line
            .split(u8::is_ascii_whitespace)
            .filter(|word| !word.is_empty());
        let word = match self {
            Self::Nth(column) => words.nth(*column),
            Self::Last => words.next_back(),
        };
        std::str::from_utf8(word?).ok()?.parse().ok()
    }
}

/// The tables of sockets below `/proc/PID/net`. Sockets of rarer families are in none of them.
const TABLES: &[(&str, Column)] = &[
    ("tcp", Column::Nth(9)),
    ("tcp6", Column::Nth(9)),
    ("udp", Column::Nth(9)),
    ("udp6", Column::Nth(9)),
    ("udplite", Column::Nth(9)),
    ("udplite6", Column::Nth(9)),
    ("raw", Column::Nth(9)),
    ("raw6", Column::Nth(9)),
    ("icmp", Column::Nth(9)),
    ("icmp6", Column::Nth(9)),
    ("unix", Column::Nth(6)),
    ("netlink", Column::Last),
    ("packet", Column::Last),
];

/// How much of a table is read at once, at least.
const TABLE_BUFFER_LEN: usize = 64 * 1024;

/// Numbers without a descriptor that are tried.
const MISSING_MAX: u32 = 4096;
/// The same behind the last socket.
const MISSING_BEHIND_MAX: u32 = 256;

/// Processes with fewer descriptors are not compared with their limit.
const USED_MIN: u64 = 8;

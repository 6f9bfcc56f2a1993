//! A pass over `/proc`, in two steps.
//!
//! 1. Each thread takes the next few processes and reads them, except those with very many descriptors, which are
//!    deferred.
//! 2. The descriptors of those are split into ranges, and each thread takes the next range, so that one process with
//!    100,000 sockets keeps all threads busy.

use super::descriptors::{ALL, Descriptors};
use super::large_process::{self, LargeProcess};
use super::stat::Stat;
use super::table::Table;
use super::{Owners, ScanError, ScanOptions};
use crate::proc_folder::{Decimal, open_to_list, processes};
use crate::process_descriptors::SocketDescriptor;
use crate::threads::{for_each_on, in_parallel, thread_count};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{AtFlags, CWD, PROC_SUPER_MAGIC, fstatfs, statat};
use rustix::io::Errno;
use sockeye_model::{Losses, Pid, Process};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// What a pass does when a process may not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// Counts it as a loss.
    Count,
    /// Ends: what is returned is incomplete, and has the loss.
    End,
}

/// Reads the descriptors of these processes, or of all.
pub(super) fn run(
    options: &ScanOptions,
    only: Option<&[Pid]>,
    on_unreadable: Unreadable,
) -> Result<Owners, ScanError> {
    let unreadable = |errno| ScanError::of(options.proc.clone(), errno);
    let proc = open_to_list(CWD, &options.proc).map_err(unreadable)?;
    if fstatfs(&proc).map_err(unreadable)?.f_type != PROC_SUPER_MAGIC {
        return Err(ScanError::NotProc {
            path: options.proc.clone(),
        });
    }
    // One that does not show us is that of another pid namespace, or of one whose processes have ended.
    if statat(&proc, c"self/stat", AtFlags::empty()).is_err() {
        return Err(ScanError::OtherPidNamespace {
            path: options.proc.clone(),
        });
    }
    let listed;
    let (pids, hidden) = match only {
        Some(pids) => (pids, false),
        None => {
            listed = processes(proc.as_fd()).map_err(unreadable)?;
            // Process 1 exists as long as its pid namespace. If it is not listed, `/proc` hides processes.
            (listed.as_slice(), !listed.contains(&Pid(1)))
        }
    };
    let host = Host {
        proc: proc.as_fd(),
        // We have `proc` open, so a kernel that counts descriptors cannot report 0.
        counts_descriptors: Descriptors::count(proc.as_fd(), c"self/fd").is_ok_and(|count| count > 0),
    };
    let mut part = ScanPart::default();
    let ended = AtomicBool::new(false);
    for found in for_each_on(options.threads, pids, |&pid, part: &mut ScanPart| {
        if ended.load(Ordering::Relaxed) {
            return;
        }
        let outcome = part.read_process(&host, pid);
        part.note(outcome);
        if on_unreadable == Unreadable::End && part.losses.unreadable_processes > 0 {
            ended.store(true, Ordering::Relaxed);
        }
    }) {
        part.append(found);
    }
    let large = std::mem::take(&mut part.large);
    if !large.is_empty() && !ended.into_inner() {
        part.read_large(options, &large);
    }
    Ok(Owners {
        table: Table::new(&part.processes, &part.held),
        losses: part.losses,
        processes: part.processes_read,
        descriptors: part.descriptors,
        hidden,
    })
}

struct Host<'fd> {
    proc: BorrowedFd<'fd>,
    counts_descriptors: bool,
}

/// The outcome of reading a process.
enum Outcome {
    Read,
    /// It is left to step 2.
    Deferred,
}

/// The findings of one thread.
#[derive(Debug, Default)]
struct ScanPart {
    processes: Vec<Process>,
    held: Vec<SocketDescriptor>,
    large: Vec<LargeProcess>,
    losses: Losses,
    processes_read: usize,
    descriptors: usize,
    buffer: Vec<u8>,
}

impl ScanPart {
    fn read_process(&mut self, host: &Host<'_>, pid: Pid) -> Result<Outcome, Errno> {
        let path = Decimal::with_suffix(pid.0, "/fd");
        let path = path.as_c_str();
        let count = if host.counts_descriptors {
            match Descriptors::count(host.proc, path)? {
                0 => return Ok(Outcome::Read), // a kernel thread, or a process that has ended
                count => Some(count),
            }
        } else {
            None
        };
        let descriptors = Descriptors::open(host.proc, path)?;
        if let Some(count) = count
            && count >= large_process::COUNT_MIN
            && self.large.len() < large_process::LARGE_MAX
        {
            self.large.push(LargeProcess::new(descriptors, count));
            return Ok(Outcome::Deferred);
        }
        let held_before = self.held.len();
        let process = self.processes.len() as u32;
        let held = &mut self.held;
        let mut socket = |fd, inode| held.push(SocketDescriptor { inode, process, fd });
        let outcome = match count {
            Some(count) => descriptors.probe(ALL, count, &mut self.buffer, &mut socket),
            None => descriptors.list(ALL, &mut self.buffer, &mut socket),
        };
        let has_sockets = self.held.len() > held_before;
        let outcome = outcome.and_then(|found| self.finish(&descriptors, found, count, has_sockets));
        if outcome.is_err() {
            self.held.truncate(held_before);
        }
        outcome
    }

    /// Reads the name of a process, if it has a socket.
    fn finish(
        &mut self,
        descriptors: &Descriptors,
        found: u32,
        count: Option<u32>,
        has_sockets: bool,
    ) -> Result<Outcome, Errno> {
        let is_short = count.is_some_and(|count| found < count);
        if has_sockets || is_short {
            let stat = Stat::of_process(descriptors.folder())?;
            if is_short && stat.is_dead {
                return Err(Errno::SRCH);
            }
            if has_sockets {
                self.processes.push(stat.process);
            }
        }
        self.descriptors += found as usize;
        Ok(Outcome::Read)
    }

    fn note(&mut self, outcome: Result<Outcome, Errno>) {
        match outcome {
            Ok(Outcome::Deferred) => {}
            Ok(Outcome::Read) => self.processes_read += 1,
            Err(Errno::NOENT | Errno::SRCH) => self.losses.vanished_processes += 1,
            Err(_) => self.losses.unreadable_processes += 1,
        }
    }

    /// Reads the deferred processes: step 2.
    fn read_large(&mut self, options: &ScanOptions, large: &[LargeProcess]) {
        let mut ranges: Vec<_> = large_process::ranges(large).collect();
        // Interleaved, since two threads in one descriptor table slow each other down (by 4 %).
        ranges.sort_by_key(|(_, range)| range.start);
        let next = AtomicUsize::new(0);
        let mut parts = in_parallel(0..thread_count(options.threads, ranges.len()), |_| {
            let (mut held, mut buffer) = (Vec::new(), Vec::new());
            while let Some((index, range)) = ranges.get(next.fetch_add(1, Ordering::Relaxed)) {
                large[*index as usize].read(*index, range.clone(), &mut buffer, &mut held);
            }
            held
        });
        let mut rest = Vec::new();
        for (index, big) in (0..).zip(large) {
            big.read_rest(index, &mut self.buffer, &mut rest);
        }
        parts.push(rest);
        let mut has_sockets = vec![false; large.len()];
        for one in parts.iter().flatten() {
            has_sockets[one.process as usize] = true;
        }
        // So far descriptors refer to processes by their index in `large`; now by their index among all.
        let mut places = Vec::with_capacity(large.len());
        for (big, has_sockets) in large.iter().zip(has_sockets) {
            let place = self.processes.len();
            let outcome = big
                .outcome()
                .and_then(|found| self.finish(&big.descriptors, found, Some(big.count), has_sockets));
            self.note(outcome);
            places.push((self.processes.len() > place).then_some(place as u32));
        }
        self.held.reserve_exact(parts.iter().map(Vec::len).sum());
        for part in parts {
            self.held.extend(part.iter().filter_map(|one| {
                places[one.process as usize].map(|process| SocketDescriptor { process, ..*one })
            }));
        }
    }

    fn append(&mut self, other: Self) {
        let offset = self.processes.len() as u32;
        self.held.extend(other.held.iter().map(|one| SocketDescriptor {
            process: one.process + offset,
            ..*one
        }));
        self.processes.extend(other.processes);
        self.large.extend(other.large);
        self.losses += other.losses;
        self.processes_read += other.processes_read;
        self.descriptors += other.descriptors;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn kernel_without_descriptor_count_is_listed() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let inode = rustix::fs::fstat(&listener).unwrap().st_ino as u32;
        let proc = open_to_list(CWD, "/proc").unwrap();
        for counts_descriptors in [false, true] {
            let host = Host {
                proc: proc.as_fd(),
                counts_descriptors,
            };
            let mut part = ScanPart::default();
            let outcome = part.read_process(&host, Pid(std::process::id()));
            part.note(outcome);
            let found = part.held.iter().find(|held| held.inode == inode);
            assert_eq!(found.map(|held| held.fd), Some(listener.as_raw_fd() as u32));
            assert_eq!(part.processes_read, 1);
            assert!(part.descriptors >= 4, "{}", part.descriptors);
        }
    }
}

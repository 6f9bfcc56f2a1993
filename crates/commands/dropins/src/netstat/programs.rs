//! `-p`: the program that owns a socket.

use crate::proc_note;
use sockeye_console::notes;
use sockeye_model::{Inode, Owner, Pid, ShortText};
use sockeye_source::owners::Owners;
use sockeye_source::{BpfEngine, Choice};
use sockeye_sys::proc_mount;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};

/// Owners of sockets, and the names of their programs.
#[derive(Debug, Default)]
pub(super) struct Programs {
    pub(super) owners: Owners,
    pub(super) names: ProgramNames,
}

/// Names read so far; `None` for a process that has ended.
#[derive(Debug, Default)]
pub(super) struct ProgramNames(HashMap<Pid, Option<Name>>);

/// `PID/name`, cut to the 19 bytes of the column.
type Name = ShortText<19>;

impl Programs {
    /// Finds the owners of all sockets, and prints the original's note if some processes are unreadable.
    pub(super) fn find(engine: &BpfEngine, choice: Choice) -> Self {
        let found = Owners::find(engine, choice);
        if found.is_err() && proc_mount::problem().is_some() {
            proc_note::say_if_missing("netstat");
            return Self::default();
        }
        let (owners, is_partial) = match found {
            Ok((owners, _)) => {
                let is_partial = owners.losses().unreadable_processes > 0 && is_denied();
                (owners, is_partial)
            }
            Err(_) => (Owners::default(), true),
        };
        if is_partial {
            if owners.iter().next().is_some() {
                notes::say(
                    "(Not all processes could be identified, non-owned process info\n \
                     will not be shown, you would have to be root to see it all.)\n",
                );
            } else {
                let user = rustix::process::geteuid().as_raw();
                notes::say(&format!(
                    "(No info could be read for \"-p\": geteuid()={user} but you should be root.)\n"
                ));
            }
        }
        Self {
            owners,
            names: ProgramNames::default(),
        }
    }
}

impl ProgramNames {
    /// Returns `PID/name` of the first owner of this socket, `-` if none is known.
    pub(super) fn of(&mut self, owners: &Owners, inode: Option<Inode>) -> &[u8] {
        let Self(names) = self;
        let owners = inode.map_or(&[][..], |inode| owners.of(inode));
        let found = owners.iter().find_map(|Owner { process, .. }| {
            let pid = process.pid;
            names
                .entry(pid)
                .or_insert_with(|| name(pid))
                .is_some()
                .then_some(pid)
        });
        match found.and_then(|pid| names.get(&pid)) {
            Some(Some(name)) => name.as_bytes(),
            _ => b"-",
        }
    }
}

/// Whether the original would print its note: it does if it may not open a folder of descriptors, but not if it may
/// open one and not read the links in it.
fn is_denied() -> bool {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut processes = entries.filter(|entry| entry.file_name().as_encoded_bytes()[0].is_ascii_digit());
    processes.any(|process| {
        let opened = fs::read_dir(process.path().join("fd"));
        opened.is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
    })
}

/// Returns `PID/name` with the first argument of the command line as the name, without the folders of an absolute path.
/// `None` if the process has ended.
fn name(pid: Pid) -> Option<Name> {
    let mut start = Vec::with_capacity(CMDLINE_MAX);
    let file = File::open(format!("/proc/{pid}/cmdline")).ok()?;
    file.take(CMDLINE_MAX as u64).read_to_end(&mut start).ok()?;
    let pid = format!("{pid}/");
    Some(Name::joined(pid.as_bytes(), program(&start)))
}

fn program(cmdline: &[u8]) -> &[u8] {
    let word = cmdline.split(|&byte| byte == 0).next().unwrap_or_default();
    match word {
        [b'/', ..] => word.rsplit(|&byte| byte == b'/').next().unwrap_or_default(),
        _ => word,
    }
}

/// Bytes of a command line that the original reads.
const CMDLINE_MAX: usize = 511;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_is_first_argument_without_folders() {
        let check = |cmdline: &[u8], expected: &[u8]| assert_eq!(program(cmdline), expected);
        check(b"/usr/sbin/nginx\0-g\0", b"nginx");
        check(b"sshd: root@pts/0\0", b"sshd: root@pts/0");
        check(b"./a/b\0", b"./a/b");
        check(b"", b"");
        check(b"/", b"");
        assert_eq!(name(Pid(u32::MAX)), None);
        let own = name(Pid(std::process::id())).unwrap();
        assert!(own.as_bytes().len() <= 19);
    }
}

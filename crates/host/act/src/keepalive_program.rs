//! Attaches and detaches the keepalive BPF program at a cgroup, and reads its settings and counts; for
//! `keepalive attach`, `detach`, `attached` and `run`. Programs of others must stay attached.

use crate::Keepalive;
use rustix::io::Errno;
use sockeye_sys::bpf::{Map, Program, cgroup};
use sockeye_sys::rights::{CheckedIn, remedy};
use sockeye_wire::keepalive_program::{self, Counts, Settings};
use std::fmt;
use std::os::fd::BorrowedFd;

/// A BPF program that enables keepalive on new connections of the cgroups it is attached to.
///
/// Once attached it stays without this process, until it is detached or the cgroup is removed.
#[derive(Debug)]
pub struct KeepaliveProgram {
    program: Program,
    settings: Map,
    counts: Map,
}

impl KeepaliveProgram {
    /// Takes a loaded program with its maps, and writes the settings that it will apply.
    ///
    /// # Errors
    /// The errno of `bpf(2)`.
    pub fn new(
        program: Program,
        [settings, counts]: [Map; 2],
        keepalive: Keepalive,
    ) -> Result<Self, KeepaliveProgramError> {
        let new = Self {
            program,
            settings,
            counts,
        };
        new.set(keepalive, Counts::default())?;
        Ok(new)
    }

    /// Returns all keepalive programs attached directly to this cgroup: at most one, unless two processes attached one
    /// at the same time.
    ///
    /// # Errors
    /// The step that failed, and the kernel's errno.
    pub fn attached(cgroup: BorrowedFd<'_>) -> Result<Vec<Self>, KeepaliveProgramError> {
        let ids = cgroup::attached(cgroup)
            .map_err(failed(KeepaliveProgramStep::Query))?
            .ids;
        let mut ours = Vec::new();
        for id in ids {
            let program = match Program::by_id(id) {
                // It was detached in the meantime.
                Err(Errno::NOENT) => continue,
                found => found.map_err(failed(KeepaliveProgramStep::Look))?,
            };
            let info = program.info().map_err(failed(KeepaliveProgramStep::Look))?;
            if info.name != keepalive_program::PROGRAM.as_bytes() {
                continue;
            }
            // A foreign program may have the same name, but not the same maps.
            let maps = program
                .map(keepalive_program::SETTINGS)
                .and_then(|settings| Ok((settings, program.map(keepalive_program::COUNTS)?)));
            match maps {
                Ok((settings, counts)) => ours.push(Self {
                    program,
                    settings,
                    counts,
                }),
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(failed(KeepaliveProgramStep::Look)(errno)),
            }
        }
        Ok(ours)
    }

    /// Attaches the program to a cgroup. It replaces a keepalive program that is attached there and continues its
    /// counts; foreign programs stay. Returns the settings of the replaced program, or `None`.
    ///
    /// # Errors
    /// The step that failed, and the kernel's errno.
    pub fn attach(&self, cgroup: BorrowedFd<'_>) -> Result<Option<Keepalive>, KeepaliveProgramError> {
        let before = Self::attached(cgroup)?.into_iter().next_back();
        let replaced = before.as_ref().map(|before| &before.program);
        match cgroup::attach(cgroup, &self.program, replaced) {
            // Another process has just detached it.
            Err(Errno::NOENT) if replaced.is_some() => cgroup::attach(cgroup, &self.program, None),
            attached => attached,
        }
        .map_err(|errno| match cgroup::attached(cgroup) {
            Ok(others) if errno == Errno::PERM && !others.allows_more => {
                failed(KeepaliveProgramStep::AttachExclusive)(errno)
            }
            _ => failed(KeepaliveProgramStep::Attach)(errno),
        })?;
        Self::keep_last(cgroup);
        let Some(before) = before else {
            return Ok(None);
        };
        // A program of another version of Sockeye counts as none.
        if let (Ok(replaced), Ok(counts)) = (before.keepalive(), before.counts()) {
            self.set(self.keepalive()?, counts)?;
            return Ok(Some(replaced));
        }
        Ok(None)
    }

    /// Detaches all keepalive programs but the last, because another process may have attached one at the same time.
    /// Without the right to list programs it does nothing.
    fn keep_last(cgroup: BorrowedFd<'_>) {
        let mut ours = Self::attached(cgroup).unwrap_or_default();
        ours.pop();
        for other in &ours {
            let _ = other.detach(cgroup);
        }
    }

    /// Detaches the program from a cgroup. Connections that have keepalive keep it.
    ///
    /// # Errors
    /// The kernel's errno; a program that is detached already is not an error.
    pub fn detach(&self, cgroup: BorrowedFd<'_>) -> Result<(), KeepaliveProgramError> {
        match cgroup::detach(cgroup, &self.program) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(failed(KeepaliveProgramStep::Detach)(errno)),
        }
    }

    /// Returns the settings that it applies.
    ///
    /// # Errors
    /// The errno of `bpf(2)`; `EINVAL` if another version of Sockeye attached it.
    pub fn keepalive(&self) -> Result<Keepalive, KeepaliveProgramError> {
        let Settings {
            time_s,
            interval_s,
            probes,
            user_timeout_ms,
            ..
        } = self.settings()?;
        Ok(Keepalive {
            time_s,
            interval_s,
            probes,
            user_timeout_ms,
        })
    }

    /// Returns the number of connections that it and the programs it replaced have handled.
    ///
    /// # Errors
    /// As for [`keepalive`](Self::keepalive).
    pub fn counts(&self) -> Result<Counts, KeepaliveProgramError> {
        let counts = self.counts.read().map_err(failed(KeepaliveProgramStep::Read))?;
        Ok(Counts::read(&counts) + self.settings()?.earlier)
    }

    fn settings(&self) -> Result<Settings, KeepaliveProgramError> {
        let settings = self.settings.read().map_err(failed(KeepaliveProgramStep::Read))?;
        Ok(Settings::read(&settings))
    }

    fn set(&self, keepalive: Keepalive, earlier: Counts) -> Result<(), KeepaliveProgramError> {
        let Keepalive {
            time_s,
            interval_s,
            probes,
            user_timeout_ms,
        } = keepalive;
        let settings = Settings {
            time_s,
            interval_s,
            probes,
            user_timeout_ms,
            earlier,
        };
        self.settings
            .write(&settings.bytes())
            .map_err(failed(KeepaliveProgramStep::Write))
    }
}

/// A failed operation on the programs of a cgroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeepaliveProgramError {
    /// The step that failed.
    pub step: KeepaliveProgramStep,
    /// The kernel's errno.
    pub errno: Errno,
}

/// An operation on the programs of a cgroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeepaliveProgramStep {
    /// Querying the attached programs.
    Query,
    /// Reading a program's information.
    Look,
    /// Reading a program's settings or counts.
    Read,
    /// Writing a program's settings.
    Write,
    /// Attaching a program.
    Attach,
    /// Attaching a program where an attached one allows no other.
    AttachExclusive,
    /// Detaching a program.
    Detach,
}

fn failed(step: KeepaliveProgramStep) -> impl Fn(Errno) -> KeepaliveProgramError {
    move |errno| KeepaliveProgramError { step, errno }
}

impl fmt::Display for KeepaliveProgramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.step {
            KeepaliveProgramStep::Query => "ask for the programs attached to it",
            KeepaliveProgramStep::Look => "look at the programs attached to it",
            KeepaliveProgramStep::Read => "read the settings of the program attached to it",
            KeepaliveProgramStep::Write => "write the program's settings",
            KeepaliveProgramStep::Attach | KeepaliveProgramStep::AttachExclusive => "attach a program to it",
            KeepaliveProgramStep::Detach => "detach the program from it",
        };
        write!(f, "cannot {what}: {}", self.errno)?;
        let remedy = match (self.step, self.errno) {
            (KeepaliveProgramStep::Look, Errno::PERM) => {
                let remedy = remedy("it", CheckedIn::Initial);
                return write!(
                    f,
                    "; something is attached there, and to see whose it is takes CAP_SYS_ADMIN: {remedy}"
                );
            }
            (KeepaliveProgramStep::AttachExclusive, _) => {
                "another's program is attached there, which allows no other: `bpftool cgroup show` names it"
            }
            (KeepaliveProgramStep::Attach, Errno::PERM) => {
                let remedy = remedy("it", CheckedIn::Initial);
                return write!(
                    f,
                    "; it takes CAP_NET_ADMIN ({remedy}), and no program above it that allows no other: `bpftool cgroup \
                     tree` shows those"
                );
            }
            (KeepaliveProgramStep::Attach, Errno::TOOBIG) => {
                "64 programs are attached there already, more do not fit"
            }
            (KeepaliveProgramStep::Attach, Errno::INVAL) => "this kernel may be too old: it needs Linux 5.9",
            (KeepaliveProgramStep::Read, Errno::INVAL) => {
                "another version of sockeye attached it; detach it with that one"
            }
            (_, Errno::PERM) => {
                return write!(
                    f,
                    "; it takes CAP_NET_ADMIN: {}",
                    remedy("it", CheckedIn::Initial)
                );
            }
            _ => return Ok(()),
        };
        write!(f, "; {remedy}")
    }
}

/// The errno is in the text and in its field, so `source()` does not repeat it.
impl std::error::Error for KeepaliveProgramError {}

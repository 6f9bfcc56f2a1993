use crate::Keepalive;
use rustix::io::Errno;
use sockeye_sys::bpf::{Map, Program, cgroup};
use sockeye_wire::keeper::{self, Counts, Settings};
use std::fmt;
use std::os::fd::BorrowedFd;

/// A program in the kernel that gives keepalive to new connections of the cgroups it is attached to.
///
/// Attached, it needs nobody any more: it stays until it is detached, or the cgroup is removed.
#[derive(Debug)]
pub struct Keeper {
    program: Program,
    settings: Map,
    counts: Map,
}

impl Keeper {
    /// One that is loaded, and is to give these settings.
    ///
    /// # Errors
    /// The errno of `bpf(2)`.
    pub fn new(
        program: Program,
        [settings, counts]: [Map; 2],
        keepalive: Keepalive,
    ) -> Result<Self, CannotKeep> {
        let keeper = Self {
            program,
            settings,
            counts,
        };
        keeper.set(keepalive, Counts::default())?;
        Ok(keeper)
    }

    /// All of ours that are attached to this cgroup itself: one, if nobody attached two at the same moment.
    ///
    /// # Errors
    /// Which step failed, and the kernel's reason.
    pub fn attached(cgroup: BorrowedFd<'_>) -> Result<Vec<Self>, CannotKeep> {
        let ids = cgroup::attached(cgroup).map_err(failed(KeepStep::Query))?.ids;
        let mut ours = Vec::new();
        for id in ids {
            let program = match Program::by_id(id) {
                // Detached meanwhile.
                Err(Errno::NOENT) => continue,
                found => found.map_err(failed(KeepStep::Look))?,
            };
            let info = program.info().map_err(failed(KeepStep::Look))?;
            if info.name != keeper::PROGRAM.as_bytes() {
                continue;
            }
            // Another's program may have the same name; it has not got such maps.
            let maps = program
                .map(keeper::SETTINGS)
                .and_then(|settings| Ok((settings, program.map(keeper::COUNTS)?)));
            match maps {
                Ok((settings, counts)) => ours.push(Self {
                    program,
                    settings,
                    counts,
                }),
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(failed(KeepStep::Look)(errno)),
            }
        }
        Ok(ours)
    }

    /// Attaches it to a cgroup, in the place of ours that is there; others' programs stay. What that one gave, if
    /// there was one. It goes on counting where that one ended.
    ///
    /// # Errors
    /// Which step failed, and the kernel's reason.
    pub fn attach(&self, cgroup: BorrowedFd<'_>) -> Result<Option<Keepalive>, CannotKeep> {
        let before = Self::attached(cgroup)?.into_iter().next_back();
        let replaced = before.as_ref().map(|before| &before.program);
        match cgroup::attach(cgroup, &self.program, replaced) {
            // Somebody else took it away just now.
            Err(Errno::NOENT) if replaced.is_some() => cgroup::attach(cgroup, &self.program, None),
            attached => attached,
        }
        .map_err(|errno| match cgroup::attached(cgroup) {
            Ok(others) if errno == Errno::PERM && !others.allows_more => {
                failed(KeepStep::AttachBeside)(errno)
            }
            _ => failed(KeepStep::Attach)(errno),
        })?;
        Self::leave_last(cgroup);
        let Some(before) = before else {
            return Ok(None);
        };
        // That of another version is as good as none.
        if let (Ok(kept), Ok(counts)) = (before.keepalive(), before.counts()) {
            self.set(self.keepalive()?, counts)?;
            return Ok(Some(kept));
        }
        Ok(None)
    }

    /// Somebody else may have attached one at the same moment: of several the last stays, for whoever looks. Who may not
    /// look at programs has found none before, and leaves it at that.
    fn leave_last(cgroup: BorrowedFd<'_>) {
        let mut ours = Self::attached(cgroup).unwrap_or_default();
        ours.pop();
        for other in &ours {
            let _ = other.detach(cgroup);
        }
    }

    /// Takes it away from a cgroup. Connections that have keepalive keep it.
    ///
    /// # Errors
    /// The kernel's reason; that it is gone already is none.
    pub fn detach(&self, cgroup: BorrowedFd<'_>) -> Result<(), CannotKeep> {
        match cgroup::detach(cgroup, &self.program) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(failed(KeepStep::Detach)(errno)),
        }
    }

    /// What it gives.
    ///
    /// # Errors
    /// The errno of `bpf(2)`; `EINVAL` if it is of another version of Sockeye.
    pub fn keepalive(&self) -> Result<Keepalive, CannotKeep> {
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

    /// To how many connections it did, and those before it in its place.
    ///
    /// # Errors
    /// As of [`keepalive`](Self::keepalive).
    pub fn counts(&self) -> Result<Counts, CannotKeep> {
        let counts = self.counts.read().map_err(failed(KeepStep::Read))?;
        Ok(Counts::read(&counts) + self.settings()?.earlier)
    }

    fn settings(&self) -> Result<Settings, CannotKeep> {
        let settings = self.settings.read().map_err(failed(KeepStep::Read))?;
        Ok(Settings::read(&settings))
    }

    fn set(&self, keepalive: Keepalive, earlier: Counts) -> Result<(), CannotKeep> {
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
            .map_err(failed(KeepStep::Write))
    }
}

/// What could not be done with the programs of a cgroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CannotKeep {
    /// What failed.
    pub step: KeepStep,
    /// The kernel's reason.
    pub errno: Errno,
}

/// What is done with the programs of a cgroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeepStep {
    /// Asking which are attached.
    Query,
    /// Looking at one of them.
    Look,
    /// Reading one's settings or counts.
    Read,
    /// Writing them.
    Write,
    /// Attaching one.
    Attach,
    /// Attaching one where another allows no other.
    AttachBeside,
    /// Detaching one.
    Detach,
}

fn failed(step: KeepStep) -> impl Fn(Errno) -> CannotKeep {
    move |errno| CannotKeep { step, errno }
}

impl fmt::Display for CannotKeep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.step {
            KeepStep::Query => "ask for the programs attached to it",
            KeepStep::Look => "look at the programs attached to it",
            KeepStep::Read => "read the settings of the program attached to it",
            KeepStep::Write => "write the program's settings",
            KeepStep::Attach | KeepStep::AttachBeside => "attach a program to it",
            KeepStep::Detach => "detach the program from it",
        };
        write!(f, "cannot {what}: {}", self.errno)?;
        let remedy = match (self.step, self.errno) {
            (KeepStep::Look, Errno::PERM) => {
                "something is attached there, and to tell whose it is takes CAP_SYS_ADMIN: run as root"
            }
            (KeepStep::AttachBeside, _) => {
                "another's program is attached there, which allows no other beside it: `bpftool cgroup show` names it"
            }
            (KeepStep::Attach, Errno::PERM) => {
                "it takes CAP_NET_ADMIN (run as root), and no program above it that allows no other: `bpftool cgroup \
                 tree` shows those"
            }
            (KeepStep::Attach, Errno::TOOBIG) => "64 programs are attached there already, more do not fit",
            (KeepStep::Attach, Errno::INVAL) => "this kernel may be too old: it needs Linux 5.9",
            (KeepStep::Read, Errno::INVAL) => {
                "another version of sockeye attached it; detach it with that one"
            }
            (_, Errno::PERM) => "it takes CAP_NET_ADMIN: run as root",
            _ => return Ok(()),
        };
        write!(f, "; {remedy}")
    }
}

/// The errno is in the text, before its remedy, and in its field: it is no `source()` to be told once more.
impl std::error::Error for CannotKeep {}

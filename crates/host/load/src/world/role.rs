//! The programs of the world.

use super::far::enter_far;
use super::programs;
use rustix::process::{Signal, set_parent_process_death_signal};
use std::ffi::CString;
use std::fmt;
use std::io::{self, Write};

/// A program of the world, and its process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Passes packets through a tunnel whose device has a queue of three packets.
    Vpn,
    /// Passes packets over a link that loses some.
    Wan,
    /// A web server.
    Web,
    /// Accepts connections and never closes them.
    Backend,
    /// Listens and never accepts.
    Stuck,
    /// Takes what `backup` and `sync` send.
    Archive,
    /// The clients of `web`, `backend` and `stuck`.
    Clients,
    /// Sends through the tunnel as fast as it can.
    Backup,
    /// Sends over the lossy link now and then.
    Sync,
}

impl Role {
    /// All, in the order in which they are started: each finds what it connects to.
    pub const ALL: [Self; 9] = [
        Self::Vpn,
        Self::Wan,
        Self::Web,
        Self::Backend,
        Self::Stuck,
        Self::Archive,
        Self::Clients,
        Self::Backup,
        Self::Sync,
    ];

    /// Its name, which is that of its process.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vpn => "vpn",
            Self::Wan => "wan",
            Self::Web => "web",
            Self::Backend => "backend",
            Self::Stuck => "stuck",
            Self::Archive => "archive",
            Self::Clients => "clients",
            Self::Backup => "backup",
            Self::Sync => "sync",
        }
    }

    /// The program with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.name() == name)
    }

    /// Whether it is of no use without TUN devices.
    pub(super) const fn needs_tun(self) -> bool {
        matches!(
            self,
            Self::Vpn | Self::Wan | Self::Archive | Self::Backup | Self::Sync
        )
    }

    /// Becomes this program. The process was started by [`World::build`](super::World::build): its standard input is the other
    /// network namespace, and its standard output takes the word that it is ready, or why not. Returns only on failure.
    pub fn run(self) {
        let mut stdout = io::stdout();
        let Err(error) = self.prepare_and_run(&mut || stdout.write_all(READY).and_then(|()| stdout.flush()));
        let _ = io::stdout().write_all(error.to_string().as_bytes());
    }

    fn prepare_and_run(
        self,
        ready: &mut dyn FnMut() -> io::Result<()>,
    ) -> io::Result<std::convert::Infallible> {
        // If the parent has ended before this, the pipe has no reader: reporting that it is ready fails.
        set_parent_process_death_signal(Some(Signal::KILL))?;
        if let Ok(name) = CString::new(self.name()) {
            rustix::thread::set_name(&name)?;
        }
        if matches!(self, Self::Clients | Self::Archive) {
            enter_far()?;
        }
        match self {
            Self::Vpn => programs::vpn_tunnel(ready),
            Self::Wan => programs::wan_link(ready),
            Self::Web => programs::web(ready),
            Self::Backend => programs::backend(ready),
            Self::Stuck => programs::stuck(ready),
            Self::Archive => programs::archive(ready),
            Self::Clients => programs::clients(ready),
            Self::Backup => programs::backup(ready),
            Self::Sync => programs::sync(ready),
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What a program writes when it has begun its work.
pub(super) const READY: &[u8] = b"ready";

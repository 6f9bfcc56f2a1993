//! Users whose files and links are followed: they can do no harm that they could not do without this program.

use rustix::fs::stat;
use rustix::process::{geteuid, getuid};

/// We, root, the owner of the root folder, and the user who called us by sudo.
#[derive(Debug)]
pub struct TrustedUsers {
    me: u32,
    root: u32,
    caller: Option<Caller>,
}

/// The user who ran `sudo`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caller {
    /// Their number.
    pub uid: u32,
    /// Their group.
    pub gid: u32,
}

impl TrustedUsers {
    /// Returns the trusted users of this process.
    #[must_use]
    pub fn here() -> Self {
        Self {
            me: geteuid().as_raw(),
            // In a user namespace, the owner of the system has another number.
            root: stat("/").map_or(0, |root| root.st_uid),
            caller: Caller::of_sudo(),
        }
    }

    /// Whether a user is one of them.
    #[must_use]
    pub fn include(&self, uid: u32) -> bool {
        uid == 0 || uid == self.me || uid == self.root || self.caller.is_some_and(|caller| caller.uid == uid)
    }
}

impl Caller {
    /// Returns the user who ran `sudo`; `None` without sudo, and for root.
    #[must_use]
    pub fn of_sudo() -> Option<Self> {
        // The environment of a program with the setuid bit is another user's word.
        if !(getuid().is_root() && geteuid().is_root()) {
            return None;
        }
        let number = |name| std::env::var(name).ok()?.parse::<u32>().ok();
        let (uid, gid) = (number("SUDO_UID")?, number("SUDO_GID")?);
        // -1 leaves the owner as it is.
        (uid != 0 && uid != u32::MAX && gid != u32::MAX).then_some(Self { uid, gid })
    }
}

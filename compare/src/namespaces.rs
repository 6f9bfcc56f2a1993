//! Named network namespaces, as `ip netns` keeps them, with a few sockets in each: by the thousand, and gone without a trace.
//!
//! A name is a bind mount on `/run/netns/NAME`. All of it happens in a mount namespace of our own, with an empty file system over that
//! folder: what runs there sees our names and none of the host's, the host sees nothing, and with the last process everything is gone,
//! however that process ended.

use crate::holder::{ABORT_ON_CLOSE, await_end, begin, connect};
use crate::netns::raise_loopback;
use anyhow::{Context, Result, anyhow};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use nix::sys::socket::{setsockopt, sockopt};
use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};

/// Sockets of a set: a listener, both ends of a connection through it, and a UDP socket.
pub const SOCKETS_IN_SET: usize = 4;

/// Where `ip`, `ss` and others look for names.
pub const FOLDER: &str = "/run/netns";

/// A server and its client, as small as can be: the listener, both ends of a connection through it, and a UDP socket.
#[derive(Debug)]
struct Set {
    _listener: TcpListener,
    _ends: (TcpStream, TcpStream),
    _datagrams: UdpSocket,
}

/// What one holder makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Number of the first namespace, which is a part of its name.
    pub first: usize,
    /// How many namespaces.
    pub namespaces: usize,
    /// Sets of four sockets in each.
    pub sets: usize,
    /// Processes that do nothing in each.
    pub idlers: usize,
}

/// Shares of the holders, as even as possible: `namespaces` with `sets` and `idlers` each.
pub fn shares(namespaces: usize, sets: usize, idlers: usize, holders: usize) -> Vec<Share> {
    let mut first = 0;
    (0..holders.max(1))
        .map(|number| {
            let count = namespaces / holders.max(1) + usize::from(number < namespaces % holders.max(1));
            let share = Share {
                first,
                namespaces: count,
                sets,
                idlers,
            };
            first += count;
            share
        })
        .collect()
}

/// An empty folder of names, over the host's. Dropping it drops the names in it; their namespaces end with their last socket.
#[derive(Debug)]
pub struct Names {
    /// Where the file system is mounted.
    over: &'static str,
}

impl Names {
    /// Moves the calling thread, and thereby every process it starts from now on, into a mount namespace of its own that shows no
    /// named network namespaces. Needs CAP_SYS_ADMIN.
    pub fn hide_others() -> Result<Self> {
        unshare(CloneFlags::CLONE_NEWNS).context("unshare(CLONE_NEWNS)")?;
        // First of all: nothing that we mount may reach the host, where /run is shared as a rule.
        mount(
            None::<&str>,
            "/",
            None::<&str>,
            MsFlags::MS_REC | MsFlags::MS_PRIVATE,
            None::<&str>,
        )
        .context("making the mounts private")?;
        // The host may never have had a named namespace, and shall not keep a folder from us.
        let over = if Path::new(FOLDER).is_dir() {
            FOLDER
        } else {
            "/run"
        };
        mount(
            Some("bench"),
            over,
            Some("tmpfs"),
            MsFlags::MS_NOSUID | MsFlags::MS_NODEV,
            Some("mode=755"),
        )
        .with_context(|| format!("mounting a tmpfs on {over}"))?;
        let names = Self { over };
        fs::create_dir_all(FOLDER).with_context(|| format!("creating {FOLDER}"))?;
        Ok(names)
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        // Lazily, and with it all that is mounted below: the names.
        if let Err(errno) = umount2(self.over, MntFlags::MNT_DETACH) {
            eprintln!("bench: unmounting {}: {errno}", self.over);
        }
    }
}

/// Makes the namespaces of a share and their sockets, says `ready` on stdout, and holds them until stdin ends.
///
/// To be called in the mount namespace that [`Names::hide_others`] made.
pub fn hold(share: Share) -> Result<()> {
    begin()?;
    // A thread of its own: it changes its namespace again and again, and ends in the last one.
    let making = std::thread::spawn(move || {
        (share.first..share.first + share.namespaces)
            .map(|number| make(number, share))
            .collect::<Result<Vec<_>>>()
    });
    let held = making
        .join()
        .map_err(|_| anyhow!("the thread that makes namespaces panicked"))??;
    await_end(held.iter().flatten().count() * SOCKETS_IN_SET)
}

/// Makes a namespace, which the calling thread stays in, names it, and fills it.
fn make(number: usize, share: Share) -> Result<Vec<Set>> {
    let name = name(number);
    make_named(&name)?;
    raise_loopback().with_context(|| format!("raising lo in {name}"))?;
    for _ in 0..share.idlers {
        idle().with_context(|| format!("starting a process in {name}"))?;
    }
    (0..share.sets)
        .map(|_| Set::open())
        .collect::<Result<_>>()
        .with_context(|| format!("opening sockets in {name}"))
}

/// Makes a namespace, which the calling thread stays in, and names it: the least that this takes.
pub fn make_named(name: &str) -> Result<()> {
    let file = Path::new(FOLDER).join(name);
    // First, for a name that is taken is not ours.
    File::create_new(&file).with_context(|| format!("creating {}", file.display()))?;
    unshare(CloneFlags::CLONE_NEWNET).context("unshare(CLONE_NEWNET)")?;
    mount(
        Some("/proc/thread-self/ns/net"),
        &file,
        None::<&str>,
        MsFlags::MS_BIND,
        None::<&str>,
    )
    .with_context(|| format!("mounting on {}", file.display()))
}

/// Starts a process that waits for the end of our stdin, and so ends with the load, however we end.
fn idle() -> Result<()> {
    // Nobody waits for it: when it ends, so do we.
    Command::new("cat")
        .stdout(Stdio::null())
        .spawn()
        .map(drop)
        .context("starting cat")
}

/// As wide as the last of them, so that `*` and a sorted listing agree.
fn name(number: usize) -> String {
    format!("bench-{number:05}")
}

impl Set {
    fn open() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("listening")?;
        // Accepted sockets inherit it: no TIME_WAIT keeps the namespace alive.
        setsockopt(&listener, sockopt::Linger, &ABORT_ON_CLOSE).context("SO_LINGER on a listener")?;
        let target = listener.local_addr().context("getsockname of a listener")?;
        let ends = connect(&listener, target)?;
        let datagrams = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).context("binding UDP")?;
        Ok(Self {
            _listener: listener,
            _ends: ends,
            _datagrams: datagrams,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_even_and_number_every_namespace_once() {
        for (namespaces, holders) in [(2_000, 4), (10, 4), (3, 4), (7, 1), (0, 4)] {
            let shares = shares(namespaces, 2, 1, holders);
            assert_eq!(shares.len(), holders);
            let numbers: Vec<usize> = shares
                .iter()
                .flat_map(|share| share.first..share.first + share.namespaces)
                .collect();
            assert_eq!(numbers, (0..namespaces).collect::<Vec<_>>());
            let most = shares.iter().map(|share| share.namespaces).max();
            let least = shares.iter().map(|share| share.namespaces).min();
            assert!(most.zip(least).is_some_and(|(most, least)| most - least <= 1));
        }
    }

    #[test]
    fn names_sort_as_their_numbers() {
        assert_eq!(name(0), "bench-00000");
        assert!(name(999) < name(1_000));
    }

    #[test]
    fn a_set_has_four_sockets() {
        let set = Set::open().expect("loopback");
        let target = set._listener.local_addr().expect("name");
        assert_eq!(set._ends.0.peer_addr().expect("name"), target);
        assert_eq!(set._ends.1.local_addr().expect("name"), target);
        assert!(set._datagrams.local_addr().expect("name").port() > 0);
    }
}

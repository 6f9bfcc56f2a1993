//! Thousands of named network namespaces, as `ip netns` creates them, with a few sockets in each, removed
//! without a trace.
//!
//! A name is a bind mount on `/run/netns/NAME`. All of it happens in a new mount namespace with an empty file
//! system over that folder: programs in it see our names and none of the host's, the host sees nothing, and
//! everything is removed with the last process, however it ends.

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

/// Sockets per set: a listener, both ends of a connection through it, and a UDP socket.
pub const SOCKETS_IN_SET: usize = 4;

/// The folder of names, as for `ip` and `ss`.
pub const FOLDER: &str = "/run/netns";

/// A minimal server with a client: the listener, both ends of a connection through it, and a UDP socket.
#[derive(Debug)]
struct Set {
    _listener: TcpListener,
    _ends: (TcpStream, TcpStream),
    _datagrams: UdpSocket,
}

/// The part of one holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Number of its first namespace, which is a part of the name.
    pub first: usize,
    /// Number of namespaces.
    pub namespaces: usize,
    /// Sets of four sockets per namespace.
    pub sets: usize,
    /// Idle processes per namespace.
    pub idlers: usize,
}

/// The parts of all holders, as even as possible: `namespaces` with `sets` and `idlers` each.
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

/// An empty folder of names in place of the host's. Dropping it removes its names; their namespaces end with
/// their last socket.
#[derive(Debug)]
pub struct Names {
    /// Where the file system is mounted.
    over: &'static str,
}

impl Names {
    /// Moves the calling thread, and all processes that it starts later, into a new mount namespace without
    /// named network namespaces. Needs CAP_SYS_ADMIN.
    pub fn isolate() -> Result<Self> {
        unshare(CloneFlags::CLONE_NEWNS).context("unshare(CLONE_NEWNS)")?;
        // First make mounts private: /run is usually shared with the host.
        mount(
            None::<&str>,
            "/",
            None::<&str>,
            MsFlags::MS_REC | MsFlags::MS_PRIVATE,
            None::<&str>,
        )
        .context("making the mounts private")?;
        // The folder may not exist on the host.
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
        // A lazy unmount includes the mounts below: the names.
        if let Err(errno) = umount2(self.over, MntFlags::MNT_DETACH) {
            eprintln!("bench: unmounting {}: {errno}", self.over);
        }
    }
}

/// Creates the namespaces of a part and their sockets, prints `ready` on stdout, and holds them until stdin
/// ends.
///
/// Call it in the mount namespace of [`Names::isolate`].
pub fn hold(share: Share) -> Result<()> {
    begin()?;
    // A new thread, because it changes its namespace repeatedly and stays in the last one.
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

/// Creates a namespace, enters it with the calling thread, names it, and fills it.
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

/// Creates a namespace, enters it with the calling thread, and names it, in the fewest steps.
pub fn make_named(name: &str) -> Result<()> {
    let file = Path::new(FOLDER).join(name);
    // First, because an existing name is not ours.
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

/// Starts a process that waits for the end of our stdin, and so ends with the load in any case.
fn idle() -> Result<()> {
    // It is never waited for: it ends with this process.
    Command::new("cat")
        .stdout(Stdio::null())
        .spawn()
        .map(drop)
        .context("starting cat")
}

/// All numbers have the same width, so that `*` and a sorted listing agree.
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

//! What calls wait at, in words: files, pipes, sockets with their ends, futexes.

use super::names;
use super::{Call, RawWait};
use sockeye_model::{Endpoint, Inode, Protocol, ProtocolSet, Socket, State, StateSet};
use sockeye_source::{BpfEngine, Choice, Detail, Ends, Families, NetnsScope, Query, list};
use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fs;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

/// What is known of descriptors. A number is given again after its file was closed: that it is the same file is certain
/// only of those that were there when we began, and of waits that are not over.
#[derive(Debug)]
pub(super) struct Objects {
    engine: Arc<BpfEngine>,
    /// What descriptors were when we began, by process and number.
    at_first: HashMap<(u32, u64), OsString>,
    /// What they are called. Each is looked at when it is first seen, and keeps that name.
    known: HashMap<(u32, u64), String>,
}

/// A descriptor that is seen for the first time.
#[derive(Debug)]
struct Seen {
    /// None: it is closed, or the process has gone, or is not ours to look at.
    target: Option<OsString>,
    /// Some waits are: they may have been at another file.
    is_over: bool,
}

impl Objects {
    /// `pids`: who is there already.
    pub(super) fn new(engine: Arc<BpfEngine>, pids: &[u32]) -> Self {
        let mut at_first = HashMap::new();
        for &pid in pids {
            for entry in fs::read_dir(format!("/proc/{pid}/fd"))
                .into_iter()
                .flatten()
                .flatten()
            {
                let number = entry.file_name().to_str().and_then(|name| name.parse().ok());
                let target = fs::read_link(entry.path()).ok();
                if at_first.len() < AT_FIRST_MAX
                    && let Some((number, target)) = number.zip(target)
                {
                    at_first.insert((pid, number), target.into_os_string());
                }
            }
            if at_first.len() >= AT_FIRST_MAX {
                break;
            }
        }
        Self {
            engine,
            at_first,
            known: HashMap::new(),
        }
    }

    /// Says of each wait what it is at, where that can be known.
    pub(super) fn name(&mut self, waits: &mut [RawWait]) {
        // 1. What is new.
        let mut new: HashMap<(u32, u64), Seen> = HashMap::new();
        for wait in waits.iter() {
            let Some((call, descriptor)) = wait.call.zip(wait.argument) else {
                continue;
            };
            let key = (wait.whose.pid, descriptor);
            // What is closed is gone by now, and something else may have its number.
            let has_none = is_futex(call) || is_closing(call) || self.known.contains_key(&key);
            if !has_none && self.known.len() + new.len() < KNOWN_MAX {
                let seen = new.entry(key).or_insert_with(|| Seen::now(key));
                seen.is_over |= wait.count > wait.unfinished;
            }
        }
        // 2. What it is called.
        let targets = new.values().filter_map(|seen| seen.target.as_deref());
        let inodes: HashSet<u32> = targets
            .filter_map(|target| inode_of_socket(target.as_bytes()))
            .collect();
        let sockets = match inodes.is_empty() {
            true => HashMap::new(),
            false => self.sockets(&inodes),
        };
        for (key, seen) in new {
            let number = key.1.cast_signed() as i32;
            let Some(target) = seen.target else {
                self.known.insert(key, format!("fd {number}"));
                continue;
            };
            let is_certain = !seen.is_over || self.at_first.get(&key) == Some(&target);
            let last = if is_certain { "" } else { ", last" };
            let words = inode_of_socket(target.as_bytes()).and_then(|inode| sockets.get(&inode));
            let words = words.map_or_else(|| target.to_string_lossy(), Into::into);
            self.known.insert(key, format!("fd {number}{last} {words}"));
        }
        for wait in waits {
            let Some((call, argument)) = wait.call.zip(wait.argument) else {
                continue;
            };
            wait.object = if is_futex(call) {
                Some(format!("futex {argument:#x}"))
            } else if is_closing(call) {
                Some(format!("fd {}", argument.cast_signed() as i32))
            } else {
                self.known.get(&(wait.whose.pid, argument)).cloned()
            };
        }
    }

    /// Asks once for all sockets, wherever they are.
    fn sockets(&self, wanted: &HashSet<u32>) -> HashMap<u32, String> {
        let query = Query {
            protocols: ProtocolSet::ALL,
            families: Families::BOTH,
            states: StateSet::ALL_AND_BOUND,
            detail: Detail::INODE,
            program: &[],
            ends: Ends::ANYWHERE,
            choice: Choice::Auto,
            scope: NetnsScope::All,
        };
        let mut found = HashMap::new();
        // What is not found stays a socket with a number.
        let _ = list(&self.engine, &query, &mut |socket, _| {
            if let Some(Inode(inode)) = socket.inode
                && wanted.contains(&inode)
            {
                found.insert(inode, words(socket));
            }
            ControlFlow::Continue(())
        });
        found
    }
}

impl Seen {
    fn now((pid, descriptor): (u32, u64)) -> Self {
        let number = descriptor.cast_signed() as i32;
        let target = fs::read_link(format!("/proc/{pid}/fd/{number}"));
        Self {
            target: target.ok().map(PathBuf::into_os_string),
            is_over: false,
        }
    }
}

fn is_futex(call: Call) -> bool {
    names::native(call.nr).is_some_and(names::is_futex)
}

fn is_closing(call: Call) -> bool {
    names::native(call.nr).is_some_and(|name| name == "close" || name == "close_range")
}

/// `tcp 10.0.0.2:40112 > 10.0.0.1:443`, `tcp 0.0.0.0:80 listening`, `unix /run/x.sock`
fn words(socket: &Socket) -> String {
    let protocol = match socket.protocol {
        protocol if protocol.is_unix() => "unix",
        Protocol::Netlink => "netlink",
        protocol => protocol.name(),
    };
    let mut words = protocol.to_owned();
    if let Some(local) = end(&socket.local) {
        words = format!("{words} {local}");
    }
    match end(&socket.peer) {
        Some(peer) => format!("{words} > {peer}"),
        None if socket.state == State::Listen => format!("{words} listening"),
        None => words,
    }
}

fn end(endpoint: &Endpoint) -> Option<String> {
    match endpoint {
        Endpoint::Inet { ip, port } if port.0 == 0 && ip.is_unspecified() => None,
        Endpoint::Inet { ip, port } => Some(std::net::SocketAddr::new(ip.to_canonical(), port.0).to_string()),
        // Abstract names begin with a NUL, which is written @.
        Endpoint::Unix { name: Some(name), .. } => {
            Some(String::from_utf8_lossy(name.as_bytes()).replace('\0', "@"))
        }
        _ => None,
    }
}

/// Of `socket:[4711]`.
fn inode_of_socket(target: &[u8]) -> Option<u32> {
    let number = target.strip_prefix(b"socket:[")?.strip_suffix(b"]")?;
    std::str::from_utf8(number).ok()?.parse().ok()
}

/// So many descriptors are read when we begin; of those beyond it is not certain that they are the same later.
const AT_FIRST_MAX: usize = 8_192;

/// So many descriptors are looked at; those beyond have no names.
const KNOWN_MAX: usize = 65_536;

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_model::Port;

    #[test]
    fn sockets_in_words() {
        let inet = |ip: &str, port| Endpoint::Inet {
            ip: ip.parse().unwrap(),
            port: Port(port),
        };
        let mut socket = Socket {
            local: inet("10.0.0.2", 40_112),
            peer: inet("::ffff:10.0.0.1", 443),
            ..Socket::new(Protocol::Tcp, State::Established)
        };
        assert_eq!(words(&socket), "tcp 10.0.0.2:40112 > 10.0.0.1:443");
        socket.peer = inet("::", 0);
        socket.state = State::Listen;
        assert_eq!(words(&socket), "tcp 10.0.0.2:40112 listening");
        socket.local = inet("::1", 53);
        assert_eq!(words(&socket), "tcp [::1]:53 listening");
    }

    #[test]
    fn targets_of_descriptors() {
        assert_eq!(inode_of_socket(b"socket:[4711]"), Some(4711));
        for other in [
            &b"pipe:[4711]"[..],
            b"socket:[]",
            b"socket:[4711",
            b"socket:[99999999999]",
        ] {
            assert_eq!(inode_of_socket(other), None);
        }
    }
}

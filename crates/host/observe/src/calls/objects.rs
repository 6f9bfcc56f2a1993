//! Names of the objects that calls wait for: files, pipes, sockets with their addresses, futexes.

use super::names;
use super::raw::{Call, RawWait};
use sockeye_model::{Endpoint, Inode, Protocol, ProtocolSet, Socket, State, StateSet};
use sockeye_source::{BpfEngine, Choice, Detail, Ends, Families, NetnsScope, Query, list};
use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fs;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

/// Names of file descriptors. A descriptor number is reused after a close: the name is certain only for descriptors that
/// existed at the start and for waits that are still in progress.
#[derive(Debug)]
pub(super) struct Objects {
    engine: Arc<BpfEngine>,
    /// Link targets of descriptors at the start, by process and number.
    initial: HashMap<(u32, u64), OsString>,
    /// Names by process and number. A name is read when the descriptor is first seen and does not change.
    names: HashMap<(u32, u64), String>,
}

/// A descriptor that is seen for the first time.
#[derive(Debug)]
struct NewDescriptor {
    /// Its link target; `None` if it is closed or the process has ended or is not ours to read.
    target: Option<OsString>,
    /// Whether a wait has ended: that may have been for another file.
    has_ended: bool,
}

impl Objects {
    /// Reads the descriptors of the existing processes `pids`.
    pub(super) fn new(engine: Arc<BpfEngine>, pids: &[u32]) -> Self {
        let mut initial = HashMap::new();
        for &pid in pids {
            for entry in fs::read_dir(format!("/proc/{pid}/fd"))
                .into_iter()
                .flatten()
                .flatten()
            {
                let number = entry.file_name().to_str().and_then(|name| name.parse().ok());
                let target = fs::read_link(entry.path()).ok();
                if initial.len() < INITIAL_MAX
                    && let Some((number, target)) = number.zip(target)
                {
                    initial.insert((pid, number), target.into_os_string());
                }
            }
            if initial.len() >= INITIAL_MAX {
                break;
            }
        }
        Self {
            engine,
            initial,
            names: HashMap::new(),
        }
    }

    /// Sets the object of each wait whose call has one.
    pub(super) fn name_objects(&mut self, waits: &mut [RawWait]) {
        // 1. Read new descriptors.
        let mut new: HashMap<(u32, u64), NewDescriptor> = HashMap::new();
        for wait in waits.iter() {
            let Some((call, descriptor)) = wait.call.zip(wait.argument) else {
                continue;
            };
            let key = (wait.process.pid, descriptor);
            // A closed descriptor is gone, and its number may be reused.
            let has_none = is_futex(call) || is_closing(call) || self.names.contains_key(&key);
            if !has_none && self.names.len() + new.len() < NAMES_MAX {
                let seen = new.entry(key).or_insert_with(|| NewDescriptor::read(key));
                seen.has_ended |= wait.count > wait.unfinished;
            }
        }
        // 2. Name them.
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
                self.names.insert(key, format!("fd {number}"));
                continue;
            };
            let is_certain = !seen.has_ended || self.initial.get(&key) == Some(&target);
            let last = if is_certain { "" } else { ", last" };
            let words = inode_of_socket(target.as_bytes()).and_then(|inode| sockets.get(&inode));
            let words = words.map_or_else(|| target.to_string_lossy(), Into::into);
            self.names.insert(key, format!("fd {number}{last} {words}"));
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
                self.names.get(&(wait.process.pid, argument)).cloned()
            };
        }
    }

    /// Returns the sockets with these inodes, in words, from one listing of all namespaces.
    fn sockets(&self, inodes: &HashSet<u32>) -> HashMap<u32, String> {
        let query = Query {
            protocols: ProtocolSet::ALL,
            families: Families::BOTH,
            states: StateSet::ALL_AND_BOUND,
            detail: Detail::INODE,
            program: &[],
            ends: Ends::ANYWHERE,
            choice: Choice::Auto,
            scope: NetnsScope::All,
            quiet: None,
            announce: None,
        };
        let mut found = HashMap::new();
        // On an error the remaining sockets keep their inode as name.
        let _ = list(&self.engine, &query, &mut |socket, _| {
            if let Some(Inode(inode)) = socket.inode
                && inodes.contains(&inode)
            {
                found.insert(inode, words(socket));
            }
            ControlFlow::Continue(())
        });
        found
    }
}

impl NewDescriptor {
    fn read((pid, descriptor): (u32, u64)) -> Self {
        let number = descriptor.cast_signed() as i32;
        let target = fs::read_link(format!("/proc/{pid}/fd/{number}"));
        Self {
            target: target.ok().map(PathBuf::into_os_string),
            has_ended: false,
        }
    }
}

fn is_futex(call: Call) -> bool {
    names::native(call.nr).is_some_and(names::is_futex)
}

fn is_closing(call: Call) -> bool {
    names::native(call.nr).is_some_and(|name| name == "close" || name == "close_range")
}

/// Returns a socket in words: `tcp 10.0.0.2:40112 > 10.0.0.1:443`, `tcp 0.0.0.0:80 listening`, `unix /run/x.sock`
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
        // Abstract names begin with a NUL, which is shown as @.
        Endpoint::Unix { name: Some(name), .. } => {
            Some(String::from_utf8_lossy(name.as_bytes()).replace('\0', "@"))
        }
        _ => None,
    }
}

/// Returns the inode in a link target `socket:[4711]`.
fn inode_of_socket(target: &[u8]) -> Option<u32> {
    let number = target.strip_prefix(b"socket:[")?.strip_suffix(b"]")?;
    std::str::from_utf8(number).ok()?.parse().ok()
}

/// The most descriptors that are read at the start; the names of further ones are never certain.
const INITIAL_MAX: usize = 8_192;

/// The most named descriptors; further ones have no names.
const NAMES_MAX: usize = 65_536;

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_model::Port;

    #[test]
    fn words_of_sockets() {
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
    fn inode_is_parsed_from_socket_targets_only() {
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

//! Child processes with chosen name, user, group and sockets, for tests of socket owners. The child runs
//! `bin/lab-holder.rs`, which opens the sockets and reports them on its stdout.

use crate::child_handle::ChildHandle;
use crate::lab_socket::Family;
use crate::or_panic::OrPanic;
use crate::{Lab, LabSocket, Namespace, Protocol, State, UnixName, wait_for};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

/// The plan of a process: name, namespace, user, sockets. From [`Lab::process`].
#[derive(Debug)]
pub struct ProcessPlan<'lab> {
    lab: &'lab Lab,
    comm: OsString,
    namespace: Option<Namespace>,
    user: Option<(u32, u32)>,
    own_group: bool,
    opens: Vec<(&'static str, OsString, Option<UnixName>)>,
    shared: Option<OwnedFd>,
    taken: Option<LabSocket>,
}

/// A running child process with open sockets; killed and reaped when dropped, or with its lab.
#[derive(Debug)]
pub struct Process {
    pid: u32,
    comm: Vec<u8>,
    user: u32,
    sockets: Vec<LabSocket>,
    living: Arc<ChildHandle>,
}

impl Lab {
    /// Plans a process with this `comm` (the kernel keeps 15 bytes; any byte but NUL).
    pub fn process(&self, comm: impl AsRef<[u8]>) -> ProcessPlan<'_> {
        ProcessPlan {
            lab: self,
            comm: OsString::from_vec(comm.as_ref().to_vec()),
            namespace: None,
            user: None,
            own_group: false,
            opens: Vec::new(),
            shared: None,
            taken: None,
        }
    }
}

impl ProcessPlan<'_> {
    /// Runs it in this network namespace; required before it opens sockets.
    #[must_use]
    pub fn in_namespace(mut self, namespace: &Namespace) -> Self {
        self.namespace = Some(namespace.clone());
        self
    }

    /// Runs it as this user and group: 65534 is the overflow user.
    #[must_use]
    pub fn user(mut self, uid: u32, gid: u32) -> Self {
        self.user = Some((uid, gid));
        self
    }

    /// Makes it the leader of a new process group.
    #[must_use]
    pub fn own_group(mut self) -> Self {
        self.own_group = true;
        self
    }

    /// Opens a TCP listener on an address with a port (0 for any).
    #[must_use]
    pub fn tcp_listen(self, local: &str) -> Self {
        self.open("tcp-listen", local.into(), None)
    }

    /// Connects to an address by TCP.
    #[must_use]
    pub fn tcp_connect(self, peer: SocketAddr) -> Self {
        self.open("tcp-connect", peer.to_string().into(), None)
    }

    /// Opens a TCP listener and connects to itself: three sockets, in the order listener, client, server.
    #[must_use]
    pub fn tcp_pair(self, local: &str) -> Self {
        self.open("tcp-pair", local.into(), None)
    }

    /// Opens a UDP socket on an address.
    #[must_use]
    pub fn udp_bind(self, local: &str) -> Self {
        self.open("udp-bind", local.into(), None)
    }

    /// Opens a UDP socket connected to an address.
    #[must_use]
    pub fn udp_connect(self, peer: SocketAddr) -> Self {
        self.open("udp-connect", peer.to_string().into(), None)
    }

    /// Opens a UNIX stream listener.
    #[must_use]
    pub fn unix_listen(self, name: &UnixName) -> Self {
        let argument = match name {
            UnixName::Path(path) => path.clone().into_os_string(),
            UnixName::Abstract(name) => OsString::from_vec([b"@", &name[..]].concat()),
            UnixName::Unnamed => panic!("lab: a UNIX listener needs a name"),
        };
        self.open("unix-listen", argument, Some(name.clone()))
    }

    /// Shares a socket of this process with it, as descriptor 2. At most one.
    ///
    /// For a socket that two processes share without this one: use `sharing` for one of them, then
    /// [`taking`](Self::taking) for the other.
    #[must_use]
    #[track_caller]
    pub fn sharing(mut self, lab_socket: &LabSocket) -> Self {
        assert!(self.shared.is_none(), "lab: a process shares at most one socket");
        self.shared = Some(lab_socket.duplicate());
        self
    }

    /// Passes a socket of this process to it: only the new process has it, as first in [`Process::sockets`].
    /// The socket's user stays the creator. Counts as sharing.
    #[must_use]
    #[track_caller]
    pub fn taking(mut self, lab_socket: LabSocket) -> Self {
        self = self.sharing(&lab_socket);
        self.taken = Some(lab_socket);
        self
    }

    fn open(mut self, what: &'static str, argument: OsString, name: Option<UnixName>) -> Self {
        self.opens.push((what, argument, name));
        self
    }

    /// Starts it and waits until all sockets are open.
    #[track_caller]
    pub fn start(self) -> Process {
        let mut command = Command::new(self.lab.holder());
        command
            .arg(&self.comm)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        command.args(
            self.opens
                .iter()
                .flat_map(|(what, argument, _)| [OsStr::new(what), argument]),
        );
        if let Some((uid, gid)) = self.user {
            command.uid(uid).gid(gid);
        }
        if self.own_group {
            command.process_group(0);
        }
        match self.shared {
            Some(fd) => command.stderr(Stdio::from(fd)),
            None => command.stderr(Stdio::null()),
        };
        let mut child = match &self.namespace {
            // A child inherits the namespace of the starting thread.
            Some(namespace) => namespace.run(|| spawn(&mut command)),
            None => {
                assert!(
                    self.opens.is_empty(),
                    "lab: a process that opens sockets needs a namespace"
                );
                spawn(&mut command)
            }
        };
        drop(command);
        let pid = child.id();
        let stdout = child.stdout.take();
        let living = Arc::new(ChildHandle::new(child));
        self.lab.adopt(Arc::clone(&living));
        let uid = self
            .user
            .map_or(rustix::process::geteuid().as_raw(), |(uid, _)| uid);
        let mut process = Process {
            pid,
            comm: Vec::new(),
            user: uid,
            sockets: Vec::new(),
            living,
        };

        if let Some(mut lab_socket) = self.taken {
            lab_socket.socket = None;
            lab_socket.pid = Some(pid);
            process.sockets.push(lab_socket);
        }
        let mut names = self.opens.iter().filter_map(|(_, _, name)| name.clone());
        let mut ready = false;
        for line in BufReader::new(stdout.expect("stdout was asked to be a pipe")).lines() {
            let line = line.or_panic("read from the holder");
            match line.split(' ').collect::<Vec<_>>()[..] {
                ["socket", what, inode, local, peer] => {
                    let namespace = self.namespace.as_ref().expect("checked before the start");
                    let name = (what == "unix-listen").then(|| names.next()).flatten();
                    process
                        .sockets
                        .push(describe(namespace, &process, what, [inode, local, peer], name));
                }
                ["ready"] => {
                    ready = true;
                    break;
                }
                _ => panic!("lab: the holder says: {line}"),
            }
        }
        assert!(ready, "lab: the holder ended too early");
        let mut comm = fs::read(format!("/proc/{pid}/comm")).or_panic("read the holder's comm");
        comm.pop();
        process.comm = comm;
        process
    }
}

impl Process {
    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Its process group.
    #[track_caller]
    pub fn group(&self) -> u32 {
        let pid = i32::try_from(self.pid)
            .ok()
            .and_then(rustix::process::Pid::from_raw);
        let group = rustix::process::getpgid(pid).or_panic("getpgid");
        group.as_raw_nonzero().get().unsigned_abs()
    }

    /// Its `comm` as the kernel has it, cut at 15 bytes.
    pub fn comm(&self) -> &[u8] {
        &self.comm
    }

    /// Its user id.
    pub fn uid(&self) -> u32 {
        self.user
    }

    /// Its sockets, in the order of the plan; they have no descriptor in this process.
    pub fn sockets(&self) -> &[LabSocket] {
        &self.sockets
    }

    /// Kills it; its sockets are closed on return.
    pub fn end(self) {}
}

impl Drop for Process {
    fn drop(&mut self) {
        self.living.end();
    }
}

/// Starts the holder; retries on ETXTBSY, which occurs while another thread's child has the copied binary
/// open for writing.
#[track_caller]
fn spawn(command: &mut Command) -> Child {
    wait_for("the holder's start", || match command.spawn() {
        Ok(child) => Some(child),
        Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => None,
        Err(error) => panic!("lab: start the holder: {error}"),
    })
}

/// Describes a socket from the holder's line.
#[track_caller]
fn describe(
    namespace: &Namespace,
    process: &Process,
    what: &str,
    [inode, local, peer]: [&str; 3],
    name: Option<UnixName>,
) -> LabSocket {
    let local: Option<SocketAddr> = local.parse().ok();
    let peer: Option<SocketAddr> = peer.parse().ok();
    let (protocol, state) = match what {
        "tcp-listen" => (Protocol::Tcp, State::Listen),
        "tcp-client" | "tcp-server" => (Protocol::Tcp, State::Established),
        "udp" if peer.is_some() => (Protocol::Udp, State::Established),
        "udp" => (Protocol::Udp, State::Close),
        "unix-listen" => (Protocol::UnixStream, State::Listen),
        other => panic!("lab: the holder made {other}"),
    };
    let family = match local {
        None => Family::Unix,
        Some(SocketAddr::V4(_)) => Family::Inet,
        Some(SocketAddr::V6(_)) => Family::Inet6,
    };
    LabSocket {
        protocol,
        local,
        peer,
        name,
        inode: inode.parse().or_panic("the holder's inode"),
        uid: process.user,
        pid: Some(process.pid),
        send_queue: match what {
            "tcp-listen" => 128,
            "unix-listen" => somaxconn(namespace),
            _ => 0,
        },
        ..LabSocket::without_file(namespace, family, state)
    }
}

/// The standard library uses a backlog of 128 for TCP, and -1 for UNIX, which is the maximum.
fn somaxconn(namespace: &Namespace) -> u32 {
    let text = namespace
        .run(|| fs::read_to_string("/proc/sys/net/core/somaxconn"))
        .or_panic("read somaxconn");
    text.trim().parse().or_panic("somaxconn")
}

//! A network namespace of the lab: runs closures and programs in it, sets sysctls, reads its `/proc/net`. A
//! closure runs on a thread of its own, so the thread of the test never changes its namespace.

use crate::or_panic::OrPanic;
use crate::procnet::{self, Row};
use crate::program::{ip_batch, output_of};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};

/// A network namespace of a [`Lab`](crate::Lab). Cheap to clone; the lab deletes it.
#[derive(Debug, Clone)]
pub struct Namespace(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    name: String,
    label: String,
    path: PathBuf,
    file: File,
    inode: u64,
    links: Mutex<Vec<String>>,
}

impl Namespace {
    #[track_caller]
    pub(crate) fn create(name: &str, label: &str) -> Self {
        ip_batch(None, &format!("netns add {name}\n")).or_panic("add a namespace");
        ip_batch(Some(name), "link set lo up\n").or_panic("bring lo up");
        Self::opened(name, label)
    }

    /// An existing namespace that another owner deletes, such as the lab of another process.
    #[track_caller]
    pub fn open_existing(name: &str) -> Self {
        Self::opened(name, name)
    }

    #[track_caller]
    fn opened(name: &str, label: &str) -> Self {
        let path = Path::new(NETNS_DIRECTORY).join(name);
        let file = File::open(&path).or_panic(format_args!("open {}", path.display()));
        let inode = file
            .metadata()
            .or_panic(format_args!("stat {}", path.display()))
            .ino();
        Self(Arc::new(Inner {
            name: name.to_owned(),
            label: label.to_owned(),
            path,
            file,
            inode,
            links: Mutex::default(),
        }))
    }

    /// The name in `ip netns`.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The last part of the name, as given to [`Lab::namespace`](crate::Lab::namespace).
    pub fn label(&self) -> &str {
        &self.0.label
    }

    /// The file below `/run/netns`.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// The inode of its nsfs file, which identifies it.
    pub fn inode(&self) -> u64 {
        self.0.inode
    }

    /// Runs `act` inside, on a new thread that ends afterwards; passes on a panic.
    ///
    /// Sockets and processes created there belong to the namespace. `/proc/net` still shows the namespace of
    /// the process's first thread: read `/proc/thread-self/net` instead, or use [`proc_net`](Self::proc_net).
    ///
    /// To run a program inside as another user, start a `Command` with `uid` and `gid` in it.
    #[track_caller]
    pub fn run<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        let result = std::thread::scope(|scope| {
            // The thread takes its caller's name, which is the test's: skips and panics print it.
            let caller = std::thread::current();
            let builder = std::thread::Builder::new().name(caller.name().unwrap_or("lab").to_owned());
            let inside = move || {
                move_into_link_name_space(self.0.file.as_fd(), Some(LinkNameSpaceType::Network))
                    .or_panic(format_args!("enter {}", self.0.name));
                act()
            };
            builder
                .spawn_scoped(scope, inside)
                .or_panic("start a thread")
                .join()
        });
        result.unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// A command that runs inside (by `nsenter --net=`, which keeps the mounts).
    pub fn command<S: AsRef<std::ffi::OsStr>>(&self, program: &str, arguments: &[S]) -> Command {
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--net={}", self.0.path.display()))
            .arg("--")
            .arg(program)
            .args(arguments);
        command
    }

    /// Runs a program inside and returns its stdout; panics unless it exits with 0.
    #[track_caller]
    pub fn output<S: AsRef<std::ffi::OsStr>>(&self, program: &str, arguments: &[S]) -> String {
        output_of(self.command(program, arguments))
    }

    /// Runs `ip` inside with these arguments.
    #[track_caller]
    pub fn ip(&self, line: &str) {
        ip_batch(Some(&self.0.name), &format!("{line}\n"))
            .or_panic(format_args!("ip -n {} {line}", self.0.name));
    }

    /// Sets a sysctl of the namespace by its path below `/proc/sys/net`: `ipv4/tcp_fin_timeout`.
    #[track_caller]
    pub fn sysctl(&self, path: &str, value: &str) {
        let file = Path::new("/proc/sys/net").join(path);
        self.run(|| fs::write(&file, value))
            .or_panic(format_args!("write {value} to {}", file.display()));
    }

    /// The text of a file below `/proc/net` in the namespace, such as `tcp6`; empty if the kernel does not
    /// have it.
    pub fn proc_net(&self, file: &str) -> String {
        let path = format!("/proc/thread-self/net/{file}");
        self.run(|| {
            fs::read(&path)
                .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
                .unwrap_or_default()
        })
    }

    /// All TCP sockets in `/proc/net/tcp` and `tcp6`.
    pub fn tcp_rows(&self) -> Vec<Row> {
        procnet::rows(&self.proc_net("tcp"))
            .chain(procnet::rows(&self.proc_net("tcp6")))
            .collect()
    }

    pub(crate) fn note_link(&self, device: &str) {
        self.0
            .links
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(device.to_owned());
    }

    /// Deletes the veth ends created here; deleting the other end may have removed them already.
    pub(crate) fn delete_links(&self) {
        let links = std::mem::take(&mut *self.0.links.lock().unwrap_or_else(PoisonError::into_inner));
        let script: String = links
            .iter()
            .map(|device| format!("link del {device}\n"))
            .collect();
        if !script.is_empty() {
            let _ = ip_batch(Some(&self.0.name), &script);
        }
    }
}

pub(crate) const NETNS_DIRECTORY: &str = "/run/netns";

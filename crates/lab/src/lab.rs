//! Lifetime of a test laboratory: creates namespaces, links and a cgroup, and deletes them on drop. A new lab
//! first deletes what killed test runs left, by the pid in the name. It needs root and `ip`, and is a `Skip`
//! without.

use crate::child_handle::ChildHandle;
use crate::namespace::{NETNS_DIRECTORY, Namespace};
use crate::or_panic::OrPanic;
use crate::program::{ip_batch, output_of, program};
use crate::{Link, Middlebox, Skip, UnixName};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// The laboratory of one test. Everything in it is removed when it is dropped, also if the test panics.
///
/// Namespaces are named `skl-PID-SERIAL-PURPOSE-NAME`, the directory `skl-PID-SERIAL-PURPOSE`, to separate
/// labs of concurrent tests and leftovers of killed runs.
#[derive(Debug)]
pub struct Lab {
    name: String,
    directory: PathBuf,
    namespaces: Mutex<Vec<Namespace>>,
    links: AtomicU32,
    processes: Mutex<Vec<Arc<ChildHandle>>>,
    holder: OnceLock<PathBuf>,
}

impl Lab {
    /// Opens a laboratory, and removes leftovers of dead test runs. `purpose` becomes a part of the names.
    ///
    /// Skips without CAP_NET_ADMIN and CAP_SYS_ADMIN as root, and without iproute2's `ip`.
    pub fn new(purpose: &str) -> Result<Self, Skip> {
        permitted()?;
        program("ip")?;
        sweep();
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}-{serial}-{}", std::process::id(), plain(purpose));
        let directory = std::env::temp_dir().join(&name);
        fs::create_dir(&directory).or_panic(format_args!("create {}", directory.display()));
        // Processes of other users execute the holder binary and bind UNIX sockets in it.
        let open_to_all = fs::Permissions::from_mode(0o1777);
        fs::set_permissions(&directory, open_to_all).or_panic("open the lab's directory to all");
        Ok(Self {
            name,
            directory,
            namespaces: Mutex::default(),
            links: AtomicU32::new(0),
            processes: Mutex::default(),
            holder: OnceLock::new(),
        })
    }

    /// The lab's name, `skl-PID-SERIAL-PURPOSE`: the prefix of all its namespaces' names.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Copies a program to a place where all users may execute it.
    ///
    /// Copied by install(1): a child forked by another test's thread meanwhile would inherit our open
    /// descriptor, and executing the copy would fail with "text file busy".
    #[must_use]
    pub fn copy_for_all_users(&self, program: &Path) -> PathBuf {
        let copy = self
            .directory()
            .join(program.file_name().expect("a program has a name"));
        let mut install = Command::new("install");
        install.args(["-m", "755"]).arg(program).arg(&copy);
        output_of(install);
        copy
    }

    /// The lab's directory, deleted with it.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// A cgroup (version 2) for the lab's processes, deleted with it; they may create cgroups below it.
    pub fn cgroup(&self) -> Result<PathBuf, Skip> {
        let root = cgroup_root().ok_or_else(|| Skip::new("no cgroup2 is mounted"))?;
        let cgroup = root.join(&self.name);
        fs::create_dir(&cgroup)
            .map_err(|error| Skip::new(format!("cannot make cgroup {}: {error}", cgroup.display())))?;
        Ok(cgroup)
    }

    /// A UNIX address by path in the lab's directory; `file` may have any byte but `/` and NUL.
    pub fn unix_path(&self, file: impl AsRef<[u8]>) -> UnixName {
        UnixName::Path(self.directory.join(OsStr::from_bytes(file.as_ref())))
    }

    /// An abstract UNIX address that is unique to the lab: its name, `@`, and `tail`.
    pub fn unix_abstract(&self, tail: impl AsRef<[u8]>) -> UnixName {
        let mut name = self.name.clone().into_bytes();
        name.push(b'@');
        name.extend_from_slice(tail.as_ref());
        UnixName::Abstract(name)
    }

    /// Creates a network namespace that `ip netns` lists, with loopback up.
    #[track_caller]
    pub fn namespace(&self, name: &str) -> Namespace {
        let label = plain(name);
        let namespace = Namespace::create(&format!("{}-{label}", self.name), &label);
        self.namespaces
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(namespace.clone());
        namespace
    }

    /// Connects two namespaces by a veth pair with addresses, both ends up.
    ///
    /// The Nth link of a lab (from 0) has the prefixes `10.77.N.0/24` and `fd77:0:0:N::/64`; `client` gets
    /// host number 1, `server` 2.
    #[track_caller]
    pub fn link(&self, client: &Namespace, server: &Namespace) -> Link {
        let number = self.links.fetch_add(1, Ordering::Relaxed);
        let number = u8::try_from(number).or_panic("number of links");
        Link::create(client, server, number)
    }

    /// Connects two namespaces by a middlebox with addresses: every packet passes through the test.
    ///
    /// The Nth of a lab (from 0) has the prefixes `10.78.N.0/24` and `fd78:0:0:N::/64`; `client` gets host
    /// number 1, `server` 2. Equal seeds impair equal packets.
    #[track_caller]
    pub fn middlebox(&self, client: &Namespace, server: &Namespace, seed: u64) -> Middlebox {
        let number = self.links.fetch_add(1, Ordering::Relaxed);
        let number = u8::try_from(number).or_panic("number of links");
        Middlebox::create(client, server, number, seed)
    }

    /// The holder binary, copied to where every user can execute it.
    pub(crate) fn holder(&self) -> &Path {
        self.holder.get_or_init(|| {
            let path = self.directory.join("lab-holder");
            fs::copy(env!("LAB_HOLDER"), &path).or_panic(format_args!("copy {}", env!("LAB_HOLDER")));
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755))
                .or_panic("make the holder executable");
            path
        })
    }

    pub(crate) fn adopt(&self, process: Arc<ChildHandle>) {
        self.processes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(process);
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // 1. Processes, which would keep namespaces alive.
        let processes = std::mem::take(self.processes.get_mut().unwrap_or_else(PoisonError::into_inner));
        for process in processes {
            process.end();
        }
        // 2. Links, by name: a namespace with an open socket stays alive, with its devices.
        let namespaces = std::mem::take(self.namespaces.get_mut().unwrap_or_else(PoisonError::into_inner));
        for namespace in &namespaces {
            namespace.delete_links();
        }
        // 3. Namespaces, the cgroup and the directory.
        delete_namespaces(namespaces.iter().map(Namespace::name));
        delete_cgroup(&self.name);
        if let Err(error) = fs::remove_dir_all(&self.directory) {
            eprintln!("lab: remove {}: {error}", self.directory.display());
        }
    }
}

/// Removes the namespaces and directories of labs of dead processes.
///
/// Errors are ignored: another process may remove the same leftovers.
fn sweep() {
    let orphaned = |directory: &Path| -> Vec<String> {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        names
            .filter(|name| owner_pid(name).is_some_and(|pid| !is_alive(pid)))
            .collect()
    };
    let namespaces = orphaned(Path::new(NETNS_DIRECTORY));
    if !namespaces.is_empty() {
        delete_namespaces(namespaces.iter().map(String::as_str));
    }
    for cgroup in cgroup_root().iter().flat_map(|root| orphaned(root)) {
        delete_cgroup(&cgroup);
    }
    for directory in orphaned(&std::env::temp_dir()) {
        let _ = fs::remove_dir_all(std::env::temp_dir().join(directory));
    }
}

/// Where cgroup2 is mounted: `DEVICE MOUNTPOINT TYPE ...`.
fn cgroup_root() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/mounts").ok()?;
    let mut lines = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let found = lines.find(|words| words.get(2) == Some(&"cgroup2"))?;
    found.get(1).map(PathBuf::from)
}

/// Deletes a lab's cgroup, if any, and those inside. Called from Drop and from sweeps: never panics.
fn delete_cgroup(lab: &str) {
    fn delete(cgroup: &Path) {
        let inside = fs::read_dir(cgroup).into_iter().flatten().flatten();
        for entry in inside.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
            delete(&entry.path());
        }
        let started = Instant::now();
        // The kernel releases the cgroup of a killed process with a delay.
        while let Err(error) = fs::remove_dir(cgroup) {
            if error.raw_os_error() != Some(EBUSY) || started.elapsed() > Duration::from_secs(2) {
                eprintln!("lab: remove cgroup {}: {error}", cgroup.display());
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    if let Some(cgroup) = cgroup_root()
        .map(|root| root.join(lab))
        .filter(|path| path.is_dir())
    {
        delete(&cgroup);
    }
}

/// Whether a process is alive; a zombie is not, because its sockets and pipes are closed.
fn is_alive(pid: u32) -> bool {
    // PID (COMM) STATE ...: COMM may contain parentheses and spaces.
    let stat = fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat
        .rsplit(|byte| *byte == b')')
        .next()
        .and_then(|rest| rest.get(1));
    stat.contains(&b')') && !matches!(state, Some(b'Z' | b'X'))
}

fn owner_pid(name: &str) -> Option<u32> {
    name.strip_prefix(PREFIX)?.split('-').next()?.parse().ok()
}

fn delete_namespaces<'a>(names: impl Iterator<Item = &'a str>) {
    let script: String = names.map(|name| format!("netns del {name}\n")).collect();
    // Called from Drop: report, never panic.
    if let Err(error) = ip_batch(None, &script) {
        eprintln!("lab: {error}");
    }
}

/// Checks the permissions that every lab needs: root with CAP_NET_ADMIN and CAP_SYS_ADMIN.
fn permitted() -> Result<(), Skip> {
    if !rustix::process::geteuid().is_root() {
        return Err(Skip::new("making namespaces and links needs root"));
    }
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective
        .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .unwrap_or(0);
    for (capability, name) in [(12, "CAP_NET_ADMIN"), (21, "CAP_SYS_ADMIN")] {
        if effective & (1 << capability) == 0 {
            return Err(Skip::new(format!(
                "making namespaces and links needs {name}, which this root lacks"
            )));
        }
    }
    Ok(())
}

/// Reduces a text to characters that are safe for `ip netns` and paths.
fn plain(text: &str) -> String {
    text.chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || c == '_' {
                c
            } else {
                '_'
            }
        })
        .take(32)
        .collect()
}

const PREFIX: &str = "skl-";
const EBUSY: i32 = rustix::io::Errno::BUSY.raw_os_error();

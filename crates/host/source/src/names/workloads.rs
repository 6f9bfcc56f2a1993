//! Names of workloads: containers, units and cgroups by the path of a cgroup, and executables by process. `query` decides
//! whether the cgroup of a socket or that of its owner counts.

use super::append_only_map::AppendOnlyMap;
use super::container_names::ContainerNames;
use sockeye_model::{
    CgroupId, Container, NO_WORKLOAD, Owner, Pid, Socket, WorkloadId, WorkloadKind, cgroup_path,
    is_cgroup2_only, pod_of_cgroup, unit_of_cgroup,
};
use sockeye_wire::proc_pid::socket_inode;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Names of workloads, each with a number; they stay valid as long as it exists.
#[derive(Debug, Default)]
pub struct WorkloadNames {
    names: AppendOnlyMap<WorkloadId, WorkloadName>,
    ids: AppendOnlyMap<(WorkloadKind, Box<[u8]>), Option<WorkloadId>>,
    count: AtomicU32,
    by_cgroup: AppendOnlyMap<CgroupId, CgroupWorkloads>,
    by_file: AppendOnlyMap<Box<[u8]>, CgroupWorkloads>,
    containers: OnceLock<ContainerNames>,
    only_cgroup2: OnceLock<bool>,
}

#[derive(Debug)]
struct WorkloadName {
    text: Box<str>,
    /// Of a container its full id: the text may be its name.
    id: Option<Box<str>>,
}

/// What the cgroup of a socket or process says. Each kind is looked up at its first use: the names of containers may
/// need files.
#[derive(Debug)]
pub struct CgroupWorkloads {
    path: Box<[u8]>,
    container: Option<Container>,
    ids: [OnceLock<Option<WorkloadId>>; 3],
}

/// Why the workload of an owner is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoWorkload {
    /// The process has ended, or another has its pid now.
    Ended,
    /// We may not read it.
    Unreadable,
}

impl WorkloadNames {
    /// Maximum number of names, so that a listing that is repeated for weeks does not grow without end.
    pub const NAMES_MAX: u32 = 65_536;

    /// Returns the name with this number.
    pub(super) fn name(&self, id: WorkloadId) -> Option<&str> {
        self.names.get(&id).map(|name| &*name.text)
    }

    /// Calls `visit` with each text by which filters name a workload: its name; of a container its id, in full and its first
    /// twelve digits; of a service its name without `.service`; of a deleted executable its path; and `none`.
    pub fn visit_names(&self, id: WorkloadId, visit: &mut dyn FnMut(&str)) {
        let Some(name) = self.names.get(&id) else {
            return;
        };
        visit(&name.text);
        if &*name.text == NO_WORKLOAD {
            visit("none");
        }
        for suffix in [".service", DELETED] {
            if let Some(short) = name.text.strip_suffix(suffix) {
                visit(short);
            }
        }
        if let Some(id) = &name.id {
            visit(id);
            visit(&id[..id.len().min(12)]);
        }
    }

    /// Whether all names are in use, so that further workloads are unknown.
    #[must_use]
    pub fn are_full(&self) -> bool {
        self.count.load(Ordering::Relaxed) >= Self::NAMES_MAX
    }

    /// Whether this host uses cgroups v2 only, so that the cgroup of a socket says all.
    pub fn uses_only_cgroup2(&self) -> bool {
        *self.only_cgroup2.get_or_init(|| {
            let file = fs::read("/proc/self/cgroup").unwrap_or_default();
            is_cgroup2_only(&file)
        })
    }

    /// Returns what the cgroup of a socket says; `path` looks up its path.
    pub(super) fn of_cgroup<'a>(
        &self,
        id: CgroupId,
        path: impl FnOnce() -> Option<&'a str>,
    ) -> Option<&CgroupWorkloads> {
        if let Some(known) = self.by_cgroup.get(&id) {
            return Some(known);
        }
        let path = path()?.as_bytes();
        Some(
            self.by_cgroup
                .get_or_insert_with(id, || CgroupWorkloads::new(path, Container::from_cgroup(path))),
        )
    }

    /// Reads what the cgroup of a process says.
    ///
    /// # Errors
    /// When the process has ended, or it may not be read.
    pub fn of_process(&self, pid: Pid) -> Result<&CgroupWorkloads, NoWorkload> {
        Ok(self.of_file(&read(pid, "cgroup")?))
    }

    /// Reads what the cgroup of an owner says.
    ///
    /// # Errors
    /// When the process has ended, another has its pid, or it may not be read.
    pub fn of_owner(&self, socket: &Socket, owner: &Owner) -> Result<&CgroupWorkloads, NoWorkload> {
        let file = read(owner.process.pid, "cgroup")?;
        check_owns(socket, owner)?;
        Ok(self.of_file(&file))
    }

    fn of_file(&self, file: &[u8]) -> &CgroupWorkloads {
        let path = cgroup_path(file).unwrap_or(b"/");
        self.by_file.get_or_insert_with(file.into(), || {
            CgroupWorkloads::new(path, Container::from_cgroup_file(file))
        })
    }

    /// Reads the path of an owner's executable.
    ///
    /// # Errors
    /// As [`Self::of_owner`].
    pub fn executable(&self, socket: &Socket, owner: &Owner) -> Result<Option<WorkloadId>, NoWorkload> {
        let found = self.executable_of_process(owner.process.pid)?;
        check_owns(socket, owner)?;
        Ok(found)
    }

    /// Reads the path of the executable of a process.
    ///
    /// # Errors
    /// As [`Self::of_process`].
    pub fn executable_of_process(&self, pid: Pid) -> Result<Option<WorkloadId>, NoWorkload> {
        let path = fs::read_link(format!("/proc/{pid}/exe")).map_err(|error| no_workload(&error))?;
        Ok(self.intern(WorkloadKind::Exe, path.as_os_str().as_bytes(), None))
    }

    /// Returns the number of a workload's name; `None` if there are too many names.
    pub fn id(&self, of: &CgroupWorkloads, kind: WorkloadKind) -> Option<WorkloadId> {
        let (index, kind) = match kind {
            WorkloadKind::Container => (0, kind),
            WorkloadKind::Unit => (1, kind),
            WorkloadKind::Cgroup | WorkloadKind::Exe => (2, WorkloadKind::Cgroup),
        };
        *of.ids[index].get_or_init(|| match (kind, &of.container) {
            (WorkloadKind::Container, Some(container)) => {
                let names = self.containers.get_or_init(ContainerNames::default);
                let label = names.label(container, pod_of_cgroup(&of.path).as_ref());
                let id = container.has_id().then(|| container.name());
                self.intern(kind, label.as_bytes(), id)
            }
            (WorkloadKind::Container, None) => {
                let names = self.containers.get_or_init(ContainerNames::default);
                let name = names.of_plain_runtime(&of.path);
                self.intern(kind, name.as_deref().unwrap_or(NO_WORKLOAD).as_bytes(), None)
            }
            (WorkloadKind::Unit, _) => {
                let unit = unit_of_cgroup(&of.path).unwrap_or(NO_WORKLOAD.as_bytes());
                self.intern(kind, unit, None)
            }
            _ => self.intern(kind, &of.path, None),
        })
    }

    /// Returns the number of a name that was recorded; `None` if there are too many names.
    pub fn recorded(&self, kind: WorkloadKind, name: &str) -> Option<WorkloadId> {
        self.intern(kind, name.as_bytes(), None)
    }

    fn intern(&self, kind: WorkloadKind, text: &[u8], id: Option<&[u8]>) -> Option<WorkloadId> {
        // Containers of the same name differ in their ids.
        let key = (
            kind,
            [text, b"\0", id.unwrap_or_default()].concat().into_boxed_slice(),
        );
        *self.ids.get_or_insert_with(key, || {
            let number = self.count.fetch_add(1, Ordering::Relaxed);
            if number >= Self::NAMES_MAX {
                self.count.store(Self::NAMES_MAX, Ordering::Relaxed);
                return None;
            }
            let lossy = |text: &[u8]| Box::from(&*String::from_utf8_lossy(text));
            let name = WorkloadName {
                text: lossy(text),
                id: id.map(lossy),
            };
            self.names.insert(WorkloadId(number), name);
            Some(WorkloadId(number))
        })
    }
}

impl CgroupWorkloads {
    fn new(path: &[u8], container: Option<Container>) -> Self {
        Self {
            path: path.into(),
            container,
            ids: Default::default(),
        }
    }

    /// Whether it may be another cgroup than that of what uses the socket: the root, where sockets of the kernel and of hosts
    /// without v2 are, and that of systemd, which opens sockets for services.
    #[must_use]
    pub fn is_vague(&self) -> bool {
        self.container.is_none() && matches!(&*self.path, b"/" | b"/init.scope")
    }
}

impl CgroupWorkloads {
    /// Whether it is the root.
    #[must_use]
    pub fn is_root(&self) -> bool {
        &*self.path == b"/"
    }
}

/// Checks that a process still owns a socket: its pid may be another process's now.
fn check_owns(socket: &Socket, owner: &Owner) -> Result<(), NoWorkload> {
    let link = format!("/proc/{}/fd/{}", owner.process.pid, owner.fd);
    let target = match fs::read_link(link).map_err(|error| no_workload(&error)) {
        Ok(target) => target,
        // BPF shows owners that we may not read.
        Err(NoWorkload::Unreadable) => return Ok(()),
        Err(ended) => return Err(ended),
    };
    let inode = socket_inode(target.as_os_str().as_bytes());
    let is_same = inode.is_some() && inode == socket.inode.map(|inode| inode.0.into());
    is_same.then_some(()).ok_or(NoWorkload::Ended)
}

fn read(pid: Pid, file: &str) -> Result<Vec<u8>, NoWorkload> {
    let mut content = Vec::new();
    let file = File::open(format!("/proc/{pid}/{file}")).map_err(|error| no_workload(&error))?;
    let read = file.take(FILE_LEN_MAX).read_to_end(&mut content);
    read.map_err(|error| no_workload(&error)).map(|_| content)
}

fn no_workload(error: &std::io::Error) -> NoWorkload {
    match error.kind() {
        std::io::ErrorKind::PermissionDenied => NoWorkload::Unreadable,
        _ => NoWorkload::Ended,
    }
}

/// What the kernel appends to the path of an executable that was removed or replaced.
const DELETED: &str = " (deleted)";
/// A dozen hierarchies with paths of at most `PATH_MAX` (4096 bytes).
const FILE_LEN_MAX: u64 = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "9ec39b91f3d70e1beff50a308f77067065ea6be0d91a3378375056cd4422cf3d";

    fn texts(names: &WorkloadNames, id: WorkloadId) -> Vec<String> {
        let mut texts = Vec::new();
        names.visit_names(id, &mut |text| texts.push(text.to_owned()));
        texts
    }

    #[test]
    fn cgroup_gives_container_unit_and_path() {
        let names = WorkloadNames::default();
        names
            .containers
            .set(ContainerNames::below(std::path::Path::new("/nowhere")))
            .unwrap();
        let path = format!("/system.slice/docker-{ID}.scope");
        let of = names.of_cgroup(CgroupId(7), || Some(&path)).unwrap();
        let text = |kind| names.name(names.id(of, kind).unwrap()).unwrap().to_owned();
        assert_eq!(text(WorkloadKind::Container), "docker:9ec39b91f3d7");
        assert_eq!(text(WorkloadKind::Unit), path[14..]);
        assert_eq!(text(WorkloadKind::Cgroup), path);
        let container = names.id(of, WorkloadKind::Container).unwrap();
        assert_eq!(texts(&names, container), ["docker:9ec39b91f3d7", ID, &ID[..12]]);
        assert!(!of.is_vague());
        // It is looked up once.
        assert!(names.of_cgroup(CgroupId(7), || unreachable!()).is_some());
        assert!(names.of_cgroup(CgroupId(8), || None).is_none());
    }

    #[test]
    fn no_container_and_no_unit_have_a_name() {
        let names = WorkloadNames::default();
        let root = names.of_cgroup(CgroupId(1), || Some("/")).unwrap();
        let none = names.id(root, WorkloadKind::Container).unwrap();
        assert_eq!(texts(&names, none), ["(none)", "none"]);
        let unit = names.id(root, WorkloadKind::Unit).unwrap();
        assert_eq!(names.name(unit), Some("(none)"));
        assert_ne!(unit, none, "a number has one kind");
        assert!(root.is_vague());
        let service = names
            .of_cgroup(CgroupId(2), || Some("/system.slice/nginx.service"))
            .unwrap();
        let unit = names.id(service, WorkloadKind::Unit).unwrap();
        assert_eq!(texts(&names, unit), ["nginx.service", "nginx"]);
    }

    #[test]
    fn containers_of_one_name_differ() {
        let names = WorkloadNames::default();
        let one = names.intern(WorkloadKind::Container, b"web", Some(b"1"));
        let other = names.intern(WorkloadKind::Container, b"web", Some(b"2"));
        assert_ne!(one, other);
        assert_eq!(one, names.intern(WorkloadKind::Container, b"web", Some(b"1")));
        let deleted = names
            .intern(WorkloadKind::Exe, b"/bin/a (deleted)", None)
            .unwrap();
        assert_eq!(texts(&names, deleted), ["/bin/a (deleted)", "/bin/a"]);
    }
}

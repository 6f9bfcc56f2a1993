//! Label of a network namespace without a name from `ip netns`: a container, a process or an inode.
//! `SystemNames` asks for it and caches it. What a process file says counts only if the process is still in
//! the namespace.

use super::docker::Docker;
use super::first_processes::{First, KnownCgroup};
use super::{Cgroups, FirstProcesses, Namespaces};
use crate::proc_folder::{Decimal, open_proc};
use crate::process_netns::netns_of;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags, openat};
use sockeye_model::{Container, NetnsInode, Pid, Runtime};

/// The label of a network namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NetnsName {
    /// The shown text.
    pub(super) text: Box<str>,
    /// Its container, which has an id in addition to its name.
    container: Option<Box<Container>>,
}

impl NetnsName {
    /// Returns the label if it is that of a container.
    pub(super) fn container_text(&self) -> Option<&str> {
        self.container.as_ref().map(|_| &*self.text)
    }

    /// Whether `text` names this namespace.
    pub(super) fn matches_text(&self, text: &str) -> bool {
        let container = self.container.as_ref();
        *self.text == *text || container.is_some_and(|container| container.matches_text(text.as_bytes()))
    }
}

/// Finds labels of namespaces.
#[derive(Debug)]
pub(super) struct Finder {
    /// `/proc`; `None` if it cannot be opened.
    proc: Option<OwnedFd>,
    docker: Option<Docker>,
}

impl Finder {
    pub(super) fn new() -> Self {
        Self {
            proc: open_proc().ok(),
            docker: Docker::here(),
        }
    }

    /// Returns the best label for a namespace without a given name:
    ///
    /// 1. the name of the container whose cgroup contains its first process,
    /// 2. its generated name in `/run/netns`,
    /// 3. pid and name of that process: `1234/nginx`,
    /// 4. its inode: `net:[4026532000]`.
    ///
    /// `cgroups` is used only if the first process has the id of its cgroup.
    pub(super) fn find<'a>(
        &self,
        netns: NetnsInode,
        first: &FirstProcesses,
        named: &Namespaces,
        cgroups: impl FnOnce() -> &'a Cgroups,
    ) -> NetnsName {
        let first = first.get(netns);
        let container = first.and_then(|first| self.container(netns, first, cgroups));
        let text = if let Some(container) = &container {
            self.docker_name(container)
                .unwrap_or_else(|| container.to_string())
        } else if let Some(generated) = named.name(netns) {
            generated.to_owned()
        } else {
            let process = first.and_then(|first| self.process(netns, first));
            process.unwrap_or_else(|| format!("net:[{netns}]"))
        };
        NetnsName {
            text: text.into(),
            container: container.map(Box::new),
        }
    }

    fn container<'a>(
        &self,
        netns: NetnsInode,
        first: &First,
        cgroups: impl FnOnce() -> &'a Cgroups,
    ) -> Option<Container> {
        let path = match &first.cgroup {
            Some(KnownCgroup::Path(path)) => Some(&**path),
            Some(KnownCgroup::Id(id)) => cgroups().path(*id).map(str::as_bytes),
            None => None,
        };
        // If cgroups v1 and v2 are both in use, the path in v2 may be that of the runtime's daemon.
        path.and_then(Container::from_cgroup).or_else(|| {
            let file = self.read(netns, first.pid, "/cgroup")?;
            Container::from_cgroup_file(&file)
        })
    }

    fn docker_name(&self, container: &Container) -> Option<String> {
        if container.runtime != Runtime::Docker || !container.has_id() {
            return None;
        }
        self.docker.as_ref()?.name(container.name())
    }

    fn process(&self, netns: NetnsInode, first: &First) -> Option<String> {
        let read_comm = || {
            let file = self.read(netns, first.pid, "/comm")?;
            Some(file.strip_suffix(b"\n").unwrap_or(&file).to_owned())
        };
        let known = first.comm.map(|comm| comm.as_bytes().to_owned());
        let comm = known.or_else(read_comm)?;
        Some(format!("{}/{}", first.pid, String::from_utf8_lossy(&comm)))
    }

    /// Reads the beginning of a file of a process; `None` if the process is no longer in this namespace, so that a reused pid
    /// does not lead to a wrong name.
    fn read(&self, netns: NetnsInode, pid: Pid, file: &str) -> Option<Vec<u8>> {
        let proc = self.proc.as_ref()?.as_fd();
        let path = Decimal::with_suffix(pid.0, file);
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let opened = openat(proc, path.as_c_str(), flags, Mode::empty()).ok()?;
        let mut content = Vec::with_capacity(FILE_LEN_MAX);
        // The kernel writes such a file in one read, or as much of it as fits.
        rustix::io::read(&opened, rustix::buffer::spare_capacity(&mut content)).ok()?;
        // Last: this shows that the pid was not reused during the read.
        (netns_of(proc, pid) == Ok(netns)).then_some(content)
    }
}

/// A dozen hierarchies with long paths take 2 KiB; anything longer is truncated.
const FILE_LEN_MAX: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::super::{SeenCgroup, SeenProcess};
    use super::*;
    use crate::process_netns::own_namespace;
    use sockeye_model::CgroupId;

    const ID: &str = "9ec39b91f3d70e1beff50a308f77067065ea6be0d91a3378375056cd4422cf3d";

    #[track_caller]
    fn named(sighting: SeenProcess<'_>) -> NetnsName {
        let mut first = FirstProcesses::default();
        first.record(&sighting);
        let cgroups = Cgroups::default();
        Finder::new().find(sighting.netns, &first, &Namespaces::default(), || &cgroups)
    }

    #[test]
    fn label_without_proc_uses_comm_and_cgroup() {
        let no_process = SeenProcess::of(NetnsInode(7), Pid(u32::MAX));
        let path = format!("/docker/{ID}");
        let container = named(SeenProcess {
            cgroup: Some(SeenCgroup::Path(path.as_bytes())),
            ..no_process
        });
        assert_eq!(&*container.text, &ID[..12]);
        assert!(
            container.matches_text(ID)
                && container.matches_text(&ID[..12])
                && !container.matches_text(&ID[..11])
        );
        let service = named(SeenProcess {
            comm: Some(b"nginx\xff"),
            cgroup: Some(SeenCgroup::Path(b"/system.slice/nginx.service")),
            ..no_process
        });
        assert_eq!(&*service.text, "4294967295/nginx\u{fffd}");
        assert!(service.matches_text("4294967295/nginx\u{fffd}") && !service.matches_text("nginx"));
        assert_eq!(&*named(no_process).text, "net:[7]");
        let lost = named(SeenProcess {
            cgroup: Some(SeenCgroup::Id(CgroupId(1))),
            ..no_process
        });
        assert_eq!(&*lost.text, "net:[7]");
    }

    #[test]
    fn label_from_proc_needs_the_same_namespace() {
        let own = own_namespace().expect("proc is mounted");
        let pid = Pid(std::process::id());
        let comm = std::fs::read_to_string("/proc/self/comm").unwrap();
        let expected = format!("{pid}/{}", comm.trim_end());
        // In a container the label is that of the container.
        let cgroup = std::fs::read("/proc/self/cgroup").unwrap();
        if Container::from_cgroup_file(&cgroup).is_none() {
            assert_eq!(*named(SeenProcess::of(own, pid)).text, *expected);
        }
        // Another namespace than its own: the pid was reused.
        assert_eq!(&*named(SeenProcess::of(NetnsInode(7), pid)).text, "net:[7]");
    }
}

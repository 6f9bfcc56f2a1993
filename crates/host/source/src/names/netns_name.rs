use super::docker::Docker;
use super::first_processes::{First, KnownCgroup, netns_of, open_proc};
use super::{Cgroups, FirstProcesses, Namespaces};
use crate::owners::Decimal;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags, openat};
use sockeye_model::{Container, NetnsInode, Pid, Runtime};

/// What a network namespace is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NetnsName {
    /// As it is shown.
    pub(super) text: Box<str>,
    /// The container it belongs to, which has an id beside its name.
    container: Option<Box<Container>>,
}

impl NetnsName {
    /// What the container is called, if it is one.
    pub(super) fn container_text(&self) -> Option<&str> {
        self.container.as_ref().map(|_| &*self.text)
    }

    /// Whether somebody who typed `text` means this namespace.
    pub(super) fn matches_text(&self, text: &str) -> bool {
        let container = self.container.as_ref();
        *self.text == *text || container.is_some_and(|container| container.matches_text(text.as_bytes()))
    }
}

/// Finds names, once it has been seen where to look.
#[derive(Debug)]
pub(super) struct Finder {
    /// `None`: processes tell nothing but what came along with them.
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

    /// The best name that can be had for a namespace to which nobody gave one:
    ///
    /// 1. of the container in whose cgroup its first process is,
    /// 2. as a machine made it up, in `/run/netns`,
    /// 3. of that process: `1234/nginx`,
    /// 4. `net:[4026532000]`.
    ///
    /// `cgroups` is asked only if the first process came with the id of its cgroup.
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
        // Where version 1 is in use beside version 2, the path in 2 may be that of the runtime's daemon.
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

    /// The beginning of a file of a process, if that is still in this namespace: a number that was given out
    /// again meanwhile must not lend its new owner's name.
    fn read(&self, netns: NetnsInode, pid: Pid, file: &str) -> Option<Vec<u8>> {
        let proc = self.proc.as_ref()?.as_fd();
        let path = Decimal::with_suffix(pid.0, file);
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let opened = openat(proc, path.as_c_str(), flags, Mode::empty()).ok()?;
        let mut content = Vec::with_capacity(FILE_LEN_MAX);
        // Such a file is written into the buffer at one go, or as much of it as fits.
        rustix::io::read(&opened, rustix::buffer::spare_capacity(&mut content)).ok()?;
        // Last: what was read belongs to whoever had the number before this.
        (netns_of(proc, pid) == Ok(netns)).then_some(content)
    }
}

/// A dozen hierarchies with long paths take 2 KiB; of more than this the rest is not looked at.
const FILE_LEN_MAX: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::super::{SeenCgroup, SeenProcess, namespaces};
    use super::*;
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
    fn from_what_came_along_without_proc() {
        let nobody = SeenProcess::of(NetnsInode(7), Pid(u32::MAX));
        let path = format!("/docker/{ID}");
        let container = named(SeenProcess {
            cgroup: Some(SeenCgroup::Path(path.as_bytes())),
            ..nobody
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
            ..nobody
        });
        assert_eq!(&*service.text, "4294967295/nginx\u{fffd}");
        assert!(service.matches_text("4294967295/nginx\u{fffd}") && !service.matches_text("nginx"));
        assert_eq!(&*named(nobody).text, "net:[7]");
        let lost = named(SeenProcess {
            cgroup: Some(SeenCgroup::Id(CgroupId(1))),
            ..nobody
        });
        assert_eq!(&*lost.text, "net:[7]");
    }

    #[test]
    fn by_proc_if_the_process_is_still_there() {
        let own = namespaces::own().expect("proc is mounted");
        let pid = Pid(std::process::id());
        let comm = std::fs::read_to_string("/proc/self/comm").unwrap();
        let expected = format!("{pid}/{}", comm.trim_end());
        // Whoever tests may do so in a container, and then is named by that.
        let cgroup = std::fs::read("/proc/self/cgroup").unwrap();
        if Container::from_cgroup_file(&cgroup).is_none() {
            assert_eq!(*named(SeenProcess::of(own, pid)).text, *expected);
        }
        // Another namespace than it is in: the number was given out again.
        assert_eq!(&*named(SeenProcess::of(NetnsInode(7), pid)).text, "net:[7]");
    }
}

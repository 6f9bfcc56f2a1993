//! Recognition of containers by the path of their cgroup, for the names in `host/source/src/names/`.
//! Pure: the caller reads `/proc/PID/cgroup`.

use crate::ShortText;
use core::fmt::{self, Write as _};
use sockeye_wire::proc_pid::cgroup_lines;

/// A container, identified by the path of its cgroup.
///
/// Container runtimes give each container a cgroup whose name is or contains the container's id or name. There is no
/// standard for it; [`Container::from_cgroup`] lists the known patterns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Container {
    /// The runtime, as far as the path shows it.
    pub runtime: Runtime,
    name: ShortText<255>,
}

/// A container runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Runtime {
    /// Docker, also as the runtime of Kubernetes
    Docker,
    /// containerd: for Kubernetes, `nerdctl` or `ctr`
    Containerd,
    /// CRI-O
    CriO,
    /// Podman, rootful or rootless
    Podman,
    /// Kubernetes by a runtime that the path does not name
    Kubernetes,
    /// `systemd-nspawn`, or another program that registered a machine with `systemd-machined`
    Nspawn,
    /// LXC, LXD, Incus, Proxmox VE
    Lxc,
    /// libvirt: its LXC containers and virtual machines
    Libvirt,
    /// Cloud Foundry's Garden
    Garden,
    /// A step of a BuildKit build
    Buildkit,
    /// A task of Nomad that no other runtime runs
    Nomad,
    /// A container of Amazon ECS on Fargate
    Ecs,
    /// Unknown: the folder is named by an id, as container runtimes do.
    Other,
}

impl Runtime {
    /// The name, in lower case.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Containerd => "containerd",
            Self::CriO => "cri-o",
            Self::Podman => "podman",
            Self::Kubernetes => "kubernetes",
            Self::Nspawn => "nspawn",
            Self::Lxc => "lxc",
            Self::Libvirt => "libvirt",
            Self::Garden => "garden",
            Self::Buildkit => "buildkit",
            Self::Nomad => "nomad",
            Self::Ecs => "ecs",
            Self::Other => "container",
        }
    }
}

impl fmt::Display for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Container {
    /// Returns the container whose cgroup contains this path; the innermost of nested ones; `None` if there is none.
    ///
    /// `path` is the third column of `/proc/PID/cgroup` or a path below the cgroup mount. `ID` is 64 hexadecimal
    /// digits, `NAME` anything.
    ///
    /// | folder | by |
    /// |---|---|
    /// | `docker/ID`, `docker-ID.scope` | Docker with cgroupfs, with systemd |
    /// | `cri-containerd-ID.scope`, `SLICE:cri-containerd:ID`, `nerdctl-ID.scope`, `/default/NAME`, `/k8s.io/ID` | containerd |
    /// | `crio-ID.scope`, `crio-ID`, `SLICE:crio:ID` | CRI-O |
    /// | `libpod-ID.scope`, `libpod-ID`, `libpod-payload-ID` | Podman with systemd, with cgroupfs, with split cgroups |
    /// | `podUID/ID` | Kubernetes with cgroupfs |
    /// | `machine-NAME.scope`, `systemd-nspawn@NAME.service` | systemd |
    /// | `machine-qemu\x2dN\x2dNAME.scope`, `machine-lxc\x2dN\x2dNAME.scope` | libvirt |
    /// | `lxc/NAME`, `lxc.payload/NAME`, `lxc.payload.NAME` | LXC and its kin |
    /// | `garden/NAME` | Garden |
    /// | `buildkit/NAME`, `SLICE:buildkit:NAME` | BuildKit |
    /// | `nomad.slice/share.slice/UUID.TASK.scope`, `nomad/UUID` | Nomad |
    /// | `ecs/TASK/TASK-NUMBER` (32 digits) | ECS on Fargate |
    /// | `ID`, `WORD-ID.scope` | some runtime |
    ///
    /// The runtimes' own helpers (`libpod-conmon-ID.scope`, `crio-conmon-ID.scope`, `lxc.monitor.NAME`) are outside
    /// of their containers, and none.
    ///
    /// Sources: `libcontainer/cgroups/systemd` of runc (`PREFIX-NAME.scope`), containerd's `getCgroupsPath()`,
    /// CRI-O's `cgmgr`, Podman's `libpod/util_linux.go`, systemd's `src/machine/machine.c`, lxc.container.conf(5),
    /// libvirt's `virSystemdMakeScopeName()`, BuildKit's `executor/oci/spec_linux.go`.
    ///
    /// ```
    /// use sockeye_model::{Container, Runtime};
    ///
    /// let container = Container::from_cgroup(b"/machine.slice/machine-web\\x2d1.scope/payload/init.scope").unwrap();
    /// assert_eq!((container.runtime, container.name()), (Runtime::Nspawn, &b"web-1"[..]));
    /// assert_eq!(Container::from_cgroup(b"/system.slice/nginx.service"), None);
    /// ```
    #[must_use]
    pub fn from_cgroup(path: &[u8]) -> Option<Self> {
        // What the kernel adds to the path of a cgroup that was removed under its processes.
        let path = path.strip_suffix(b" (deleted)").unwrap_or(path);
        let mut rest = path;
        // From the inside out.
        loop {
            let slash = rest.iter().rposition(|&byte| byte == b'/')?;
            let (before, folder) = (&rest[..slash], &rest[slash + 1..]);
            if let Some(container) = Self::from_folder(before, folder) {
                return Some(container);
            }
            rest = before;
        }
    }

    /// Returns the container of a process from its `/proc/PID/cgroup`; `None` if there is none.
    ///
    /// With cgroups v1 a process has a cgroup in each of several hierarchies, and not every runtime uses all of
    /// them: the line that names its runtime wins, then the first.
    #[must_use]
    pub fn from_cgroup_file(file: &[u8]) -> Option<Self> {
        let all = || cgroup_lines(file).filter_map(|line| Self::from_cgroup(line.path));
        let is_vague = |container: &Self| matches!(container.runtime, Runtime::Other | Runtime::Kubernetes);
        all()
            .find(|container| !is_vague(container))
            .or_else(|| all().next())
    }

    fn from_folder(before: &[u8], folder: &[u8]) -> Option<Self> {
        let parent = before.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        if folder.is_empty() || folder == b".." {
            return None;
        }
        if is_id(folder) {
            let runtime = match parent {
                b"docker" | b"moby" => Runtime::Docker,
                b"default" | b"k8s.io" => Runtime::Containerd,
                b"libpod_parent" => Runtime::Podman,
                b"garden" => Runtime::Garden,
                pod if pod.starts_with(b"pod") => Runtime::Kubernetes,
                _ => Runtime::Other,
            };
            return Some(Self::new(runtime, folder));
        }
        if let Some(name) = folder
            .strip_prefix(b"lxc.payload.")
            .filter(|name| !name.is_empty())
        {
            return Some(Self::new(Runtime::Lxc, name));
        }
        if is_below(before, b"nomad") && nomad_task(folder).is_some() {
            return nomad_task(folder).map(|task| Self::new(Runtime::Nomad, task));
        }
        if is_below(before, b"ecs") && is_fargate(parent, folder) {
            return Some(Self::new(Runtime::Ecs, folder));
        }
        match (before, parent) {
            (_, b"lxc" | b"lxc.payload") => return Some(Self::new(Runtime::Lxc, folder)),
            (_, b"garden") => return Some(Self::new(Runtime::Garden, folder)),
            (_, b"buildkit") => return Some(Self::new(Runtime::Buildkit, folder)),
            // `ctr` uses containerd's namespace as the folder, and others may use the name `default` too.
            (b"/default", _) => return Some(Self::new(Runtime::Containerd, folder)),
            _ => {}
        }
        if let Some(instance) = folder.strip_prefix(b"systemd-nspawn@") {
            let name = instance
                .strip_suffix(b".service")
                .filter(|name| !name.is_empty())?;
            return Some(Self::unescaped(Runtime::Nspawn, name));
        }
        // A runtime configured for systemd under one that is not.
        let mut parts = folder.rsplit(|&byte| byte == b':');
        if let (Some(id), Some(prefix), Some(_)) = (parts.next(), parts.next(), parts.next()) {
            return Self::prefixed(prefix, id);
        }
        let scope = folder.strip_suffix(b".scope");
        if let Some(name) = scope.and_then(|scope| scope.strip_prefix(b"machine-")) {
            return (!name.is_empty()).then(|| Self::machine(name));
        }
        let unit = scope.unwrap_or(folder);
        let dash = unit.len().checked_sub(ID_LEN + 1)?;
        let (prefix, id) = (&unit[..dash], unit[dash..].strip_prefix(b"-")?);
        Self::prefixed(prefix, id)
    }

    fn prefixed(prefix: &[u8], id: &[u8]) -> Option<Self> {
        if prefix == b"buildkit" && !id.is_empty() {
            return Some(Self::new(Runtime::Buildkit, id));
        }
        if !is_id(id) {
            return None;
        }
        let runtime = match prefix {
            b"docker" => Runtime::Docker,
            b"cri-containerd" | b"nerdctl" | b"containerd" => Runtime::Containerd,
            b"crio" => Runtime::CriO,
            b"libpod" | b"libpod-payload" => Runtime::Podman,
            helper if helper.ends_with(b"conmon") => return None,
            _ => Runtime::Other,
        };
        Some(Self::new(runtime, id))
    }

    fn machine(escaped: &[u8]) -> Self {
        let machine = Self::unescaped(Runtime::Nspawn, escaped);
        let by_libvirt = [&b"qemu-"[..], b"lxc-"].into_iter().find_map(|driver| {
            let rest = machine.name().strip_prefix(driver)?;
            let dash = rest.iter().position(|&byte| byte == b'-')?;
            let (number, name) = (&rest[..dash], &rest[dash + 1..]);
            let is_number = dash > 0 && number.iter().all(u8::is_ascii_digit);
            (is_number && !name.is_empty()).then(|| Self::new(Runtime::Libvirt, name))
        });
        by_libvirt.unwrap_or(machine)
    }

    fn new(runtime: Runtime, name: &[u8]) -> Self {
        Self {
            runtime,
            name: ShortText::new(name),
        }
    }

    /// Decodes as systemd's `unit_name_unescape()`, but keeps `-`, since a machine name has no slash.
    fn unescaped(runtime: Runtime, escaped: &[u8]) -> Self {
        let mut plain = [0; 255];
        let mut len = 0;
        let mut rest = escaped;
        while let ([first, after @ ..], Some(place)) = (rest, plain.get_mut(len)) {
            (*place, rest) = (*first, after);
            if let (b'\\', [b'x', high, low, after @ ..]) = (first, after)
                && let (Some(high), Some(low)) = (digit(*high), digit(*low))
            {
                (*place, rest) = (high << 4 | low, after);
            }
            len += 1;
        }
        Self::new(runtime, &plain[..len])
    }

    /// Returns the full name or id: any bytes.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        self.name.as_bytes()
    }

    /// Returns the name, or the first twelve digits of the id, as the runtimes' own tools print it.
    #[must_use]
    pub fn short_name(&self) -> &[u8] {
        let name = self.name();
        if self.has_id() { &name[..SHORT_LEN] } else { name }
    }

    /// Whether only the id is known, no name.
    #[must_use]
    pub fn has_id(&self) -> bool {
        is_id(self.name())
    }

    /// Whether `text` is its name, or at least the first twelve digits of its id.
    #[must_use]
    pub fn matches_text(&self, text: &[u8]) -> bool {
        text == self.name() || self.has_id() && text.len() >= SHORT_LEN && self.name().starts_with(text)
    }
}

/// Writes the [short name](Container::short_name). U+FFFD replaces invalid UTF-8; control characters are
/// left to the caller.
impl fmt::Display for Container {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.short_name().utf8_chunks() {
            f.write_str(chunk.valid())?;
            if !chunk.invalid().is_empty() {
                f.write_char(char::REPLACEMENT_CHARACTER)?;
            }
        }
        Ok(())
    }
}

/// Length of an id: 256 bits in hexadecimal digits, as Docker, containerd, CRI-O and Podman use.
const ID_LEN: usize = 64;
/// Length of a short id in `docker ps`, `podman ps` and `crictl ps` (crictl: 13).
const SHORT_LEN: usize = 12;

fn is_id(text: &[u8]) -> bool {
    text.len() == ID_LEN && text.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Whether a folder of this name, or a slice, is among the last two of a path.
fn is_below(path: &[u8], name: &[u8]) -> bool {
    let mut folders = path.rsplit(|&byte| byte == b'/').take(2);
    folders.any(|folder| folder.strip_suffix(b".slice").unwrap_or(folder) == name)
}

/// Returns `UUID.TASK`, or only the `UUID` with cgroups v1.
fn nomad_task(folder: &[u8]) -> Option<&[u8]> {
    let task = folder.strip_suffix(b".scope").unwrap_or(folder);
    let (uuid, rest) = task.split_at_checked(36)?;
    let is_uuid = uuid.iter().enumerate().all(|(at, byte)| match at {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    });
    let is_task = rest.is_empty() || rest.len() > 1 && rest[0] == b'.';
    (is_uuid && is_task).then_some(task)
}

/// Whether a folder is `TASK-NUMBER` in the folder `TASK`.
fn is_fargate(task: &[u8], folder: &[u8]) -> bool {
    let number = folder.strip_prefix(task).and_then(|rest| rest.strip_prefix(b"-"));
    task.len() == 32
        && task.iter().all(u8::is_ascii_hexdigit)
        && number.is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit))
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "9ec39b91f3d70e1beff50a308f77067065ea6be0d91a3378375056cd4422cf3d";
    const OUTER: &str = "4f797c539e6c745de61a93ca3ff892358ecbcaccd8414d5db545c38428142970";

    #[track_caller]
    fn check(path: &str, expected: Option<(Runtime, &str)>) {
        let path = path.replace("ID", ID).replace("OUTER", OUTER);
        let found = Container::from_cgroup(path.as_bytes());
        let found = found
            .as_ref()
            .map(|found| (found.runtime, std::str::from_utf8(found.name()).unwrap()));
        let expected = expected.map(|(runtime, name)| (runtime, if name == "ID" { ID } else { name }));
        assert_eq!(found, expected, "{path}");
    }

    #[test]
    fn known_cgroup_paths_are_containers() {
        use Runtime as R;
        for (path, runtime, name) in [
            ("/docker/ID", R::Docker, "ID"),
            ("/system.slice/docker-ID.scope", R::Docker, "ID"),
            (
                "/user.slice/user-1000.slice/user@1000.service/user.slice/docker-ID.scope",
                R::Docker,
                "ID",
            ),
            ("/docker/ID/system.slice/nginx.service", R::Docker, "ID"),
            ("/docker/ID (deleted)", R::Docker, "ID"),
            ("/../ID", R::Other, "ID"),
            ("/ID", R::Other, "ID"),
            ("/ecs/prod/0123456789abcdef/ID", R::Other, "ID"),
            (
                "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod2c48913c_b29f_11e7_9350_020968147796.slice/cri-containerd-ID.scope",
                R::Containerd,
                "ID",
            ),
            (
                "/system.slice/containerd.service/kubepods-besteffort-podb41662f7_b03a_4c65_8ef9_6e4e55c3cf27.slice:cri-containerd:ID",
                R::Containerd,
                "ID",
            ),
            ("/kubepods-besteffort-pod1.slice:crio:ID", R::CriO, "ID"),
            ("/system.slice/nerdctl-ID.scope", R::Containerd, "ID"),
            ("/default/web", R::Containerd, "web"),
            ("/default/ID", R::Containerd, "ID"),
            ("/k8s.io/ID", R::Containerd, "ID"),
            ("/moby/ID", R::Docker, "ID"),
            (
                "/kubepods/burstable/pod2c48913c-b29f-11e7-9350-020968147796/ID",
                R::Kubernetes,
                "ID",
            ),
            (
                "/kubepods/pod2c48913c-b29f-11e7-9350-020968147796/crio-ID",
                R::CriO,
                "ID",
            ),
            ("/kubepods.slice/kubepods-pod1.slice/crio-ID.scope", R::CriO, "ID"),
            (
                "/kubepods.slice/kubepods-pod1.slice/crio-ID.scope/container",
                R::CriO,
                "ID",
            ),
            (
                "/kubepods.slice/kubepods-pod1.slice/docker-ID.scope",
                R::Docker,
                "ID",
            ),
            ("/machine.slice/libpod-ID.scope", R::Podman, "ID"),
            ("/machine.slice/libpod-ID.scope/container", R::Podman, "ID"),
            ("/libpod_parent/libpod-ID", R::Podman, "ID"),
            (
                "/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-ID.scope/container",
                R::Podman,
                "ID",
            ),
            (
                "/user.slice/user-1000.slice/user@1000.service/app.slice/redis.service/libpod-payload-ID",
                R::Podman,
                "ID",
            ),
            ("/machine.slice/machine-web.scope/payload", R::Nspawn, "web"),
            (
                "/machine.slice/machine-my\\x2dweb\\x2d1.scope/payload/init.scope",
                R::Nspawn,
                "my-web-1",
            ),
            (
                "/machine.slice/systemd-nspawn@my-web.service/payload/system.slice/ssh.service",
                R::Nspawn,
                "my-web",
            ),
            (
                "/machine.slice/machine-qemu\\x2d3\\x2dmy\\x2dvm.scope/libvirt/emulator",
                R::Libvirt,
                "my-vm",
            ),
            (
                "/machine.slice/machine-lxc\\x2d2001\\x2dbox.scope",
                R::Libvirt,
                "box",
            ),
            ("/machine.slice/machine-lxc\\x2dbox.scope", R::Nspawn, "lxc-box"),
            ("/machine.slice/machine-odd\\x2.scope", R::Nspawn, "odd\\x2"),
            ("/lxc/web", R::Lxc, "web"),
            ("/lxc/101/ns/init.scope", R::Lxc, "101"),
            ("/lxc.payload.web-1", R::Lxc, "web-1"),
            (
                "/lxc.payload.project_web/system.slice/nginx.service",
                R::Lxc,
                "project_web",
            ),
            ("/lxc.payload/web/init.scope", R::Lxc, "web"),
            (
                "/garden/d5bd8e4e-0b1c-4a0f-4d5c-7e2f",
                R::Garden,
                "d5bd8e4e-0b1c-4a0f-4d5c-7e2f",
            ),
            (
                "/docker/buildkit/5cf82fwiumld3vcs5d5l5pzyv",
                R::Buildkit,
                "5cf82fwiumld3vcs5d5l5pzyv",
            ),
            (
                "/system.slice:buildkit:5cf82fwiumld3vcs5d5l5pzyv",
                R::Buildkit,
                "5cf82fwiumld3vcs5d5l5pzyv",
            ),
            (
                "/nomad.slice/share.slice/2c48913c-b29f-11e7-9350-020968147796.web.scope",
                R::Nomad,
                "2c48913c-b29f-11e7-9350-020968147796.web",
            ),
            (
                "/nomad/2c48913c-b29f-11e7-9350-020968147796",
                R::Nomad,
                "2c48913c-b29f-11e7-9350-020968147796",
            ),
            (
                "/ecs/0123456789abcdef0123456789abcdef/0123456789abcdef0123456789abcdef-4255023470",
                R::Ecs,
                "0123456789abcdef0123456789abcdef-4255023470",
            ),
            ("/system.slice/made-up-ID.scope", R::Other, "ID"),
        ] {
            check(path, Some((runtime, name)));
        }
    }

    #[test]
    fn innermost_container_wins() {
        use Runtime as R;
        for (path, runtime) in [
            ("/docker/OUTER/docker/ID", R::Docker),
            (
                "/docker/OUTER/kubelet/kubepods/besteffort/pod1-2/ID",
                R::Kubernetes,
            ),
            (
                "/docker/OUTER/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod1.slice/cri-containerd-ID.scope",
                R::Containerd,
            ),
            (
                "/machine.slice/machine-web.scope/payload/system.slice/docker-ID.scope",
                R::Docker,
            ),
            ("/lxc.payload.outer/machine.slice/libpod-ID.scope", R::Podman),
        ] {
            check(path, Some((runtime, "ID")));
        }
        check(
            "/lxc.payload.outer/lxc.payload.inner/init.scope",
            Some((R::Lxc, "inner")),
        );
    }

    #[test]
    fn other_paths_are_no_containers() {
        for path in [
            "",
            "/",
            "//",
            "docker-ID.scope", // no path
            "/system.slice/nginx.service",
            "/user.slice/user-1000.slice/session-1.scope",
            "/system.slice/docker.service",
            "/system.slice/containerd.service",
            "/machine.slice/libpod-conmon-ID.scope",
            "/system.slice/crio-conmon-ID.scope",
            "/lxc.monitor.web",
            "/lxc.monitor/web",
            "/lxc.payload.",
            "/lxc/",
            "/lxc",
            "/default",
            "/a/default/web",
            "/docker/web",
            "/system.slice/docker-9ec39b91f3d7.scope",
            "/system.slice/docker-IDf.scope",
            "/system.slice/dockerID.scope",
            "/a:b:c",
            "/kubepods/burstable/pod2c48913c-b29f-11e7-9350-020968147796",
            "/machine.slice/systemd-nspawn@web",
            "/machine.slice/systemd-nspawn@.service",
            "/machine.slice/machine-.scope",
            "/nomad.slice/share.slice",
            "/nomad.slice/2c48913c-b29f-11e7-9350-02096814779z.web.scope",
            "/ecs/0123456789abcdef0123456789abcdef",
            "/ecs/0123456789abcdef0123456789abcdef/0123456789abcdef0123456789abcdef-",
            "/a/0123456789abcdef0123456789abcdef/0123456789abcdef0123456789abcdef-1",
        ] {
            check(path, None);
        }
    }

    #[test]
    fn names_and_id_prefixes_match() {
        let container = Container::from_cgroup(format!("/docker/{ID}").as_bytes()).unwrap();
        assert_eq!(container.to_string(), "9ec39b91f3d7");
        assert!(container.matches_text(ID.as_bytes()) && container.matches_text(&ID.as_bytes()[..12]));
        assert!(container.matches_text(&ID.as_bytes()[..30]));
        for other in [&ID[..11], "", &format!("{ID}0"), &ID[1..20]] {
            assert!(!container.matches_text(other.as_bytes()), "{other}");
        }
        let machine = Container::from_cgroup(b"/lxc/twelve-letters-and-more").unwrap();
        assert_eq!(machine.to_string(), "twelve-letters-and-more");
        assert!(!machine.matches_text(b"twelve-letters"));
        let odd = Container::from_cgroup(b"/lxc/a\xff\x1b[31m").unwrap();
        assert_eq!(odd.to_string(), "a\u{fffd}\u{1b}[31m");
    }

    #[test]
    fn line_with_known_runtime_wins() {
        let file = format!("0::/../{ID}\n9:name=systemd:/\n4:memory:/docker/{ID}\n");
        let container = Container::from_cgroup_file(file.as_bytes()).unwrap();
        assert_eq!(
            (container.runtime, container.name()),
            (Runtime::Docker, ID.as_bytes())
        );
        let vague = format!("9:pids:/\n0::/../{ID}\n");
        let container = Container::from_cgroup_file(vague.as_bytes());
        assert_eq!(container.map(|container| container.runtime), Some(Runtime::Other));
        assert_eq!(Container::from_cgroup_file(b"1:name=systemd:/\n0::/\n"), None);
    }

    #[test]
    fn arbitrary_bytes_do_not_panic() {
        // Pieces of patterns in any order reach every boundary of the parser.
        let pieces: [&[u8]; 16] = [
            b"/",
            b":",
            b"-",
            b".scope",
            b"machine-",
            b"\\x2",
            b"\\x2d",
            b"\\",
            ID.as_bytes(),
            b"lxc",
            b"lxc.payload.",
            b"systemd-nspawn@",
            b".service",
            b"qemu-1-",
            b"\xff\0\n",
            b" (deleted)",
        ];
        let mut state = 1_u64;
        for _ in 0..200_000 {
            let mut path = Vec::new();
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            for shift in 0..(state >> 60) {
                path.extend_from_slice(pieces[(state >> (4 * shift) & 15) as usize]);
            }
            if let Some(container) = Container::from_cgroup(&path) {
                assert!(!container.name().is_empty(), "{}", path.escape_ascii());
                assert!(!container.to_string().is_empty());
            }
            let _ = Container::from_cgroup_file(&path);
        }
        let long = [b"/lxc/".as_slice(), &[b'a'; 5000]].concat();
        assert_eq!(Container::from_cgroup(&long).unwrap().name().len(), 255);
        let escaped = format!("/machine-{}.scope", "\\x41".repeat(300));
        assert_eq!(
            Container::from_cgroup(escaped.as_bytes()).unwrap().name(),
            [b'A'; 255]
        );
    }
}

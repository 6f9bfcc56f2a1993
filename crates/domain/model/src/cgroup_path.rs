//! What the path of a cgroup says about its processes besides their container: the systemd unit, and the pod of
//! Kubernetes. Pure, on any bytes.

use crate::ShortText;
use sockeye_wire::proc_pid::cgroup_lines;

/// Returns the path of a process's cgroup, from its `/proc/PID/cgroup`; `None` if there is none.
///
/// With cgroups v1 a process has a path in each of several hierarchies. That of v2 wins, then that of systemd's own
/// hierarchy, unless they are the root: on hosts with both, one of them may be unused. A cgroup that was removed under its
/// process has its former path.
///
/// ```
/// let file = b"4:memory:/docker\n1:name=systemd:/system.slice/nginx.service\n0::/\n";
/// assert_eq!(sockeye_model::cgroup_path(file), Some(&b"/system.slice/nginx.service"[..]));
/// ```
#[must_use]
pub fn cgroup_path(file: &[u8]) -> Option<&[u8]> {
    let of = |controllers: &[u8]| {
        cgroup_lines(file)
            .find(|line| line.controllers == controllers)
            .map(|line| line.path.strip_suffix(b" (deleted)").unwrap_or(line.path))
    };
    let both = [of(b""), of(b"name=systemd")];
    let says_more = |path: &&[u8]| *path != b"/";
    both.into_iter()
        .flatten()
        .find(says_more)
        .or_else(|| both.into_iter().flatten().next())
}

/// Whether `/proc/self/cgroup` shows that this host uses cgroups v2 only: then the kernel's cgroup of a socket says
/// all.
#[must_use]
pub fn is_cgroup2_only(file: &[u8]) -> bool {
    let is_used = |controllers: &[u8]| !controllers.starts_with(b"name=") || controllers == b"name=systemd";
    let mut has_v2 = false;
    for line in cgroup_lines(file) {
        if line.controllers.is_empty() {
            has_v2 = true;
        } else if is_used(line.controllers) {
            return false;
        }
    }
    has_v2
}

/// Returns the systemd unit of a cgroup: the innermost service or scope; slices are none. A unit of a user's own systemd
/// is inside of `user@UID.service`.
///
/// ```
/// let path = b"/user.slice/user-1000.slice/user@1000.service/app.slice/backup.service";
/// assert_eq!(sockeye_model::unit_of_cgroup(path), Some(&b"backup.service"[..]));
/// ```
#[must_use]
pub fn unit_of_cgroup(path: &[u8]) -> Option<&[u8]> {
    let path = path.strip_suffix(b" (deleted)").unwrap_or(path);
    path.rsplit(|&byte| byte == b'/').find(|folder| is_unit(folder))
}

fn is_unit(folder: &[u8]) -> bool {
    let name = folder
        .strip_suffix(b".service")
        .or_else(|| folder.strip_suffix(b".scope"));
    // `UNIT_NAME_MAX` of systemd includes a NUL. Its characters (`VALID_CHARS`) include `@`, `\` and `:`.
    let is_valid = |byte: &u8| byte.is_ascii_alphanumeric() || b":-_.\\@".contains(byte);
    name.is_some_and(|name| !name.is_empty() && folder.len() < 256 && name.iter().all(is_valid))
}

/// Returns the uid of the innermost Kubernetes pod in the path of a cgroup: `podUID` with cgroupfs,
/// `kubepods-QOS-podUID.slice` with systemd, which has `_` for `-`. The uid of a static pod is a hash without `-`.
///
/// ```
/// let path = b"/kubepods.slice/kubepods-pod2c48913c_b29f_11e7_9350_020968147796.slice/cri-containerd-1f.scope";
/// let uid = sockeye_model::pod_of_cgroup(path).unwrap();
/// assert_eq!(uid.as_bytes(), b"2c48913c-b29f-11e7-9350-020968147796");
/// ```
#[must_use]
pub fn pod_of_cgroup(path: &[u8]) -> Option<ShortText<36>> {
    path.rsplit(|&byte| byte == b'/').find_map(|folder| {
        // `SLICE:RUNTIME:ID` of a runtime configured for systemd under one that is not.
        let folder = folder.split(|&byte| byte == b':').next().unwrap_or_default();
        let uid = match folder.strip_suffix(b".slice") {
            Some(slice) => after_last_pod(slice)?,
            None if folder.starts_with(b"pod") => &folder[3..],
            None => after_last_pod(folder)?,
        };
        let mut plain = [0; 36];
        let plain = plain.get_mut(..uid.len())?;
        plain.copy_from_slice(uid);
        for byte in &mut *plain {
            if *byte == b'_' {
                *byte = b'-';
            }
        }
        let is_uid = |byte: &u8| byte.is_ascii_hexdigit() || *byte == b'-';
        ([32, 36].contains(&plain.len()) && plain.iter().all(is_uid)).then(|| ShortText::new(plain))
    })
}

fn after_last_pod(slice: &[u8]) -> Option<&[u8]> {
    let start = slice.windows(4).rposition(|part| part == b"-pod")?;
    Some(&slice[start + 4..])
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "9ec39b91f3d70e1beff50a308f77067065ea6be0d91a3378375056cd4422cf3d";

    #[track_caller]
    fn check_unit(path: &str, expected: Option<&str>) {
        let path = path.replace("ID", ID);
        let found = unit_of_cgroup(path.as_bytes()).map(|unit| unit.escape_ascii().to_string());
        assert_eq!(found, expected.map(|unit| unit.replace("ID", ID)), "{path}");
    }

    #[test]
    fn innermost_service_or_scope_is_the_unit() {
        for (path, unit) in [
            ("/system.slice/nginx.service", "nginx.service"),
            (
                "/system.slice/system-getty.slice/getty@tty1.service",
                "getty@tty1.service",
            ),
            ("/init.scope", "init.scope"),
            ("/user.slice/user-1000.slice/session-3.scope", "session-3.scope"),
            (
                "/user.slice/user-1000.slice/user@1000.service/app.slice/app-firefox-1234.scope",
                "app-firefox-1234.scope",
            ),
            (
                "/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-ID.scope/container",
                "libpod-ID.scope",
            ),
            // A service that makes cgroups of its own.
            (
                "/system.slice/containerd.service/supervisor",
                "containerd.service",
            ),
            ("/system.slice/docker-ID.scope", "docker-ID.scope"),
            (
                "/machine.slice/machine-web.scope/payload/system.slice/nginx.service",
                "nginx.service",
            ),
            ("/system.slice/nginx.service (deleted)", "nginx.service"),
        ] {
            check_unit(path, Some(unit));
        }
    }

    #[test]
    fn other_folders_are_no_units() {
        for path in [
            "",
            "/",
            "/docker/ID",
            "/system.slice",
            "/kubepods/burstable/pod2c48913c-b29f-11e7-9350-020968147796/ID",
            "/lxc.payload.web",
            "/.service",
            "/.scope",
            "/a b.service",
            "/a\u{1b}[31m.service",
        ] {
            check_unit(path, None);
        }
        let long = format!("/{}.service", "a".repeat(300));
        check_unit(&long, None);
    }

    #[test]
    fn pods_are_found_with_both_drivers() {
        const UID: &str = "2c48913c-b29f-11e7-9350-020968147796";
        for path in [
            "/kubepods/burstable/pod2c48913c-b29f-11e7-9350-020968147796/ID",
            "/kubepods/pod2c48913c-b29f-11e7-9350-020968147796/crio-ID",
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod2c48913c_b29f_11e7_9350_020968147796.slice/crio-ID.scope",
            "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod2c48913c_b29f_11e7_9350_020968147796.slice/cri-containerd-ID.scope",
            "/system.slice/containerd.service/kubepods-besteffort-pod2c48913c_b29f_11e7_9350_020968147796.slice:cri-containerd:ID",
            "/docker/ID/kubelet/kubepods/besteffort/pod2c48913c-b29f-11e7-9350-020968147796/ID",
        ] {
            let found = pod_of_cgroup(path.replace("ID", ID).as_bytes());
            let found = found
                .as_ref()
                .map(|uid| uid.as_bytes().escape_ascii().to_string());
            assert_eq!(found.as_deref(), Some(UID), "{path}");
        }
        let of_hash = pod_of_cgroup(b"/kubepods.slice/kubepods-pod0123456789abcdef0123456789abcdef.slice/x");
        assert_eq!(of_hash.unwrap().as_bytes(), b"0123456789abcdef0123456789abcdef");
        for path in [
            "",
            "/",
            "/pod",
            "/podman.service",
            "/system.slice/podman.service",
            "/machine.slice/libpod-ID.scope",
            "/kubepods-pod1.slice",
            "/kubepods/podzzzzzzzz-b29f-11e7-9350-020968147796",
            "/kubepods/pod2c48913c-b29f-11e7-9350-0209681477960000000000000000",
        ] {
            assert_eq!(pod_of_cgroup(path.as_bytes()), None, "{path}");
        }
    }

    #[test]
    fn path_of_v2_wins_unless_it_is_the_root() {
        for (file, expected) in [
            ("0::/system.slice/a.service\n", Some("/system.slice/a.service")),
            ("0::/\n", Some("/")),
            (
                "9:memory:/docker/1\n1:name=systemd:/system.slice/b.service\n0::/\n",
                Some("/system.slice/b.service"),
            ),
            (
                "1:name=systemd:/system.slice/b.service\n0::/user.slice/c.scope\n",
                Some("/user.slice/c.scope"),
            ),
            ("9:memory:/docker/1\n1:name=systemd:/\n", Some("/")),
            ("9:memory:/docker/1\n", None),
            ("0::/gone.service (deleted)\n", Some("/gone.service")),
            ("", None),
            ("nonsense", None),
        ] {
            let found = cgroup_path(file.as_bytes()).map(|path| path.escape_ascii().to_string());
            assert_eq!(found.as_deref(), expected, "{file}");
        }
    }

    #[test]
    fn private_hierarchies_do_not_count_as_v1() {
        assert!(is_cgroup2_only(b"0::/init.scope\n"));
        assert!(is_cgroup2_only(b"1:name=elogind:/\n0::/\n"));
        assert!(!is_cgroup2_only(b"1:name=systemd:/\n0::/\n"));
        assert!(!is_cgroup2_only(b"4:memory:/\n0::/\n"));
        assert!(!is_cgroup2_only(b"4:memory:/\n"));
        assert!(!is_cgroup2_only(b""));
    }
}

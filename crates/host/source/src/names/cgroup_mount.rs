//! Place where the cgroup v2 file system is reachable, also below `ip netns exec` and in containers.
//! `Cgroups` and `query::cgroup` (the cgroups of `keepalive` and `prof`) use it.

use sockeye_model::Pid;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;

/// A mount of the cgroup (v2) file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CgroupMount {
    point: PathBuf,
    /// The mount point as the mount namespace's own processes name it.
    named: PathBuf,
    /// Which cgroup is seen there, as paths in `/proc/PID/cgroup` name it: `/`, but in some containers.
    root: Vec<u8>,
}

impl CgroupMount {
    /// Finds the first mount of type cgroup2. If none is visible because `/sys` was mounted again (`ip netns exec` does so), that
    /// of process 1; if that may not be read, a detached mount of the same file system.
    #[must_use]
    pub fn find() -> Option<Self> {
        let read = |process: &str| fs::read(format!("/proc/{process}/mountinfo")).unwrap_or_default();
        // It may be mounted but hidden by a later mount.
        if let Some(found) = Self::among(&read("self")).filter(Self::is_seen) {
            return Some(found);
        }
        let mounts = read("1");
        let first = Self::among(&mounts)?;
        let other = Self::within(Path::new(FIRST_ROOT), first.clone());
        if other.is_seen() {
            return Some(other);
        }
        // A mount changes the options of the whole file system: pass those of the existing mount, so that they stay as they are.
        let unmounted = UNMOUNTED.get_or_init(|| {
            let options = options(&mounts)?;
            sockeye_sys::mounts::detached_cgroups(&options).ok()
        });
        let point = PathBuf::from(format!("/proc/self/fd/{}", unmounted.as_ref()?.as_raw_fd()));
        // The root of our own mount is the root of our cgroup namespace.
        let root = b"/".to_vec();
        Some(Self { point, root, ..first })
    }

    /// The same mount, reached through the root of a process.
    fn within(root: &Path, other: Self) -> Self {
        Self {
            point: root.join(other.named.strip_prefix("/").unwrap_or(&other.named)),
            ..other
        }
    }

    fn is_seen(&self) -> bool {
        self.point.join("cgroup.procs").exists()
    }

    /// Parses it from the text of `/proc/self/mountinfo` (proc_pid_mountinfo(5)):
    /// `id parent dev ROOT POINT options [optional…] - TYPE source options`.
    pub(super) fn among(mounts: &[u8]) -> Option<Self> {
        mounts.split(|&byte| byte == b'\n').find_map(|line| {
            let words: Vec<_> = line.split(|&byte| byte == b' ').collect();
            let dash = words.iter().position(|word| *word == b"-")?;
            if *words.get(dash + 1)? != b"cgroup2" {
                return None;
            }
            let point = PathBuf::from(OsString::from_vec(unescape(words.get(4)?)));
            Some(Self {
                named: point.clone(),
                point,
                root: unescape(words.get(3)?),
            })
        })
    }

    /// The folder of the root cgroup that is visible here.
    #[must_use]
    pub fn point(&self) -> &Path {
        &self.point
    }

    /// Returns a folder below [`point`](Self::point) as people know it: below the mount point of the mount namespace, also where we
    /// reach it through another process or a descriptor.
    #[must_use]
    pub fn shown(&self, folder: &Path) -> PathBuf {
        match folder.strip_prefix(&self.point) {
            Ok(below) if below.as_os_str().is_empty() => self.named.clone(),
            Ok(below) => self.named.join(below),
            Err(_) => folder.to_owned(),
        }
    }

    /// Maps a path that begins with the mount point, as its own processes name it or as we reach it, to the folder as we reach
    /// it.
    #[must_use]
    pub fn folder_at(&self, path: &Path) -> Option<PathBuf> {
        let below = path
            .strip_prefix(&self.named)
            .or_else(|_| path.strip_prefix(&self.point));
        below.ok().map(|below| match below.as_os_str() {
            below if below.is_empty() => self.point.clone(),
            below => self.point.join(below),
        })
    }

    /// Resolves `..` and links in the path of a folder.
    #[must_use]
    pub fn plain(&self, folder: &Path) -> PathBuf {
        if self.named == self.point {
            return fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
        }
        // The root of another process is a link to `/`, which would resolve to our own, and that of a descriptor does not resolve. This file system has no links.
        let mut plain = PathBuf::new();
        for part in folder.components() {
            match part {
                Component::ParentDir => {
                    plain.pop();
                }
                part => plain.push(part),
            }
        }
        plain
    }

    /// Returns the folder of a process's cgroup; `None` means our own process.
    ///
    /// # Errors
    /// When there is no such process, or its cgroup is not visible here.
    pub fn folder_of(&self, process: Option<Pid>) -> io::Result<PathBuf> {
        let file = match process {
            Some(pid) => format!("/proc/{pid}/cgroup"),
            None => "/proc/self/cgroup".to_owned(),
        };
        let text = fs::read(file)?;
        let none = || io::Error::new(ErrorKind::NotFound, "it is in no cgroup of version 2");
        let path = text
            .split(|&byte| byte == b'\n')
            .find_map(|line| line.strip_prefix(b"0::"))
            .ok_or_else(none)?;
        self.folder(path)
    }

    fn folder(&self, path: &[u8]) -> io::Result<PathBuf> {
        let shown = || String::from_utf8_lossy(path).into_owned();
        if path.ends_with(b" (deleted)") {
            return Err(io::Error::new(
                ErrorKind::NotFound,
                format!("its cgroup {} has been removed", shown()),
            ));
        }
        let root = self.root.strip_suffix(b"/").unwrap_or(&self.root);
        let below = path
            .strip_prefix(root)
            .filter(|below| below.is_empty() || below.starts_with(b"/"))
            .filter(|below| !below.split(|&byte| byte == b'/').any(|part| part == b".."));
        let below = below.ok_or_else(|| {
            io::Error::new(
                ErrorKind::NotFound,
                format!("its cgroup {} is not seen in {}", shown(), self.named.display()),
            )
        })?;
        let below = below.strip_prefix(b"/").unwrap_or(below);
        Ok(if below.is_empty() {
            self.point.clone()
        } else {
            self.point.join(OsStr::from_bytes(below))
        })
    }
}

/// Returns the options without a value of the first mount of type cgroup2; it has no others.
fn options(mounts: &[u8]) -> Option<Vec<&str>> {
    mounts.split(|&byte| byte == b'\n').find_map(|line| {
        let (_, about) = std::str::from_utf8(line).ok()?.split_once(" - cgroup2 ")?;
        let (_, options) = about.split_once(' ')?;
        let options = options.split(',').filter(|option| !["rw", "ro"].contains(option));
        Some(options.collect())
    })
}

/// The detached mount, open until we exit.
static UNMOUNTED: OnceLock<Option<OwnedFd>> = OnceLock::new();

/// The root directory of process 1.
const FIRST_ROOT: &str = "/proc/1/root";

/// Decodes space, tab, newline and backslash, which are written as `\` and three octal digits.
fn unescape(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, after @ ..] = rest {
        rest = after;
        if let (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..]) = (first, after) {
            plain.push((a - b'0') * 64 + (b - b'0') * 8 + (c - b'0'));
            rest = after;
        } else {
            plain.push(*first);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_cgroup2_mount_is_found() {
        let check = |text: &str, expected: Option<(&str, &str)>| {
            let found = CgroupMount::among(text.as_bytes());
            let expected = expected.map(|(point, root)| CgroupMount {
                point: point.into(),
                named: point.into(),
                root: root.into(),
            });
            assert_eq!(found, expected, "{text}");
        };
        check(
            "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n",
            Some(("/sys/fs/cgroup/unified", "/")),
        );
        check(
            "41 31 0:38 /docker/x\\040y /a\\040b\\134 rw shared:1 master:2 - cgroup2 none rw",
            Some(("/a b\\", "/docker/x y")),
        );
        check("32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu", None);
        check("41 31 - cgroup2", None);
        check("", None);
        check(" - - cgroup2", None);
    }

    #[test]
    fn paths_outside_the_mount_have_no_folder() {
        let mount = |root: &str| CgroupMount {
            point: "/mnt".into(),
            named: "/mnt".into(),
            root: root.into(),
        };
        let folder = |root: &str, path: &str| {
            let found = mount(root).folder(path.as_bytes()).ok();
            found.map(|found| found.to_str().unwrap().to_owned())
        };
        assert_eq!(folder("/", "/").as_deref(), Some("/mnt"));
        assert_eq!(folder("/", "/a/b").as_deref(), Some("/mnt/a/b"));
        assert_eq!(folder("/a", "/a").as_deref(), Some("/mnt"));
        assert_eq!(folder("/a", "/a/b c").as_deref(), Some("/mnt/b c"));
        for (root, path) in [
            ("/a", "/ab"),
            ("/a", "/"),
            ("/", "/../x"),
            ("/..", "/"),
            ("/", "/a (deleted)"),
            ("/", "a"),
        ] {
            assert_eq!(folder(root, path), None, "{root} {path}");
        }
    }
    #[test]
    fn options_exclude_rw() {
        let line = b"31 23 0:28 / /a rw - tmpfs tmpfs rw\n42 31 0:38 / /b rw shared:1 - cgroup2 none rw,nsdelegate,memory_recursiveprot\n";
        assert_eq!(options(line), Some(vec!["nsdelegate", "memory_recursiveprot"]));
        assert_eq!(options(b"41 31 0:38 / /b rw - cgroup2 cgroup2 rw"), Some(vec![]));
        assert_eq!(options(b"31 23 0:28 / /a rw - tmpfs tmpfs rw"), None);
    }

    #[test]
    fn mount_of_another_process_is_reached_through_its_root() {
        let own = CgroupMount {
            point: "/sys/fs/cgroup".into(),
            named: "/sys/fs/cgroup".into(),
            root: b"/".to_vec(),
        };
        let mount = CgroupMount::within(Path::new("/proc/1/root"), own);
        let point = Path::new("/proc/1/root/sys/fs/cgroup");
        assert_eq!(mount.point(), point);
        assert_eq!(mount.folder(b"/a").unwrap(), point.join("a"));
        for typed in ["/sys/fs/cgroup/a", "/proc/1/root/sys/fs/cgroup/a"] {
            assert_eq!(
                mount.folder_at(Path::new(typed)),
                Some(point.join("a")),
                "{typed}"
            );
        }
        assert_eq!(
            mount.folder_at(Path::new("/sys/fs/cgroup")),
            Some(point.to_owned())
        );
        assert_eq!(mount.folder_at(Path::new("/sys/fs/cgroups")), None);
        assert_eq!(mount.shown(&point.join("a")), Path::new("/sys/fs/cgroup/a"));
        assert_eq!(mount.shown(point), Path::new("/sys/fs/cgroup"));
        assert_eq!(mount.shown(Path::new("/a")), Path::new("/a"));
        assert_eq!(mount.plain(&point.join("a/../b/.")), point.join("b"));
    }
}

use sockeye_model::CgroupId;
use std::collections::HashMap;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The cgroups (v2) of this host: id to path and back.
///
/// The id that the kernel gives for a socket is the inode of the cgroup's folder.
#[derive(Debug, Default, Clone)]
pub struct Cgroups {
    mount: Option<PathBuf>,
    paths: HashMap<CgroupId, Box<str>>,
    is_incomplete: bool,
}

/// Folders that are visited at most; a busy container host has a few thousand.
const FOLDERS_MAX: usize = 65_536;

impl Cgroups {
    /// Walks all folders below the cgroup2 mount once. Without one, or without the right to read it,
    /// cgroups have no names.
    #[must_use]
    pub fn read() -> Self {
        let mounts = fs::read("/proc/self/mountinfo").unwrap_or_default();
        match mount_point(&mounts) {
            Some(mount) => Self::walk(mount, FOLDERS_MAX),
            None => Self::default(),
        }
    }

    fn walk(mount: PathBuf, folders_max: usize) -> Self {
        let mut paths = HashMap::new();
        let mut is_incomplete = false;
        // Breadth first, so that a bound cuts off the deepest.
        let mut folders = std::collections::VecDeque::new();
        if let Ok(root) = fs::metadata(&mount) {
            paths.insert(CgroupId(root.ino()), Box::from("/"));
            folders.push_back(String::new());
        }
        'walk: while let Some(path) = folders.pop_front() {
            let folder = mount.join(path.trim_start_matches('/'));
            // A folder has a link for itself, one in its parent, and one for each folder in it: most cgroups have
            // dozens of files and no folder, and need not be read.
            if fs::metadata(&folder).is_ok_and(|metadata| metadata.nlink() == 2) {
                continue;
            }
            // Gone since, or not ours to read.
            let Ok(files) = fs::read_dir(folder) else {
                continue;
            };
            for file in files
                .flatten()
                .filter(|file| file.file_type().is_ok_and(|kind| kind.is_dir()))
            {
                if paths.len() >= folders_max {
                    is_incomplete = true;
                    break 'walk;
                }
                let child = format!("{path}/{}", file.file_name().to_string_lossy());
                // The folder's listing carries the inode: no stat of each.
                paths.insert(CgroupId(file.ino()), Box::from(&*child));
                folders.push_back(child);
            }
        }
        Self {
            mount: Some(mount),
            paths,
            is_incomplete,
        }
    }

    /// Path below the mount: `/system.slice/nginx.service`.
    #[must_use]
    pub fn path(&self, id: CgroupId) -> Option<&str> {
        self.paths.get(&id).map(|path| &**path)
    }

    /// The cgroup at this path, which is either below the mount or names the mount too.
    #[must_use]
    pub fn id(&self, path: &str) -> Option<CgroupId> {
        let mount = self.mount.as_deref()?;
        let path = Path::new(path);
        let full = if path.starts_with(mount) {
            path.to_owned()
        } else {
            mount.join(path.strip_prefix("/").unwrap_or(path))
        };
        let folder = fs::metadata(full).ok().filter(fs::Metadata::is_dir)?;
        Some(CgroupId(folder.ino()))
    }

    /// Where cgroup2 is mounted.
    #[must_use]
    pub fn mount(&self) -> Option<&Path> {
        self.mount.as_deref()
    }

    /// Whether there were more cgroups than are remembered.
    #[must_use]
    pub fn is_incomplete(&self) -> bool {
        self.is_incomplete
    }
}

/// The first mount of type cgroup2 in `/proc/self/mountinfo` (proc_pid_mountinfo(5)):
/// `id parent dev root POINT options [optional…] - TYPE source options`.
fn mount_point(mounts: &[u8]) -> Option<PathBuf> {
    mounts.split(|&byte| byte == b'\n').find_map(|line| {
        let words: Vec<_> = line.split(|&byte| byte == b' ').collect();
        let dash = words.iter().position(|word| *word == b"-")?;
        if *words.get(dash + 1)? != b"cgroup2" {
            return None;
        }
        let point = unescape(words.get(4)?);
        Some(PathBuf::from(std::ffi::OsString::from_vec(point)))
    })
}

/// Space, tab, newline and backslash stand as `\` and three octal digits.
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
    fn finds_the_mount() {
        let check = |text: &str, expected: Option<&str>| {
            assert_eq!(
                mount_point(text.as_bytes()),
                expected.map(PathBuf::from),
                "{text}"
            );
        };
        check(
            "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n",
            Some("/sys/fs/cgroup/unified"),
        );
        check(
            "41 31 0:38 / /a\\040b\\134 rw shared:1 master:2 - cgroup2 none rw",
            Some("/a b\\"),
        );
        check("32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu", None);
        check("41 31 - cgroup2", None);
        check("", None);
        check(" - - cgroup2", None);
    }

    #[test]
    fn names_folders_by_inode_up_to_the_bound() {
        let mount = std::env::temp_dir().join(format!("sockeye-cgroups-{}", std::process::id()));
        fs::create_dir_all(mount.join("system.slice/nginx.service")).unwrap();
        fs::write(mount.join("cgroup.procs"), "").unwrap();
        let inode = |path: &str| CgroupId(fs::metadata(mount.join(path)).unwrap().ino());
        let (root, slice, service) = (
            inode(""),
            inode("system.slice"),
            inode("system.slice/nginx.service"),
        );
        let (whole, cut) = (Cgroups::walk(mount.clone(), 100), Cgroups::walk(mount.clone(), 2));
        let in_mount = mount.join("system.slice");
        let ids = ["system.slice", "/system.slice", &in_mount.to_string_lossy()].map(|path| whole.id(path));
        let not_folders = ["/nosuch", "cgroup.procs"].map(|path| whole.id(path));
        fs::remove_dir_all(&mount).unwrap();
        assert_eq!(whole.path(root), Some("/"));
        assert_eq!(whole.path(slice), Some("/system.slice"));
        assert_eq!(whole.path(service), Some("/system.slice/nginx.service"));
        assert!(!whole.is_incomplete());
        assert_eq!(cut.path(slice), Some("/system.slice"));
        assert_eq!(cut.path(service), None);
        assert!(cut.is_incomplete());
        assert_eq!(ids, [Some(slice); 3]);
        assert_eq!(not_folders, [None; 2]);
    }

    #[test]
    fn knows_the_root_of_this_host() {
        let cgroups = Cgroups::read();
        let Some(mount) = cgroups.mount() else {
            println!("SKIP: no cgroup2 mount");
            return;
        };
        let root = CgroupId(fs::metadata(mount).unwrap().ino());
        assert_eq!(cgroups.path(root), Some("/"));
        assert_eq!(cgroups.id("/"), Some(root));
    }
}

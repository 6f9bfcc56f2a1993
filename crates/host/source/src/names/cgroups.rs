//! Cgroup ids of sockets as paths, for the column and the filter `cgroup`, and the cgroup of a container
//! that the user names. [`Cgroups::FOLDERS_MAX`] bounds the walk.

use super::CgroupMount;
use super::docker::Docker;
use sockeye_model::{CgroupId, Container, Runtime};
use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The cgroups (v2) of this host: id to path and path to id.
///
/// The id that the kernel reports for a socket is the inode of the cgroup's folder.
#[derive(Debug, Default, Clone)]
pub struct Cgroups {
    mount: Option<PathBuf>,
    paths: HashMap<CgroupId, Box<str>>,
    is_incomplete: bool,
}

impl Cgroups {
    /// Maximum number of visited folders; a busy container host has a few thousand.
    pub const FOLDERS_MAX: usize = 65_536;

    /// Walks all folders below the cgroup2 mount once. Without one, or without the right to read it,
    /// cgroups have no names.
    #[must_use]
    pub fn read() -> Self {
        match CgroupMount::find() {
            Some(mount) => Self::walk(mount.point().to_owned(), Self::FOLDERS_MAX),
            None => Self::default(),
        }
    }

    fn walk(mount: PathBuf, folders_max: usize) -> Self {
        let mut paths = HashMap::new();
        let mut is_incomplete = false;
        // Breadth first, so that the bound cuts off the deepest.
        let mut folders = std::collections::VecDeque::new();
        if let Ok(root) = fs::metadata(&mount) {
            paths.insert(CgroupId(root.ino()), Box::from("/"));
            folders.push_back(String::new());
        }
        'walk: while let Some(path) = folders.pop_front() {
            let folder = mount.join(path.trim_start_matches('/'));
            // A folder has a link for itself, one in its parent, and one for each folder in it. Most cgroups have
            // dozens of files and no folder, and are skipped.
            if fs::metadata(&folder).is_ok_and(|metadata| metadata.nlink() == 2) {
                continue;
            }
            // Removed, or not readable for us.
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
                // The directory entry has the inode: no stat is needed.
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

    /// Returns the path below the mount (`/system.slice/nginx.service`); `None` if unknown.
    pub(crate) fn path(&self, id: CgroupId) -> Option<&str> {
        self.paths.get(&id).map(|path| &**path)
    }

    /// Returns the cgroup at this path, which starts at the mount point or includes it; `None` if there is none.
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

    /// Returns all paths, in no particular order.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.paths.values().map(|path| &**path)
    }

    /// Returns the cgroups of the containers that `text` names: by name, full id, or at least the first twelve digits of the
    /// id. Of each container only the topmost, sorted. Several containers may have one name.
    #[must_use]
    pub fn of_container(&self, text: &str) -> Vec<&str> {
        let docker = Docker::here();
        let is_called = |container: &Container| {
            let by_docker = (container.runtime == Runtime::Docker && container.has_id())
                .then(|| docker.as_ref()?.name(container.name()))
                .flatten();
            container.matches_text(text.as_bytes()) || by_docker.is_some_and(|name| name == text)
        };
        let container = |path: &str| Container::from_cgroup(path.as_bytes());
        let mut found: Vec<&str> = self
            .paths()
            .filter(|path| {
                let above = path.rsplit_once('/').map_or("", |(above, _)| above);
                container(path).is_some_and(|it| container(above) != Some(it) && is_called(&it))
            })
            .collect();
        found.sort_unstable();
        found
    }

    /// Returns the mount point of cgroup2; `None` if it is not mounted.
    #[must_use]
    pub fn mount(&self) -> Option<&Path> {
        self.mount.as_deref()
    }

    /// Whether some cgroups are missing because there are too many.
    #[must_use]
    pub fn is_incomplete(&self) -> bool {
        self.is_incomplete
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_beyond_the_bound_are_incomplete() {
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
    fn container_is_its_topmost_folder() {
        let id = "9ec39b91f3d70e1beff50a308f77067065ea6be0d91a3378375056cd4422cf3d";
        let paths = [
            "/".to_owned(),
            format!("/machine.slice/libpod-{id}.scope"),
            format!("/machine.slice/libpod-{id}.scope/container"),
            format!("/machine.slice/libpod-{id}.scope/container/system.slice"),
            "/lxc/web".to_owned(),
            "/lxc/web/system.slice".to_owned(),
            "/lxc.payload.web".to_owned(),
        ];
        let cgroups = Cgroups {
            paths: (1..)
                .map(CgroupId)
                .zip(paths.iter().map(|path| (&**path).into()))
                .collect(),
            ..Cgroups::default()
        };
        for text in [id, &id[..12]] {
            assert_eq!(cgroups.of_container(text), [&*paths[1]], "{text}");
        }
        assert_eq!(cgroups.of_container("web"), ["/lxc.payload.web", "/lxc/web"]);
        for text in ["", "system.slice", &id[..11]] {
            assert!(cgroups.of_container(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn root_cgroup_has_path_slash() {
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

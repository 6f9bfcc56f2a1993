//! Scan of `/run/netns` for named namespaces. `SystemNames` uses it for names, `query` to select and open
//! namespaces, `ns list` and `ns identify` to print them. It never creates or removes a name.

use sockeye_model::NetnsInode;
use std::collections::HashSet;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The network namespaces with a name given by `ip netns`: files that are bind mounts of a namespace.
#[derive(Debug, Default, Clone)]
pub struct Namespaces {
    all: Vec<NamedNamespace>,
    unreadable: u64,
}

/// A named namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedNamespace {
    /// Its inode.
    pub inode: NetnsInode,
    /// Its name; U+FFFD replaces invalid UTF-8.
    pub(crate) name: String,
    /// The file to open to enter it.
    pub path: PathBuf,
    /// Creation time of its inode, in seconds since 1970: it was mounted then, or is older.
    pub(crate) since_s: i64,
}

/// On most hosts the second is a symbolic link to the first.
const FOLDERS: [&str; 2] = ["/run/netns", "/var/run/netns"];

impl Namespaces {
    /// Reads those of this host. A stale file, whose namespace is gone, is skipped and counted.
    #[must_use]
    pub fn read() -> Self {
        Self::in_folders(FOLDERS.iter().map(Path::new))
    }

    fn in_folders<'a>(folders: impl IntoIterator<Item = &'a Path>) -> Self {
        let mut found = Self::default();
        let mut seen_folders = Vec::new();
        let mut seen_names = HashSet::new();
        for folder in folders {
            let (Ok(metadata), Ok(files)) = (fs::metadata(folder), fs::read_dir(folder)) else {
                continue;
            };
            let own_device = metadata.dev();
            if seen_folders.contains(&(own_device, metadata.ino())) {
                continue;
            }
            seen_folders.push((own_device, metadata.ino()));
            for file in files.flatten() {
                let path = file.path();
                let metadata = match fs::metadata(&path) {
                    Ok(metadata) => metadata,
                    Err(error) => {
                        // A file that was deleted meanwhile is not counted.
                        found.unreadable += u64::from(error.kind() != ErrorKind::NotFound);
                        continue;
                    }
                };
                // Bind mounts are on another device than their folder; this test excludes the stale file of a former
                // namespace.
                match u32::try_from(metadata.ino()) {
                    Ok(inode) if metadata.dev() != own_device => {
                        if seen_names.insert(file.file_name()) {
                            found.all.push(NamedNamespace {
                                inode: NetnsInode(inode),
                                name: file.file_name().to_string_lossy().into_owned(),
                                path,
                                since_s: metadata.ctime(),
                            });
                        }
                    }
                    // A stale file is empty; anything else is not counted.
                    _ => found.unreadable += u64::from(metadata.is_file() && metadata.len() == 0),
                }
            }
        }
        found
            .all
            .sort_by(|a, b| (a.inode, &a.name).cmp(&(b.inode, &b.name)));
        found
    }

    /// Returns the number of stale or unreadable names.
    #[must_use]
    pub fn unreadable(&self) -> u64 {
        self.unreadable
    }

    /// Returns the (alphabetically first) name of this namespace; names given by a user come before generated ones. `None` if
    /// it has no name.
    #[must_use]
    pub fn name(&self, inode: NetnsInode) -> Option<&str> {
        self.chosen_name(inode).or_else(|| self.of(inode).next())
    }

    /// Returns the first name of this namespace that a user gave; `None` if there is none. CNI, Podman and CRI-O use the folder of
    /// `ip netns` too, with names like `cni-UUID`, `netns-UUID` or `UUID`; the name of the container is more useful.
    pub(crate) fn chosen_name(&self, inode: NetnsInode) -> Option<&str> {
        self.of(inode).find(|name| !is_generated(name))
    }

    /// Returns all names of this namespace, those given by a user first.
    pub(crate) fn all_of(&self, inode: NetnsInode) -> impl Iterator<Item = &NamedNamespace> {
        let chosen = self.with_inode(inode).filter(|found| !is_generated(&found.name));
        chosen.chain(self.with_inode(inode).filter(|found| is_generated(&found.name)))
    }

    fn of(&self, inode: NetnsInode) -> impl Iterator<Item = &str> {
        self.with_inode(inode).map(|found| found.name.as_str())
    }

    fn with_inode(&self, inode: NetnsInode) -> impl Iterator<Item = &NamedNamespace> {
        let first = self.all.partition_point(|namespace| namespace.inode < inode);
        let all = self.all.get(first..).unwrap_or_default();
        all.iter().take_while(move |found| found.inode == inode)
    }

    /// Returns the namespace with this name; `None` if there is none.
    pub(crate) fn named(&self, name: &str) -> Option<&NamedNamespace> {
        self.all.iter().find(|namespace| namespace.name == name)
    }

    /// Returns all, sorted by inode.
    #[must_use]
    pub fn all(&self) -> &[NamedNamespace] {
        &self.all
    }
}

/// Whether a name is a UUID, alone or after a prefix: `cni-` (plugins' `pkg/testutils`, containerd's
/// `pkg/netns`), `netns-` (`containers/common`), none (CRI-O's `pinns`).
fn is_generated(name: &str) -> bool {
    let uuid = match name.len().checked_sub(UUID_LEN) {
        Some(0) => name.as_bytes(),
        Some(start) if name.as_bytes()[start - 1] == b'-' => &name.as_bytes()[start..],
        _ => return false,
    };
    uuid.iter().enumerate().all(|(place, byte)| match place {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    })
}

const UUID_LEN: usize = 36;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process_netns::own_namespace;

    #[test]
    fn stale_files_are_no_namespaces() {
        let folder = std::env::temp_dir().join(format!("sockeye-names-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("leftover"), "").unwrap();
        let symlink = std::os::unix::fs::symlink("/proc/self/ns/net", folder.join("mine"));
        let found = Namespaces::in_folders([&*folder, &*folder, Path::new("/nosuch")]);
        fs::remove_dir_all(&folder).unwrap();
        symlink.unwrap();
        assert_eq!((found.all().len(), found.unreadable()), (1, 1), "{found:?}");
        assert_eq!(found.name(own_namespace().unwrap()), Some("mine"));
        assert_eq!(found.named("mine").map(|found| found.inode), own_namespace());
        assert_eq!(found.named("leftover"), None);
        assert_eq!(found.name(NetnsInode(1)), None);
    }

    #[test]
    fn given_name_comes_before_generated_one() {
        let generated = "cni-0f5c1b2a-7a1e-4d57-9f0e-2f8d3c4b5a69";
        let named = |inode: u32, name: &str| NamedNamespace {
            inode: NetnsInode(inode),
            name: name.to_owned(),
            path: PathBuf::new(),
            since_s: 0,
        };
        let all = vec![
            named(3, generated),
            named(3, "web"),
            named(4, generated),
            named(5, "b"),
            named(5, "c"),
        ];
        let namespaces = Namespaces { all, unreadable: 0 };
        let names = |inode: u32| {
            let inode = NetnsInode(inode);
            (namespaces.name(inode), namespaces.chosen_name(inode))
        };
        assert_eq!(names(3), (Some("web"), Some("web")));
        assert_eq!(names(4), (Some(generated), None));
        assert_eq!(names(5), (Some("b"), Some("b")));
        assert_eq!(names(6), (None, None));
        for (name, expected) in [
            (&generated[4..], true),
            (&format!("netns{}", &generated[3..]), true),
            (&generated[5..], false),
            (&format!("x{}", &generated[4..]), false),
            ("cni-0f5c1b2a-7a1e-4d57-9f0e-2f8d3c4b5a6g", false),
            ("cni-0f5c1b2a07a1e-4d57-9f0e-2f8d3c4b5a69", false),
            ("é0f5c1b2a-7a1e-4d57-9f0e-2f8d3c4b5a69", false),
            ("web", false),
            ("", false),
        ] {
            assert_eq!(is_generated(name), expected, "{name}");
        }
    }
}

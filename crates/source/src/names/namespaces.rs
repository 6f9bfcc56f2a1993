use sockeye_model::NetnsInode;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The network namespaces that have a name, as `ip netns` gives them: files that are bind mounts of a
/// namespace.
#[derive(Debug, Default, Clone)]
pub struct Namespaces {
    all: Vec<NamedNamespace>,
}

/// A namespace with a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedNamespace {
    /// Which namespace.
    pub inode: NetnsInode,
    /// Its name.
    pub name: String,
    /// The file to open in order to enter it.
    pub path: PathBuf,
}

/// On most hosts the second is the first by way of a symbolic link.
const FOLDERS: [&str; 2] = ["/run/netns", "/var/run/netns"];

impl Namespaces {
    /// Those of this host. A file that is only the remains of a namespace, or a name that is not UTF-8, is
    /// passed over.
    #[must_use]
    pub fn read() -> Self {
        Self::in_folders(FOLDERS.iter().map(Path::new))
    }

    fn in_folders<'a>(folders: impl IntoIterator<Item = &'a Path>) -> Self {
        let mut all = Vec::<NamedNamespace>::new();
        for folder in folders {
            let Ok(files) = fs::read_dir(folder) else { continue };
            // Bind mounts are on another device than their folder; without that test the leftovers of a
            // namespace would pass for one.
            let own_device = fs::metadata(folder).map(|metadata| metadata.dev()).ok();
            for file in files.flatten() {
                let (path, name) = (file.path(), file.file_name());
                let (Ok(metadata), Some(name)) = (fs::metadata(&path), name.to_str()) else {
                    continue;
                };
                let Ok(inode) = u32::try_from(metadata.ino()) else {
                    continue;
                };
                if Some(metadata.dev()) != own_device && all.iter().all(|other| other.name != name) {
                    all.push(NamedNamespace {
                        inode: NetnsInode(inode),
                        name: name.to_owned(),
                        path,
                    });
                }
            }
        }
        all.sort_by(|a, b| (a.inode, &a.name).cmp(&(b.inode, &b.name)));
        Self { all }
    }

    /// The (alphabetically first) name of this namespace.
    #[must_use]
    pub fn name(&self, inode: NetnsInode) -> Option<&str> {
        let first = self.all.partition_point(|namespace| namespace.inode < inode);
        let found = self.all.get(first)?;
        (found.inode == inode).then_some(&found.name)
    }

    /// The namespace with this name.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<&NamedNamespace> {
        self.all.iter().find(|namespace| namespace.name == name)
    }

    /// All of them, by inode.
    #[must_use]
    pub fn all(&self) -> &[NamedNamespace] {
        &self.all
    }
}

/// The namespace of the calling thread.
pub(super) fn own() -> Option<NetnsInode> {
    let metadata = fs::metadata("/proc/thread-self/ns/net").ok()?;
    u32::try_from(metadata.ino()).ok().map(NetnsInode)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leftovers_are_no_namespaces() {
        let folder = std::env::temp_dir().join(format!("sockeye-names-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("leftover"), "").unwrap();
        let symlink = std::os::unix::fs::symlink("/proc/self/ns/net", folder.join("mine"));
        let found = Namespaces::in_folders([&*folder, &*folder, Path::new("/nosuch")]);
        fs::remove_dir_all(&folder).unwrap();
        symlink.unwrap();
        assert_eq!(found.all().len(), 1, "{found:?}");
        assert_eq!(found.name(own().unwrap()), Some("mine"));
        assert_eq!(found.named("mine").map(|found| found.inode), own());
        assert_eq!(found.named("leftover"), None);
        assert_eq!(found.name(NetnsInode(1)), None);
    }
}

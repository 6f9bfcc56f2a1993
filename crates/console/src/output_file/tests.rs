use super::*;
use std::fs;

/// A folder of its own.
struct Workspace(PathBuf);

impl Workspace {
    fn new(purpose: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("sockeye-output-{purpose}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a directory");
        Self(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).expect("read")
    }

    fn names(&self) -> Vec<OsString> {
        let entries = fs::read_dir(&self.0).expect("list").flatten();
        let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
        names.sort();
        names
    }

    fn write(&self, name: &str, text: &str) {
        let mut file = OutputFile::create(&self.path(name)).expect("create");
        file.write_all(text.as_bytes()).expect("write");
        file.finish().expect("finish");
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn temporary_file_replaces_only_when_finished() {
    let folder = Workspace::new("temporary");
    let path = folder.path("picture.svg");
    let write = |text: &[u8]| {
        let place = Place::of(&path).expect("a place");
        let (file, name) = OutputFile::temporary(&place, Readers::All).expect("create");
        let naming = Naming::Temporary(Box::new(place), name);
        let mut file = OutputFile { file, naming };
        file.write_all(text).expect("write");
        file
    };
    write(b"first").finish().expect("rename");
    assert_eq!(folder.read("picture.svg"), "first");
    let half = write(b"half");
    assert_eq!(folder.names().len(), 2);
    drop(half);
    assert_eq!(folder.names(), ["picture.svg"]);
    assert_eq!(folder.read("picture.svg"), "first");
    write(b"second").finish().expect("rename");
    assert_eq!(folder.read("picture.svg"), "second");
    assert_eq!(folder.names(), ["picture.svg"]);
}

#[test]
fn own_links_lead_to_their_target_and_stay() {
    use std::os::unix::fs::symlink;
    let folder = Workspace::new("links");
    symlink("target", folder.path("dangling")).expect("link");
    folder.write("dangling", "first");
    assert_eq!(folder.read("target"), "first");
    folder.write("dangling", "second");
    assert_eq!(folder.read("target"), "second");
    fs::create_dir(folder.path("sub")).expect("folder");
    symlink("sub/../sub", folder.path("around")).expect("link");
    symlink(folder.path("around/inner"), folder.path("absolute")).expect("link");
    folder.write("absolute", "third");
    assert_eq!(folder.read("sub/inner"), "third");
    assert!(folder.path("dangling").is_symlink() && folder.path("absolute").is_symlink());
    symlink("loop", folder.path("loop")).expect("link");
    let errno = |name: &str| {
        Place::of(&folder.path(name))
            .map(drop)
            .expect_err("an error")
            .raw_os_error()
    };
    assert_eq!(errno("loop"), Some(Errno::LOOP.raw_os_error()));
    assert_eq!(errno("sub"), Some(Errno::ISDIR.raw_os_error()));
    assert_eq!(errno("new/"), Some(Errno::NOENT.raw_os_error()));
    assert_eq!(errno("target/"), Some(Errno::NOTDIR.raw_os_error()));
    assert_eq!(errno("nowhere/file"), Some(Errno::NOENT.raw_os_error()));
}

#[test]
fn hard_link_keeps_its_content() {
    let folder = Workspace::new("hard");
    folder.write("one", "before");
    fs::hard_link(folder.path("one"), folder.path("two")).expect("link");
    folder.write("two", "after");
    let mut begun = OutputFile::begin(&folder.path("two"), Readers::Owner).expect("begin");
    assert_eq!(folder.read("two"), "");
    begun.write_all(b"grows").expect("write");
    assert_eq!(
        (folder.read("one"), folder.read("two")),
        ("before".into(), "grows".into())
    );
    drop(begun);
    assert_eq!(folder.names(), ["one", "two"]);
}

#[test]
fn mode_of_a_replaced_file_stays_and_a_private_one_is_its_owners() {
    let folder = Workspace::new("mode");
    let mode = |name: &str| fs::metadata(folder.path(name)).expect("file").mode() & 0o777;
    folder.write("old", "before");
    fs::set_permissions(folder.path("old"), fs::Permissions::from_mode(0o604)).expect("mode");
    folder.write("old", "after");
    assert_eq!(mode("old"), 0o604);
    drop(OutputFile::begin(&folder.path("new"), Readers::Owner).expect("begin"));
    assert_eq!(mode("new"), 0o600);
}

#[test]
fn open_descriptors_are_appended_to() {
    let folder = Workspace::new("descriptors");
    let mut open = File::create(folder.path("log")).expect("create");
    open.write_all(b"before ").expect("write");
    for path in ["/proc/self/fd", "/dev/fd", "/proc/thread-self/fd"] {
        let path = Path::new(path).join(open.as_raw_fd().to_string());
        let mut file = OutputFile::create(&path).expect("open");
        file.write_all(b"after ").expect("write");
        file.finish().expect("finish");
    }
    assert_eq!(folder.read("log"), "before after after after ");
    let mut null = OutputFile::create(Path::new("/dev/null")).expect("open");
    null.write_all(b"nothing").expect("write");
}

#[test]
fn temporary_file_of_a_killed_process_is_deleted() {
    let workspace = Workspace::new("left-over");
    let old = std::time::SystemTime::now() - 2 * LEFT_OVER_AGE;
    let make = |name: &str, is_old: bool| {
        let file = File::create(workspace.path(name)).expect("create");
        if is_old {
            file.set_modified(old).expect("a file of ours");
        }
    };
    make(".a.prom.0123456789abcdef.part", true);
    make(".a.prom.0123456789abcdee.part", false);
    make(".b.prom.0123456789abcdef.part", true);
    make(".a.prom.0123456789abcde.part", true);
    make("a.prom", true);
    OutputFile::delete_left_over(&workspace.path("a.prom"));
    assert_eq!(
        workspace.names(),
        [
            ".a.prom.0123456789abcde.part",
            ".a.prom.0123456789abcdee.part",
            ".b.prom.0123456789abcdef.part",
            "a.prom"
        ]
    );
}

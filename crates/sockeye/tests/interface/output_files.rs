//! Output files of commands that root runs in folders where another user has set traps.

use crate::fixtures::binary::{Outcome, command, ended, run, wait_for_sigint_handler};
use crate::fixtures::processes::UNPRIVILEGED_UID;
use rustix::fs::{CWD, FileType, Mode, RenameFlags, mknodat, renameat_with};
use rustix::process::{Pid, Signal, kill_process};
use sockeye_lab::{Lab, need};
use std::fs;
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Commands that write the file named after their last word.
const WRITERS: [&str; 5] = [
    "graph testdata/captures/fast_open.pcap -o",
    "bench memory --sizes 64 --methods memset --repeats 1 -d 0.05 -o",
    "prof -d 0.1 --only waits --stacks waits -p 1 -o",
    "capture -i lo -d 0.05 -o",
    "ss -H -t -D",
];

/// A folder of another user or of all users, and what must not change.
struct Scene {
    folder: PathBuf,
    victim: PathBuf,
}

impl Scene {
    /// Makes a folder of this mode and owner.
    fn new(lab: &Lab, purpose: &str, mode: u32, uid: u32) -> Self {
        let folder = lab.directory().join(format!("{purpose}{mode:o}-{uid}"));
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
        chown(&folder, Some(uid), Some(uid)).unwrap();
        let place = lab.directory().join(format!("private-{purpose}{mode:o}-{uid}"));
        fs::create_dir(&place).unwrap();
        fs::set_permissions(&place, fs::Permissions::from_mode(0o700)).unwrap();
        let victim = place.join("victim");
        let scene = Self { folder, victim };
        scene.restore();
        scene
    }

    fn restore(&self) {
        let _ = fs::remove_file(&self.victim);
        fs::write(&self.victim, "precious").unwrap();
        fs::set_permissions(&self.victim, fs::Permissions::from_mode(0o640)).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn place(&self) -> &Path {
        self.victim.parent().unwrap()
    }

    /// Fails if the victim or its folder changed.
    #[track_caller]
    fn check_victim(&self, what: &str) {
        assert_eq!(fs::read_to_string(&self.victim).unwrap(), "precious", "{what}");
        let about = fs::metadata(&self.victim).unwrap();
        assert_eq!(
            (about.uid(), about.gid(), about.mode() & 0o7777),
            (0, 0, 0o640),
            "{what}"
        );
        let names: Vec<_> = fs::read_dir(self.place()).unwrap().flatten().collect();
        assert_eq!(names.len(), 1, "{what}: {names:?}");
    }

    fn link(&self, target: &Path, name: &str, uid: u32) -> PathBuf {
        let path = self.path(name);
        symlink(target, &path).unwrap();
        lchown(&path, Some(uid), Some(uid)).unwrap();
        path
    }

    /// Deletes what is in the folder.
    fn clear(&self) {
        for entry in fs::read_dir(&self.folder).unwrap().flatten() {
            match entry.file_type().unwrap().is_dir() {
                true => fs::remove_dir_all(entry.path()).unwrap(),
                false => fs::remove_file(entry.path()).unwrap(),
            }
        }
    }
}

/// Runs a command of root that writes this file.
#[track_caller]
fn write(words: &str, path: &Path) -> Outcome {
    let mut command = command();
    command
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .env_remove("SUDO_UID")
        .env_remove("SUDO_GID")
        .args(words.split_whitespace())
        .arg(path);
    run(&mut command)
}

#[track_caller]
fn refused(outcome: &Outcome, what: &str) {
    assert_eq!(outcome.code, Some(1), "{what}: {outcome}");
    assert!(
        outcome.error().contains("refused: it is a ") && outcome.error().contains("in a folder of your own"),
        "{what}: {outcome}"
    );
    outcome.no_panic();
}

/// Folders where another user can put something.
fn scenes(lab: &Lab) -> [Scene; 3] {
    scenes_in(lab, "")
}

/// As [`scenes`], with other names.
fn scenes_in(lab: &Lab, purpose: &str) -> [Scene; 3] {
    [(0o1777, 0), (0o777, 0), (0o755, UNPRIVILEGED_UID)]
        .map(|(mode, uid)| Scene::new(lab, purpose, mode, uid))
}

/// Ends of the names of files next to a store.
const SIDE_FILES: [&str; 4] = ["-lock", "-wal", "-shm", "-journal"];

#[track_caller]
fn store_refused(outcome: &Outcome, what: &str) {
    assert_eq!(outcome.code, Some(1), "{what}: {outcome}");
    assert!(
        outcome.error().contains("refused: it ") && outcome.error().contains("in a folder of your own"),
        "{what}: {outcome}"
    );
    outcome.no_panic();
}

/// SQLite opens its files by their names.
#[test]
fn stores_in_a_shared_folder_are_our_own() {
    let lab = need!(Lab::new("store-traps"));
    let own = lab.directory().join("own.db");
    write("record --once --store", &own).succeeded();
    let copy = format!("history export --format sqlite --store {} -o", own.display());
    let writers = ["record --once --store", &copy];
    for scene in scenes(&lab) {
        for words in writers {
            let what = |trap: &str| format!("{words} {trap} in {:?}", scene.folder);
            let link = scene.link(&scene.place().join("new.db"), "link.db", UNPRIVILEGED_UID);
            store_refused(&write(words, &link), &what("dangling link"));
            let folder = scene.link(scene.place(), "folder", UNPRIVILEGED_UID);
            store_refused(&write(words, &folder.join("new.db")), &what("folder"));
            store_refused(
                &write(words, &folder.join("deeper/new.db")),
                &what("folder to be made"),
            );
            let planted = scene.path("planted.db");
            fs::copy(&own, &planted).unwrap();
            chown(&planted, Some(UNPRIVILEGED_UID), Some(UNPRIVILEGED_UID)).unwrap();
            store_refused(&write(words, &planted), &what("planted store"));
            for end in SIDE_FILES {
                let trap = format!("new.db{end}");
                scene.link(&scene.victim, &trap, UNPRIVILEGED_UID);
                store_refused(
                    &write(words, &scene.path("new.db")),
                    &what(&format!("link {trap}")),
                );
                fs::remove_file(scene.path(&trap)).unwrap();
                mknodat(
                    CWD,
                    scene.path(&trap),
                    FileType::Fifo,
                    Mode::from_raw_mode(0o666),
                    0,
                )
                .unwrap();
                store_refused(
                    &write(words, &scene.path("new.db")),
                    &what(&format!("FIFO {trap}")),
                );
                fs::remove_file(scene.path(&trap)).unwrap();
                fs::write(scene.path(&trap), "").unwrap();
                chown(scene.path(&trap), Some(UNPRIVILEGED_UID), None).unwrap();
                store_refused(
                    &write(words, &scene.path("new.db")),
                    &what(&format!("file {trap}")),
                );
                fs::remove_file(scene.path(&trap)).unwrap();
            }
            assert!(!scene.path("new.db").exists(), "{words}");
            scene.check_victim(&what("all"));
            scene.clear();
        }
        let endpoint = scene
            .link(scene.place(), "folder", UNPRIVILEGED_UID)
            .join("socket");
        let listen = format!("export prometheus --listen unix:{}", endpoint.display());
        let mut command = command();
        store_refused(&run(command.args(listen.split(' '))), &listen);
        scene.check_victim(&listen);
        scene.clear();
    }
    // Others can only make files there, and cannot replace ours.
    let [sticky, open, of_another] = scenes_in(&lab, "use");
    write("record --once --store", &sticky.path("own.db")).succeeded();
    let outcome = write("record --once --store", &sticky.path("own.db"));
    outcome.succeeded();
    for scene in [open, of_another] {
        let outcome = write("record --once --store", &scene.path("new.db"));
        store_refused(&outcome, "names of others");
        assert_eq!(fs::read_dir(&scene.folder).unwrap().count(), 0, "{outcome}");
    }
}

/// In a folder of our own there can be a FIFO, too.
#[test]
fn lock_that_is_no_file_does_not_stop_the_recorder_for_ever() {
    let lab = need!(Lab::new("store-lock"));
    let folder = lab.directory().join("own");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    let fifo = folder.join("record.db-lock");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let outcome = write("record --once --store", &folder.join("record.db"));
    assert!(
        outcome.failed(1).contains("record.db-lock is no regular file"),
        "{outcome}"
    );
}

#[test]
fn traps_of_another_user_are_refused_and_change_nothing() {
    let lab = need!(Lab::new("traps"));
    for scene in scenes(&lab) {
        for words in WRITERS {
            let what = |trap: &str| format!("{words} {trap} in {:?}", scene.folder);
            // A link to a file, a link to none, a link to a link, and a folder that is a link.
            let out = scene.link(&scene.victim, "out.svg", UNPRIVILEGED_UID);
            refused(&write(words, &out), &what("link"));
            scene.link(&scene.place().join("new"), "dangling.svg", UNPRIVILEGED_UID);
            refused(&write(words, &scene.path("dangling.svg")), &what("dangling link"));
            scene.link(Path::new("out.svg"), "second.svg", UNPRIVILEGED_UID);
            refused(&write(words, &scene.path("second.svg")), &what("link to a link"));
            let folder = scene.link(scene.place(), "folder", UNPRIVILEGED_UID);
            refused(&write(words, &folder.join("out.svg")), &what("folder"));
            refused(&write(words, &folder.join("victim")), &what("folder"));
            assert!(out.is_symlink() && folder.is_symlink());
            scene.check_victim(&what("links"));
            // A FIFO without a reader: opening it would block.
            let fifo = scene.path("fifo.svg");
            mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
            chown(&fifo, Some(UNPRIVILEGED_UID), Some(UNPRIVILEGED_UID)).unwrap();
            refused(&write(words, &fifo), &what("FIFO"));
            // A file, which would be the other user's with all that is written to it.
            let file = scene.path("file.svg");
            fs::write(&file, "theirs").unwrap();
            chown(&file, Some(UNPRIVILEGED_UID), Some(UNPRIVILEGED_UID)).unwrap();
            refused(&write(words, &file), &what("file"));
            assert_eq!(fs::read_to_string(&file).unwrap(), "theirs");
            // A hard link, which looks like a file of ours: its name is taken, and the file keeps the others.
            let hard = scene.path("hard.svg");
            fs::hard_link(&scene.victim, &hard).unwrap();
            let outcome = write(words, &hard);
            assert_eq!(outcome.code, Some(0), "{}: {outcome}", what("hard link"));
            scene.check_victim(&what("hard link"));
            assert_eq!(fs::metadata(&scene.victim).unwrap().nlink(), 1);
            assert!(fs::metadata(&hard).unwrap().len() > 8 || words.starts_with("ss"));
            scene.clear();
        }
    }
}

#[test]
fn files_in_a_shared_folder_are_our_own() {
    let lab = need!(Lab::new("ownfiles"));
    for scene in scenes(&lab) {
        for words in WRITERS {
            let out = scene.path("out.svg");
            for _ in 0..2 {
                let outcome = write(words, &out);
                assert_eq!(outcome.code, Some(0), "{words} in {:?}: {outcome}", scene.folder);
                let about = fs::metadata(&out).unwrap();
                assert_eq!((about.uid(), about.nlink()), (0, 1), "{words}");
            }
            // Nothing else is left.
            assert_eq!(fs::read_dir(&scene.folder).unwrap().count(), 1, "{words}");
            scene.clear();
        }
    }
    // A folder of a folder of another user.
    let scene = Scene::new(&lab, "", 0o711, UNPRIVILEGED_UID);
    fs::create_dir(scene.path("sub")).unwrap();
    let out = scene.path("sub/out.svg");
    assert_eq!(write(WRITERS[0], &out).code, Some(0));
    assert_eq!(fs::metadata(&out).unwrap().uid(), 0);
}

#[test]
fn links_and_fifos_of_our_own_are_written_to() {
    let lab = need!(Lab::new("ownlinks"));
    let [sticky, open, _] = scenes(&lab);
    for words in WRITERS {
        let target = sticky.path("target.svg");
        let link = sticky.link(&target, "link.svg", 0);
        assert_eq!(write(words, &link).code, Some(0), "{words}");
        assert!(
            link.is_symlink() && fs::metadata(&target).unwrap().is_file(),
            "{words}"
        );
        // Without the sticky bit another user can have renamed a link of ours.
        let link = open.link(&open.victim, "link.svg", 0);
        refused(&write(words, &link), words);
        open.check_victim(words);
        let fifo = sticky.path("fifo.svg");
        mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        let (code, text) = std::thread::scope(|scope| {
            let writer = scope.spawn(|| write(words, &fifo));
            let mut text = Vec::new();
            fs::File::open(&fifo).unwrap().read_to_end(&mut text).unwrap();
            (writer.join().unwrap().code, text)
        });
        // A host may have no TCP sockets.
        let is_written = !text.is_empty() || words.starts_with("ss");
        assert_eq!((code, is_written), (Some(0), true), "{words}");
        assert!(fs::metadata(&fifo).unwrap().file_type().is_fifo());
        sticky.clear();
        open.clear();
    }
    for words in WRITERS {
        assert_eq!(write(words, Path::new("/dev/null")).code, Some(0), "{words}");
        assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    }
}

/// Another user swaps what has the name while root writes there: nothing, a link to the victim, and back.
#[test]
fn swapping_between_check_and_open_gains_nothing() {
    let lab = need!(Lab::new("swap"));
    for (mode, uid) in [(0o1777, 0), (0o777, 0), (0o755, UNPRIVILEGED_UID)] {
        let scene = Scene::new(&lab, "", mode, uid);
        let over = AtomicBool::new(false);
        let (trap, folder) = (scene.path("trap"), scene.path("sub"));
        let (mut written, mut refusals) = (0, 0);
        std::thread::scope(|scope| {
            scope.spawn(|| swap(&scene, &trap, &folder, &over));
            let begun = Instant::now();
            // On a busy machine it takes longer until both have happened.
            while begun.elapsed() < ROUNDS
                || (written <= 10 || refusals <= 10) && begun.elapsed() < 20 * ROUNDS
            {
                for path in [&trap, &folder.join("victim"), &folder.join("new")] {
                    match write(WRITERS[0], path).code {
                        Some(0) => written += 1,
                        _ => refusals += 1,
                    }
                }
            }
            over.store(true, Ordering::Relaxed);
        });
        println!("{mode:o}: {written} written, {refusals} refused");
        assert!(written > 10 && refusals > 10, "{mode:o}: {written} {refusals}");
        scene.check_victim("swap");
    }
}

/// Replaces a name by a link and by nothing, and a folder by a link, until it is over.
fn swap(scene: &Scene, trap: &Path, folder: &Path, over: &AtomicBool) {
    let (aside, link) = (scene.path("aside"), scene.path("link"));
    let real = scene.path("real");
    fs::create_dir(&real).unwrap();
    chown(&real, Some(UNPRIVILEGED_UID), Some(UNPRIVILEGED_UID)).unwrap();
    scene.link(scene.place(), "sub", UNPRIVILEGED_UID);
    while !over.load(Ordering::Relaxed) {
        // The owner is set before the link has the name: a link of root would be followed.
        if !aside.is_symlink() {
            let _ = fs::remove_file(&aside);
            scene.link(&scene.victim, "aside", UNPRIVILEGED_UID);
        }
        let _ = fs::rename(&aside, trap);
        let _ = renameat_with(CWD, folder, CWD, &real, RenameFlags::EXCHANGE);
        let _ = fs::rename(trap, &aside);
        let _ = renameat_with(CWD, folder, CWD, &real, RenameFlags::EXCHANGE);
        let _ = fs::remove_file(&link);
    }
}

#[test]
fn capture_of_sudo_is_the_callers() {
    let lab = need!(Lab::new("sudo"));
    let scene = Scene::new(&lab, "", 0o755, UNPRIVILEGED_UID);
    let sudo = |words: &str, path: &Path| {
        let mut command = command();
        command
            .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
            .env("SUDO_UID", UNPRIVILEGED_UID.to_string())
            .env("SUDO_GID", UNPRIVILEGED_UID.to_string())
            .args(words.split_whitespace())
            .arg(path);
        run(&mut command)
    };
    let about = |path: &Path| {
        let about = fs::metadata(path).unwrap();
        (about.uid(), about.gid(), about.mode() & 0o7777)
    };
    // In the caller's folder, in one of all users, and in root's.
    let shared = Scene::new(&lab, "", 0o1777, 0);
    for folder in [&scene.folder, &shared.folder, shared.place()] {
        let out = folder.join("out.pcapng");
        for _ in 0..2 {
            let outcome = sudo("capture -i lo -d 0.05 -o", &out);
            assert_eq!(outcome.code, Some(0), "{outcome}");
            assert_eq!(
                about(&out),
                (UNPRIVILEGED_UID, UNPRIVILEGED_UID, 0o640),
                "{folder:?}"
            );
        }
    }
    let outcome = sudo("capture -i lo -d 0.05 --ring 2x1M -o", &scene.path("ring.pcapng"));
    assert_eq!(outcome.code, Some(0), "{outcome}");
    assert_eq!(
        about(&scene.path("ring-00001.pcapng")),
        (UNPRIVILEGED_UID, UNPRIVILEGED_UID, 0o640)
    );
    // The caller's link is the user's own.
    let link = scene.link(&scene.path("target.svg"), "link.svg", UNPRIVILEGED_UID);
    assert_eq!(sudo(WRITERS[0], &link).code, Some(0));
    assert_eq!(about(&scene.path("target.svg")).0, UNPRIVILEGED_UID);
    // Pictures elsewhere stay root's.
    let out = shared.place().join("out.svg");
    assert_eq!(sudo(WRITERS[0], &out).code, Some(0));
    assert_eq!(about(&out).0, 0);
    // Links of a third user are traps.
    let link = shared.link(&shared.victim, "link.svg", UNPRIVILEGED_UID - 1);
    refused(&sudo(WRITERS[0], &link), "third user");
}

#[test]
fn manual_pages_do_not_follow_links() {
    let lab = need!(Lab::new("manlinks"));
    let scene = Scene::new(&lab, "", 0o1777, 0);
    scene.link(&scene.victim, "sockeye.1", UNPRIVILEGED_UID);
    let outcome = write("man", &scene.folder);
    refused(&outcome, "man");
    scene.check_victim("man");
}

/// How long the names are swapped in each folder.
const ROUNDS: Duration = Duration::from_secs(4);

/// The kernel lets a writer of a FIFO wait for a reader; a command still ends by a signal.
#[test]
fn fifo_without_a_reader_does_not_keep_a_command() {
    let lab = need!(Lab::new("fifo"));
    let fifo = lab.directory().join("out.prom");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let mut child = command()
        .args(["export", "prometheus", "--once", "--textfile"])
        .arg(&fifo)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for_sigint_handler(child.id());
    // It has begun to wait by then, or will.
    std::thread::sleep(Duration::from_millis(500));
    assert!(child.try_wait().unwrap().is_none(), "it waits");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let outcome = ended(child);
    assert_ne!(outcome.code, Some(0), "{outcome}");
    // With a reader it gets all.
    let reader = fifo.clone();
    let read = std::thread::spawn(move || fs::read_to_string(reader).unwrap());
    write("export prometheus --once --textfile", &fifo).succeeded();
    assert!(read.join().unwrap().contains("\n# TYPE sockeye_"));
}

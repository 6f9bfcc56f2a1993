//! The owner look-up against real processes: what they say they hold, and what `ss` says they hold.
//!
//! This binary plays the processes as well: a test starts it again, to run [`process_with_a_role`] alone.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sockeye_model::{Inode, Owner, Pid};
use sockeye_source::owners::{Owners, ScanError, ScanOptions};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

/// Name of the environment variable that says what [`process_with_a_role`] is to be.
const ROLE: &str = "SOCKEYE_TEST_ROLE";

/// (inode, pid, descriptor)
type Holds = BTreeSet<(u32, u32, u32)>;

fn inode(fd: BorrowedFd<'_>) -> Inode {
    Inode(rustix::fs::fstat(fd).unwrap().st_ino as u32)
}

fn all_of(owners: &Owners, pid: u32) -> Holds {
    let of_pid = |owner: &&Owner| owner.process.pid.0 == pid;
    owners
        .iter()
        .flat_map(|(inode, owners)| {
            owners
                .iter()
                .filter(of_pid)
                .map(move |owner| (inode.0, pid, owner.fd.0))
        })
        .collect()
}

/// A process of ours that says what it holds, and holds it for as long as we hold its stdin.
struct Actor {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Actor {
    fn start(role: &str) -> Self {
        Self::start_by(Command::new(env::current_exe().unwrap()), role)
    }

    fn start_by(mut command: Command, role: &str) -> Self {
        let mut child = command
            .args([
                "--exact",
                "tests::owners::process_with_a_role",
                "--ignored",
                "--nocapture",
                "--test-threads=1",
            ])
            .env(ROLE, role)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, output }
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Lines of it up to "ready".
    fn says(&mut self) -> Vec<String> {
        let lines = self.output.by_ref().lines().map(Result::unwrap);
        let ours = lines.filter_map(|line| Some(line.split_once("@ ")?.1.to_owned()));
        ours.take_while(|line| line != "ready").collect()
    }

    fn holds(&mut self) -> Holds {
        let pid = self.pid();
        let lines = self.says();
        let numbers = lines.iter().map(|line| line.split_once(' ').unwrap());
        numbers
            .map(|(inode, fd)| (inode.parse().unwrap(), pid, fd.parse().unwrap()))
            .collect()
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// What the other process does; a test only in name.
#[test]
#[ignore = "started by the other tests"]
fn process_with_a_role() {
    let Ok(role) = env::var(ROLE) else { return };
    let mut held = Vec::<OwnedFd>::new();
    match role.split_once('=').unwrap_or((&role, "")) {
        ("named", name) => {
            fs::write("/proc/self/comm", name).unwrap();
            held.push(TcpListener::bind("127.0.0.1:0").unwrap().into());
        }
        ("connections", count) => {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            for _ in 0..count.parse().unwrap() {
                held.push(TcpStream::connect(listener.local_addr().unwrap()).unwrap().into());
                held.push(listener.accept().unwrap().0.into());
            }
            held.push(listener.into());
        }
        ("sparse", _) => {
            let limit = getrlimit(Resource::Nofile).maximum;
            let all = Rlimit {
                current: limit,
                maximum: limit,
            };
            setrlimit(Resource::Nofile, all).unwrap();
            held.extend((0..5000).map(|_| OwnedFd::from(UdpSocket::bind("127.0.0.1:0").unwrap())));
            held.drain(1500..3500);
            for far in [9000, 9001, 12_000] {
                held.push(rustix::io::fcntl_dupfd_cloexec(&held[7], far).unwrap());
            }
        }
        ("restless", _) => {
            let low: Vec<_> = (0..40).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
            held.push(TcpListener::bind("127.0.0.1:0").unwrap().into());
            drop(low);
            thread::spawn(|| {
                loop {
                    let pairs: Vec<_> = (0..30).map(|_| UdpSocket::bind("127.0.0.1:0")).collect();
                    drop(pairs);
                }
            });
        }
        ("scan", proc) => {
            let options = ScanOptions {
                proc: PathBuf::from(proc),
                ..ScanOptions::default()
            };
            let own = TcpListener::bind("127.0.0.1:0").unwrap();
            let owners = Owners::scan(&options).unwrap();
            let me = std::process::id();
            println!(
                "@ sees itself: {}",
                owners
                    .of(inode(own.as_fd()))
                    .iter()
                    .any(|owner| owner.process.pid == Pid(me))
            );
            println!("@ unreadable: {}", owners.losses().unreadable_processes > 0);
            println!("@ hidden: {}", owners.hides_processes());
        }
        _ => panic!("no such role: {role}"),
    }
    for fd in &held {
        println!("@ {} {}", inode(fd.as_fd()), fd.as_raw_fd());
    }
    println!("@ ready");
    let _ = std::io::stdin().read(&mut [0]);
}

fn scan() -> Owners {
    Owners::scan(&ScanOptions::default()).unwrap()
}

#[test]
fn listener_has_its_process_as_owner() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let owners = scan();
    let [owner] = owners.of(inode(listener.as_fd())) else {
        panic!("{:?}", owners.of(inode(listener.as_fd())));
    };
    let comm = fs::read("/proc/self/comm").unwrap();
    assert_eq!(owner.process.pid.0, std::process::id());
    assert_eq!(owner.process.comm.as_bytes(), comm.trim_ascii_end());
    assert_eq!(
        owner.process.pgid.map(|pgid| pgid.0),
        Some(rustix::process::getpgrp().as_raw_nonzero().get() as u32)
    );
    assert_eq!(owner.fd.0, listener.as_raw_fd() as u32);
    assert!(owners.processes() > 0 && owners.descriptors() >= owners.socket_descriptors());
    let gone = inode(listener.as_fd());
    drop(listener);
    assert!(scan().of(gone).is_empty());
}

#[test]
fn socket_shared_with_child_has_two_owners() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let shared = OwnedFd::from(listener.try_clone().unwrap());
    let twin = shared.as_raw_fd() as u32;
    let own = listener.as_raw_fd() as u32;
    let socket = inode(listener.as_fd());
    let mut child = Command::new("sleep")
        .arg("60")
        .stdin(Stdio::from(shared))
        .spawn()
        .unwrap();
    let owners = scan();
    let found: BTreeSet<_> = owners
        .of(socket)
        .iter()
        .map(|owner| (owner.process.pid.0, owner.fd.0))
        .collect();
    let ordered = owners
        .of(socket)
        .is_sorted_by_key(|owner| (owner.process.pid, owner.fd));
    child.kill().unwrap();
    child.wait().unwrap();
    // Spawning gave our copy away, and closed it.
    let expected = BTreeSet::from([(std::process::id(), own), (child.id(), 0)]);
    assert_eq!(found, expected, "also not {twin}");
    assert!(ordered);
}

#[test]
fn process_names_are_unchanged_bytes() {
    for name in ["a) R 1 (b", "\x1b[2J\x1b[31mred", "two\nlines", ")", "((", " "] {
        let mut actor = Actor::start(&format!("named={name}"));
        let holds = actor.holds();
        let (socket, ..) = *holds.first().unwrap();
        let owners = scan();
        let owner = owners.of(Inode(socket)).first().expect("held by the actor");
        assert_eq!(owner.process.pid.0, actor.pid());
        assert_eq!(owner.process.comm.as_bytes(), name.as_bytes());
        assert_eq!(all_of(&owners, actor.pid()), holds);
    }
}

#[test]
fn large_sparse_table_is_complete_for_any_thread_count() {
    if getrlimit(Resource::Nofile)
        .maximum
        .is_some_and(|most| most < 12_500)
    {
        println!("SKIP: may not open 12,500 descriptors (ulimit -Hn)");
        return;
    }
    let mut actor = Actor::start("sparse");
    let holds = actor.holds();
    assert_eq!(holds.len(), 3003);
    for threads in [0, 1, 2, 8] {
        let options = ScanOptions {
            threads,
            ..ScanOptions::default()
        };
        assert_eq!(
            all_of(&Owners::scan(&options).unwrap(), actor.pid()),
            holds,
            "{threads} threads"
        );
        let alone = Owners::scan_pids(&[Pid(actor.pid())], &options).unwrap();
        assert_eq!(all_of(&alone, actor.pid()), holds, "{threads} threads");
        assert_eq!((alone.processes(), alone.socket_descriptors()), (1, holds.len()));
    }
}

#[test]
fn scan_of_pids_finds_their_sockets_only() {
    let mut chosen = Actor::start("connections=3");
    let mut other = Actor::start("connections=3");
    let (holds, others) = (chosen.holds(), other.holds());
    let no_process = Pid(u32::MAX >> 1);
    let owners = Owners::scan_pids(&[Pid(chosen.pid()), no_process], &ScanOptions::default()).unwrap();
    assert_eq!(all_of(&owners, chosen.pid()), holds);
    assert!(
        others
            .iter()
            .all(|(inode, ..)| owners.of(Inode(*inode)).is_empty())
    );
    assert_eq!((owners.processes(), owners.losses().vanished_processes), (1, 1));
    assert!(!owners.hides_processes());
}

#[test]
fn ended_processes_are_counted_and_lasting_ones_complete() {
    let mut lasting = Actor::start("connections=10");
    let holds = lasting.holds();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
                    let mut child = Command::new("true")
                        .stdin(Stdio::from(OwnedFd::from(socket)))
                        .spawn()
                        .unwrap();
                    child.wait().unwrap();
                }
            });
        }
        // Assertions in here would leave the spawners running: collect first.
        let start = Instant::now();
        let mut scans = Vec::new();
        // A host with very many sockets takes its time over each.
        while scans.len() < 50 && start.elapsed() < Duration::from_secs(5) {
            scans.push(Owners::scan(&ScanOptions::default()));
        }
        done.store(true, Ordering::Relaxed);
        for owners in scans {
            let owners = owners.unwrap();
            assert_eq!(all_of(&owners, lasting.pid()), holds);
            assert!(owners.losses().vanished_processes < 20, "{:?}", owners.losses());
        }
    });
}

/// A process that opens descriptors while it is read makes its count full early: what it holds above them was
/// overlooked.
#[test]
fn lasting_descriptors_are_found_during_churn() {
    let mut busy = Actor::start("restless");
    let holds = busy.holds();
    assert_eq!(holds.len(), 1);
    for _ in 0..300 {
        let owners = Owners::scan_pids(&[Pid(busy.pid())], &ScanOptions::default()).unwrap();
        let found = all_of(&owners, busy.pid());
        assert!(found.is_superset(&holds), "{holds:?} is not in {found:?}");
    }
}

#[test]
fn owners_match_ss() {
    let mut actor = Actor::start("connections=200");
    let holds = actor.holds();
    let ss = match Command::new("ss").args(["-tanpeH"]).output() {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).into_owned(),
        _ => {
            println!("SKIP: no ss here");
            return;
        }
    };
    let pid = actor.pid();
    let mut theirs = Holds::new();
    for line in ss.lines() {
        let Some(inode) = line.split(" ino:").nth(1).and_then(|rest| rest.split(' ').next()) else {
            continue;
        };
        for owner in line.split(&format!("pid={pid},fd=")).skip(1) {
            let fd = owner.split(')').next().unwrap();
            theirs.insert((inode.parse().unwrap(), pid, fd.parse().unwrap()));
        }
    }
    assert_eq!(theirs, holds);
    assert_eq!(all_of(&scan(), pid), theirs);
}

#[test]
fn missing_proc_is_an_error_with_remedy() {
    let at = |proc: &Path| {
        Owners::scan(&ScanOptions {
            proc: proc.to_owned(),
            ..ScanOptions::default()
        })
    };
    let tmp = env::temp_dir();
    assert_eq!(at(&tmp).unwrap_err(), ScanError::NotProc { path: tmp.clone() });
    assert!(at(&tmp).unwrap_err().to_string().contains("mount -t proc"));
    let error = at(Path::new("/nosuch")).unwrap_err();
    assert!(matches!(error, ScanError::NotProc { .. }), "{error}");
    assert!(error.to_string().contains("/nosuch"));
}

/// A copy of this binary that everybody may run, and a folder to mount on; gone when dropped.
struct Stage(PathBuf);

impl Stage {
    fn new(name: &str) -> Self {
        let folder = env::temp_dir().join(format!("sockeye-{name}-{}", std::process::id()));
        fs::create_dir_all(folder.join("proc")).unwrap();
        // By cp(1): a child forked meanwhile would inherit our descriptor, and the copy would be busy.
        let copied = Command::new("cp")
            .arg(env::current_exe().unwrap())
            .arg(folder.join("actor"))
            .status();
        assert!(copied.unwrap().success());
        Self(folder)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const UNPRIVILEGED: [&str; 4] = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];

fn can_drop_privileges() -> bool {
    let possible = rustix::process::geteuid().is_root()
        && Command::new(UNPRIVILEGED[0])
            .args(&UNPRIVILEGED[1..])
            .arg("true")
            .status()
            .is_ok_and(|status| status.success());
    if !possible {
        println!("SKIP: needs root and setpriv to become another user");
    }
    possible
}

#[test]
fn unprivileged_scan_sees_own_and_counts_others() {
    if !can_drop_privileges() {
        return;
    }
    let stage = Stage::new("unprivileged");
    let mut command = Command::new(UNPRIVILEGED[0]);
    command.args(&UNPRIVILEGED[1..]).arg(stage.0.join("actor"));
    let mut actor = Actor::start_by(command, "scan=/proc");
    assert_eq!(
        actor.says(),
        ["sees itself: true", "unreadable: true", "hidden: false"]
    );
}

#[test]
fn hidden_processes_are_reported() {
    if !can_drop_privileges() {
        return;
    }
    let stage = Stage::new("hidepid");
    let proc = stage.0.join("proc");
    let mount = |hidepid: &str| {
        // In a mount namespace that ends with the actor.
        let script = format!(
            "mount -t proc -o hidepid={hidepid} proc \"$0\" || exit 9; exec {} \"$@\"",
            UNPRIVILEGED.join(" ")
        );
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "sh", "-c", &script])
            .args([&proc, &stage.0.join("actor")]);
        Actor::start_by(command, &format!("scan={}", proc.display())).says()
    };
    let hidden = mount("2");
    if hidden.is_empty() {
        println!("SKIP: cannot mount proc with hidepid");
        return;
    }
    assert_eq!(hidden, ["sees itself: true", "unreadable: false", "hidden: true"]);
    assert_eq!(
        mount("1"),
        ["sees itself: true", "unreadable: true", "hidden: false"]
    );
}

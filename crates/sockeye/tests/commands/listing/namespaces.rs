//! Labels of network namespaces without a name: processes of our own in namespaces of their own,
//! in cgroups named as container runtimes name theirs.

use crate::fixtures::binary::{Outcome, assert_harmless, command, run, sockets};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::Value;
use sockeye_lab::{Lab, Skip, need, program, wait_until};
use std::fs::{self, File};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A namespace without a name that one process of ours lives in, with a connection inside; both go with it.
struct Dwelling {
    process: Child,
    /// From the outermost inwards.
    folders: Vec<PathBuf>,
    inode: u64,
    port: u16,
    _sockets: Vec<(TcpListener, TcpStream, TcpStream)>,
}

impl Dwelling {
    /// In the cgroup `path` below `mount`, whose folders it makes.
    fn new(cgroup: Option<(&Path, &str)>) -> Result<Self, Skip> {
        // Rights to make namespaces, and `ip`, are what a lab needs too.
        let unshare = program("unshare")?;
        program("nsenter")?;
        let own = netns_of("self").map_err(|error| Skip::new(format!("/proc: {error}")))?;
        let process = Command::new(unshare)
            .args(["--net", "--", "sleep", "3600"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("unshare starts");
        let mut dwelling = Self {
            process,
            folders: Vec::new(),
            inode: 0,
            port: 0,
            _sockets: Vec::new(),
        };
        let pid = dwelling.pid().to_string();
        wait_until("unshare to become sleep", || {
            fs::read(format!("/proc/{pid}/comm")).expect("it lives") == b"sleep\n"
        });
        dwelling.inode = netns_of(&pid).expect("it lives");
        assert_ne!(dwelling.inode, own);
        if let Some((mount, path)) = cgroup {
            let mut folder = mount.to_owned();
            for part in path.split('/').filter(|part| !part.is_empty()) {
                folder.push(part);
                fs::create_dir(&folder)
                    .map_err(|error| Skip::new(format!("a cgroup {folder:?}: {error}")))?;
                dwelling.folders.push(folder.clone());
            }
            fs::write(folder.join("cgroup.procs"), &pid)
                .map_err(|error| Skip::new(format!("to move a process into {folder:?}: {error}")))?;
        }
        let link = run(Command::new("nsenter").args([
            &format!("--net=/proc/{pid}/ns/net"),
            "ip",
            "link",
            "set",
            "lo",
            "up",
        ]));
        link.ok();
        let connection = dwelling.inside(|| {
            let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
            let address = listener.local_addr().expect("an address");
            let client = TcpStream::connect(address).expect("connect");
            let server = listener.accept().expect("accept").0;
            (listener, client, server)
        });
        dwelling.port = connection.0.local_addr().expect("an address").port();
        dwelling._sockets.push(connection);
        Ok(dwelling)
    }

    fn pid(&self) -> u32 {
        self.process.id()
    }

    fn inside<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        let file = File::open(format!("/proc/{}/ns/net", self.pid())).expect("open the namespace");
        std::thread::scope(|scope| {
            let inside = scope.spawn(|| {
                move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).expect("setns");
                act()
            });
            inside.join().expect("no panic inside")
        })
    }

    /// What the rows of a listing call it; all the same.
    #[track_caller]
    fn called<'a>(&self, rows: &'a [Value]) -> &'a str {
        let mut ours = rows.iter().filter(|row| row["netns_inode"] == self.inode);
        let name = &ours
            .next()
            .unwrap_or_else(|| panic!("{} in {rows:#?}", self.inode))["netns"];
        assert!(ours.all(|row| row["netns"] == *name), "{rows:#?}");
        name.as_str().unwrap_or_else(|| panic!("a name in {rows:#?}"))
    }
}

impl Drop for Dwelling {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        for folder in self.folders.iter().rev() {
            // The last process leaves its cgroup a little later than its parent learns of its end.
            wait_until(format_args!("{folder:?} to be removed"), || {
                fs::remove_dir(folder).is_ok() || !folder.exists()
            });
        }
    }
}

fn netns_of(pid: &str) -> std::io::Result<u64> {
    Ok(fs::metadata(format!("/proc/{pid}/ns/net"))?.ino())
}

/// Where cgroups are mounted: version 2, or the hierarchy of version 1 that systemd names.
fn mount(kind: &str, options: &str) -> Result<PathBuf, Skip> {
    let mounts = fs::read_to_string("/proc/self/mounts").expect("proc is mounted");
    let point = mounts
        .lines()
        .find_map(|line| match line.split(' ').collect::<Vec<_>>()[..] {
            [_, point, found, with, ..] if found == kind && with.contains(options) => {
                Some(PathBuf::from(point))
            }
            _ => None,
        });
    point.ok_or_else(|| Skip::new(format!("no {kind} mount {options}")))
}

/// An id as runtimes make them, that differs from that of every other test in its first twelve digits, and is no
/// number.
fn id(number: u32) -> String {
    format!("f{number:03x}{:08x}{:052x}", std::process::id(), 0x50c6_e7e5)
}

fn sockeye(words: &[&str]) -> Outcome {
    run(command().args(words))
}

/// Sockets of all namespaces.
#[track_caller]
fn listed(filter: &[&str]) -> Vec<Value> {
    let outcome = sockeye(&[&["sockets", "-tan", "--netns", "all", "--format", "json"], filter].concat());
    sockets(&outcome.json()).clone()
}

#[track_caller]
fn inodes(rows: &[Value]) -> Vec<u64> {
    let mut all: Vec<_> = rows
        .iter()
        .map(|row| row["netns_inode"].as_u64().expect("an inode"))
        .collect();
    all.sort_unstable();
    all.dedup();
    all
}

#[test]
fn every_kind_of_name_is_in_every_format() {
    let lab = need!(Lab::new("called"));
    let v2 = need!(mount("cgroup2", ""));
    let unique = lab.name();
    let given = lab.namespace("given");
    let pair = given.loopback().established();
    let (docker, podman, crio) = (id(1), id(2), id(3));
    let folder = |path: &str| format!("/{unique}-{path}");
    let nspawn = format!(
        "{unique}-slice/machine-{}.scope/payload",
        unique.replace('-', "\\x2d")
    );
    let cases = [
        (
            folder(&format!("a/docker-{docker}.scope")),
            docker[..12].to_owned(),
        ),
        (
            folder(&format!("b/libpod-{podman}.scope/container")),
            podman[..12].to_owned(),
        ),
        (folder(&format!("c/crio-{crio}.scope")), crio[..12].to_owned()),
        (nspawn, unique.to_owned()),
        (format!("/lxc.payload.{unique}-box"), format!("{unique}-box")),
    ];
    let mut dwellings = Vec::new();
    for (path, name) in &cases {
        dwellings.push((need!(Dwelling::new(Some((&v2, path)))), name.clone()));
    }
    let alone = need!(Dwelling::new(None));
    let name = format!("{}/sleep", alone.pid());
    dwellings.push((alone, name));

    let rows = listed(&[]);
    let flows = sockeye(&[
        "flows",
        "-n",
        "--netns",
        "all",
        "--group-by",
        "netns",
        "--format",
        "json",
    ])
    .json();
    let flows = flows["flows"].as_array().expect("flows");
    for (dwelling, name) in &dwellings {
        assert_eq!(dwelling.called(&rows), name);
        assert_eq!(dwelling.called(flows), name);
    }
    let row = rows
        .iter()
        .find(|row| row["inode"] == pair.client.inode)
        .expect("the named one");
    assert_eq!(row["netns"], given.name());

    let table = sockeye(&["sockets", "-tan", "--netns", "all"]);
    let csv = sockeye(&["sockets", "-tan", "--netns", "all", "--format", "csv"]);
    let folded = sockeye(&["flows", "-n", "--netns", "all", "--group-by", "netns"]);
    let folded_csv = sockeye(&[
        "flows",
        "-n",
        "--netns",
        "all",
        "--group-by",
        "netns",
        "--format",
        "csv",
    ]);
    for (dwelling, name) in &dwellings {
        let line = |text: &Outcome, also: &str| {
            let is_it = |line: &str| line.contains(name) && line.contains(also);
            assert!(text.ok().lines().any(is_it), "{name} and {also} in {text}");
        };
        line(&table, &format!("127.0.0.1:{}", dwelling.port));
        line(&csv, &format!("{},{name}", dwelling.inode));
        line(&folded, "");
        line(&folded_csv, &format!("{},{name}", dwelling.inode));
    }
    // One namespace that is listed alone has its name as well.
    let (dwelling, name) = &dwellings[0];
    let pid = dwelling.pid().to_string();
    let one = sockeye(&["sockets", "-tan", "--netns", &pid, "--format", "json"]).json();
    assert_eq!(dwelling.called(sockets(&one)), name);
}

#[test]
fn shown_names_select_the_namespace() {
    let lab = need!(Lab::new("typed"));
    let v2 = need!(mount("cgroup2", ""));
    let docker = id(4);
    let twins = format!("{}-twins", lab.name());
    let container = need!(Dwelling::new(Some((&v2, &format!("/docker-{docker}.scope")))));
    let first = need!(Dwelling::new(Some((&v2, &format!("/lxc.payload.{twins}")))));
    let escaped = twins.replace('-', "\\x2d");
    let second = need!(Dwelling::new(Some((&v2, &format!("/machine-{escaped}.scope")))));
    let alone = need!(Dwelling::new(None));

    let process = format!("{}/sleep", alone.pid());
    let bracketed = format!("net:[{}]", container.inode);
    let mut both = vec![first.inode, second.inode];
    both.sort_unstable();
    for (name, expected) in [
        (&docker[..], &[container.inode][..]),
        (&docker[..12], &[container.inode]),
        (&docker[..40], &[container.inode]),
        (&bracketed, &[container.inode]),
        (&process, &[alone.inode]),
        (&twins, &both),
    ] {
        assert_eq!(inodes(&listed(&["netns", "=", name])), expected, "{name}");
    }
    let others = inodes(&listed(&["netns", "!=", &twins]));
    assert!(
        !others.contains(&both[0]) && !others.contains(&both[1]),
        "{others:?}"
    );
    assert!(
        others.contains(&container.inode) && others.contains(&alone.inode),
        "{others:?}"
    );
    let unknown = sockeye(&["sockets", "--netns", "all", "netns", "=", &docker[..11]]);
    assert!(
        unknown
            .failed(2)
            .contains("expected the inode or name of a network namespace"),
        "{unknown}"
    );

    for name in [&docker[..], &docker[..12], &docker[..40]] {
        let outcome = sockeye(&["sockets", "-tan", "--netns", name, "--format", "json"]);
        let rows = sockets(&outcome.json()).clone();
        assert_eq!(
            (rows.len(), &*inodes(&rows)),
            (3, &[container.inode][..]),
            "{outcome}"
        );
        assert_eq!(container.called(&rows), &docker[..12]);
    }
    let outcome = sockeye(&["sockets", "-tan", "--netns", &twins]);
    let error = outcome.failed(1);
    assert!(error.contains("is ambiguous: 2 have this name"), "{outcome}");
    for twin in [&first, &second] {
        assert!(
            error.contains(&format!("net:[{}] of pid {}", twin.inode, twin.pid())),
            "{outcome}"
        );
    }
    let outcome = sockeye(&["sockets", "--netns", &docker[..11]]);
    assert!(
        outcome.failed(1).contains("a container's name will do"),
        "{outcome}"
    );
}

#[test]
fn cgroup1_paths_name_containers() {
    let _lab = need!(Lab::new("version1"));
    let v1 = need!(mount("cgroup", "name="));
    let docker = id(5);
    // The folder `docker` itself may be a real daemon's.
    let path = format!("/sockeye-{}/docker/{docker}", std::process::id());
    let dwelling = need!(Dwelling::new(Some((&v1, &path))));
    assert_eq!(dwelling.called(&listed(&[])), &docker[..12]);
}

#[test]
fn control_characters_in_container_names_are_escaped() {
    let lab = need!(Lab::new("harm"));
    let v2 = need!(mount("cgroup2", ""));
    let path = format!("/lxc.payload.{}\u{1b}[31m\u{202e}\u{9b}2J", lab.name());
    let _dwelling = need!(Dwelling::new(Some((&v2, &path))));
    for words in [
        &["sockets", "-tane"][..],
        &["flows", "-n"],
        &["flows", "-n", "--group-by", "netns"],
    ] {
        for format in ["table", "csv", "json"] {
            let outcome = sockeye(&[words, &["--netns", "all", "--format", format]].concat());
            assert!(outcome.ok().contains(lab.name()), "{outcome}");
            assert_harmless(outcome.ok().replace('\r', "").as_bytes());
        }
    }
    for form in [&[][..], &["--format", "json"], &["--format", "csv"]] {
        let outcome = sockeye(&[&["ns", "list"][..], form].concat());
        assert_harmless(outcome.ok().replace('\r', "").as_bytes());
        assert_harmless(&outcome.stderr);
    }
}

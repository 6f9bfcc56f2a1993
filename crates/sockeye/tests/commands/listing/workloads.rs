//! `--group-by container|unit|cgroup|exe` of `flows`, and the columns and words of the same names: processes in cgroups
//! named as runtimes and systemd name theirs, and a container of the real runc.

use crate::fixtures::binary::{self, Outcome, SOCKEYE, assert_harmless, run, sockets};
use serde_json::{Value, json};
use sockeye_lab::{Lab, Namespace, Skip, need, program, wait_until};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

const ID: &str = "9ec39b91f3d70e1beff50a308f77067065ea6be0d91a3378375056cd4422cf3d";
/// A listener that never accepts, and in each cgroup a process with a connection, one that all share, and one that was
/// closed before its data could leave: it has no owner.
const PEERS: &str = r#"
import os, socket, sys
listener = socket.create_server(("127.0.0.1", 4455))
def connect():
    return socket.create_connection(("127.0.0.1", 4455))
shared = connect()
for cgroup in sys.argv[1:]:
    ready, done = os.pipe()
    if os.fork() == 0:
        listener.close()
        with open(cgroup + "/cgroup.procs", "w") as file:
            file.write(str(os.getpid()))
        kept, gone = connect(), connect()
        gone.setblocking(False)
        try:
            while True:
                gone.send(b"x" * 65536)
        except BlockingIOError:
            pass
        gone.close()
        os.write(done, b"1")
        os.read(0, 1)
        os._exit(0)
    os.read(ready, 1)
print("ready", flush=True)
sys.stdin.read()
for _ in sys.argv[1:]:
    os.wait()
"#;

/// Connections of processes in cgroups, within a namespace.
struct Peers {
    process: Child,
    stdin: Option<ChildStdin>,
    inside: Namespace,
    lab: Lab,
}

impl Peers {
    fn new(purpose: &str, paths: &[&str]) -> Result<Self, Skip> {
        let python = program("python3")?;
        let lab = Lab::new(purpose)?;
        let (inside, cgroup) = (lab.namespace("inside"), lab.cgroup()?);
        let folders: Vec<PathBuf> = paths.iter().map(|path| cgroup.join(path)).collect();
        for folder in &folders {
            fs::create_dir_all(folder).map_err(|error| Skip::new(format!("a cgroup {folder:?}: {error}")))?;
        }
        let mut command = inside.command(python.to_str().unwrap(), &["-c", PEERS]);
        command
            .args(&folders)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut line = String::new();
        let stdin = process.stdin.take().unwrap();
        BufReader::new(process.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert_eq!(line, "ready\n");
        Ok(Self {
            process,
            stdin: Some(stdin),
            inside,
            lab,
        })
    }

    fn sockeye(&self, words: &[&str]) -> Outcome {
        binary::sockeye(&[words, &["-N", self.inside.name()]].concat())
    }

    /// On a host that uses cgroups v2 only, as `/proc/self/cgroup` shows it.
    fn on_v2(&self, words: &[&str]) -> Outcome {
        let file = std::env::temp_dir().join(format!("{}-cgroup", self.lab.name()));
        fs::write(&file, "0::/\n").unwrap();
        let script = format!("mount --bind {} /proc/$$/cgroup && exec \"$@\"", file.display());
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", &script, "sh", SOCKEYE]);
        command.args(words).args(["-N", self.inside.name()]);
        binary::clean(&mut command);
        let outcome = run(&mut command);
        fs::remove_file(&file).unwrap();
        outcome
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        // All of them read the end of this pipe.
        self.stdin = None;
        let _ = self.process.wait();
    }
}

/// Connections by group and direction; `-` without a group.
fn groups(outcome: &Outcome, key: &str) -> BTreeMap<(String, String), u64> {
    let document = outcome.json();
    let flows = document["flows"].as_array().unwrap();
    let text = |flow: &Value, key: &str| flow[key].as_str().unwrap_or("-").to_owned();
    flows
        .iter()
        .map(|flow| {
            let group = (text(flow, key), text(flow, "direction"));
            (group, flow["connections"].as_u64().unwrap())
        })
        .collect()
}

#[track_caller]
fn check(outcome: &Outcome, key: &str, expected: &[(&str, &str, u64)]) {
    let expected = expected
        .iter()
        .map(|(name, direction, count)| ((name.to_string(), direction.to_string()), *count));
    assert_eq!(groups(outcome, key), expected.collect(), "{outcome}");
}

#[test]
fn connections_are_grouped_by_what_runs() {
    let container = format!("docker-{ID}.scope");
    let peers = need!(Peers::new("groups", &[&container, "system.slice/nginx.service"]));
    let docker = format!("docker:{}", &ID[..12]);
    // Connections that were not accepted have no owner, and the root's cgroup says nothing.
    let waiting = ("-", "passive", 5);
    for on_v2 in [false, true] {
        let sockeye = |words: &[&str]| match on_v2 {
            true => peers.on_v2(words),
            false => peers.sockeye(words),
        };
        let flows = |by: &str| sockeye(&["flows", "-n", "--group-by", by, "--format", "json"]);
        // Two each, and the one that both and their parent own.
        let expected = [(&*docker, "active", 3), ("(none)", "active", 3), waiting];
        check(&flows("container"), "container", &expected);
        let expected = [
            (&*container, "active", 3),
            ("nginx.service", "active", 3),
            ("(none)", "active", 1),
            waiting,
        ];
        check(&flows("unit"), "unit", &expected);

        let rows = |filter: &str| {
            let words = ["sockets", "-tan", "--columns", "container,unit,workload_source"];
            sockeye(&[&words[..], &["--format", "json", filter]].concat()).json()
        };
        let by_name = |document: &Value| -> Vec<(String, String, String)> {
            let text = |row: &Value, key: &str| row[key].as_str().unwrap_or("-").to_owned();
            let of = |row: &Value| {
                (
                    text(row, "container"),
                    text(row, "unit"),
                    text(row, "workload_source"),
                )
            };
            let mut all: Vec<_> = sockets(document).iter().map(of).collect();
            all.sort_unstable();
            all
        };
        // That of the connection without an owner is known by the socket.
        let kept = if on_v2 { "socket" } else { "owner" };
        let service = |source: &str| ("(none)".to_owned(), "nginx.service".to_owned(), source.to_owned());
        let found = by_name(&rows("unit = nginx and container = none and state connected"));
        let mine: Vec<_> = found.iter().filter(|row| !row.0.contains(',')).cloned().collect();
        assert_eq!(mine, [service(kept), service("socket")], "{found:?}");
        let shared: Vec<_> = found.iter().filter(|row| row.0.contains(',')).collect();
        assert_eq!(shared.len(), 1, "{found:?}");
        assert_eq!(shared[0].2, "owner");
        for name in [&docker, ID, &ID[..12]] {
            assert_eq!(by_name(&rows(&format!("container = {name}"))).len(), 3, "{name}");
        }
        assert_eq!(by_name(&rows(&format!("container = {}", &ID[..11]))).len(), 0);
        assert_eq!(by_name(&rows("unit ~ nginx* and container !~ none")).len(), 0);
    }
    // On v2 only, owners are searched for the shared connection, and for nothing else.
    let words = ["sockets", "-tan", "-v", "--columns", "unit"];
    let searched = |filter: &str| {
        peers
            .on_v2(&[&words[..], &[filter]].concat())
            .error()
            .contains("owners: read by")
    };
    assert!(searched("state connected"));
    assert!(!searched("state fin-wait-1"));
}

#[test]
fn cgroups_users_and_executables_are_groups() {
    let peers = need!(Peers::new("exes", &["system.slice/nginx.service"]));
    let path = format!("/{}/system.slice/nginx.service", peers.lab.name());
    let flows = |by: &str| peers.sockeye(&["flows", "-n", "--group-by", by, "--format", "json"]);
    let expected = [(&*path, "active", 3), ("/", "active", 1), ("-", "passive", 3)];
    check(&flows("cgroup"), "cgroup", &expected);
    let python = fs::read_link(format!("/proc/{}/exe", peers.process.id())).unwrap();
    let python = python.to_str().unwrap();
    // The closed connection has no owner, and no executable.
    let expected = [(python, "active", 2), ("-", "active", 1), ("-", "passive", 3)];
    check(&flows("exe"), "exe", &expected);
    assert_eq!(flows("user").json()["flows"], flows("uid").json()["flows"]);

    let table = peers.sockeye(&["flows", "-n", "--group-by", "exe", "-H"]);
    assert!(table.ok().lines().any(|line| line.starts_with("- ")), "{table}");
    let csv = peers.sockeye(&["flows", "-n", "--group-by", "cgroup", "--format", "csv"]);
    assert!(csv.ok().contains(&path), "{csv}");
    let sorted = peers.sockeye(&[
        "sockets",
        "-tanH",
        "--columns",
        "exe",
        "--sort",
        "-exe",
        "state connected",
    ]);
    // A long path is cut in its middle.
    assert!(
        sorted.ok().starts_with(&python[..python.len().min(20)]),
        "{sorted}"
    );
    let filtered = peers.sockeye(&["sockets", "-tanH", "--columns", "exe", &format!("exe = {python}")]);
    assert_eq!(filtered.ok().lines().count(), 3, "with the listener: {filtered}");
    let outcome = peers.sockeye(&["flows", "--group-by", "pod"]);
    assert!(
        outcome
            .failed(2)
            .contains("expected host, port, process, user, container"),
        "{outcome}"
    );
}

#[test]
fn control_characters_in_cgroups_are_escaped() {
    let odd = "lxc.payload.a\u{1b}[31m\u{202e}\u{9b}2J";
    let peers = need!(Peers::new("oddgroups", &[odd]));
    for by in ["container", "cgroup", "unit"] {
        for format in ["table", "csv", "json"] {
            let outcome = peers.sockeye(&["flows", "-n", "--group-by", by, "--format", format]);
            assert_harmless(outcome.ok().replace('\r', "").as_bytes());
        }
    }
    let outcome = peers.sockeye(&["sockets", "-tan", "--columns", "container,cgroup"]);
    assert!(outcome.ok().contains("31m"), "{outcome}");
    assert_harmless(outcome.ok().as_bytes());
}

/// A container of runc, whose program listens.
struct Container {
    id: String,
    bundle: PathBuf,
    parent: String,
}

impl Container {
    /// Starts one as Docker does, whose cgroup has the container's id.
    fn as_by_docker(lab: &Lab, inside: &Namespace) -> Result<Self, Skip> {
        let digits = lab.name().bytes().rev().map(|byte| format!("{byte:02x}"));
        // The name has the pid of this process.
        let id = format!("{:0<64.64}", digits.collect::<String>());
        let cgroup = format!("/{}/docker/{id}", lab.name());
        Self::new(lab, inside, id, Some(&cgroup))
    }

    /// Starts one as a user of runc does: its name is that of its cgroup.
    fn plain(lab: &Lab, inside: &Namespace) -> Result<Self, Skip> {
        Self::new(lab, inside, lab.name().to_owned(), None)
    }

    fn new(lab: &Lab, inside: &Namespace, id: String, cgroup: Option<&str>) -> Result<Self, Skip> {
        let (runc, busybox) = (program("runc")?, program("busybox")?);
        let bundle = std::env::temp_dir().join(lab.name());
        let bin = bundle.join("rootfs/bin");
        fs::create_dir_all(&bin).unwrap();
        fs::copy(busybox, bin.join("busybox")).unwrap();
        let container = Self {
            id,
            bundle,
            parent: lab.name().to_owned(),
        };
        let spec = run(Command::new(runc).arg("spec").current_dir(&container.bundle));
        spec.ok();
        let config = container.bundle.join("config.json");
        let mut json: Value = serde_json::from_slice(&fs::read(&config).unwrap()).unwrap();
        json["process"]["terminal"] = json!(false);
        json["process"]["args"] = json!(["/bin/busybox", "nc", "-l", "-p", "4455"]);
        json["process"].as_object_mut().unwrap().remove("rlimits");
        if let Some(cgroup) = cgroup {
            json["linux"]["cgroupsPath"] = json!(cgroup);
        }
        json["linux"]["resources"] = json!({});
        // In the namespace of the lab.
        for namespace in json["linux"]["namespaces"].as_array_mut().unwrap() {
            if namespace["type"] == "network" {
                namespace["path"] = json!(format!("/run/netns/{}", inside.name()));
            }
        }
        fs::write(&config, json.to_string()).unwrap();
        // Its program keeps the descriptors of runc: a pipe would not end.
        let errors = container.bundle.join("errors");
        let mut command = Command::new("runc");
        command
            .args(["run", "-d", &container.id])
            .current_dir(&container.bundle)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(&errors).unwrap());
        if !command.status().unwrap().success() {
            let errors = fs::read_to_string(&errors).unwrap();
            return Err(Skip::new(format!("runc runs no container: {}", errors.trim())));
        }
        Ok(container)
    }

    fn runc(&self, words: &[&str]) -> Outcome {
        let mut command = Command::new("runc");
        command.args(words).current_dir(&self.bundle).stdin(Stdio::null());
        run(&mut command)
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        self.runc(&["delete", "-f", &self.id]);
        let _ = fs::remove_dir_all(&self.bundle);
        // runc leaves the parents that it made, in every hierarchy.
        for hierarchy in fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten() {
            let parent = hierarchy.path().join(&self.parent);
            let _ = fs::remove_dir(parent.join("docker"));
            let _ = fs::remove_dir(parent);
        }
        // With v2 only there are no hierarchies.
        let parent = Path::new("/sys/fs/cgroup").join(&self.parent);
        let _ = fs::remove_dir(parent.join("docker"));
        let _ = fs::remove_dir(parent);
    }
}

#[test]
fn container_of_runc_is_found() {
    let lab = need!(Lab::new("runc"));
    let inside = lab.namespace("inside");
    let container = need!(Container::as_by_docker(&lab, &inside));
    assert_container(&inside, &format!("docker:{}", &container.id[..12]));
}

#[test]
fn plain_container_of_runc_has_its_name() {
    let lab = need!(Lab::new("plainrunc"));
    let inside = lab.namespace("inside");
    let container = need!(Container::plain(&lab, &inside));
    assert_container(&inside, &container.id);
}

/// Waits for the program of a container to listen, and checks the container's name.
fn assert_container(inside: &Namespace, expected: &str) {
    let list = || {
        let words = [
            "sockets",
            "-tlnp",
            "--columns",
            "container,exe",
            "--format",
            "json",
        ];
        binary::sockeye(&[&words[..], &["-N", inside.name()]].concat()).json()
    };
    wait_until("busybox to listen", || !sockets(&list()).is_empty());
    let row = sockets(&list())[0].clone();
    assert_eq!(row["container"], expected, "{row}");
    assert_eq!(row["exe"], "/bin/busybox", "{row}");
}

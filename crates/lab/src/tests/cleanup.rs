//! Nothing is left: after a drop, after a panic, after a killed run. Without rights, a skip is reported and
//! counted.

use sockeye_lab::{Lab, Namespace, SocketOptions, need, output_of, wait_for, wait_until};
use std::os::unix::process::CommandExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What a lab leaves on the machine, if anything.
struct Traces {
    directory: PathBuf,
    namespaces: Vec<Namespace>,
    pids: Vec<u32>,
}

/// Fills a lab, notes where to look, and lets `end` have it.
fn live(lab: Lab, end: impl FnOnce()) -> Traces {
    let (one, other) = (lab.namespace("one"), lab.namespace("other"));
    let link = lab.link(&one, &other);
    let pair = link.net_path().established();
    let kept = lab
        .process("kept")
        .in_namespace(&one)
        .tcp_listen("0.0.0.0:0")
        .start();
    let shared = lab.process("shared").sharing(&pair.client).start();
    let unix = other.unix_bound(sockeye_lab::UnixKind::Stream, &lab.unix_path("file"));
    let traces = Traces {
        directory: lab.directory().to_owned(),
        namespaces: vec![one, other],
        pids: vec![kept.pid(), shared.pid()],
    };
    assert!(traces.directory.exists());
    for namespace in &traces.namespaces {
        assert!(namespace.path().exists());
        assert!(devices(namespace).contains("veth"));
        let shown = output_of({
            let mut list = Command::new("ip");
            list.args(["netns", "list"]);
            list
        });
        assert!(shown.contains(namespace.name()));
    }
    assert!(
        traces
            .pids
            .iter()
            .all(|pid| Path::new(&format!("/proc/{pid}")).exists())
    );
    let result = catch_unwind(AssertUnwindSafe(|| {
        let _held = (&lab, &kept, &unix);
        end();
    }));
    if let Err(panic) = result {
        // Unwinding drops everything of this frame, as it would in a test.
        let traces = AssertUnwindSafe(traces);
        let unwound = catch_unwind(AssertUnwindSafe(move || {
            let _gone_by_unwinding = (shared, kept, unix, pair, link, lab);
            std::panic::resume_unwind(panic);
        }));
        assert!(unwound.is_err());
        return traces.0;
    }
    // The lab goes first here: sockets and processes that outlive it must not keep devices.
    drop(lab);
    assert!(!devices(&traces.namespaces[0]).contains("veth"));
    drop((pair, kept, shared, unix, link));
    traces
}

/// Still answers after the namespace's name is gone, since `Namespace` keeps its file open.
fn devices(namespace: &Namespace) -> String {
    namespace.proc_net("dev")
}

fn assert_gone(traces: &Traces) {
    assert!(!traces.directory.exists());
    for namespace in &traces.namespaces {
        assert!(!namespace.path().exists());
        assert!(!devices(namespace).contains("veth"), "{}", devices(namespace));
    }
    for pid in &traces.pids {
        assert!(
            !Path::new(&format!("/proc/{pid}")).exists(),
            "process {pid} lives"
        );
    }
}

#[test]
fn nothing_is_left_after_drop() {
    let lab = need!(Lab::new("drop"));
    assert_gone(&live(lab, || ()));
}

#[test]
fn nothing_is_left_after_a_panic() {
    let lab = need!(Lab::new("panic"));
    assert_gone(&live(lab, || panic!("a panic on purpose")));
}

#[test]
fn nothing_is_left_after_a_killed_run() {
    let _first = need!(Lab::new("killed"));
    let mut reaped = Command::new("true").spawn().unwrap();
    let mut zombie = Command::new("true").spawn().unwrap();
    reaped.wait().unwrap();
    let stat = format!("/proc/{}/stat", zombie.id());
    wait_until("a zombie", || {
        std::fs::read_to_string(&stat).unwrap().contains(") Z ")
    });
    let left = [reaped.id(), zombie.id()].map(|dead| {
        let name = format!("skl-{dead}-0-killed-one");
        let directory = std::env::temp_dir().join(&name);
        std::fs::create_dir(&directory).unwrap();
        output_of({
            let mut add = Command::new("ip");
            add.args(["netns", "add", &name]);
            add
        });
        (Path::new("/run/netns").join(name), directory)
    });
    let second = Lab::new("sweeps");
    for (namespace, directory) in left {
        // The lab of another test may be the one that sweeps.
        wait_until("the sweep", || !namespace.exists() && !directory.exists());
    }
    zombie.wait().unwrap();
    drop(second.unwrap());
}

#[test]
fn labs_of_one_process_are_separate() {
    let (one, other) = (need!(Lab::new("same")), need!(Lab::new("same")));
    let (a, b) = (one.namespace("web"), other.namespace("web"));
    assert_ne!(a.name(), b.name());
    assert_ne!(a.inode(), b.inode());
    let _a = a.tcp_listener("0.0.0.0:80", &SocketOptions::new());
    let _b = b.tcp_listener("0.0.0.0:80", &SocketOptions::new());
    assert_eq!((a.tcp_rows().len(), b.tcp_rows().len()), (1, 1));
}

#[test]
fn a_panic_inside_a_namespace_is_passed_on() {
    let lab = need!(Lab::new("inside"));
    let namespace = lab.namespace("one");
    let result = catch_unwind(AssertUnwindSafe(|| namespace.run(|| panic!("on purpose"))));
    assert_eq!(*result.unwrap_err().downcast::<&str>().unwrap(), "on purpose");
    assert_eq!(namespace.run(|| 7), 7);
}

#[test]
fn missing_rights_are_a_counted_skip() {
    let lab = need!(Lab::new("skips"));
    // In a directory that the other user can enter.
    let copy = lab.directory().join("tests");
    std::fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
    let log = lab.directory().join("skips");
    let mut command = Command::new(&copy);
    command
        .args(["--exact", "tests::cleanup::labs_of_one_process_are_separate"])
        .env("SOCKEYE_SKIPS", &log)
        .current_dir(lab.directory());
    command
        .uid(65534)
        .gid(65534)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let output = wait_for("a start that is not ETXTBSY", || command.output().ok());
    assert!(output.status.success(), "{output:?}");
    let skip =
        "SKIP: tests::cleanup::labs_of_one_process_are_separate: making namespaces and links needs root\n";
    assert_eq!(String::from_utf8(output.stderr).unwrap(), skip);
    assert_eq!(std::fs::read_to_string(log).unwrap(), skip);
}

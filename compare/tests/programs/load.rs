//! `bench-load` opens all its sockets, `bench-floor` and `ss` count them, and no process is left however it ends.

use nix::errno::Errno;
use nix::sys::prctl::set_child_subreaper;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::waitpid;
use nix::unistd::Pid;
use sockeye_compare::namespaces::Names;
use sockeye_compare::netns;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

const SOCKETS: u64 = 200;
/// Four processes with eight listeners each.
const LISTENERS: u64 = 32;

#[test]
fn all_sockets_are_open_and_none_is_left() {
    let alone = netns::enter_private().expect("network namespace");
    if !alone {
        println!(
            "SKIP: no permission to create a network namespace: the sockets of the host are counted too"
        );
    }
    let before = floor_count(&[]);
    let mut load = Load::start(&["--sockets", "200"]);
    assert_eq!(load.ready, "ready 200 sockets\n");
    for arguments in [&[][..], &["--v2"], &["--info"]] {
        let made = floor_count(arguments) - before;
        if alone {
            assert_eq!(made, SOCKETS + LISTENERS, "bench-floor {arguments:?}");
        } else {
            assert!(made >= SOCKETS, "bench-floor {arguments:?}: {made}");
        }
    }
    match Command::new("ss").arg("-tanH").output() {
        Ok(output) if alone => {
            let lines = output.stdout.iter().filter(|byte| **byte == b'\n').count() as u64;
            assert_eq!(lines, SOCKETS + LISTENERS);
        }
        Ok(_) => println!("SKIP: ss sees the host's other sockets too"),
        Err(error) => println!("SKIP: cannot run ss: {error}"),
    }

    let holders = load.holders();
    assert_eq!(holders.len(), 4, "{holders:?}");
    drop(load.child.stdin.take());
    assert!(load.child.wait().expect("wait").success());
    // The parent has waited for its processes: they and their sockets are gone, without TIME_WAIT.
    assert!(holders.iter().all(|holder| is_gone(*holder)), "{holders:?}");
    if alone {
        assert_eq!(floor_count(&[]), 0);
    }
}

#[test]
fn sigterm_and_sigint_end_the_load_with_status_0() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let mut load = Load::start(&["--sockets", "40"]);
        let holders = load.holders();
        assert_eq!(holders.len(), 4, "{holders:?}");
        kill(Pid::from_raw(load.child.id() as i32), signal).expect("kill");
        // stdin is still open: the signal ended it.
        assert!(load.child.wait().expect("wait").success(), "{signal}");
        assert!(
            holders.iter().all(|holder| is_gone(*holder)),
            "{signal}: {holders:?}"
        );
    }
}

#[test]
fn sigkill_of_the_parent_ends_its_processes() {
    // Makes this process the parent of the orphans, so that it can wait for them.
    set_child_subreaper(true).expect("prctl");
    let mut load = Load::start(&["--sockets", "40"]);
    let holders = load.holders();
    assert_eq!(holders.len(), 4, "{holders:?}");
    load.child.kill().expect("kill");
    load.child.wait().expect("wait");
    for holder in holders {
        // The death of its parent kills it, or the end of its stdin ends it.
        waitpid(Pid::from_raw(holder), None).expect("an orphan");
        assert!(is_gone(holder), "{holder}");
    }
}

#[test]
fn sockets_of_private_netns_are_not_visible_outside() {
    if !netns::enter_private().expect("network namespace") {
        println!("SKIP: no permission to create a network namespace");
        return;
    }
    let load = Load::start(&["--sockets", "40", "--private-netns"]);
    assert_eq!(load.ready, "ready 40 sockets\n");
    assert_eq!(floor_count(&[]), 0);
}

#[test]
fn named_namespaces_are_visible_in_the_load_only() {
    // On a thread of its own: its mount namespace ends with it.
    let permitted = std::thread::spawn(|| Names::isolate().map(drop)).join();
    if let Err(error) = permitted.expect("no panic") {
        println!("SKIP: no permission to create named network namespaces: {error:#}");
        return;
    }
    let mut load = Load::start(&["--namespaces", "6", "--sockets", "48"]);
    assert_eq!(load.ready, "ready 48 sockets\n");
    let holders = load.holders();
    assert_eq!(holders.len(), 4, "{holders:?}");
    let expected: Vec<String> = (0..6).map(|number| format!("bench-{number:05}")).collect();
    assert_eq!(names(&format!("/proc/{}/root", load.child.id())), expected);
    assert!(names("").iter().all(|name| !name.starts_with("bench-")));

    // As `ss -N` enters them: by name, in the load's mount namespace.
    let counted = Command::new("nsenter")
        .args(["--mount", "--target", &load.child.id().to_string()])
        .args(["ss", "-N", "bench-00005", "-tuanH"])
        .output();
    match counted {
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout);
            let states = ["LISTEN", "ESTAB", "UNCONN"].map(|state| text.matches(state).count());
            assert_eq!(states, [2, 4, 2], "{output:?}");
        }
        Err(error) => println!("SKIP: cannot run nsenter: {error}"),
    }

    drop(load.child.stdin.take());
    assert!(load.child.wait().expect("wait").success());
    assert!(holders.iter().all(|holder| is_gone(*holder)), "{holders:?}");
}

fn names(root: &str) -> Vec<String> {
    let entries = fs::read_dir(format!("{root}/run/netns"))
        .into_iter()
        .flatten()
        .flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

#[test]
fn an_unknown_argument_is_a_usage_error() {
    for program in [
        env!("CARGO_BIN_EXE_bench-load"),
        env!("CARGO_BIN_EXE_bench-floor"),
    ] {
        let output = Command::new(program).arg("--sideways").output().expect("run");
        assert_eq!(output.status.code(), Some(2), "{program}");
        assert!(!output.stderr.is_empty(), "{program}");
    }
}

struct Load {
    child: Child,
    ready: String,
}

impl Load {
    fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_bench-load"))
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("bench-load");
        let mut ready = String::new();
        BufReader::new(child.stdout.take().expect("piped"))
            .read_line(&mut ready)
            .expect("ready");
        Self { child, ready }
    }

    fn holders(&self) -> Vec<i32> {
        let parent = self.child.id().to_string();
        let processes = fs::read_dir("/proc").expect("/proc").filter_map(Result::ok);
        let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter(|pid| parent_of(*pid).as_ref() == Some(&parent))
            .collect()
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// Fields after the parenthesised name in /proc/PID/stat: state, parent.
fn parent_of(pid: i32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(1).map(str::to_owned)
}

fn is_gone(pid: i32) -> bool {
    kill(Pid::from_raw(pid), None) == Err(Errno::ESRCH)
}

fn floor_count(arguments: &[&str]) -> u64 {
    let output = Command::new(env!("CARGO_BIN_EXE_bench-floor"))
        .args(arguments)
        .output()
        .expect("bench-floor");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout)
        .trim()
        .parse()
        .expect("a number")
}

//! `sockeye prof` in the pid namespace of a container, and of programs in another mount namespace.

use crate::fixtures::binary::{SOCKEYE, run};
use serde_json::Value;
use sockeye_lab::{Skip, need, program, wait_until};
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// It waits until its function is watched, which it sees by its own code, then makes so many writes, and calls.
const COUNTING: &str = r#"
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
__attribute__((noinline, noclone)) int inside(int n) { __asm__ volatile(""); return n + 1; }
int main(int argc, char **argv) {
	int count = atoi(argv[1]), nowhere = open("/dev/null", O_WRONLY);
	if (argc > 2) {
#ifdef __x86_64__
		for (int i = 0; i < 3000 && *(volatile unsigned char *)inside != 0xcc; i++) usleep(10000);
#else
		usleep(4000000);
#endif
		/* What else is attached after that. */
		usleep(atoi(argv[2]) * 1000);
	}
	for (int i = 0; i < count; i++)
		if (write(nowhere, "x", 1) != 1 || inside(i) != i + 1) return 3;
	return 0;
}
"#;

const TURNS: u64 = 5_000;

#[test]
fn pids_are_those_of_the_own_pid_namespace() {
    let folder = need!(prepared("pids"));
    let counting = folder.program();
    let own = |words: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--mount-proc", "--kill-child"]);
        command.args(words);
        command
    };
    // A command.
    let turns = TURNS.to_string();
    let outcome = run(own(&[
        SOCKEYE,
        "prof",
        "--json",
        "--functions",
        "inside",
        "--",
        &counting,
        &turns,
    ])
    .stdin(Stdio::null()));
    let profile = outcome.json();
    assert_seen(&profile);
    let pid = profile["syscalls"][0]["pid"].as_u64().unwrap();
    assert!(pid < 100, "as it is numbered there: {pid}");

    // One process by its pid, and all processes.
    for target in ["-p $pid", "--system"] {
        let script = format!(
            "{counting} {TURNS} 2000 & pid=$!; {SOCKEYE} prof --json -d 60 --functions inside {target} > {profile} & prof=$!; \
             wait $pid; sleep 0.3; kill -TERM $prof 2> /dev/null; wait $prof; true",
            profile = folder.0.join("profile").display(),
        );
        run(own(&["sh", "-c", &script]).stdin(Stdio::null())).ok();
        let text = fs::read_to_string(folder.0.join("profile")).unwrap();
        let profile: Value = serde_json::from_str(&text).unwrap();
        assert_seen(&profile);
        let is_missing = profile["missing"].to_string().contains("this pid namespace");
        assert_eq!(is_missing, target == "--system", "{}", profile["missing"]);
    }
}

#[test]
fn program_in_another_mount_namespace_is_resolved() {
    let folder = need!(prepared("mounts"));
    let counting = folder.program();
    let room = folder.0.join("room");
    fs::create_dir(&room).unwrap();
    let enter = |pause: &str| {
        let room = room.display();
        format!(
            "mount -t tmpfs own {room} && cp {counting} {room}/hidden && exec {room}/hidden {TURNS} {pause}"
        )
    };
    // Of a process that is there.
    let inside = Inside(
        Command::new("unshare")
            .args(["-m", "sh", "-c", &enter("2000")])
            .spawn()
            .unwrap(),
    );
    inside.wait_for("hidden");
    assert!(
        !room.join("hidden").exists(),
        "it has a mount namespace of its own"
    );
    let pid = inside.0.id().to_string();
    let words = ["prof", "--json", "-d", "60", "--functions", "inside", "-p", &pid];
    assert_seen(&run(Command::new(SOCKEYE).args(words).stdin(Stdio::null())).json());

    // Of a command that goes there: its functions are watched from when it was seen to have mapped them.
    let enter = enter("0");
    let words = [
        "prof",
        "--json",
        "--functions",
        "inside",
        "--",
        "unshare",
        "-m",
        "sh",
        "-c",
        &enter,
    ];
    assert_seen(&run(Command::new(SOCKEYE).args(words).stdin(Stdio::null())).json());
}

/// The calls and the functions that the program counts.
fn assert_seen(profile: &Value) {
    let of = |part: &Value| part.as_array().cloned().unwrap_or_default();
    let writes = of(&profile["syscalls"])
        .into_iter()
        .find(|call| call["name"] == "write" && call["calls"].as_u64().unwrap() >= TURNS);
    let pid = &writes.unwrap_or_else(|| panic!("{profile:#}"))["pid"];
    let inside = of(&profile["functions"]["calls"])
        .into_iter()
        .find(|function| function["name"] == "inside");
    let inside = inside.unwrap_or_else(|| panic!("{:#} {:#}", profile["functions"], profile["missing"]));
    assert_eq!(inside["calls"], TURNS, "{inside}");
    assert_eq!(&inside["pid"], pid);
    assert!(
        of(&profile["processes"])
            .iter()
            .any(|process| &process["pid"] == pid && process["name"] != "")
    );
}

/// A process in a mount namespace of its own.
struct Inside(Child);

impl Inside {
    /// Until it is the program of this name.
    fn wait_for(&self, name: &str) {
        let file = format!("/proc/{}/comm", self.0.id());
        wait_until("the program begins", || {
            fs::read_to_string(&file).unwrap().trim() == name
        });
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A folder with the program, which goes away with it.
struct Folder(PathBuf);

fn prepared(name: &str) -> Result<Folder, Skip> {
    program("cc")?;
    program("unshare")?;
    if !rustix::process::geteuid().is_root() {
        return Err(Skip::new("needs root: namespaces of its own"));
    }
    let folder = std::env::temp_dir().join(format!("sockeye-prof-{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let source = folder.join("counting.c");
    fs::write(&source, COUNTING).unwrap();
    let mut compiler = Command::new("cc");
    compiler
        .args(["-O1", "-o"])
        .arg(folder.join("counting"))
        .arg(&source);
    assert!(compiler.status().unwrap().success());
    Ok(Folder(folder))
}

impl Folder {
    fn program(&self) -> String {
        self.0.join("counting").to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

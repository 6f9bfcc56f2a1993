//! `sockeye ns pids` and `ns identify` compared with those of `ip netns`, in a mount namespace of its own.

use crate::fixtures::binary::{Outcome, SOCKEYE, assert_harmless, run};
use crate::fixtures::envelope;
use serde_json::Value;
use sockeye_lab::{MountNamespace, Skip, need, wait_until};
use std::process::{Child, Stdio};

/// Two namespaces, with processes in the first.
struct Inhabited {
    own: MountNamespace,
    inhabitants: Vec<Child>,
}

impl Inhabited {
    fn new() -> Result<Self, Skip> {
        let own = MountNamespace::new("")?;
        assert_eq!(
            run(&mut own.command("ip", &["netns", "add", "full"])).code,
            Some(0)
        );
        assert_eq!(
            run(&mut own.command("ip", &["netns", "add", "empty"])).code,
            Some(0)
        );
        let start = |user: &str| {
            own.command(
                "ip",
                &[
                    "netns",
                    "exec",
                    "full",
                    "setpriv",
                    "--reuid",
                    user,
                    "--regid",
                    user,
                    "--clear-groups",
                    "sleep",
                    "1000",
                ],
            )
            .stdin(Stdio::null())
            .spawn()
            .unwrap()
        };
        let inhabitants: Vec<_> = ["0", "65534", "0", "65534"].into_iter().map(start).collect();
        for child in &inhabitants {
            let comm = || std::fs::read_to_string(format!("/proc/{}/comm", child.id())).unwrap();
            wait_until("it is there", || comm() == "sleep\n");
        }
        Ok(Self { own, inhabitants })
    }

    fn ours(&self, words: &[&str]) -> Outcome {
        run(&mut self.own.command(SOCKEYE, &[&["ns"], words].concat()))
    }

    fn theirs(&self, words: &[&str]) -> Outcome {
        run(&mut self.own.command("ip", &[&["netns"], words].concat()))
    }

    fn sh(&self, script: &str) -> Outcome {
        run(&mut self.own.command("sh", &["-c", script]))
    }

    /// Runs it as an unprivileged user.
    fn unprivileged(&self, words: &str) -> Outcome {
        // The folder of the build may be unreadable for others: run a copy.
        self.sh(&format!(
            "cp {SOCKEYE} /run/sockeye && chmod 755 /run/sockeye && \
             exec setpriv --reuid 65534 --regid 65534 --clear-groups /run/sockeye ns {words}"
        ))
    }
}

impl Drop for Inhabited {
    fn drop(&mut self) {
        for child in &mut self.inhabitants {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Returns the listed processes. In a confined container even root may not read all processes, which is reported.
#[track_caller]
fn pids(outcome: &Outcome) -> &str {
    let complaint = outcome.error();
    assert!(
        complaint.is_empty() || complaint.contains("could not be read, and may be missing"),
        "{outcome}"
    );
    outcome.ok()
}

#[test]
fn pids_are_those_of_ip_netns_pids() {
    let lab = need!(Inhabited::new());
    let mut inhabitants: Vec<_> = lab.inhabitants.iter().map(Child::id).collect();
    inhabitants.sort_unstable();
    let expected: String = inhabitants.iter().map(|pid| format!("{pid}\n")).collect();
    assert_eq!(pids(&lab.ours(&["pids", "full"])), expected);
    assert_eq!(lab.theirs(&["pids", "full"]).quiet(), expected);
    assert_eq!(pids(&lab.ours(&["pids", "empty"])), "");
    assert_eq!(
        lab.ours(&["pids", "--format", "json", "empty"]).json()["processes"],
        Value::Array(Vec::new())
    );
    // The namespace of most processes. Short-lived ones may be in only one of the lists.
    lab.sh("touch /run/netns/here && mount --bind /proc/self/ns/net /run/netns/here");
    let (before, ours) = (lab.theirs(&["pids", "here"]), lab.ours(&["pids", "here"]));
    let after = lab.theirs(&["pids", "here"]);
    let lines = |outcome: &Outcome| pids(outcome).lines().map(str::to_owned).collect::<Vec<_>>();
    let (before, ours, after) = (lines(&before), lines(&ours), lines(&after));
    for pid in &before {
        assert!(ours.contains(pid) || !after.contains(pid), "{pid} is missing");
    }
    let sorted = |pids: &[String]| pids.is_sorted_by_key(|pid| pid.parse::<u32>().unwrap());
    assert!(sorted(&ours) && sorted(&before));
}

#[test]
fn json_has_process_names() {
    let lab = need!(Inhabited::new());
    let document = lab.ours(&["pids", "full", "--format", "json"]).json();
    let lines = lab.ours(&["pids", "full", "--format", "jsonl"]);
    let lines = envelope::rows(pids(&lines));
    assert_eq!(document["processes"].as_array(), Some(&lines));
    assert_eq!(lines.len(), 4);
    for (line, pid) in lines.iter().zip(pids(&lab.ours(&["pids", "full"])).lines()) {
        assert_eq!(
            (line["pid"].to_string(), &line["comm"]),
            (pid.to_owned(), &"sleep".into())
        );
    }
}

#[test]
fn pids_of_a_missing_namespace_fails() {
    let lab = need!(Inhabited::new());
    let outcome = lab.ours(&["pids", "nosuch"]);
    let reason = "sockeye: cannot open network namespace \"nosuch\" (\"/run/netns/nosuch\"): No such file or directory \
                  (os error 2); `sockeye ns list -1` lists the names\n";
    assert_eq!(outcome.failed(1), reason);
    assert_eq!(lab.theirs(&["pids", "nosuch"]).code, Some(1));
    lab.sh("touch /run/netns/leftover; mkfifo /run/netns/pipe");
    for name in ["leftover", "pipe"] {
        let outcome = lab.ours(&["pids", name]);
        assert!(outcome.failed(1).contains("is no network namespace"), "{outcome}");
    }
    for bad in [
        &["pids"][..],
        &["pids", "a/b"],
        &["pids", ""],
        &["pids", "full", "empty"],
    ] {
        lab.ours(bad).failed(2);
    }
}

#[test]
fn unreadable_processes_are_counted() {
    let lab = need!(Inhabited::new());
    let outcome = lab.unprivileged("pids full");
    // It sees its own processes.
    assert_eq!(outcome.ok().lines().count(), 2, "{outcome}");
    let (count, rest) = outcome
        .error()
        .strip_prefix("sockeye: ")
        .unwrap()
        .split_once(' ')
        .unwrap();
    assert!(count.parse::<u32>().unwrap() >= 2, "{outcome}");
    assert_eq!(
        rest,
        "processes could not be read, and may be missing; run as root, or grant CAP_SYS_PTRACE\n"
    );
}

#[test]
fn identify_prints_all_names() {
    let lab = need!(Inhabited::new());
    let pid = lab.inhabitants[0].id().to_string();
    let same = |words: &[&str]| {
        let (ours, theirs) = (lab.ours(words), lab.theirs(words));
        assert_eq!(
            (ours.code, &ours.stdout),
            (theirs.code, &theirs.stdout),
            "{ours}\n{theirs}"
        );
        ours
    };
    assert_eq!(same(&["identify", &pid]).quiet(), "full\n");
    // Its own namespace: from a script, and inside.
    same(&["identify"]);
    assert_eq!(same(&["identify", &std::process::id().to_string()]).quiet(), "\n");
    let inside = lab.ours(&["exec", "empty", SOCKEYE, "ns", "identify"]);
    assert_eq!(inside.quiet(), "empty\n");
    // More than one name: ip prints one of them.
    lab.sh("touch /run/netns/again && mount --bind /run/netns/full /run/netns/again");
    assert_eq!(lab.ours(&["identify", &pid]).quiet(), "again\nfull\n");
    let theirs = lab.theirs(&["identify", &pid]);
    assert!(["again\n", "full\n"].contains(&theirs.quiet()), "{theirs}");
    // A name with control characters.
    lab.sh("n=\"/run/netns/$(printf 'x\\033[2J')\"; touch \"$n\" && mount --bind /run/netns/full \"$n\"");
    let outcome = lab.ours(&["identify", &pid]);
    assert_harmless(&outcome.stdout);
    assert!(outcome.quiet().ends_with("x\\x1b[2J\n"), "{outcome}");
}

#[test]
fn identify_of_a_missing_process_fails() {
    let lab = need!(Inhabited::new());
    for gone in ["0", "4194305", "99999999999999999999"] {
        let outcome = lab.ours(&["identify", gone]);
        assert!(
            outcome.failed(1).ends_with("there is no such process\n"),
            "{outcome}"
        );
        assert_eq!(lab.theirs(&["identify", gone]).code, Some(1));
    }
    for bad in ["", "abc", "-1", "+1", "1x", "self", "1/../2"] {
        let outcome = lab.ours(&["identify", bad]);
        assert!(outcome.failed(2).ends_with("is no pid\n"), "{outcome}");
        assert_ne!(lab.theirs(&["identify", bad]).code, Some(0));
    }
    let outcome = lab.unprivileged("identify 1");
    assert!(
        outcome
            .failed(1)
            .ends_with("run as root, or grant CAP_SYS_PTRACE\n"),
        "{outcome}"
    );
    lab.sh("chmod 700 /run/netns");
    let outcome = lab.unprivileged("identify");
    assert!(
        outcome
            .failed(1)
            .contains("read the folder /run/netns: Permission denied"),
        "{outcome}"
    );
    // Without the folder no namespace has a name.
    let own = need!(MountNamespace::new(""));
    assert_eq!(run(&mut own.command(SOCKEYE, &["ns", "identify"])).quiet(), "\n");
}

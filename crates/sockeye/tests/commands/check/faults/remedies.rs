//! Remedies, typed into a shell where every program but ours only writes down where it was run and with what words.

use super::commands;
use crate::fixtures::binary::SOCKEYE;
use serde_json::Value;
use sockeye_lab::{Lab, Namespace};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// One program that was run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// In which network namespace
    pub(crate) netns: u64,
    /// Its name and its words
    pub(crate) words: Vec<String>,
}

/// Types each command of a finding: a shell reads it, every program in it is known, and our own takes what it is given.
/// What is to be done inside is done in the finding's namespace.
#[track_caller]
pub(crate) fn rehearse(lab: &Lab, namespace: &Namespace, finding: &Value) {
    for command in commands(finding) {
        let runs = typed(lab, command);
        let inside = ["sockeye ns exec ", "nsenter "];
        let is_inside = inside.iter().any(|prefix| command.starts_with(prefix));
        for run in &runs {
            let is_there = run.netns == namespace.inode();
            assert_eq!(is_there, is_inside, "{command}: {run:?}");
        }
        let is_ours = command.starts_with("sockeye ") && !is_inside;
        assert!(is_ours || !runs.is_empty(), "{command} runs nothing");
    }
}

/// Types one command, and gives the programs it ran, ours not counted.
#[track_caller]
pub(crate) fn typed(lab: &Lab, command: &str) -> Vec<Run> {
    let place = programs(lab.directory());
    let log = lab.directory().join("typed");
    let _ = fs::remove_file(&log);
    let read = Command::new("sh").args(["-n", "-c", command]).output().unwrap();
    assert!(read.status.success(), "{command}: {read:?}");
    let output = Command::new("/bin/sh")
        .args(["-c", command])
        .env("PATH", &place)
        .env("TYPED", &log)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{command}: {output:?}");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!error.contains("not found"), "{command}: {error}");
    let text = fs::read_to_string(&log).unwrap_or_default();
    text.lines().map(run).collect()
}

fn run(line: &str) -> Run {
    let mut words = line.split('\x1f');
    let netns = words.next().unwrap();
    let netns = netns.trim_start_matches("net:[").trim_end_matches(']');
    Run {
        netns: netns.parse().unwrap(),
        words: words.map(str::to_owned).collect(),
    }
}

/// A folder with a stand-in for each program.
fn programs(directory: &Path) -> PathBuf {
    let place = directory.join("programs");
    if fs::create_dir(&place).is_err() {
        return place;
    }
    let write = |name: &str, text: &str| {
        let file = place.join(name);
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o755)).unwrap();
    };
    for name in STAND_INS {
        write(name, STAND_IN);
    }
    // What changes something only shows what it would do.
    write(
        "sockeye",
        &format!(
            "#!/bin/sh\ncase \"$1\" in keepalive|kill) set -- \"$@\" --dry-run;; esac\nexec {SOCKEYE} \"$@\" >/dev/null\n"
        ),
    );
    symlink("/bin/sh", place.join("sh")).unwrap();
    symlink("/usr/bin/nsenter", place.join("nsenter")).unwrap();
    place
}

const STAND_IN: &str = "#!/bin/sh
line=$(/usr/bin/readlink /proc/self/ns/net)
IFS=$(printf '\\037')
echo \"$line$IFS${0##*/}$IFS$*\" >>\"$TYPED\"
";
/// All programs that remedies may name.
const STAND_INS: &[&str] = &[
    "awk",
    "cat",
    "conntrack",
    "dmesg",
    "ethtool",
    "free",
    "grep",
    "head",
    "ip",
    "nc",
    "nft",
    "nstat",
    "ping",
    "prlimit",
    "sort",
    "ss",
    "sysctl",
    "tail",
    "tc",
    "tracepath",
    "uniq",
];

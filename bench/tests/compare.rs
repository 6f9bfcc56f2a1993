//! The whole comparison, small and with a stand-in for the binary on trial: it must not rot, and must not lie.

use sockeye_bench::document::{BEGIN, END};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

#[test]
fn a_stand_in_is_measured_and_written_down() {
    let folder = Folder::new("measured");
    // As many lines as there are sockets, listeners included.
    let sockeye = folder.script("exec seq 1000");
    let document = folder.0.join("BENCHMARKS.md");
    fs::write(&document, format!("before\n{BEGIN}\nold\n{END}\nafter\n")).expect("write");
    let document_argument = document.display().to_string();

    let output = compare(&sockeye, &["--markdown", &document_argument]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    for expected in [
        "Nearly empty host",
        "Speed, 200 sockets",
        "Memory, 200 sockets",
        "x floor (target",
    ] {
        assert!(text.contains(expected), "{expected}:\n{text}");
    }
    assert!(!text.contains("FAILED:"), "{text}");
    // 200 sockets say nothing about the memory for 100,000.
    assert!(text.contains("2 not judged"), "{text}");

    let written = fs::read_to_string(&document).expect("read");
    assert!(
        written.starts_with("before\n") && written.ends_with("after\n"),
        "{written}"
    );
    assert!(
        written.contains("### Speed, 200 sockets") && !written.contains("\nold\n"),
        "{written}"
    );
    assert!(
        !written.contains(&folder.0.display().to_string()),
        "a path of this machine:\n{written}"
    );
}

#[test]
fn failures_and_silence_are_reported_not_timed() {
    let folder = Folder::new("failing");
    let sockeye = folder.script(r#"[ "$1" = flows ] || exit 0; echo 'no such thing' >&2; exit 7"#);
    let output = compare(&sockeye, &[]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "missed targets alone do not fail: {output:?}"
    );
    assert!(text.contains("FAILED: exit 7: no such thing"), "{text}");
    assert!(text.contains("FAILED: printed 0 lines for 200 sockets"), "{text}");

    let strict = compare(&sockeye, &["--strict"]);
    assert_eq!(strict.status.code(), Some(1));
}

#[test]
fn missing_peers_are_said() {
    let folder = Folder::new("missing");
    let sockeye = folder.script("while [ ${n:=0} -lt 300 ]; do echo; n=$((n + 1)); done");
    let output = command(&sockeye)
        .env("PATH", &folder.0)
        .output()
        .expect("bench-compare");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert!(
        text.contains("ss: not installed") && text.contains("netstat: not installed"),
        "{text}"
    );
    assert!(text.contains("no figures of ss"), "{text}");
}

#[test]
fn mistakes_are_known_before_the_work() {
    let folder = Folder::new("mistakes");
    let sockeye = folder.script("exit 0");
    let document = folder.0.join("plain.md");
    fs::write(&document, "no markers\n").expect("write");
    let output = compare(&sockeye, &["--markdown", &document.display().to_string()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty(), "{output:?}");
    assert!(
        String::from_utf8_lossy(&output.stderr).contains(BEGIN),
        "{output:?}"
    );

    let output = compare(&folder.0.join("absent"), &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty(), "{output:?}");
    assert_eq!(compare(&sockeye, &["--rounds", "none"]).status.code(), Some(2));
}

fn compare(sockeye: &Path, arguments: &[&str]) -> Output {
    command(sockeye).args(arguments).output().expect("bench-compare")
}

fn command(sockeye: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bench-compare"));
    command
        .args([
            "--rounds",
            "1",
            "--sockets",
            "200",
            "--memory-sockets",
            "200",
            "--sockeye",
        ])
        .arg(sockeye);
    command
}

/// A folder that goes away with the test, also with a failed one.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("sockeye-bench-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("temporary folder");
        Self(folder)
    }

    fn script(&self, body: &str) -> PathBuf {
        let path = self.0.join("stand-in");
        fs::write(&path, format!("#!/bin/sh\n{body}\n")).expect("script");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("script");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

//! `sockeye prof` without processes: differences of files, and wrong options.

#[path = "../../../../commands/prof/src/tests/sampled.rs"]
mod sampled;

use crate::fixtures::binary::{assert_harmless, sockeye, words};
use sockeye_profile::Profile;
use std::fs;
use std::path::PathBuf;

/// Files that go away with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("sockeye-prof-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn later() -> Profile {
    let mut later = sampled::rich();
    for call in later.syscalls.iter_mut().flatten() {
        if call.name == "openat" {
            (call.calls, call.total_ns) = (20, 9_000_000);
        }
    }
    later
}

#[test]
fn diff_reports_changes_between_profiles() {
    let folder = Folder::new("diff");
    let a = folder.file("a.json", &sampled::rich().to_json());
    let b = folder.file("b.json", &later().to_document());
    let outcome = sockeye(&["prof", "--diff", &a, &b]);
    let text = outcome.quiet();
    assert!(text.starts_with("diff: A "), "{text}");
    assert!(
        text.contains("The biggest change: openat: 1.79s less: 1.80s in A, 9.00ms in B"),
        "{text}"
    );
    assert!(text.contains("-1.79s"), "{text}");
    let json = sockeye(&["prof", "--diff", &a, &b, "--format", "json"]).json();
    assert_eq!(json["prof"], "diff");
    assert_eq!(json["syscalls"][0]["call"], "openat");
    assert_eq!(json["syscalls"][0]["total_ns_change"], -1_791_000_000_i64);
    let csv = sockeye(&["prof", "--diff", &a, &b, "--format", "csv"]);
    assert!(
        csv.quiet()
            .starts_with("time,host,call,a_total_ns,b_total_ns,total_ns_change,")
    );
    let same = sockeye(&["prof", "--diff", &a, &a]);
    assert!(
        same.quiet()
            .contains("Nothing that both have takes another time.")
    );
}

#[test]
fn control_characters_in_profiles_are_escaped() {
    let folder = Folder::new("hostile");
    let a = folder.file("a.json", &sampled::hostile().to_json());
    let b = folder.file("b.json", &sampled::rich().to_json());
    for format in ["table", "json", "jsonl"] {
        let outcome = sockeye(&["prof", "--diff", &a, &b, "--format", format, "--color", "never"]);
        assert_harmless(outcome.quiet().as_bytes());
    }
}

#[test]
fn invalid_profiles_are_refused() {
    let folder = Folder::new("broken");
    let good = folder.file("good.json", &sampled::rich().to_json());
    let mut newer = sampled::rich();
    newer.schema_version = 99;
    for (text, expected) in [
        (String::new(), "not a profile"),
        ("{}".to_owned(), "missing field"),
        ("[1,2]".to_owned(), "not a profile"),
        (sampled::rich().to_lines(), "not a profile"),
        (sampled::rich().to_json()[..999].to_owned(), "not a profile"),
        ("[".repeat(100_000), "not a profile"),
        (newer.to_json(), "version 99"),
    ] {
        let bad = folder.file("bad.json", &text);
        for files in [[&bad, &good], [&good, &bad]] {
            let outcome = sockeye(&["prof", "--diff", files[0], files[1]]);
            let error = outcome.failed(1);
            assert!(error.contains("bad.json") && error.contains(expected), "{error}");
        }
    }
    // A long text in the wrong place is not quoted whole, and a file that is too long is not read.
    let quoted = format!("{{\"schema_version\": \"{}\"}}", "\u{202e}x".repeat(1_000_000));
    for text in [quoted, format!("\"{}\"", "x".repeat(1_000_000))] {
        let bad = folder.file("bad.json", &text);
        let outcome = sockeye(&["prof", "--diff", &bad, &good]);
        let error = outcome.failed(1);
        assert!(
            error.contains("not a profile") && error.len() < 2500,
            "{}",
            error.len()
        );
    }
    let long = folder.file("long.json", "");
    std::fs::File::options()
        .write(true)
        .open(&long)
        .and_then(|file| file.set_len(300 << 20))
        .unwrap();
    let outcome = sockeye(&["prof", "--diff", &good, &long]);
    assert!(outcome.failed(1).contains("more than 64 MiB"), "{outcome}");
    // Places of frames that are not there, and times that cannot be.
    let mut odd = sampled::rich();
    odd.frames.truncate(2);
    for wait in odd.waits.iter_mut().flatten() {
        wait.total_ns = u64::MAX;
    }
    for call in odd.syscalls.iter_mut().flatten() {
        (call.calls, call.total_ns) = (u64::MAX, u64::MAX);
    }
    let odd = folder.file("odd.json", &odd.to_json());
    sockeye(&["prof", "--diff", &odd, &good]).quiet();
    let missing = folder.0.join("missing.json");
    let outcome = sockeye(&["prof", "--diff", &good, missing.to_str().unwrap()]);
    assert!(outcome.failed(1).contains("No such file"));
}

#[test]
fn wrong_options_are_explained() {
    for (line, expected) in [
        ("prof", "whom?"),
        ("prof -d 3", "whom?"),
        ("prof -p 1 --system", "-p and --system: only one"),
        ("prof --system -- ls -l", "--system and a command: only one"),
        ("prof -p 0", "number of a process"),
        ("prof -p -1", "number of a process"),
        ("prof -p x", "number of a process"),
        ("prof -d 0 -p 1", "0.001"),
        ("prof --hz 0 -p 1", "1..=10000"),
        ("prof --only calls -p 1", "syscalls"),
        ("prof --lib libc -p 1", "--functions"),
        ("prof --stacks waits -p 1", "--folded or -o"),
        ("prof --folded --json -p 1", "--folded is a form"),
        ("prof --folded -w 3 -p 1", "--watch shows tables"),
        ("prof --top -1 -p 1", "0 or more"),
        ("prof --count 2 -p 1", "--watch"),
        ("prof --folded --only syscalls -p 1", "need cpu"),
        ("prof --only functions -p 1", "--kernel-functions"),
        ("prof -o a.gif -p 1", ".svg or .png"),
        ("prof -o - -p 1", "needs a file"),
        ("prof --diff a.json", "2 values"),
        (
            "prof --diff a.json b.json --folded",
            "means nothing for two files",
        ),
        ("prof --diff a.json b.json -p 1", "only one of them"),
        ("prof --json --format csv -p 1", "cannot be used with"),
    ] {
        let outcome = words(line);
        let error = outcome.failed(2);
        assert!(error.contains(expected), "{line}: {error}");
        assert!(!error.contains("A filter belongs"), "{line}: {error}");
    }
    // A process in place of a command.
    for (line, expected) in [
        (
            "prof 4194304",
            "no such program in PATH; a process that runs: -p 4194304\n",
        ),
        (
            "prof no-such-program",
            "no such program in PATH; a process that runs: -p PID\n",
        ),
        ("prof no-such-program -x", "no such program in PATH\n"),
        (
            "prof ./no-such-program",
            "no such file; a process that runs: -p PID\n",
        ),
    ] {
        let outcome = words(line);
        let error = outcome.failed(127);
        assert!(error.ends_with(expected), "{line}: {error}");
    }
    let help = words("prof --help");
    for word in [
        "--diff before.json after.json",
        "--functions",
        "--top",
        "--cgroup",
    ] {
        assert!(help.quiet().contains(word), "{word}");
    }
}

#[test]
fn errors_are_printed_once() {
    let folder = Folder::new("once");
    let (good, bad) = (
        folder.file("good.json", &sampled::rich().to_json()),
        folder.file("bad.json", "{}"),
    );
    let outcome = sockeye(&["prof", "--diff", &bad, &good]);
    let error = outcome.failed(1);
    assert_eq!(error.matches("missing field").count(), 1, "{error}");
}

//! Wrong options, and files that are no store.

use super::Store;
use crate::fixtures::binary::{SOCKEYE, clean, command, run};
use std::process::Command;

#[test]
fn begin_after_the_end_is_explained() {
    let store = Store::new("order");
    let outcome = store.run("history top --since 2026-01-02 --until 2026-01-01");
    let error = String::from_utf8_lossy(&outcome.stderr);
    assert_eq!(outcome.code, Some(2), "{error}");
    assert!(error.contains("--since is 2026-01-02 00:00:00"), "{error}");
    assert!(error.contains("after --until, which is 2026-01-01"), "{error}");
    assert!(
        error.contains("a time without a date is the last one that has passed"),
        "{error}"
    );
}

/// Each error names the file, once, and is no alarm about the disk.
#[test]
fn files_that_are_no_store_are_named() {
    let store = Store::new("files");
    let folder = store.folder.join("folder");
    std::fs::create_dir(&folder).unwrap();
    for (path, what) in [
        (folder.to_str().unwrap(), "this is a folder: --store names"),
        ("/dev/null", "this is no regular file: --store names"),
        ("/etc/passwd", "this is no store: --store names"),
    ] {
        for words in [
            &["history", "list"][..],
            &["flows", "--at", "now"],
            &["record", "--once"],
            &["serve", "--listen", "127.0.0.1:0"],
        ] {
            let outcome = run(command().args(words).args(["--store", path]));
            let error = String::from_utf8_lossy(&outcome.stderr);
            assert_eq!(outcome.code, Some(1), "{words:?} {path}: {error}");
            // No URL of a server that does not come.
            assert!(outcome.stdout.is_empty(), "{words:?} {path}");
            assert_eq!(error.matches(what).count(), 1, "{words:?} {path}: {error}");
            assert_eq!(error.matches(path).count(), 1, "{words:?} {path}: {error}");
        }
    }
}

#[test]
fn damage_names_the_file_once() {
    let store = Store::new("damage");
    store.succeed("record --once");
    // The data is in the log until then.
    let copy = store.folder.join("copy.db").to_string_lossy().into_owned();
    store.succeed(&format!("history export --format sqlite -o {copy}"));
    let mut bytes = std::fs::read(&copy).unwrap();
    let end = bytes.len();
    bytes[4096..end].fill(0xa5);
    std::fs::write(&copy, bytes).unwrap();
    for words in ["history list", "history top", "flows --at now"] {
        let outcome = run(command().args(words.split(' ')).args(["--store", &copy]));
        let error = String::from_utf8_lossy(&outcome.stderr);
        assert_eq!(outcome.code, Some(1), "{words}: {error}");
        assert_eq!(error.matches("copy.db").count(), 1, "{words}: {error}");
        assert_eq!(error.matches("damaged").count(), 1, "{words}: {error}");
        assert!(!error.contains("malformed"), "{words}: {error}");
    }
}

/// A service may be started without standard output: it writes none.
#[test]
fn record_needs_no_standard_output() {
    let store = Store::new("closed");
    let mut shell = Command::new("sh");
    clean(&mut shell);
    let words = "exec \"$0\" record --once --store \"$1\" >&-";
    let outcome = run(shell.args(["-c", words, SOCKEYE, &store.path()]));
    let error = String::from_utf8_lossy(&outcome.stderr);
    assert_eq!(outcome.code, Some(0), "{error}");
    let listed = store.run("history list");
    let note = String::from_utf8_lossy(&listed.stderr);
    assert!(note.starts_with("sockeye: 1 sample, "), "{note}");
}

#[test]
fn refused_values_name_what_is_allowed() {
    for (words, what) in [
        (
            ["record", "--check-interval", "-1"],
            "expected 0, or at least 0.001",
        ),
        (
            ["record", "--max-size", "99999999999999999999"],
            "from 8Mi to 16Ti",
        ),
    ] {
        let outcome = run(command().args(words));
        let error = String::from_utf8_lossy(&outcome.stderr);
        assert_eq!(outcome.code, Some(2), "{error}");
        assert!(error.contains(what), "{error}");
    }
}

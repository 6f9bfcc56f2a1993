//! A recorder that is ended, and one whose file is removed.

use super::Store;
use crate::fixtures::binary::command;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::process::Stdio;

#[test]
fn file_alone_is_complete_after_a_signal() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let store = Store::new("ended");
        let mut recorder = store.record();
        store.wait_for_more_than(3);
        kill_process(Pid::from_child(&recorder.0), signal).expect("it runs");
        let status = recorder.0.wait().expect("it ends");
        assert_eq!(status.code(), Some(0), "{signal:?}");
        let samples = store.samples();
        let copy = Store::new("copied");
        fs::copy(store.path(), copy.path()).expect("a file");
        assert!(samples > 3, "{signal:?}: {samples}");
        assert_eq!(copy.samples(), samples, "{signal:?}");
    }
}

#[test]
fn removed_file_is_begun_again_and_that_is_said() {
    let store = Store::new("removed");
    let notes = store.folder.join("notes");
    let mut words = command();
    words
        .args([
            "record",
            "--interval",
            "0.05",
            "--check-interval",
            "0",
            "--store",
            &store.path(),
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(fs::File::create(&notes).expect("a file"));
    let _recorder = super::Recorder(words.spawn().expect("the program starts"));
    store.wait_for_more_than(3);
    let moved = store.folder.join("moved.db");
    fs::rename(store.path(), &moved).expect("a file");
    store.wait_for_more_than(2);
    fs::remove_file(store.path()).expect("a file");
    store.wait_for_more_than(2);
    let notes = fs::read_to_string(&notes).expect("a text");
    assert_eq!(notes.matches("was removed or replaced").count(), 2, "{notes}");
    // What had been recorded is in the file that was moved.
    let before = Store::new("before");
    fs::copy(&moved, before.path()).expect("a file");
    assert!(before.samples() > 3);
}

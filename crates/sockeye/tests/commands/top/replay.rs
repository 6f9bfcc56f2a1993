//! `history replay`: the same screen over what was recorded.

use super::Top;
use crate::fixtures::binary::words_in;
use sockeye_lab::{Lab, need};

#[test]
fn keys_go_through_recorded_samples() {
    let lab = need!(Lab::new("replay"));
    let here = lab.namespace("here");
    let store = lab.directory().join("record.db");
    let store = store.display();
    let record = || {
        words_in(&here, &format!("record --once --store {store}")).ok();
    };
    record();
    let pair = here.loopback().established();
    record();
    drop(pair);
    let line = format!("history replay -N all --speed 0.1 --store {store}");
    let mut replay = Top::start(&here, 120, 24, &line);
    replay.wait_for("PLAYS  0 flows");
    replay.press_for(b"\x1b[C", "STOPPED  2 flows");
    replay.press_for(b"2", "ESTAB");
    // It is gone, and would be another one now.
    replay.press_for(b"k", "this was recorded");
    replay.press_for(b"6", "drops are not recorded");
    replay.press_for(b"1\x1b[D", "STOPPED  0 flows");
    replay.press_for(b"\x1b[6~", "STOPPED  2 flows");
    replay.press(b"q");
    assert!(replay.wait().success());
    replay.assert_restored();
}

/// The kernel gives the inode of a namespace that is gone to the next one, mostly.
#[test]
fn namespace_is_the_one_that_had_the_name() {
    let lab = need!(Lab::new("replay_names"));
    let here = lab.namespace("here");
    let store = lab.directory().join("record.db");
    let old = {
        let gone = need!(Lab::new("replay_old"));
        let netns = gone.namespace("old");
        let _pair = netns.loopback().established();
        let record = format!("record --once -N {} --store {}", netns.name(), store.display());
        words_in(&here, &record).ok();
        netns.name().to_owned()
    };
    let new = lab.namespace("new");
    let line = |name: &str| {
        format!(
            "history replay --at now -N {name} --speed 0.1 --store {}",
            store.display()
        )
    };
    let mut replay = Top::start(&here, 120, 24, &line(&old));
    replay.wait_for("PLAYS  2 flows");
    replay.press(b"q");
    assert!(replay.wait().success());
    let mut replay = Top::start(&here, 120, 24, &line(new.name()));
    replay.wait_for("no network namespace");
    assert!(!replay.wait().success());
}

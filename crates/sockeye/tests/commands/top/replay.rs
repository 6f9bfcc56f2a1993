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

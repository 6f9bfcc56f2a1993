//! Network namespaces have the names that they had when they were recorded.

use super::ranges::error;
use super::{Recorder, Store};
use crate::fixtures::binary::command;
use serde_json::Value;
use sockeye_lab::{Lab, need};
use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::time::Duration;

#[test]
fn namespace_that_is_gone_is_found_by_its_name() {
    let store = Store::new("netns-names");
    let (name, inode) = {
        let lab = need!(Lab::new("history_old"));
        let old = lab.namespace("old");
        let _listener = old.run(|| TcpListener::bind("127.0.0.1:4711")).expect("a port");
        store.succeed(&format!("record --once -N {}", old.name()));
        (old.name().to_owned(), old.inode())
    };
    let lab = need!(Lab::new("history_new"));
    // The kernel gives the inode to the next one, mostly.
    let new = lab.namespace("new");
    println!("inodes: {inode}, {}", new.inode());
    for words in [
        format!("sockets -tln --at now -N {name}"),
        format!("sockets -tln --at now -N {inode}"),
        format!("sockets -tln --at now -N net:[{inode}]"),
        format!("sockets -tln --at now -N all netns = {name}"),
    ] {
        let shown = store.succeed(&words);
        assert!(shown.contains("127.0.0.1:4711"), "{words}: {shown}");
    }
    let all = store.succeed("sockets -tln --at now -N all");
    assert!(all.contains(&name) && !all.contains(new.name()), "{all}");
    let json = store.succeed("sockets -tln --at now -N all --format json");
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["sockets"][0]["netns"], name.as_str(), "{json:#}");
    for words in ["flows --at now", "check --at now", "sockets -tl --at now"] {
        let outcome = store.run(&format!("{words} -N {}", new.name()));
        assert_eq!(outcome.code, Some(1), "{words}: {outcome}");
        let note = error(&outcome);
        assert!(
            note.contains("no network namespace") && note.contains(&format!("there are {name}")),
            "{words}: {note}"
        );
        assert!(
            store
                .run(&format!("{words} -N {name}"))
                .code
                .is_some_and(|code| code != 2)
        );
    }
    let timeline = store.succeed(&format!(
        "history timeline --since 1m -N {name} --points 2 --format json"
    ));
    assert!(timeline.contains("\"at\""), "{timeline}");
}

#[test]
fn talkers_of_a_namespace_have_its_name() {
    let store = Store::new("netns-talkers");
    let lab = need!(Lab::new("history_talkers"));
    let netns = lab.namespace("busy");
    let recorder = command()
        .args([
            "record",
            "--interval",
            "0.5",
            "-N",
            netns.name(),
            "--store",
            &store.path(),
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let recorder = Recorder(recorder.expect("the program starts"));
    let (listener, mut client) = netns.run(|| {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let client = TcpStream::connect(listener.local_addr().expect("its address")).expect("a connection");
        (listener, client)
    });
    let (_server, _) = listener.accept().expect("a connection");
    for _ in 0..6 {
        client.write_all(&[0; 1000]).expect("sent");
        std::thread::sleep(Duration::from_millis(500));
    }
    drop(recorder);
    let top = store.succeed("history top --by netns --since 1m");
    assert!(top.contains(netns.name()), "{top}");
}

//! `sockeye check` of what only two samples show, and of what several namespaces have in common.

use super::diagnosis::{SOCKEYE, check};
use super::faults::Script;
use serde_json::Value;
use sockeye_lab::{Lab, Namespace, need};

/// A receiver of datagrams that reads nothing while it is asked to be overrun.
const OVERRUN: &str = "
receiver = udp()
receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
receiver.bind(('127.0.0.1', 5140))
def overrun():
    for _ in range(100): udp().sendto(bytes(500), receiver.getsockname())
    receiver.setblocking(False)
    try:
        while True: receiver.recv(1000)
    except BlockingIOError: pass
overrun()
def again():
    while True:
        time.sleep(0.05)
        overrun()
if AGAIN: threading.Thread(target=again, daemon=True).start()
ready()
sys.stdin.read()
";

#[test]
fn drops_of_datagrams_count_between_two_samples() {
    let lab = need!(Lab::new("udp_drops_watched"));
    let here = lab.namespace("here");
    here.ip("link set lo up");
    let words = ["--only", "socket-drops"];
    let drops = |words: &[&str]| check(&here, words).the("socket-drops").fact("drops");
    {
        let _once = Script::start(&here, &format!("AGAIN = False\n{OVERRUN}"));
        assert!(drops(&words) > 10);
        // They are over.
        check(&here, &[&words[..], &["--watch", "0.5", "--count", "1"]].concat()).nothing();
    }
    let _again = Script::start(&here, &format!("AGAIN = True\n{OVERRUN}"));
    // Long enough for a thread that waits for a processor.
    assert!(drops(&[&words[..], &["--watch", "2", "--count", "1"]].concat()) > 10);
}

#[test]
fn device_without_carrier_in_two_namespaces_is_one_finding() {
    let lab = need!(Lab::new("common"));
    let (one, two) = (lab.namespace("one"), lab.namespace("two"));
    for namespace in [&one, &two] {
        namespace.ip("link add lone0 type veth peer name other0");
        namespace.ip("link set lone0 up");
    }
    let mut command = one.command(
        SOCKEYE,
        &[
            "check",
            "--format",
            "json",
            "--only",
            "no-carrier",
            "--netns",
            "all",
        ],
    );
    let output = command.output().expect("the program starts");
    let document: Value = serde_json::from_slice(&output.stdout).expect("a document");
    let findings = document["findings"].as_array().expect("findings");
    let lone: Vec<&Value> = findings
        .iter()
        .filter(|finding| finding["subject"]["device"] == "lone0")
        .collect();
    let [finding] = lone[..] else {
        panic!("{findings:#?}");
    };
    let more = finding["more_netns"].as_array().expect("a list");
    let mut inodes: Vec<&Value> = more.iter().map(|place| &place["netns_inode"]).collect();
    inodes.push(&finding["netns_inode"]);
    let is_in = |namespace: &Namespace| inodes.contains(&&Value::from(namespace.inode()));
    assert!(is_in(&one) && is_in(&two), "{finding:#}");
    assert_eq!(inodes.len(), 2);
}

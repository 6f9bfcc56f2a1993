//! What the kernel's counters of a namespace have, compared with the events: nothing is missing, and nothing is missed without a reason.

use super::events::{Running, connect, events};
use serde_json::Value;
use sockeye_lab::{Lab, Namespace, need};
use std::time::Duration;

/// The values of counters: `Tcp:ActiveOpens`, of the namespace.
fn counters(namespace: &Namespace) -> impl Fn(&str) -> u64 {
    let text = namespace.output("cat", &["/proc/self/net/snmp", "/proc/self/net/netstat"]);
    move |name: &str| {
        let (group, name) = name.split_once(':').expect("a group");
        let prefix = format!("{group}: ");
        let mut lines = text.lines().filter_map(|line| line.strip_prefix(&prefix));
        let (names, values) = (lines.next().expect("names"), lines.next().expect("values"));
        let mut both = names.split(' ').zip(values.split(' '));
        let found = both.find(|(one, _)| *one == name);
        found.expect("the counter").1.parse().expect("a number")
    }
}

#[test]
fn what_counters_have_more_than_events_is_unseen() {
    need!(sockeye_lab::program("python3"));
    let lab = need!(Lab::new("ev_counters"));
    let namespace = lab.namespace("alone");
    namespace.ip("link set lo up");
    let before = counters(&namespace);
    let running = need!(Running::start(&format!(
        "-n -N {} --format jsonl --kinds all -tu",
        namespace.name()
    )));
    // Until the counters of the begin were read, on a loaded machine.
    std::thread::sleep(Duration::from_secs(2));
    let since = counters(&namespace);
    assert_eq!(since("Tcp:ActiveOpens"), before("Tcp:ActiveOpens"));
    for way in [
        "many",
        "refused",
        "aborted",
        "unread",
        "accept_overflow",
        "zero_window",
        "full",
    ] {
        connect(&namespace, way, "127.0.0.1", 0);
    }
    let after = counters(&namespace);
    let (outcome, notes) = running.end();
    assert!(
        notes.contains("compared with the counters of 1 network namespace"),
        "{notes}"
    );
    let (events, summary) = events(&outcome);
    let moved = |name: &str| after(name) - before(name);
    let count = |is_it: &dyn Fn(&Value) -> bool| events.iter().filter(|event| is_it(event)).count() as u64;
    let is = |event: &Value, kinds: &[&str]| kinds.contains(&event["event"].as_str().expect("text"));
    let opens = count(&|event| is(event, &["open", "fail"]));
    let resets = count(&|event| {
        let state = event["old_state"].as_str().expect("text");
        is(event, &["close"]) && ["established", "close_wait"].contains(&state)
    });
    let overflows = count(&|event| is(event, &["accept-overflow"]));
    assert!(opens >= 400 && resets >= 2 && overflows >= 1, "{summary:#}");
    let unseen = |key: &str| {
        let unseen = &summary["records"]["unseen_by_kind"][key];
        unseen.as_u64().unwrap_or(0)
    };
    // This machine's kernel may leave programs out: what it did, and nothing else, is unseen.
    let opened = moved("Tcp:ActiveOpens") + moved("Tcp:PassiveOpens");
    assert_eq!(unseen("opens"), opened.saturating_sub(opens), "{summary:#}");
    assert_eq!(
        unseen("closes"),
        moved("Tcp:EstabResets").saturating_sub(resets),
        "{summary:#}"
    );
    assert_eq!(
        unseen("accept_overflows"),
        moved("TcpExt:ListenOverflows").saturating_sub(overflows),
        "{summary:#}"
    );
    let windows = |kind: &str| count(&|event| is(event, &[kind]) && event["window_of"] == "local");
    for (key, counter, kind) in [
        ("zero_windows", "TcpExt:TCPToZeroWindowAdv", "zero-window"),
        ("windows_opened", "TcpExt:TCPFromZeroWindowAdv", "window-open"),
    ] {
        assert!(moved(counter) > 0, "{counter}");
        assert_eq!(
            unseen(key),
            moved(counter).saturating_sub(windows(kind)),
            "{summary:#}"
        );
    }
    // What has no event of its own is counted by the programs: RSTs of no connection, and all but the first of the datagrams that found no space.
    assert!(moved("Tcp:OutRsts") > count(&|event| is(event, &["reset-sent"])));
    assert!(moved("Udp:RcvbufErrors") > 10);
    for key in ["resets_sent", "errors"] {
        assert!(unseen(key) <= UNSEEN_MAX, "{summary:#}");
    }
    // No counter has these.
    let not_compared = &summary["records"]["not_compared"];
    for (key, is_compared) in [
        ("opens", true),
        ("resets_sent", true),
        ("undos", true),
        ("errors", true),
        ("first_uses", false),
        ("resets_received", false),
    ] {
        let mut all = not_compared.as_array().expect("a list").iter();
        assert_eq!(all.all(|name| name != key), is_compared, "{key}: {not_compared}");
    }
}

/// Runs of programs that this machine's kernel may leave out.
const UNSEEN_MAX: u64 = 2;

//! Questions about what is not stored: the answer has no rows, and a note says why.

use super::Fleet;
use sockeye_lab::need;

/// Asserts that an answer has no rows, and what its note has.
#[track_caller]
fn check(fleet: &Fleet, words: &str, notes: &[&str]) {
    let outcome = fleet.ask(&format!("{words} --format jsonl"));
    assert_eq!(outcome.code, Some(0), "{words}: {outcome}");
    let rows = String::from_utf8_lossy(&outcome.stdout).lines().count();
    assert!(rows <= 1, "{words}: {outcome}");
    let stderr = String::from_utf8_lossy(&outcome.stderr).into_owned();
    for note in notes {
        assert!(stderr.contains(note), "{words}: {note}: {stderr}");
    }
}

#[test]
fn time_of_which_nothing_is_stored_is_called_so() {
    let fleet = need!(Fleet::new("not-stored"));
    check(&fleet, "who", &["nothing is stored: `sockeye export clickhouse`"]);
    fleet.send(&fleet.web);
    fleet.send(&fleet.db);
    let of_time = ["nothing is stored of this time, but from 20"];
    for words in [
        "at -30d",
        "at -300d",
        "who --since 30d --until 20d",
        "map --since 30d --until 20d",
        "findings --since 30d --until 20d",
        "blame postgres --since 300d --until 200d",
    ] {
        check(&fleet, words, &of_time);
    }
    check(
        &fleet,
        "who --port 7",
        &["no connection of this time matches (2 hosts sent"],
    );
    check(
        &fleet,
        "map port = 7",
        &["no connection of this time matches (2 hosts sent"],
    );
    check(
        &fleet,
        "blame nosuch",
        &["to a server named nosuch (2 hosts sent", "`sockeye fleet map`"],
    );
    check(
        &fleet,
        "findings --rule nosuch",
        &[
            "no rule of this version is named nosuch; rules: ",
            "accept-queue",
            "no finding of this time",
        ],
    );
    check(
        &fleet,
        "findings --host nosuch",
        &["no host that sent something of this time is named nosuch; hosts: db1, web1"],
    );
    check(
        &fleet,
        "findings --rule no-keepalive --host web1",
        &["no finding of this time matches"],
    );
}

#[test]
fn hosts_without_samples_of_the_time_are_named() {
    let fleet = need!(Fleet::new("missing"));
    fleet.send(&fleet.web);
    fleet.send(&fleet.db);
    let at_s = fleet.begin_ms / 1_000 + 400;
    let now_s = || {
        std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .expect("after 1970")
            .as_secs()
    };
    let notes = |at_s: u64| {
        let outcome = fleet.ask(&format!("at -{}s", now_s() - at_s));
        assert_eq!(outcome.code, Some(0), "{outcome}");
        String::from_utf8_lossy(&outcome.stderr).into_owned()
    };
    assert!(!notes(at_s).contains("has no samples"), "{}", notes(at_s));
    fleet.engine.execute(&format!(
        "INSERT INTO sockeye.gaps (host, begin, end, reason)
         VALUES ('web1', fromUnixTimestamp({}), fromUnixTimestamp({}), 'not-running')",
        at_s - 60,
        at_s + 60
    ));
    let note = notes(at_s);
    assert!(note.contains("web1 has no samples after 20"), "{note}");
    assert!(
        note.contains(" until 20") && note.contains("(not-running)"),
        "{note}"
    );
    assert!(!note.contains("db1 has no"), "{note}");
    // The samples of both have ended 700 seconds after they began; flows of up to six minutes before are listed.
    let note = notes(fleet.begin_ms / 1_000 + 695 + 190);
    assert!(note.contains("db1 has no samples after 20"), "{note}");
    assert!(note.contains("web1 has no samples after 20"), "{note}");
    assert!(!note.contains(" until "), "{note}");
}

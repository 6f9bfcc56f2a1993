//! Clocks of hosts that differ: found by data that both ends of a connection saw.

use super::host::begin_ms;
use super::{Engine, Fleet, Folder, SimulatedHost};
use serde_json::Value;
use sockeye_history::Exchange;
use sockeye_lab::need;
use sockeye_model::ConnectionEnds;
use sockeye_store::Observed;

/// What one end of the connection with a number has seen at a time: data that took 3 ms there and 5 ms back, by a clock that is ahead.
fn exchange(number: u16, client: u8, is_server: bool, at_ms: u64, ahead_ms: i64) -> Exchange {
    // The same of both ends, whatever their clocks show.
    let asked_ms = at_ms / 300_000 * 300_000 - 10_000;
    let (sent_ms, received_ms) = if is_server {
        (asked_ms + 4, asked_ms + 3)
    } else {
        (asked_ms, asked_ms + 9)
    };
    Exchange {
        netns: None,
        is_server,
        ends: ConnectionEnds {
            client: ([10, 0, 0, client].into(), 40_000 + number),
            server: ([10, 0, 0, 2].into(), 5_432),
        },
        request_bytes: asked_ms / 1_000,
        response_bytes: 700,
        sent_ms: sent_ms.checked_add_signed(ahead_ms).expect("a time"),
        received_ms: received_ms.checked_add_signed(ahead_ms).expect("a time"),
    }
}

#[test]
fn host_whose_clock_is_ahead_is_named() {
    let folder = Folder::new("skew");
    let engine = need!(Engine::start(&folder.0));
    let begin_ms = begin_ms();
    let of_client = |client: u8, name| {
        let observed = move |at_ms: u64| {
            let all = (0..5).map(|number| exchange(number, client, false, at_ms, 0));
            vec![Observed::Exchanges(all.collect())]
        };
        SimulatedHost::record_observing(&folder.0, name, begin_ms, &[], &[], &observed)
    };
    let (web, second) = (of_client(1, "web1"), of_client(3, "web2"));
    // Its clock is ahead by 7 s, so that it sees each exchange in a sample 7 s later, by its clock.
    let observed = |at_ms: u64| {
        let at_ms = at_ms - 7_000;
        let all = [1, 3]
            .into_iter()
            .flat_map(|client| (0..5).map(move |number| exchange(number, client, true, at_ms, 7_000)));
        vec![Observed::Exchanges(all.collect())]
    };
    let db = SimulatedHost::record_observing(&folder.0, "db1", begin_ms, &[], &[], &observed);
    let fleet = Fleet {
        web,
        db,
        engine,
        begin_ms,
        folder,
    };
    let outcome = fleet.ask("schema --apply --hosts 10");
    assert_eq!(outcome.code, Some(0), "{outcome}");
    for host in [&fleet.web, &fleet.db, &second] {
        fleet.send(host);
    }
    let hosts = fleet.rows("hosts");
    let shown: Vec<_> = hosts
        .iter()
        .map(|host| {
            (
                host["name"].as_str(),
                host["skew_ms"].as_f64(),
                host["skew_error_ms"].as_u64(),
            )
        })
        .collect();
    // Requests take 3 ms and responses 5: the estimate is wrong by one. Two of three clocks agree.
    assert_eq!(
        shown,
        [
            (Some("db1"), Some(6_999.0), Some(10)),
            (Some("web1"), Some(0.0), Some(0)),
            (Some("web2"), Some(0.0), Some(20)),
        ]
    );
    let stored = fleet
        .engine
        .query("SELECT client_host, server_host, min(server_ahead_ms), max(delay_ms) FROM clock_offsets GROUP BY ALL ORDER BY ALL");
    assert_eq!(stored, "web1\tdb1\t6999\t8\nweb2\tdb1\t6999\t8");
    assert_eq!(hosts[0].get("skew_ms").map(Value::is_number), Some(true));
}

//! Several services between the same two addresses, and connections that no process has.

use super::host::OWNED_PORT;
use super::questions::values;
use super::{Connection, FROM_WEB, Fleet, SENT_SAMPLES, TO_DATABASE};
use sockeye_lab::{Skip, need};

/// Connections of a host to another, each of another process: owner, bytes sent and received between two samples, bytes unread.
const OF_PROCESSES: [(&str, u64, u64, u32); 3] = [
    ("app", 1_000, 5_000, 0),
    ("worker", 10, 20, 0),
    ("idler", 0, 0, 100_000),
];

fn filled(test: &str) -> Result<Fleet, Skip> {
    let numbered = || (0_u16..).zip(OF_PROCESSES);
    let web: Vec<_> = numbered()
        .map(|(number, (owner, sent, received, unread))| Connection {
            cookie: 100 + u64::from(number),
            local: ([10, 0, 0, 1], 40_000 + number),
            owner,
            sent,
            received,
            unread,
            retrans: 0,
            ..TO_DATABASE
        })
        .collect();
    let database: Vec<_> = numbered()
        .map(|(number, (_, sent, received, _))| Connection {
            cookie: 200 + u64::from(number),
            peer: ([10, 0, 0, 1], 40_000 + number),
            sent: received,
            received: sent,
            retrans: 1,
            ..FROM_WEB
        })
        .collect();
    let fleet = Fleet::of(test, &web, &[(5_432, 0)], &database)?;
    fleet.send(&fleet.web);
    fleet.send(&fleet.db);
    Ok(fleet)
}

const NAMES: [&str; 7] = [
    "client_service",
    "server_service",
    "seen_by",
    "connections_max",
    "request_bytes",
    "response_bytes",
    "client_retrans_segs",
];

#[test]
fn processes_of_a_client_are_edges_with_their_own_bytes() {
    let fleet = need!(filled("processes"));
    let total = |one: u64| (one * SENT_SAMPLES).to_string();
    let expected: Vec<Vec<String>> = OF_PROCESSES
        .iter()
        .map(|(owner, sent, received, _)| {
            let bytes = [total(*sent), total(*received)];
            [*owner, "postgres", "both", "1", &bytes[0], &bytes[1], "0"]
                .map(str::to_owned)
                .to_vec()
        })
        .collect();
    for since in ["28m", "1h", "99d"] {
        let edges = fleet.rows(&format!("who --port 5432 --since {since}"));
        assert_eq!(values(&edges, &NAMES), expected, "{since}");
        // Which of them the database sent again for is not known.
        assert!(edges.iter().all(|edge| edge.get("server_retrans_segs").is_none()));
        for (place, (owner, ..)) in OF_PROCESSES.iter().enumerate() {
            let edges = fleet.rows(&format!("who --since {since} client_service = {owner}"));
            assert_eq!(values(&edges, &NAMES), expected[place..=place], "{since}");
        }
    }
    let services = fleet.rows("map");
    let names = [
        "client_service",
        "server_service",
        "pairs_of_both",
        "request_bytes",
        "response_bytes",
    ];
    let of_map: Vec<_> = expected
        .iter()
        .map(|row| {
            vec![
                row[0].clone(),
                row[1].clone(),
                "1".to_owned(),
                row[4].clone(),
                row[5].clone(),
            ]
        })
        .collect();
    assert_eq!(values(&services, &names), of_map);
    let now_s = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .expect("after 1970")
        .as_secs();
    let at = format!("at -{}s", now_s - (fleet.begin_ms / 1_000 + 400));
    let mut there = values(&fleet.rows(&at), &["client_service", "connections_max"]);
    there.sort();
    assert_eq!(there, [["app", "1"], ["idler", "1"], ["worker", "1"]]);
    assert_eq!(fleet.rows(&format!("{at} client_service = worker")).len(), 1);
}

#[test]
fn blame_names_the_process_that_does_not_read() {
    let fleet = need!(filled("blamed"));
    let edges = fleet.rows("blame postgres");
    assert_eq!(
        values(&edges, &["cause", "client_service", "server_service"]),
        [
            ["network", "app, idler, worker", "postgres"],
            ["client", "idler", "postgres"],
            ["none", "app", "postgres"],
            ["none", "worker", "postgres"],
        ]
    );
    // What the database sent again is of its connections to all three.
    let segs = OF_PROCESSES.len() as u64 * SENT_SAMPLES;
    let evidence = edges[0]["evidence"].as_str().expect("a text");
    assert!(
        evidence.starts_with(&format!("the server retransmitted {segs} segments")),
        "{evidence}"
    );
    let note = fleet.ask("blame postgres").stderr;
    let note = String::from_utf8_lossy(&note);
    assert!(
        note.contains("4 edges to postgres: server 0, network 1, client 1, none 2 (nothing that TCP shows"),
        "{note}"
    );
}

#[test]
fn services_behind_one_port_are_edges_and_have_no_figures_of_the_client() {
    let backend = |number: u16, owner, sent| Connection {
        cookie: 200 + u64::from(number),
        peer: ([10, 0, 0, 1], 40_000 + number),
        owner,
        sent,
        ..FROM_WEB
    };
    let client = |number: u16, received| Connection {
        cookie: 100 + u64::from(number),
        local: ([10, 0, 0, 1], 40_000 + number),
        received,
        ..TO_DATABASE
    };
    let fleet = need!(Fleet::of(
        "backends",
        &[client(0, 300), client(1, 20)],
        &[(5_432, 0)],
        &[backend(0, "old", 300), backend(1, "new", 20)],
    ));
    fleet.send(&fleet.web);
    fleet.send(&fleet.db);
    let edges = fleet.rows("who");
    let names = [
        "client_service",
        "server_service",
        "response_bytes",
        "server_retrans_segs",
    ];
    let [first, second] = [300, 20].map(|one: u64| (one * SENT_SAMPLES).to_string());
    let segs = (2 * SENT_SAMPLES).to_string();
    assert_eq!(
        values(&edges, &names),
        [
            ["webshop", "old", &first, &segs],
            ["webshop", "new", &second, &segs]
        ]
    );
    assert!(edges.iter().all(|edge| edge.get("client_retrans_segs").is_none()));
    let judged = fleet.rows("blame new");
    let bytes = (2 * 1_000 * SENT_SAMPLES).to_string();
    assert_eq!(
        values(&judged, &["cause", "server_service", "request_bytes"]),
        [
            ["network", "new", &(1_000 * SENT_SAMPLES).to_string()],
            ["network", "new, old", &bytes]
        ]
    );
}

#[test]
fn service_that_accepts_nothing_is_found_by_its_listener() {
    let waiting = Connection {
        local: ([10, 0, 0, 2], OWNED_PORT),
        owner: "",
        retrans: 0,
        ..FROM_WEB
    };
    let client = Connection {
        peer: ([10, 0, 0, 2], OWNED_PORT),
        retrans: 0,
        ..TO_DATABASE
    };
    let fleet = need!(Fleet::of("stuck", &[client], &[(OWNED_PORT, 100)], &[waiting]));
    fleet.send(&fleet.web);
    fleet.send(&fleet.db);
    for since in ["28m", "1h", "99d"] {
        let judged = fleet.rows(&format!("blame stuck --since {since}"));
        assert_eq!(
            values(&judged, &["cause", "client_service", "server_service", "seen_by"]),
            [["server", "webshop", "stuck", "both"]],
            "{since}"
        );
        let edges = fleet.rows(&format!("who --since {since} server_service = stuck"));
        assert_eq!(values(&edges, &["server_service"]), [["stuck"]], "{since}");
    }
    assert_eq!(
        values(&fleet.rows("map"), &["client_service", "server_service"]),
        [["webshop", "stuck"]]
    );
}

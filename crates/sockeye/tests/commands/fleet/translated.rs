//! Edges through NAT: found by what the host that translates recorded, and by nothing else.

use super::host::begin_ms;
use super::questions::values;
use super::{Connection, Engine, Fleet, Folder, SENT_SAMPLES, SimulatedHost};
use crate::fixtures::binary::{command, run};
use sockeye_history::SeenTranslation;
use sockeye_lab::{Skip, need};
use sockeye_model::{ConnectionEnds, Translation};
use sockeye_store::Observed;

type End = ([u8; 4], u16);

const CLIENT: End = ([10, 0, 0, 9], 40_000);
const SECOND: End = ([10, 0, 0, 9], 40_001);
const SERVICE: End = ([10, 9, 0, 1], 80);
const ROUTER: End = ([10, 1, 0, 1], 1_024);
const BACKEND: End = ([10, 1, 0, 7], 8_080);

fn connection(cookie: u64, local: End, peer: End, owner: &'static str, bytes: (u64, u64)) -> Connection {
    Connection {
        cookie,
        local,
        peer,
        owner,
        sent: bytes.0,
        received: bytes.1,
        retrans: 0,
        rtt_us: 900,
        unread: 0,
    }
}

fn translation(zone: u16, original: (End, End), translated: (End, End)) -> SeenTranslation {
    let ends = |(client, server): (End, End)| {
        let end = |(ip, port): End| (std::net::IpAddr::from(ip), port);
        ConnectionEnds {
            client: end(client),
            server: end(server),
        }
    };
    SeenTranslation {
        netns: None,
        translation: Translation {
            zone,
            original: ends(original),
            translated: ends(translated),
        },
    }
}

/// A client that has two connections to a service, of which a router makes one of its own to a backend; the other one goes to a backend
/// that sends nothing.
fn fleet(test: &str, translations: &[SeenTranslation]) -> Result<Fleet, Skip> {
    let web = [
        connection(1, CLIENT, SERVICE, "webshop", (100, 700)),
        connection(2, SECOND, SERVICE, "webshop", (30, 70)),
    ];
    let backend = [connection(3, BACKEND, ROUTER, "api", (700, 100))];
    fleet_of(test, &|_| translations.to_vec(), &web, &backend)
}

/// The same with these connections of both hosts, and with what the router translates so many seconds after the begin.
fn fleet_of(
    test: &str,
    translations: &dyn Fn(u64) -> Vec<SeenTranslation>,
    web: &[Connection],
    backend: &[Connection],
) -> Result<Fleet, Skip> {
    let folder = Folder::new(test);
    let engine = Engine::start(&folder.0)?;
    let begin_ms = begin_ms();
    let fleet = Fleet {
        web: SimulatedHost::record(&folder.0, "web1", begin_ms, &[], web),
        db: SimulatedHost::record(&folder.0, "api1", begin_ms, &[(8_080, 0)], backend),
        engine,
        begin_ms,
        folder,
    };
    let outcome = fleet.ask("schema --apply --hosts 10");
    assert_eq!(outcome.code, Some(0), "{outcome}");
    let observed = |at_ms: u64| vec![Observed::Translations(translations((at_ms - begin_ms) / 1_000))];
    let router = SimulatedHost::record_observing(&fleet.folder.0, "router", begin_ms, &[], &[], &observed);
    fleet.send(&router);
    // What is known to be translated decides which flows are sent connection by connection.
    fleet.send(&fleet.web);
    fleet.send(&fleet.db);
    Ok(fleet)
}

const NAMES: [&str; 8] = [
    "client_host",
    "client_ip",
    "server_host",
    "server_ip",
    "port",
    "via",
    "seen_by",
    "response_bytes",
];

#[test]
fn edge_through_nat_has_both_ends() {
    let seen = translation(0, (CLIENT, SERVICE), (ROUTER, BACKEND));
    let fleet = need!(fleet("nat", &[seen]));
    for since in ["28m", "1h"] {
        let edges = fleet.rows(&format!("who --since {since}"));
        let bytes = |one: u64| (one * SENT_SAMPLES).to_string();
        assert_eq!(
            values(&edges, &NAMES),
            [
                [
                    "web1",
                    "10.0.0.9",
                    "api1",
                    "10.1.0.7",
                    "8080",
                    "10.9.0.1:80",
                    "both",
                    &bytes(700)
                ],
                [
                    "web1",
                    "10.0.0.9",
                    "null",
                    "10.9.0.1",
                    "80",
                    "null",
                    "client",
                    &bytes(70)
                ],
            ],
            "{since}"
        );
        assert_eq!(edges[0]["request_bytes"], 100 * SENT_SAMPLES);
    }
    let at_s = fleet.begin_ms / 1_000 + 400;
    let now_s = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .expect("after 1970")
        .as_secs();
    let rows = fleet.rows(&format!("at -{}s port = 8080", now_s - at_s));
    assert_eq!(values(&rows, &["client_host", "server_host"]), [["web1", "api1"]]);
    let services = fleet.rows("map");
    assert_eq!(
        values(&services, &["client_service", "server_service", "pairs_of_both"]),
        [["webshop", "api", "1"], ["webshop", "10.9.0.1", "0"]]
    );
}

/// Each is a row of its own: those of an edge are counted, and those of another client behind the same router are not among them.
#[test]
fn connections_of_an_edge_through_nat_are_counted() {
    let other: End = ([10, 0, 0, 8], 40_000);
    let masked = [1_024, 1_025, 1_026].map(|port| (ROUTER.0, port));
    let clients = [CLIENT, SECOND, other];
    let seen: Vec<_> = clients
        .into_iter()
        .zip(masked)
        .map(|(client, masked)| translation(0, (client, SERVICE), (masked, BACKEND)))
        .collect();
    let numbered = || (10_u64..).zip(clients.into_iter().zip(masked));
    let web: Vec<_> = numbered()
        .map(|(cookie, (client, _))| connection(cookie, client, SERVICE, "webshop", (100, 700)))
        .collect();
    let backend: Vec<_> = numbered()
        .map(|(cookie, (_, masked))| connection(cookie, BACKEND, masked, "api", (700, 100)))
        .collect();
    let fleet = need!(fleet_of("nat-counted", &|_| seen.clone(), &web, &backend));
    let at_s = fleet.begin_ms / 1_000 + 400;
    let now_s = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .expect("after 1970")
        .as_secs();
    for words in [
        "who --since 28m".to_owned(),
        "who --since 1h".to_owned(),
        format!("at -{}s port = 8080", now_s - at_s),
    ] {
        let mut edges = values(
            &fleet.rows(&words),
            &["client_ip", "connections_max", "seen_by", "via"],
        );
        edges.sort();
        let expected =
            [("10.0.0.8", "1"), ("10.0.0.9", "2")].map(|(ip, count)| [ip, count, "both", "10.9.0.1:80"]);
        assert_eq!(edges, expected, "{words}");
    }
}

#[test]
fn tuple_with_two_meanings_is_not_joined() {
    let other: End = ([10, 0, 0, 77], 50_000);
    let translations = [
        translation(1, (CLIENT, SERVICE), (ROUTER, BACKEND)),
        translation(2, (other, SERVICE), (ROUTER, BACKEND)),
    ];
    let fleet = need!(fleet("nat-zones", &translations));
    let edges = fleet.rows("who --port 8080");
    // What the client has is one connection of one zone: it is where it went to. What the server has may be either.
    let mut shown = values(&edges, &["client_ip", "server_ip", "seen_by"]);
    shown.sort();
    assert_eq!(
        shown,
        [
            ["10.0.0.9", "10.1.0.7", "client"],
            ["10.1.0.1", "10.1.0.7", "server"]
        ]
    );
}

/// Returns the edges of a time: where they are from and to, who saw them, and how many samples of the connection they have.
fn shown(fleet: &Fleet, words: &str) -> Vec<[String; 4]> {
    let edges = fleet.rows(words);
    let row = |edge: &serde_json::Value| {
        let text = |key: &str| edge[key].as_str().expect("a text").to_owned();
        let samples = edge["response_bytes"].as_u64().expect("a number") / 700;
        [
            text("client_ip"),
            text("server_ip"),
            text("seen_by"),
            samples.to_string(),
        ]
    };
    let mut shown: Vec<_> = edges.iter().map(row).collect();
    shown.sort();
    shown
}

const WEB: (End, End) = (CLIENT, SERVICE);
const MASKED: (End, End) = (ROUTER, BACKEND);

/// One connection of the client, by way of the router, whose end at the backend is the only one. A second one, of which only the router has
/// anything, is always there: so that the flow is known to be translated.
fn fleet_of_one(test: &str, translations: &dyn Fn(u64) -> Vec<SeenTranslation>) -> Result<Fleet, Skip> {
    let second = translation(0, (SECOND, SERVICE), ((ROUTER.0, 1_025), BACKEND));
    let seen = |at_s: u64| [translations(at_s), vec![second]].concat();
    let web = [connection(1, CLIENT, SERVICE, "webshop", (100, 700))];
    let backend = [connection(3, BACKEND, ROUTER, "api", (700, 100))];
    fleet_of(test, &seen, &web, &backend)
}

/// The router writes all translations once in five minutes, and what it sends may come later than what the ends send.
#[test]
fn what_was_translated_is_known_for_two_minutes_of_the_next_five() {
    let seen = |at_s: u64| {
        (at_s < 300)
            .then(|| translation(0, WEB, MASKED))
            .into_iter()
            .collect()
    };
    let fleet = need!(fleet_of_one("nat-late", &seen));
    let joined = |samples: u64| ["10.0.0.9", "10.1.0.7", "both", &samples.to_string()].map(str::to_owned);
    let of_client =
        |samples: u64| ["10.0.0.9", "10.9.0.1", "client", &samples.to_string()].map(str::to_owned);
    let of_server =
        |samples: u64| ["10.1.0.1", "10.1.0.7", "server", &samples.to_string()].map(str::to_owned);
    // The first sample has no difference to one before.
    assert_eq!(
        shown(&fleet, "who --since 28m"),
        [
            joined(41),
            of_client(SENT_SAMPLES - 41),
            of_server(SENT_SAMPLES - 41)
        ]
    );
    // Rows of five minutes begin with these.
    assert_eq!(
        shown(&fleet, "who --since 1h"),
        [
            joined(59),
            of_client(SENT_SAMPLES - 59),
            of_server(SENT_SAMPLES - 59)
        ]
    );
}

#[test]
fn meaning_in_the_same_five_minutes_is_preferred_to_that_before() {
    let other: End = ([10, 0, 0, 77], 50_000);
    let seen = |at_s: u64| match at_s {
        0..300 => vec![translation(0, WEB, MASKED)],
        // What is seen in the first two minutes may have been there before.
        420.. => vec![translation(0, (other, SERVICE), MASKED)],
        _ => Vec::new(),
    };
    let fleet = need!(fleet_of_one("nat-reused", &seen));
    let of = |ip: &str, server: &str, seen_by: &str, samples: u64| {
        [ip, server, seen_by, &samples.to_string()].map(str::to_owned)
    };
    assert_eq!(
        shown(&fleet, "who --since 28m"),
        [
            of("10.0.0.77", "10.1.0.7", "server", SENT_SAMPLES - 29),
            // The client's end has no other meaning.
            of("10.0.0.9", "10.1.0.7", "both", 41),
            of("10.0.0.9", "10.9.0.1", "client", SENT_SAMPLES - 41),
        ]
    );
}

#[test]
fn tuple_with_two_meanings_before_is_not_joined() {
    let other: End = ([10, 0, 0, 77], 50_000);
    let seen = |at_s: u64| match at_s {
        0..200 => vec![translation(0, WEB, MASKED)],
        200..300 => vec![translation(0, (other, SERVICE), MASKED)],
        _ => Vec::new(),
    };
    let fleet = need!(fleet_of_one("nat-two-before", &seen));
    let of = |ip: &str, server: &str, seen_by: &str, samples: u64| {
        [ip, server, seen_by, &samples.to_string()].map(str::to_owned)
    };
    assert_eq!(
        shown(&fleet, "who --since 28m"),
        [
            of("10.0.0.9", "10.1.0.7", "client", 41),
            of("10.0.0.9", "10.9.0.1", "client", SENT_SAMPLES - 41),
            of("10.1.0.1", "10.1.0.7", "server", SENT_SAMPLES),
        ]
    );
}

#[test]
fn without_translations_each_end_is_an_edge() {
    let fleet = need!(fleet("nat-unknown", &[]));
    let mut shown = values(&fleet.rows("who"), &["client_ip", "server_ip", "port", "seen_by"]);
    shown.sort();
    assert_eq!(
        shown,
        [
            ["10.0.0.9", "10.9.0.1", "80", "client"],
            ["10.1.0.1", "10.1.0.7", "8080", "server"]
        ]
    );
    let outcome = run(command().args(["fleet", "who", "--url", &fleet.engine.url()]));
    assert_eq!(outcome.code, Some(0), "{outcome}");
}

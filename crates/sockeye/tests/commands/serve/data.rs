//! What the server answers: documents that follow their schemas, of live sockets.

use super::{Server, line};
use crate::fixtures::http::Answer;
use crate::fixtures::schema_file;
use jsonschema::{Draft, JSONSchema};
use serde_json::{Value, json};
use sockeye_lab::wait_until;
use std::io::{BufReader, Write};
use std::net::{TcpListener, TcpStream};

const SCHEMA: &str = include_str!("../../../../../docs/schema/serve.schema.json");

pub(super) fn assert_follows(document: &Value, definition: &str) {
    let mut schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let object = schema.as_object_mut().unwrap();
    object.remove("oneOf");
    object.insert("$ref".to_owned(), json!(format!("#/$defs/{definition}")));
    let schema = schema_file::load(&schema.to_string());
    let compiled = JSONSchema::options()
        .with_draft(Draft::Draft202012)
        .compile(&schema)
        .unwrap();
    if let Err(errors) = compiled.validate(document) {
        panic!(
            "{definition}: {}\n{document}",
            errors
                .map(|error| error.to_string())
                .collect::<Vec<_>>()
                .join("\n")
        );
    }
}

/// Two connected sockets of this process.
fn pair() -> (TcpListener, TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    (listener, client, server)
}

/// A mistyped number is not the default.
#[test]
fn numbers_that_are_none_are_refused() {
    let server = Server::start(&[]);
    let cookie = server.log_in();
    wait_until("there is a sample", || {
        server.get("/api/flows", &format!("Cookie: {cookie}\r\n")).status == 200
    });
    for (path, name) in [
        ("/api/flows?limit=abc", "limit"),
        ("/api/flows?offset=-1", "offset"),
        ("/api/live?limit=1.5", "limit"),
        ("/api/flows?at=now", "at"),
        ("/api/flows?download=csv&limit=x", "limit"),
        ("/api/step?by=x", "by"),
        ("/api/timeline?from=x", "from"),
        ("/api/map?by=color", "by"),
        ("/api/sockets?download=xml", "download"),
    ] {
        let answer = server.get(path, &format!("Cookie: {cookie}\r\n"));
        assert_eq!(answer.status, 400, "{path}: {answer:?}");
        assert!(
            answer.body.contains(&format!("{name}: expected ")),
            "{path}: {answer:?}"
        );
    }
}

#[test]
fn flows_have_the_filter_the_order_and_the_window() {
    let (listener, _client, _server) = pair();
    let port = listener.local_addr().unwrap().port();
    let server = Server::start(&[]);
    let cookie = server.log_in();
    let of_port = format!("/api/flows?filter=dport+%3D+%3A{port}");
    wait_until("the flow is sampled", || {
        let answer = server.get(&of_port, &format!("Cookie: {cookie}\r\n"));
        answer.status == 200 && answer.body.contains("\"flows_matching\":1,")
    });
    let page = server.json(&of_port, &cookie);
    assert_follows(&page, "page");
    let flow = &page["document"]["flows"][0];
    assert_eq!(
        (&flow["peer"]["port"], &flow["connections"]),
        (&json!(port), &json!(1)),
        "{page}"
    );
    assert_eq!(flow["owners"][0]["pid"], json!(std::process::id()), "{page}");
    let window = server.json("/api/flows?offset=1&limit=1&sort=peer_port", &cookie);
    assert_eq!(window["offset"], 1, "{window}");
    assert!(
        window["document"]["flows"].as_array().unwrap().len() <= 1,
        "{window}"
    );
    // Round trip times differ between the connections of a flow.
    let undecided = server.json(&format!("{of_port}+and+rtt+%3E+50s"), &cookie);
    assert_eq!(undecided["flows_matching"], 0, "{undecided}");
    assert!(undecided["flows_undecided"].as_u64().unwrap() >= 1, "{undecided}");
    for (query, expected) in [
        ("filter=dport+%3D+%29", "expected a port after '=', found ')'"),
        ("sort=-nothing", "nothing"),
        ("at=yesterday", "microseconds"),
        ("download=xml", "json or csv"),
    ] {
        let answer = server.get(&format!("/api/flows?{query}"), &format!("Cookie: {cookie}\r\n"));
        assert_eq!(answer.status, 400, "{query}");
        let error: Value = serde_json::from_str(&answer.body).unwrap();
        assert_follows(&error, "error");
        assert!(error["message"].as_str().unwrap().contains(expected), "{error}");
    }
}

#[test]
fn past_is_kept_and_documents_follow_their_schemas() {
    let (_listener, _client, _server) = pair();
    let server = Server::start(&[]);
    let cookie = server.log_in();
    let times = || -> Vec<u64> {
        let moments = server.json("/api/moments", &cookie);
        assert_follows(&moments, "moments");
        moments["times_us"]
            .as_array()
            .unwrap()
            .iter()
            .map(|time| time.as_u64().unwrap())
            .collect()
    };
    wait_until("three samples are kept", || times().len() >= 3);
    let times = times();
    assert!(times.is_sorted(), "{times:?}");
    let first = server.json(&format!("/api/flows?at={}", times[0]), &cookie);
    assert_eq!(
        (&first["time_us"], &first["is_newest"]),
        (&json!(times[0]), &json!(false))
    );
    // Between two samples: the one before.
    let between = server.json(&format!("/api/flows?at={}", times[1] + 1), &cookie);
    assert_eq!(between["time_us"], json!(times[1]));
    let timeline = server.json("/api/timeline", &cookie);
    assert_follows(&timeline, "timeline");
    let points = timeline["points"].as_array().unwrap();
    assert!(
        points.len() >= 3 && points.iter().all(|point| point["connections"] != 0),
        "{timeline}"
    );
    for by in ["owner", "container", "port"] {
        let map = server.json(&format!("/api/map?by={by}"), &cookie);
        assert_follows(&map, "map");
        assert!(!map["edges"].as_array().unwrap().is_empty(), "{map}");
    }
}

#[test]
fn connections_findings_and_explanations_are_those_of_the_commands() {
    let (listener, _client, _server) = pair();
    let port = listener.local_addr().unwrap().port();
    let server = Server::start(&[]);
    let cookie = server.log_in();
    let details = server.json(
        &format!("/api/sockets?details=1&filter=dport+%3D+%3A{port}"),
        &cookie,
    );
    assert_eq!(details["type"], "sockets");
    let sockets = details["sockets"].as_array().unwrap();
    assert!(
        sockets.len() == 1 && sockets[0]["tcp_info"].is_object(),
        "{details}"
    );
    let csv = server.get(
        &format!("/api/sockets?filter=sport+%3D+%3A{port}"),
        &format!("Cookie: {cookie}\r\n"),
    );
    assert_eq!((csv.status, csv.body.lines().count()), (200, 2), "{csv:?}");
    let wrong = server.get("/api/sockets?filter=--help", &format!("Cookie: {cookie}\r\n"));
    assert_eq!(wrong.status, 400, "{wrong:?}");
    let explained = server.json("/api/explain?text=TcpRetransSegs", &cookie);
    assert_eq!(explained["entries"][0]["name"], "TcpRetransSegs");
    wait_until("something was checked", || {
        server
            .get("/api/findings", &format!("Cookie: {cookie}\r\n"))
            .status
            == 200
    });
    assert_eq!(server.json("/api/findings", &cookie)["type"], "check");
}

#[test]
fn downloads_are_those_of_flows() {
    let server = Server::start(&[]);
    let cookie = format!("Cookie: {}\r\n", server.log_in());
    wait_until("a sample is kept", || {
        server.get("/api/flows", &cookie).status == 200
    });
    let json = server.get("/api/flows?download=json", &cookie);
    assert!(
        json.header("content-disposition")
            .unwrap()
            .starts_with("attachment")
    );
    let document: Value = serde_json::from_str(&json.body).unwrap();
    assert_eq!(document["type"], "flows");
    let csv = server.get("/api/flows?download=csv", &cookie);
    assert!(csv.body.starts_with("time,"), "{csv:?}");
    assert!(
        csv.header("content-type").unwrap().starts_with("text/csv"),
        "{csv:?}"
    );
}

#[test]
fn downloads_of_connections_are_what_was_asked_for() {
    let (_listener, client, _server) = pair();
    let server = Server::start(&[]);
    let cookie = format!("Cookie: {}\r\n", server.log_in());
    let port = client.peer_addr().unwrap().port();
    let get = |rest: &str| {
        server.get(
            &format!("/api/sockets?filter=dport%20%3D%20%3A{port}{rest}"),
            &cookie,
        )
    };
    let json = get("&download=json");
    let name = |answer: &Answer| answer.header("content-disposition").map(str::to_owned);
    assert!(name(&json).unwrap().contains("sockets.json"), "{json:?}");
    let document: Value = serde_json::from_str(&json.body).unwrap();
    assert_eq!(document["type"], "sockets");
    assert!(!document["sockets"].as_array().unwrap().is_empty(), "{json:?}");
    let csv = get("&download=csv");
    assert!(name(&csv).unwrap().contains("sockets.csv"), "{csv:?}");
    assert_eq!(get("&download=xml").status, 400);
    let wrong = server.get("/api/sockets?filter=nonsense%20%3D&download=csv", &cookie);
    assert_eq!((wrong.status, name(&wrong)), (400, None));
}

#[test]
fn live_data_comes_as_events() {
    let server = Server::start(&[]);
    let cookie = server.log_in();
    let mut stream = server.connect();
    let request = format!(
        "GET /api/live?limit=1 HTTP/1.1\r\nHost: {}\r\nCookie: {cookie}\r\n\r\n",
        server.address
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut lines = BufReader::new(stream);
    let mut ids = Vec::new();
    while ids.len() < 3 {
        if let Some(id) = line(&mut lines).strip_prefix("id: ") {
            ids.push(id.parse::<u64>().unwrap());
        }
    }
    assert!(ids.is_sorted() && ids[0] < ids[2], "{ids:?}");
}

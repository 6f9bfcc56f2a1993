//! What hostile and slow clients can do: nothing to others.

use super::Server;
use sockeye_lab::wait_until;
use std::io::{Read, Write};
use std::net::TcpStream;

#[test]
fn broken_requests_are_refused_and_the_server_goes_on() {
    let server = Server::start(&[]);
    let cookie = server.log_in();
    let host = server.address;
    let long = "a".repeat(100_000);
    let many: String = (0..200).map(|nth| format!("X-{nth}: 1\r\n")).collect();
    for request in [
        "\r\n\r\n".to_owned(),
        "GET\r\n\r\n".to_owned(),
        "\0\0\0\0\r\n\r\n".to_owned(),
        "\u{16}\u{3}\u{1} a TLS hello\r\n\r\n".to_owned(),
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(),
        format!("GET /{long} HTTP/1.1\r\nHost: {host}\r\n\r\n"),
        format!("GET / HTTP/1.1\r\nHost: {host}\r\nX: {long}\r\n\r\n"),
        format!("GET / HTTP/1.1\r\nHost: {host}\r\n{many}\r\n"),
        format!(
            "GET / HTTP/1.1\r\nHost: {host}\r\nContent-Length: 99999999\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n"
        ),
        format!("GET / HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"),
        format!(
            "GET /../../etc/passwd HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n"
        ),
        format!(
            "GET /%2e%2e/vendor HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n"
        ),
    ] {
        let mut stream = server.connect();
        // It may stop to read in the middle.
        drop(stream.write_all(request.as_bytes()));
        let mut answer = Vec::new();
        drop(stream.read_to_end(&mut answer));
        let text = String::from_utf8_lossy(&answer);
        assert!(
            !text.contains(" 200 ") && !text.contains("root:"),
            "{request:.80}: {text:.300}"
        );
    }
    let deep = format!("/api/flows?filter={}", "%28".repeat(1300));
    assert_eq!(server.get(&deep, &format!("Cookie: {cookie}\r\n")).status, 400);
    // No command can be started with a NUL byte: that is the request's fault.
    for path in [
        "/api/sockets?filter=%00",
        "/api/flows?filter=%00",
        "/api/explain?text=%00",
    ] {
        let answer = server.get(path, &format!("Cookie: {cookie}\r\n"));
        assert_eq!(answer.status, 400, "{path}: {answer:?}");
    }
    assert_eq!(server.get("/", &format!("Cookie: {cookie}\r\n")).status, 200);
}

/// Clients that send a head byte by byte, or nothing, do not keep others out for longer than a head may take.
#[test]
fn idle_connections_end() {
    let server = Server::start(&[]);
    let cookie = server.log_in();
    let mut idle: Vec<TcpStream> = (0..100).map(|_| server.connect()).collect();
    for stream in &mut idle {
        stream.write_all(b"GET / HT").unwrap();
    }
    let answer = server.get("/", &format!("Cookie: {cookie}\r\n"));
    assert_eq!(answer.status, 200, "{answer:?}");
    let mut ended = Vec::new();
    drop(idle[0].read_to_end(&mut ended));
}

/// Streams whose reader takes nothing: others and the samples go on.
#[test]
fn slow_reader_slows_nothing() {
    let server = Server::start(&[]);
    let cookie = server.log_in();
    let mut slow = Vec::new();
    for _ in 0..20 {
        let mut stream = server.connect();
        let request = format!(
            "GET /api/live HTTP/1.1\r\nHost: {}\r\nCookie: {cookie}\r\n\r\n",
            server.address
        );
        stream.write_all(request.as_bytes()).unwrap();
        slow.push(stream);
    }
    // Not more streams than the limit.
    wait_until("further streams are refused", || {
        server.get("/api/live", &format!("Cookie: {cookie}\r\n")).status == 503
    });
    let samples = || {
        server.json("/api/moments", &cookie)["times_us"]
            .as_array()
            .unwrap()
            .len()
    };
    let before = samples();
    wait_until("samples are taken", || samples() >= before + 3);
}

#[test]
fn login_without_its_form_is_answered() {
    let server = Server::start(&[]);
    let mut stream = server.connect();
    let head = format!(
        "POST /login HTTP/1.1\r\nHost: {}\r\nContent-Length: 100\r\n\r\n",
        server.address
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut status = [0; 12];
    stream.read_exact(&mut status).unwrap();
    assert_eq!(&status, b"HTTP/1.1 401");
}

/// Readers of large answers that take nothing: live data and small answers go on.
#[test]
fn unread_large_answers_stop_no_small_ones() {
    let server = Server::start(&[]);
    let cookie = server.log_in();
    let mut unread = Vec::new();
    for _ in 0..8 {
        let mut stream = server.connect();
        let request = format!(
            "GET /api/sockets HTTP/1.1\r\nHost: {}\r\nCookie: {cookie}\r\n\r\n",
            server.address
        );
        stream.write_all(request.as_bytes()).unwrap();
        unread.push(stream);
    }
    let with = format!("Cookie: {cookie}\r\n");
    wait_until("flows are answered", || {
        server.get("/api/flows", &with).status == 200
    });
    let mut live = server.connect();
    let request = format!(
        "GET /api/live HTTP/1.1\r\nHost: {}\r\nCookie: {cookie}\r\n\r\n",
        server.address
    );
    live.write_all(request.as_bytes()).unwrap();
    let mut event = Vec::new();
    wait_until("an event comes", || {
        let mut bytes = [0; 4096];
        let read = live.read(&mut bytes).expect("the stream goes on");
        event.extend_from_slice(&bytes[..read]);
        String::from_utf8_lossy(&event).contains("event: flows")
    });
}

/// A preview of the link in a chat does not use it up.
#[test]
fn head_leaves_the_url_as_it_is() {
    let server = Server::start(&[]);
    let (_, token) = server.url.split_once("?token=").unwrap();
    let head = format!(
        "HEAD /?token={token} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
        server.address
    );
    let answer = server.send(&head);
    assert_eq!(
        (answer.status, answer.header("set-cookie")),
        (200, None),
        "{answer:?}"
    );
    server.log_in();
}

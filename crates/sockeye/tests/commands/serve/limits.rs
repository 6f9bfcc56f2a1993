//! What hostile and slow clients can do: nothing to others.

use super::Server;
use sockeye_lab::wait_until;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

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

/// Clients that send half a head, and come back when their connection is closed, delay no other client.
#[test]
fn half_heads_delay_no_other_client() {
    let server = Server::start(&[]);
    let cookie = server.log_in();
    let host = server.address;
    let ends = AtomicBool::new(false);
    // Also if there is no answer.
    let until = Instant::now() + Duration::from_secs(90);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let connect = || {
                    let mut stream = TcpStream::connect(host).ok()?;
                    stream.write_all(b"GET / HT").ok()?;
                    stream.set_nonblocking(true).ok()?;
                    Some(stream)
                };
                let mut held: Vec<_> = (0..50).map(|_| connect()).collect();
                while !ends.load(Ordering::Relaxed) && Instant::now() < until {
                    for stream in &mut held {
                        let is_open = stream.as_mut().is_some_and(|stream| {
                            matches!(stream.read(&mut [0; 64]), Err(error) if error.kind() == ErrorKind::WouldBlock)
                        });
                        if !is_open {
                            *stream = connect();
                        }
                    }
                    thread::sleep(Duration::from_millis(20));
                }
            });
        }
        thread::sleep(Duration::from_millis(500));
        let begun = Instant::now();
        let answers: Vec<_> = (0..5)
            .map(|_| {
                server
                    .get("/api/moments", &format!("Cookie: {cookie}\r\n"))
                    .status
            })
            .collect();
        let took = begun.elapsed();
        ends.store(true, Ordering::Relaxed);
        assert_eq!(answers, [200; 5]);
        // Each takes milliseconds; when they waited for the end of other heads, each took up to 18 s.
        assert!(took < Duration::from_secs(8), "{took:?}");
    });
}

/// Wrong secrets, each of which waits for its turn of a second, delay no client that is logged in.
#[test]
fn guesses_delay_no_other_client() {
    let folder = std::env::temp_dir().join(format!("sockeye-serve-guesses-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("secret");
    std::fs::write(&file, "correct horse battery staple\n").unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
    let server = Server::start(&["--secret-file", file.to_str().unwrap()]);
    std::fs::remove_dir_all(&folder).unwrap();
    let cookie = server.log_in();
    let guess = format!(
        "POST /login HTTP/1.1\r\nHost: {}\r\nContent-Length: 12\r\n\r\nsecret=wrong",
        server.address
    );
    let mut guesses: Vec<_> = (0..100).map(|_| server.connect()).collect();
    for stream in &mut guesses {
        // One that made room is closed.
        drop(stream.write_all(guess.as_bytes()));
    }
    let begun = Instant::now();
    let answer = server.get("/api/moments", &format!("Cookie: {cookie}\r\n"));
    let took = begun.elapsed();
    assert_eq!(answer.status, 200, "{answer:?}");
    // 64 turns take 64 s.
    assert!(took < Duration::from_secs(20), "{took:?}");
}

/// A head that does not come ends its connection.
#[test]
fn idle_connections_end() {
    let server = Server::start(&[]);
    let mut idle = server.connect();
    idle.write_all(b"GET / HT").unwrap();
    let mut ended = Vec::new();
    idle.read_to_end(&mut ended).unwrap();
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

//! A secret that both ends share: who does not know it, or records what others say, gets nothing.

use super::hostile_client::{HostileClient, mac, preamble, read_frame, unhex};
use crate::fixtures::binary::serving::Serving;
use crate::fixtures::binary::{Outcome, run, words};
use crate::fixtures::processes::UNPRIVILEGED_UID;
use serde_json::Value;
use sockeye_lab::{need, program};
use std::fs::Permissions;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A folder for files with secrets, removed when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("sockeye-{}-{name}", std::process::id()));
        std::fs::create_dir(&path).expect("a folder");
        Self(path)
    }

    fn file(&self, name: &str, content: &str, mode: u32) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, content).expect("a file");
        std::fs::set_permissions(&path, Permissions::from_mode(mode)).expect("a mode");
        path.display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(Path::new(&self.0));
    }
}

fn serving(secret: &str) -> Serving {
    Serving::new(None, &format!("-p 0 -B 127.0.0.1 --secret-file {secret}"))
}

fn stream(port: u16, flags: &str) -> Outcome {
    words(&format!("bench stream 127.0.0.1 -p {port} -n 1M {flags}"))
}

#[test]
fn only_the_same_secret_is_served() {
    let folder = Folder::new("same");
    let secret = folder.file("secret", "one secret\n", 0o600);
    let without_newline = folder.file("plain", "one secret", 0o400);
    let other = folder.file("other", "one secret\n\n", 0o600);
    let serving = serving(&secret);
    let port = serving.port;
    for file in [&secret, &without_newline] {
        for line in [
            "stream -n 1M",
            "stream -u -b 8M -n 1M -R",
            "rr -c 9",
            "rr -u -c 9",
            "crr -c 9",
        ] {
            let (command, flags) = line.split_once(' ').expect("a command");
            let outcome = words(&format!(
                "bench {command} 127.0.0.1 -p {port} --secret-file {file} {flags}"
            ));
            assert_eq!(outcome.code, Some(0), "{line}: {outcome}");
        }
    }
    let outcome = stream(port, &format!("--secret-file {other}"));
    assert!(
        outcome.failed(1).contains("the secrets of the two ends differ"),
        "{outcome}"
    );
    let outcome = stream(port, "");
    assert!(outcome.failed(1).contains("--secret-file"), "{outcome}");
    // A server without one cannot prove that it is the right one.
    let open = Serving::new(None, "-p 0 -B 127.0.0.1");
    let outcome = stream(open.port, &format!("--secret-file {secret}"));
    assert!(
        outcome.failed(1).contains("the other end has no secret"),
        "{outcome}"
    );
}

#[test]
fn guesses_are_refused() {
    let folder = Folder::new("guess");
    let secret = folder.file("secret", "0123456789", 0o600);
    let mut serving = serving(&secret);
    let server = SocketAddr::from(([127, 0, 0, 1], serving.port));
    let request = r#"{"kind": "rr", "parameters": {"transport": "tcp", "request": 1, "response": 1, "connections": 1}}"#;
    let mut nonces = Vec::new();
    for guess in [&b""[..], b"0123456780", b"0123456789\n"] {
        let mut client = HostileClient::greet(TcpStream::connect(server).unwrap(), guess);
        assert_eq!(client.challenge["secret"], true);
        nonces.push(client.challenge["challenge"].clone());
        client.request(request);
        let answer = client.answer();
        assert!(answer["error"].is_string() && answer["ok"].is_null(), "{answer}");
        // Nothing of the secret is in the refusal.
        assert!(answer["proof"].is_null(), "{answer}");
    }
    assert!(nonces[0] != nonces[1] && nonces[1] != nonces[2], "{nonces:?}");
    let mut client = HostileClient::greet(TcpStream::connect(server).unwrap(), b"0123456789");
    client.request(request);
    assert!(client.answer()["ok"]["token"].is_string());
    let log = serving.end();
    assert!(log.contains("the secrets of the two ends differ"), "{log}");
}

/// What stands between the ends: it passes bytes on, and may change those of the client.
fn between(
    server: SocketAddr,
    change: impl Fn(&mut Vec<u8>) + Send + 'static,
) -> (u16, std::sync::mpsc::Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, recorded) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut there = TcpStream::connect(server).unwrap();
        let (mut back, mut from_there) = (client.try_clone().unwrap(), there.try_clone().unwrap());
        std::thread::spawn(move || std::io::copy(&mut from_there, &mut back));
        let mut all = Vec::new();
        let mut buffer = [0; 4096];
        while let Ok(len @ 1..) = client.read(&mut buffer) {
            let mut bytes = buffer[..len].to_vec();
            change(&mut bytes);
            all.extend_from_slice(&bytes);
            let _ = sender.send(bytes.clone());
            if there.write_all(&bytes).is_err() {
                break;
            }
        }
    });
    (port, recorded)
}

#[test]
fn recorded_handshake_is_worth_nothing() {
    let folder = Folder::new("replay");
    let secret = folder.file("secret", "replayed", 0o600);
    let serving = serving(&secret);
    let server = SocketAddr::from(([127, 0, 0, 1], serving.port));
    let (port, recorded) = between(server, |_| {});
    // Its data connections go to the same port, which takes only one: the handshake is enough.
    let mut client = crate::fixtures::binary::command();
    let line = format!("bench rr 127.0.0.1 -p {port} -c 9 --timeout 1 --secret-file {secret}");
    let mut client = client
        .args(line.split_whitespace())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let preamble = recorded.recv_timeout(Duration::from_secs(5)).expect("a preamble");
    let request = recorded.recv_timeout(Duration::from_secs(5)).expect("a request");
    let _ = client.wait();
    assert_eq!(preamble.len(), 40);
    assert!(request.len() > 36);
    let mut replayed = TcpStream::connect(server).unwrap();
    replayed.write_all(&preamble).unwrap();
    assert!(read_frame(&mut replayed).expect("a challenge")["challenge"].is_string());
    replayed.write_all(&request).unwrap();
    let answer = read_frame(&mut replayed).expect("an answer");
    assert!(answer["error"].is_string() && answer["ok"].is_null(), "{answer}");
}

#[test]
fn changed_request_is_refused() {
    let folder = Folder::new("changed");
    let secret = folder.file("secret", "changed", 0o600);
    let serving = serving(&secret);
    let server = SocketAddr::from(([127, 0, 0, 1], serving.port));
    let (port, _recorded) = between(server, |bytes| {
        let wanted = br#""streams":1"#;
        if let Some(at) = bytes.windows(wanted.len()).position(|part| part == wanted) {
            bytes[at + wanted.len() - 1] = b'9';
        }
    });
    let outcome = stream(port, &format!("--secret-file {secret}"));
    assert!(
        outcome.failed(1).contains("the secrets of the two ends differ"),
        "{outcome}"
    );
}

#[test]
fn server_that_does_not_know_the_secret_is_refused() {
    let folder = Folder::new("fake");
    let secret = folder.file("secret", "known", 0o600);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let outcome = std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut client, _) = listener.accept().unwrap();
            let mut first = [0; 40];
            client.read_exact(&mut first).unwrap();
            let frame = |text: &str| {
                [
                    &u32::try_from(text.len()).unwrap().to_be_bytes()[..],
                    text.as_bytes(),
                ]
                .concat()
            };
            let nonce = "22".repeat(16);
            client
                .write_all(&frame(&format!(r#"{{"challenge": "{nonce}", "secret": true}}"#)))
                .unwrap();
            let mut proof = [0; 32];
            client.read_exact(&mut proof).unwrap();
            let _ = read_frame(&mut client);
            // It sends back what it got, and what it would be without a secret.
            let key = mac(b"", &[b"session", &[2], &first[12..28], &unhex(&nonce)]);
            let token = "33".repeat(16);
            let own = mac(&key, &[b"server", &unhex(&token)]);
            let hex: String = own.iter().map(|byte| format!("{byte:02x}")).collect();
            client
                .write_all(&frame(&format!(
                    r#"{{"ok": {{"token": "{token}", "proof": "{hex}"}}}}"#
                )))
                .unwrap();
            let _ = client.read_to_end(&mut Vec::new());
        });
        stream(port, &format!("--secret-file {secret}"))
    });
    assert!(
        outcome.failed(1).contains("the secrets of the two ends differ"),
        "{outcome}"
    );
}

/// Who reads the token on the wire cannot bring data for the test without the secret.
#[test]
fn token_alone_opens_no_data_connection() {
    let folder = Folder::new("token");
    let secret = folder.file("secret", "token", 0o600);
    let serving = serving(&secret);
    let server = SocketAddr::from(([127, 0, 0, 1], serving.port));
    let mut client = HostileClient::greet(TcpStream::connect(server).unwrap(), b"token");
    client.request(
        r#"{"kind": "rr", "parameters": {"transport": "tcp", "request": 1, "response": 1, "connections": 2}}"#,
    );
    let answer = client.answer();
    client.token = unhex(answer["ok"]["token"].as_str().expect("a token"));
    let is_closed = |bytes: &[u8]| {
        let mut stream = TcpStream::connect(server).unwrap();
        stream.write_all(bytes).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        let closed = matches!(stream.read(&mut [0]), Ok(0));
        (closed, stream)
    };
    let tag = client.data(1, 0)[28..].to_vec();
    let wrong = [
        preamble(1, 0, &client.token, &[0; 12]),
        preamble(1, 1, &client.token, &tag),
        preamble(1, 0, &[9; 16], &tag),
    ];
    for bytes in wrong {
        assert!(is_closed(&bytes).0, "{bytes:x?}");
    }
    let first = is_closed(&client.data(1, 0));
    assert!(!first.0);
    // The same again is a copy.
    assert!(is_closed(&client.data(1, 0)).0);
    let second = is_closed(&client.data(1, 1));
    assert!(!second.0);
    assert_eq!(client.answer()["ready"], Value::Bool(true));
    assert!(is_closed(&client.data(1, 2)).0, "one too many");
}

#[test]
fn secrets_that_are_none_are_refused() {
    let folder = Folder::new("files");
    for (name, content, mode, expected) in [
        ("group", "secret", 0o640, "chmod 600"),
        ("world", "secret", 0o604, "chmod 600"),
        ("empty", "", 0o600, "is empty"),
        ("newline", "\n", 0o600, "is empty"),
        ("blank", " \t\n\n", 0o600, "is empty"),
    ] {
        let file = folder.file(name, content, mode);
        for line in [
            "bench serve -p 0 -B 127.0.0.1",
            "bench stream 127.0.0.1",
            "bench rr 127.0.0.1",
            "bench crr 127.0.0.1",
        ] {
            let outcome = words(&format!("{line} --secret-file {file}"));
            assert!(outcome.failed(1).contains(expected), "{line}: {outcome}");
        }
    }
    // Its owner knows it, and can replace it.
    let of_another = folder.file("of-another", "a secret of another user", 0o600);
    std::os::unix::fs::chown(&of_another, Some(UNPRIVILEGED_UID), None).unwrap();
    for line in ["bench serve -p 0", "serve --listen 127.0.0.1:0"] {
        let outcome = words(&format!("{line} --secret-file {of_another}"));
        let expected = format!("belongs to user {UNPRIVILEGED_UID}");
        assert!(outcome.failed(1).contains(&expected), "{line}: {outcome}");
    }
    let long = folder.file("long", &"x".repeat(5000), 0o600);
    let outcome = words(&format!("bench serve -p 0 --secret-file {long}"));
    assert!(outcome.failed(1).contains("more than 4096 bytes"), "{outcome}");
    let outcome = words("bench serve -p 0 --secret-file /nonexistent/secret");
    assert!(outcome.failed(1).contains("/nonexistent/secret"), "{outcome}");
    for line in ["bench serve", "bench stream 127.0.0.1"] {
        let outcome = words(&format!("{line} --iperf3 --secret-file {long}"));
        assert_eq!(outcome.code, Some(2), "{outcome}");
    }
}

#[test]
fn open_server_says_so() {
    let folder = Folder::new("open");
    let secret = folder.file("secret", "x", 0o600);
    for (flags, is_open) in [
        (String::new(), true),
        ("-4".to_owned(), true),
        ("-B 127.0.0.1".to_owned(), false),
        ("-B ::1".to_owned(), false),
        (format!("--secret-file {secret}"), false),
    ] {
        let mut serving = Serving::new(None, &format!("-p 0 {flags}"));
        let log = serving.end();
        assert_eq!(
            log.contains("there is no secret (--secret-file)"),
            is_open,
            "{flags}: {log}"
        );
    }
}

#[test]
fn iperf3_is_refused_where_a_secret_is_wanted() {
    need!(program("iperf3"));
    let folder = Folder::new("iperf3");
    let secret = folder.file("secret", "x", 0o600);
    let serving = serving(&secret);
    let mut command = Command::new("iperf3");
    command.args(["-c", "127.0.0.1", "-t", "1", "-p", &serving.port.to_string()]);
    let outcome = run(&mut command);
    assert_eq!(outcome.code, Some(1), "{outcome}");
    assert!(outcome.error().contains("authorization"), "{outcome}");
}

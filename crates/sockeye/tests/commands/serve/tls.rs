//! The page with a certificate of its own, read by curl.

use super::line;
use crate::fixtures::binary::{command, run};
use sockeye_lab::{Skip, need};
use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A certificate that it has signed itself, for 127.0.0.1, in a folder that is removed.
struct Certificate(PathBuf);

impl Certificate {
    fn make(name: &str) -> Result<Self, Skip> {
        let folder = std::env::temp_dir().join(format!("sockeye-tls-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let made = Self(folder);
        let words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=sockeye-test \
                     -addext subjectAltName=IP:127.0.0.1 -keyout key.pem -out cert.pem";
        let openssl = Command::new("openssl")
            .args(words.split_ascii_whitespace())
            .current_dir(&made.0)
            .output();
        match openssl {
            Ok(output) if output.status.success() => {}
            Ok(output) => panic!("{}", String::from_utf8_lossy(&output.stderr)),
            Err(_) => return Err(Skip::new("openssl is not installed")),
        }
        std::fs::set_permissions(made.key(), PermissionsExt::from_mode(0o600)).expect("a mode");
        std::fs::write(made.secret(), "correct horse battery staple\n").expect("a secret");
        std::fs::set_permissions(made.secret(), PermissionsExt::from_mode(0o600)).expect("a mode");
        Ok(made)
    }

    fn certificate(&self) -> PathBuf {
        self.0.join("cert.pem")
    }

    fn key(&self) -> PathBuf {
        self.0.join("key.pem")
    }

    fn secret(&self) -> PathBuf {
        self.0.join("secret")
    }

    fn words(&self) -> Vec<String> {
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        [
            "--tls-cert",
            &text(self.certificate()),
            "--tls-key",
            &text(self.key()),
        ]
        .map(str::to_owned)
        .into()
    }
}

impl Drop for Certificate {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

struct Server(Child);

impl Server {
    /// Starts it, and returns the URL that it prints.
    fn start(words: &[String]) -> (Self, String) {
        let mut child = command()
            .args(["serve", "--sample-interval", "0.5"])
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        let url = line(&mut BufReader::new(child.stdout.take().expect("a pipe")));
        (Self(child), url)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Runs curl, which trusts a certificate alone. Returns its exit status and what it writes.
fn curl(trusted: &Path, words: &[&str]) -> Result<(Option<i32>, String), Skip> {
    let output = Command::new("curl")
        .args([
            "--silent",
            "--show-error",
            "--include",
            "--max-time",
            "30",
            "--cacert",
        ])
        .arg(trusted)
        .args(words)
        .output();
    let output = output.map_err(|_| Skip::new("curl is not installed"))?;
    let text = [output.stdout, output.stderr].concat();
    Ok((output.status.code(), String::from_utf8_lossy(&text).into_owned()))
}

#[test]
fn page_is_read_with_tls_and_its_cookie_is_for_tls_only() {
    let made = need!(Certificate::make("page"));
    let (_server, url) = Server::start(
        &[
            vec!["--listen".to_owned(), "127.0.0.1:0".to_owned()],
            made.words(),
        ]
        .concat(),
    );
    assert!(url.starts_with("https://127.0.0.1:"), "{url}");
    let trusted = made.certificate();
    let (status, answer) = need!(curl(&trusted, &[&url]));
    assert_eq!(status, Some(0), "{answer}");
    assert!(answer.starts_with("HTTP/1.1 303"), "{answer}");
    let lower = answer.to_ascii_lowercase();
    let cookie = lower.lines().find(|line| line.starts_with("set-cookie:"));
    let cookie = cookie.unwrap_or_else(|| panic!("{answer}"));
    assert!(
        cookie.contains("; secure") && cookie.contains("; httponly"),
        "{cookie}"
    );
    let (origin, _) = url.split_once("/?").expect("a token");
    let (_, refused) = need!(curl(&trusted, &[&format!("{origin}/api/moments")]));
    assert!(refused.starts_with("HTTP/1.1 401"), "{refused}");
    // A client that does not trust it, one that speaks an old version, and one that speaks no TLS.
    let (status, answer) = need!(curl(Path::new("/dev/null"), &[&url]));
    assert_ne!(status, Some(0), "{answer}");
    let (status, answer) = need!(curl(&trusted, &["--tls-max", "1.1", &url]));
    assert_ne!(status, Some(0), "{answer}");
    let (status, answer) = need!(curl(&trusted, &[&origin.replace("https", "http")]));
    assert!(status != Some(0) || !answer.starts_with("HTTP/1.1 2"), "{answer}");
}

/// Peers that begin no handshake keep no one else waiting, and lose their connections.
#[test]
fn slow_handshakes_delay_no_other_client_and_end() {
    let made = need!(Certificate::make("slow"));
    let (_server, url) = Server::start(
        &[
            vec!["--listen".to_owned(), "127.0.0.1:0".to_owned()],
            made.words(),
        ]
        .concat(),
    );
    let address = url.split('/').nth(2).expect("an address").to_owned();
    let mut silent: Vec<_> = (0..20)
        .map(|_| TcpStream::connect(&address).expect("a connection"))
        .collect();
    // The first byte of a record, and no more.
    silent[0].write_all(&[22]).expect("it reads");
    let (status, answer) = need!(curl(&made.certificate(), &[&url]));
    assert_eq!(status, Some(0), "{answer}");
    let begun = Instant::now();
    for stream in &mut silent {
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .expect("a timeout");
        let mut rest = Vec::new();
        // Closed or reset, and not only waited for.
        if let Err(error) = stream.read_to_end(&mut rest) {
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
        }
    }
    assert!(begun.elapsed() < Duration::from_secs(60));
}

#[test]
fn others_can_reach_it_only_with_certificate_and_secret() {
    let made = need!(Certificate::make("others"));
    let refused = |words: &[String], reason: &str| {
        let outcome = run(command().arg("serve").args(words));
        let text = String::from_utf8_lossy(&outcome.stderr).into_owned();
        assert!(outcome.code != Some(0) && text.contains(reason), "{text}");
    };
    let listen = |address: &str| vec!["--listen".to_owned(), address.to_owned()];
    let secret = vec![
        "--secret-file".to_owned(),
        made.secret().to_string_lossy().into_owned(),
    ];
    refused(&[listen("0.0.0.0:0"), made.words()].concat(), "--secret-file");
    refused(
        &[listen("0.0.0.0:0"), made.words(), secret.clone()].concat(),
        "--public-url",
    );
    refused(&[listen("0.0.0.0:0"), secret.clone()].concat(), "--tls-cert");
    refused(&made.words()[..2], "--tls-key");
    // A key that anyone can read, and one of another certificate.
    std::fs::set_permissions(made.key(), PermissionsExt::from_mode(0o644)).expect("a mode");
    refused(&made.words(), "other users");
    std::fs::set_permissions(made.key(), PermissionsExt::from_mode(0o600)).expect("a mode");
    let other = need!(Certificate::make("another"));
    // The mode of the file stays.
    let copy = |from: &Path| std::fs::write(made.key(), std::fs::read(from).expect("PEM")).expect("a copy");
    copy(&other.key());
    refused(&made.words(), "cannot be used");
    copy(&made.certificate());
    refused(&made.words(), "no private key");
}

#[test]
fn script_reads_through_tls_with_the_secret() {
    let made = need!(Certificate::make("secret"));
    let mut words = made.words();
    let secret = made.secret().to_string_lossy().into_owned();
    // Another address than that of loopback, as others reach it: its name is the one of the certificate.
    words.extend(
        [
            "--listen",
            "0.0.0.0:0",
            "--secret-file",
            &secret,
            "--public-url",
            "https://127.0.0.1",
        ]
        .map(str::to_owned),
    );
    let (server, url) = Server::start(&words);
    assert!(url.starts_with("https://127.0.0.1/"), "{url}");
    let port = need!(port_of(&server));
    let ask = |header: &str| {
        let connect = format!("127.0.0.1:443:127.0.0.1:{port}");
        curl(
            &made.certificate(),
            &[
                "--connect-to",
                &connect,
                "-H",
                header,
                "https://127.0.0.1/api/moments",
            ],
        )
    };
    let (_, answer) = need!(ask("Authorization: Bearer correct horse battery staple"));
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.contains("\"moments\""),
        "{answer}"
    );
    let (_, answer) = need!(ask("Authorization: Bearer correct horse battery stable"));
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
}

/// Returns the port that a server listens on.
fn port_of(server: &Server) -> Result<String, Skip> {
    let filter = format!("owner = sockeye and pid = {}", server.0.id());
    let listed = run(command().args(["sockets", "-tlnpH", "--format", "jsonl", &filter]));
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    let rows = crate::fixtures::envelope::rows(&text);
    let port = rows.first().and_then(|row| row["local"]["port"].as_u64());
    port.map(|port| port.to_string())
        .ok_or_else(|| Skip::new("the port of the server is not found"))
}

//! TLS to a collector.

use super::collector::{Collector, Exporter, exporter};
use crate::fixtures::binary::run;
use crate::fixtures::tls::{Authority, TlsProxy};
use sockeye_lab::{Lab, need};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Returns the options of an exporter that trusts an authority.
fn words<'a>(authority: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["--check-interval", "0", "--tls-ca", authority], more].concat()
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

#[test]
fn request_comes_through_tls_only_to_a_server_that_is_trusted() {
    let lab = need!(Lab::new("export-tls"));
    let host = lab.namespace("host");
    let (ours, other) = (
        need!(Authority::make("export-ours")),
        need!(Authority::make("export-other")),
    );
    let collector = Collector::start(&host);
    let port = collector.address().port();
    let server = ours.sign("server", "127.0.0.1");
    let proxy = need!(host.run(|| TlsProxy::start(&server, port, None)));
    let url = format!("{}/otlp", proxy.url());
    let (trusted, untrusted) = (text(&ours.certificate()), text(&other.certificate()));
    {
        let _exporter = Exporter::start(&host, &url, &words(&trusted, &[]));
        let request = collector.take(|_| ("200 OK", Vec::new()));
        assert!(
            request.head.starts_with("POST /otlp/v1/metrics"),
            "{}",
            request.head
        );
    }
    let elsewhere = ours.sign("elsewhere", "127.0.0.2");
    let elsewhere = need!(host.run(|| TlsProxy::start(&elsewhere, port, None)));
    for (url, authority, reason) in [
        (
            &url,
            &untrusted,
            "signed by no authority that is trusted: --tls-ca",
        ),
        (&format!("{}/otlp", elsewhere.url()), &trusted, "for another name"),
        (
            &format!("https://127.0.0.1:{port}"),
            &trusted,
            "the server speaks no TLS",
        ),
    ] {
        let mut exporter = Exporter::start(&host, url, &words(authority, &[]));
        if url.ends_with(&format!(":{port}")) {
            // What it sees is the begin of a handshake, which it does not understand.
            let (mut stream, _) = collector.0.accept().expect("a connection");
            std::io::Write::write_all(&mut stream, b"HTTP/1.1 400 Bad Request\r\n\r\n").expect("it reads");
        }
        exporter.check_notes(&[reason]);
    }
}

#[test]
fn server_that_asks_for_a_certificate_gets_it() {
    let lab = need!(Lab::new("export-tls-client"));
    let host = lab.namespace("host");
    let (ours, clients) = (
        need!(Authority::make("export-server")),
        need!(Authority::make("export-clients")),
    );
    let collector = Collector::start(&host);
    let server = ours.sign("server", "127.0.0.1");
    let (port, authority) = (collector.address().port(), clients.certificate());
    let proxy = need!(host.run(|| TlsProxy::start(&server, port, Some(&authority))));
    let url = format!("{}/otlp", proxy.url());
    let trusted = text(&ours.certificate());
    let mut without = Exporter::start(&host, &url, &words(&trusted, &[]));
    without.check_notes(&["asks for a certificate"]);
    let stranger = ours.sign("stranger", "127.0.0.1");
    let (certificate, key) = (text(&stranger.certificate), text(&stranger.key));
    let identity = ["--tls-cert", &certificate, "--tls-key", &key];
    let mut wrong = Exporter::start(&host, &url, &words(&trusted, &identity));
    wrong.check_notes(&["does not accept the certificate of this client"]);
    let known = clients.sign("known", "127.0.0.1");
    let (certificate, key) = (text(&known.certificate), text(&known.key));
    let identity = ["--tls-cert", &certificate, "--tls-key", &key];
    let _exporter = Exporter::start(&host, &url, &words(&trusted, &identity));
    collector.take(|_| ("200 OK", Vec::new()));
}

#[test]
fn files_that_cannot_be_used_are_named_at_the_start() {
    let ours = need!(Authority::make("export-files"));
    let signed = ours.sign("client", "127.0.0.1");
    let other = ours.sign("other", "127.0.0.1");
    let refused = |url: &str, options: &[(&str, &Path)], reason: &str| {
        let mut exporter = exporter(url);
        for (option, path) in options {
            exporter.arg(option).arg(path);
        }
        let outcome = run(&mut exporter);
        assert!(outcome.failed(1).contains(reason), "{outcome}");
    };
    let (url, ca) = ("https://127.0.0.1:1", ours.certificate());
    let (certificate, key) = (signed.certificate.as_path(), signed.key.as_path());
    refused(url, &[("--tls-ca", Path::new("/nowhere"))], "--tls-ca /nowhere");
    refused(url, &[("--tls-ca", key)], "no certificate in PEM form");
    refused("http://127.0.0.1:1", &[("--tls-ca", &ca)], "has no TLS");
    let pair = |key| {
        [
            ("--tls-ca", ca.as_path()),
            ("--tls-cert", certificate),
            ("--tls-key", key),
        ]
    };
    refused(url, &pair(&other.key), "cannot be used");
    std::fs::set_permissions(key, PermissionsExt::from_mode(0o644)).expect("a mode");
    refused(url, &pair(key), "other users");
}

//! The same through TLS.

use super::Fleet;
use crate::commands::serve::Server;
use crate::fixtures::binary::{command, run};
use crate::fixtures::tls::{Authority, TlsProxy};
use sockeye_lab::need;

#[test]
fn rows_and_questions_go_through_tls_to_a_server_that_is_trusted() {
    let fleet = need!(Fleet::new("tls"));
    let (ours, other) = (
        need!(Authority::make("fleet-ours")),
        need!(Authority::make("fleet-other")),
    );
    let server = ours.sign("server", "127.0.0.1");
    let proxy = need!(TlsProxy::start(&server, fleet.engine.port, None));
    let export = |authority: &Authority| {
        let mut exporter = fleet.web.export(&proxy.url());
        exporter.args(["--once", "--tls-ca"]).arg(authority.certificate());
        run(&mut exporter)
    };
    let outcome = export(&other);
    let error = outcome.failed(1);
    assert!(
        error.contains("signed by no authority that is trusted"),
        "{outcome}"
    );
    assert_eq!(fleet.engine.query("SELECT count() FROM hosts"), "0");
    let outcome = export(&ours);
    assert_eq!(outcome.code, Some(0), "{outcome}");
    assert_eq!(fleet.engine.query("SELECT count() FROM hosts"), "12");
    let mut asked = command();
    asked
        .args([
            "fleet",
            "hosts",
            "--format",
            "csv",
            "-H",
            "--url",
            &proxy.url(),
            "--tls-ca",
        ])
        .arg(ours.certificate());
    let outcome = run(&mut asked);
    assert_eq!(outcome.code, Some(0), "{outcome}");
    assert!(
        String::from_utf8_lossy(&outcome.stdout).contains(",web1,"),
        "{outcome}"
    );
}

#[test]
fn page_of_serve_asks_with_its_certificate_and_names_its_own_options() {
    let fleet = need!(Fleet::new("tls-page"));
    fleet.send(&fleet.web);
    let authority = need!(Authority::make("fleet-page"));
    let server = authority.sign("server", "127.0.0.1");
    let proxy = need!(TlsProxy::start(
        &server,
        fleet.engine.port,
        Some(&authority.certificate())
    ));
    let client = authority.sign("client", "127.0.0.1");
    let (url, text) = (proxy.url(), |path: &std::path::Path| path.display().to_string());
    let (ca, certificate, key) = (
        text(&authority.certificate()),
        text(&client.certificate),
        text(&client.key),
    );
    let map = |words: &[&str]| {
        let server = Server::start(&[&["--check-interval", "0", "--fleet", &url], words].concat());
        let cookie = server.log_in();
        let since = (fleet.begin_ms - 1_000) * 1_000;
        server.get(
            &format!("/api/fleet/map?from={since}"),
            &format!("Cookie: {cookie}\r\n"),
        )
    };
    let refused = map(&["--fleet-tls-ca", &ca]);
    assert_eq!(refused.status, 502, "{refused:?}");
    assert!(refused.body.contains("--fleet-tls-cert"), "{refused:?}");
    let answered = map(&[
        "--fleet-tls-ca",
        &ca,
        "--fleet-tls-cert",
        &certificate,
        "--fleet-tls-key",
        &key,
    ]);
    assert_eq!(answered.status, 200, "{answered:?}");
    assert!(answered.body.contains("webshop"), "{answered:?}");
}

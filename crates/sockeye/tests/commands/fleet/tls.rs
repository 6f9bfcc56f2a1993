//! The same through TLS.

use super::Fleet;
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

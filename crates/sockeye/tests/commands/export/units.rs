//! The units of systemd that the packages have.

use crate::fixtures::binary::{SOCKEYE, run};
use sockeye_lab::{need, program};
use std::process::Command;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/systemd");

/// Returns the names and the texts of the services.
fn services() -> Vec<(String, String)> {
    let files = std::fs::read_dir(FOLDER).expect("the units");
    let paths = files.map(|file| file.expect("a file").path());
    let services = paths.filter(|path| path.extension().is_some_and(|ending| ending == "service"));
    let named = services.map(|path| {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        (name, std::fs::read_to_string(&path).expect("a text"))
    });
    named.collect()
}

/// A usage error, and something that another process has, stay: a second exporter would be started every ten seconds for ever.
#[test]
fn service_is_not_started_again_after_status_2() {
    let services = services();
    assert!(services.len() >= 8, "{}", services.len());
    for (name, text) in services {
        let has = |line: &str| text.lines().any(|one| one == line);
        let is_restarted = text.lines().any(|line| line.starts_with("Restart="));
        assert_eq!(
            is_restarted,
            has("RestartPreventExitStatus=2"),
            "{name}: Restart= and RestartPreventExitStatus=2"
        );
        if name.contains("export") {
            assert!(is_restarted, "{name}");
        }
    }
}

#[test]
fn systemd_accepts_the_services() {
    let analyze = need!(program("systemd-analyze"));
    let folder = std::env::temp_dir().join(format!("sockeye-units-{}", std::process::id()));
    std::fs::create_dir(&folder).expect("a folder");
    let mut complaints = Vec::new();
    for (name, text) in services() {
        let path = folder.join(&name);
        std::fs::write(&path, text.replace("/usr/bin/sockeye", SOCKEYE)).expect("a unit");
        let outcome = run(Command::new(&analyze).args(["verify", "--man=no"]).arg(&path));
        // Other units of this machine have complaints of their own.
        let text = String::from_utf8_lossy(&outcome.stderr).into_owned();
        let of_unit = text.lines().filter(|line| line.contains(&name));
        complaints.extend(of_unit.map(str::to_owned));
    }
    std::fs::remove_dir_all(&folder).expect("it is there");
    assert_eq!(complaints, [""; 0]);
}

//! `scripts/dictionary` reads the messages of a kernel's source.

use std::path::Path;
use std::process::{Command, id};
use std::{env, fs};

/// Calls as drivers have them, with what the script says of each: the text, or nothing if it is no message at warning and above.
const CALLS: &[(&str, Option<&str>)] = &[
    (
        "dev_err(dev, \"qx1 widget jammed\\n\");",
        Some("qx1 widget jammed"),
    ),
    (
        "IWL_ERR(trans, \"qx2 widget jammed %d\\n\", a);",
        Some("qx2 widget jammed %d"),
    ),
    (
        "IWL_WARN(mvm, \"qx3 widget jammed\\n\");",
        Some("qx3 widget jammed"),
    ),
    (
        "bphy_err(drvr, \"qx4 widget \"\n\t\t\"jammed\\n\");",
        Some("qx4 widget jammed"),
    ),
    (
        "rt2x00_err(rt2x00dev, \"qx5 widget jammed\\n\");",
        Some("qx5 widget jammed"),
    ),
    (
        "wiphy_err(wiphy, \"qx6 widget jammed\\n\");",
        Some("qx6 widget jammed"),
    ),
    (
        "ath10k_warn(ar, \"qx7 widget jammed\\n\");",
        Some("qx7 widget jammed"),
    ),
    (
        "b43err(dev->wl, \"qx8 widget jammed\\n\");",
        Some("qx8 widget jammed"),
    ),
    ("BNX2X_ERR(\"qx9 widget jammed\\n\");", Some("qx9 widget jammed")),
    ("wl1271_error(\"qxa widget jammed\");", Some("qxa widget jammed")),
    (
        "ath_crit(common, \"qxb widget jammed\\n\");",
        Some("qxb widget jammed"),
    ),
    (
        "mlx5_core_err_rl(mdev, \"qxc widget jammed\\n\");",
        Some("qxc widget jammed"),
    ),
    ("IWL_INFO(trans, \"qxd widget jammed\\n\");", None),
    ("ath10k_info(ar, \"qxe widget jammed\\n\");", None),
    ("NL_SET_ERR_MSG(extack, \"qxf widget jammed\");", None),
    ("if (IS_ERR(find(dev, \"qxg widget jammed\"))) {}", None),
    // These are in the dictionary, with the words that the macros add.
    ("wcn36xx_err(\"Failed to start chip\\n\");", None),
    ("rt2x00_warn(rt2x00dev, \"Watchdog RX hung detected\\n\");", None),
    ("#define foo_err(x) printf(\"qxh widget jammed\")", None),
];

#[test]
fn messages_of_macros_of_drivers_are_listed() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scripts/dictionary");
    let kernel = env::temp_dir().join(format!("sockeye-dictionary-{}", id()));
    let folder = kernel.join("net");
    fs::create_dir_all(&folder).expect("a folder");
    let source: String = CALLS.iter().map(|(call, _)| format!("{call}\n")).collect();
    fs::write(folder.join("widget.c"), source).expect("a file");
    let output = Command::new("python3")
        .arg(script)
        .arg("--no-families")
        .arg("--kernel")
        .arg(&kernel)
        .output();
    fs::remove_dir_all(&kernel).expect("the folder is removed");
    let Ok(output) = output else {
        eprintln!("skipped: there is no python3");
        return;
    };
    let listed = String::from_utf8_lossy(&output.stdout);
    let expected = CALLS.iter().filter_map(|&(_, text)| text);
    for text in expected.clone() {
        assert!(
            listed.lines().any(|line| line.ends_with(&format!(": {text}"))),
            "{text} is missing in\n{listed}"
        );
    }
    let count = listed
        .lines()
        .filter(|line| line.contains("net/widget.c:"))
        .count();
    assert_eq!(count, expected.count(), "{listed}");
}

//! `config` and what it shows: settings by files and variables, and what counts more.

use crate::fixtures::binary::{Outcome, command, run};
use crate::fixtures::schema_file;
use jsonschema::{Draft, JSONSchema};
use rustix::fs::{Mode, mknodat};
use serde_json::Value;
use sockeye_lab::{Lab, need, program};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const SCHEMA: &str = include_str!("../../../../docs/schema/config.schema.json");
const CHECK_SCHEMA: &str = include_str!("../../../../docs/schema/check.schema.json");

/// A file with settings in a folder of its own, which is removed in the end.
struct Settings {
    folder: PathBuf,
}

impl Settings {
    fn new(test: &str, text: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("sockeye-config-{}-{test}", std::process::id()));
        fs::create_dir_all(folder.join("sockeye")).expect("create a folder");
        let settings = Self { folder };
        settings.write(text);
        settings
    }

    fn write(&self, text: &str) {
        fs::write(self.path(), text).expect("write");
        fs::set_permissions(self.path(), fs::Permissions::from_mode(0o644)).expect("chmod");
    }

    fn path(&self) -> PathBuf {
        self.folder.join("sockeye/config.toml")
    }

    /// The binary with this file.
    fn command(&self, words: &[&str]) -> Command {
        let mut command = command();
        command.args(words).env("SOCKEYE_CONFIG", self.path());
        command
    }

    fn run(&self, words: &[&str]) -> Outcome {
        run(&mut self.command(words))
    }

    /// Runs it with a variable.
    fn run_with(&self, name: &str, value: &str, words: &[&str]) -> Outcome {
        run(self.command(words).env(name, value))
    }
}

impl Drop for Settings {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[track_caller]
fn assert_follows(schema: &str, document: &Value) {
    let schema = JSONSchema::options()
        .with_draft(Draft::Draft202012)
        .compile(&schema_file::load(schema))
        .expect("a schema");
    let errors: Vec<String> = match schema.validate(document) {
        Ok(()) => Vec::new(),
        Err(errors) => errors
            .map(|error| format!("{error} at {}", error.instance_path))
            .collect(),
    };
    assert!(errors.is_empty(), "{errors:#?}");
}

/// Returns a setting in a document of `config`.
fn setting<'a>(document: &'a Value, key: &str) -> &'a Value {
    let mut all = document["config"].as_array().expect("a list").iter();
    all.find(|setting| setting["key"] == key)
        .unwrap_or_else(|| panic!("no {key}"))
}

#[test]
fn every_setting_comes_from_variable_then_file_then_default() {
    let file = "color = \"always\"\nnames_timeout = 0.25\n[flows]\ncolumns = \"connections\"\nsort = \"connections\"\ngroup_by = \"port\"\n\
                top = 7\n[sockets]\ncolumns = [\"state\", \"local\"]\nsort = \"-local\"\n[ns.list]\ncolumns = \"name\"\nsort = \"-name\"\n\
                [top]\nview = \"processes\"\ngroup_by = \"unit\"\nwatch = 1\n[path]\ncolumns = \"hop\"\nduration = 5\n\
                [check]\nseverity = \"info\"\nskip = \"counters\"\n[check.thresholds]\nclose-wait.age = \"5s\"\n";
    let settings = Settings::new("layers", file);
    let cases = [
        ("color", "always", "never", Some("auto")),
        ("names_timeout", "0.25", "0.75", Some("0.5")),
        ("flows.columns", "connections", "local", None),
        ("flows.sort", "connections", "-local", Some("-connections")),
        ("flows.group_by", "port", "uid", Some("host")),
        ("flows.top", "7", "9", Some("0")),
        ("sockets.columns", "state,local", "peer", None),
        ("sockets.sort", "-local", "peer", None),
        ("ns.list.columns", "name", "nsid", None),
        ("ns.list.sort", "-name", "nsid", None),
        ("top.view", "processes", "drops", Some("flows")),
        ("top.group_by", "unit", "exe", Some("container")),
        ("top.watch", "1", "3", Some("2")),
        ("path.columns", "hop", "device", None),
        ("path.duration", "5", "7", Some("10")),
        ("check.severity", "info", "warning", Some("notice")),
        ("check.skip", "counters", "close-wait", None),
        ("check.thresholds.close-wait.age", "5s", "7s", Some("1m")),
    ];
    let document = settings.run(&["config", "--json"]).json();
    assert_follows(SCHEMA, &document);
    // Every setting but thresholds is in the table above.
    let known = document["config"].as_array().unwrap().iter();
    let others = known.filter(|setting| !setting["key"].as_str().unwrap().starts_with("check.thresholds."));
    assert_eq!(others.count(), cases.len() - 1);
    for (key, in_file, in_variable, default) in cases {
        let found = setting(&document, key);
        assert_eq!(found["value"], in_file, "{found}");
        assert_eq!(found["from"], "file", "{found}");
        assert_eq!(found["default"].as_str(), default, "{found}");
        let line = found["from_line"].as_u64().unwrap() as usize;
        let name = key.rsplit_once('.').map_or(key, |(_, name)| name);
        assert!(file.lines().nth(line - 1).unwrap().contains(name), "{found}");
        let variable = found["variable"].as_str().unwrap().to_owned();
        assert_eq!(
            variable,
            format!("SOCKEYE_{}", key.to_uppercase().replace(['.', '-'], "_"))
        );
        let document = settings
            .run_with(&variable, in_variable, &["config", "--json"])
            .json();
        assert_follows(SCHEMA, &document);
        let found = setting(&document, key);
        assert_eq!(found["value"], in_variable, "{found}");
        assert_eq!(found["from_variable"], variable.as_str(), "{found}");
        // An empty variable is none.
        let document = settings.run_with(&variable, "", &["config", "--json"]).json();
        assert_eq!(setting(&document, key)["value"], in_file);
    }
    settings.write("");
    let document = settings.run(&["config", "--json"]).json();
    let all = document["config"].as_array().unwrap();
    assert!(all.len() > 80 && all.iter().all(|setting| setting["from"] == "default"));
    let lines: Vec<_> = all
        .iter()
        .map(|setting| setting["variable"].as_str().unwrap())
        .collect();
    let mut unique = lines.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), lines.len(), "two settings have one variable");
}

#[test]
fn flag_counts_more_than_variable_and_variable_more_than_file() {
    let lab = need!(Lab::new("precedence"));
    let here = lab.namespace("here");
    let _pair = here.loopback().established();
    let settings = Settings::new(
        "precedence",
        "color = \"always\"\n[flows]\ncolumns = \"peer,connections\"\ngroup_by = \"port\"\ntop = 1\n[sockets]\ncolumns = \"state\"\nsort = \"-local\"\n",
    );
    let outcome = |variables: &[(&str, &str)], words: &[&str]| {
        let mut command = settings.command(words);
        command.envs(variables.iter().copied());
        here.run(|| run(&mut command)).ok().to_owned()
    };
    let heading = |text: &str| text.lines().next().unwrap_or_default().trim().to_owned();
    let plain = ("SOCKEYE_COLOR", "never");
    let sockets = ["sockets", "-tn"];
    assert_eq!(heading(&outcome(&[plain], &sockets)), "State");
    let variable = ("SOCKEYE_SOCKETS_COLUMNS", "recv_queue_bytes");
    assert_eq!(heading(&outcome(&[plain, variable], &sockets)), "Recv-Q");
    let flag = ["sockets", "-tn", "--columns", "send_queue_bytes"];
    assert_eq!(heading(&outcome(&[plain, variable], &flag)), "Send-Q");
    // What was typed asks for other columns.
    assert!(heading(&outcome(&[plain], &["sockets", "-tne"])).contains("Cookie"));
    assert!(heading(&outcome(&[plain], &["sockets", "-tnp"])).contains("Process"));
    // Colours of the file in a pipe; then the variable that all programs share; then the flag.
    assert!(outcome(&[], &sockets).contains('\x1b'));
    assert!(!outcome(&[("NO_COLOR", "1")], &sockets).contains('\x1b'));
    assert!(outcome(&[("NO_COLOR", "1"), ("SOCKEYE_COLOR", "always")], &sockets).contains('\x1b'));
    assert!(
        !outcome(
            &[("SOCKEYE_COLOR", "always")],
            &["sockets", "-tn", "--color", "never"]
        )
        .contains('\x1b')
    );
    // With and without a command.
    for words in [&["flows", "-n"][..], &["-n"]] {
        let text = outcome(&[plain], words);
        assert!(
            heading(&text).starts_with("Peer") && text.lines().count() == 2,
            "{text}"
        );
        let all = outcome(&[plain, ("SOCKEYE_FLOWS_TOP", "0")], words);
        assert!(all.lines().count() >= text.lines().count(), "{all}");
    }
    // Formats for scripts are the same on every host, but for time and rows in their order.
    for format in ["json", "csv", "jsonl"] {
        let keys = |text: &str| text.lines().next().unwrap_or_default().len();
        let words = ["sockets", "-tn", "--format", format];
        let with = outcome(&[], &words);
        let without = here.run(|| run(command().args(words))).ok().to_owned();
        assert_eq!(keys(&with), keys(&without), "{format}");
        assert_eq!(with.len(), without.len(), "{format}");
    }
}

#[test]
fn thresholds_and_rules_of_check_come_from_the_file() {
    let lab = need!(Lab::new("thresholds"));
    let here = lab.namespace("here");
    here.ip("link add left type veth peer name right");
    let _pair = here.loopback().established();
    let settings = Settings::new(
        "thresholds",
        "[check]\nskip = \"counters\"\n[check.thresholds]\nno-keepalive.idle = \"1ms\"\nno-keepalive.idel = \"1\"\n",
    );
    let outcome = settings.run(&["check"]);
    assert!(
        outcome.failed(2).contains("unknown key 'check.thresholds.no-keepalive.idel'; did you mean 'check.thresholds.no-keepalive.idle'?"),
        "{outcome}"
    );
    settings.write("[check]\nskip = \"counters\"\n[check.thresholds]\nno-keepalive.idle = \"1ms\"\n");
    let check = |words: &[&str]| {
        let mut command = settings.command(words);
        here.run(|| run(&mut command))
    };
    let outcome = check(&["check", "--only", "no-keepalive"]);
    assert!(
        outcome
            .ok()
            .contains("judged with no-keepalive.idle=1ms instead of 1h"),
        "{outcome}"
    );
    // The rule was named: check.skip does not matter.
    assert_eq!(outcome.notes(), "", "{outcome}");
    let document = check(&["check", "--only", "no-keepalive", "--json"]).json();
    let thresholds = &document["findings"][0]["thresholds"];
    assert_eq!(thresholds[0]["name"], "no-keepalive.idle");
    assert_eq!(
        (&thresholds[0]["value"], &thresholds[0]["default"]),
        (&"1ms".into(), &"1h".into())
    );
    assert_follows(CHECK_SCHEMA, &document);
    // The flag counts more.
    let outcome = check(&["check", "--only", "no-keepalive", "--set", "no-keepalive.idle=1h"]);
    assert!(!outcome.ok().contains("judged with"), "{outcome}");
    let outcome = check(&["check", "--list"]);
    assert!(outcome.ok().contains("no-keepalive.idle=1ms"), "{outcome}");
    assert!(!outcome.ok().contains("\ncounters  ("), "{outcome}");
    let file = settings.path();
    assert_eq!(
        outcome.error(),
        format!("sockeye: check.skip leaves out counters ({}:2)\n", file.display())
    );
    // A mistyped name has its nearest.
    let outcome = check(&["check", "--set", "no-keepalive.idel=1h"]);
    assert!(
        outcome.failed(2).contains("did you mean \"no-keepalive.idle\"?"),
        "{outcome}"
    );
    let outcome = check(&["check", "--only", "no-keepaliv"]);
    assert!(
        outcome.failed(2).contains("did you mean \"no-keepalive\"?"),
        "{outcome}"
    );
}

#[test]
fn wrong_file_is_named_with_line_and_nearest_key() {
    let settings = Settings::new("wrong", "");
    let file = settings.path().display().to_string();
    for (text, line, expected) in [
        (
            "color = \"never\"\ncolour = \"never\"\n",
            2,
            "unknown key 'colour'; did you mean 'color'?",
        ),
        (
            "[sockets]\ncolums = \"state\"",
            2,
            "unknown key 'sockets.colums'; did you mean 'sockets.columns'?",
        ),
        ("xyzzy.plugh = 1", 1, "unknown key 'xyzzy.plugh'\n"),
        (
            "sockets.columns = 'stat'",
            1,
            "sockets.columns: unknown column 'stat'; did you mean 'state'?",
        ),
        (
            "sockets.sort = 'state,local'",
            1,
            "sockets.sort: expected one column",
        ),
        ("flows.sort = '-'", 1, "flows.sort: unknown column"),
        ("ns.list.columns = ''", 1, "ns.list.columns: unknown column"),
        ("color = 'maybe'", 1, "[possible values: auto, always, never]"),
        ("color = true", 1, "color has to be a string in quotes"),
        ("flows.top = -1", 1, "flows.top: invalid value '-1'"),
        ("\n\n[flows", 3, "not TOML"),
        ("check.skip = 'close-wai'", 1, "did you mean \"close-wait\"?"),
        (
            "check.thresholds.close-wait.age = 5",
            1,
            "expected a time with a unit",
        ),
        ("alias.x = \"'\"", 1, "alias.x: a ' has no second one"),
        ("alias.x = ''", 1, "alias.x: an alias needs a command"),
        ("alias.'-x' = 'flows'", 1, "the name of an alias"),
        ("color = 'never'\ncolor = 'auto'", 2, "not TOML"),
    ] {
        settings.write(text);
        for words in [&["flows", "-n"][..], &["-n"], &["config"], &["check", "--list"]] {
            let outcome = settings.run(words);
            assert_eq!(outcome.code, Some(2), "{text}: {outcome}");
            let outcome = outcome.error();
            assert!(
                outcome.starts_with(&format!("sockeye: {file}:{line}: ")),
                "{text}: {outcome}"
            );
            assert!(outcome.contains(expected), "{text}: {outcome}");
            assert!(
                outcome.contains("`sockeye --no-config ...` or SOCKEYE_CONFIG= runs without"),
                "{outcome}"
            );
        }
    }
    // The commands can be run without it.
    settings.run(&["--no-config", "doctor"]).ok();
    settings.run(&["--no-config", "-n"]).ok();
    settings.run(&["-n", "--no-config"]).ok();
    settings.run_with("SOCKEYE_CONFIG", "", &["-n"]).ok();
    let table = settings.run(&["--no-config", "config"]);
    assert!(table.ok().contains("Files are left out."), "{table}");
    let outcome = settings.run(&["flows", "--no-config"]);
    assert!(outcome.failed(2).contains("sockeye --no-config ..."), "{outcome}");
    // Nor what does not depend on it.
    for words in [
        &["--help"][..],
        &["help", "flows"],
        &["flows", "--help"],
        &["--version"],
        &["completions", "bash"],
        &["complete", "--", "soc"],
        &["ss", "-tan"],
        &["netstat", "-tan"],
    ] {
        settings.run(words).ok();
    }
    let mut missing = command();
    missing
        .args(["-n"])
        .env("SOCKEYE_CONFIG", "/nowhere/sockeye.toml");
    let outcome = run(&mut missing);
    assert!(
        outcome.failed(2).contains("/nowhere/sockeye.toml: No such file"),
        "{outcome}"
    );
    // A wrong variable is named, and the files are no way around it.
    settings.write("");
    let outcome = settings.run_with("SOCKEYE_COLOR", "maybe", &["-n"]);
    assert!(
        outcome
            .failed(2)
            .starts_with("sockeye: SOCKEYE_COLOR: color: invalid value 'maybe'"),
        "{outcome}"
    );
    assert!(!outcome.error().contains("--no-config"), "{outcome}");
    let outcome = settings.run_with("SOCKEYE_FLOWS_COLUMN", "x", &["doctor", "--json"]);
    assert_eq!(
        outcome.error(),
        "sockeye: SOCKEYE_FLOWS_COLUMN is no setting, and is ignored; did you mean SOCKEYE_FLOWS_COLUMNS?\n"
    );
    outcome.ok();
}

#[test]
fn file_that_another_user_can_write_is_refused() {
    let settings = Settings::new("trust", "[flows]\ntop = 1\n");
    let refused = |expected: &str| {
        let outcome = settings.run(&["-n"]);
        assert!(outcome.failed(2).contains(expected), "{expected}: {outcome}");
    };
    settings.run(&["-n"]).ok();
    for mode in [0o646, 0o664, 0o666] {
        fs::set_permissions(settings.path(), fs::Permissions::from_mode(mode)).expect("chmod");
        refused("other users can write it; `chmod go-w ");
    }
    settings.write(&"#".repeat(70_000));
    refused("it is larger than 65536 bytes");
    fs::write(settings.path(), b"color = \"\xff\"").expect("write");
    refused("byte 10 is not UTF-8");
    fs::remove_file(settings.path()).expect("remove");
    mknodat(
        rustix::fs::CWD,
        settings.path(),
        rustix::fs::FileType::Fifo,
        Mode::from_raw_mode(0o600),
        0,
    )
    .expect("make a pipe");
    refused("it is no regular file");
    fs::remove_file(settings.path()).expect("remove");
    if !rustix::process::geteuid().is_root() {
        return;
    }
    settings.write("[flows]\ntop = 1\n");
    std::os::unix::fs::chown(settings.path(), Some(OTHER_UID), Some(OTHER_UID)).expect("chown");
    refused(&format!(
        "it belongs to user {OTHER_UID}, and sockeye runs as user 0; `chown 0 "
    ));
    // With sudo the caller's folder is not looked into at all, also if sudo left the variables.
    let mut command = command();
    command
        .args(["config", "--json"])
        .env_remove("SOCKEYE_CONFIG")
        .env("XDG_CONFIG_HOME", &settings.folder)
        .env("SUDO_UID", OTHER_UID.to_string());
    let document = run(&mut command).json();
    let first = document["files"][0]["path"].as_str().unwrap();
    assert!(first.ends_with("/.config/sockeye/config.toml"), "{first}");
    assert!(!first.starts_with(settings.folder.to_str().unwrap()), "{first}");
    // Without sudo it is.
    let outcome = run(command.env_remove("SUDO_UID"));
    assert_eq!(outcome.code, Some(2), "{outcome}");
    assert!(outcome.error().contains("it belongs to user"), "{outcome}");
}

/// A user that owns nothing on this host.
const OTHER_UID: u32 = 54_321;

#[test]
fn file_of_the_system_is_below_that_of_the_user() {
    let unshare = need!(program("unshare"));
    let settings = Settings::new("system", "[flows]\ntop = 1\n");
    let script = format!(
        "mount -t tmpfs none /etc && mkdir /etc/sockeye && printf 'color = \"never\"\\n[flows]\\ntop = 2\\n' > /etc/sockeye/config.toml && \
         XDG_CONFIG_HOME={} exec {} config --changed",
        settings.folder.display(),
        crate::fixtures::binary::SOCKEYE
    );
    let mut command = Command::new(unshare);
    crate::fixtures::binary::clean(&mut command);
    command
        .args(["--mount", "sh", "-c", &script])
        .env_remove("SOCKEYE_CONFIG");
    let outcome = run(&mut command);
    let words: Vec<Vec<&str>> = outcome
        .ok()
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    let own = settings.path().display().to_string();
    assert_eq!(
        words[1],
        ["color", "never", "/etc/sockeye/config.toml:1"],
        "{outcome}"
    );
    assert_eq!(words[2], ["flows.top", "1", &format!("{own}:2")], "{outcome}");
    assert!(
        outcome.ok().contains("/etc/sockeye/config.toml: read\n"),
        "{outcome}"
    );
}

#[test]
fn alias_is_words_of_a_command_line() {
    let lab = need!(Lab::new("alias"));
    let here = lab.namespace("here");
    let _pair = here.loopback().established();
    let settings = Settings::new(
        "alias",
        "[alias]\nlist = \"sockets -tn 'state established'\"\nwords = [\"sockets\", \"-tn\", \"state\", \"close-wait\"]\n\
         again = \"list\"\nflows = \"doctor\"\nplain = \"-n\"\n",
    );
    let outcome = |words: &[&str]| {
        let mut command = settings.command(words);
        here.run(|| run(&mut command))
    };
    assert!(outcome(&["list"]).ok().lines().count() == 3);
    // What follows belongs to it.
    assert!(outcome(&["list", "-H"]).ok().lines().count() == 2);
    assert_eq!(outcome(&["words", "-H"]).ok(), "");
    assert!(outcome(&["plain"]).ok().starts_with("Local"));
    // A command is never replaced, and an alias of an alias is none.
    assert!(outcome(&["flows", "-n"]).ok().starts_with("Local"));
    assert!(outcome(&["again"]).failed(2).contains("list"));
    assert!(outcome(&["lists"]).failed(2).contains("lists"));
    let table = outcome(&["config", "--changed"]);
    assert!(
        table.ok().contains("not used: a command has this name"),
        "{table}"
    );
    assert!(table.ok().contains("sockets -tn 'state established'"), "{table}");
    let document = outcome(&["config", "--json"]).json();
    assert_follows(SCHEMA, &document);
    assert_eq!(
        document["aliases"][1]["is_used"], false,
        "{}",
        document["aliases"]
    );
    // Its help is that of its command.
    let help = outcome(&["help", "list"]);
    assert!(help.ok().contains("Usage: sockeye sockets"), "{help}");
    assert!(
        help.error()
            .starts_with("sockeye: 'list' is short for 'sockets -tn state established' ("),
        "{help}"
    );
    assert!(outcome(&["help", "plain"]).ok().contains("Commands:"));
    assert!(outcome(&["help", "nonsense"]).failed(2).contains("nonsense"));
    let with = settings.run_with("SOCKEYE_ALIAS_TWO_WORDS", "doctor --json", &["two-words"]);
    assert_eq!(with.json()["type"], "doctor");
}

#[test]
fn dropins_do_not_depend_on_settings() {
    let lab = need!(Lab::new("dropinsettings"));
    let here = lab.namespace("here");
    let _pair = here.loopback().established();
    let settings = Settings::new(
        "dropins",
        "color = \"always\"\n[sockets]\ncolumns = \"state\"\n[alias]\nss = \"flows\"\nt = \"ss -tan\"\n",
    );
    for words in [&["ss", "-tan"][..], &["netstat", "-tan"], &["lstf", "-n"]] {
        let mut with = settings.command(words);
        with.env("CLICOLOR_FORCE", "1").env("SOCKEYE_NOTHING", "x");
        let (with, without) = here.run(|| (run(&mut with), run(command().args(words))));
        assert_eq!(with.quiet(), without.quiet(), "{words:?}");
    }
    let offered = settings.run(&["complete", "--", "t"]);
    assert_eq!(offered.quiet(), "");
    let mut alias = settings.command(&["t"]);
    let (alias, plain) = here.run(|| (run(&mut alias), run(command().args(["ss", "-tan"]))));
    assert_eq!(alias.ok(), plain.ok());
}

#[test]
fn binary_without_a_home_has_no_file() {
    let mut command = command();
    command
        .args(["config", "--json"])
        .env_remove("SOCKEYE_CONFIG")
        .env_remove("XDG_CONFIG_HOME")
        .env_remove("HOME");
    let document = run(&mut command).json();
    let files: Vec<&str> = document["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| file["path"].as_str().unwrap())
        .collect();
    assert_eq!(files, ["/etc/sockeye/config.toml"]);
    // A relative path is none, as the specification says.
    let document = run(command.env("XDG_CONFIG_HOME", "here")).json();
    assert_eq!(document["files"].as_array().unwrap().len(), 1);
    assert!(Path::new("/etc").is_dir());
}

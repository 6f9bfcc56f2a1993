//! The command line: help, errors, exit statuses, filters.

use super::folder;
use crate::fixtures::binary::{self, assert_harmless, run, sockeye, words, words_in};
use sockeye_lab::{Lab, need};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;

/// Short for `--format json`; the default and other formats stay.
#[test]
fn json_is_short_for_the_format() {
    for command in [
        "explain ENOBUFS",
        "explain --list timer",
        "ns list -1",
        "keepalive attached",
    ] {
        let [short, long, default] =
            ["--json", "--format json", ""].map(|flag| words(&format!("{command} {flag}")));
        assert!(
            short.ok().starts_with('{') && long.ok().starts_with('{'),
            "{short}"
        );
        assert!(!default.ok().starts_with('{'), "{command}");
    }
}

#[test]
fn wrong_arguments_exit_2_with_a_suggestion() {
    for (line, expected) in [
        ("--colour", "'--color'"),
        ("flwos", "'flows'"),
        ("socket", "'sockets'"),
        ("sockets --lisening", "'--listening'"),
        ("sockets -q", "unexpected argument '-q'"),
        ("flows -q", "unexpected argument '-q'"),
        (
            "sockets --columns time,local",
            "'time' is no column: CSV and JSON have it always",
        ),
        ("flows v6only", "'v6only' is a column, but no word of filters"),
        ("flows connections > 1", "'connections' is a column, but no word"),
        ("sockets --columns locl", "did you mean 'local'?"),
        (
            "sockets --columns nonsensical_words",
            "`sockeye sockets --columns help`",
        ),
        ("sockets --columns ,", "`sockeye sockets --columns help`"),
        ("flows --columns conections", "did you mean 'connections'?"),
        ("flows --columns zzzzzzzz", "`sockeye flows --columns help`"),
        ("sockets --sort -rtt_su", "did you mean 'rtt_us'?"),
        ("sockets --sort nonsensical_words", "--sort: unknown column"),
        ("flows --sort nonsensical_words", "--sort: unknown column"),
        (
            "flows --group-by nonsense",
            "expected host, port, process, user, container, unit, cgroup, exe, netns, prefix/N",
        ),
        ("flows --group-by prefix/33", "0 to 32 bits"),
        (
            "flows --filter-peers nonsense",
            "[possible values: all, public, private]",
        ),
        ("flows -w 0", "at least 0.001"),
        ("flows -w -1", "at least 0.001"),
        ("flows -w soon", "a number of seconds"),
        ("flows --count 1", "--watch"),
        ("flows --json --format csv", "cannot be used with"),
        ("flows -w 1 --count 0", "1 or more"),
        ("flows --top -1", "0 or more"),
        ("flows --top many", "0 or more"),
        ("flows --names-timeout -1", "at least 0.001"),
        ("flows -ut", "cannot be used with"),
        (
            "sockets --source nonsense",
            "[possible values: auto, bpf, diag, diag-v2, procfs]",
        ),
        (
            "sockets --format xml",
            "[possible values: table, json, jsonl, csv]",
        ),
        (
            "sockets --color sometimes",
            "[possible values: auto, always, never]",
        ),
        (
            "sockets -A tcp,sctp",
            "no protocol \"sctp\"; there are all, inet, tcp",
        ),
        ("doctor --format csv", "[possible values: table, json, jsonl]"),
        ("doctor everything", "unexpected argument 'everything'"),
        ("completions tcsh", "bash"),
        ("man", "<FOLDER>"),
    ] {
        let outcome = words(line);
        let error = outcome.failed(2);
        assert!(error.starts_with("sockeye: "), "{line}: {outcome}");
        assert!(error.contains(expected), "{line}: {outcome}");
        assert!(
            error.lines().count() <= 8 && error.len() < 500,
            "{line}: {outcome}"
        );
    }
}

#[test]
fn an_unknown_flag_is_not_advised_as_a_filter() {
    let outcome = words("sockets -S");
    assert!(!outcome.failed(2).contains("-- -S"), "{outcome}");
}

#[test]
fn unknown_column_has_a_short_error() {
    let outcome = words("sockets --columns nonsense");
    assert!(outcome.failed(2).len() < 200, "{outcome}");
}

#[test]
fn missing_namespace_is_reported_with_the_remedy() {
    for (name, expected) in [
        (
            "nonsense",
            "`ip netns list` shows names, a number is taken for a pid",
        ),
        ("4194305", "(\"/proc/4194305/ns/net\"): No such file"),
        ("/etc/passwd", "it is no namespace"),
        ("/dev/null", "it is no namespace"),
        ("", "it is no namespace"),
    ] {
        for command in ["flows", "sockets"] {
            let outcome = sockeye(&[command, "--netns", name]);
            assert!(outcome.failed(1).contains(expected), "{name:?}: {outcome}");
            assert!(
                outcome
                    .error()
                    .starts_with("sockeye: cannot open network namespace"),
                "{outcome}"
            );
        }
    }
    // A mount namespace is not a network namespace.
    let outcome = words("sockets --netns /proc/self/ns/mnt");
    assert!(
        outcome
            .failed(1)
            .starts_with("sockeye: cannot enter network namespace "),
        "{outcome}"
    );
}

#[test]
fn fifo_as_namespace_does_not_block() {
    let directory = folder("fifo");
    let fifo = directory.join("fifo");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).expect("mkfifo");
    let mut limited = Command::new("timeout");
    limited
        .arg("10")
        .arg(binary::SOCKEYE)
        .args(["sockets", "--netns"])
        .arg(&fifo);
    let outcome = run(&mut limited);
    std::fs::remove_dir_all(&directory).expect("remove");
    assert!(outcome.failed(1).contains("it is no namespace"), "{outcome}");
}

#[test]
fn filter_error_has_a_caret_under_the_word() {
    for (filter, expected) in [
        (
            "state nonsense",
            "sockeye: filter: expected the name of a state after 'state', found 'nonsense'\n  \
             state nonsense\n        ^^^^^^^^\n",
        ),
        (
            "dport = :443 and ( src 10.0.0.0/8",
            "sockeye: filter: expected ')', 'and' or 'or', found the end of the expression\n  \
             dport = :443 and ( src 10.0.0.0/8\n                                   ^\n",
        ),
        (
            "dport = :99999",
            "sockeye: filter: expected a port (0 to 65535) after '=', found ':99999'\n  dport = :99999\n          ^^^^^^\n",
        ),
    ] {
        for command in ["sockets", "flows"] {
            let outcome = sockeye(&[command, filter]);
            assert_eq!(outcome.failed(2), expected, "{outcome}");
        }
        // The same as separate words.
        let outcome = words(&format!("sockets {filter}"));
        assert_eq!(outcome.failed(2), expected, "{outcome}");
    }
}

#[test]
fn oversized_filters_are_refused_or_work() {
    let refused = |filter: String, expected: &str| {
        let outcome = sockeye(&["sockets", "-t", &filter]);
        let error = outcome.failed(2);
        assert!(error.contains(expected), "{outcome}");
        // One message, one line of the filter with dots, one caret.
        assert_eq!(error.lines().count(), 3, "{outcome}");
        assert!(error.chars().count() < 400, "{outcome}");
        let caret = error.lines().last().unwrap_or_default().trim();
        assert!(
            !caret.is_empty() && caret.bytes().all(|byte| byte == b'^'),
            "{outcome}"
        );
    };
    refused("(".repeat(10_000), "at most 200 levels");
    refused(
        format!("{}sport = :22{}", "(".repeat(10_000), ")".repeat(10_000)),
        "at most 200 levels",
    );
    refused("not ".repeat(30_000), "at most 200 levels");
    refused("a".repeat(100_000), "found 'aaaa");
    refused(format!("sport = :{}", "9".repeat(100_000)), "");
    refused("src 1.1.1.1 zz ".repeat(6_000), "found 'zz'");
    refused("\u{1f41f}".repeat(20_000), "expected a condition");
    refused("\t\n \r".repeat(10_000) + "\u{7f}", "expected a condition");

    // Long and legal.
    let outcome = sockeye(&["sockets", "-t", &["sport = :1"; 8_000].join(" or ")]);
    outcome.ok();
    assert!(outcome.error().chars().count() < 400, "{outcome}");
    let outcome = sockeye(&["sockets", "-t", &"(".repeat(150), "sport = :1", &")".repeat(150)]);
    outcome.ok();
    sockeye(&["sockets", "-t", "", " ", "\n"]).ok();
}

#[test]
fn control_characters_in_arguments_are_escaped() {
    let odd = "\u{1b}[31mred\u{7}\r\u{9b}2J";
    for arguments in [
        vec![odd],
        vec!["sockets", odd],
        vec!["sockets", "--netns", odd],
        vec!["sockets", "--columns", odd],
        vec!["sockets", "--sort", odd],
        vec!["sockets", "--source", odd],
        vec!["sockets", "-A", odd],
        vec!["flows", "--group-by", odd],
        vec!["flows", "--sort", odd],
        vec!["flows", "-w", odd],
        vec!["man", odd],
        vec!["completions", odd],
    ] {
        let outcome = sockeye(&arguments);
        assert!(matches!(outcome.code, Some(1 | 2)), "{arguments:?}: {outcome}");
        assert!(outcome.error().contains("red"), "{arguments:?}: {outcome}");
        assert_harmless(&outcome.stderr);
    }
}

#[test]
fn arguments_that_are_not_utf8_exit_2() {
    let odd = OsStr::from_bytes(b"\xff\xfe\x1b[31m");
    for arguments in [
        vec![odd],
        vec![OsStr::new("sockets"), odd],
        vec![OsStr::new("flows"), odd],
    ] {
        let outcome = sockeye(&arguments);
        assert!(!outcome.failed(2).is_empty(), "{outcome}");
        assert_harmless(&outcome.stderr);
    }
    // A folder may have any name; that one does not exist.
    let outcome = sockeye(&[OsStr::new("man"), OsStr::from_bytes(b"/nowhere/\xff")]);
    assert!(
        outcome.failed(1).contains("write manual pages into /nowhere/"),
        "{outcome}"
    );
}

#[test]
fn ss_flags_combine_and_the_last_of_a_and_l_wins() {
    let lab = need!(Lab::new("flags"));
    let here = lab.namespace("here");
    let net_path = here.loopback();
    let pair = net_path.established();
    let client = pair.client.local.expect("an address").to_string();
    let listener = pair
        .listener
        .as_ref()
        .and_then(|l| l.local)
        .expect("an address")
        .to_string();
    let shows = |line: &str, connection: bool, listening: bool| {
        let outcome = words_in(&here, line);
        let text = outcome.ok();
        let rows: Vec<_> = text
            .lines()
            .map(|row| row.split_whitespace().collect::<Vec<_>>())
            .collect();
        let found = |state: &str, local: &str| {
            rows.iter()
                .any(|row| row.contains(&state) && row.contains(&local))
        };
        assert_eq!(found("ESTAB", &client), connection, "{line}: {outcome}");
        assert_eq!(found("LISTEN", &listener), listening, "{line}: {outcome}");
    };
    shows("sockets -tn", true, false);
    shows("sockets -tanp", true, true);
    shows("sockets -tlnp", false, true);
    shows("sockets -tulpan", true, true);
    shows("sockets -tapnl", false, true);
    shows("sockets -tanp4", true, true);
    shows("sockets -tan6", false, false);
    shows("s -tan", true, true);
    shows("sockets -xan", false, false);
    shows(&format!("sockets -tan -- src {client}"), true, false);
    shows(&format!("sockets -tan src {client}"), true, false);
    shows(&format!("sockets src {client} -tan"), true, false);
    // Names of hosts, but no names of ports.
    let outcome = words_in(&here, "sockets -tn -r --names-timeout 5");
    assert!(
        outcome.ok().contains(&format!(":{}", pair.client.port())),
        "{outcome}"
    );
}

#[test]
fn no_command_is_flows() {
    let lab = need!(Lab::new("nocommand"));
    let here = lab.namespace("here");
    let _pair = here.loopback().established();
    for flags in ["-n", "-n --format json", "-n --format csv", "-nis --top 1"] {
        let (bare, flows) = (words_in(&here, flags), words_in(&here, &format!("flows {flags}")));
        // The time of the sample differs.
        let masked = |text: &str| -> String {
            let is_time = |word: &&str| word.len() == 27 && word.ends_with('Z');
            let words = text.split_inclusive(['"', ',', '\n']);
            words
                .filter(|word| !is_time(&word.trim_end_matches(['"', ','])))
                .collect()
        };
        assert_eq!(masked(bare.ok()), masked(flows.ok()), "{flags}");
        assert_eq!(bare.error(), flows.error(), "{flags}");
        assert!(bare.ok().contains("127.0.0.1"), "{bare}");
    }
}

#[test]
fn every_command_and_option_says_what_it_is_for() {
    for command in [
        "",
        "flows",
        "sockets",
        "keepalive list",
        "keepalive set",
        "keepalive unset",
        "keepalive run",
        "keepalive attach",
        "keepalive detach",
        "keepalive attached",
        "kill",
        "bench serve",
        "bench stream",
        "bench rr",
        "bench crr",
        "bench tun",
        "bench file",
        "bench memory",
        "bench sources",
        "doctor",
        "completions",
        "man",
    ] {
        let outcome = words(&format!("{command} --help"));
        let help = outcome.quiet();
        let lines: Vec<&str> = help.lines().collect();
        let mut options = 0;
        for (place, line) in lines.iter().enumerate() {
            if !line.trim_start().starts_with('-')
                || !line.starts_with("  ")
                || line.trim_start().starts_with("- ")
            {
                continue;
            }
            options += 1;
            let same_line = line.trim_start().split_once("  ").map(|(_, text)| text.trim());
            let below = lines.get(place + 1).map(|text| text.trim());
            let words = same_line.or(below).unwrap_or_default();
            assert!(
                words.len() > 4 && !words.starts_with('-'),
                "{command}: no word on {line:?}"
            );
        }
        assert!(options > 0, "{outcome}");
        assert!(lines.iter().all(|line| line.chars().count() <= 230), "{outcome}");
    }
    // The first page that a new user sees.
    let outcome = words("--help");
    for expected in [
        "Examples:",
        "Exit status: 0 fine, 1",
        "sockets",
        "flows",
        "doctor",
    ] {
        assert!(outcome.quiet().contains(expected), "{expected}: {outcome}");
    }
    assert!(
        words("flows --help")
            .quiet()
            .contains("`-->`: we connected to the peer")
    );
    assert!(words("sockets --help").quiet().contains("Without -a or -l"));
    assert!(words("--version").quiet().starts_with("sockeye "));
}

#[test]
fn the_examples_in_the_help_work() {
    let mut examples = 0;
    for command in ["--help", "flows --help", "sockets --help"] {
        let outcome = words(command);
        let lines = outcome
            .quiet()
            .lines()
            .filter_map(|line| line.strip_prefix("  sockeye "));
        for line in lines.filter(|line| !line.contains("-w 2")) {
            // What follows two spaces explains.
            let typed = line.split("  ").next().unwrap_or_default();
            let mut shell = Command::new("sh");
            binary::clean(&mut shell);
            shell.args(["-c", &format!("\"$0\" {typed}"), binary::SOCKEYE]);
            let outcome = run(&mut shell);
            assert!(!outcome.ok().is_empty(), "{typed}: {outcome}");
            examples += 1;
        }
    }
    assert!(examples > 8, "{examples}");
}

#[test]
fn the_columns_that_help_lists_exist() {
    for command in ["sockets", "flows", "ns list"] {
        let command: Vec<&str> = command.split(' ').collect();
        let listed = sockeye(&[&command[..], &["--columns", "help"]].concat());
        let names: Vec<&str> = listed
            .quiet()
            .lines()
            .map(|line| line.split_whitespace().next().unwrap())
            .collect();
        assert!(names.len() > 10, "{listed}");
        let all = names.join(",");
        let outcome = sockeye(&[&command[..], &["--columns", &all, "--format", "csv"]].concat());
        let header = outcome.ok().lines().next().unwrap_or_default().split(',').count();
        assert!(header >= names.len(), "{outcome}");
    }
    // How wide the columns are depends on the sockets of the host.
    let outcome = words("sockets -tn --columns state,tcp_info");
    let header: Vec<&str> = outcome.ok().lines().next().unwrap().split_whitespace().collect();
    assert_eq!(header[..2], ["State", "ca_state"], "{outcome}");
}

#[test]
fn flags_without_a_command_are_those_of_flows() {
    words("-n --top 3").ok();
}

/// clap checks the definitions of all commands when it builds them all, where debug assertions are on.
#[test]
fn clap_definitions_are_consistent() {
    words("completions bash").quiet();
}

#[test]
fn words_without_a_command_get_the_command_that_was_meant() {
    let lab = need!(Lab::new("hints"));
    let here = lab.namespace("here");
    for (line, hint) in [
        (":80", "sockeye sockets -ap 'sport = :80 or dport = :80'"),
        ("80", "sockeye sockets -ap 'sport = :80 or dport = :80'"),
        ("nginx", "sockeye sockets -ap 'owner = nginx'"),
        (
            "192.0.2.1",
            "sockeye sockets -ap 'src 192.0.2.1 or dst 192.0.2.1'",
        ),
        ("-p 1234", "sockeye sockets -ap 'pid = 1234'"),
        ("established", "sockeye sockets -ap 'state established'"),
        ("listen", "sockeye sockets -ap 'state listen'"),
        ("LISTEN", "sockeye sockets -ap 'state listen'"),
        ("192.0.2.1:80", "sockeye sockets -ap 'dst 192.0.2.1:80'"),
        ("flows -p nginx", "did you mean 'owner = nginx'?"),
        ("sockets process = nginx", "did you mean 'owner'?"),
    ] {
        let output = words_in(&here, line);
        assert_eq!(output.code, Some(2), "{line}: {output}");
        assert!(output.error().contains(hint), "{line}: {output}");
        // What is proposed is accepted.
        if let Some(proposed) = hint.strip_prefix("sockeye sockets -ap '") {
            let filter = proposed.trim_end_matches('\'');
            words_in(&here, &format!("sockets -ap {filter}")).succeeded();
        }
    }
    for command in ["bench", "keepalive"] {
        let output = words_in(&here, command);
        assert_eq!(output.code, Some(2), "{output}");
        assert!(!output.error().starts_with("sockeye:"), "{output}");
        assert!(output.error().contains("Commands:"), "{output}");
    }
    for number in ["-110", "110"] {
        let output = words_in(&here, &format!("explain {number}"));
        assert!(output.ok().contains("ETIMEDOUT"), "{output}");
    }
}

#[test]
fn a_listing_without_rows_says_what_the_filter_left_out() {
    let lab = need!(Lab::new("norows"));
    let here = lab.namespace("here");
    let empty = words_in(&here, "sockets -tn");
    assert!(empty.error().contains("there is no connection"), "{empty}");
    let pair = here.loopback().established();
    for line in ["sockets -tn dport = :9", "flows -n dport = :9"] {
        let output = words_in(&here, line);
        assert_eq!(output.code, Some(0), "{output}");
        assert!(
            output
                .error()
                .contains("none of 2 sockets matches the filter: dport = :9"),
            "{line}: {output}"
        );
    }
    // A program that reads the output sees that it is empty.
    assert_eq!(
        words_in(&here, "sockets -tn dport = :9 --format json").error(),
        ""
    );
    drop(pair);
}

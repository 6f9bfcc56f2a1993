//! Output on a real terminal of any width: complete, and without control characters from outside.

use crate::fixtures::binary::{assert_harmless, command, words_in};
use crate::fixtures::terminal::Terminal;
use sockeye_lab::{Lab, Namespace, UnixKind, need};
use std::process::{Command, Stdio};

#[test]
fn no_text_is_lost_on_a_terminal_of_any_width() {
    let lab = need!(Lab::new("widths"));
    let here = lab.namespace("here");
    let _pair = here.loopback().established();
    let _six = here.loopback6().established();
    let _named = here.unix_bound(
        UnixKind::Stream,
        &lab.unix_abstract("a-name-longer-than-twenty-columns"),
    );
    for line in [
        "sockets -tuxan",
        "sockets -taneop",
        "sockets -tan --columns local,peer,state",
        "flows -nps",
        "flows -n --group-by process",
    ] {
        let plain = words_in(&here, line);
        let expected = tokens(plain.ok());
        assert!(expected.len() > 8, "{plain}");
        for columns in [0, 1, 20, 79, 500, u16::MAX] {
            let text = on_terminal(&here, columns, command().args(line.split_whitespace()));
            assert_eq!(
                tokens(&without_colors(&text)),
                expected,
                "{line}, {columns} columns:\n{text}"
            );
            if columns >= 500 || columns == 0 {
                let lines = without_colors(&text);
                assert_eq!(
                    lines.lines().count(),
                    plain.ok().lines().count(),
                    "{columns}:\n{text}"
                );
            }
        }
    }
}

/// The kernel allows any byte but `/`, `:` and blanks in the name of an interface.
#[test]
fn interface_names_cannot_control_a_terminal() {
    let lab = need!(Lab::new("odddevice"));
    let here = lab.namespace("here");
    let odd = "\x1b[31mred";
    let output = here.output(
        "ip",
        &[
            "link", "add", "name", odd, "type", "veth", "peer", "name", "right",
        ],
    );
    assert_eq!(output, "");
    for words in [
        &["link", "set", odd, "up"][..],
        &["address", "add", "10.77.0.1/24", "dev", odd],
    ] {
        here.output("ip", words);
    }
    here.ip("link set right up");
    here.output(
        "ip",
        &["route", "add", "10.78.0.0/24", "via", "10.77.0.2", "dev", odd],
    );
    let bound = std::net::Ipv4Addr::new(10, 77, 0, 1);
    let _socket = here.run(|| std::net::UdpSocket::bind((bound, 0)).expect("bind"));
    let escaped = "\\x1b[31mred";
    for (line, shows) in [
        ("netstat -i", true),
        ("netstat -ia", true),
        ("netstat -ie", true),
        ("netstat -rn", true),
        ("netstat -rn6", true),
        ("netstat -gn", true),
        ("netstat -an", false),
        ("check", false),
        ("sockets -an", false),
        ("ns list", false),
    ] {
        let text = on_terminal(&here, 200, command().args(line.split_whitespace()));
        assert!(!text.contains(odd), "{line}: {text:?}");
        assert!(!shows || text.contains(escaped), "{line}: {text:?}");
    }
    let outcome = words_in(&here, "capture -i nosuch -d 0.1 -o -");
    assert_harmless(&outcome.stderr);
    assert!(outcome.failed(1).contains(escaped), "{outcome}");
    // A pipe gets what the original writes.
    assert!(words_in(&here, "netstat -i").ok().contains(odd));
}

#[test]
fn terminal_of_20_columns_gets_20_columns() {
    let lab = need!(Lab::new("twenty"));
    let here = lab.namespace("here");
    let _pair = here.loopback().established();
    for line in ["sockets -tan", "flows -n"] {
        let text = on_terminal(&here, 20, command().args(line.split_whitespace()));
        let text = without_colors(&text);
        for row in text.lines() {
            // A line is longer only if one cell alone is.
            assert!(
                row.len() <= 20 || row.split_whitespace().count() <= 2,
                "{row:?} in\n{text}"
            );
            assert!(
                !row.trim().is_empty() && row.trim_end() == row,
                "{row:?} in\n{text}"
            );
        }
        // What continues a row is indented under it.
        assert!(text.lines().any(|row| row.starts_with(' ')), "{text}");
    }
}

#[test]
fn findings_are_wrapped_and_commands_are_not() {
    let lab = need!(Lab::new("ttycheck"));
    let here = lab.namespace("here");
    here.ip("link add left type veth peer name right");
    here.ip("link set left up");
    for line in ["check --only no-carrier", "check --only no-carrier --list"] {
        let plain = words_in(&here, line);
        let commands: Vec<&str> = plain.ok().lines().filter(|row| row.starts_with("  $ ")).collect();
        for columns in [0, 1, 20, 40, 79, 500] {
            let text = on_terminal(&here, columns, command().args(line.split_whitespace()));
            assert!(
                line.ends_with("list") || text.contains("\x1b[1;36mNOTICE\x1b[0m"),
                "{text:?}"
            );
            let text = without_colors(&text);
            for command in &commands {
                assert!(
                    text.lines().any(|row| row == *command),
                    "{columns}: no {command} in\n{text}"
                );
            }
            for row in text.lines().filter(|row| !row.starts_with("  $ ")) {
                // A line is longer only if one word alone is, and none is narrower than 20.
                let room = usize::from(columns).max(23);
                let is_whole = columns == 0 || row.len() <= room || row.split_whitespace().count() == 1;
                assert!(is_whole, "{columns}: {row:?} in\n{text}");
                assert_eq!(row.trim_end(), row, "{columns}");
            }
            // Only how long it took differs.
            let words = |text: &str| {
                text.split_whitespace()
                    .filter(|word| !word.ends_with("ms"))
                    .count()
            };
            assert_eq!(words(&text), words(plain.ok()), "{columns}:\n{text}");
        }
    }
}

/// Only the command to copy is longer than the screen.
#[test]
fn doctor_breaks_between_words() {
    let lab = need!(Lab::new("ttydoctor"));
    let here = lab.namespace("here");
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let plain = words_in(&here, "doctor");
    for columns in [40, 79] {
        let text = on_terminal(&here, columns, command().arg("doctor"));
        for row in text.lines().filter(|row| !row.starts_with("  sudo setcap")) {
            let is_whole = row.chars().count() <= usize::from(columns) || row.split_whitespace().count() <= 2;
            assert!(is_whole, "{columns}: {row:?} in\n{text}");
            assert_eq!(row.trim_end(), row, "{columns}");
        }
        assert_eq!(words(&text), words(plain.ok()), "{columns}:\n{text}");
    }
}

#[test]
fn terminal_gets_colours_unless_disabled() {
    let lab = need!(Lab::new("color"));
    let here = lab.namespace("here");
    let _pair = here.loopback().established();
    let colored = |change: &dyn Fn(&mut Command) -> &mut Command| {
        let mut command = command();
        command.args(["sockets", "-tan"]);
        change(&mut command);
        on_terminal(&here, 80, &mut command).contains('\x1b')
    };
    assert!(colored(&|command| command));
    assert!(colored(&|command| command.env("NO_COLOR", "")));
    assert!(colored(&|command| command.env_remove("TERM")));
    assert!(!colored(&|command| command.env("NO_COLOR", "1")));
    assert!(!colored(&|command| command.env("TERM", "dumb")));
    assert!(!colored(&|command| command.env("TERM", "")));
    assert!(!colored(&|command| command.args(["--color", "never"])));
    assert!(!colored(&|command| command.args(["--format", "json"])));
    assert!(colored(&|command| command
        .env("NO_COLOR", "1")
        .args(["--color", "always"])));
    assert!(!colored(&|command| command.env("CLICOLOR", "0")));
    assert!(colored(&|command| command.env("CLICOLOR", "1")));
    assert!(colored(&|command| command
        .env("CLICOLOR_FORCE", "1")
        .env("TERM", "dumb")));
    assert!(!colored(&|command| command
        .env("CLICOLOR_FORCE", "1")
        .env("NO_COLOR", "1")));
    assert!(!colored(&|command| command.env("SOCKEYE_COLOR", "never")));

    // In a pipe.
    let piped = |variables: &[(&str, &str)], more: &[&str]| {
        let mut command = command();
        command
            .args(["sockets", "-tan"])
            .args(more)
            .envs(variables.iter().copied());
        here.run(|| crate::fixtures::binary::run(&mut command))
            .ok()
            .contains('\x1b')
    };
    assert!(!piped(&[], &[]));
    assert!(!piped(&[("CLICOLOR", "1")], &[]));
    assert!(piped(&[("CLICOLOR_FORCE", "1")], &[]));
    assert!(piped(&[("CLICOLOR_FORCE", "1"), ("CLICOLOR", "0")], &[]));
    assert!(!piped(&[("CLICOLOR_FORCE", "0")], &[]));
    assert!(!piped(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], &[]));
    assert!(!piped(&[("CLICOLOR_FORCE", "1")], &["--color", "never"]));
    assert!(!piped(&[("CLICOLOR_FORCE", "1")], &["--format", "csv"]));
    assert!(piped(&[("NO_COLOR", "1"), ("SOCKEYE_COLOR", "always")], &[]));
}

#[test]
fn control_characters_are_escaped_on_a_terminal() {
    let lab = need!(Lab::new("ttynames"));
    let here = lab.namespace("here");
    let _evil = lab
        .process(b"\x1b]0;x\x07\n\x1b[2J")
        .in_namespace(&here)
        .tcp_pair("127.0.0.1:0")
        .start();
    let _named = here.unix_bound(UnixKind::Stream, &lab.unix_abstract(b"\x1b[2J\n\r\x08\x9b1m"));
    for line in ["sockets -anp", "flows -np", "flows -n --group-by process"] {
        for columns in [20, 300] {
            let text = on_terminal(&here, columns, command().args(line.split_whitespace()));
            assert!(text.contains("\\x1b"), "{line}:\n{text}");
            assert_harmless(without_colors(&text).as_bytes());
        }
    }
}

/// Runs the binary on a terminal of its own, with stderr, and returns the output; the exit status must be 0.
#[track_caller]
fn on_terminal(namespace: &Namespace, columns: u16, command: &mut Command) -> String {
    let terminal = Terminal::new(columns);
    command
        .stdin(terminal.stdio())
        .stdout(terminal.stdio())
        .stderr(Stdio::null());
    let mut child = namespace.run(|| command.spawn()).expect("start");
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let text = terminal.read_to_end();
    let status = child.wait().expect("wait");
    let text = String::from_utf8(text).expect("UTF-8").replace("\r\n", "\n");
    assert!(status.success(), "{status}:\n{text}");
    text
}

/// Sorted words, independent of the order of the rows.
fn tokens(text: &str) -> Vec<&str> {
    let mut tokens: Vec<_> = text.split_whitespace().collect();
    tokens.sort_unstable();
    tokens
}

/// Without `ESC [ ... m`; any other escape sequence fails.
#[track_caller]
fn without_colors(text: &str) -> String {
    let mut pieces = text.split('\x1b');
    let mut plain = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (codes, rest) = piece.split_once('m').expect("a colour");
        let codes = codes.strip_prefix('[').expect("a colour");
        assert!(
            codes.bytes().all(|byte| byte.is_ascii_digit() || byte == b';'),
            "{codes:?}"
        );
        plain.push_str(rest);
    }
    plain
}

//! Output on a real terminal of any width: complete, and without control characters from outside.

use crate::fixtures::binary::{assert_harmless, command, words_in};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use sockeye_lab::{Lab, Namespace, UnixKind, need};
use std::fs::File;
use std::io::{ErrorKind, Read};
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
    assert!(!colored(&|command| command.args(["--color", "never"])));
    assert!(!colored(&|command| command.args(["--format", "json"])));
    assert!(colored(&|command| command
        .env("NO_COLOR", "1")
        .args(["--color", "always"])));
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
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("openpt");
    grantpt(&master).expect("grantpt");
    unlockpt(&master).expect("unlockpt");
    let size = Winsize {
        ws_row: 24,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&master, size).expect("tcsetwinsize");
    let name = ptsname(&master, Vec::new())
        .expect("ptsname")
        .into_string()
        .expect("a name");
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY | rustix::fs::OFlags::CLOEXEC;
    let slave = rustix::fs::open(name, flags, rustix::fs::Mode::empty()).expect("open the terminal");
    command
        .stdin(slave.try_clone().expect("dup"))
        .stdout(slave.try_clone().expect("dup"))
        .stderr(Stdio::null());
    let mut child = namespace.run(|| command.spawn()).expect("start");
    // With another open descriptor of the terminal, its end is not seen.
    command.stdin(Stdio::null()).stdout(Stdio::null());
    drop(slave);
    let mut text = Vec::new();
    let mut master = File::from(master);
    let mut buffer = [0; 4096];
    loop {
        match master.read(&mut buffer) {
            Ok(0) => break,
            Ok(len) => text.extend_from_slice(&buffer[..len]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // EIO: all descriptors are closed.
            Err(_) => break,
        }
    }
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

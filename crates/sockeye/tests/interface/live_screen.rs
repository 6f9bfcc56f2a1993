//! `-w` on a terminal: redrawn in place, without a line too long, and left with the terminal as it was.

use crate::fixtures::binary::{SOCKEYE, clean, command, ended, words_in};
use crate::fixtures::terminal::Terminal;
use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::{LocalModes, Termios, Winsize};
use serde_json::Value;
use sockeye_lab::{Lab, Namespace, need, wait_for};
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};

/// What each frame begins with: the cursor goes to the upper left, nothing scrolls.
const BEGIN: &str = "\x1b[?25l\x1b[?7l\x1b[H";
/// What each frame ends with.
const END: &str = "\x1b[J\x1b[?7h\x1b[?25h";

#[test]
fn samples_are_drawn_over_each_other() {
    let lab = need!(Lab::new("redraw"));
    let here = lab.namespace("here");
    let _pair = here.loopback().established();
    for line in [
        "flows -n -w 0.05 -c 3",
        "sockets -tn -w 0.05 -c 3",
        // And a first frame without a result.
        "check -w 0.05 -c 2",
    ] {
        let mut screen = Screen::start(&here, 80, 24, line);
        let before = screen.before.clone();
        let status = screen.wait();
        assert!(status.success(), "{line}: {status}");
        let frames = screen.frames();
        assert_eq!(frames.len(), 3, "{line}: {frames:?}");
        for frame in frames {
            assert!(frame[0].contains("  every 0.05 s  "), "{line}: {frame:?}");
            assert_eq!(frame[0].as_bytes()[2], b':', "{line}: {frame:?}");
            assert!(frame.len() <= 24, "{line}: {frame:?}");
        }
        assert_eq!(
            local_modes(&screen.terminal.modes()),
            local_modes(&before),
            "{line}"
        );
    }
}

#[test]
fn q_ends_and_restores_the_terminal() {
    let lab = need!(Lab::new("quit"));
    let here = lab.namespace("here");
    for (line, key) in [
        ("flows -n -w 1000000", b"q"),
        ("sockets -tan -w 1000000", b"Q"),
        ("check -w 1000000", b"q"),
    ] {
        let mut screen = Screen::start(&here, 80, 24, line);
        screen.wait_for_frames(1);
        wait_for("keys without echo", || {
            let modes = screen.terminal.modes().local_modes;
            (!modes.intersects(LocalModes::ECHO | LocalModes::ICANON)).then_some(())
        });
        screen.terminal.press(b"x");
        screen.terminal.press(key);
        let status = screen.wait();
        assert!(status.success(), "{line}: {status}");
        assert_eq!(
            local_modes(&screen.terminal.modes()),
            local_modes(&screen.before),
            "{line}"
        );
        // Without echo, and the prompt comes on a line of its own.
        let text = screen.text();
        assert!(text.ends_with(&format!("{END}\r\n")), "{text:?}");
    }
}

#[test]
fn q_ends_a_profile_and_restores_the_terminal() {
    let lab = need!(Lab::new("quitprof"));
    let here = lab.namespace("here");
    let line = format!("prof -p {} --only cpu -w 0.1", std::process::id());
    let mut screen = Screen::start(&here, 80, 24, &line);
    wait_for("two reports", || {
        screen.terminal.read_some(&mut screen.written);
        (screen.text().matches("  every 0.1 s  observed for ").count() >= 2).then_some(())
    });
    let modes = screen.terminal.modes().local_modes;
    assert!(!modes.intersects(LocalModes::ECHO | LocalModes::ICANON));
    screen.terminal.press(b"x");
    screen.terminal.press(b"q");
    let status = screen.wait();
    assert!(status.success(), "{status}");
    assert_eq!(local_modes(&screen.terminal.modes()), local_modes(&screen.before));
}

/// A job in the background leaves the screen to the others, and writes its last result when it ends.
#[test]
fn background_job_draws_nothing() {
    let lab = need!(Lab::new("background"));
    let here = lab.namespace("here");
    let _pair = here.loopback().established();
    let own = std::process::id();
    for (line, expected) in [
        ("flows -n -w 0.05 -c 3", "  every 0.05 s"),
        ("sockets -tn -w 0.05 -c 3", "  every 0.05 s"),
        ("check -w 0.05 -c 2", "  every 0.05 s"),
        (&*format!("prof -p {own} --only cpu -w 0.05 -c 2"), "prof: pid"),
    ] {
        // With job control, a process group for each job.
        let script = format!("set -m; {SOCKEYE} {line} & wait");
        let mut screen = Screen::start_program(&here, 80, 24, &["bash", "-c", &script]);
        let status = screen.wait();
        assert!(status.success(), "{line}: {status}");
        let text = screen.text();
        assert!(
            !text.contains("\x1b[H") && !text.contains("\x1b[?25l"),
            "{line}: {text:?}"
        );
        assert_eq!(text.matches(expected).count(), 1, "{line}: {text:?}");
        assert_eq!(
            local_modes(&screen.terminal.modes()),
            local_modes(&screen.before),
            "{line}"
        );
    }
}

/// A terminal without movements of the cursor gets one report after the other, as a pipe does.
#[test]
fn dumb_terminal_gets_no_escape_sequences() {
    let lab = need!(Lab::new("dumb"));
    let here = lab.namespace("here");
    let _pair = here.loopback().established();
    let own = std::process::id();
    for term in ["dumb", ""] {
        for line in [
            "flows -n -w 0.05 -c 2",
            "sockets -tn -w 0.05 -c 2",
            "check -w 0.05 -c 2",
            &*format!("prof -p {own} --only cpu -w 0.05 -c 2"),
            "doctor",
        ] {
            let variable = format!("TERM={term}");
            let words = ["env", &variable, SOCKEYE]
                .into_iter()
                .chain(line.split_whitespace());
            let mut screen = Screen::start_program(&here, 80, 24, &words.collect::<Vec<_>>());
            assert!(screen.wait().success(), "{line}");
            assert!(!screen.text().contains('\x1b'), "{line}: {:?}", screen.text());
        }
    }
}

#[test]
fn narrow_title_keeps_the_key_that_ends() {
    let lab = need!(Lab::new("title"));
    let here = lab.namespace("here");
    let _pair = here.loopback().established();
    for columns in [40, 50] {
        for line in ["flows -n -w 0.05 -c 1", "sockets -tn -w 0.05 -c 1"] {
            let mut screen = Screen::start(&here, columns, 20, line);
            assert!(screen.wait().success(), "{line}");
            let frames = screen.frames();
            assert!(frames[0][0].ends_with("  q: end"), "{line}: {frames:?}");
        }
    }
}

#[test]
fn signals_end_and_restore_the_terminal() {
    let lab = need!(Lab::new("signals"));
    let here = lab.namespace("here");
    for (signal, key) in [
        (Signal::INT, Some(b"\x03")),
        (Signal::TERM, None),
        (Signal::HUP, None),
    ] {
        let mut screen = Screen::start(&here, 80, 24, "sockets -tan -w 1000000");
        screen.wait_for_frames(1);
        wait_for("keys without echo", || {
            let modes = screen.terminal.modes().local_modes;
            (!modes.contains(LocalModes::ECHO)).then_some(())
        });
        match key {
            Some(key) => screen.terminal.press(key),
            None => kill_process(Pid::from_child(&screen.child), signal).expect("signal"),
        }
        let status = screen.wait();
        assert_eq!(status.signal(), Some(signal.as_raw()), "{status}");
        assert_eq!(local_modes(&screen.terminal.modes()), local_modes(&screen.before));
        assert!(screen.text().contains(END));
    }
}

#[test]
fn new_size_of_the_terminal_redraws() {
    let lab = need!(Lab::new("resize"));
    let here = lab.namespace("here");
    let _pair = here.loopback().established();
    let mut screen = Screen::start(&here, 100, 24, "sockets -tan -w 1000000");
    screen.wait_for_frames(1);
    wait_for("keys without echo", || {
        (!screen.terminal.modes().local_modes.contains(LocalModes::ECHO)).then_some(())
    });
    screen.terminal.resize(30, 3);
    screen.wait_for_frames(2);
    let frames = screen.frames();
    assert!(
        frames[0].iter().any(|line| line.chars().count() > 30),
        "{frames:?}"
    );
    assert!(frames[1].len() <= 3, "{frames:?}");
    assert!(
        frames[1].iter().all(|line| line.chars().count() <= 30),
        "{frames:?}"
    );
    screen.terminal.press(b"q");
    assert!(screen.wait().success());
}

#[test]
fn no_line_of_a_narrow_terminal_is_wrapped() {
    let lab = need!(Lab::new("narrow"));
    let here = lab.namespace("here");
    let pairs: Vec<_> = (0..15).map(|_| here.loopback().established()).collect();
    for line in [
        "sockets -tanp -w 0.05 -c 2",
        "sockets -taneimop -w 0.05 -c 2",
        "flows -nps -w 0.05 -c 2",
        "check -w 0.05 -c 3",
    ] {
        for columns in [20, 40, 80] {
            let mut screen = Screen::start(&here, columns, 12, line);
            assert!(screen.wait().success(), "{line}");
            for frame in screen.frames() {
                assert!(frame.len() <= 12, "{line}: {frame:?}");
                for row in &frame {
                    assert!(
                        row.chars().count() <= usize::from(columns),
                        "{line}: {row:?} in {frame:?}"
                    );
                }
            }
            if line.starts_with("sockets -tanp") {
                let text = screen.text();
                assert!(text.contains("\n... "), "{text:?}");
                assert!(
                    columns < 40 || text.contains(" more sockets; --top N"),
                    "{text:?}"
                );
            }
        }
    }
    drop(pairs);
}

#[test]
fn pipe_gets_one_sample_after_the_other() {
    let lab = need!(Lab::new("appended"));
    let here = lab.namespace("here");
    let _pair = here.loopback().established();
    let outcome = words_in(&here, "sockets -tan -w 0.05 -c 2");
    let text = outcome.quiet();
    assert!(!text.contains('\x1b'), "{outcome}");
    assert_eq!(text.matches("Local Address:Port").count(), 2, "{outcome}");
    assert_eq!(text.matches("Sent/s").count(), 1, "{outcome}");
    assert!(text.contains("sockets: 0 opened, 0 closed in "), "{outcome}");
    assert!(text.contains(" 0 B/s"), "{outcome}");
}

#[test]
fn watched_sockets_have_rates_and_changes() {
    let lab = need!(Lab::new("socketrates"));
    let here = lab.namespace("here");
    let _pair = here.loopback().established();
    let mut command = command();
    command
        .args(["sockets", "-tan", "-w", "0.2", "-c", "30", "--format", "jsonl"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = here.run(|| command.spawn()).expect("start");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut next = || -> Value {
        let line = lines.next().expect("a line").expect("read");
        serde_json::from_str(&line).expect("JSON")
    };
    let mut sample = |number: u64| {
        let mut rows = Vec::new();
        loop {
            let line = next();
            if line["type"] == "sockets_summary" {
                assert_eq!(line["summary"]["sample"], number, "{line}");
                return (rows, line);
            }
            rows.push(line);
        }
    };
    let (rows, summary) = sample(1);
    assert!(!rows.is_empty() && rows.iter().all(|row| row["rates"].is_null()));
    assert!(summary["summary"]["changes"].is_null(), "{summary}");
    let more = here.loopback().established();
    let (mut opened, mut number) = (0, 2);
    let mut has_rates = false;
    while opened == 0 && number < 30 {
        let (rows, summary) = sample(number);
        has_rates |= rows
            .iter()
            .any(|row| row["rates"]["sent_bytes_per_s"].is_number());
        opened = summary["summary"]["changes"]["sockets_opened"]
            .as_u64()
            .expect("a number");
        number += 1;
    }
    assert!(opened > 0 && has_rates, "{opened}");
    drop(more);
    let _ = child.kill();
    ended(child);
}

#[test]
fn top_shows_the_first_rows_and_counts_the_others() {
    let lab = need!(Lab::new("topsockets"));
    let here = lab.namespace("here");
    let _pairs: Vec<_> = (0..3).map(|_| here.loopback().established()).collect();
    let all = words_in(&here, "sockets -tanH").quiet().lines().count();
    for (line, unit) in [
        ("sockets -tanH --top 2", "sockets"),
        ("sockets -tanH --sort local --top 2", "sockets"),
    ] {
        let outcome = words_in(&here, line);
        assert_eq!(outcome.ok().lines().count(), 2, "{outcome}");
        let expected = format!("sockeye: {} more {unit}; --top 0 shows all\n", all - 2);
        assert_eq!(outcome.error(), expected);
    }
    let outcome = words_in(&here, "sockets -tan --top 2 --sort -local --format json");
    assert_eq!(outcome.json()["sockets"].as_array().expect("an array").len(), 2);
    assert_eq!(outcome.json()["rows_left_out"], all - 2);
    assert_eq!(
        words_in(&here, "sockets -tanH --top 0").quiet().lines().count(),
        all
    );
    let outcome = words_in(&here, "sockets -tan --sort -sent_rate");
    assert!(outcome.failed(2).contains("give --watch SECONDS"), "{outcome}");
}

/// A program on a terminal that controls it.
struct Screen {
    terminal: Terminal,
    child: Child,
    before: Termios,
    written: Vec<u8>,
}

impl Screen {
    fn start(namespace: &Namespace, columns: u16, rows: u16, line: &str) -> Self {
        let words: Vec<&str> = [SOCKEYE].into_iter().chain(line.split_whitespace()).collect();
        Self::start_program(namespace, columns, rows, &words)
    }

    fn start_program(namespace: &Namespace, columns: u16, rows: u16, words: &[&str]) -> Self {
        let terminal = Terminal::with_size(Winsize {
            ws_row: rows,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        });
        let mut command = Command::new("setsid");
        clean(&mut command);
        command
            .arg("--ctty")
            .args(words)
            .env("LC_ALL", "C.UTF-8")
            .stdin(terminal.stdio())
            .stdout(terminal.stdio())
            .stderr(terminal.stdio());
        let before = terminal.modes();
        let child = namespace.run(|| command.spawn()).expect("start");
        Self {
            terminal,
            child,
            before,
            written: Vec::new(),
        }
    }

    /// Waits for the end of the program, and reads what it writes.
    fn wait(&mut self) -> ExitStatus {
        let status = wait_for("the end of the program", || {
            self.terminal.read_some(&mut self.written);
            self.child.try_wait().expect("wait")
        });
        let mut before = usize::MAX;
        while before != self.written.len() {
            before = self.written.len();
            self.terminal.read_some(&mut self.written);
        }
        status
    }

    fn wait_for_frames(&mut self, count: usize) {
        wait_for(format!("{count} frames"), || {
            self.terminal.read_some(&mut self.written);
            (self.text().matches(END).count() >= count).then_some(())
        });
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.written).into_owned()
    }

    /// Returns the lines of each frame, without escape sequences.
    fn frames(&self) -> Vec<Vec<String>> {
        let text = self.text();
        let frames = text.split(BEGIN).skip(1);
        let inner = frames.map(|frame| frame.split(END).next().unwrap_or_default());
        inner
            .map(|frame| frame.split("\r\n").map(without_escapes).collect())
            .collect()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn local_modes(modes: &Termios) -> LocalModes {
    modes.local_modes
}

/// Without `ESC [ ... m` and `ESC [ K`; a sequence that moves the cursor stays.
fn without_escapes(line: &str) -> String {
    let mut pieces = line.split("\x1b[");
    let mut plain = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        match piece.split_once(['m', 'K']) {
            Some((codes, rest)) if codes.bytes().all(|byte| byte.is_ascii_digit() || byte == b';') => {
                plain.push_str(rest);
            }
            _ => {
                plain.push_str("\x1b[");
                plain.push_str(piece);
            }
        }
    }
    plain
}

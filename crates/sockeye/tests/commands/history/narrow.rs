//! On a narrow terminal each row is a line, and what is not shown is named.

use super::Store;
use crate::fixtures::binary::command;
use crate::fixtures::terminal::Terminal;
use sockeye_lab::wait_until;
use std::net::TcpListener;
use std::process::Stdio;

/// Returns the lines of a table on a terminal, without colours, and the notes.
fn shown(store: &Store, words: &str, columns: u16) -> (Vec<String>, String) {
    let terminal = Terminal::new(columns);
    let mut command = command();
    command
        .args(words.split(' '))
        .args(["--store", &store.path(), "--color", "never"])
        .stdin(Stdio::null())
        .stdout(terminal.stdio())
        .stderr(Stdio::piped());
    let child = command.spawn().expect("the program starts");
    drop(command);
    let text = terminal.read_to_end();
    let outcome = child.wait_with_output().expect("it ends");
    let notes = String::from_utf8_lossy(&outcome.stderr).into_owned();
    assert!(outcome.status.success(), "{words}: {notes}");
    let text = String::from_utf8(text).expect("UTF-8");
    (
        text.lines().map(|line| line.trim_end().to_owned()).collect(),
        notes,
    )
}

#[test]
fn rows_of_history_are_one_line_on_80_and_40_columns() {
    let store = Store::new("narrow");
    let recorder = store.record();
    // A program that does not accept what waits is a finding.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    let _clients: Vec<_> = (0..300)
        .map_while(|_| {
            let timeout = std::time::Duration::from_millis(300);
            std::net::TcpStream::connect_timeout(&address, timeout).ok()
        })
        .collect();
    wait_until("a finding is recorded", || {
        let outcome = store.run("history findings --format csv");
        outcome.stdout.iter().filter(|byte| **byte == b'\n').count() > 1
    });
    drop(recorder);
    for (words, always) in [
        ("history list", "From"),
        ("history top", "Name"),
        ("history diff -1h now", "Change"),
        ("history counts", "Name"),
        ("history findings", "Rule"),
    ] {
        // No time is an hour ago.
        let words = if words.contains("diff") {
            "history diff now now"
        } else {
            words
        };
        let wide = shown(&store, words, 400);
        assert!(!wide.1.contains("narrow"), "{words}: {}", wide.1);
        for columns in [80, 40] {
            let (lines, notes) = shown(&store, words, columns);
            let width = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
            assert!(
                width <= columns.into(),
                "{words}, {columns}:\n{}",
                lines.join("\n")
            );
            assert!(lines[0].contains(always), "{words}: {}", lines[0]);
            if words == "history findings" {
                // What does not fit is below each row.
                let is_there = |text: &str| lines.iter().any(|line| line.contains(text));
                assert!(
                    is_there("remedy") && is_there("evidence"),
                    "{columns}:\n{}",
                    lines.join("\n")
                );
                continue;
            }
            assert_eq!(
                lines.len(),
                wide.0.len(),
                "{words}, {columns}:\n{}",
                lines.join("\n")
            );
            let headings = |lines: &[String]| lines[0].split_whitespace().count();
            if columns == 40 {
                assert!(headings(&lines) < headings(&wide.0), "{words}: {}", lines[0]);
            }
            let left_out = notes
                .lines()
                .find(|line| line.contains("not shown in so narrow a terminal: "));
            let is_named = left_out.is_some_and(|line| line.ends_with(": --format csv has all"));
            assert!(
                is_named || columns == 80 || words != "history top",
                "{words}: {notes}"
            );
        }
    }
}
